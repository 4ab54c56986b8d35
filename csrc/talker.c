/* talker.c - a Qwen3 decoder over prompt rows, cached.
 *
 *   prefill: rows [D, T] -> blocks -> last row -> norm = hidden [D] -> head -> logits [vocab]
 *   step:    codes [G] -> sum of their G embeddings + overlay [D, 1] -> the same
 *
 * hidden is copied into the session's own tensor, where the code predictor's first graph reads it.
 * Upstream: Qwen3TTSTalkerForConditionalGeneration. Its three position streams are equal for speech, so RoPE is plain. */
#include "talker.h"

#include <math.h>
#include <stdlib.h>

#define PREFILL_CHUNK 256 /* rows a graph: bounds the memory of a long prompt */

enum qt_status talker_load(struct talker * t, struct weights * w, const struct talker_sizes * sizes) {
    t->sizes = *sizes;
    int64_t D = sizes->stack.hidden, D_text = sizes->text_hidden;
    t->code_embd = calloc((size_t) sizes->n_code_groups, sizeof *t->code_embd);
    if (!t->code_embd) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for the table of %d code groups", (int) sizes->n_code_groups);
    }
    QT_TRY(stack_load(&t->stack, w, &sizes->stack, BLOCK_QK_NORM, "talker", "talker.output_norm.weight"));
    t->text_embd = weights_table(w, D_text, sizes->text_vocab, "talker.text_embd.weight");
    t->text_fc1 = weights_table(w, D_text, D_text, "talker.text_proj.fc1.weight");
    t->text_fc1_bias = weights_vector(w, D_text, "talker.text_proj.fc1.bias");
    t->text_fc2 = weights_table(w, D_text, D, "talker.text_proj.fc2.weight");
    t->text_fc2_bias = weights_vector(w, D, "talker.text_proj.fc2.bias");
    t->head = weights_matrix(w, D, sizes->vocab, "talker.codec_head.weight");
    t->code_embd[0] = weights_table(w, D, sizes->vocab, "talker.codec_embd.weight");
    for (int g = 1; g < sizes->n_code_groups; g++) {
        t->code_embd[g] = weights_table(w, D, sizes->predictor_vocab, "code_pred.codec_embd.%d.weight", g - 1);
    }
    return w->status;
}

void talker_free(struct talker * t) {
    stack_free(&t->stack);
    free(t->code_embd);
    *t = (struct talker) { 0 };
}

enum qt_status talker_state_init(struct talker_state * state, const struct talker * talker, const struct runner * runner) {
    *state = (struct talker_state) { 0 };
    state->bridge = ggml_init((struct ggml_init_params) { .mem_size = ggml_tensor_overhead(), .no_alloc = true });
    if (state->bridge) {
        state->hidden = ggml_new_tensor_1d(state->bridge, GGML_TYPE_F32, talker->sizes.stack.hidden);
        state->bridge_buffer = ggml_backend_alloc_ctx_tensors(state->bridge, runner->backend);
    }
    state->rows = malloc((size_t) talker->sizes.stack.n_kv_heads * sizeof *state->rows);
    if (!state->bridge_buffer || !state->rows) {
        talker_state_free(state);
        return QT_FAIL(QT_STATUS_OOM, "no memory for a session");
    }
    return QT_STATUS_OK;
}

void talker_state_free(struct talker_state * state) {
    arena_free(&state->step);
    kv_cache_free(&state->cache);
    ggml_backend_buffer_free(state->bridge_buffer);
    ggml_free(state->bridge);
    free(state->rows);
    *state = (struct talker_state) { 0 };
}

void talker_state_reset(struct talker_state * state, const struct runner * runner) {
    state->n_past = 0;
    state->hidden_valid = false;
    if (state->cache.buffer && !runner->fused_attention) {
        ggml_backend_buffer_clear(state->cache.buffer, 0); /* plain products multiply masked positions by 0: a NaN left there would stay one */
    }
}

void talker_state_drop_graphs(struct talker_state * state) {
    arena_free(&state->step);
}

static enum qt_status reserve(const struct talker * t, struct talker_state * state, const struct runner * runner, int n_positions) {
    bool moved = false;
    QT_TRY(kv_cache_reserve(&state->cache, ggml_backend_get_default_buffer_type(runner->backend), &t->sizes.stack, runner->kv_type, KV_BUCKET, n_positions,
                            state->n_past, &moved));
    if (moved) {
        arena_free(&state->step); /* it reads the old cache */
    }
    return QT_STATUS_OK;
}

