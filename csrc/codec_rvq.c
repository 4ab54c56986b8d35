/* codec_rvq.c - codes to latents: each codebook's entry looked up and added, projected once for the semantic codebooks and once for the rest.
 *
 *   codes [T, Q] -> sum of entries [C_book, T] -> 1x1 projection [C_q, T] -> semantic + rest -> [T, C_q]
 *
 * Upstream: SplitResidualVectorQuantizer.decode. */
#include "codec_parts.h"

#include <stdlib.h>

enum qt_status codec_rvq_load(struct codec_rvq * rvq, struct weights * w, const struct codec_sizes * sizes) {
    int64_t C_book = sizes->codebook_dim_internal, C_q = sizes->codebook_dim;
    rvq->n_codebooks = sizes->n_quantizers;
    rvq->n_semantic = sizes->n_semantic;
    rvq->codebooks = calloc((size_t) rvq->n_codebooks, sizeof *rvq->codebooks);
    if (!rvq->codebooks) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for the table of %d codebooks", rvq->n_codebooks);
    }
    for (int i = 0; i < rvq->n_codebooks; i++) {
        bool semantic = i < rvq->n_semantic;
        rvq->codebooks[i] = weights_matrix(w, C_book, sizes->codebook_size, "tok_dec.vq_%s.%d.codebook", semantic ? "first" : "rest",
                                           semantic ? i : i - rvq->n_semantic);
        weights_look(w, rvq->codebooks[i]);
    }
    weights_none(w, "tok_dec.vq_first.%d.codebook", rvq->n_semantic);
    weights_none(w, "tok_dec.vq_rest.%d.codebook", rvq->n_codebooks - rvq->n_semantic);
    rvq->first_proj = weights_kernel(w, 1, 1, C_book, C_q, "tok_dec.vq_first.output_proj.weight");
    rvq->rest_proj = weights_kernel(w, 1, 1, C_book, C_q, "tok_dec.vq_rest.output_proj.weight");
    return w->status;
}

void codec_rvq_free(struct codec_rvq * rvq) {
    free(rvq->codebooks);
    *rvq = (struct codec_rvq) { 0 };
}

/* Codebooks first .. end-1 added up and projected: [C_q, T]. */
static struct ggml_tensor * part_build(const struct codec_rvq * rvq, struct ggml_context * ctx, struct ggml_tensor * codes, int first, int end,
                                       struct ggml_tensor * proj) {
    int64_t T = codes->ne[0];
    struct ggml_tensor * sum = NULL;
    for (int i = first; i < end; i++) {
        struct ggml_tensor * row = ggml_view_1d(ctx, codes, T, (size_t) i * codes->nb[1]);
        struct ggml_tensor * entries = ggml_get_rows(ctx, rvq->codebooks[i], row); /* [C_book, T] */
        sum = sum ? ggml_add(ctx, sum, entries) : entries;
    }
    return ggml_mul_mat(ctx, ggml_reshape_2d(ctx, proj, proj->ne[1], proj->ne[2]), sum); /* [C_q, T] */
}

struct ggml_tensor * codec_rvq_build(const struct codec_rvq * rvq, const struct codec_run * run, struct ggml_tensor * codes) {
    struct ggml_context * ctx = run->arena->ctx;
    struct ggml_tensor * first = part_build(rvq, ctx, codes, 0, rvq->n_semantic, rvq->first_proj);
    struct ggml_tensor * rest = part_build(rvq, ctx, codes, rvq->n_semantic, rvq->n_codebooks, rvq->rest_proj);
    struct ggml_tensor * sum = ggml_add(ctx, first, rest); /* [C_q, T] */
    arena_tap_rows(run->arena, sum, "codec.rvq");
    return ggml_cont(ctx, ggml_transpose(ctx, sum)); /* [T, C_q] */
}
