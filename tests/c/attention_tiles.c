/* attention_tiles.c - a row of attention gives the same bits alone, with others and on any number of threads: the fused op over T causal rows against the
 * op over each of them, whatever tiles the kernel makes of them. QWENTTS_CPU_TIER picks the kernels. Exit code = failures. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

struct shape {
    int hd, T, H, H_kv, past;
};

static uint32_t random_state = 1;

static float next_random(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (float) (random_state >> 8) / 8388608.0f - 1.0f;
}

/* Random values in any of the three types; of F32 also as the mask: row t sees past + t + 1 keys, and not the oldest when there are many. */
static void fill(struct ggml_tensor * t) {
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        float x = next_random();
        if (t->type == GGML_TYPE_F16) {
            ((ggml_fp16_t *) t->data)[i] = ggml_fp32_to_fp16(x);
        } else if (t->type == GGML_TYPE_BF16) {
            uint32_t bits;
            memcpy(&bits, &x, sizeof bits);
            ((uint16_t *) t->data)[i] = (uint16_t) (bits >> 16);
        } else {
            ((float *) t->data)[i] = x;
        }
    }
}

static void fill_mask(struct ggml_tensor * mask, int past) {
    for (int64_t t = 0; t < mask->ne[1]; t++) {
        for (int64_t j = 0; j < mask->ne[0]; j++) {
            int64_t behind = past + t - j;
            ((float *) mask->data)[t * mask->ne[0] + j] = behind >= 0 && behind < 150 ? (j % 5 == 3 ? -0.25f : 0.0f) : -INFINITY;
        }
    }
}

/* 1 if any row alone differs from the same row among all. */
static int differs(ggml_backend_t backend, const struct shape * s, enum ggml_type type, int n_threads) {
    const int n_kv = s->past + s->T + 70; /* a block behind the last seen key */
    size_t n_bytes = (size_t) (s->T + 8) * 4 * ggml_tensor_overhead() + ggml_graph_overhead_custom(1024, false);
    struct ggml_context * ctx = ggml_init((struct ggml_init_params) { .mem_size = n_bytes, .no_alloc = true });
    struct ggml_tensor * q = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, s->hd, s->T, s->H);
    struct ggml_tensor * k = ggml_new_tensor_3d(ctx, type, s->hd, n_kv, s->H_kv), * v = ggml_new_tensor_3d(ctx, type, s->hd, n_kv, s->H_kv);
    struct ggml_tensor * mask = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, n_kv, s->T);
    ggml_backend_buffer_t inputs = ggml_backend_alloc_ctx_tensors(ctx, backend);
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 1024, false);
    struct ggml_tensor * all = ggml_flash_attn_ext(ctx, q, k, v, mask, 0.2f, 0, 0); /* [hd, H, T] */
    struct ggml_tensor ** alone = calloc((size_t) s->T, sizeof *alone);
    ggml_build_forward_expand(graph, all);
    for (int t = 0; t < s->T; t++) {
        struct ggml_tensor * row = ggml_view_3d(ctx, q, s->hd, 1, s->H, q->nb[1], q->nb[2], (size_t) t * q->nb[1]);
        struct ggml_tensor * seen = ggml_view_2d(ctx, mask, n_kv, 1, mask->nb[1], (size_t) t * mask->nb[1]);
        alone[t] = ggml_flash_attn_ext(ctx, row, k, v, seen, 0.2f, 0, 0);
        ggml_build_forward_expand(graph, alone[t]);
    }
    ggml_gallocr_t memory = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    int bad = !ggml_gallocr_alloc_graph(memory, graph);
    fill(q);
    fill(k);
    fill(v);
    fill_mask(mask, s->past);
    ggml_backend_cpu_set_n_threads(backend, n_threads);
    bad |= ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS;
    for (int t = 0; !bad && t < s->T; t++) {
        bad = memcmp((char *) all->data + (size_t) t * all->nb[2], alone[t]->data, all->nb[2]) != 0;
        if (bad) {
            printf("FAIL row %d of %d, %s, width %d, %d heads over %d, %d threads\n", t, s->T, ggml_type_name(type), s->hd, s->H, s->H_kv, n_threads);
        }
    }
    ggml_gallocr_free(memory);
    ggml_backend_buffer_free(inputs);
    ggml_free(ctx);
    free(alone);
    return bad;
}

int main(void) {
    static const struct shape shapes[] = { { 128, 37, 16, 8, 100 }, { 64, 70, 4, 4, 0 }, { 48, 9, 6, 1, 300 }, { 37, 3, 3, 1, 64 }, { 128, 1, 2, 1, 500 } };
    static const enum ggml_type types[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16 };
    ggml_backend_t backend = ggml_backend_cpu_init();
    int failures = backend == NULL;
    for (size_t s = 0; backend && s < sizeof shapes / sizeof *shapes; s++) {
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            for (int n_threads = 1; n_threads <= 3; n_threads++) {
                failures += differs(backend, &shapes[s], types[t], n_threads);
            }
        }
    }
    ggml_backend_free(backend);
    printf("attention_tiles: %d failures\n", failures);
    return failures;
}
