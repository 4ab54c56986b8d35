/* predictor.c - a small Qwen3 decoder over one frame's G positions.
 *
 *   begin:  [hidden, embd_0(c0)] [D, 2] -> projection [P, 2] -> blocks -> norm -> head of codebook 1
 *   code g: embd_g(c_g) [D, 1] -> projection -> blocks at position g+1 -> norm -> head of codebook g+1
 *
 * Every graph attends to exactly the positions that are written, so only the first (two rows at once) needs a mask.
 * Upstream: Qwen3TTSTalkerCodePredictorModelForConditionalGeneration. */
#include "predictor.h"

#include <math.h>
#include <stdlib.h>

enum qt_status predictor_load(struct predictor * p, struct weights * w, const struct talker_sizes * sizes) {
    const struct stack_sizes * s = &sizes->predictor;
    p->n_code_groups = sizes->n_code_groups;
    p->vocab = sizes->predictor_vocab;
    p->heads = calloc((size_t) p->n_code_groups, sizeof *p->heads);
    if (!p->heads) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for the table of %d code groups", p->n_code_groups);
    }
    QT_TRY(stack_load(&p->stack, w, s, BLOCK_QK_NORM, "code_pred", "code_pred.output_norm.weight"));
    for (int g = 1; g < p->n_code_groups; g++) {
        p->heads[g - 1] = weights_matrix(w, s->hidden, sizes->predictor_vocab, "code_pred.lm_head.%d.weight", g - 1);
    }
    weights_none(w, "code_pred.lm_head.%d.weight", p->n_code_groups - 1);
    if (s->hidden != sizes->stack.hidden || weights_has(w, "code_pred.mtp_proj.weight")) {
        p->projection = weights_matrix(w, sizes->stack.hidden, s->hidden, "code_pred.mtp_proj.weight");
        p->projection_bias = weights_vector(w, s->hidden, "code_pred.mtp_proj.bias");
    }
    return w->status;
}

void predictor_free(struct predictor * p) {
    stack_free(&p->stack);
    free(p->heads);
    *p = (struct predictor) { 0 };
}

enum qt_status predictor_state_init(struct predictor_state * state, const struct predictor * p, const struct runner * runner) {
    *state = (struct predictor_state) { .n_graphs = p->n_code_groups - 1 };
    state->graphs = calloc((size_t) state->n_graphs, sizeof *state->graphs);
    if (!state->graphs) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for the graphs of %d code groups", p->n_code_groups);
    }
    state->logits = malloc((size_t) p->vocab * sizeof *state->logits);
    if (!state->logits) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for %d logits", p->vocab);
    }
    QT_TRY(sampler_init(&state->sampler, p->vocab));
    bool moved = false;
    return kv_cache_reserve(&state->cache, ggml_backend_get_default_buffer_type(runner->backend), &p->stack.sizes, GGML_TYPE_F32, p->n_code_groups,
                            p->n_code_groups, 0, &moved); /* F32: its few positions cost nothing to read */
}

void predictor_state_free(struct predictor_state * state) {
    predictor_state_drop_graphs(state);
    kv_cache_free(&state->cache);
    sampler_free(&state->sampler);
    free(state->logits);
    free(state->graphs);
    *state = (struct predictor_state) { 0 };
}

void predictor_state_drop_graphs(struct predictor_state * state) {
    for (int i = 0; state->graphs && i < state->n_graphs; i++) {
        arena_free(&state->graphs[i].arena);
    }
}

/* The frame's constants: where its rows go, and for two rows that the first does not see the second. */
static enum qt_status set_constants(const struct predictor_state * state, const struct block_run * run, int first, int n) {
    int n_kv_heads = run->stack->sizes.n_kv_heads;
    int32_t positions[2] = { first, first + 1 };
    float mask[4] = { 0, -INFINITY, 0, 0 };
    int64_t * rows = malloc((size_t) n * (size_t) n_kv_heads * sizeof *rows);
    if (!rows) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for the positions of a frame");
    }
    kv_cache_rows(&state->cache, n_kv_heads, first, n, rows);
    ggml_backend_tensor_set(run->positions, positions, 0, ggml_nbytes(run->positions));
    ggml_backend_tensor_set(run->cache_rows, rows, 0, ggml_nbytes(run->cache_rows));
    if (run->mask) {
        ggml_backend_tensor_set(run->mask, mask, 0, sizeof mask);
    }
    free(rows);
    return QT_STATUS_OK;
}

