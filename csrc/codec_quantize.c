/* codec_quantize.c - columns to codes: per branch a projection, then the nearest entry of each codebook in turn, which is taken off.
 *
 *   x [D, T] -> projection [C, T] = r -> scores r.e - |e|^2 / 2 [size, T] -> largest [T] = code -> r - entry -> next codebook
 *
 * The largest score is the smallest distance |r - e|^2 = |r|^2 - 2 r.e + |e|^2; of equal ones the first counts. -|e|^2 / 2 is computed once, in
 * double. All in F32: two entries are often nearer to each other than what F16 would round away, and squares would leave its range.
 * The semantic branch and the acoustic one each start from x. Upstream: MimiSplitResidualVectorQuantizer. */
#include "codec_encoder.h"

#include <stdlib.h>

static enum qt_status fill_offsets(struct codec_quantizer * q, const struct qt_file * file) {
    int64_t C = q->codebooks[0]->ne[0], size = q->codebooks[0]->ne[1];
    float * entries = malloc((size_t) (C * size) * sizeof *entries), * offsets = malloc((size_t) size * sizeof *offsets);
    enum qt_status status = entries && offsets ? QT_STATUS_OK : QT_FAIL(QT_STATUS_OOM, "no memory for the entries of a codebook");
    for (int i = 0; i < q->n_codebooks && status == QT_STATUS_OK; i++) {
        status = file_tensor_read(file, gguf_find_tensor(file->gguf, ggml_get_name(q->codebooks[i])), entries, C * size);
        for (int64_t e = 0; e < size; e++) {
            double square = 0;
            for (int64_t c = 0; status == QT_STATUS_OK && c < C; c++) {
                square += (double) entries[e * C + c] * (double) entries[e * C + c];
            }
            offsets[e] = (float) (-0.5 * square);
        }
        ggml_backend_tensor_set(q->offsets[i], offsets, 0, ggml_nbytes(q->offsets[i]));
    }
    free(entries);
    free(offsets);
    return status;
}

enum qt_status codec_quantizer_load(struct codec_quantizer * q, struct weights * w, const struct encoder_sizes * sizes, ggml_backend_t backend) {
    int64_t D = sizes->stack.hidden, C = sizes->codebook_dim;
    size_t n = (size_t) sizes->n_quantizers;
    q->n_codebooks = sizes->n_quantizers;
    q->n_semantic = sizes->n_semantic;
    q->codebooks = calloc(n, sizeof *q->codebooks);
    q->offsets = calloc(n, sizeof *q->offsets);
    q->derived = ggml_init((struct ggml_init_params) { .mem_size = n * ggml_tensor_overhead(), .no_alloc = true });
    if (!q->codebooks || !q->offsets || !q->derived) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for the table of %d codebooks", q->n_codebooks);
    }
    q->semantic_proj = weights_kernel(w, 1, 1, D, C, "tok_enc.vq_semantic.input_proj.weight");
    q->acoustic_proj = weights_kernel(w, 1, 1, D, C, "tok_enc.vq_acoustic.input_proj.weight");
    for (int i = 0; i < q->n_codebooks; i++) {
        bool semantic = i < q->n_semantic;
        q->codebooks[i] = weights_matrix(w, C, sizes->codebook_size, "tok_enc.vq_%s.%d.codebook", semantic ? "semantic" : "acoustic",
                                         semantic ? i : i - q->n_semantic);
        q->offsets[i] = ggml_new_tensor_1d(q->derived, GGML_TYPE_F32, sizes->codebook_size);
    }
    QT_TRY(w->status);
    q->derived_buffer = ggml_backend_alloc_ctx_tensors(q->derived, backend);
    if (!q->derived_buffer) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for the codebooks' offsets");
    }
    return fill_offsets(q, w->file);
}

void codec_quantizer_free(struct codec_quantizer * q) {
    ggml_backend_buffer_free(q->derived_buffer);
    ggml_free(q->derived);
    free(q->codebooks);
    free(q->offsets);
    *q = (struct codec_quantizer) { 0 };
}

/* Codebooks first .. end-1 on the projection of x. */
static void branch_build(const struct codec_quantizer * q, struct arena * arena, struct ggml_tensor * x, int first, int end, struct ggml_tensor * proj,
                         const char * name, struct ggml_tensor ** codes) {
    struct ggml_context * ctx = arena->ctx;
    struct ggml_tensor * rest = ggml_mul_mat(ctx, ggml_reshape_2d(ctx, proj, proj->ne[1], proj->ne[2]), x); /* [C, T] */
    arena_tap_rows(arena, rest, "codec_enc.%s", name);
    for (int i = first; i < end; i++) {
        struct ggml_tensor * scores = ggml_add(ctx, ggml_mul_mat(ctx, q->codebooks[i], rest), q->offsets[i]); /* [size, T] */
        codes[i] = ggml_argmax(ctx, scores);                                                                  /* [T] */
        arena_output(arena, codes[i]);
        if (i + 1 < end) {
            rest = ggml_sub(ctx, rest, ggml_get_rows(ctx, q->codebooks[i], codes[i])); /* [C, T] */
        }
    }
}

void codec_quantize_build(const struct codec_quantizer * q, struct arena * arena, struct ggml_tensor * x, struct ggml_tensor ** codes) {
    branch_build(q, arena, x, 0, q->n_semantic, q->semantic_proj, "semantic", codes);
    branch_build(q, arena, x, q->n_semantic, q->n_codebooks, q->acoustic_proj, "acoustic", codes);
}
