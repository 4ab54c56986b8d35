/* speaker.c - ECAPA-TDNN, time first.
 *
 *   samples -> mel [T, n_mels] -> tdnn [T, C] -> blocks -> their results side by side -> mfa [T, M] -> pooling [2M] -> fc [D]
 *   tdnn:    convolution that keeps T (ends mirrored), then relu
 *   block:   x -> tdnn1 -> parts: the first as it is, each other one convolved after the part before it was added -> tdnn2 -> * gate -> + x
 *   gate:    mean over time -> squeeze -> relu -> excite -> sigmoid, one factor a channel
 *   pooling: weights = softmax over time of conv(tanh(tdnn([x, mean, deviation]))), then mean and deviation under those weights
 *
 * Dilations are in no key: block i (from 1) is dilated by i + 1, all else by 1. Upstream: Qwen3TTSSpeakerEncoder. */
#include "speaker.h"

#include <float.h>
#include <stdio.h>

#define MIN_VARIANCE 1e-12f /* fixed upstream, in no key */

/* Axis of a kernel in the file; 0 when there is none, which no shape check accepts. */
static int64_t axis_of(const struct weights * w, const char * name, int axis) {
    const struct ggml_tensor * t = gguf_find_tensor(w->file->gguf, name) < 0 ? NULL : ggml_get_tensor(w->file->tensors, name);
    return t ? t->ne[axis] : 0;
}

static struct conv pointwise_load(struct weights * w, int64_t n_in, int64_t n_out, const char * name) {
    return (struct conv) { weights_kernel(w, 1, 1, n_in, n_out, "%s.weight", name), weights_vector(w, n_out, "%s.bias", name) };
}

/* Returns the block's width. */
static int64_t block_load(struct speaker_block * b, struct weights * w, int index, int64_t n_in) {
    char name[96];
    snprintf(name, sizeof name, "spk_enc.blk.%d.tdnn1.weight", index);
    int64_t C = axis_of(w, name, 2);
    snprintf(name, sizeof name, "spk_enc.blk.%d.tdnn1", index);
    b->dilation = index + 1;
    b->tdnn1 = pointwise_load(w, n_in, C, name);
    b->n_parts = 1;
    while (b->n_parts < SPEAKER_MAX_PARTS && weights_has(w, "spk_enc.blk.%d.res2net.%d.weight", index, b->n_parts - 1)) {
        b->n_parts++;
    }
    weights_none(w, "spk_enc.blk.%d.res2net.%d.weight", index, SPEAKER_MAX_PARTS - 1);
    if (w->status == QT_STATUS_OK && C % b->n_parts != 0) {
        w->status = QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: spk_enc.blk.%d is %lld wide, no multiple of its %d parts", w->file->path, index, (long long) C, b->n_parts);
    }
    for (int p = 1; p < b->n_parts; p++) {
        snprintf(name, sizeof name, "spk_enc.blk.%d.res2net.%d", index, p - 1);
        b->parts[p] = conv_load(w, C / b->n_parts, C / b->n_parts, name);
    }
    snprintf(name, sizeof name, "spk_enc.blk.%d.tdnn2", index);
    b->tdnn2 = pointwise_load(w, C, C, name);
    snprintf(name, sizeof name, "spk_enc.blk.%d.se.conv1.weight", index);
    int64_t narrow = axis_of(w, name, 2);
    snprintf(name, sizeof name, "spk_enc.blk.%d.se.conv1", index);
    b->squeeze = pointwise_load(w, C, narrow, name);
    snprintf(name, sizeof name, "spk_enc.blk.%d.se.conv2", index);
    b->excite = pointwise_load(w, narrow, C, name);
    if (w->status == QT_STATUS_OK && C != n_in) {
        w->status = QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: spk_enc.blk.%d takes %lld channels and gives %lld, expected the same number", w->file->path, index,
                            (long long) n_in, (long long) C);
    }
    return C;
}

/* Columns mirrored after the last, at least as many as before the first. */
static int64_t mirrored(const struct conv * conv, int dilation) {
    return ((conv->weight->ne[0] - 1) * dilation + 1) / 2;
}

