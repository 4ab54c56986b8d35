/* codec_seanet.c - samples to columns at a lower rate.
 *
 *   x [n, 1] -> conv [n, C] -> stages: residual units -> elu -> strided conv [n/s, 2C] -> ... -> elu -> conv [T', D]
 *   unit j: x + conv2(elu(conv1(elu(x)))), conv1 dilated by growth^j
 *
 * Every convolution looks back only: (K-1)*dilation + 1 - stride zeros in front, and behind as many as complete the last stride. Those zeros
 * belong to each layer's own input: a clip that is padded with silence beforehand gives other last columns than one that ends.
 * A column depends on context_samples before its own, so a chunk that starts that much early computes the same columns as the whole clip.
 * Upstream: MimiEncoder, MimiResnetBlock, MimiConv1d. */
#include "codec_encoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_SAMPLES (1 << 17) /* at the full rate; times 64 channels times 4 live tensors this is 130 MB in published files */

/* Layers are numbered as upstream's list of modules, activations included. */
enum qt_status codec_seanet_load(struct codec_seanet * net, struct weights * w, const struct encoder_sizes * sizes) {
    char name[64];
    int64_t C = sizes->n_filters;
    int index = 1;
    net->n_stages = sizes->n_stages;
    net->n_units = sizes->n_residual;
    net->step_samples = 1;
    net->first = conv_load(w, 1, C, "tok_enc.conv.0");
    for (int i = 0; i < net->n_stages; i++, C *= 2) {
        struct seanet_stage * stage = &net->stages[i];
        for (int j = 0, dilation = 1; j < net->n_units; j++, index++, dilation *= sizes->dilation_growth) {
            struct seanet_unit * unit = &stage->units[j];
            unit->dilation = dilation;
            snprintf(name, sizeof name, "tok_enc.res.%d.blk.1", index);
            unit->conv1 = conv_load(w, C, C / sizes->compress, name);
            snprintf(name, sizeof name, "tok_enc.res.%d.blk.3", index);
            unit->conv2 = conv_load(w, C / sizes->compress, C, name);
        }
        index++;
        snprintf(name, sizeof name, "tok_enc.conv.%d", index++);
        stage->stride = sizes->strides[i];
        stage->conv = (struct conv) {
            .weight = weights_kernel(w, stage->stride, CONV_MAX_KERNEL, C, 2 * C, "%s.weight", name),
            .bias = weights_vector(w, 2 * C, "%s.bias", name),
        };
        net->step_samples *= stage->stride;
    }
    index++;
    snprintf(name, sizeof name, "tok_enc.conv.%d", index);
    net->last = conv_load(w, C, sizes->stack.hidden, name);
    QT_TRY(w->status);

    int64_t field = net->last.weight->ne[0] - 1; /* columns before its own that one depends on, from the last layer to the first */
    for (int i = net->n_stages - 1; i >= 0; i--) {
        const struct seanet_stage * stage = &net->stages[i];
        field = field * stage->stride + stage->conv.weight->ne[0] - stage->stride;
        for (int j = 0; j < net->n_units; j++) {
            field += (stage->units[j].conv1.weight->ne[0] - 1) * stage->units[j].dilation + stage->units[j].conv2.weight->ne[0] - 1;
        }
    }
    field += net->first.weight->ne[0] - 1;
    net->context_samples = (field + net->step_samples - 1) / net->step_samples * net->step_samples;
    return QT_STATUS_OK;
}

/* One op: the columns that come before x and complete the last stride are zeros. Codes are the nearest entries of a codebook, so sums are as in F32. */
static struct ggml_tensor * conv_plain(struct ggml_context * ctx, const struct conv * conv, struct ggml_tensor * x, enum ggml_conv_act act, int stride, int dilation,
                                       struct ggml_tensor * residual) {
    struct ggml_conv_ext ext = { .act = act, .bias = conv->bias, .residual = residual, .prec = GGML_PREC_F32 };
    return ggml_conv_1d_causal(ctx, conv->weight, x, stride, dilation, &ext); /* [T / stride, OC] */
}

