/* op_cases_elementwise.c - cases of the ops that keep a shape: binary with broadcast, unary, snake, norms, rotation, softmax; and of those that make
 * one value of a row: sum, mean, argmax. */
#include "op_test.h"

#include <string.h>

#define N_OF(x) ((int) (sizeof(x) / sizeof(x)[0]))

static struct ggml_tensor * first_of(struct op_build * b) { return op_in(b, b->c->type, b->c->a, b->c->la, b->c->fill); }
static struct ggml_tensor * second_of(struct op_build * b) { return op_in(b, b->c->type_b, b->c->b, b->c->lb, b->c->fill); }

static struct ggml_tensor * build_binary(struct op_build * b) {
    struct ggml_tensor * x = first_of(b), * y = second_of(b);
    switch (b->c->op) {
        case GGML_OP_ADD: return ggml_add(b->ctx, x, y);
        case GGML_OP_SUB: return ggml_sub(b->ctx, x, y);
        case GGML_OP_MUL: return ggml_mul(b->ctx, x, y);
        case GGML_OP_DIV: return ggml_div(b->ctx, x, y);
        default: return ggml_swiglu_split(b->ctx, x, y);
    }
}

static struct ggml_tensor * build_unary(struct op_build * b) {
    struct ggml_tensor * x = first_of(b);
    switch (b->c->op) {
        case GGML_OP_SCALE: return ggml_scale(b->ctx, x, b->c->f[0]);
        case GGML_OP_CLAMP: return ggml_clamp(b->ctx, x, b->c->f[0], b->c->f[1]);
        case GGML_OP_NORM: return ggml_norm(b->ctx, x, b->c->f[0]);
        case GGML_OP_RMS_NORM: return ggml_rms_norm(b->ctx, x, b->c->f[0]);
        case GGML_OP_SQR: return ggml_sqr(b->ctx, x);
        case GGML_OP_SQRT: return ggml_sqrt(b->ctx, x);
        case GGML_OP_LOG: return ggml_log(b->ctx, x);
        case GGML_OP_SUM_ROWS: return ggml_sum_rows(b->ctx, x);
        case GGML_OP_MEAN: return ggml_mean(b->ctx, x);
        case GGML_OP_ARGMAX: return ggml_argmax(b->ctx, x);
        default: break;
    }
    switch (b->c->unary) {
        case GGML_UNARY_OP_TANH: return ggml_tanh(b->ctx, x);
        case GGML_UNARY_OP_RELU: return ggml_relu(b->ctx, x);
        case GGML_UNARY_OP_SIGMOID: return ggml_sigmoid(b->ctx, x);
        case GGML_UNARY_OP_GELU: return ggml_gelu(b->ctx, x);
        case GGML_UNARY_OP_GELU_ERF: return ggml_gelu_erf(b->ctx, x);
        case GGML_UNARY_OP_SILU: return ggml_silu(b->ctx, x);
        case GGML_UNARY_OP_ELU: return ggml_elu(b->ctx, x);
        default: return ggml_unary(b->ctx, x, b->c->unary);
    }
}

struct ggml_tensor * build_rms_norm(struct op_build * b) { return build_unary(b); }

/* x [T, C]; a and inv_b have the shape c->b: [C] or [1, C] */
struct ggml_tensor * build_snake(struct op_build * b) {
    struct ggml_tensor * x = first_of(b);
    struct ggml_tensor * a = op_in(b, GGML_TYPE_F32, b->c->b, LAYOUT_PACKED, FILL_UNIFORM);
    struct ggml_tensor * inv_b = op_in(b, GGML_TYPE_F32, b->c->b, LAYOUT_PACKED, FILL_UNIFORM);
    b->in[1].lo = 0.05;
    b->in[1].hi = 4;
    b->in[2].lo = 0.05;
    b->in[2].hi = 2;
    return ggml_snake(b->ctx, x, a, inv_b);
}

