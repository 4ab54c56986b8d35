/* embed.c - rows of the prompt: embedding tables looked up, text rows projected to the talker's width.
 *
 *   text: ids [n] -> [text_hidden, n] -> fc1 + bias -> silu -> fc2 + bias -> [D, n]      (Qwen3TTSTalkerResizeMLP)
 *   code: codes [n] -> [D, n]
 *
 * Done in chunks, so that a long text needs no more memory than a short one. */
#include "talker.h"

#define CHUNK 256 /* rows */

struct embed_graph {
    struct arena arena;
    struct ggml_tensor * ids, * rows;
};

static enum qt_status build_text(struct embed_graph * g, const struct talker * talker, const struct runner * runner, int n) {
    QT_TRY(arena_begin(&g->arena, runner, 32));
    struct ggml_context * ctx = g->arena.ctx;
    g->ids = arena_input(&g->arena, GGML_TYPE_I32, n, 1);
    struct ggml_tensor * x = ggml_get_rows(ctx, talker->text_embd, g->ids); /* [text_hidden, n] */
    x = ggml_silu(ctx, linear_build(ctx, talker->text_fc1, talker->text_fc1_bias, x));
    g->rows = linear_build(ctx, talker->text_fc2, talker->text_fc2_bias, x); /* [D, n] */
    arena_tap_rows(&g->arena, g->rows, "text_rows");
    arena_output(&g->arena, g->rows);
    return arena_alloc(&g->arena, runner);
}

static enum qt_status build_codes(struct embed_graph * g, struct ggml_tensor * table, const struct runner * runner, int n) {
    QT_TRY(arena_begin(&g->arena, runner, 8));
    g->ids = arena_input(&g->arena, GGML_TYPE_I32, n, 1);
    g->rows = ggml_get_rows(g->arena.ctx, table, g->ids); /* [D, n] */
    arena_output(&g->arena, g->rows);
    return arena_alloc(&g->arena, runner);
}

/* table NULL: text. */
static enum qt_status embed(const struct talker * talker, struct ggml_tensor * table, const struct runner * runner, const int32_t * ids, int n, float * rows) {
    struct embed_graph g = { 0 };
    enum qt_status status = QT_STATUS_OK;
    int n_built = 0;
    for (int done = 0; done < n && status == QT_STATUS_OK; done += n_built) {
        int n_chunk = n - done < CHUNK ? n - done : CHUNK;
        if (n_chunk != n_built) {
            status = table ? build_codes(&g, table, runner, n_chunk) : build_text(&g, talker, runner, n_chunk);
            n_built = n_chunk;
        }
        if (status == QT_STATUS_OK) {
            ggml_backend_tensor_set(g.ids, ids + done, 0, (size_t) n_chunk * sizeof *ids);
            status = arena_run(&g.arena, runner);
        }
        if (status == QT_STATUS_OK) {
            ggml_backend_tensor_get(g.rows, rows + (size_t) done * (size_t) talker->sizes.stack.hidden, 0, ggml_nbytes(g.rows));
        }
    }
    arena_free(&g.arena);
    return status;
}

enum qt_status embed_text(const struct talker * talker, const struct runner * runner, const int32_t * ids, int n, float * rows) {
    return embed(talker, NULL, runner, ids, n, rows);
}

enum qt_status embed_codes(const struct talker * talker, const struct runner * runner, int codebook, const int32_t * codes, int n, float * rows) {
    return embed(talker, talker->code_embd[codebook], runner, codes, n, rows);
}
