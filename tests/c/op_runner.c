/* op_runner.c - every op of the tensor core against plain loops in double, in one static binary.
 *
 * op_runner test [--op NAME] [--filter TEXT] [--tier T] [--backend B] [--threads 1,2,4] [--seed N] [--fault NAME] [--quiet | --json]
 * op_runner perf ... [--working-set-mb N] | support [--tiers] | cases
 *
 * A case runs once per thread count between poisoned margins (same bytes each time, nothing else changed), is compared with the reference, and
 * runs again behind the graph allocator, where it may compute in place, and with packed weights where the backend has such. What it prints is op_report.c's; the exit code is
 * the number of failed cases (at most 125), 126 when nothing could run. --fault breaks the reference of one op, or GUARD, INPUT, THREADS,
 * GRAPH, KEEP a check of the runner: a run that then passes would prove that nothing is tested. */
#include "op_test.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static jmp_buf build_failed;
static bool building;
static char build_message[256];

/* While an op is built its refusal is a result; at any other time the program ends. */
static void on_abort(const char * message) {
    if (building) {
        building = false;
        snprintf(build_message, sizeof build_message, "%s", message);
        longjmp(build_failed, 1);
    }
    fprintf(stderr, "%s\n", message);
}

/* The op, or NULL with the text of the builder's refusal. */
struct ggml_tensor * op_build_guarded(struct op_build * b, const struct op_case * c, char * error, size_t error_bytes) {
    struct ggml_tensor * volatile node = NULL;
    b->c = c;
    b->n_in = 0;
    snprintf(error, error_bytes, "the builder returned NULL");
    ggml_set_abort_callback(on_abort);
    if (setjmp(build_failed) == 0) {
        building = true;
        node = c->build(b);
    } else {
        snprintf(error, error_bytes, "the builder refused: %s", build_message);
    }
    building = false;
    return node;
}

static bool is_fault(const struct op_options * o, const char * name) { return o->fault && !strcmp(o->fault, name); }

struct op_run {
    ggml_backend_t backend;
    const struct op_options * o;
    const struct op_case * c;
    char error[512]; /* of the first failure, "" while there is none */
};

static void fail(struct op_run * r, const char * text) {
    if (!r->error[0]) {
        snprintf(r->error, sizeof r->error, "%s", text);
    }
}

static struct ggml_context * new_context(int n) {
    return ggml_init((struct ggml_init_params) { .mem_size = ggml_tensor_overhead() * (size_t) n + ggml_graph_overhead_custom(64, false), .no_alloc = true });
}

static void fill_inputs(const struct op_run * r, const struct op_build * b, struct op_guard * g) {
    for (int i = 0; i < b->n_in; i++) {
        op_fill_input(&b->in[i], r->o->seed, op_hash(r->c->text) + (uint64_t) i * 16, g->image, g->base);
    }
}

/* The elements of t without gaps; bytes holds t->data's first byte at index 0. */
static uint8_t * gather(const struct ggml_tensor * t, const uint8_t * bytes, size_t * n_bytes) {
    size_t size = ggml_type_size(t->type), at = 0;
    int64_t blocks = t->ne[0] / ggml_blck_size(t->type);
    *n_bytes = size * (size_t) (blocks * t->ne[1] * t->ne[2] * t->ne[3]);
    uint8_t * out = malloc(*n_bytes);
    GGML_ASSERT(out != NULL);
    for (int64_t i3 = 0; i3 < t->ne[3]; i3++) {
        for (int64_t i2 = 0; i2 < t->ne[2]; i2++) {
            for (int64_t i1 = 0; i1 < t->ne[1]; i1++) {
                for (int64_t i0 = 0; i0 < blocks; i0++, at += size) {
                    memcpy(out + at, bytes + (size_t) i0 * t->nb[0] + (size_t) i1 * t->nb[1] + (size_t) i2 * t->nb[2] + (size_t) i3 * t->nb[3], size);
                }
            }
        }
    }
    return out;
}

