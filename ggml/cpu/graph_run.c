/* graph_run.c - runs the nodes of a graph in order on the pool.
 * All threads walk the same list. A node of little work runs on thread 0 alone, since meeting at a barrier costs about a microsecond; a barrier stands
 * only where a node that all compute follows another node, or is followed by one. The abort callback is asked by thread 0 before each node. */
#include "graph_run.h"
#include "memory.h"

#include <limits.h>
#include <stdatomic.h>

#define SERIAL_WORK 16384 /* units of about a nanosecond / 8: under this two threads lose more at the barrier than they win */

struct graph_job {
    struct cpu_backend * cpu;
    struct ggml_cgraph * graph;
    atomic_int stop_at; /* nodes from this one on do not run */
};

/* Rough cost in vector-friendly element operations; only the choice between one thread and all depends on it, never a result. */
static double node_work(const struct ggml_tensor * node) {
    double n = (double) ggml_nelements(node);
    const struct ggml_tensor * a = node->src[0];
    switch (node->op) {
        case GGML_OP_MUL_MAT: return n * (double) a->ne[0];
        case GGML_OP_OUT_PROD: return n * (double) a->ne[1];
        case GGML_OP_CONV_1D: return n * (double) (a->ne[0] * a->ne[1]);
        case GGML_OP_CONV_1D_DW: return n * (double) a->ne[0];
        case GGML_OP_CONV_TRANSPOSE_1D: return n * (double) (a->ne[0] * a->ne[2]) / ggml_get_op_params_i32(node, 0);
        case GGML_OP_FLASH_ATTN_EXT: return 2.0 * n * (double) node->src[1]->ne[1];
        case GGML_OP_UNARY:
        case GGML_OP_LOG:
        case GGML_OP_GLU:
        case GGML_OP_SNAKE:
        case GGML_OP_SOFT_MAX: return 8.0 * n;
        case GGML_OP_NORM:
        case GGML_OP_RMS_NORM:
        case GGML_OP_ROPE: return 4.0 * n;
        case GGML_OP_SUM_ROWS:
        case GGML_OP_MEAN:
        case GGML_OP_ARGMAX: return 2.0 * (double) ggml_nelements(a); /* the result is one value a row */
        default: return 2.0 * n;
    }
}

static bool is_serial(const struct ggml_tensor * node) { return node_work(node) < SERIAL_WORK; }

static bool is_computed(const struct cpu_kernels * kernels, const struct ggml_tensor * node) {
    return kernels->ops[node->op] && !ggml_is_empty(node);
}

/* The node after i that is computed; NULL: none. */
static struct ggml_tensor * next_computed(const struct cpu_kernels * kernels, const struct ggml_cgraph * graph, int i) {
    for (i++; i < graph->n_nodes; i++) {
        if (is_computed(kernels, graph->nodes[i])) {
            return graph->nodes[i];
        }
    }
    return NULL;
}

/* The node that is computed together with node i; NULL: none. */
static struct ggml_tensor * second_of_pair(const struct cpu_kernels * kernels, const struct ggml_cgraph * graph, int i) {
    struct ggml_tensor * next = kernels->pairs ? next_computed(kernels, graph, i) : NULL;
    return next && kernels->pairs(graph->nodes[i], next) ? next : NULL;
}

static void run_node(const struct cpu_kernels * kernels, const struct cpu_task * task, struct ggml_tensor * node, struct ggml_tensor * second) {
    if (second) {
        kernels->pair(task, node, second);
    } else {
        kernels->ops[node->op](task, node);
    }
}