static struct ggml_tensor * unit_build(struct ggml_context * ctx, const struct seanet_unit * unit, struct ggml_tensor * x) {
    struct ggml_tensor * y = conv_plain(ctx, &unit->conv1, x, GGML_CONV_ACT_ELU, 1, unit->dilation, NULL);
    return conv_plain(ctx, &unit->conv2, y, GGML_CONV_ACT_ELU, 1, 1, x);
}

struct seanet_graph {
    struct arena arena;
    struct ggml_tensor * samples; /* [n, 1] */
    struct ggml_tensor * columns; /* [D, ceil(n / step)] */
};

static enum qt_status build(struct seanet_graph * g, const struct codec_seanet * net, const struct runner * runner, int64_t n_samples) {
    struct arena * arena = &g->arena;
    QT_TRY(arena_begin(arena, runner, 32 + net->n_stages * (12 + 12 * net->n_units)));
    struct ggml_context * ctx = arena->ctx;
    g->samples = arena_input(arena, GGML_TYPE_F32, n_samples, 1);
    struct ggml_tensor * x = conv_plain(ctx, &net->first, g->samples, GGML_CONV_ACT_NONE, 1, 1, NULL); /* [n, C] */
    arena_tap_columns(arena, x, "codec_enc.conv");
    for (int i = 0; i < net->n_stages; i++) {
        const struct seanet_stage * stage = &net->stages[i];
        for (int j = 0; j < net->n_units; j++) {
            x = unit_build(ctx, &stage->units[j], x);
        }
        x = conv_plain(ctx, &stage->conv, x, GGML_CONV_ACT_ELU, stage->stride, 1, NULL); /* [n / stride, 2C] */
        arena_tap_columns(arena, x, "codec_enc.stage.%d", i);
    }
    x = conv_plain(ctx, &net->last, x, GGML_CONV_ACT_ELU, 1, 1, NULL); /* [T', D] */
    g->columns = ggml_cont(ctx, ggml_transpose(ctx, x));     /* [D, T'] */
    arena_tap_rows(arena, g->columns, "codec_enc.seanet");
    arena_output(arena, g->columns);
    return arena_alloc(arena, runner);
}

/* Samples from .. end, the first n_skipped columns of which are context. */
static enum qt_status run_chunk(struct seanet_graph * g, const struct codec_seanet * net, const struct runner * runner, const float * samples, int64_t n,
                                int64_t n_skipped, float * columns) {
    if (!g->samples || g->samples->ne[0] != n) {
        *g = (struct seanet_graph) { .arena = g->arena };
        QT_TRY(build(g, net, runner, n));
    }
    ggml_backend_tensor_set(g->samples, samples, 0, ggml_nbytes(g->samples));
    QT_TRY(arena_run(&g->arena, runner));
    size_t skipped = (size_t) n_skipped * g->columns->nb[1];
    ggml_backend_tensor_get(g->columns, columns, skipped, ggml_nbytes(g->columns) - skipped);
    return QT_STATUS_OK;
}

enum qt_status codec_seanet_run(const struct codec_seanet * net, const struct runner * runner, const float * samples, int64_t n_samples, float ** columns,
                                int64_t * n_columns) {
    int64_t step = net->step_samples, D = net->last.weight->ne[2];
    int64_t chunk = (CHUNK_SAMPLES + step - 1) / step * step;
    *n_columns = (n_samples + step - 1) / step;
    *columns = malloc((size_t) (*n_columns * D) * sizeof **columns);
    if (!*columns) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for %lld columns of the encoder", (long long) *n_columns);
    }
    struct seanet_graph g = { 0 };
    enum qt_status status = QT_STATUS_OK;
    for (int64_t at = 0; at < n_samples && status == QT_STATUS_OK; at += chunk) {
        int64_t end = at + chunk < n_samples ? at + chunk : n_samples;
        int64_t from = at > net->context_samples ? at - net->context_samples : 0;
        status = run_chunk(&g, net, runner, samples + from, end - from, (at - from) / step, *columns + at / step * D);
    }
    arena_free(&g.arena);
    if (status != QT_STATUS_OK) {
        free(*columns);
        *columns = NULL;
    }
    return status;
}
