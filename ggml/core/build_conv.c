/* build_conv.c - builders of convolutions over time, time first: conv_1d, depthwise conv_1d_dw, col2im_1d.
 * x [T, IC] -> [T_out, OC], packed F32. No op makes an im2col matrix. */
#include "tensor.h"

/* Time steps of a convolution's output; a kernel that does not fit the padded input is a programming error. */
static int64_t conv_steps(int64_t T, int64_t K, int s0, int p0, int d0) {
    GGML_ASSERT(K > 0 && s0 > 0 && p0 >= 0 && d0 > 0);
    int64_t span = T + 2 * (int64_t) p0 - (int64_t) d0 * (K - 1) - 1;
    GGML_ASSERT(span >= 0);
    return span / s0 + 1;
}

static struct ggml_tensor * conv(struct ggml_context * ctx, enum ggml_op op, struct ggml_tensor * a, struct ggml_tensor * b, int64_t OC,
                                 int s0, int p0, int d0) {
    GGML_ASSERT(ggml_get_type_traits(a->type)->to_float && ggml_is_contiguous(a));
    GGML_ASSERT(b->type == GGML_TYPE_F32);
    GGML_ASSERT(b->ne[2] == 1 && b->ne[3] == 1 && a->ne[3] == 1);
    int64_t ne[GGML_MAX_DIMS] = { conv_steps(b->ne[0], a->ne[0], s0, p0, d0), OC, 1, 1 };
    struct ggml_tensor * t = tensor_new_op(ctx, op, GGML_TYPE_F32, ne, a, b, NULL); /* [T_out, OC] */
    if (t) {
        ggml_set_op_params_i32(t, 0, s0);
        ggml_set_op_params_i32(t, 1, p0);
        ggml_set_op_params_i32(t, 2, d0);
        ggml_set_op_params_i32(t, 3, GGML_CONV_ACT_NONE);
        ggml_set_op_params_i32(t, 4, GGML_PREC_F32);
    }
    return t;
}

struct ggml_tensor * ggml_conv_1d(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b, int s0, int p0, int d0) {
    if (!a || !b) {
        return NULL;
    }
    GGML_ASSERT(a->ne[1] == b->ne[1]); /* IC */
    return conv(ctx, GGML_OP_CONV_1D, a, b, a->ne[2], s0, p0, d0);
}

struct ggml_tensor * ggml_conv_1d_dw(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b, int s0, int p0, int d0) {
    if (!a || !b) {
        return NULL;
    }
    GGML_ASSERT(a->ne[1] == 1 && a->ne[2] == b->ne[1]); /* one kernel a channel */
    return conv(ctx, GGML_OP_CONV_1D_DW, a, b, b->ne[1], s0, p0, d0);
}

static bool is_vector(const struct ggml_tensor * t, int64_t n) { return t->type == GGML_TYPE_F32 && t->ne[0] == n && ggml_nelements(t) == n; }

/* Sources of ext behind those of the convolution; before: the columns that stand before the input. */
static void conv_set_ext(struct ggml_tensor * t, const struct ggml_conv_ext * ext, int64_t IC, int64_t before) {
    if (ext->past) {
        GGML_ASSERT(ext->past->type == GGML_TYPE_F32 && ext->past->ne[0] >= before && ext->past->ne[1] == IC && ggml_nrows(ext->past) == IC);
    }
    if (ext->act == GGML_CONV_ACT_SNAKE) {
        GGML_ASSERT(is_vector(ext->snake_a, IC) && is_vector(ext->snake_inv_b, IC));
        t->src[CONV_SRC_SNAKE_A] = ext->snake_a;
        t->src[CONV_SRC_SNAKE_INV_B] = ext->snake_inv_b;
    }
    GGML_ASSERT(!ext->bias || is_vector(ext->bias, t->ne[1]));
    GGML_ASSERT(!ext->residual || (ext->residual->type == GGML_TYPE_F32 && ggml_are_same_shape(ext->residual, t)));
    t->src[CONV_SRC_PAST] = ext->past;
    t->src[CONV_SRC_BIAS] = ext->bias;
    t->src[CONV_SRC_RESIDUAL] = ext->residual;
    ggml_set_op_params_i32(t, 3, ext->act);
    ggml_set_op_params_i32(t, 4, ext->prec);
    ggml_set_op_params_i32(t, 5, ext->passed_on);
}

