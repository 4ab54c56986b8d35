/* mul_vec.h - what mul_mat.c hands to mul_vec.c: products with few columns. */
#pragma once

#include "../kernels.h"

#define MUL_VEC_COLS 8 /* most columns of the second operand that mul_vec.c takes */

void KERNEL(mul_vec)(const struct cpu_task * task, struct ggml_tensor * dst);
size_t KERNEL(mul_vec_scratch)(const struct ggml_tensor * dst, int nth);
