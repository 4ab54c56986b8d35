/* block.c - decoder blocks.
 *
 *   x [D, T] -> RMSNorm -> q, k, v -> (RMSNorm of each head) -> RoPE -> attention -> output -> (* scale) -> + x
 *            -> RMSNorm -> silu(gate) * up -> down -> (* scale) -> + x
 *
 * Upstream: Qwen3TTSTalkerDecoderLayer, Qwen3TTSDecoderLayer (head norms) and Qwen3TTSTokenizerV2DecoderTransformerLayer (layer scale). */
#include "block.h"

#include <math.h>
#include <stdlib.h>

#define FP16_MAX 65504.0f

static const char * const qkv_names[] = { "attn_q", "attn_k", "attn_v" };
static const char * const gate_up_names[] = { "ffn_gate", "ffn_up" };

enum qt_status stack_load(struct stack * stack, struct weights * w, const struct stack_sizes * sizes, enum block_kind kind, const char * prefix,
                          const char * norm_name) {
    stack->sizes = *sizes;
    stack->blocks = calloc((size_t) sizes->n_layers, sizeof *stack->blocks);
    if (!stack->blocks) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for the table of %d blocks", (int) sizes->n_layers);
    }
    int64_t D = sizes->hidden, F = sizes->feed_forward, hd = sizes->head_dim;
    int64_t q_width = hd * sizes->n_heads, kv_width = hd * sizes->n_kv_heads;
    for (int i = 0; i < sizes->n_layers; i++) {
        struct block_weights * b = &stack->blocks[i];
        b->attn_norm = weights_vector(w, D, "%s.blk.%d.attn_norm.weight", prefix, i);
        weights_join(w, &b->attn_qkv, D, 3, (int64_t[3]) { q_width, kv_width, kv_width }, qkv_names, "%s.blk.%d", prefix, i);
        b->attn_output = weights_matrix(w, q_width, D, "%s.blk.%d.attn_output.weight", prefix, i);
        if (kind == BLOCK_QK_NORM) {
            b->attn_q_norm = weights_vector(w, hd, "%s.blk.%d.attn_q_norm.weight", prefix, i);
            b->attn_k_norm = weights_vector(w, hd, "%s.blk.%d.attn_k_norm.weight", prefix, i);
        } else {
            b->attn_scale = weights_vector(w, D, "%s.blk.%d.attn_scale", prefix, i);
            b->ffn_scale = weights_vector(w, D, "%s.blk.%d.ffn_scale", prefix, i);
        }
        b->ffn_norm = weights_vector(w, D, "%s.blk.%d.ffn_norm.weight", prefix, i);
        weights_join(w, &b->ffn_gate_up, D, 2, (int64_t[2]) { F, F }, gate_up_names, "%s.blk.%d", prefix, i);
        b->ffn_down = weights_matrix(w, F, D, "%s.blk.%d.ffn_down.weight", prefix, i);
    }
    weights_none(w, "%s.blk.%d.attn_norm.weight", prefix, (int) sizes->n_layers);
    stack->norm = weights_vector(w, D, "%s", norm_name);
    return w->status;
}

void stack_free(struct stack * stack) {
    free(stack->blocks);
    *stack = (struct stack) { 0 };
}

struct ggml_tensor * rms_norm_build(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * weight, float eps) {
    return ggml_mul(ctx, ggml_rms_norm(ctx, x, eps), weight);
}

struct ggml_tensor * linear_build(struct ggml_context * ctx, struct ggml_tensor * weight, struct ggml_tensor * bias, struct ggml_tensor * x) {
    struct ggml_tensor * y = ggml_mul_mat(ctx, weight, x);
    return bias ? ggml_add(ctx, y, bias) : y;
}

/* x [n_in, T] times each matrix: out[i] [n_out, T], a view of a longer row where matrices are joined. */
static void joined_build(struct ggml_context * ctx, const struct weights_joined * w, struct ggml_tensor * x, struct ggml_tensor ** out) {
    struct ggml_tensor * y = NULL;
    size_t offset = 0;
    for (int i = 0; i < w->n; i++) {
        if (w->matrix[i]) {
            y = ggml_mul_mat(ctx, w->matrix[i], x);
            offset = 0;
        }
        out[i] = y->ne[0] == w->n_out[i] ? y : ggml_view_2d(ctx, y, w->n_out[i], y->ne[1], y->nb[1], offset);
        offset += (size_t) w->n_out[i] * y->nb[0];
    }
}

/* x [n_heads*hd, T] seen as [hd, n_heads, T]. */
static struct ggml_tensor * heads_view(struct ggml_context * ctx, struct ggml_tensor * x, int64_t hd) {
    return ggml_view_3d(ctx, x, hd, x->ne[0] / hd, x->ne[1], (size_t) hd * x->nb[0], x->nb[1], 0);
}

/* x [n_heads*hd, T] -> [hd, n_heads, T], normed if there is a weight, turned by position. */
static struct ggml_tensor * heads_build(const struct block_run * run, struct ggml_tensor * x, struct ggml_tensor * norm) {
    struct ggml_context * ctx = run->arena->ctx;
    const struct stack_sizes * s = &run->stack->sizes;
    struct ggml_tensor * heads = heads_view(ctx, x, s->head_dim);
    if (norm) {
        heads = rms_norm_build(ctx, heads, norm, s->norm_eps);
    }
    return ggml_rope_ext(ctx, heads, run->positions, NULL, s->head_dim, GGML_ROPE_TYPE_NEOX, 0, s->rope_base, 1, 0, 1, 0, 0);
}

