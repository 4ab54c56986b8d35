/* exact_columns.c - a column of a product asked for in F32 gives the same bits alone and among any number of others, for each type of weights: a sample of the
 * codec must not depend on how many frames its graph has. QWENTTS_CPU_TIER picks the kernels. Exit code = failures. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

enum { K = 512, M = 38, MOST = 19 };

static uint32_t random_state = 1;

static void fill(float * x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        random_state = random_state * 1664525u + 1013904223u;
        x[i] = (float) (random_state >> 8) / 8388608.0f - 1.0f;
    }
}

static int differs(ggml_backend_t backend, enum ggml_type type) {
    struct ggml_context * ctx = ggml_init((struct ggml_init_params) {
        .mem_size = (3 * MOST + 4) * ggml_tensor_overhead() + ggml_graph_overhead_custom(4 * MOST, false), .no_alloc = true });
    struct ggml_tensor * w = ggml_new_tensor_2d(ctx, type, K, M), * x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, K, MOST), * y[MOST];
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 4 * MOST, false);
    for (int n = 1; n <= MOST; n++) { /* the last n columns */
        y[n - 1] = ggml_mul_mat(ctx, w, ggml_view_2d(ctx, x, K, n, x->nb[1], (size_t) (MOST - n) * x->nb[1]));
        ggml_mul_mat_set_prec(y[n - 1], GGML_PREC_F32);
        ggml_build_forward_expand(graph, y[n - 1]);
    }
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    float values[K * M];
    fill(values, K * M);
    fill(x->data, K * MOST);
    ggml_quantize_chunk(type, values, w->data, 0, M, K, NULL);
    int bad = ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS;
    for (int n = 1; n < MOST && !bad; n++) {
        bad = memcmp((char *) y[MOST - 1]->data + (size_t) (MOST - n) * y[MOST - 1]->nb[1], y[n - 1]->data, (size_t) n * y[0]->nb[1]) != 0;
        if (bad) {
            printf("FAIL %s: the last %d columns are others among %d\n", ggml_type_name(type), n, MOST);
        }
    }
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    return bad;
}

int main(void) {
    static const enum ggml_type types[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K };
    ggml_backend_t backend = ggml_backend_cpu_init();
    int failures = backend == NULL;
    for (size_t t = 0; backend && t < sizeof types / sizeof *types; t++) {
        for (int n_threads = 1; n_threads <= 3; n_threads++) {
            ggml_backend_cpu_set_n_threads(backend, n_threads);
            failures += differs(backend, types[t]);
        }
    }
    ggml_backend_free(backend);
    printf("exact_columns: %d failures\n", failures);
    return failures;
}
