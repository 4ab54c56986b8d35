/* op_cases_products.c - cases of products, attention and convolutions, and the model's real shapes that perf times. */
#include "op_test.h"

#include <string.h>

#define N_OF(x) ((int) (sizeof(x) / sizeof(x)[0]))

/* a [K, M, ..], b [K, N, ..]; p[0]: precision */
struct ggml_tensor * build_mul_mat(struct op_build * b) {
    struct ggml_tensor * a = op_in(b, b->c->type, b->c->a, b->c->la, FILL_UNIFORM);
    struct ggml_tensor * t = ggml_mul_mat(b->ctx, a, op_in(b, GGML_TYPE_F32, b->c->b, b->c->lb, b->c->fill));
    ggml_mul_mat_set_prec(t, (enum ggml_prec) b->c->p[0]);
    return t;
}

static struct ggml_tensor * build_out_prod(struct op_build * b) {
    struct ggml_tensor * a = op_in(b, b->c->type, b->c->a, b->c->la, FILL_UNIFORM);
    return ggml_out_prod(b->ctx, a, op_in(b, GGML_TYPE_F32, b->c->b, b->c->lb, FILL_UNIFORM));
}

/* c->a: q [hd, T, H]; c->b: k and v [hd, n_kv, H_kv]; c->c: mask [n_kv, >= T] of type p[0] - 1, p[0] = 0: none */
struct ggml_tensor * build_flash_attn(struct op_build * b) {
    const struct op_case * c = b->c;
    struct ggml_tensor * q = op_in(b, GGML_TYPE_F32, c->a, c->la, FILL_UNIFORM);
    struct ggml_tensor * k = op_in(b, c->type, c->b, c->lb, c->fill);
    struct ggml_tensor * v = op_in(b, c->type, c->b, c->lb, c->fill);
    struct ggml_tensor * mask =
        c->p[0] ? op_in(b, (enum ggml_type) (c->p[0] - 1), c->c, LAYOUT_PACKED, c->fill == FILL_GARBAGE ? FILL_BEFORE : FILL_MASK) : NULL;
    return ggml_flash_attn_ext(b->ctx, q, k, v, mask, c->f[0], 0.0f, 0.0f);
}

/* c->a: kernel [K, IC, OC]; c->b: data [T, IC]; p: stride, padding, dilation */
struct ggml_tensor * build_conv_1d(struct op_build * b) {
    struct ggml_tensor * w = op_in(b, b->c->type, b->c->a, b->c->la, FILL_UNIFORM);
    return ggml_conv_1d(b->ctx, w, op_in(b, GGML_TYPE_F32, b->c->b, b->c->lb, FILL_UNIFORM), b->c->p[0], b->c->p[1], b->c->p[2]);
}