/* Once per thread count: the first result, packed; NULL when the backend failed. */
static uint8_t * run_threads(struct op_run * r, struct op_guard * g, struct ggml_cgraph * graph, struct ggml_tensor * node, size_t * n_bytes) {
    uint8_t * first = NULL;
    char text[256];
    for (int i = 0; i < r->o->n_threads; i++) {
        if (ggml_backend_is_cpu(r->backend)) {
            ggml_backend_cpu_set_n_threads(r->backend, r->o->threads[i]);
        }
        op_guard_upload(g);
        enum ggml_status status = ggml_backend_graph_compute(r->backend, graph);
        op_guard_download(g);
        if (status != GGML_STATUS_SUCCESS) {
            snprintf(text, sizeof text, "computing ended with status %d", (int) status);
            fail(r, text);
            break;
        }
        g->after[0] ^= is_fault(r->o, "GUARD");
        size_t input = (size_t) ((const uint8_t *) ggml_get_first_tensor(g->tensors)->data - g->base);
        g->after[input] ^= is_fault(r->o, "INPUT") && !g->mask[input];
        if (op_guard_check(g, text, sizeof text)) {
            fail(r, text);
        }
        uint8_t * now = gather(node, g->after + ((uint8_t *) node->data - g->base), n_bytes);
        if (is_fault(r->o, "THREADS") && i) {
            now[0] ^= 1;
        }
        if (first && memcmp(first, now, *n_bytes) != 0) {
            snprintf(text, sizeof text, "the result at %d threads differs from the one at %d", r->o->threads[i], r->o->threads[0]);
            fail(r, text);
        }
        if (first) {
            free(now);
        } else {
            first = now;
        }
    }
    return first;
}

static void compare(struct op_run * r, const struct ref_op * ref, const struct ggml_tensor * node, const uint8_t * result, struct op_metrics * m) {
    double * want = malloc((size_t) ref->ne[0] * sizeof(double)), * mag = malloc((size_t) ref->ne[0] * sizeof(double));
    GGML_ASSERT(want && mag);
    size_t row_bytes = ggml_row_size(node->type, node->ne[0]);
    int64_t rows = ref->ne[1] * ref->ne[2] * ref->ne[3];
    char text[128];
    for (int64_t row = 0; row < rows; row++) {
        const uint8_t * got = result + (size_t) row * row_bytes;
        if (row % r->c->row_step && row != rows - 1) { /* not computed here: it must at least have been written */
            for (int64_t k = 0; k < ref->ne[0]; k++) {
                m->unlike += !isfinite(op_dtype_load(node->type, got, k));
            }
            continue;
        }
        const int64_t i[4] = { 0, row % ref->ne[1], row / ref->ne[1] % ref->ne[2], row / (ref->ne[1] * ref->ne[2]) };
        ref_op_row(ref, i, want, mag);
        for (int64_t k = 0; k < ref->ne[0]; k++) {
            op_metrics_add(m, node->type, op_dtype_load(node->type, got, k), want[k], mag[k]);
        }
    }
    op_metrics_finish(m);
    if (m->unlike) {
        snprintf(text, sizeof text, "%lld values are NaN or infinite on one side only", (long long) m->unlike);
        fail(r, text);
    }
    free(want);
    free(mag);
}

/* The same op behind the graph allocator, inputs being results of other nodes. keep: they are read again after it. */
static void run_allocated(struct op_run * r, const uint8_t * expected, size_t expected_bytes, bool keep) {
    struct op_build b = { .ctx = new_context(64), .through_graph = true };
    struct op_guard g = { 0 };
    struct ggml_tensor * kept[OP_MAX_INPUTS] = { 0 };
    ggml_gallocr_t alloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(r->backend));
    struct ggml_tensor * node = b.ctx && alloc ? op_build_guarded(&b, r->c, r->error, sizeof r->error) : NULL;
    if (!node) {
        goto end;
    }
    r->error[0] = 0;
    struct ggml_cgraph * graph = ggml_new_graph_custom(b.ctx, 64, false);
    ggml_set_output(node);
    ggml_build_forward_expand(graph, node);
    for (int i = 0; keep && i < b.n_in; i++) {
        if (b.passed[i]) {
            kept[i] = ggml_scale(b.ctx, b.passed[i], 1.0f);
            ggml_set_output(kept[i]);
            ggml_build_forward_expand(graph, kept[i]);
        }
    }
    if (!op_guard_init(&g, r->backend, b.ctx, false) || !ggml_gallocr_alloc_graph(alloc, graph)) {
        fail(r, "no memory for the allocated graph");
        goto end;
    }
    fill_inputs(r, &b, &g);
    op_guard_upload(&g);
    enum ggml_status status = ggml_backend_graph_compute(r->backend, graph);
    op_guard_download(&g);
    if (status != GGML_STATUS_SUCCESS) {
        fail(r, "computing behind the graph allocator failed");
        goto end;
    }
    size_t n_bytes;
    uint8_t * bytes = malloc(ggml_nbytes(node));
    GGML_ASSERT(bytes != NULL);
    ggml_backend_tensor_get(node, bytes, 0, ggml_nbytes(node));
    uint8_t * result = gather(node, bytes, &n_bytes);
    result[0] ^= is_fault(r->o, "GRAPH");
    if (n_bytes != expected_bytes || memcmp(result, expected, n_bytes) != 0) {
        fail(r, "the result behind the graph allocator differs from the one in memory of its own");
    }
    for (int i = 0; i < b.n_in; i++) {
        for (int64_t k = 0; kept[i] && k < ggml_nelements(kept[i]); k++) {
            float was, is;
            memcpy(&was, g.image + ((uint8_t *) b.in[i].leaf->data - g.base) + (size_t) k * sizeof was, sizeof was);
            ggml_backend_tensor_get(kept[i], &is, (size_t) k * sizeof is, sizeof is);
            if ((is != was && !(isnan(is) && isnan(was))) || is_fault(r->o, "KEEP")) {
                fail(r, "an input that is read again later was overwritten in place");
                break;
            }
        }
    }
    free(bytes);
    free(result);