/* The last row of x [D, T] -> norm -> kept as hidden -> logits [vocab, 1]. */
static struct ggml_tensor * head_build(const struct talker * t, struct talker_state * state, struct arena * arena, struct ggml_tensor * x) {
    struct ggml_context * ctx = arena->ctx;
    float eps = t->sizes.stack.norm_eps;
    if (arena->taps) {
        arena_tap_rows(arena, rms_norm_build(ctx, x, t->stack.norm, eps), "talker.norm");
    }
    x = ggml_view_2d(ctx, x, x->ne[0], 1, x->nb[1], (size_t) (x->ne[1] - 1) * x->nb[1]); /* [D, 1] */
    x = rms_norm_build(ctx, x, t->stack.norm, eps);
    ggml_build_forward_expand(arena->graph, ggml_cpy(ctx, x, state->hidden));
    struct ggml_tensor * logits = ggml_mul_mat(ctx, t->head, x); /* [vocab, 1] */
    arena_tap_rows(arena, logits, "talker.logits");
    arena_output(arena, logits);
    return logits;
}

static int graph_bound(const struct talker * t) {
    return 64 + BLOCK_MAX_TENSORS * t->sizes.stack.n_layers + 4 * t->sizes.n_code_groups;
}

static int64_t bucket(int n_positions) {
    return ((int64_t) n_positions + KV_BUCKET - 1) / KV_BUCKET * KV_BUCKET;
}

/* positions, cache rows and mask of n rows from first on; mask row t hides what lies after first + t. */
static enum qt_status set_positions(const struct kv_cache * cache, int n_kv_heads, int first, int n, struct ggml_tensor * positions,
                                    struct ggml_tensor * rows, struct ggml_tensor * mask) {
    int64_t n_kv = mask->ne[0];
    int32_t * position = malloc((size_t) n * sizeof *position);
    int64_t * row = malloc((size_t) n * (size_t) n_kv_heads * sizeof *row);
    float * visible = malloc((size_t) n_kv * sizeof *visible);
    bool got = position && row && visible;
    for (int t = 0; got && t < n; t++) {
        position[t] = first + t;
        for (int64_t j = 0; j < n_kv; j++) {
            visible[j] = j <= first + t ? 0.0f : -INFINITY;
        }
        ggml_backend_tensor_set(mask, visible, (size_t) t * mask->nb[1], mask->nb[1]);
    }
    if (got) {
        kv_cache_rows(cache, n_kv_heads, first, n, row);
        ggml_backend_tensor_set(positions, position, 0, ggml_nbytes(positions));
        ggml_backend_tensor_set(rows, row, 0, ggml_nbytes(rows));
    }
    free(position);
    free(row);
    free(visible);
    return got ? QT_STATUS_OK : QT_FAIL(QT_STATUS_OOM, "no memory for the positions of %d rows", n);
}

/* One chunk of rows [n, D] from position first on; logits NULL: more rows follow. */
static enum qt_status prefill_chunk(const struct talker * t, struct talker_state * state, const struct runner * runner, struct arena * arena, int first,
                                    const float * rows, int n, float * logits) {
    const struct stack_sizes * s = &t->sizes.stack;
    QT_TRY(arena_begin(arena, runner, graph_bound(t)));
    struct block_run run = { .arena = arena, .runner = runner, .stack = &t->stack, .cache = &state->cache, .n_kv = bucket(first + n) };
    struct ggml_tensor * input = arena_input(arena, GGML_TYPE_F32, s->hidden, n); /* [D, n] */
    run.positions = arena_input(arena, GGML_TYPE_I32, n, 1);
    run.cache_rows = arena_input(arena, GGML_TYPE_I64, (int64_t) n * s->n_kv_heads, 1);
    run.mask = arena_input(arena, GGML_TYPE_F32, run.n_kv, n);
    arena_tap_rows(arena, input, "talker.embd");
    struct ggml_tensor * x = stack_build(&run, input, "talker");
    struct ggml_tensor * out = NULL;
    if (logits) {
        out = head_build(t, state, arena, x);
    } else {
        ggml_build_forward_expand(arena->graph, x);
    }
    QT_TRY(arena_alloc(arena, runner));
    ggml_backend_tensor_set(input, rows, 0, ggml_nbytes(input));
    QT_TRY(set_positions(&state->cache, s->n_kv_heads, first, n, run.positions, run.cache_rows, run.mask));
    QT_TRY(arena_run(arena, runner));
    if (logits) {
        ggml_backend_tensor_get(out, logits, 0, ggml_nbytes(out));
    }
    return QT_STATUS_OK;
}

enum qt_status talker_prefill(const struct talker * t, struct talker_state * state, const struct runner * runner, const float * rows, int n, float * logits) {
    QT_TRY(reserve(t, state, runner, state->n_past + n));
    struct arena arena = { 0 };
    enum qt_status status = QT_STATUS_OK;
    for (int done = 0; done < n && status == QT_STATUS_OK; done += PREFILL_CHUNK) {
        int n_chunk = n - done < PREFILL_CHUNK ? n - done : PREFILL_CHUNK;
        bool last = done + n_chunk == n;
        status = prefill_chunk(t, state, runner, &arena, state->n_past + done, rows + (size_t) done * (size_t) t->sizes.stack.hidden, n_chunk,
                               last ? logits : NULL);
    }
    arena_free(&arena);
    if (status == QT_STATUS_OK) {
        state->n_past += n;
        state->hidden_valid = true;
    }
    return status;
}

