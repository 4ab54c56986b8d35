/* codec.c - the parts of the decoder put together. The graph depends on the number of frames, so it is built, run and freed by the call:
 * its intermediate results are large (the last DAC block holds hop_samples * 96 floats a frame in published files). */
#include "codec.h"

#include <math.h>
#include <stdlib.h>

enum qt_status codec_load(struct codec * codec, struct weights * weights, const struct codec_sizes * sizes, ggml_backend_t backend) {
    codec->sizes = *sizes;
    QT_TRY(codec_rvq_load(&codec->rvq, weights, sizes));
    QT_TRY(codec_transformer_load(&codec->transformer, weights, sizes));
    QT_TRY(codec_upsample_load(&codec->upsample, weights, sizes));
    return codec_dac_load(&codec->dac, weights, sizes, backend);
}

void codec_free(struct codec * codec) {
    codec_rvq_free(&codec->rvq);
    codec_transformer_free(&codec->transformer);
    codec_dac_free(&codec->dac);
    *codec = (struct codec) { 0 };
}

struct decode_graph {
    struct arena arena;
    struct ggml_tensor * codes;     /* I32 [T, Q] */
    struct ggml_tensor * positions; /* I32 [T] */
    struct ggml_tensor * mask;      /* F32 [T, T] */
    struct ggml_tensor * audio;     /* [T * hop, 1] */
};

static enum qt_status build(struct decode_graph * g, const struct codec * codec, const struct runner * runner, int64_t T) {
    int n_units = 0;
    for (int i = 0; i < codec->dac.n_blocks; i++) {
        n_units += codec->dac.blocks[i].n_units;
    }
    int bound = 96 + 4 * codec->rvq.n_codebooks + BLOCK_MAX_TENSORS * codec->transformer.stack.sizes.n_layers + 48 * codec->upsample.n_stages
        + 16 * codec->dac.n_blocks + 16 * n_units;
    struct arena * arena = &g->arena;
    QT_TRY(arena_begin(arena, runner, bound));
    g->codes = arena_input(arena, GGML_TYPE_I32, T, codec->rvq.n_codebooks);
    g->positions = arena_input(arena, GGML_TYPE_I32, T, 1);
    g->mask = arena_input(arena, GGML_TYPE_F32, T, T);
    struct ggml_tensor * x = codec_rvq_build(&codec->rvq, arena, g->codes);                            /* [T, C_q] */
    x = codec_transformer_build(&codec->transformer, arena, runner, x, g->positions, g->mask);         /* [T, C] */
    x = codec_upsample_build(&codec->upsample, arena, x);                                              /* [T*up, C] */
    g->audio = codec_dac_build(&codec->dac, arena, x);                                                 /* [T*hop, 1] */
    arena_output(arena, g->audio);
    return arena_alloc(arena, runner);
}

/* Frame i sees itself and the window's frames before it. */
static enum qt_status set_inputs(const struct decode_graph * g, const struct codec * codec, const int32_t * codes) {
    int64_t T = g->codes->ne[0], window = codec->sizes.sliding_window;
    float * visible = malloc((size_t) T * sizeof *visible);
    if (!visible) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for the mask of %lld frames", (long long) T);
    }
    ggml_backend_tensor_set(g->codes, codes, 0, ggml_nbytes(g->codes));
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

enum qt_status codec_decode(const struct codec * codec, const struct runner * runner, const int32_t * codes, int n_frames, float ** samples) {
    struct decode_graph g = { 0 };
    float * out = NULL;
    enum qt_status status = build(&g, codec, runner, n_frames);
    if (status == QT_STATUS_OK) {
        status = set_inputs(&g, codec, codes);
    }
    if (status == QT_STATUS_OK) {
        status = arena_run(&g.arena, runner);
    }
    if (status == QT_STATUS_OK) {
        size_t n_bytes = ggml_nbytes(g.audio);
        out = malloc(n_bytes);
        if (out) {
            ggml_backend_tensor_get(g.audio, out, 0, n_bytes);
        } else {
            status = QT_FAIL(QT_STATUS_OOM, "no memory for %zu bytes of samples", n_bytes);
        }
    }
    arena_free(&g.arena);
    *samples = out;
    return status;
}
