/* arena.c - build, allocate, run; see arena.h. A tap is a copy of its stage, so what computes
 * the result is the same with and without one. */
#include "arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum qt_status arena_begin(struct arena * arena, const struct runner * runner, int n_max) {
    arena_free(arena);
    size_t n = (size_t) n_max;
    size_t n_bytes = n * ggml_tensor_overhead() + ggml_graph_overhead_custom(n, false);
    arena->n_max = n_max;
    arena->ctx = ggml_init((struct ggml_init_params) { .mem_size = n_bytes, .no_alloc = true });
    arena->graph = arena->ctx ? ggml_new_graph_custom(arena->ctx, n, false) : NULL;
    arena->galloc = arena->graph ? ggml_gallocr_new(ggml_backend_get_default_buffer_type(runner->backend)) : NULL;
    if (runner->tap) {
        arena->taps = calloc(n, sizeof *arena->taps);
    }
    if (!arena->galloc || (runner->tap && !arena->taps)) {
        arena_free(arena);
        return QT_FAIL(QT_STATUS_OOM, "no memory for a graph of %d tensors", n_max);
    }
    return QT_STATUS_OK;
}

/* A file may hold a type or a width that the device has no kernel for; it says so here instead of failing inside the graph. */
static enum qt_status check_support(const struct arena * arena, const struct runner * runner) {
    for (int i = 0; i < ggml_graph_n_nodes(arena->graph); i++) {
        const struct ggml_tensor * node = ggml_graph_node(arena->graph, i);
        if (!ggml_backend_supports_op(runner->backend, node)) {
            const struct ggml_tensor * a = node->src[0];
            return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s has no kernel for %s of %s %s [%lld, %lld, %lld]", ggml_backend_name(runner->backend),
                           ggml_op_name(node->op), a ? ggml_type_name(a->type) : "", a ? ggml_get_name(a) : "", a ? (long long) a->ne[0] : 0,
                           a ? (long long) a->ne[1] : 0, a ? (long long) a->ne[2] : 0);
        }
    }
    return QT_STATUS_OK;
}

enum qt_status arena_alloc(struct arena * arena, const struct runner * runner) {
    enum qt_status status = check_support(arena, runner);
    if (status != QT_STATUS_OK) {
        arena_free(arena);
        return status;
    }
    status = arena_place(arena);
    if (status != QT_STATUS_OK) {
        arena_free(arena);
    }
    return status;
}

enum qt_status arena_place(struct arena * arena) {
    return ggml_gallocr_alloc_graph(arena->galloc, arena->graph) ? QT_STATUS_OK : QT_FAIL(QT_STATUS_OOM, "no memory for the intermediate results of a graph");
}

void arena_share(struct arena * arena, ggml_gallocr_t memory) {
    ggml_gallocr_free(arena->galloc);
    arena->galloc = memory;
    arena->shares_memory = true;
}

static enum qt_status deliver(const struct arena * arena, const struct runner * runner) {
    for (int i = 0; i < arena->n_taps; i++) {
        const struct ggml_tensor * tap = arena->taps[i];
        size_t n_bytes = ggml_nbytes(tap);
        float * data = malloc(n_bytes);
        if (!data) {
            return QT_FAIL(QT_STATUS_OOM, "no memory for the stage %s", ggml_get_name(tap));
        }
        ggml_backend_tensor_get(tap, data, 0, n_bytes);
        runner->tap(ggml_get_name(tap), data, tap->ne, runner->tap_user_data);
        free(data);
    }
    return QT_STATUS_OK;
}

enum qt_status arena_run(struct arena * arena, const struct runner * runner) {
    if (atomic_load(runner->cancelled)) {
        return QT_FAIL(QT_STATUS_CANCELLED, "the session was cancelled: qt_session_reset starts it again");
    }
    switch (ggml_backend_graph_compute(runner->backend, arena->graph)) {
        case GGML_STATUS_SUCCESS: break;
        case GGML_STATUS_ABORTED: return QT_FAIL(QT_STATUS_CANCELLED, "the session was cancelled: qt_session_reset starts it again");
        case GGML_STATUS_ALLOC_FAILED: return QT_FAIL(QT_STATUS_OOM, "no memory while computing a graph");
        case GGML_STATUS_FAILED: return QT_FAIL(QT_STATUS_GENERATE_FAILED, "%s failed to compute a graph", ggml_backend_name(runner->backend));
    }
    return runner->tap ? deliver(arena, runner) : QT_STATUS_OK;
}

void arena_free(struct arena * arena) {
    if (!arena->shares_memory) {
        ggml_gallocr_free(arena->galloc);
    }
    ggml_free(arena->ctx);
    free(arena->taps);
    *arena = (struct arena) { 0 };
}

struct ggml_tensor * arena_input(struct arena * arena, enum ggml_type type, int64_t ne0, int64_t ne1) {
    struct ggml_tensor * input = ggml_new_tensor_2d(arena->ctx, type, ne0, ne1);
    ggml_set_input(input);
    return input;
}

void arena_output(struct arena * arena, struct ggml_tensor * tensor) {
    ggml_set_output(tensor);
    ggml_build_forward_expand(arena->graph, tensor);
}

static void add_tap(struct arena * arena, struct ggml_tensor * stage, const char * fmt, va_list args) {
    char name[GGML_MAX_NAME];
    vsnprintf(name, sizeof name, fmt, args);
    struct ggml_tensor * copy = ggml_cont(arena->ctx, stage);
    ggml_set_name(copy, name);
    arena_output(arena, copy);
    arena->taps[arena->n_taps++] = copy;
}

void arena_tap_rows(struct arena * arena, struct ggml_tensor * rows, const char * fmt, ...) {
    if (arena->taps) {
        va_list args;
        va_start(args, fmt);
        add_tap(arena, rows, fmt, args);
        va_end(args);
    }
}

void arena_tap_columns(struct arena * arena, struct ggml_tensor * columns, const char * fmt, ...) {
    if (arena->taps) {
        va_list args;
        va_start(args, fmt);
        add_tap(arena, ggml_transpose(arena->ctx, columns), fmt, args);
        va_end(args);
    }
}
