/* table.c - the kernel table of one tier: which function computes an op, and which says how much scratch it needs.
 * Compiled once a tier. An op's function is cpu_op_<op in lower case>, its scratch function cpu_scratch_<the same>. */
#include "kernels.h"

#define DECLARE_OP(op) void KERNEL(cpu_op_##op)(const struct cpu_task * task, struct ggml_tensor * dst);
#define DECLARE_SCRATCH(op) size_t KERNEL(cpu_scratch_##op)(const struct ggml_tensor * dst, int nth);

/* X(id, op) */
#define OPS(X) \
    X(CPY, cpy) X(CONT, cont) X(REPEAT, repeat) X(CONCAT, concat) X(PAD, pad) X(PAD_REFLECT_1D, pad_reflect_1d) X(ADD, add) X(SUB, sub) \
    X(MUL, mul) X(DIV, div) X(GLU, glu) X(SCALE, scale) X(CLAMP, clamp) X(UNARY, unary) X(SQR, sqr) X(SQRT, sqrt) X(LOG, log) X(SNAKE, snake) \
    X(NORM, norm) X(RMS_NORM, rms_norm) X(SUM_ROWS, sum_rows) X(MEAN, mean) X(ARGMAX, argmax) X(GET_ROWS, get_rows) X(SET_ROWS, set_rows) \
    X(MUL_MAT, mul_mat) X(OUT_PROD, out_prod) X(ROPE, rope) X(SOFT_MAX, soft_max) X(FLASH_ATTN_EXT, flash_attn_ext) X(CONV_1D, conv_1d) \
    X(CONV_1D_DW, conv_1d_dw) X(CONV_TRANSPOSE_1D, conv_transpose_1d) X(COL2IM_1D, col2im_1d)
#define OPS_WITH_SCRATCH(X) X(MUL_MAT, mul_mat) X(OUT_PROD, out_prod) X(CONV_1D, conv_1d) X(CONV_TRANSPOSE_1D, conv_transpose_1d) \
    X(FLASH_ATTN_EXT, flash_attn_ext)

#define X(id, op) DECLARE_OP(op)
OPS(X)
#undef X
#define X(id, op) DECLARE_SCRATCH(op)
OPS_WITH_SCRATCH(X)
#undef X

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

bool KERNEL(mul_packed_exists)(void);
bool KERNEL(conv_packed_exists)(void);
bool KERNEL(conv_pack_kernel)(const struct ggml_tensor * kernel, int64_t stride, void * out);
bool KERNEL(conv_pairs)(const struct ggml_tensor * first, const struct ggml_tensor * second);
void KERNEL(conv_pair)(const struct cpu_task * task, struct ggml_tensor * first, struct ggml_tensor * second);
size_t KERNEL(conv_pair_scratch)(const struct ggml_tensor * first, const struct ggml_tensor * second, int nth);

extern const struct cpu_kernels KERNEL(cpu_kernels);
const struct cpu_kernels KERNEL(cpu_kernels) = {
    .name = TEXT(QT_TIER),
    .ops = {
#define X(id, op) [GGML_OP_##id] = KERNEL(cpu_op_##op),
        OPS(X)
#undef X
    },
    .scratch = {
#define X(id, op) [GGML_OP_##id] = KERNEL(cpu_scratch_##op),
        OPS_WITH_SCRATCH(X)
#undef X
    },
    .multiplies_packed = KERNEL(mul_packed_exists),
    .convolves_packed = KERNEL(conv_packed_exists),
    .pack_kernel = KERNEL(conv_pack_kernel),
    .pairs = KERNEL(conv_pairs),
    .pair = KERNEL(conv_pair),
    .pair_scratch = KERNEL(conv_pair_scratch),
};
