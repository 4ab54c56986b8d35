/* build_rows.c - builders of ops on whole rows: norms, one value of each row, and rows picked or written by index. */
#include "tensor.h"

static struct ggml_tensor * norm(struct ggml_context * ctx, enum ggml_op op, struct ggml_tensor * a, float eps) {
    if (!a) {
        return NULL;
    }
    GGML_ASSERT(a->type == GGML_TYPE_F32 && eps >= 0.0f);
    struct ggml_tensor * t = tensor_new_op(ctx, op, GGML_TYPE_F32, a->ne, a, NULL, NULL);
    if (t) {
        ggml_set_op_params_f32(t, 0, eps);
    }
    return t;
}

struct ggml_tensor * ggml_norm(struct ggml_context * ctx, struct ggml_tensor * a, float eps) { return norm(ctx, GGML_OP_NORM, a, eps); }
struct ggml_tensor * ggml_rms_norm(struct ggml_context * ctx, struct ggml_tensor * a, float eps) { return norm(ctx, GGML_OP_RMS_NORM, a, eps); }

/* One value of each row, in place of the row. */
static struct ggml_tensor * reduce(struct ggml_context * ctx, enum ggml_op op, struct ggml_tensor * a) {
    if (!a) {
        return NULL;
    }
    GGML_ASSERT(a->type == GGML_TYPE_F32 && ggml_is_contiguous_rows(a) && a->ne[0] > 0);
    int64_t ne[GGML_MAX_DIMS] = { 1, a->ne[1], a->ne[2], a->ne[3] };
    return tensor_new_op(ctx, op, GGML_TYPE_F32, ne, a, NULL, NULL); /* [1, m, ...] */
}

struct ggml_tensor * ggml_sum_rows(struct ggml_context * ctx, struct ggml_tensor * a) { return reduce(ctx, GGML_OP_SUM_ROWS, a); }
struct ggml_tensor * ggml_mean(struct ggml_context * ctx, struct ggml_tensor * a) { return reduce(ctx, GGML_OP_MEAN, a); }

struct ggml_tensor * ggml_argmax(struct ggml_context * ctx, struct ggml_tensor * a) {
    if (!a) {
        return NULL;
    }
    GGML_ASSERT(a->type == GGML_TYPE_F32 && ggml_is_contiguous_rows(a));
    GGML_ASSERT(a->ne[0] > 0 && a->ne[0] <= INT32_MAX && a->ne[2] == 1 && a->ne[3] == 1);
    int64_t ne[GGML_MAX_DIMS] = { a->ne[1], 1, 1, 1 };
    return tensor_new_op(ctx, GGML_OP_ARGMAX, GGML_TYPE_I32, ne, a, NULL, NULL); /* [m] */
}

struct ggml_tensor * ggml_get_rows(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b) {
    if (!a || !b) {
        return NULL;
    }
    GGML_ASSERT((ggml_get_type_traits(a->type)->to_float || a->type == GGML_TYPE_I32) && ggml_is_contiguous_rows(a));
    GGML_ASSERT(b->type == GGML_TYPE_I32 && b->ne[3] == 1);
    GGML_ASSERT(a->ne[2] == b->ne[1] && a->ne[3] == b->ne[2]); /* each matrix of a has its own column of indices */
    int64_t ne[GGML_MAX_DIMS] = { a->ne[0], b->ne[0], b->ne[1], b->ne[2] };
    enum ggml_type type = a->type == GGML_TYPE_I32 ? GGML_TYPE_I32 : GGML_TYPE_F32; /* numbers stay numbers, as in ggml */
    return tensor_new_op(ctx, GGML_OP_GET_ROWS, type, ne, a, b, NULL);              /* [n, r, ...] */
}

struct ggml_tensor * ggml_set_rows(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b, struct ggml_tensor * c) {
    if (!a || !b || !c) {
        return NULL;
    }
    GGML_ASSERT(ggml_get_type_traits(a->type)->from_float_ref && ggml_is_contiguous_rows(a));
    GGML_ASSERT(b->type == GGML_TYPE_F32 && c->type == GGML_TYPE_I64);
    GGML_ASSERT(a->ne[0] == b->ne[0] && a->ne[2] == b->ne[2] && a->ne[3] == b->ne[3]);
    GGML_ASSERT(b->ne[1] == c->ne[0] && c->ne[3] == 1);
    GGML_ASSERT(c->ne[1] > 0 && c->ne[2] > 0 && b->ne[2] % c->ne[1] == 0 && b->ne[3] % c->ne[2] == 0);
    struct ggml_tensor * t = tensor_new_view(ctx, GGML_OP_SET_ROWS, a, a->ne, a->nb, 0); /* [n, m, ...] */
    if (t) {
        t->src[0] = b;
        t->src[1] = c;
        t->src[2] = a;
    }
    return t;
}
