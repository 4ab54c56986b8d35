/* codec_dac.c - latents to samples.
 *
 *   x [T, C] -> conv [T, C0] -> blocks: snake -> transposed conv [T*s, C0/2] -> residual units -> ... -> snake -> conv [T', 1] -> clamp
 *   unit i: x + conv2(snake(conv1(snake(x)))), conv1 dilated by 3^i
 *
 * The snake parameters are stored as logarithms; what the op takes is computed once, at load, into a small buffer.
 * Upstream: Qwen3TTSTokenizerV2DecoderDecoderBlock, SnakeBeta. */
#include "codec_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS_ROUNDED 2 /* the last ones, half of all multiplications: what they round off passes through few layers more, see performance.md */
#define SNAKE_EPS 1e-9f /* fixed upstream, in no key */
#define N_SNAKES_MAX (SIZES_MAX_STAGES * (1 + 2 * DAC_MAX_UNITS) + 1)

/* name.alpha and name.beta are looked up now; a and inv_b are created, named after them, and filled once they have memory. */
static struct snake snake_load(struct codec_dac * dac, struct weights * w, int64_t n, const char * name) {
    weights_vector(w, n, "%s.alpha", name);
    weights_vector(w, n, "%s.beta", name);
    struct snake snake = { ggml_new_tensor_1d(dac->derived, GGML_TYPE_F32, n), ggml_new_tensor_1d(dac->derived, GGML_TYPE_F32, n) };
    ggml_format_name(snake.a, "%s.alpha", name);
    ggml_format_name(snake.inv_b, "%s.beta", name);
    return snake;
}

static enum qt_status fill_snakes(struct codec_dac * dac, struct weights * w) {
    bool is_alpha = true; /* alpha and beta take turns, in the order of snake_load */
    for (struct ggml_tensor * t = ggml_get_first_tensor(dac->derived); t; t = ggml_get_next_tensor(dac->derived, t), is_alpha = !is_alpha) {
        float * values = malloc(ggml_nbytes(t));
        if (!values) {
            return QT_FAIL(QT_STATUS_OOM, "no memory for the values of %s", ggml_get_name(t));
        }
        enum qt_status status = file_tensor_read(w->file, gguf_find_tensor(w->file->gguf, ggml_get_name(t)), values, t->ne[0]);
        for (int64_t i = 0; status == QT_STATUS_OK && i < t->ne[0]; i++) {
            float logarithm = values[i];
            values[i] = is_alpha ? expf(logarithm) : 1.0f / (expf(logarithm) + SNAKE_EPS);
            if (!isfinite(values[i])) {
                status = QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: tensor %s: element %lld is %g, too large to be a logarithm", w->file->path, ggml_get_name(t),
                                 (long long) i, (double) logarithm);
            }
        }
        if (status == QT_STATUS_OK) {
            ggml_backend_tensor_set(t, values, 0, ggml_nbytes(t));
        }
        free(values);
        QT_TRY(status);
    }
    return QT_STATUS_OK;
}

static void block_load(struct codec_dac * dac, struct weights * w, int index, int stride, int64_t n_in) {
    struct dac_block * block = &dac->blocks[index - 1];
    int64_t n_out = n_in / 2;
    char name[64];
    block->stride = stride;
    snprintf(name, sizeof name, "tok_dec.dec.%d.snake", index);
    block->act = snake_load(dac, w, n_in, name);
    snprintf(name, sizeof name, "tok_dec.dec.%d.conv_t", index);
    block->conv = conv_transposed_load(w, n_in, n_out, stride, name);
    for (int u = 0; u < DAC_MAX_UNITS && (u == 0 || weights_has(w, "tok_dec.dec.%d.res.%d.conv1.weight", index, u)); u++) {
        struct dac_unit * unit = &block->units[u];
        snprintf(name, sizeof name, "tok_dec.dec.%d.res.%d.act1", index, u);
        unit->act1 = snake_load(dac, w, n_out, name);
        snprintf(name, sizeof name, "tok_dec.dec.%d.res.%d.conv1", index, u);
        unit->conv1 = conv_load(w, n_out, n_out, name);
        snprintf(name, sizeof name, "tok_dec.dec.%d.res.%d.act2", index, u);
        unit->act2 = snake_load(dac, w, n_out, name);
        snprintf(name, sizeof name, "tok_dec.dec.%d.res.%d.conv2", index, u);
        unit->conv2 = conv_load(w, n_out, n_out, name);
        block->n_units = u + 1;
    }
    weights_none(w, "tok_dec.dec.%d.res.%d.conv1.weight", index, DAC_MAX_UNITS);
}