/* c->a: kernel [K, IC, OC], transposed [K, OC, IC]; c->b: data [T, IC]; p: stride, 0, dilation, WITH_*, precision */
static struct ggml_tensor * build_conv_causal(struct op_build * b) {
    const int64_t * w = b->c->a, stride = b->c->p[0], T = b->c->b[0];
    const int with = b->c->p[3];
    const bool transposed = b->c->op == GGML_OP_CONV_TRANSPOSE_1D;
    const int64_t IC = transposed ? w[2] : w[1], OC = transposed ? w[1] : w[2];
    const int64_t before = transposed ? (w[0] - 1) / stride : (w[0] - 1) * b->c->p[2] + 1 - stride;
    struct ggml_tensor * kernel = op_in(b, b->c->type, w, b->c->la, FILL_UNIFORM), * x = op_in(b, GGML_TYPE_F32, b->c->b, b->c->lb, FILL_UNIFORM);
    struct ggml_conv_ext ext = { .prec = (enum ggml_prec) b->c->p[4], .act = with & WITH_SNAKE ? GGML_CONV_ACT_SNAKE : with & WITH_ELU ? GGML_CONV_ACT_ELU : GGML_CONV_ACT_NONE };
    if (with & WITH_PAST) {
        ext.past = op_in(b, GGML_TYPE_F32, (const int64_t[4]) { before + 2, IC }, LAYOUT_STRIDED, FILL_UNIFORM);
    }
    if (with & WITH_SNAKE) {
        ext.snake_a = op_in(b, GGML_TYPE_F32, (const int64_t[4]) { IC }, LAYOUT_PACKED, FILL_UNIFORM);
        ext.snake_inv_b = op_in(b, GGML_TYPE_F32, (const int64_t[4]) { IC }, LAYOUT_PACKED, FILL_UNIFORM);
    }
    if (with & WITH_BIAS) {
        ext.bias = op_in(b, GGML_TYPE_F32, (const int64_t[4]) { OC }, LAYOUT_PACKED, FILL_UNIFORM);
    }
    if (with & WITH_RESIDUAL) {
        ext.residual = op_in(b, GGML_TYPE_F32, (const int64_t[4]) { (T + stride - 1) / stride, OC }, b->c->lb, FILL_UNIFORM);
    }
    return transposed ? ggml_conv_transpose_1d_causal(b->ctx, kernel, x, (int) stride, &ext)
                      : ggml_conv_1d_causal(b->ctx, kernel, x, (int) stride, b->c->p[2], &ext);
}

struct ggml_tensor * build_conv_1d_dw(struct op_build * b) {
    struct ggml_tensor * w = op_in(b, b->c->type, b->c->a, b->c->la, FILL_UNIFORM);
    return ggml_conv_1d_dw(b->ctx, w, op_in(b, GGML_TYPE_F32, b->c->b, b->c->lb, FILL_UNIFORM), b->c->p[0], b->c->p[1], b->c->p[2]);
}

/* c->a: columns [K*OC, T]; p: stride, channels, crop */
struct ggml_tensor * build_col2im_1d(struct op_build * b) {
    struct ggml_tensor * cols = op_in(b, b->c->type, b->c->a, b->c->la, FILL_UNIFORM);
    return ggml_col2im_1d(b->ctx, cols, b->c->p[0], b->c->p[1], b->c->p[2]);
}

static const enum ggml_type WEIGHTS[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0,
                                          GGML_TYPE_Q5_1, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K };

