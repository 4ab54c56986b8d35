/* conv_amx_rows.h - what a convolution on AMX tiles reads: rows of 32 channels at a moment, 64 bytes in each part, after the activation. */
#pragma once

#include "amx.h"

#if defined(QT_TIER_AMX)

/* n samples from first on of the 32 input channels of block b; out: place of the first in part 0, parts part bytes apart. Written in whole groups of 16 rows. */
void KERNEL(conv_rows_pack)(const struct ggml_tensor * dst, int64_t b, int64_t first, int64_t n, int64_t part, char * out);

/* The same from the sums of the convolution before, before_dst, that dst alone reads: n rows of cols <= 32 of its channels from oc on, which are one block of dst's. */
void KERNEL(conv_rows_pass)(const struct ggml_tensor * before_dst, const struct ggml_tensor * dst, int64_t oc, int cols, int64_t n, float (*sums)[AMX_BLOCK],
                            int64_t part, char * out);

#endif
