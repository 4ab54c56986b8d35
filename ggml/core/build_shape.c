/* build_shape.c - builders that move or rename elements: views, reshapes and permutations share memory; cpy, cont, concat, repeat and pad compute.
 * Views give their source's memory another ne and nb; nothing is checked against data, only against the size of the memory. */
#include "tensor.h"

struct ggml_tensor * ggml_cpy(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b) {
    if (!a || !b) {
        return NULL;
    }
    GGML_ASSERT(ggml_nelements(a) == ggml_nelements(b));
    struct ggml_tensor * t = tensor_new_view(ctx, GGML_OP_CPY, b, b->ne, b->nb, 0);
    if (t) {
        t->src[0] = a;
        t->src[1] = b;
    }
    return t;
}

struct ggml_tensor * ggml_cont(struct ggml_context * ctx, struct ggml_tensor * a) {
    return a ? tensor_new_op(ctx, GGML_OP_CONT, a->type, a->ne, a, NULL, NULL) : NULL;
}

struct ggml_tensor * ggml_cast(struct ggml_context * ctx, struct ggml_tensor * a, enum ggml_type type) {
    return a ? tensor_new_op(ctx, GGML_OP_CPY, type, a->ne, a, NULL, NULL) : NULL; /* no src1: the result is its own target */
}

struct ggml_tensor * ggml_concat(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b, int dim) {
    GGML_ASSERT(dim >= 0 && dim < GGML_MAX_DIMS);
    if (!a || !b) {
        return NULL;
    }
    GGML_ASSERT(a->type == b->type);
    int64_t ne[GGML_MAX_DIMS];
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        GGML_ASSERT(i == dim || a->ne[i] == b->ne[i]);
        ne[i] = i == dim ? a->ne[i] + b->ne[i] : a->ne[i];
    }
    struct ggml_tensor * t = tensor_new_op(ctx, GGML_OP_CONCAT, a->type, ne, a, b, NULL);
    if (t) {
        ggml_set_op_params_i32(t, 0, dim);
    }
    return t;
}

struct ggml_tensor * ggml_repeat(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b) {
    if (!a || !b) {
        return NULL;
    }
    GGML_ASSERT(ggml_can_repeat(a, b));
    return tensor_new_op(ctx, GGML_OP_REPEAT, a->type, b->ne, a, NULL, NULL); /* b gives only its shape */
}

struct ggml_tensor * ggml_pad_ext(struct ggml_context * ctx, struct ggml_tensor * a, int lp0, int rp0, int lp1, int rp1, int lp2, int rp2,
                                  int lp3, int rp3) {
    if (!a) {
        return NULL;
    }
    GGML_ASSERT(a->type == GGML_TYPE_F32);
    int pads[2 * GGML_MAX_DIMS] = { lp0, rp0, lp1, rp1, lp2, rp2, lp3, rp3 };
    int64_t ne[GGML_MAX_DIMS];
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        GGML_ASSERT(pads[2 * i] >= 0 && pads[2 * i + 1] >= 0);
        ne[i] = a->ne[i] + pads[2 * i] + pads[2 * i + 1];
    }
    struct ggml_tensor * t = tensor_new_op(ctx, GGML_OP_PAD, GGML_TYPE_F32, ne, a, NULL, NULL);
    for (int i = 0; t && i < 2 * GGML_MAX_DIMS; i++) {
        ggml_set_op_params_i32(t, i, pads[i]);
    }
    return t;
}

struct ggml_tensor * ggml_pad_reflect_1d(struct ggml_context * ctx, struct ggml_tensor * a, int p0, int p1) {
    if (!a) {
        return NULL;
    }
    GGML_ASSERT(a->type == GGML_TYPE_F32);
    GGML_ASSERT(p0 >= 0 && p1 >= 0 && p0 < a->ne[0] && p1 < a->ne[0]); /* the edge itself is not mirrored */
    int64_t ne[GGML_MAX_DIMS] = { p0 + a->ne[0] + p1, a->ne[1], a->ne[2], a->ne[3] };
    struct ggml_tensor * t = tensor_new_op(ctx, GGML_OP_PAD_REFLECT_1D, GGML_TYPE_F32, ne, a, NULL, NULL);
    if (t) {
        ggml_set_op_params_i32(t, 0, p0);
        ggml_set_op_params_i32(t, 1, p1);
    }
    return t;
}

struct ggml_tensor * ggml_reshape_4d(struct ggml_context * ctx, struct ggml_tensor * a, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) {
    if (!a) {
        return NULL;
    }
    GGML_ASSERT(ggml_is_contiguous(a));
    GGML_ASSERT(ggml_nelements(a) == ne0 * ne1 * ne2 * ne3);
    int64_t ne[GGML_MAX_DIMS] = { ne0, ne1, ne2, ne3 };
    return tensor_new_view(ctx, GGML_OP_RESHAPE, a, ne, NULL, 0);
}