end:
    ggml_gallocr_free(alloc);
    op_guard_free(&g);
    ggml_free(b.ctx);
}

/* The metrics against bounds.csv; what they are goes to result. */
/* c: the case, under the key whose bounds hold. */
static void check_bounds(struct op_run * r, const struct op_case * c, const struct op_metrics * m, struct op_result * result) {
    struct op_bound bounds[4];
    int n_bounds = op_bounds_find(c, r->o->backend_name, bounds, 4);
    if (!n_bounds) {
        fail(r, "tests/bounds.csv has no row for this op, type and backend");
    }
    for (int i = 0; i < n_bounds; i++) {
        double value = op_metrics_get(m, bounds[i].metric);
        bool ok = value <= bounds[i].bound;
        if (!ok) {
            fail(r, OP_OUT_OF_BOUNDS);
        }
        result->of[i].metric = bounds[i].metric;
        result->of[i].value = value;
        result->of[i].bound = bounds[i].bound;
        result->of[i].ok = ok;
        result->n = i + 1;
    }
}

#define FRAME_COLUMNS 2 /* up to which activations are rounded to int8, as they are without packing; more are a prompt, which has bounds of its own */

/* Weights of a product or convolution in memory of the backend's own order, if it has such for them; NULL: no. */
static struct ggml_tensor * new_packed(struct op_run * r, struct ggml_context * ctx, const struct ggml_tensor * node, ggml_backend_buffer_t * buffer) {
    const struct ggml_tensor * a = node->src[0];
    const bool transposed = node->op == GGML_OP_CONV_TRANSPOSE_1D;
    const int stride = transposed ? r->c->p[0] : 0;
    ggml_backend_buffer_type_t type = NULL;
    if (node->op == GGML_OP_MUL_MAT && r->c->p[0] != GGML_PREC_F32 && ggml_cpu_can_pack(a)) {
        type = ggml_backend_cpu_packed_buffer_type(r->backend);
    } else if ((node->op == GGML_OP_CONV_1D || transposed) && ggml_cpu_can_pack_kernel(a, stride)) {
        type = ggml_backend_cpu_kernel_buffer_type(r->backend);
    }
    if (!type) {
        return NULL;
    }
    struct ggml_tensor * packed = ggml_new_tensor_3d(ctx, a->type, a->ne[0], a->ne[1], a->ne[2]);
    if (node->op != GGML_OP_MUL_MAT) {
        ggml_cpu_set_kernel_stride(packed, stride);
    }
    *buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, type);
    GGML_ASSERT(*buffer);
    memset(ggml_backend_buffer_get_base(*buffer), 0xff, ggml_backend_buffer_get_size(*buffer)); /* what nobody sets is NaN */
    return packed;
}