/* k_blocks: K in blocks of the type, and for float types k itself */
static void cases_mul_mat(struct op_list * l) {
    static const struct { int k_blocks, k; int64_t m, n; enum op_layout la, lb; int a2, b2, b3; } rows[] = {
        { 1, 64, 16, 1, 0, 0, 1, 1, 1 },  { 2, 37, 5, 1, 0, 0, 1, 1, 1 },  { 1, 1, 1, 1, 0, 0, 1, 1, 1 },  { 3, 129, 37, 2, 0, 0, 1, 1, 1 },
        { 2, 75, 7, 3, 0, 0, 1, 1, 1 },   { 1, 32, 16, 4, 0, 0, 1, 1, 1 }, { 2, 48, 9, 5, 0, 0, 1, 1, 1 }, { 3, 65, 11, 8, 0, 0, 1, 1, 1 },
        { 2, 37, 67, 37, 0, 0, 1, 1, 1 }, { 1, 37, 5, 3, 0, 0, 2, 4, 3 },  { 2, 33, 6, 5, LAYOUT_STRIDED, LAYOUT_STRIDED, 2, 2, 1 },
        { 5, 40, 331, 1, 0, 0, 1, 1, 1 }, { 2, 48, 290, 2, 0, 0, 1, 1, 1 }, { 3, 33, 83, 15, 0, 0, 1, 2, 3 }, /* rows in long streams, and packed batches */
        { 2, 65, 5, 7, LAYOUT_PERMUTED, LAYOUT_PERMUTED, 3, 6, 1 }, { 1, 33, 6, 21, LAYOUT_PERMUTED, LAYOUT_STRIDED, 2, 4, 2 },
    };
    for (int t = 0; t < N_OF(WEIGHTS); t++) {
        int64_t block = ggml_blck_size(WEIGHTS[t]);
        for (int s = 0; s < N_OF(rows); s++) {
            /* blocks: every shape with activations that int8 holds, and with ones it does not where an average over outputs means something */
            for (int whole = block > 1 && rows[s].m * rows[s].n < 16; whole < (block > 1 ? 2 : 1); whole++) {
                int64_t k = block > 1 ? block * rows[s].k_blocks : rows[s].k;
                struct op_case * c = op_list_add2(l, GGML_OP_MUL_MAT, build_mul_mat, (const int64_t[4]) { k, rows[s].m, rows[s].a2, 1 },
                                          (const int64_t[4]) { k, rows[s].n, rows[s].b2, rows[s].b3 });
                c->type = WEIGHTS[t];
                c->la = rows[s].la;
                c->lb = rows[s].lb;
                c->fill = whole ? FILL_WHOLE : FILL_UNIFORM;
                c->key = whole ? "MUL_MAT_WHOLE" : NULL;
            }
            int64_t k = block > 1 ? block * rows[s].k_blocks : rows[s].k;
            struct op_case * c = op_list_add2(l, GGML_OP_MUL_MAT, build_mul_mat, (const int64_t[4]) { k, rows[s].m, rows[s].a2, 1 },
                                      (const int64_t[4]) { k, rows[s].n, rows[s].b2, rows[s].b3 });
            c->type = WEIGHTS[t];
            c->la = rows[s].la;
            c->lb = rows[s].lb;
            c->p[0] = GGML_PREC_F32;
            c->key = "MUL_MAT_F32";
        }
    }
    for (int t = 0; t < N_OF(WEIGHTS); t++) { /* a NaN must not become a number on its way through int8 */
        for (int64_t n = 1; n < 40; n += 36) {
            int64_t k = ggml_blck_size(WEIGHTS[t]) > 1 ? 2 * ggml_blck_size(WEIGHTS[t]) : 37;
            struct op_case * c = op_list_add2(l, GGML_OP_MUL_MAT, build_mul_mat, (const int64_t[4]) { k, 20 }, (const int64_t[4]) { k, n });
            c->type = WEIGHTS[t];
            c->fill = FILL_ONE_NAN;
        }
    }
    static const struct { enum ggml_type type; int64_t k, m, n; } real[] = {
        { GGML_TYPE_Q8_0, 1024, 3072, 1 }, { GGML_TYPE_Q8_0, 3072, 1024, 2 }, { GGML_TYPE_Q4_K, 2048, 1024, 1 }, { GGML_TYPE_F32, 1024, 2048, 1 },
        { GGML_TYPE_F32, 512, 1024, 80 },  { GGML_TYPE_BF16, 1024, 512, 9 },  { GGML_TYPE_F16, 128, 300, 7 }, { GGML_TYPE_F32, 2048, 9, 600 },
    };
    for (int s = 0; s < N_OF(real); s++) {
        op_list_add2(l, GGML_OP_MUL_MAT, build_mul_mat, (const int64_t[4]) { real[s].k, real[s].m }, (const int64_t[4]) { real[s].k, real[s].n })->type =
            real[s].type;
    }
}

static void cases_out_prod(struct op_list * l) {
    static const struct { int64_t m, k, n; enum op_layout la, lb; } rows[] = {
        { 64, 32, 8, 0, 0 }, { 37, 5, 3, 0, 0 }, { 1, 1, 1, 0, 0 }, { 33, 65, 7, LAYOUT_STRIDED, LAYOUT_STRIDED }, { 512, 256, 37, 0, 0 }, { 16, 1, 1, 0, 0 },
        { 1000, 1536, 5, 0, 0 },
    };
    for (int t = 0; t < 3; t++) {
        for (int s = 0; s < N_OF(rows); s++) {
            struct op_case * c =
                op_list_add2(l, GGML_OP_OUT_PROD, build_out_prod, (const int64_t[4]) { rows[s].m, rows[s].k }, (const int64_t[4]) { rows[s].n, rows[s].k });
            c->type = WEIGHTS[t];
            c->la = rows[s].la;
            c->lb = rows[s].lb;
        }
    }
}

