/* codec.c - the parts of the decoder put together, and one pass over frames that are all known. The graph of a pass depends on the number of
 * frames, so it is built, run and freed by the call: its intermediate results are large (the last DAC block holds hop_samples * 96 floats a
 * frame in published files).
 *
 * Every product is asked for in F32: a kernel for few columns may round them, and a sample would depend on how many frames its graph had. */
#include "codec.h"

#include <math.h>
#include <stdlib.h>

enum qt_status codec_load(struct codec * codec, struct weights * weights, const struct codec_sizes * sizes, ggml_backend_t backend, int n_threads) {
    codec->sizes = *sizes;
    QT_TRY(weights_pack_begin(weights, backend));
    QT_TRY(codec_rvq_load(&codec->rvq, weights, sizes));
    QT_TRY(codec_transformer_load(&codec->transformer, weights, sizes));
    QT_TRY(codec_upsample_load(&codec->upsample, weights, sizes));
    QT_TRY(codec_dac_load(&codec->dac, weights, sizes, backend));
    return weights_copy_end(weights, backend, n_threads);
}

void codec_free(struct codec * codec) {
    codec_rvq_free(&codec->rvq);
    codec_transformer_free(&codec->transformer);
    codec_dac_free(&codec->dac);
    *codec = (struct codec) { 0 };
}

static int n_units(const struct codec * codec) {
    int n = 0;
    for (int i = 0; i < codec->dac.n_blocks; i++) {
        n += codec->dac.blocks[i].n_units;
    }
    return n;
}

int codec_n_convs(const struct codec * codec) {
    return 3 + 2 * codec->upsample.n_stages + codec->dac.n_blocks + 2 * n_units(codec);
}

static int graph_bound(const struct codec * codec) {
    return 96 + 4 * codec->rvq.n_codebooks + BLOCK_MAX_TENSORS * codec->transformer.stack.sizes.n_layers + 48 * codec->upsample.n_stages
        + 16 * codec->dac.n_blocks + 16 * n_units(codec);
}

/* A causal convolution over n columns and those it keeps. */
static int64_t columns_read(const struct conv * conv, int64_t n, int64_t dilation) {
    return n + (conv->weight->ne[0] - 1) * dilation;
}

static int64_t columns_read_transposed(const struct conv * conv, int64_t n, int64_t stride) {
    return (n + stride - 1) / stride + (conv->weight->ne[0] + stride - 1) / stride - 1;
}

int64_t codec_memory_frames(const struct codec * codec) {
    const struct codec_dac * dac = &codec->dac;
    int64_t n = columns_read(&dac->last, 0, 1); /* from the end to the beginning: columns that must be right for those behind them to be */
    for (int i = dac->n_blocks - 1; i >= 0; i--) {
        const struct dac_block * block = &dac->blocks[i];
        for (int64_t u = 0, dilation = 1; u < block->n_units; u++, dilation *= 3) {
            n = columns_read(&block->units[u].conv1, columns_read(&block->units[u].conv2, n, 1), dilation);
        }
        n = columns_read_transposed(&block->conv, n, block->stride);
    }
    n = columns_read(&dac->first, n, 1);
    for (int i = codec->upsample.n_stages - 1; i >= 0; i--) {
        const struct upsample_stage * stage = &codec->upsample.stages[i];
        n = columns_read_transposed(&stage->conv, columns_read(&stage->depthwise, n, 1), stage->stride);
    }
    return n;
}

