/* conv_amx_result.h - sums of a convolution on AMX tiles, with bias and residual, to where its result lies: time first. */
#pragma once

#include "conv_amx_weights.h"

#if defined(QT_TIER_AMX)

/* Rows t0 .. t0 + n - 1 of a panel. */
void KERNEL(conv_result_store)(const struct conv_weights * w, const struct ggml_tensor * dst, int64_t panel, int64_t t0, int64_t n, float (*sums)[AMX_BLOCK]);

#endif