static void cases_flash_attn(struct op_list * l) {
    static const struct { int hd, t, h, n, h_kv, mask, mask_t; enum op_layout la, lb; double reach; } rows[] = {
        { 64, 1, 4, 32, 2, 0, 0, 0, 0, 1 },
        { 128, 1, 16, 37, 8, 0, 0, 0, LAYOUT_STRIDED, 1 },
        { 37, 5, 3, 5, 1, 1, 5, 0, 0, 2 },
        { 1, 1, 1, 1, 1, 0, 0, 0, 0, 1 },
        { 32, 7, 6, 65, 2, 2, 7, LAYOUT_PERMUTED, LAYOUT_PERMUTED, 2 },
        { 64, 3, 2, 300, 2, 1, 64, LAYOUT_STRIDED, 0, 4 },
        { 128, 37, 4, 40, 2, 2, 37, LAYOUT_PERMUTED, 0, 1 },
        { 64, 72, 2, 144, 2, 1, 72, 0, LAYOUT_PERMUTED, 1 },
        { 48, 2, 10, 17, 5, 2, 2, LAYOUT_PERMUTED, LAYOUT_STRIDED, 8 },
        { 64, 3, 4, 150, 2, 2, 3, 0, 0, 1 }, /* half the cache is garbage behind the mask */
    };
    for (int t = 0; t < 3; t++) {
        for (int s = 0; s < N_OF(rows); s++) {
            struct op_case * c = op_list_add2(l, GGML_OP_FLASH_ATTN_EXT, build_flash_attn, (const int64_t[4]) { rows[s].hd, rows[s].t, rows[s].h },
                                      (const int64_t[4]) { rows[s].hd, rows[s].n, rows[s].h_kv });
            c->type = c->type_b = WEIGHTS[t];
            c->c[0] = rows[s].mask ? rows[s].n : 0;
            c->c[1] = rows[s].mask_t;
            c->p[0] = rows[s].mask;
            c->la = rows[s].la;
            c->lb = rows[s].lb;
            c->f[0] = 0.3f;
            c->fill = s == N_OF(rows) - 1 ? FILL_GARBAGE : FILL_UNIFORM;
            c->hi = rows[s].reach;
            c->lo = -rows[s].reach;
        }
    }
}

