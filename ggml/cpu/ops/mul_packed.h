/* mul_packed.h - what mul_mat.c hands to mul_packed.c: products with matrices of packed.h. */
#pragma once

#include "../kernels.h"
#include "../packed.h"

bool   KERNEL(mul_packed_exists)(void);
void   KERNEL(mul_packed)(const struct cpu_task * task, struct ggml_tensor * dst);
size_t KERNEL(mul_packed_scratch)(const struct ggml_tensor * dst, int nth);

#if defined(QT_TIER_AMX)
void   KERNEL(mul_packed_amx)(const struct cpu_task * task, struct ggml_tensor * dst); /* more columns than a frame has */
size_t KERNEL(mul_packed_amx_scratch)(const struct ggml_tensor * dst, int nth);
#endif