enum qt_status speaker_load(struct speaker * s, struct weights * w, int32_t embedding_size, ggml_backend_t backend) {
    int64_t n_mels = axis_of(w, "spk_enc.conv0.weight", 1), C = axis_of(w, "spk_enc.conv0.weight", 2), sum = 0;
    s->first = conv_load(w, n_mels, C, "spk_enc.conv0");
    for (int i = 1; i <= SPEAKER_MAX_BLOCKS && (i == 1 || weights_has(w, "spk_enc.blk.%d.tdnn1.weight", i)); i++) {
        C = block_load(&s->blocks[i - 1], w, i, C);
        sum += C;
        s->n_blocks = i;
    }
    weights_none(w, "spk_enc.blk.%d.tdnn1.weight", SPEAKER_MAX_BLOCKS + 1);
    int64_t M = axis_of(w, "spk_enc.mfa.weight", 2), A = axis_of(w, "spk_enc.asp.tdnn.weight", 2);
    s->mfa = conv_load(w, sum, M, "spk_enc.mfa");
    s->asp_tdnn = pointwise_load(w, 3 * M, A, "spk_enc.asp.tdnn");
    s->asp = pointwise_load(w, A, M, "spk_enc.asp.conv");
    s->fc = pointwise_load(w, 2 * M, embedding_size, "spk_enc.fc");
    QT_TRY(w->status);
    if (n_mels > MEL_MAX_BANDS) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: tensor spk_enc.conv0.weight takes %lld mel bands, valid: 1 to %d", w->file->path, (long long) n_mels,
                       MEL_MAX_BANDS);
    }

    int64_t most = mirrored(&s->first, 1) > mirrored(&s->mfa, 1) ? mirrored(&s->first, 1) : mirrored(&s->mfa, 1);
    for (int i = 0; i < s->n_blocks; i++) {
        for (int p = 1; p < s->blocks[i].n_parts; p++) {
            int64_t n = mirrored(&s->blocks[i].parts[p], s->blocks[i].dilation);
            most = n > most ? n : most;
        }
    }
    s->n_samples_min = (most + 1) * MEL_HOP > MEL_PAD + 1 ? (most + 1) * MEL_HOP : MEL_PAD + 1;
    return mel_init(&s->mel, n_mels, backend);
}

void speaker_free(struct speaker * s) {
    mel_free(&s->mel);
    *s = (struct speaker) { 0 };
}

static struct ggml_tensor * tdnn_build(struct ggml_context * ctx, const struct conv * conv, struct ggml_tensor * x, int dilation) {
    int64_t n = (conv->weight->ne[0] - 1) * dilation;
    if (n > 0) {
        x = ggml_pad_reflect_1d(ctx, x, (int) (n / 2), (int) (n - n / 2));
    }
    x = ggml_conv_1d(ctx, conv->weight, x, 1, 0, dilation); /* [T, C] */
    return ggml_relu(ctx, ggml_add(ctx, x, ggml_reshape_2d(ctx, conv->bias, 1, conv->bias->ne[0])));
}

/* A kernel of one tap as a matrix [n_in, n_out], applied to x [n_in, T]. */
static struct ggml_tensor * pointwise_build(struct ggml_context * ctx, const struct conv * conv, struct ggml_tensor * x) {
    struct ggml_tensor * matrix = ggml_reshape_2d(ctx, conv->weight, conv->weight->ne[1], conv->weight->ne[2]);
    return ggml_add(ctx, ggml_mul_mat(ctx, matrix, x), conv->bias);
}

static struct ggml_tensor * parts_build(struct ggml_context * ctx, const struct speaker_block * b, struct ggml_tensor * x) {
    int64_t T = x->ne[0], n = x->ne[1] / b->n_parts;
    struct ggml_tensor * all = NULL, * last = NULL;
    for (int p = 0; p < b->n_parts; p++) {
        struct ggml_tensor * part = ggml_view_2d(ctx, x, T, n, x->nb[1], (size_t) (p * n) * x->nb[1]);
        if (p > 0) {
            part = tdnn_build(ctx, &b->parts[p], p > 1 ? ggml_add(ctx, part, last) : part, b->dilation);
        }
        last = part;
        all = all ? ggml_concat(ctx, all, part, 1) : part; /* [T, (p + 1) n] */
    }
    return all;
}

static struct ggml_tensor * block_build(struct ggml_context * ctx, const struct speaker_block * b, struct ggml_tensor * x) {
    struct ggml_tensor * y = tdnn_build(ctx, &b->tdnn1, x, 1);
    y = parts_build(ctx, b, y);
    y = tdnn_build(ctx, &b->tdnn2, y, 1);
    int64_t C = y->ne[1];
    struct ggml_tensor * gate = ggml_reshape_1d(ctx, ggml_mean(ctx, y), C);
    gate = ggml_relu(ctx, pointwise_build(ctx, &b->squeeze, gate));
    gate = ggml_sigmoid(ctx, pointwise_build(ctx, &b->excite, gate)); /* [C] */
    y = ggml_mul(ctx, y, ggml_reshape_2d(ctx, gate, 1, C));
    return ggml_add(ctx, y, x);
}

/* Root of a variance [1, M]. */
static struct ggml_tensor * deviation(struct ggml_context * ctx, struct ggml_tensor * variance) {
    return ggml_sqrt(ctx, ggml_clamp(ctx, variance, MIN_VARIANCE, FLT_MAX));
}

