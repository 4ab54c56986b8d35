/* codec_encoder.c - the encoder put together, and its transformer.
 *
 *   columns [D, T'] -> blocks -> [T', D] -> strided conv, edges repeated [T, D] -> [D, T] -> codes
 *   block: x -> LayerNorm -> q, k, v -> RoPE -> causal attention -> output -> * scale -> + x
 *            -> LayerNorm -> up -> GELU (erf) -> down -> * scale -> + x
 *
 * A column sees every one before it: the official code builds a plain causal mask, the checkpoint's sliding_window of 250 is not applied.
 * No norm follows the last block. Matrices that a file stores in blocks are widened to F32 first, since a product with few columns would round
 * its activations to 8 bits. Upstream: MimiTransformerModel, MimiModel._encode_frame. */
#include "codec_encoder.h"

#include <math.h>
#include <stdlib.h>

#define MAX_COLUMNS (1 << 17) /* each sees all before it: the mask is their square. Published files make 25 a second */

enum qt_status codec_encoder_load(struct codec_encoder * e, struct weights * w, const struct encoder_sizes * sizes, ggml_backend_t backend) {
    int64_t D = sizes->stack.hidden, F = sizes->stack.feed_forward;
    int64_t q_width = (int64_t) sizes->stack.head_dim * sizes->stack.n_heads, kv_width = (int64_t) sizes->stack.head_dim * sizes->stack.n_kv_heads;
    e->sizes = *sizes;
    QT_TRY(codec_seanet_load(&e->seanet, w, sizes));
    e->blocks = calloc((size_t) sizes->stack.n_layers, sizeof *e->blocks);
    if (!e->blocks) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for the table of %d blocks", (int) sizes->stack.n_layers);
    }
    for (int i = 0; i < sizes->stack.n_layers; i++) {
        e->blocks[i] = (struct encoder_block) {
            .attn_norm = weights_vector(w, D, "tok_enc.blk.%d.attn_norm.weight", i),
            .attn_norm_bias = weights_vector(w, D, "tok_enc.blk.%d.attn_norm.bias", i),
            .attn_q = weights_matrix(w, D, q_width, "tok_enc.blk.%d.attn_q.weight", i),
            .attn_k = weights_matrix(w, D, kv_width, "tok_enc.blk.%d.attn_k.weight", i),
            .attn_v = weights_matrix(w, D, kv_width, "tok_enc.blk.%d.attn_v.weight", i),
            .attn_output = weights_matrix(w, q_width, D, "tok_enc.blk.%d.attn_output.weight", i),
            .attn_scale = weights_vector(w, D, "tok_enc.blk.%d.attn_scale", i),
            .ffn_norm = weights_vector(w, D, "tok_enc.blk.%d.ffn_norm.weight", i),
            .ffn_norm_bias = weights_vector(w, D, "tok_enc.blk.%d.ffn_norm.bias", i),
            .ffn_up = weights_matrix(w, D, F, "tok_enc.blk.%d.ffn_up.weight", i),
            .ffn_down = weights_matrix(w, F, D, "tok_enc.blk.%d.ffn_down.weight", i),
            .ffn_scale = weights_vector(w, D, "tok_enc.blk.%d.ffn_scale", i),
        };
    }
    e->downsample = weights_kernel(w, sizes->downsample, CONV_MAX_KERNEL, D, D, "tok_enc.downsample.weight");
    QT_TRY(w->status);
    return codec_quantizer_load(&e->quantizer, w, sizes, backend);
}

void codec_encoder_free(struct codec_encoder * e) {
    codec_quantizer_free(&e->quantizer);
    free(e->blocks);
    *e = (struct codec_encoder) { 0 };
}

struct encode_graph {
    struct arena arena;
    struct ggml_tensor * columns;   /* F32 [D, T'] */
    struct ggml_tensor * positions; /* I32 [T'] */
    struct ggml_tensor * mask;      /* F32 [T', T'] */
    struct ggml_tensor * rows;      /* I32 [n]: 0 .. n-1, the rows of a matrix in blocks; NULL: the file has none */
    struct ggml_tensor ** codes;    /* [Q], each I32 [T] */
};

static struct ggml_tensor * product(const struct encode_graph * g, struct ggml_tensor * weight, struct ggml_tensor * x) {
    struct ggml_context * ctx = g->arena.ctx;
    if (ggml_is_quantized(weight->type)) {
        weight = ggml_get_rows(ctx, weight, ggml_view_1d(ctx, g->rows, weight->ne[1], 0)); /* F32 */
    }
    return ggml_mul_mat(ctx, weight, x);
}

static struct ggml_tensor * layer_norm(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * weight, struct ggml_tensor * bias, float eps) {
    return ggml_add(ctx, ggml_mul(ctx, ggml_norm(ctx, x, eps), weight), bias);
}

