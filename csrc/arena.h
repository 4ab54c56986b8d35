/* arena.h - one graph of fixed shape: its tensors, its plan and its memory. Built and allocated once, then run as often as its inputs
 * change. A runner is what a session's graphs run on. */
#ifndef QT_ARENA_H
#define QT_ARENA_H

#include "error.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <stdatomic.h>

/* What every graph of a session needs to know; settings are the context's, the tap and the cancel flag the session's. */
struct runner {
    ggml_backend_t backend;
    bool fused_attention;
    bool clamp_fp16;
    enum ggml_type kv_type; /* of the talker's cache */
    qt_tap_cb tap; /* NULL: no stage is named, nothing is paid */
    void * tap_user_data;
    atomic_bool * cancelled;
};

struct arena {
    struct ggml_context * ctx; /* NULL: no graph is held */
    struct ggml_cgraph * graph;
    ggml_gallocr_t galloc;
    bool shares_memory; /* galloc belongs to somebody else */
    struct ggml_tensor ** taps; /* named stages, in the order they are computed; NULL without a tap */
    int n_taps;
    int n_max; /* tensors and graph nodes */
};

/* Drop what the arena holds and start a graph of at most n_max tensors. */
enum qt_status arena_begin(struct arena * arena, const struct runner * runner, int n_max);
/* After the graph is built: check that the backend computes all of it, and give its tensors memory. The arena is empty after a failure. */
enum qt_status arena_alloc(struct arena * arena, const struct runner * runner);
/* Between begin and alloc: the graph's memory is memory's, which other graphs use too and which outlives the arena. Only one of them holds values at a
 * time: arena_place, then all inputs, run, and what is read of it. */
void arena_share(struct arena * arena, ggml_gallocr_t memory);
/* The graph's tensors are in place again, after another graph had the memory; nothing to do where none had. */
enum qt_status arena_place(struct arena * arena);
/* Compute, then deliver the taps. */
enum qt_status arena_run(struct arena * arena, const struct runner * runner);
void arena_free(struct arena * arena);

/* A packed input of the graph; its memory is its own while the arena lives. */
struct ggml_tensor * arena_input(struct arena * arena, enum ggml_type type, int64_t ne0, int64_t ne1);
/* Add tensor to the graph as a result that is read after the run. */
void arena_output(struct arena * arena, struct ggml_tensor * tensor);

/* Name a stage, when a tap is set: rows is [C, T], columns is time first, [T, C]; both are delivered as [C, T]. */
void arena_tap_rows(struct arena * arena, struct ggml_tensor * rows, const char * fmt, ...) QT_PRINTF(3, 4);
void arena_tap_columns(struct arena * arena, struct ggml_tensor * columns, const char * fmt, ...) QT_PRINTF(3, 4);

#endif
