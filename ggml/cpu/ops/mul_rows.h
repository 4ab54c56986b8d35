/* mul_rows.h - what mul_mat.c hands to mul_rows.c: quantized weights times a few columns more than mul_vec.c takes, as a short prompt has. */
#pragma once

#include "../kernels.h"

/* dst is a product that this tier has a kernel for in mul_rows.c. */
bool KERNEL(mul_rows_takes)(const struct ggml_tensor * dst);
void KERNEL(mul_rows)(const struct cpu_task * task, struct ggml_tensor * dst);
size_t KERNEL(mul_rows_scratch)(const struct ggml_tensor * dst);