enum qt_status codec_dac_load(struct codec_dac * dac, struct weights * w, const struct codec_sizes * sizes, ggml_backend_t backend) {
    dac->derived = ggml_init((struct ggml_init_params) { .mem_size = 2 * N_SNAKES_MAX * ggml_tensor_overhead(), .no_alloc = true });
    if (!dac->derived) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for the codec's activations");
    }
    int64_t width = sizes->decoder_dim;
    dac->n_blocks = sizes->n_dac;
    dac->first = conv_load(w, sizes->latent, width, "tok_dec.dec.0.conv");
    for (int i = 1; i <= dac->n_blocks; i++, width /= 2) {
        block_load(dac, w, i, sizes->dac[i - 1], width);
    }
    char name[64];
    snprintf(name, sizeof name, "tok_dec.dec.%d.snake", dac->n_blocks + 1);
    dac->last_act = snake_load(dac, w, width, name);
    snprintf(name, sizeof name, "tok_dec.dec.%d.conv", dac->n_blocks + 2);
    dac->last = conv_load(w, width, 1, name);
    weights_none(w, "tok_dec.dec.%d.conv_t.weight", dac->n_blocks + 1);
    QT_TRY(w->status);
    dac->derived_buffer = ggml_backend_alloc_ctx_tensors(dac->derived, backend);
    if (!dac->derived_buffer) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for the codec's activations");
    }
    return fill_snakes(dac, w);
}

void codec_dac_free(struct codec_dac * dac) {
    ggml_backend_buffer_free(dac->derived_buffer);
    ggml_free(dac->derived);
    *dac = (struct codec_dac) { 0 };
}

static struct ggml_tensor * unit_build(const struct codec_run * run, const struct dac_unit * unit, struct ggml_tensor * x, int dilation, bool rounds) {
    const struct conv_with second = { .dilation = 1, .act = &unit->act2, .residual = x, .rounds = rounds };
    struct conv_with first = { .dilation = dilation, .act = &unit->act1, .rounds = rounds };
    if (unit->conv2.weight->ne[0] > 1) {
        return conv_build(run->arena->ctx, &unit->conv2, conv_build(run->arena->ctx, &unit->conv1, x, &first, run->carry), &second, run->carry);
    }
    first.behind = &unit->conv2;
    first.with_behind = &second;
    return conv_build(run->arena->ctx, &unit->conv1, x, &first, run->carry);
}

struct ggml_tensor * codec_dac_build(const struct codec_dac * dac, const struct codec_run * run, struct ggml_tensor * x) {
    struct arena * arena = run->arena;
    struct ggml_context * ctx = arena->ctx;
    x = conv_build(ctx, &dac->first, x, &(struct conv_with) { .dilation = 1 }, run->carry); /* [T, C0] */
    arena_tap_columns(arena, x, "codec.dac.0");
    for (int i = 0; i < dac->n_blocks; i++) {
        const struct dac_block * block = &dac->blocks[i];
        const bool rounds = i + BLOCKS_ROUNDED >= dac->n_blocks;
        struct conv_with with = { .act = &block->act, .rounds = rounds };
        x = conv_transposed_build(ctx, &block->conv, x, block->stride, &with, run->carry); /* [T*s, C/2] */
        for (int u = 0, dilation = 1; u < block->n_units; u++, dilation *= 3) {
            x = unit_build(run, &block->units[u], x, dilation, rounds);
        }
        arena_tap_columns(arena, x, "codec.dac.%d", i + 1);
    }
    x = conv_build(ctx, &dac->last, x, &(struct conv_with) { .dilation = 1, .act = &dac->last_act }, run->carry); /* [T', 1] */
    arena_tap_columns(arena, x, "codec.dac.%d", dac->n_blocks + 1);
    x = ggml_clamp(ctx, x, -1, 1);
    arena_tap_columns(arena, x, "codec.audio");
    return x;
}
