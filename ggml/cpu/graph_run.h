/* graph_run.h - what the CPU backend is made of, and the two things it does with ops: say whether it has them, and run a graph of them. */
#pragma once

#include "../include/ggml-cpu.h"
#include "kernels.h"
#include "threads.h"

struct cpu_backend {
    const struct cpu_kernels * kernels;
    struct cpu_pool * pool; /* NULL after a pool of the wanted size could not be made */
    int n_threads;
    void * scratch;         /* grown before a run that wants more, and kept */
    size_t scratch_bytes;
    ggml_abort_callback abort_callback;
    void * abort_data;
};

enum ggml_status cpu_graph_run(struct cpu_backend * cpu, struct ggml_cgraph * graph);

/* supports_op.c: exact in op, types and layout. */
bool cpu_supports_op(const struct ggml_tensor * op);