/* a [hd, H, T], positions [T] */
static struct ggml_tensor * build_rope(struct op_build * b) {
    const struct op_case * c = b->c;
    int64_t n_positions[4] = { c->a[2] ? c->a[2] : 1, 1, 1, 1 };
    struct ggml_tensor * x = first_of(b);
    struct ggml_tensor * positions = op_in(b, GGML_TYPE_I32, n_positions, LAYOUT_PACKED, FILL_POSITION);
    b->in[1].limit = c->p[2];
    return ggml_rope_ext(b->ctx, x, positions, NULL, c->p[0], c->p[1], 0, c->f[0], c->f[1], 0.0f, c->f[2], 0.0f, 0.0f);
}

/* a [n_kv, T, H], mask [n_kv, >= T] or none */
static struct ggml_tensor * build_soft_max(struct op_build * b) {
    struct ggml_tensor * x = first_of(b);
    if (b->c->p[0]) {
        return ggml_soft_max(b->ctx, x);
    }
    struct ggml_tensor * mask = b->c->b[0] ? op_in(b, b->c->type_b, b->c->b, b->c->lb, FILL_MASK) : NULL;
    return ggml_soft_max_ext(b->ctx, x, mask, b->c->f[0], 0.0f);
}

static void cases_binary(struct op_list * l) {
    static const enum ggml_op ops[] = { GGML_OP_ADD, GGML_OP_SUB, GGML_OP_MUL, GGML_OP_DIV };
    static const struct { int64_t a[4], b[4]; enum op_layout la, lb; enum op_fill fill; } rows[] = {
        { { 64 }, { 64 }, 0, 0, 0 },
        { { 37, 5 }, { 37, 5 }, 0, 0, FILL_SPECIAL },
        { { 1 }, { 1 }, 0, 0, 0 },
        { { 37, 5, 3, 2 }, { 37 }, 0, 0, 0 },                      /* bias or gain over rows */
        { { 37, 5, 3, 2 }, { 1, 5 }, 0, 0, 0 },                    /* bias over channels, time first */
        { { 37, 5 }, { 1 }, 0, 0, 0 },
        { { 38, 4, 3, 2 }, { 19, 2, 3, 1 }, 0, 0, 0 },             /* tiles */
        { { 33, 3, 2, 2 }, { 33, 3, 2, 2 }, LAYOUT_STRIDED, LAYOUT_PERMUTED, 0 },
        { { 33, 3, 2, 2 }, { 33, 3, 1, 2 }, LAYOUT_PERMUTED, LAYOUT_STRIDED, 0 },
        { { 1024, 37 }, { 1024 }, 0, 0, 0 },
    };
    for (int o = 0; o < N_OF(ops); o++) {
        for (int s = 0; s < N_OF(rows); s++) {
            struct op_case * c = op_list_add2(l, ops[o], build_binary, rows[s].a, rows[s].b);
            c->la = rows[s].la;
            c->lb = rows[s].lb;
            c->fill = rows[s].fill;
        }
    }
    static const int64_t glu[][4] = { { 64 }, { 37, 5 }, { 1 }, { 33, 3, 2, 2 }, { 3072, 2 } };
    for (int s = 0; s < N_OF(glu); s++) {
        struct op_case * c = op_list_add2(l, GGML_OP_GLU, build_binary, glu[s], glu[s]);
        c->la = s == 3 ? LAYOUT_STRIDED : LAYOUT_PACKED;
        c->lb = s == 1 ? LAYOUT_STRIDED : LAYOUT_PACKED;
        c->lo = -12;
        c->hi = 12;
    }
}

