/* op_perf.c - speed of the model's real shapes, for the cases that pass their test.
 * Weights are repeated until they exceed the working set, so that a matrix-vector product is timed from memory and not from a cache; the
 * fastest of several passes counts. GB/s covers every source and the result once, GFLOP/s counts a multiply-add as two. */
#include "op_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_COPIES = 200, PASSES_LEAST = 3 };

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static double flops_of(const struct op_case * c, const struct ggml_tensor * node) {
    double out = (double) ggml_nelements(node);
    switch (c->op) {
        case GGML_OP_MUL_MAT: return 2 * out * (double) c->a[0];
        case GGML_OP_CONV_1D: return 2 * out * (double) (c->a[0] * c->a[1]);
        case GGML_OP_CONV_1D_DW: return 2 * out * (double) c->a[0];
        case GGML_OP_FLASH_ATTN_EXT: return 4 * out * (double) c->b[1];
        case GGML_OP_COL2IM_1D: return (double) (c->a[0] * c->a[1]);
        default: return 0;
    }
}

static bool time_case(ggml_backend_t backend, const struct op_options * o, const struct op_case * c, int n_threads) {
    char error[256];
    bool done = false;
    struct ggml_context * ctx = ggml_init((struct ggml_init_params) {
        .mem_size = ggml_tensor_overhead() * 16 * (MOST_COPIES + 1) + ggml_graph_overhead_custom(8 * MOST_COPIES, false), .no_alloc = true });
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 8 * MOST_COPIES, false);
    struct op_build first = { .ctx = ctx };
    struct ggml_tensor * node = op_build_guarded(&first, c, error, sizeof error);
    ggml_gallocr_t alloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    struct op_guard g = { 0 };
    if (!node || !alloc) {
        goto end;
    }
    size_t bytes = ggml_nbytes(node);
    for (int i = 0; i < first.n_in; i++) {
        bytes += ggml_nbytes(first.in[i].leaf);
    }
    size_t copies = o->working_set_bytes / bytes + 1;
    copies = copies > MOST_COPIES ? MOST_COPIES : copies;
    struct op_build * builds = calloc(copies, sizeof *builds);
    GGML_ASSERT(builds != NULL);
    builds[0] = first;
    ggml_build_forward_expand(graph, node);
    for (size_t n = 1; n < copies; n++) {
        builds[n].ctx = ctx;
        ggml_build_forward_expand(graph, op_build_guarded(&builds[n], c, error, sizeof error));
    }
    if (op_guard_init(&g, backend, ctx, false) && ggml_gallocr_alloc_graph(alloc, graph)) {
        for (int i = 0; i < first.n_in; i++) {
            op_fill_input(&first.in[i], o->seed, op_hash(c->text) + (uint64_t) i * 16, g.image, g.base);
            for (size_t n = 1; n < copies; n++) {
                memcpy(g.image + ((uint8_t *) builds[n].in[i].leaf->data - g.base), g.image + ((uint8_t *) first.in[i].leaf->data - g.base),
                       ggml_nbytes(first.in[i].leaf));
            }
        }
        op_guard_upload(&g);
        ggml_backend_cpu_set_n_threads(backend, n_threads);
        double best_s = 1e30, start_s = now_s();
        for (int pass = 0; pass < PASSES_LEAST || now_s() - start_s < 0.5; pass++) {
            double t = now_s();
            ggml_backend_graph_compute(backend, graph);
            t = now_s() - t;
            best_s = t < best_s ? t : best_s;
        }
        best_s /= (double) copies;
        printf("%-14s %-48s %s %s %d threads %9.1f us %7.2f GB/s", c->key, c->text, o->backend_name, ggml_cpu_tier_name(backend), n_threads,
               best_s * 1e6, (double) bytes / best_s * 1e-9);
        if (flops_of(c, node) > 0) {
            printf(" %8.2f GFLOP/s", flops_of(c, node) / best_s * 1e-9);
        }
        printf("\n");
        done = true;
    }
    free(builds);
end:
    ggml_gallocr_free(alloc);
    op_guard_free(&g);
    ggml_free(ctx);
    return done;
}

int op_run_perf(ggml_backend_t backend, const struct op_options * o) {
    struct op_list list = { 0 };
    int timed = 0, failed = 0;
    op_list_fill_perf(&list);
    for (int i = 0; i < list.n; i++) {
        const struct op_case * c = &list.items[i];
        if (!op_case_selected(o, c)) {
            continue;
        }
        struct op_options failures_only = *o;
        failures_only.quiet = true;
        struct op_result r;
        int verdict = op_run_case(backend, &failures_only, c, &r);
        if (verdict != 0) {
            op_report_case_end(backend, &failures_only, c, verdict, &r);
            printf("%-14s %-48s not timed: its test fails\n", c->key, c->text);
            failed++;
            continue;
        }
        for (int t = 0; t < o->n_threads; t++) {
            timed += time_case(backend, o, c, o->threads[t]);
            fflush(stdout);
        }
    }
    op_list_free(&list);
    if (!timed && !failed) {
        fprintf(stderr, "no case was timed: that is a failure\n");
        return 1;
    }
    return failed;
}