/* The graph that takes codebook g's code; hidden is given for g = 0 only. */
static enum qt_status build(const struct predictor * p, const struct talker * talker, struct predictor_state * state, const struct runner * runner,
                            struct ggml_tensor * hidden, int g) {
    struct predictor_graph * graph = &state->graphs[g];
    struct arena * arena = &graph->arena;
    const struct stack_sizes * s = &p->stack.sizes;
    int n = hidden ? 2 : 1, first = hidden ? 0 : g + 1;
    QT_TRY(arena_begin(arena, runner, 48 + BLOCK_MAX_TENSORS * s->n_layers));
    struct ggml_context * ctx = arena->ctx;
    struct block_run run = { .arena = arena, .runner = runner, .stack = &p->stack, .cache = &state->cache, .n_kv = first + n };
    graph->code = arena_input(arena, GGML_TYPE_I32, 1, 1);
    run.positions = arena_input(arena, GGML_TYPE_I32, n, 1);
    run.cache_rows = arena_input(arena, GGML_TYPE_I64, (int64_t) n * s->n_kv_heads, 1);
    run.mask = hidden ? arena_input(arena, GGML_TYPE_F32, 2, 2) : NULL;

    struct ggml_tensor * x = ggml_get_rows(ctx, talker->code_embd[g], graph->code); /* [D, 1] */
    if (hidden) {
        x = ggml_concat(ctx, ggml_reshape_2d(ctx, hidden, hidden->ne[0], 1), x, 1); /* [D, 2] */
    }
    if (p->projection) {
        x = linear_build(ctx, p->projection, p->projection_bias, x); /* [P, n] */
    }
    x = stack_build(&run, x, NULL);
    x = ggml_view_2d(ctx, x, x->ne[0], 1, x->nb[1], (size_t) (n - 1) * x->nb[1]); /* [P, 1] */
    x = rms_norm_build(ctx, x, p->stack.norm, s->norm_eps);
    graph->logits = ggml_mul_mat(ctx, p->heads[g], x); /* [vocab, 1] */
    arena_tap_rows(arena, graph->logits, "predictor.%d.logits", g + 1);
    arena_output(arena, graph->logits);
    QT_TRY(arena_alloc(arena, runner));
    return set_constants(state, &run, first, n);
}

static enum qt_status run_graph(const struct predictor * p, const struct talker * talker, struct predictor_state * state, const struct runner * runner,
                                struct ggml_tensor * hidden, int g, int32_t code, float * logits) {
    struct predictor_graph * graph = &state->graphs[g];
    if (!graph->arena.ctx) {
        enum qt_status status = build(p, talker, state, runner, hidden, g);
        if (status != QT_STATUS_OK) {
            arena_free(&graph->arena);
            return status;
        }
    }
    ggml_backend_tensor_set(graph->code, &code, 0, sizeof code);
    QT_TRY(arena_run(&graph->arena, runner));
    ggml_backend_tensor_get(graph->logits, logits, 0, ggml_nbytes(graph->logits));
    state->next = g + 1;
    return QT_STATUS_OK;
}

enum qt_status predictor_begin(const struct predictor * p, const struct talker * talker, struct predictor_state * state, const struct runner * runner,
                               struct ggml_tensor * hidden, int32_t code0, float * logits) {
    return run_graph(p, talker, state, runner, hidden, 0, code0, logits);
}

enum qt_status predictor_step(const struct predictor * p, const struct talker * talker, struct predictor_state * state, const struct runner * runner,
                              int32_t code, float * logits) {
    return run_graph(p, talker, state, runner, NULL, state->next, code, logits);
}

enum qt_status predictor_frame(const struct predictor * p, const struct talker * talker, struct predictor_state * state, const struct runner * runner,
                               struct ggml_tensor * hidden, int32_t code0, const float * uniforms, const struct qt_sampling * sampling, int32_t * codes) {
    codes[0] = code0;
    for (int g = 0; g + 1 < p->n_code_groups; g++) {
        QT_TRY(run_graph(p, talker, state, runner, g == 0 ? hidden : NULL, g, codes[g], state->logits));
        QT_TRY(sampling_draw(&state->sampler, state->logits, p->vocab, sampling, uniforms[g], &codes[g + 1]));
    }
    return QT_STATUS_OK;
}
