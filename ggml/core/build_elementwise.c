/* build_elementwise.c - builders of ops that compute each element from elements at the same place: binary, unary, powers, log, scale, clamp, gate,
 * snake.
 * a, b -> a packed F32 result of a's shape. Sources may be strided; b of a binary op is tiled to a's shape. */
#include "tensor.h"

static struct ggml_tensor * binary(struct ggml_context * ctx, enum ggml_op op, struct ggml_tensor * a, struct ggml_tensor * b) {
    if (!a || !b) {
        return NULL;
    }
    GGML_ASSERT(a->type == GGML_TYPE_F32 && b->type == GGML_TYPE_F32);
    GGML_ASSERT(ggml_can_repeat(b, a));
    return tensor_new_op(ctx, op, GGML_TYPE_F32, a->ne, a, b, NULL);
}

struct ggml_tensor * ggml_add(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b) {
    return binary(ctx, GGML_OP_ADD, a, b);
}

struct ggml_tensor * ggml_sub(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b) {
    return binary(ctx, GGML_OP_SUB, a, b);
}

struct ggml_tensor * ggml_mul(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b) {
    return binary(ctx, GGML_OP_MUL, a, b);
}

struct ggml_tensor * ggml_div(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b) {
    return binary(ctx, GGML_OP_DIV, a, b);
}

struct ggml_tensor * ggml_swiglu_split(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b) {
    if (!a || !b) {
        return NULL;
    }
    GGML_ASSERT(a->type == GGML_TYPE_F32 && b->type == GGML_TYPE_F32);
    GGML_ASSERT(ggml_are_same_shape(a, b));
    return tensor_new_op(ctx, GGML_OP_GLU, GGML_TYPE_F32, a->ne, a, b, NULL);
}

static struct ggml_tensor * of_one(struct ggml_context * ctx, enum ggml_op op, struct ggml_tensor * a) {
    if (!a) {
        return NULL;
    }
    GGML_ASSERT(a->type == GGML_TYPE_F32);
    return tensor_new_op(ctx, op, GGML_TYPE_F32, a->ne, a, NULL, NULL);
}

struct ggml_tensor * ggml_scale(struct ggml_context * ctx, struct ggml_tensor * a, float s) {
    struct ggml_tensor * t = of_one(ctx, GGML_OP_SCALE, a);
    if (t) {
        ggml_set_op_params_f32(t, 0, s);
    }
    return t;
}

struct ggml_tensor * ggml_clamp(struct ggml_context * ctx, struct ggml_tensor * a, float min, float max) {
    GGML_ASSERT(min <= max);
    struct ggml_tensor * t = of_one(ctx, GGML_OP_CLAMP, a);
    if (t) {
        ggml_set_op_params_f32(t, 0, min);
        ggml_set_op_params_f32(t, 1, max);
    }
    return t;
}

struct ggml_tensor * ggml_unary(struct ggml_context * ctx, struct ggml_tensor * a, enum ggml_unary_op op) {
    GGML_ASSERT((unsigned) op < GGML_UNARY_OP_COUNT);
    struct ggml_tensor * t = of_one(ctx, GGML_OP_UNARY, a);
    if (t) {
        ggml_set_op_params_i32(t, 0, (int32_t) op);
    }
    return t;
}

struct ggml_tensor * ggml_tanh(struct ggml_context * ctx, struct ggml_tensor * a) { return ggml_unary(ctx, a, GGML_UNARY_OP_TANH); }
struct ggml_tensor * ggml_relu(struct ggml_context * ctx, struct ggml_tensor * a) { return ggml_unary(ctx, a, GGML_UNARY_OP_RELU); }
struct ggml_tensor * ggml_sigmoid(struct ggml_context * ctx, struct ggml_tensor * a) { return ggml_unary(ctx, a, GGML_UNARY_OP_SIGMOID); }
struct ggml_tensor * ggml_gelu(struct ggml_context * ctx, struct ggml_tensor * a) { return ggml_unary(ctx, a, GGML_UNARY_OP_GELU); }
struct ggml_tensor * ggml_gelu_erf(struct ggml_context * ctx, struct ggml_tensor * a) { return ggml_unary(ctx, a, GGML_UNARY_OP_GELU_ERF); }
struct ggml_tensor * ggml_silu(struct ggml_context * ctx, struct ggml_tensor * a) { return ggml_unary(ctx, a, GGML_UNARY_OP_SILU); }
struct ggml_tensor * ggml_elu(struct ggml_context * ctx, struct ggml_tensor * a) { return ggml_unary(ctx, a, GGML_UNARY_OP_ELU); }

struct ggml_tensor * ggml_sqr(struct ggml_context * ctx, struct ggml_tensor * a) { return of_one(ctx, GGML_OP_SQR, a); }
struct ggml_tensor * ggml_sqrt(struct ggml_context * ctx, struct ggml_tensor * a) { return of_one(ctx, GGML_OP_SQRT, a); }
struct ggml_tensor * ggml_log(struct ggml_context * ctx, struct ggml_tensor * a) { return of_one(ctx, GGML_OP_LOG, a); }

struct ggml_tensor * ggml_snake(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * a, struct ggml_tensor * inv_b) {
    if (!x || !a || !inv_b) {
        return NULL;
    }
    GGML_ASSERT(x->type == GGML_TYPE_F32 && a->type == GGML_TYPE_F32 && inv_b->type == GGML_TYPE_F32);
    GGML_ASSERT(ggml_nelements(a) == x->ne[1] && ggml_nelements(inv_b) == x->ne[1]); /* one pair a channel */
    GGML_ASSERT(ggml_is_contiguous(a) && ggml_is_contiguous(inv_b));
    return tensor_new_op(ctx, GGML_OP_SNAKE, GGML_TYPE_F32, x->ne, x, a, inv_b); /* [T, C] */
}
