/* build_matmul.c - builders of products and attention: mul_mat, out_prod, rope, soft_max, flash_attn_ext.
 * Results are F32 and packed. Heads may be grouped: axis 2 of q is a multiple of that of k and v. */
#include "tensor.h"

/* Axes 2 and 3 of b are multiples of a's. */
static bool tiles_outer(const struct ggml_tensor * a, const struct ggml_tensor * b) {
    return a->ne[2] > 0 && a->ne[3] > 0 && b->ne[2] % a->ne[2] == 0 && b->ne[3] % a->ne[3] == 0;
}

struct ggml_tensor * ggml_mul_mat(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b) {
    if (!a || !b) {
        return NULL;
    }
    GGML_ASSERT(a->ne[0] == b->ne[0] && tiles_outer(a, b));
    GGML_ASSERT(ggml_is_contiguous_rows(a)); /* a product reads whole rows of a */
    GGML_ASSERT(ggml_get_type_traits(a->type)->to_float && b->type == GGML_TYPE_F32);
    int64_t ne[GGML_MAX_DIMS] = { a->ne[1], b->ne[1], b->ne[2], b->ne[3] };
    return tensor_new_op(ctx, GGML_OP_MUL_MAT, GGML_TYPE_F32, ne, a, b, NULL); /* [M, N, ...] */
}

void ggml_mul_mat_set_prec(struct ggml_tensor * a, enum ggml_prec prec) {
    if (a) {
        GGML_ASSERT(a->op == GGML_OP_MUL_MAT);
        ggml_set_op_params_i32(a, 0, (int32_t) prec);
    }
}

struct ggml_tensor * ggml_out_prod(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b) {
    if (!a || !b) {
        return NULL;
    }
    GGML_ASSERT(a->ne[1] == b->ne[1] && tiles_outer(a, b));
    GGML_ASSERT(a->type == GGML_TYPE_F32 || a->type == GGML_TYPE_F16 || a->type == GGML_TYPE_BF16);
    GGML_ASSERT(b->type == GGML_TYPE_F32);
    int64_t ne[GGML_MAX_DIMS] = { a->ne[0], b->ne[0], b->ne[2], b->ne[3] };
    return tensor_new_op(ctx, GGML_OP_OUT_PROD, GGML_TYPE_F32, ne, a, b, NULL); /* [M, N, ...] */
}

struct ggml_tensor * ggml_rope_ext(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b, struct ggml_tensor * freq_factors,
                                   int n_dims, int mode, int n_ctx_orig, float freq_base, float freq_scale, float ext_factor,
                                   float attn_factor, float beta_fast, float beta_slow) {
    /* context extension is not part of this model, so its parameters have nothing to act on */
    GGML_UNUSED(n_ctx_orig);
    GGML_UNUSED(beta_fast);
    GGML_UNUSED(beta_slow);
    GGML_ASSERT(!freq_factors && ext_factor == 0.0f);
    if (!a || !b) {
        return NULL;
    }
    GGML_ASSERT(mode == GGML_ROPE_TYPE_NORMAL || mode == GGML_ROPE_TYPE_NEOX);
    GGML_ASSERT(a->type == GGML_TYPE_F32 && b->type == GGML_TYPE_I32);
    GGML_ASSERT(n_dims > 0 && n_dims % 2 == 0 && n_dims <= a->ne[0]);
    GGML_ASSERT(ggml_nelements(b) == a->ne[2] && ggml_is_contiguous(b)); /* one position a time step */
    struct ggml_tensor * t = tensor_new_op(ctx, GGML_OP_ROPE, GGML_TYPE_F32, a->ne, a, b, NULL); /* [hd, H, T] */
    if (t) {
        ggml_set_op_params_i32(t, 0, n_dims);
        ggml_set_op_params_i32(t, 1, mode);
        ggml_set_op_params_f32(t, 2, freq_base);
        ggml_set_op_params_f32(t, 3, freq_scale);
        ggml_set_op_params_f32(t, 4, attn_factor);
    }
    return t;
}

/* A mask covers rows of n_kv for at least n_rows of them; its outer axes divide those of the scores. */
static void check_mask(const struct ggml_tensor * mask, int64_t n_kv, int64_t n_rows, int64_t ne2, int64_t ne3) {
    GGML_ASSERT(mask->type == GGML_TYPE_F32 || mask->type == GGML_TYPE_F16);
    GGML_ASSERT(ggml_is_contiguous_rows(mask));
    GGML_ASSERT(mask->ne[0] == n_kv && mask->ne[1] >= n_rows);
    GGML_ASSERT(mask->ne[2] > 0 && mask->ne[3] > 0 && ne2 % mask->ne[2] == 0 && ne3 % mask->ne[3] == 0);
}

struct ggml_tensor * ggml_soft_max_ext(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * mask, float scale, float max_bias) {
    GGML_ASSERT(max_bias == 0.0f);
    if (!a) {
        return NULL;
    }
    GGML_ASSERT(a->type == GGML_TYPE_F32);
    if (mask) {
        check_mask(mask, a->ne[0], a->ne[1], a->ne[2], a->ne[3]);
    }
    struct ggml_tensor * t = tensor_new_op(ctx, GGML_OP_SOFT_MAX, GGML_TYPE_F32, a->ne, a, mask, NULL); /* [n_kv, T, H] */
    if (t) {
        ggml_set_op_params_f32(t, 0, scale);
    }
    return t;
}

struct ggml_tensor * ggml_soft_max(struct ggml_context * ctx, struct ggml_tensor * a) { return ggml_soft_max_ext(ctx, a, NULL, 1.0f, 0.0f); }

struct ggml_tensor * ggml_flash_attn_ext(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k, struct ggml_tensor * v,
                                         struct ggml_tensor * mask, float scale, float max_bias, float logit_softcap) {
    GGML_ASSERT(max_bias == 0.0f && logit_softcap == 0.0f);
    if (!q || !k || !v) {
        return NULL;
    }
    GGML_ASSERT(q->type == GGML_TYPE_F32);
    GGML_ASSERT(k->type == GGML_TYPE_F32 || k->type == GGML_TYPE_F16 || k->type == GGML_TYPE_BF16);
    GGML_ASSERT(v->type == GGML_TYPE_F32 || v->type == GGML_TYPE_F16 || v->type == GGML_TYPE_BF16);
    GGML_ASSERT(ggml_is_contiguous_rows(q) && ggml_is_contiguous_rows(k) && ggml_is_contiguous_rows(v));
    GGML_ASSERT(q->ne[0] == k->ne[0] && k->ne[1] == v->ne[1] && k->ne[2] == v->ne[2] && k->ne[3] == v->ne[3]);
    GGML_ASSERT(tiles_outer(k, q));
    if (mask) {
        check_mask(mask, k->ne[1], q->ne[1], q->ne[2], q->ne[3]);
    }
    int64_t ne[GGML_MAX_DIMS] = { v->ne[0], q->ne[2], q->ne[1], q->ne[3] };
    struct ggml_tensor * t = tensor_new_op(ctx, GGML_OP_FLASH_ATTN_EXT, GGML_TYPE_F32, ne, q, k, v); /* [hd, H, T] */
    if (t) {
        t->src[3] = mask;
        ggml_set_op_params_f32(t, 0, scale);
    }
    return t;
}