static void cases_conv(struct op_list * l) {
    static const struct { int k, ic, oc, t, s0, p0, d0; enum op_layout la, lb; } rows[] = {
        { 3, 16, 16, 64, 1, 0, 1, 0, 0 },  { 7, 5, 3, 37, 1, 3, 1, 0, 0 },  { 1, 1, 1, 1, 1, 0, 1, 0, 0 },  { 1, 37, 5, 11, 1, 0, 1, 0, 0 },
        { 7, 7, 9, 75, 1, 0, 9, 0, 0 },    { 4, 6, 5, 41, 2, 1, 1, 0, 0 },  { 8, 3, 33, 90, 5, 2, 1, 0, 0 }, { 3, 5, 17, 39, 1, 2, 3, 0, LAYOUT_STRIDED },
        { 7, 1, 20, 100, 1, 0, 1, 0, 0 },  { 7, 20, 1, 100, 1, 0, 1, 0, 0 }, { 7, 96, 96, 250, 1, 0, 3, 0, 0 },
        { 7, 96, 5, 5000, 1, 0, 9, 0, 0 }, { 7, 768, 5, 100, 1, 0, 9, 0, 0 },
        { 7, 37, 53, 75, 1, 3, 9, 0, LAYOUT_STRIDED }, { 3, 65, 33, 19, 1, 0, 1, 0, 0 }, { 10, 40, 17, 95, 5, 2, 1, 0, 0 }, { 17, 33, 16, 60, 4, 5, 2, 0, 0 },
        { 1, 129, 48, 33, 1, 0, 1, 0, 0 }, { 5, 31, 70, 700, 2, 1, 3, 0, 0 }, { 2, 16, 16, 2, 1, 0, 1, 0, 0 }, { 7, 768, 33, 94, 1, 0, 9, 0, 0 },
    };
    for (int t = 0; t < 3; t++) {
        for (int s = 0; s < N_OF(rows); s++) {
            for (int depthwise = 0; depthwise < 2; depthwise++) {
                int64_t channels = rows[s].oc;
                struct op_case * c = op_list_add2(l, depthwise ? GGML_OP_CONV_1D_DW : GGML_OP_CONV_1D, depthwise ? build_conv_1d_dw : build_conv_1d,
                                          (const int64_t[4]) { rows[s].k, depthwise ? 1 : rows[s].ic, channels },
                                          (const int64_t[4]) { rows[s].t, depthwise ? channels : rows[s].ic });
                c->type = WEIGHTS[t];
                c->la = rows[s].la;
                c->lb = rows[s].lb;
                c->p[0] = rows[s].s0;
                c->p[1] = rows[s].p0;
                c->p[2] = rows[s].d0;
            }
        }
    }
    struct op_case * blocks = op_list_add2(l, GGML_OP_CONV_1D, build_conv_1d, (const int64_t[4]) { 32, 3, 5 }, (const int64_t[4]) { 80, 3 });
    blocks->type = GGML_TYPE_Q8_0;
    blocks->p[0] = blocks->p[2] = 1;
    blocks = op_list_add2(l, GGML_OP_CONV_1D, build_conv_1d, (const int64_t[4]) { 32, 17, 19 }, (const int64_t[4]) { 80, 17 });
    blocks->type = GGML_TYPE_Q8_0;
    blocks->p[0] = blocks->p[2] = 1;
    static const struct { int k, oc, t, s0, p0; enum op_layout la; } cols[] = {
        { 16, 4, 64, 8, 0, 0 }, { 5, 37, 11, 3, 0, 0 }, { 1, 1, 1, 1, 0, 0 }, { 10, 3, 1, 5, 0, 0 }, { 8, 5, 37, 4, 2, 0 }, { 2, 33, 20, 2, 0, LAYOUT_STRIDED },
        { 7, 5, 13, 2, 3, 0 },  { 2, 3, 9, 4, 0, 0 },   { 10, 96, 161, 5, 0, 0 },
    };
    for (int s = 0; s < N_OF(cols); s++) {
        struct op_case * c = op_list_add2(l, GGML_OP_COL2IM_1D, build_col2im_1d, (const int64_t[4]) { cols[s].k * cols[s].oc, cols[s].t }, NULL);
        c->la = cols[s].la;
        c->p[0] = cols[s].s0;
        c->p[1] = cols[s].oc;
        c->p[2] = cols[s].p0;
    }
}