static void run_nodes(struct cpu_pool * pool, int ith, int nth, void * arg) {
    struct graph_job * job = arg;
    struct cpu_backend * cpu = job->cpu;
    bool after_parallel = false, after_serial = false;
    for (int i = 0; i < job->graph->n_nodes; i++) {
        struct ggml_tensor * node = job->graph->nodes[i];
        if (!is_computed(cpu->kernels, node)) {
            continue;
        }
        struct ggml_tensor * second = second_of_pair(cpu->kernels, job->graph, i);
        bool serial = nth == 1 || (is_serial(node) && !second);
        if (ith == 0 && cpu->abort_callback && atomic_load_explicit(&job->stop_at, memory_order_relaxed) > i && cpu->abort_callback(cpu->abort_data)) {
            atomic_store_explicit(&job->stop_at, i, memory_order_relaxed);
        }
        /* stop_at is written between two barriers and, for a node all compute, read after the second: all threads leave at the same node. A thread
         * still on its way from the first barrier may see it early, but then it is larger than that thread's i. */
        if (after_parallel || (after_serial && !serial)) {
            cpu_pool_barrier(pool, ith);
            after_parallel = after_serial = false;
        } else if (!serial && cpu->abort_callback) {
            cpu_pool_barrier(pool, ith); /* the first node: the decision of thread 0 must be known here too */
        }
        if (serial) {
            after_serial = true;
            if (ith == 0 && atomic_load_explicit(&job->stop_at, memory_order_relaxed) > i) {
                run_node(cpu->kernels, &(struct cpu_task) { .ith = 0, .nth = 1, .scratch = cpu->scratch, .pool = pool }, node, second);
            }
        } else {
            after_parallel = true;
            if (atomic_load_explicit(&job->stop_at, memory_order_relaxed) <= i) {
                return;
            }
            run_node(cpu->kernels, &(struct cpu_task) { .ith = ith, .nth = nth, .scratch = cpu->scratch, .pool = pool }, node, second);
        }
        while (second && job->graph->nodes[i] != second) {
            i++;
        }
    }
}

static size_t scratch_wanted(const struct cpu_backend * cpu, const struct ggml_cgraph * graph) {
    size_t most = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const struct ggml_tensor * node = graph->nodes[i];
        cpu_scratch_fn fn = cpu->kernels->scratch[node->op];
        if (!fn || !is_computed(cpu->kernels, node)) {
            continue;
        }
        const struct ggml_tensor * second = second_of_pair(cpu->kernels, graph, i);
        const int nth = cpu->n_threads == 1 || (is_serial(node) && !second) ? 1 : cpu->n_threads;
        size_t size = second ? cpu->kernels->pair_scratch(node, second, nth) : fn(node, nth);
        most = size > most ? size : most;
    }
    return most;
}

enum ggml_status cpu_graph_run(struct cpu_backend * cpu, struct ggml_cgraph * graph) {
    if (cpu->pool && !cpu_pool_is_ours(cpu->pool)) {
        cpu_pool_free(cpu->pool);
        cpu->pool = NULL;
    }
    if (!cpu->pool && !(cpu->pool = cpu_pool_new(cpu->n_threads))) {
        ggml_log_internal(GGML_LOG_LEVEL_ERROR, "cpu: %d threads cannot be started", cpu->n_threads);
        return GGML_STATUS_FAILED;
    }
    size_t want = scratch_wanted(cpu, graph);
    if (want > cpu->scratch_bytes) {
        cpu_memory_free(cpu->scratch, cpu->scratch_bytes);
        cpu->scratch_bytes = 0;
        cpu->scratch = cpu_memory_new(want);
        if (!cpu->scratch) {
            ggml_log_internal(GGML_LOG_LEVEL_ERROR, "cpu: no memory for %zu bytes of scratch", want);
            return GGML_STATUS_ALLOC_FAILED;
        }
        cpu->scratch_bytes = want;
    }
    struct graph_job job = { .cpu = cpu, .graph = graph };
    atomic_init(&job.stop_at, INT_MAX);
    cpu_pool_run(cpu->pool, run_nodes, &job);
    return atomic_load_explicit(&job.stop_at, memory_order_relaxed) == INT_MAX ? GGML_STATUS_SUCCESS : GGML_STATUS_ABORTED;
}