/* [n, T'] -> [hd, n_heads, T'] */
static struct ggml_tensor * heads(const struct encode_graph * g, const struct stack_sizes * s, struct ggml_tensor * x, int n_heads, bool turned) {
    x = ggml_reshape_3d(g->arena.ctx, x, s->head_dim, n_heads, x->ne[1]);
    return turned ? ggml_rope_ext(g->arena.ctx, x, g->positions, NULL, s->head_dim, GGML_ROPE_TYPE_NEOX, 0, s->rope_base, 1, 0, 1, 0, 0) : x;
}

static struct ggml_tensor * attention_build(const struct encode_graph * g, const struct stack_sizes * s, const struct encoder_block * w, bool fused,
                                            struct ggml_tensor * x) {
    struct ggml_context * ctx = g->arena.ctx;
    struct ggml_tensor * q = heads(g, s, product(g, w->attn_q, x), s->n_heads, true);
    struct ggml_tensor * k = heads(g, s, product(g, w->attn_k, x), s->n_kv_heads, true);
    struct ggml_tensor * v = heads(g, s, product(g, w->attn_v, x), s->n_kv_heads, false);
    q = ggml_permute(ctx, q, 0, 2, 1, 3); /* [hd, T', H] */
    k = ggml_permute(ctx, k, 0, 2, 1, 3); /* [hd, T', H_kv] */
    float scale = 1.0f / sqrtf((float) s->head_dim);
    struct ggml_tensor * out;
    if (fused) {
        v = ggml_permute(ctx, v, 0, 2, 1, 3);                            /* [hd, T', H_kv] */
        out = ggml_flash_attn_ext(ctx, q, k, v, g->mask, scale, 0, 0);   /* [hd, H, T'] */
    } else {
        struct ggml_tensor * scores = ggml_mul_mat(ctx, ggml_cont(ctx, k), ggml_cont(ctx, q)); /* [T', T', H] */
        scores = ggml_soft_max_ext(ctx, scores, g->mask, scale, 0);
        v = ggml_cont(ctx, ggml_permute(ctx, v, 1, 2, 0, 3));                                  /* [T', hd, H_kv] */
        out = ggml_cont(ctx, ggml_permute(ctx, ggml_mul_mat(ctx, v, scores), 0, 2, 1, 3));     /* [hd, H, T'] */
    }
    out = ggml_reshape_2d(ctx, out, (int64_t) s->head_dim * s->n_heads, x->ne[1]); /* [H*hd, T'] */
    return product(g, w->attn_output, out);                                        /* [D, T'] */
}

static struct ggml_tensor * block_build(const struct encode_graph * g, const struct stack_sizes * s, const struct encoder_block * w, bool fused,
                                        struct ggml_tensor * x) {
    struct ggml_context * ctx = g->arena.ctx;
    struct ggml_tensor * y = attention_build(g, s, w, fused, layer_norm(ctx, x, w->attn_norm, w->attn_norm_bias, s->norm_eps));
    x = ggml_add(ctx, x, ggml_mul(ctx, y, w->attn_scale));
    y = layer_norm(ctx, x, w->ffn_norm, w->ffn_norm_bias, s->norm_eps);
    y = ggml_gelu_erf(ctx, product(g, w->ffn_up, y)); /* [F, T'] */
    y = product(g, w->ffn_down, y);                   /* [D, T'] */
    return ggml_add(ctx, x, ggml_mul(ctx, y, w->ffn_scale));
}

/* Rows of the longest matrix that is stored in blocks; 0: none is. */
static int64_t rows_in_blocks(const struct codec_encoder * e) {
    int64_t most = 0;
    for (int i = 0; i < e->sizes.stack.n_layers; i++) {
        const struct encoder_block * b = &e->blocks[i];
        const struct ggml_tensor * all[] = { b->attn_q, b->attn_k, b->attn_v, b->attn_output, b->ffn_up, b->ffn_down };
        for (size_t j = 0; j < sizeof all / sizeof *all; j++) {
            if (ggml_is_quantized(all[j]->type) && all[j]->ne[1] > most) {
                most = all[j]->ne[1];
            }
        }
    }
    return most;
}

/* n copies of column t of x: [n, C]. */
static struct ggml_tensor * repeat_column(struct ggml_context * ctx, struct ggml_tensor * x, int64_t t, int64_t n) {
    struct ggml_tensor * column = ggml_view_2d(ctx, x, 1, x->ne[1], x->nb[1], (size_t) t * x->nb[0]);
    return ggml_repeat(ctx, column, ggml_new_tensor_2d(ctx, GGML_TYPE_F32, n, x->ne[1]));
}