static void cases_unary(struct op_list * l) {
    static const struct { int64_t a[4]; enum op_layout la; enum op_fill fill; double reach; } rows[] = {
        { { 64 }, 0, 0, 1 }, { { 37, 5 }, 0, 0, 20 }, { { 1 }, 0, 0, 1 }, { { 33, 3, 2, 2 }, LAYOUT_STRIDED, 0, 6 },
        { { 33, 3, 2, 2 }, LAYOUT_PERMUTED, 0, 1e-3 }, { { 77, 5 }, 0, FILL_SPECIAL, 8 }, { { 3072, 2 }, 0, 0, 8 },
    };
    static const char * const keys[] = { "TANH", "RELU", "SIGMOID", "GELU", "GELU_ERF", "SILU", "ELU" };
    static const enum ggml_op others[] = { GGML_OP_SCALE, GGML_OP_CLAMP, GGML_OP_SQR, GGML_OP_SQRT, GGML_OP_LOG };
    for (int o = 0; o < GGML_UNARY_OP_COUNT + N_OF(others); o++) {
        for (int s = 0; s < N_OF(rows); s++) {
            enum ggml_op op = o < GGML_UNARY_OP_COUNT ? GGML_OP_UNARY : others[o - GGML_UNARY_OP_COUNT];
            struct op_case * c = op_list_add2(l, op, build_unary, rows[s].a, NULL);
            c->la = rows[s].la;
            c->fill = rows[s].fill;
            c->hi = rows[s].reach;
            c->lo = (op == GGML_OP_SQRT || op == GGML_OP_LOG) && rows[s].fill != FILL_SPECIAL ? 1e-9 : -rows[s].reach;
            if (op == GGML_OP_UNARY) {
                c->unary = (enum ggml_unary_op) o;
                c->key = keys[o];
            } else if (op == GGML_OP_SCALE) {
                c->f[0] = 0.0883883f;
            } else if (op == GGML_OP_CLAMP) {
                c->f[0] = -0.25f;
                c->f[1] = 0.5f;
            }
        }
    }
}

static void cases_snake(struct op_list * l) {
    static const struct { int64_t a[4], b[4]; enum op_layout la; double reach; } rows[] = {
        { { 64, 3 }, { 1, 3 }, 0, 1 }, { { 37, 5 }, { 5 }, 0, 20 }, { { 1, 1 }, { 1 }, 0, 1 }, { { 33, 7 }, { 1, 7 }, LAYOUT_STRIDED, 3 },
        { { 1600, 96 }, { 1, 96 }, 0, 2 }, { { 1920, 3 }, { 3 }, 0, 1000 },
        { { 9001, 2 }, { 1, 2 }, 0, 4 },
    };
    for (int s = 0; s < N_OF(rows); s++) {
        struct op_case * c = op_list_add2(l, GGML_OP_SNAKE, build_snake, rows[s].a, rows[s].b);
        c->la = rows[s].la;
        c->hi = rows[s].reach;
        c->lo = -rows[s].reach;
    }
}

static void cases_norm(struct op_list * l) {
    static const struct { int64_t a[4]; enum op_layout la; double lo, hi; } rows[] = {
        { { 64, 3 }, 0, -1, 1 }, { { 37, 5 }, 0, -1, 1 }, { { 1, 3 }, 0, -1, 1 }, { { 33, 2, 3, 2 }, LAYOUT_STRIDED, -1, 1 },
        { { 128, 16, 5 }, LAYOUT_PERMUTED, -3, 3 }, { { 1024, 3 }, 0, 9, 11 }, { { 2048, 2 }, 0, -1e-4, 1e-4 },
    };
    for (int o = 0; o < 2; o++) {
        for (int s = 0; s < N_OF(rows); s++) {
            struct op_case * c = op_list_add2(l, o ? GGML_OP_RMS_NORM : GGML_OP_NORM, build_unary, rows[s].a, NULL);
            c->la = rows[s].la;
            c->lo = rows[s].lo;
            c->hi = rows[s].hi;
            c->f[0] = o ? 1e-6f : 1e-5f;
        }
    }
}