/* Write this graph's rows [hd, H_kv, T] to the cache and answer what attention reads, [hd, n_kv, H_kv]. The write is expanded at once:
 * the view does not depend on it, only the order of the graph puts it first. */
static struct ggml_tensor * through_cache(const struct block_run * run, struct ggml_tensor * layer, struct ggml_tensor * rows) {
    struct ggml_context * ctx = run->arena->ctx;
    struct ggml_tensor * flat = ggml_reshape_2d(ctx, layer, layer->ne[0], layer->ne[1] * layer->ne[2]); /* [hd, capacity*H_kv] */
    rows = ggml_is_contiguous(rows) ? rows : ggml_cont(ctx, rows);
    rows = ggml_reshape_2d(ctx, rows, rows->ne[0], rows->ne[1] * rows->ne[2]);                          /* [hd, H_kv*T] */
    ggml_build_forward_expand(run->arena->graph, ggml_set_rows(ctx, flat, rows, run->cache_rows));
    return kv_cache_view(ctx, layer, run->n_kv);
}

static struct ggml_tensor * attention_build(const struct block_run * run, const struct block_weights * w, int layer, struct ggml_tensor * x) {
    struct ggml_context * ctx = run->arena->ctx;
    const struct stack_sizes * s = &run->stack->sizes;
    int64_t T = x->ne[1];
    struct ggml_tensor * qkv[WEIGHTS_MAX_JOINED];
    joined_build(ctx, &w->attn_qkv, x, qkv);
    struct ggml_tensor * q = heads_build(run, qkv[0], w->attn_q_norm);
    struct ggml_tensor * k = heads_build(run, qkv[1], w->attn_k_norm);
    struct ggml_tensor * v = run->runner->clamp_fp16 ? ggml_clamp(ctx, qkv[2], -FP16_MAX, FP16_MAX) : qkv[2];
    v = heads_view(ctx, v, s->head_dim); /* [hd, H_kv, T] */

    q = ggml_permute(ctx, q, 0, 2, 1, 3); /* [hd, T, H] */
    if (run->cache) {
        k = through_cache(run, run->cache->k[layer], k); /* [hd, n_kv, H_kv] */
        v = through_cache(run, run->cache->v[layer], v); /* [hd, n_kv, H_kv] */
    } else {
        k = ggml_permute(ctx, k, 0, 2, 1, 3); /* [hd, T, H_kv] */
        v = ggml_permute(ctx, v, 0, 2, 1, 3); /* [hd, T, H_kv] */
    }

    float scale = 1.0f / sqrtf((float) s->head_dim);
    struct ggml_tensor * out;
    if (run->runner->fused_attention) {
        out = ggml_flash_attn_ext(ctx, q, k, v, run->mask, scale, 0, 0); /* [hd, H, T] */
    } else {
        struct ggml_tensor * scores = ggml_mul_mat(ctx, ggml_cont(ctx, k), ggml_cont(ctx, q)); /* [n_kv, T, H] */
        scores = ggml_soft_max_ext(ctx, scores, run->mask, scale, 0);
        v = ggml_cont(ctx, ggml_transpose(ctx, v));                     /* [n_kv, hd, H_kv] */
        out = ggml_mul_mat(ctx, v, scores);                             /* [hd, T, H] */
        out = ggml_cont(ctx, ggml_permute(ctx, out, 0, 2, 1, 3));       /* [hd, H, T] */
    }
    out = ggml_reshape_2d(ctx, out, (int64_t) s->head_dim * s->n_heads, T); /* [H*hd, T] */
    return ggml_mul_mat(ctx, w->attn_output, out);                          /* [D, T] */
}

static struct ggml_tensor * block_build(const struct block_run * run, int layer, struct ggml_tensor * x) {
    struct ggml_context * ctx = run->arena->ctx;
    const struct block_weights * w = &run->stack->blocks[layer];
    float eps = run->stack->sizes.norm_eps;

    struct ggml_tensor * y = attention_build(run, w, layer, rms_norm_build(ctx, x, w->attn_norm, eps));
    x = ggml_add(ctx, x, w->attn_scale ? ggml_mul(ctx, y, w->attn_scale) : y);

    struct ggml_tensor * gate_up[WEIGHTS_MAX_JOINED];
    joined_build(ctx, &w->ffn_gate_up, rms_norm_build(ctx, x, w->ffn_norm, eps), gate_up);
    y = ggml_swiglu_split(ctx, gate_up[0], gate_up[1]); /* [F, T] */
    y = ggml_mul_mat(ctx, w->ffn_down, y);              /* [D, T] */
    x = ggml_add(ctx, x, w->ffn_scale ? ggml_mul(ctx, y, w->ffn_scale) : y);
    return run->runner->clamp_fp16 ? ggml_clamp(ctx, x, -FP16_MAX, FP16_MAX) : x;
}

struct ggml_tensor * stack_build(const struct block_run * run, struct ggml_tensor * x, const char * tap_prefix) {
    for (int i = 0; i < run->stack->sizes.n_layers; i++) {
        x = block_build(run, i, x);
        if (tap_prefix) {
            arena_tap_rows(run->arena, x, "%s.blk.%d", tap_prefix, i);
        }
    }
    return x;
}
