/* mul_amx.h - what mul_mat.c does with float weights where the tier has AMX tiles. */
#pragma once

#include "../kernels.h"

#if defined(QT_TIER_AMX)
/* Decided by the matrix alone where results must not depend on the number of columns. */
bool KERNEL(mul_amx_takes)(const struct ggml_tensor * dst);
void KERNEL(mul_amx)(const struct cpu_task * task, struct ggml_tensor * dst);
size_t KERNEL(mul_amx_scratch)(const struct ggml_tensor * dst, int nth);
#endif