static void cases_conv_causal(struct op_list * l) {
    enum { P = WITH_PAST, E = WITH_ELU, S = WITH_SNAKE, B = WITH_BIAS, R = WITH_RESIDUAL };
    static const struct { int k, ic, oc, t, s0, d0, with; enum op_layout lb; } rows[] = {
        { 7, 32, 32, 64, 1, 1, P | S | B | R, 0 }, { 7, 5, 37, 11, 1, 9, P | S, LAYOUT_STRIDED }, { 1, 1, 1, 1, 1, 1, 0, 0 }, { 7, 40, 17, 95, 1, 3, S | B, 0 },
        { 1, 48, 33, 70, 1, 1, S | B | R, LAYOUT_STRIDED }, { 4, 16, 33, 41, 2, 1, E | B, 0 }, { 16, 20, 18, 83, 8, 1, E | B | P, 0 }, { 3, 70, 16, 2, 1, 1, P | B, 0 },
        { 5, 3, 7, 29, 3, 2, P | E | R, 0 }, { 7, 40, 18, 900, 1, 9, P | S | B | R, 0 }, { 7, 96, 2, 300, 1, 1, S | B, 0 }, { 7, 768, 17, 40, 1, 9, P | S | B, 0 },
        /* more weights than a cache holds: panels in pairs and fours, the last ones fewer; more input than that */
        { 7, 200, 200, 40, 1, 3, P | B | R, 0 }, { 1, 900, 370, 37, 1, 1, B | R, 0 }, { 1, 5300, 65, 110, 1, 1, B, 0 },
    };
    static const struct { int k, ic, oc, t, s0, with; enum op_layout lb; } transposed[] = {
        { 16, 32, 8, 32, 8, P | S | B, 0 }, { 10, 37, 5, 11, 5, P | S, LAYOUT_STRIDED }, { 1, 1, 1, 1, 1, 0, 0 },  { 8, 65, 33, 75, 4, S | B, 0 }, { 6, 96, 35, 200, 3, P | B, 0 },
        { 2, 20, 37, 9, 2, B, 0 },          { 5, 16, 3, 17, 3, P | E | B, 0 },             { 40, 7, 2, 13, 20, P, 0 }, { 9, 33, 4, 50, 2, P | S | B, 0 }, { 6, 600, 33, 1, 3, P | S | B, 0 },
        { 2, 1100, 2, 1000, 2, P | B, 0 },  { 16, 600, 50, 40, 8, P | B, 0 },          { 80, 20, 3, 70, 40, P | S | B, 0 }, { 60, 33, 2, 40, 40, P | B, 0 },
        { 3, 20, 17, 30, 1, P | B, 0 },
    };
    for (int t = 0; t < 6; t++) {
        const enum ggml_type type = WEIGHTS[t % 3];
        const bool exact = t >= 3;
        for (int s = 0; s < N_OF(rows); s++) {
            struct op_case * c = op_list_add2(l, GGML_OP_CONV_1D, build_conv_causal, (const int64_t[4]) { rows[s].k, rows[s].ic, rows[s].oc },
                                              (const int64_t[4]) { rows[s].t, rows[s].ic });
            c->type = type;
            c->lb = rows[s].lb;
            c->p[0] = rows[s].s0;
            c->p[2] = rows[s].d0;
            c->p[3] = rows[s].with | WITH_CAUSAL;
            c->p[4] = exact ? GGML_PREC_F32 : GGML_PREC_DEFAULT;
            c->key = exact ? NULL : "CONV_ROUNDED";
            c->row_step = rows[s].ic * rows[s].oc > 100000 ? 7 : 1;
        }
        for (int s = 0; s < N_OF(transposed); s++) {
            struct op_case * c = op_list_add2(l, GGML_OP_CONV_TRANSPOSE_1D, build_conv_causal, (const int64_t[4]) { transposed[s].k, transposed[s].oc, transposed[s].ic },
                                              (const int64_t[4]) { transposed[s].t, transposed[s].ic });
            c->type = type;
            c->lb = transposed[s].lb;
            c->p[0] = transposed[s].s0;
            c->p[3] = transposed[s].with | WITH_CAUSAL;
            c->p[4] = exact ? GGML_PREC_F32 : GGML_PREC_DEFAULT;
            c->key = exact ? NULL : "CONV_ROUNDED";
        }
    }
}

void op_cases_products(struct op_list * list) {
    cases_mul_mat(list);
    cases_out_prod(list);
    cases_flash_attn(list);
    cases_conv(list);
    cases_conv_causal(list);
}

