/* conv_pair.c - two convolutions of which the second alone reads the first's result: bit for bit the same whether the first may stay unwritten or not, on any
 * number of threads, for one push as for two. QWENTTS_CPU_TIER picks the kernels. Prints how many first results stayed unwritten; exit code = failures. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>

struct shape {
    int K, IC, between, OC, T, dilation; /* past: as many columns as the first looks back */
    enum ggml_conv_act act;              /* of both; none: the first without a past, the second without a residual */
    enum ggml_prec prec;
};

static uint32_t random_state = 1;

static void fill(struct ggml_tensor * t) {
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        random_state = random_state * 1664525u + 1013904223u;
        float x = (float) (random_state >> 8) / 8388608.0f - 1.0f;
        if (t->type == GGML_TYPE_F16) {
            ((ggml_fp16_t *) t->data)[i] = ggml_fp32_to_fp16(x);
        } else {
            ((float *) t->data)[i] = x;
        }
    }
}

#define UNTOUCHED 12345.0f

struct inputs {
    struct ggml_tensor * w[2], * bias[2], * snake_a[2], * snake_inv_b[2], * x; /* x: behind the columns that come before it */
};

/* A graph of the pair over samples from first on; the result in out [OC][T], and whether the first's stayed unwritten. */
static bool run(ggml_backend_t backend, const struct shape * s, const struct inputs * in, bool passed_on, int first, int n, float * out, int * unwritten) {
    struct ggml_context * ctx = ggml_init((struct ggml_init_params) { .mem_size = 16 * ggml_tensor_overhead() + ggml_graph_overhead_custom(16, false), .no_alloc = true });
    const int before = (s->K - 1) * s->dilation;
    struct ggml_tensor * x = ggml_view_2d(ctx, in->x, n, s->IC, in->x->nb[1], (size_t) (before + first) * sizeof(float));
    struct ggml_tensor * past = before == 0 ? NULL : ggml_view_2d(ctx, in->x, before, s->IC, in->x->nb[1], (size_t) first * sizeof(float));
    const bool acts = s->act != GGML_CONV_ACT_NONE;
    struct ggml_tensor * y[2];
    for (int i = 0; i < 2; i++) {
        struct ggml_conv_ext ext = { .act = s->act, .snake_a = in->snake_a[i], .snake_inv_b = in->snake_inv_b[i], .bias = in->bias[i], .prec = s->prec };
        ext.past = i == 0 && (acts || first > 0) ? past : NULL;
        ext.residual = i == 1 && acts && s->OC == s->IC ? x : NULL;
        ext.passed_on = i == 0 && passed_on;
        y[i] = ggml_conv_1d_causal(ctx, in->w[i], i == 0 ? x : y[0], 1, i == 0 ? s->dilation : 1, &ext);
    }
    struct ggml_cgraph * graph = ggml_new_graph_custom(ctx, 16, false);
    ggml_build_forward_expand(graph, y[1]);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend); /* a place of its own for each, so that the first's can be looked at */
    bool ok = buffer != NULL;
    for (int i = 0; ok && i < 2; i++) {
        for (int64_t j = 0; j < ggml_nelements(y[i]); j++) {
            ((float *) y[i]->data)[j] = UNTOUCHED;
        }
    }
    ok = ok && ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS;
    if (ok) {
        *unwritten = ((float *) y[0]->data)[0] == UNTOUCHED && ((float *) y[0]->data)[ggml_nelements(y[0]) - 1] == UNTOUCHED;
        for (int c = 0; c < s->OC; c++) {
            memcpy(out + (int64_t) c * s->T + first, (const char *) y[1]->data + (size_t) c * y[1]->nb[1], (size_t) n * sizeof(float));
        }
    }
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    return ok;
}

static int differs(ggml_backend_t backend, const struct shape * s, enum ggml_type type, int * n_unwritten) {
    struct ggml_context * ctx = ggml_init((struct ggml_init_params) { .mem_size = 16 * ggml_tensor_overhead(), .no_alloc = true });
    struct inputs in = { .x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, (s->K - 1) * s->dilation + s->T, s->IC) };
    for (int i = 0; i < 2; i++) {
        const int n_in = i == 0 ? s->IC : s->between, n_out = i == 0 ? s->between : s->OC;
        in.w[i] = ggml_new_tensor_3d(ctx, type, i == 0 ? s->K : 1, n_in, n_out);
        in.bias[i] = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, n_out);
        in.snake_a[i] = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, n_in);
        in.snake_inv_b[i] = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, n_in);
    }
    ggml_backend_buffer_t inputs = ggml_backend_alloc_ctx_tensors(ctx, backend);
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t; t = ggml_get_next_tensor(ctx, t)) {
        fill(t);
    }
    const size_t n_bytes = (size_t) s->T * (size_t) s->OC * sizeof(float);
    float * apart = malloc(n_bytes), * passed = malloc(n_bytes), * pieces = malloc(n_bytes);
    int bad = 0, unwritten = 0, unwritten_apart = 0, rest;
    for (int n_threads = 1; n_threads <= 3 && !bad; n_threads++) {
        ggml_backend_cpu_set_n_threads(backend, n_threads);
        bad = !run(backend, s, &in, false, 0, s->T, apart, &unwritten_apart) || !run(backend, s, &in, true, 0, s->T, passed, &unwritten) ||
              !run(backend, s, &in, true, 0, s->T / 3, pieces, &rest) || !run(backend, s, &in, true, s->T / 3, s->T - s->T / 3, pieces, &rest);
        bad = bad || unwritten_apart || memcmp(apart, passed, n_bytes) != 0 || memcmp(apart, pieces, n_bytes) != 0;
        if (bad) {
            printf("FAIL %s, K %d, %d -> %d -> %d channels, %d columns, dilation %d, act %d, %d threads\n", ggml_type_name(type), s->K, s->IC, s->between, s->OC, s->T,
                   s->dilation, (int) s->act, n_threads);
        }
    }
    *n_unwritten += unwritten;
    free(apart);
    free(passed);
    free(pieces);
    ggml_backend_buffer_free(inputs);
    ggml_free(ctx);
    return bad;
}

int main(void) {
    static const struct shape shapes[] = {
        { 7, 96, 96, 96, 700, 9, GGML_CONV_ACT_SNAKE, GGML_PREC_DEFAULT },   /* narrow, more rows than a part */
        { 7, 72, 40, 72, 131, 3, GGML_CONV_ACT_SNAKE, GGML_PREC_F32 },       /* channels that fill no block */
        { 3, 24, 17, 20, 95, 1, GGML_CONV_ACT_ELU, GGML_PREC_F32 },
        { 1, 64, 64, 64, 33, 1, GGML_CONV_ACT_NONE, GGML_PREC_F32 },
        { 7, 320, 320, 320, 100, 1, GGML_CONV_ACT_SNAKE, GGML_PREC_F32 },    /* wide */
        { 7, 330, 310, 330, 1500, 2, GGML_CONV_ACT_SNAKE, GGML_PREC_DEFAULT }, /* wide, more rows than a chunk */
    };
    static const enum ggml_type types[] = { GGML_TYPE_F16, GGML_TYPE_F32 };
    ggml_backend_t backend = ggml_backend_cpu_init();
    int failures = backend == NULL, n_unwritten = 0;
    for (size_t s = 0; backend && s < sizeof shapes / sizeof *shapes; s++) {
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            failures += differs(backend, &shapes[s], types[t], &n_unwritten);
        }
    }
    ggml_backend_free(backend);
    printf("conv_pair: %d failures, %d unwritten\n", failures, n_unwritten);
    return failures;
}