/* The step's mask is -inf everywhere. */
static void hide_positions(struct talker_state * state) {
    float hidden[64];
    for (int i = 0; i < 64; i++) {
        hidden[i] = -INFINITY;
    }
    for (int64_t at = 0; at < state->step_n_kv; at += 64) {
        int64_t n = state->step_n_kv - at < 64 ? state->step_n_kv - at : 64;
        ggml_backend_tensor_set(state->step_mask, hidden, (size_t) at * sizeof(float), (size_t) n * sizeof(float));
    }
    state->step_visible = 0;
}

static enum qt_status build_step(const struct talker * t, struct talker_state * state, const struct runner * runner, int64_t n_kv) {
    const struct stack_sizes * s = &t->sizes.stack;
    struct arena * arena = &state->step;
    QT_TRY(arena_begin(arena, runner, graph_bound(t)));
    struct ggml_context * ctx = arena->ctx;
    state->step_n_kv = n_kv;
    state->step_codes = arena_input(arena, GGML_TYPE_I32, t->sizes.n_code_groups, 1);
    state->step_overlay = arena_input(arena, GGML_TYPE_F32, s->hidden, 1);
    state->step_positions = arena_input(arena, GGML_TYPE_I32, 1, 1);
    state->step_rows = arena_input(arena, GGML_TYPE_I64, s->n_kv_heads, 1);
    state->step_mask = arena_input(arena, GGML_TYPE_F32, n_kv, 1);
    struct block_run run = {
        .arena = arena, .runner = runner, .stack = &t->stack, .positions = state->step_positions, .mask = state->step_mask, .cache = &state->cache,
        .cache_rows = state->step_rows, .n_kv = n_kv,
    };
    struct ggml_tensor * x = NULL;
    for (int g = 0; g < t->sizes.n_code_groups; g++) {
        struct ggml_tensor * code = ggml_view_1d(ctx, state->step_codes, 1, (size_t) g * sizeof(int32_t));
        struct ggml_tensor * row = ggml_get_rows(ctx, t->code_embd[g], code); /* [D, 1] */
        x = x ? ggml_add(ctx, x, row) : row;
    }
    x = ggml_add(ctx, x, state->step_overlay);
    arena_tap_rows(arena, x, "talker.embd");
    x = stack_build(&run, x, "talker");
    state->step_logits = head_build(t, state, arena, x);
    QT_TRY(arena_alloc(arena, runner));
    hide_positions(state);
    return QT_STATUS_OK;
}

/* Position n_past, its place in the cache, and the mask that shows it and all before it. */
static void set_step_position(const struct talker * t, struct talker_state * state) {
    int32_t position = state->n_past;
    int n_visible = state->n_past + 1;
    kv_cache_rows(&state->cache, t->sizes.stack.n_kv_heads, state->n_past, 1, state->rows);
    ggml_backend_tensor_set(state->step_positions, &position, 0, sizeof position);
    ggml_backend_tensor_set(state->step_rows, state->rows, 0, ggml_nbytes(state->step_rows));
    if (state->step_visible > n_visible) { /* an utterance before this one was longer */
        hide_positions(state);
    }
    ggml_backend_tensor_memset(state->step_mask, 0, (size_t) state->step_visible * sizeof(float), (size_t) (n_visible - state->step_visible) * sizeof(float));
    state->step_visible = n_visible;
}

enum qt_status talker_step(const struct talker * t, struct talker_state * state, const struct runner * runner, const int32_t * codes, const float * overlay,
                           float * logits) {
    QT_TRY(reserve(t, state, runner, state->n_past + 1));
    int64_t n_kv = bucket(state->n_past + 1);
    if (!state->step.ctx || state->step_n_kv != n_kv) {
        enum qt_status status = build_step(t, state, runner, n_kv);
        if (status != QT_STATUS_OK) {
            arena_free(&state->step);
            return status;
        }
    }
    ggml_backend_tensor_set(state->step_codes, codes, 0, ggml_nbytes(state->step_codes));
    ggml_backend_tensor_set(state->step_overlay, overlay, 0, ggml_nbytes(state->step_overlay));
    set_step_position(t, state);
    QT_TRY(arena_run(&state->step, runner));
    ggml_backend_tensor_get(state->step_logits, logits, 0, ggml_nbytes(state->step_logits));
    state->n_past++;
    state->hidden_valid = true;
    return QT_STATUS_OK;
}