/* Columns first*M .. of the attention's first matrix [3M, A]: what the features, their mean and their deviation are multiplied with. */
static struct ggml_tensor * third_build(struct ggml_context * ctx, const struct conv * conv, int third, struct ggml_tensor * x) {
    struct ggml_tensor * w = conv->weight;
    int64_t M = w->ne[1] / 3;
    return ggml_mul_mat(ctx, ggml_view_2d(ctx, w, M, w->ne[2], w->nb[2], (size_t) (third * M) * w->nb[1]), x);
}

/* x [T, M] -> mean and deviation under the attention's weights, [2M]. */
static struct ggml_tensor * pooling_build(struct ggml_context * ctx, const struct speaker * s, struct ggml_tensor * x) {
    int64_t M = x->ne[1];
    struct ggml_tensor * mean = ggml_mean(ctx, x);                                                      /* [1, M] */
    struct ggml_tensor * spread = deviation(ctx, ggml_mean(ctx, ggml_sqr(ctx, ggml_sub(ctx, x, mean)))); /* [1, M] */
    struct ggml_tensor * h = third_build(ctx, &s->asp_tdnn, 0, ggml_cont(ctx, ggml_transpose(ctx, x)));  /* [A, T] */
    struct ggml_tensor * same = ggml_add(ctx, third_build(ctx, &s->asp_tdnn, 1, ggml_reshape_1d(ctx, mean, M)),
                                         third_build(ctx, &s->asp_tdnn, 2, ggml_reshape_1d(ctx, spread, M))); /* [A], the same at every time */
    h = ggml_add(ctx, h, ggml_add(ctx, same, s->asp_tdnn.bias));
    h = pointwise_build(ctx, &s->asp, ggml_tanh(ctx, ggml_relu(ctx, h)));                               /* [M, T] */
    struct ggml_tensor * weights = ggml_soft_max(ctx, ggml_cont(ctx, ggml_transpose(ctx, h)));          /* [T, M] */
    mean = ggml_sum_rows(ctx, ggml_mul(ctx, weights, x));                                               /* [1, M] */
    struct ggml_tensor * square = ggml_sqr(ctx, ggml_sub(ctx, x, mean));
    spread = deviation(ctx, ggml_sum_rows(ctx, ggml_mul(ctx, square, weights)));                        /* [1, M] */
    return ggml_concat(ctx, ggml_reshape_1d(ctx, mean, M), ggml_reshape_1d(ctx, spread, M), 0);         /* [2M] */
}

struct speaker_graph {
    struct arena arena;
    struct ggml_tensor * samples;   /* [n] */
    struct ggml_tensor * embedding; /* [D] */
};

static enum qt_status build(struct speaker_graph * g, const struct speaker * s, const struct runner * runner, int64_t n_samples) {
    struct arena * arena = &g->arena;
    QT_TRY(arena_begin(arena, runner, 128 + s->n_blocks * (48 + 10 * SPEAKER_MAX_PARTS)));
    struct ggml_context * ctx = arena->ctx;
    g->samples = arena_input(arena, GGML_TYPE_F32, n_samples, 1);
    struct ggml_tensor * x = mel_build(&s->mel, ctx, g->samples); /* [n_mels, T] */
    arena_tap_rows(arena, x, "speaker.mel");
    x = ggml_cont(ctx, ggml_transpose(ctx, x)); /* [T, n_mels] */
    x = tdnn_build(ctx, &s->first, x, 1);       /* [T, C] */
    arena_tap_columns(arena, x, "speaker.conv0");
    struct ggml_tensor * all = NULL;
    for (int i = 0; i < s->n_blocks; i++) {
        x = block_build(ctx, &s->blocks[i], x);
        arena_tap_columns(arena, x, "speaker.blk.%d", i + 1);
        all = all ? ggml_concat(ctx, all, x, 1) : x;
    }
    x = tdnn_build(ctx, &s->mfa, all, 1); /* [T, M] */
    arena_tap_columns(arena, x, "speaker.mfa");
    x = pooling_build(ctx, s, x); /* [2M] */
    arena_tap_rows(arena, x, "speaker.pooled");
    g->embedding = pointwise_build(ctx, &s->fc, x); /* [D] */
    arena_tap_rows(arena, g->embedding, "speaker.embedding");
    arena_output(arena, g->embedding);
    return arena_alloc(arena, runner);
}

enum qt_status speaker_embed(const struct speaker * s, const struct runner * runner, const float * samples, int64_t n_samples, float * embedding) {
    struct speaker_graph g = { 0 };
    enum qt_status status = build(&g, s, runner, n_samples);
    if (status == QT_STATUS_OK) {
        ggml_backend_tensor_set(g.samples, samples, 0, ggml_nbytes(g.samples));
        status = arena_run(&g.arena, runner);
    }
    if (status == QT_STATUS_OK) {
        ggml_backend_tensor_get(g.embedding, embedding, 0, ggml_nbytes(g.embedding));
    }
    arena_free(&g.arena);
    return status;
}