/* The same with weights in the backend's packed memory, where it has such: within the same bounds, and the weights come back as they went in. */
static void run_packed(struct op_run * r, struct op_guard * g, struct ggml_cgraph * graph, struct ggml_tensor * node, const struct ref_op * ref,
                       struct op_result * result) {
    struct ggml_tensor * a = node->src[0];
    struct ggml_context * ctx = new_context(1);
    ggml_backend_buffer_t buffer = NULL;
    struct ggml_tensor * packed = new_packed(r, ctx, node, &buffer);
    if (!packed) {
        ggml_free(ctx);
        return;
    }
    const size_t a_bytes = ggml_nbytes(a);
    const uint8_t * values = g->image + ((uint8_t *) a->data - g->base);
    uint8_t * back = malloc(a_bytes);
    GGML_ASSERT(back);
    const size_t first = node->op == GGML_OP_MUL_MAT ? ggml_row_size(a->type, a->ne[0]) * 3 : 0; /* matrices in two parts, neither of whole groups */
    ggml_backend_tensor_set(packed, values + first, first, a_bytes - first);
    if (first > 0) {
        ggml_backend_tensor_set(packed, values, 0, first);
    }
    ggml_backend_tensor_get(packed, back, 0, a_bytes);
    if (memcmp(back, values, a_bytes) != 0) {
        fail(r, "packed weights are read back with other bytes than they were set with");
    }
    node->src[0] = packed;
    size_t n_bytes;
    uint8_t * bytes = run_threads(r, g, graph, node, &n_bytes);
    node->src[0] = a;
    if (bytes) {
        struct op_metrics m = { 0 };
        compare(r, ref, node, bytes, &m);
        struct op_case as = *r->c;
        if (node->op == GGML_OP_MUL_MAT && node->ne[1] > FRAME_COLUMNS) {
            const bool cuts_weights = strcmp(ggml_cpu_tier_name(r->backend), "amx") == 0;
            as.key = as.fill != FILL_WHOLE ? "MUL_MAT_PROMPT" : cuts_weights ? "MUL_MAT_PROMPT_AMX" : as.key;
        }
        check_bounds(r, &as, &m, result);
    }
    free(bytes);
    free(back);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
}

int op_run_case(ggml_backend_t backend, const struct op_options * o, const struct op_case * c, struct op_result * result) {
    struct op_run r = { .backend = backend, .o = o, .c = c };
    struct op_build b = { .ctx = new_context(32) };
    struct op_guard g = { 0 };
    struct ref_op ref = { 0 };
    struct op_metrics m = { 0 };
    uint8_t * bytes = NULL;
    size_t n_bytes = 0;
    int verdict = 1;
    result->n = 0;
    struct ggml_tensor * node = op_build_guarded(&b, c, r.error, sizeof r.error);
    if (!node) {
        goto end;
    }
    r.error[0] = 0;
    if (!ggml_backend_supports_op(backend, node)) {
        verdict = -1;
        goto end;
    }
    struct ggml_cgraph * graph = ggml_new_graph_custom(b.ctx, 64, false);
    ggml_build_forward_expand(graph, node);
    if (!op_guard_init(&g, backend, b.ctx, true)) {
        fail(&r, "no memory for the tensors");
        goto end;
    }
    fill_inputs(&r, &b, &g);
    op_guard_allow(&g, node);
    if (!ref_op_init(&ref, &b, g.image, g.base, o->fault && (!strcmp(o->fault, c->key) || !strcmp(o->fault, ggml_op_name(c->op))))) {
        fail(&r, "no memory for the reference");
        goto end;
    }
    if (memcmp(ref.ne, node->ne, sizeof ref.ne) != 0) {
        snprintf(r.error, sizeof r.error, "shape [%d, %d, %d, %d], expected [%d, %d, %d, %d]", (int) node->ne[0], (int) node->ne[1], (int) node->ne[2],
                 (int) node->ne[3], (int) ref.ne[0], (int) ref.ne[1], (int) ref.ne[2], (int) ref.ne[3]);
        goto end;
    }
    bytes = run_threads(&r, &g, graph, node, &n_bytes);
    if (!bytes) {
        goto end;
    }
    compare(&r, &ref, node, bytes, &m);
    check_bounds(&r, c, &m, result);
    for (int keep = 0; keep < 2 && !r.error[0]; keep++) {
        run_allocated(&r, bytes, n_bytes, keep);
    }
    if (!r.error[0]) {
        run_packed(&r, &g, graph, node, &ref, result);
    }
    verdict = r.error[0] != 0;
end:
    snprintf(result->error, sizeof result->error, "%s", r.error);
    free(bytes);
    ref_op_free(&ref);
    op_guard_free(&g);
    ggml_free(b.ctx);
    return verdict;
}