struct ggml_tensor * ggml_reshape(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b) {
    return b ? ggml_reshape_4d(ctx, a, b->ne[0], b->ne[1], b->ne[2], b->ne[3]) : NULL;
}

struct ggml_tensor * ggml_reshape_1d(struct ggml_context * ctx, struct ggml_tensor * a, int64_t ne0) {
    return ggml_reshape_4d(ctx, a, ne0, 1, 1, 1);
}

struct ggml_tensor * ggml_reshape_2d(struct ggml_context * ctx, struct ggml_tensor * a, int64_t ne0, int64_t ne1) {
    return ggml_reshape_4d(ctx, a, ne0, ne1, 1, 1);
}

struct ggml_tensor * ggml_reshape_3d(struct ggml_context * ctx, struct ggml_tensor * a, int64_t ne0, int64_t ne1, int64_t ne2) {
    return ggml_reshape_4d(ctx, a, ne0, ne1, ne2, 1);
}

struct ggml_tensor * ggml_view_4d(struct ggml_context * ctx, struct ggml_tensor * a, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3,
                                  size_t nb1, size_t nb2, size_t nb3, size_t offset) {
    if (!a) {
        return NULL;
    }
    int64_t ne[GGML_MAX_DIMS] = { ne0, ne1, ne2, ne3 };
    size_t nb[GGML_MAX_DIMS] = { ggml_type_size(a->type), nb1, nb2, nb3 };
    return tensor_new_view(ctx, GGML_OP_VIEW, a, ne, nb, offset);
}

struct ggml_tensor * ggml_view_1d(struct ggml_context * ctx, struct ggml_tensor * a, int64_t ne0, size_t offset) {
    if (!a) {
        return NULL;
    }
    int64_t ne[GGML_MAX_DIMS] = { ne0, 1, 1, 1 };
    return tensor_new_view(ctx, GGML_OP_VIEW, a, ne, NULL, offset);
}

/* Strides of axes that a 2-D or 3-D view does not name are those of a packed continuation. */
struct ggml_tensor * ggml_view_2d(struct ggml_context * ctx, struct ggml_tensor * a, int64_t ne0, int64_t ne1, size_t nb1, size_t offset) {
    size_t nb2 = nb1 * (size_t) ne1;
    return ggml_view_4d(ctx, a, ne0, ne1, 1, 1, nb1, nb2, nb2, offset);
}

struct ggml_tensor * ggml_view_3d(struct ggml_context * ctx, struct ggml_tensor * a, int64_t ne0, int64_t ne1, int64_t ne2, size_t nb1, size_t nb2,
                                  size_t offset) {
    return ggml_view_4d(ctx, a, ne0, ne1, ne2, 1, nb1, nb2, nb2 * (size_t) ne2, offset);
}

/* Axis i of a becomes axis axis_i of the result. */
struct ggml_tensor * ggml_permute(struct ggml_context * ctx, struct ggml_tensor * a, int axis0, int axis1, int axis2, int axis3) {
    int axes[GGML_MAX_DIMS] = { axis0, axis1, axis2, axis3 };
    unsigned seen = 0;
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        GGML_ASSERT(axes[i] >= 0 && axes[i] < GGML_MAX_DIMS);
        seen |= 1u << axes[i];
    }
    GGML_ASSERT(seen == 15u);
    if (!a) {
        return NULL;
    }
    int64_t ne[GGML_MAX_DIMS];
    size_t nb[GGML_MAX_DIMS];
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        ne[axes[i]] = a->ne[i];
        nb[axes[i]] = a->nb[i];
    }
    struct ggml_tensor * t = tensor_new_view(ctx, GGML_OP_PERMUTE, a, ne, nb, 0);
    for (int i = 0; t && i < GGML_MAX_DIMS; i++) {
        ggml_set_op_params_i32(t, i, axes[i]);
    }
    return t;
}

struct ggml_tensor * ggml_transpose(struct ggml_context * ctx, struct ggml_tensor * a) {
    if (!a) {
        return NULL;
    }
    int64_t ne[GGML_MAX_DIMS] = { a->ne[1], a->ne[0], a->ne[2], a->ne[3] };
    size_t nb[GGML_MAX_DIMS] = { a->nb[1], a->nb[0], a->nb[2], a->nb[3] };
    return tensor_new_view(ctx, GGML_OP_TRANSPOSE, a, ne, nb, 0);
}