struct ggml_tensor * ggml_conv_1d_causal(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b, int s0, int d0, const struct ggml_conv_ext * ext) {
    if (!a || !b) {
        return NULL;
    }
    GGML_ASSERT(ggml_get_type_traits(a->type)->to_float && ggml_is_contiguous(a) && b->type == GGML_TYPE_F32);
    GGML_ASSERT(a->ne[1] == b->ne[1] && b->ne[2] == 1 && b->ne[3] == 1 && a->ne[3] == 1 && b->ne[0] > 0);
    int64_t before = (a->ne[0] - 1) * d0 + 1 - s0;
    GGML_ASSERT(s0 > 0 && d0 > 0 && before >= 0 && before <= INT32_MAX);
    int64_t ne[GGML_MAX_DIMS] = { (b->ne[0] + s0 - 1) / s0, a->ne[2], 1, 1 };
    struct ggml_tensor * t = tensor_new_op(ctx, GGML_OP_CONV_1D, GGML_TYPE_F32, ne, a, b, NULL);
    if (t) {
        ggml_set_op_params_i32(t, 0, s0);
        ggml_set_op_params_i32(t, 1, (int32_t) before);
        ggml_set_op_params_i32(t, 2, d0);
        conv_set_ext(t, ext, b->ne[1], before);
    }
    return t;
}

struct ggml_tensor * ggml_conv_transpose_1d_causal(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b, int s0, const struct ggml_conv_ext * ext) {
    if (!a || !b) {
        return NULL;
    }
    GGML_ASSERT((a->type == GGML_TYPE_F32 || a->type == GGML_TYPE_F16 || a->type == GGML_TYPE_BF16) && ggml_is_contiguous(a) && b->type == GGML_TYPE_F32);
    GGML_ASSERT(a->ne[2] == b->ne[1] && b->ne[2] == 1 && b->ne[3] == 1 && a->ne[3] == 1 && b->ne[0] > 0);
    GGML_ASSERT(s0 > 0 && a->ne[0] >= s0 && !ext->residual);
    int64_t ne[GGML_MAX_DIMS] = { b->ne[0] * s0, a->ne[1], 1, 1 };
    struct ggml_tensor * t = tensor_new_op(ctx, GGML_OP_CONV_TRANSPOSE_1D, GGML_TYPE_F32, ne, a, b, NULL);
    if (t) {
        ggml_set_op_params_i32(t, 0, s0);
        conv_set_ext(t, ext, b->ne[1], (a->ne[0] + s0 - 1) / s0 - 1);
    }
    return t;
}

struct ggml_tensor * ggml_col2im_1d(struct ggml_context * ctx, struct ggml_tensor * cols, int s0, int oc, int p0) {
    if (!cols) {
        return NULL;
    }
    GGML_ASSERT(cols->type == GGML_TYPE_F32 && ggml_is_contiguous_rows(cols));
    GGML_ASSERT(s0 > 0 && oc > 0 && p0 >= 0);
    GGML_ASSERT(cols->ne[0] % oc == 0 && cols->ne[1] > 0 && cols->ne[2] == 1 && cols->ne[3] == 1);
    int64_t K = cols->ne[0] / oc;
    int64_t T_out = (cols->ne[1] - 1) * s0 + K - 2 * (int64_t) p0;
    GGML_ASSERT(T_out > 0);
    int64_t ne[GGML_MAX_DIMS] = { T_out, oc, 1, 1 };
    struct ggml_tensor * t = tensor_new_op(ctx, GGML_OP_COL2IM_1D, GGML_TYPE_F32, ne, cols, NULL, NULL); /* [T_out, OC] */
    if (t) {
        ggml_set_op_params_i32(t, 0, s0);
        ggml_set_op_params_i32(t, 1, oc);
        ggml_set_op_params_i32(t, 2, p0);
    }
    return t;
}