/* Strided, without a bias; copies of the first and last column stand where other convolutions have zeros. */
static struct ggml_tensor * downsample_build(struct ggml_context * ctx, struct ggml_tensor * weight, struct ggml_tensor * x, int stride) {
    int64_t before = weight->ne[0] - stride, after = (stride - x->ne[0] % stride) % stride;
    struct ggml_tensor * whole = x;
    x = before ? ggml_concat(ctx, repeat_column(ctx, whole, 0, before), x, 0) : x;
    x = after ? ggml_concat(ctx, x, repeat_column(ctx, whole, whole->ne[0] - 1, after), 0) : x;
    return ggml_conv_1d(ctx, weight, x, stride, 0, 1); /* [T / stride, C] */
}

static enum qt_status build(struct encode_graph * g, const struct codec_encoder * e, const struct runner * runner, int64_t T) {
    const struct stack_sizes * s = &e->sizes.stack;
    struct arena * arena = &g->arena;
    QT_TRY(arena_begin(arena, runner, 48 + BLOCK_MAX_TENSORS * s->n_layers + 8 * e->quantizer.n_codebooks));
    struct ggml_context * ctx = arena->ctx;
    int64_t n_rows = rows_in_blocks(e);
    g->columns = arena_input(arena, GGML_TYPE_F32, s->hidden, T);
    g->positions = arena_input(arena, GGML_TYPE_I32, T, 1);
    g->mask = arena_input(arena, GGML_TYPE_F32, T, T);
    g->rows = n_rows ? arena_input(arena, GGML_TYPE_I32, n_rows, 1) : NULL;
    struct ggml_tensor * x = g->columns;
    for (int i = 0; i < s->n_layers; i++) {
        x = block_build(g, s, &e->blocks[i], runner->fused_attention, x);
        arena_tap_rows(arena, x, "codec_enc.blk.%d", i);
    }
    x = ggml_cont(ctx, ggml_transpose(ctx, x)); /* [T', D] */
    x = downsample_build(ctx, e->downsample, x, e->sizes.downsample); /* [T, D] */
    arena_tap_columns(arena, x, "codec_enc.downsample");
    codec_quantize_build(&e->quantizer, arena, ggml_cont(ctx, ggml_transpose(ctx, x)), g->codes);
    return arena_alloc(arena, runner);
}

static enum qt_status set_inputs(const struct encode_graph * g, const float * columns) {
    int64_t T = g->columns->ne[1], n = g->rows && g->rows->ne[0] > T ? g->rows->ne[0] : T;
    float * visible = malloc((size_t) T * sizeof *visible);
    int32_t * counted = malloc((size_t) n * sizeof *counted);
    enum qt_status status = visible && counted ? QT_STATUS_OK : QT_FAIL(QT_STATUS_OOM, "no memory for the mask of %lld columns", (long long) T);
    if (status == QT_STATUS_OK) {
        for (int64_t i = 0; i < n; i++) {
            counted[i] = (int32_t) i;
        }
        ggml_backend_tensor_set(g->columns, columns, 0, ggml_nbytes(g->columns));
        ggml_backend_tensor_set(g->positions, counted, 0, ggml_nbytes(g->positions));
        if (g->rows) {
            ggml_backend_tensor_set(g->rows, counted, 0, ggml_nbytes(g->rows));
        }
        for (int64_t i = 0; i < T; i++) {
            visible[i] = -INFINITY;
        }
        for (int64_t i = 0; i < T; i++) { /* row i sees columns 0 .. i */
            visible[i] = 0;
            ggml_backend_tensor_set(g->mask, visible, (size_t) i * g->mask->nb[1], g->mask->nb[1]);
        }
    }
    free(visible);
    free(counted);
    return status;
}

enum qt_status codec_encode(const struct codec_encoder * e, const struct runner * runner, const float * samples, int64_t n_samples, int32_t * codes) {
    struct encode_graph g = { 0 };
    float * columns = NULL;
    int64_t T = 0;
    int64_t n_columns = n_samples / e->seanet.step_samples;
    if (n_columns > MAX_COLUMNS) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%lld samples are %lld columns of the encoder, valid: up to %d", (long long) n_samples, (long long) n_columns,
                       MAX_COLUMNS);
    }
    QT_TRY(codec_seanet_run(&e->seanet, runner, samples, n_samples, &columns, &T));
    g.codes = calloc((size_t) e->quantizer.n_codebooks, sizeof *g.codes);
    enum qt_status status = g.codes ? build(&g, e, runner, T) : QT_FAIL(QT_STATUS_OOM, "no memory for the table of codes");
    if (status == QT_STATUS_OK) {
        status = set_inputs(&g, columns);
    }
    if (status == QT_STATUS_OK) {
        status = arena_run(&g.arena, runner);
    }
    for (int i = 0; i < e->quantizer.n_codebooks && status == QT_STATUS_OK; i++) {
        ggml_backend_tensor_get(g.codes[i], codes + i * g.codes[i]->ne[0], 0, ggml_nbytes(g.codes[i]));
    }
    arena_free(&g.arena);
    free(g.codes);
    free(columns);
    return status;
}
