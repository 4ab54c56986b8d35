/* mul_f32.h - what mul_mat.c does for GGML_PREC_F32. */
#pragma once

#include "../kernels.h"

void KERNEL(mul_f32)(const struct cpu_task * task, struct ggml_tensor * dst);
size_t KERNEL(mul_f32_scratch)(const struct ggml_tensor * dst, int nth);
