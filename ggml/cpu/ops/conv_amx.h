/* conv_amx.h - conv_1d and conv_transpose_1d where the tier has AMX tiles. */
#pragma once

#include "../kernels.h"

#if defined(QT_TIER_AMX)
/* Enough channels to fill tiles; decided by the weights alone, so that a sample does not depend on how many are asked for. */
bool KERNEL(conv_amx_takes)(const struct ggml_tensor * dst);
void KERNEL(conv_amx)(const struct cpu_task * task, struct ggml_tensor * dst);
size_t KERNEL(conv_amx_scratch)(const struct ggml_tensor * dst, int nth);

/* A convolution and the one of one tap behind it that alone reads its result, which is not written; see kernels.h. */
bool KERNEL(conv_amx_pairs)(const struct ggml_tensor * first, const struct ggml_tensor * second);
void KERNEL(conv_amx_pair)(const struct cpu_task * task, struct ggml_tensor * first, struct ggml_tensor * second);
size_t KERNEL(conv_amx_pair_scratch)(const struct ggml_tensor * first, const struct ggml_tensor * second, int nth);
#endif