/* Shapes of the published 0.6B and 1.7B talkers, the predictor and the codec decoder. */
void op_list_fill_perf(struct op_list * l) {
    static const enum ggml_type types[] = { GGML_TYPE_Q8_0, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_BF16, GGML_TYPE_F16, GGML_TYPE_F32 };
    static const struct { int64_t k, m, n; } products[] = { { 1024, 3072, 1 }, { 2048, 6144, 1 }, { 6144, 2048, 1 }, { 1024, 3072, 2 }, { 1024, 3072, 64 } };
    static const struct { int k, ic, oc, t, d0; } convs[] = { { 7, 768, 768, 1600, 9 }, { 7, 384, 384, 8000, 3 }, { 7, 192, 192, 32000, 1 }, { 7, 96, 96, 96000, 9 },
                  { 1, 96, 96, 96000, 1 },  { 7, 96, 1, 96000, 1 },   { 3, 512, 1024, 50, 1 } };
    static const struct { int64_t ic, cols, t; } transposed[] = { { 1536, 16 * 768, 200 }, { 192, 6 * 96, 32000 } };
    for (int t = 0; t < N_OF(types); t++) {
        for (int s = 0; s < N_OF(products); s++) {
            struct op_case * c = op_list_add2(l, GGML_OP_MUL_MAT, build_mul_mat, (const int64_t[4]) { products[s].k, products[s].m },
                                      (const int64_t[4]) { products[s].k, products[s].n });
            c->type = types[t];
            c->row_step = products[s].n > 8 ? 16 : 1;
        }
    }
    for (int s = 0; s < N_OF(transposed); s++) {
        struct op_case * c = op_list_add2(l, GGML_OP_MUL_MAT, build_mul_mat, (const int64_t[4]) { transposed[s].ic, transposed[s].cols },
                                  (const int64_t[4]) { transposed[s].ic, transposed[s].t });
        c->lb = LAYOUT_PACKED;
        c->row_step = transposed[s].t / 8;
    }
    for (int s = 0; s < N_OF(convs); s++) {
        struct op_case * c = op_list_add2(l, GGML_OP_CONV_1D, build_conv_1d, (const int64_t[4]) { convs[s].k, convs[s].ic, convs[s].oc },
                                  (const int64_t[4]) { convs[s].t + (convs[s].k - 1) * convs[s].d0, convs[s].ic });
        c->p[0] = 1;
        c->p[2] = convs[s].d0;
        c->row_step = convs[s].oc > 8 ? convs[s].oc / 4 : 1;
    }
    struct op_case * c = op_list_add2(l, GGML_OP_CONV_1D_DW, build_conv_1d_dw, (const int64_t[4]) { 7, 1, 1024 }, (const int64_t[4]) { 806, 1024 });
    c->p[0] = c->p[2] = 1;
    c = op_list_add2(l, GGML_OP_COL2IM_1D, build_col2im_1d, (const int64_t[4]) { 6 * 96, 32000 }, NULL);
    c->p[0] = 3;
    c->p[1] = 96;
    op_list_add2(l, GGML_OP_SNAKE, build_snake, (const int64_t[4]) { 96000, 96 }, (const int64_t[4]) { 1, 96 });
    c = op_list_add2(l, GGML_OP_RMS_NORM, build_rms_norm, (const int64_t[4]) { 2048, 64 }, NULL);
    c->f[0] = 1e-6f;
    static const struct { int rows, n; } talker[] = { { 1, 64 }, { 1, 512 }, { 1, 2048 }, { 34, 128 }, { 256, 256 }, { 256, 2048 } };
    for (int s = 0; s < N_OF(talker); s++) {
        c = op_list_add2(l, GGML_OP_FLASH_ATTN_EXT, build_flash_attn, (const int64_t[4]) { 128, talker[s].rows, 16 }, (const int64_t[4]) { 128, talker[s].n, 8 });
        c->type = c->type_b = GGML_TYPE_F16;
        c->la = LAYOUT_PERMUTED;
        c->f[0] = 0.0883883f;
        c->row_step = talker[s].rows > 1 ? 37 : 1;
    }
    c = op_list_add2(l, GGML_OP_FLASH_ATTN_EXT, build_flash_attn, (const int64_t[4]) { 64, 200, 16 }, (const int64_t[4]) { 64, 200, 16 });
    c->f[0] = 0.125f;
    op_list_name(l);
}