static void cases_reduce(struct op_list * l) {
    static const enum ggml_op ops[] = { GGML_OP_SUM_ROWS, GGML_OP_MEAN, GGML_OP_ARGMAX };
    static const struct { int64_t a[4]; enum op_layout la; enum op_fill fill; double lo, hi; } rows[] = {
        { { 64, 3 }, 0, 0, -1, 1 }, { { 37, 5 }, 0, 0, -1, 1 }, { { 1, 3 }, 0, 0, -1, 1 }, { { 33, 7 }, LAYOUT_STRIDED, 0, -1, 1 },
        { { 33, 2, 3, 2 }, LAYOUT_PERMUTED, 0, -1, 1 }, { { 2048, 250 }, 0, FILL_WHOLE, 0, 0 }, /* equal values: the first one counts */
        { { 77, 9 }, 0, FILL_SPECIAL, -8, 8 }, { { 100003, 2 }, 0, 0, 0.5, 1 }, /* where an F32 sum would be off by 1e-3 */
    };
    for (int o = 0; o < N_OF(ops); o++) {
        for (int s = 0; s < N_OF(rows); s++) {
            if (ops[o] == GGML_OP_ARGMAX && rows[s].a[2]) {
                continue; /* takes a matrix */
            }
            struct op_case * c = op_list_add2(l, ops[o], build_unary, rows[s].a, NULL);
            c->la = rows[s].la;
            c->fill = rows[s].fill;
            c->lo = rows[s].lo;
            c->hi = rows[s].hi;
        }
    }
}

static void cases_rope(struct op_list * l) {
    static const struct { int64_t a[4]; enum op_layout la; int n_dims, limit; float base, freq_scale, attn; } rows[] = {
        { { 64, 2, 5 }, 0, 64, 30, 10000, 1, 1 }, { { 128, 16, 1 }, 0, 128, 2000, 1000000, 1, 1 }, { { 32, 3, 37 }, LAYOUT_STRIDED, 32, 30, 10000, 1, 1 },
        { { 80, 3, 7 }, 0, 32, 100, 10000, 0.5f, 1.25f }, { { 2, 1, 1 }, 0, 2, 30, 10000, 1, 1 }, { { 34, 5, 3 }, LAYOUT_PERMUTED, 34, 30, 10000, 1, 1 },
        { { 128, 8, 3 }, 0, 128, 20000, 1000000, 1, 1 },
    };
    for (int mode = 0; mode <= 2; mode += 2) {
        for (int s = 0; s < N_OF(rows); s++) {
            struct op_case * c = op_list_add2(l, GGML_OP_ROPE, build_rope, rows[s].a, NULL);
            c->la = rows[s].la;
            c->p[0] = rows[s].n_dims;
            c->p[1] = mode;
            c->p[2] = rows[s].limit;
            c->f[0] = rows[s].base;
            c->f[1] = rows[s].freq_scale;
            c->f[2] = rows[s].attn;
        }
    }
}

static void cases_soft_max(struct op_list * l) {
    static const struct { int64_t a[4], b[4]; enum ggml_type mask; enum op_layout la; float scale; int plain; double reach; } rows[] = {
        { { 64, 3 }, { 0 }, GGML_TYPE_F32, 0, 1, 1, 5 },
        { { 37, 5, 4 }, { 37, 5 }, GGML_TYPE_F32, 0, 0.125f, 0, 5 },
        { { 1, 3 }, { 0 }, GGML_TYPE_F32, 0, 2, 0, 1 },
        { { 33, 2, 3, 2 }, { 33, 7 }, GGML_TYPE_F16, LAYOUT_STRIDED, 0.5f, 0, 5 },
        { { 300, 7, 16 }, { 300, 7 }, GGML_TYPE_F16, 0, 0.0883883f, 0, 60 },
        { { 37, 5, 3 }, { 0 }, GGML_TYPE_F32, LAYOUT_PERMUTED, 0.3f, 0, 100 },
        { { 72, 72, 2 }, { 72, 72 }, GGML_TYPE_F32, 0, 0.125f, 0, 2 },
    };
    for (int s = 0; s < N_OF(rows); s++) {
        struct op_case * c = op_list_add2(l, GGML_OP_SOFT_MAX, build_soft_max, rows[s].a, rows[s].b);
        c->type_b = rows[s].mask;
        c->la = rows[s].la;
        c->p[0] = rows[s].plain;
        c->f[0] = rows[s].scale;
        c->hi = rows[s].reach;
        c->lo = -rows[s].reach;
    }
}

void op_cases_elementwise(struct op_list * list) {
    cases_binary(list);
    cases_unary(list);
    cases_snake(list);
    cases_norm(list);
    cases_reduce(list);
    cases_rope(list);
    cases_soft_max(list);
}