static enum qt_status graph_build(struct codec_graph * g, const struct codec * codec, const struct runner * runner, int64_t T, const struct kv_cache * cache,
                                  struct carry * carry, bool silent) {
    struct arena * arena = &g->arena;
    QT_TRY(arena_begin(arena, runner, graph_bound(codec)));
    g->codes = arena_input(arena, GGML_TYPE_I32, T, codec->rvq.n_codebooks);
    g->positions = arena_input(arena, GGML_TYPE_I32, T, 1);
    g->mask = arena_input(arena, GGML_TYPE_F32, cache ? cache->capacity : T, T);
    g->cache_rows = cache ? arena_input(arena, GGML_TYPE_I64, T * codec->sizes.stack.n_kv_heads, 1) : NULL;
    if (carry) {
        carry->graph = arena->graph;
        carry->taken = NULL;
    }
    struct codec_run run = {
        .arena = arena, .runner = runner, .positions = g->positions, .mask = g->mask, .cache_rows = g->cache_rows, .cache = cache, .carry = carry,
    };
    struct ggml_tensor * x = codec_rvq_build(&codec->rvq, &run, g->codes); /* [T, C_q] */
    x = codec_transformer_build(&codec->transformer, &run, x);             /* [T, C] */
    if (!silent) {
        x = codec_upsample_build(&codec->upsample, &run, x);               /* [T*up, C] */
        x = g->audio = codec_dac_build(&codec->dac, &run, x);              /* [T*hop, 1] */
    }
    arena_output(arena, x);
    for (int i = 0; i < ggml_graph_n_nodes(arena->graph); i++) {
        struct ggml_tensor * node = ggml_graph_node(arena->graph, i);
        if (node->op == GGML_OP_MUL_MAT) {
            ggml_mul_mat_set_prec(node, GGML_PREC_F32);
        }
    }
    return QT_STATUS_OK;
}

enum qt_status codec_graph_build(struct codec_graph * g, const struct codec * codec, const struct runner * runner, int64_t T,
                                 const struct kv_cache * cache, struct carry * carry) {
    return graph_build(g, codec, runner, T, cache, carry, false);
}

enum qt_status codec_graph_build_silent(struct codec_graph * g, const struct codec * codec, const struct runner * runner, int64_t T,
                                        const struct kv_cache * cache, struct carry * carry) {
    return graph_build(g, codec, runner, T, cache, carry, true);
}

void codec_graph_set_codes(const struct codec_graph * g, const struct codec_codes * codes, int first) {
    for (int64_t q = 0; q < g->codes->ne[1]; q++) {
        ggml_backend_tensor_set(g->codes, codes->values + q * codes->n_frames + first, (size_t) q * g->codes->nb[1], g->codes->nb[1]);
    }
}

/* Frame i sees itself and the window's frames before it. */
static enum qt_status set_positions(const struct codec_graph * g, const struct codec * codec) {
    int64_t T = g->codes->ne[0], window = codec->sizes.sliding_window;
    float * visible = malloc((size_t) T * sizeof *visible);
    if (!visible) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for the mask of %lld frames", (long long) T);
    }
    for (int64_t i = 0; i < T; i++) {
        int32_t position = (int32_t) i;
        ggml_backend_tensor_set(g->positions, &position, (size_t) i * sizeof position, sizeof position);
        for (int64_t j = 0; j < T; j++) {
            visible[j] = j <= i && i - j < window ? 0.0f : -INFINITY;
        }
        ggml_backend_tensor_set(g->mask, visible, (size_t) i * g->mask->nb[1], g->mask->nb[1]);
    }
    free(visible);
    return QT_STATUS_OK;
}

enum qt_status codec_decode_pass(const struct codec * codec, const struct runner * runner, const struct codec_codes * codes, int first, int n,
                                 int n_context, float * out) {
    struct codec_graph g = { 0 };
    enum qt_status status = codec_graph_build(&g, codec, runner, n_context + n, NULL, NULL);
    if (status == QT_STATUS_OK) {
        status = arena_alloc(&g.arena, runner);
    }
    if (status == QT_STATUS_OK) {
        status = set_positions(&g, codec);
    }
    if (status == QT_STATUS_OK) {
        codec_graph_set_codes(&g, codes, first - n_context);
        status = arena_run(&g.arena, runner);
    }
    if (status == QT_STATUS_OK) {
        size_t frame_bytes = (size_t) codec->sizes.hop_samples * sizeof *out;
        ggml_backend_tensor_get(g.audio, out, (size_t) n_context * frame_bytes, (size_t) n * frame_bytes);
    }
    arena_free(&g.arena);
    return status;
}
