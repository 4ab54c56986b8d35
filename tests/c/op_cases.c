/* op_cases.c - the list of cases: inputs in every memory layout, names, and the ops that move data.
 * Shapes of each op: one block exactly, 37 x 5, length 1, two blocks and a bit, views with offsets, broadcasts, one real shape of the model. */
#include "op_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char * const FAMILIES[GGML_OP_COUNT] = {
#define GGML_OP_DEF(id, name, family) [GGML_OP_##id] = family,
#include "../../ggml/core/ops.def"
#undef GGML_OP_DEF
};

const char * op_family(enum ggml_op op) { return FAMILIES[op]; }

struct op_case * op_list_add(struct op_list * list, enum ggml_op op, op_build_fn build) {
    if (list->n == list->cap) {
        list->cap = list->cap ? 2 * list->cap : 512;
        list->items = realloc(list->items, (size_t) list->cap * sizeof *list->items);
        GGML_ASSERT(list->items != NULL);
    }
    struct op_case * c = &list->items[list->n++];
    memset(c, 0, sizeof *c);
    c->op = op;
    c->build = build;
    c->lo = -1;
    c->hi = 1;
    c->row_step = 1;
    return c;
}

struct op_case * op_list_add2(struct op_list * l, enum ggml_op op, op_build_fn build, const int64_t a[4], const int64_t b[4]) {
    struct op_case * c = op_list_add(l, op, build);
    memcpy(c->a, a, sizeof c->a);
    if (b) {
        memcpy(c->b, b, sizeof c->b);
    }
    return c;
}

void op_list_free(struct op_list * list) {
    free(list->items);
    memset(list, 0, sizeof *list);
}

static void append(char * text, size_t size, const char * type, const int64_t ne[4]) {
    size_t n = strlen(text);
    n += (size_t) snprintf(text + n, size - n, "%s[%d", type, (int) ne[0]);
    for (int d = 1; d < 4; d++) {
        bool rest = false;
        for (int e = d; e < 4; e++) {
            rest = rest || ne[e] > 1;
        }
        if (rest && n < size) {
            n += (size_t) snprintf(text + n, size - n, ",%d", (int) (ne[d] ? ne[d] : 1));
        }
    }
    snprintf(text + n, size - n, "]");
}

void op_list_name(struct op_list * list) {
    static const char * const layouts[] = { "", " strided", " permuted", " transposed" };
    static const char * const fills[] = { "", " special", " nan", " whole", "", "", "", "", " garbage", "" };
    for (int j = 0; j < list->n; j++) {
        struct op_case * c = &list->items[j];
        char * t = c->text;
        size_t size = sizeof c->text;
        if (!c->key) {
            c->key = ggml_op_name(c->op);
        }
        append(t, size, ggml_type_name(c->type), c->a);
        strcat(t, layouts[c->la]);
        if (c->b[0]) {
            append(strcat(t, " "), size, c->type_b == GGML_TYPE_F32 ? "" : ggml_type_name(c->type_b), c->b);
            strcat(t, layouts[c->lb]);
        } else if (c->op == GGML_OP_CPY) {
            snprintf(t + strlen(t), size - strlen(t), " from %s", ggml_type_name(c->type_b));
        }
        if (c->c[0]) {
            append(strcat(t, " "), size, "", c->c);
        }
        strcat(t, fills[c->fill]);
        int last = 7;
        while (last >= 0 && c->p[last] == 0) {
            last--;
        }
        for (int k = 0; k <= last; k++) {
            snprintf(t + strlen(t), size - strlen(t), "%s%d", k ? "," : " p=", c->p[k]);
        }
        for (int k = 0; k < 2 && c->f[k] != 0; k++) {
            snprintf(t + strlen(t), size - strlen(t), "%s%g", k ? "," : " f=", c->f[k]);
        }
    }
}

/* A leaf of the layout, and the view of it that has shape ne. */
struct ggml_tensor * op_in(struct op_build * b, enum ggml_type type, const int64_t ne[4], enum op_layout layout, enum op_fill fill) {
    int64_t n[4], m[4];
    for (int d = 0; d < 4; d++) {
        n[d] = m[d] = ne[d] > 0 ? ne[d] : 1;
    }
    int64_t block = ggml_blck_size(type);
    switch (layout) {
        case LAYOUT_PACKED: break;
        case LAYOUT_STRIDED: m[0] += 3 * block; m[1] += 2; break;
        case LAYOUT_PERMUTED: m[1] = n[2]; m[2] = n[1]; break;
        case LAYOUT_TRANSPOSED: m[0] = n[1]; m[1] = n[0]; break;
    }
    struct op_input * in = &b->in[b->n_in];
    in->leaf = ggml_new_tensor_4d(b->ctx, type, m[0], m[1], m[2], m[3]);
    in->fill = fill;
    in->lo = b->c->lo;
    in->hi = b->c->hi;
    in->limit = (int64_t) in->hi;
    struct ggml_tensor * x = in->leaf;
    if (b->through_graph && type == GGML_TYPE_F32) {
        x = b->passed[b->n_in] = ggml_scale(b->ctx, x, 1.0f);
    }
    for (int pass = 0; pass < 2; pass++) {
        struct ggml_tensor * v = pass ? x : in->leaf, * of = v;
        if (layout == LAYOUT_STRIDED) {
            v = ggml_view_4d(b->ctx, of, n[0], n[1], n[2], n[3], of->nb[1], of->nb[2], of->nb[3], of->nb[1] + 2 * of->nb[0]);
        } else if (layout == LAYOUT_PERMUTED) {
            v = ggml_permute(b->ctx, of, 0, 2, 1, 3);
        } else if (layout == LAYOUT_TRANSPOSED) {
            v = ggml_permute(b->ctx, of, 1, 0, 2, 3);
        }
        *(pass ? &x : &in->view) = v;
    }
    b->n_in++;
    return x;
}

/* A tensor the op writes: never behind a node of the graph. */
static struct ggml_tensor * destination(struct op_build * b, enum ggml_type type, const int64_t ne[4], enum op_layout layout) {
    bool through = b->through_graph;
    b->through_graph = false;
    struct ggml_tensor * t = op_in(b, type, ne, layout, FILL_UNIFORM);
    b->through_graph = through;
    return t;
}

/* c->type is the type written, c->type_b the type read. */
static struct ggml_tensor * build_cpy(struct op_build * b) {
    const struct op_case * c = b->c;
    struct ggml_tensor * a = op_in(b, c->type_b, c->a, c->la, c->fill);
    return ggml_cpy(b->ctx, a, destination(b, c->type, c->b[0] ? c->b : c->a, c->lb));
}

static struct ggml_tensor * build_cast(struct op_build * b) {
    return ggml_cast(b->ctx, op_in(b, b->c->type_b, b->c->a, b->c->la, b->c->fill), b->c->type);
}

static struct ggml_tensor * build_cont(struct op_build * b) {
    return ggml_cont(b->ctx, op_in(b, b->c->type, b->c->a, b->c->la, b->c->fill));
}

static struct ggml_tensor * build_repeat(struct op_build * b) {
    struct ggml_tensor * a = op_in(b, b->c->type, b->c->a, b->c->la, b->c->fill);
    const int64_t * ne = b->c->b;
    struct ggml_tensor * shape = ggml_new_tensor_4d(b->ctx, b->c->type, ne[0], ne[1] ? ne[1] : 1, ne[2] ? ne[2] : 1, ne[3] ? ne[3] : 1);
    return ggml_repeat(b->ctx, a, shape);
}

static struct ggml_tensor * build_concat(struct op_build * b) {
    struct ggml_tensor * x = op_in(b, b->c->type, b->c->a, b->c->la, b->c->fill);
    return ggml_concat(b->ctx, x, op_in(b, b->c->type, b->c->b, b->c->lb, b->c->fill), b->c->p[0]);
}

static struct ggml_tensor * build_pad(struct op_build * b) {
    const int32_t * p = b->c->p;
    return ggml_pad_ext(b->ctx, op_in(b, b->c->type, b->c->a, b->c->la, b->c->fill), p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]);
}

static struct ggml_tensor * build_pad_reflect(struct op_build * b) {
    return ggml_pad_reflect_1d(b->ctx, op_in(b, b->c->type, b->c->a, b->c->la, b->c->fill), b->c->p[0], b->c->p[1]);
}

/* a [n, m, ..], b [r, ..] indices */
struct ggml_tensor * build_get_rows(struct op_build * b) {
    struct ggml_tensor * a = op_in(b, b->c->type, b->c->a, b->c->la, b->c->fill);
    struct ggml_tensor * index = op_in(b, GGML_TYPE_I32, b->c->b, b->c->lb, FILL_INDEX);
    b->in[1].limit = b->c->a[1] ? b->c->a[1] : 1;
    return ggml_get_rows(b->ctx, a, index);
}

/* a [n, m, ..], b [r, ..] indices, rows [n, r, ..] */
static struct ggml_tensor * build_set_rows(struct op_build * b) {
    const struct op_case * c = b->c;
    int64_t rows_ne[4] = { c->a[0], c->b[0], c->a[2], c->a[3] };
    struct ggml_tensor * a = destination(b, c->type, c->a, c->la);
    struct ggml_tensor * rows = op_in(b, GGML_TYPE_F32, rows_ne, c->lb, FILL_UNIFORM);
    struct ggml_tensor * index = op_in(b, GGML_TYPE_I64, c->b, LAYOUT_PACKED, FILL_DISTINCT);
    b->in[2].limit = c->a[1];
    return ggml_set_rows(b->ctx, a, rows, index);
}

static const int64_t SHAPES[][4] = { { 64 }, { 37, 5 }, { 1 }, { 33, 3, 2, 2 } };
#define N_OF(x) ((int) (sizeof(x) / sizeof(x)[0]))

static void cases_copy(struct op_list * l) {
    static const enum ggml_type floats[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16 };
    static const int64_t wide[4] = { 37, 6 }, refit[4] = { 74, 3 };
    for (int to = 0; to < 3; to++) {
        for (int from = 0; from < 3; from++) {
            for (int s = 0; s < N_OF(SHAPES); s++) {
                struct op_case * c = op_list_add2(l, GGML_OP_CPY, s % 2 ? build_cast : build_cpy, SHAPES[s], NULL);
                c->type = floats[to];
                c->type_b = floats[from];
                c->fill = s == 1 ? FILL_SPECIAL : FILL_UNIFORM;
                c->la = s == 3 ? LAYOUT_PERMUTED : LAYOUT_PACKED;
            }
            for (int layout = 1; layout < 4; layout++) {
                struct op_case * c = op_list_add2(l, GGML_OP_CPY, build_cpy, SHAPES[layout == 1 ? 1 : 3], NULL);
                c->type = floats[to];
                c->type_b = floats[from];
                c->la = layout == 1 ? LAYOUT_PACKED : (enum op_layout) layout;
                c->lb = layout == 3 ? LAYOUT_PACKED : LAYOUT_STRIDED;
            }
        }
        for (int layout = 1; layout < 4; layout++) {
            struct op_case * c = op_list_add2(l, GGML_OP_CONT, build_cont, SHAPES[3], NULL);
            c->type = floats[to];
            c->la = (enum op_layout) layout;
        }
    }
    for (int layout = 0; layout < 4; layout++) {
        struct op_case * c = op_list_add2(l, GGML_OP_CONT, build_cont, SHAPES[3], NULL);
        c->type = GGML_TYPE_I32;
        c->la = (enum op_layout) layout;
        c->fill = FILL_INDEX;
        c->hi = 1 << 20;
    }
    op_list_add2(l, GGML_OP_CPY, build_cpy, wide, refit); /* the same elements in another shape */
    op_list_add2(l, GGML_OP_CONT, build_cont, (const int64_t[4]) { 1600, 96 }, NULL)->la = LAYOUT_TRANSPOSED;
    static const int64_t repeats[][2][4] = {
        { { 37, 5 }, { 74, 10 } }, { { 1, 5 }, { 33, 5 } }, { { 37 }, { 37, 5, 3, 2 } }, { { 1 }, { 37, 5 } }, { { 5, 1, 2 }, { 5, 7, 4, 3 } }
    };
    for (int s = 0; s < N_OF(repeats); s++) {
        op_list_add2(l, GGML_OP_REPEAT, build_repeat, repeats[s][0], repeats[s][1]);
    }
    op_list_add2(l, GGML_OP_REPEAT, build_repeat, repeats[0][0], repeats[0][1])->la = LAYOUT_STRIDED;
}

static void cases_concat(struct op_list * l) {
    static const int64_t a[4] = { 37, 5, 3, 2 };
    for (int dim = 0; dim < 4; dim++) {
        for (int layout = 0; layout < 3; layout++) {
            int64_t b[4] = { 37, 5, 3, 2 };
            b[dim] = dim ? 1 + dim : 16;
            struct op_case * c = op_list_add2(l, GGML_OP_CONCAT, build_concat, a, b);
            c->p[0] = dim;
            c->la = (enum op_layout) layout;
            c->lb = (enum op_layout) ((layout * 2) % 3);
        }
    }
    op_list_add2(l, GGML_OP_CONCAT, build_concat, (const int64_t[4]) { 1 }, (const int64_t[4]) { 1 });
    op_list_add2(l, GGML_OP_CONCAT, build_concat, (const int64_t[4]) { 54, 96 }, (const int64_t[4]) { 1600, 96 }); /* codec: history before a chunk */
    static const int32_t pads[][8] = { { 6, 0 }, { 0, 7 }, { 2, 3, 1, 2 }, { 1, 0, 0, 1, 2, 1, 1, 2 } };
    for (int s = 0; s < N_OF(pads); s++) {
        for (int layout = 0; layout < 2; layout++) {
            struct op_case * c = op_list_add2(l, GGML_OP_PAD, build_pad, a, NULL);
            memcpy(c->p, pads[s], sizeof c->p);
            c->la = (enum op_layout) (layout * (1 + s % 2));
        }
    }
    static const enum ggml_type others[] = { GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_I32 };
    for (int t = 0; t < N_OF(others); t++) {
        struct op_case * c = op_list_add2(l, GGML_OP_CONCAT, build_concat, a, a);
        c->p[0] = t % 2;
        for (int op = 0; op < 2; op++) {
            c = op ? op_list_add2(l, GGML_OP_REPEAT, build_repeat, (const int64_t[4]) { 37, 1, 3 }, (const int64_t[4]) { 37, 5, 6 }) : c;
            c->type = c->type_b = others[t];
            c->fill = others[t] == GGML_TYPE_I32 ? FILL_INDEX : FILL_UNIFORM;
            c->hi = others[t] == GGML_TYPE_I32 ? 1 << 20 : 1;
        }
    }
    op_list_add2(l, GGML_OP_PAD, build_pad, (const int64_t[4]) { 1 }, NULL)->p[1] = 3;
    op_list_add2(l, GGML_OP_PAD, build_pad, (const int64_t[4]) { 1600, 96 }, NULL)->p[0] = 54; /* codec: left context of a causal convolution */
    static const struct { int64_t a[4]; int32_t before, after; enum op_layout la; } mirrors[] = {
        { { 64 }, 63, 63, 0 }, { { 37, 5 }, 2, 2, 0 }, { { 1 }, 0, 0, 0 }, { { 2, 3 }, 1, 0, 0 }, { { 37, 5, 3, 2 }, 0, 7, LAYOUT_STRIDED },
        { { 37, 5, 3, 2 }, 4, 3, LAYOUT_PERMUTED }, { { 37, 5, 3, 2 }, 3, 4, LAYOUT_TRANSPOSED }, { { 24000 }, 384, 384, 0 }, /* speaker: samples */
    };
    for (int s = 0; s < N_OF(mirrors); s++) {
        struct op_case * c = op_list_add2(l, GGML_OP_PAD_REFLECT_1D, build_pad_reflect, mirrors[s].a, NULL);
        c->p[0] = mirrors[s].before;
        c->p[1] = mirrors[s].after;
        c->la = mirrors[s].la;
    }
}

static void cases_rows(struct op_list * l) {
    static const enum ggml_type types[] = { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0,
                                            GGML_TYPE_Q5_1, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K };
    for (int t = 0; t < N_OF(types); t++) {
        for (int s = 0; s < 3; s++) {
            int64_t block = ggml_blck_size(types[t]);
            int64_t a[4] = { block > 1 ? block * (1 + s) : s == 0 ? 64 : s == 1 ? 37 : 1, s == 0 ? 1 : 11 }, b[4] = { s == 0 ? 1 : 5 };
            struct op_case * c = op_list_add2(l, GGML_OP_GET_ROWS, build_get_rows, a, b);
            c->type = types[t];
            c->type_b = GGML_TYPE_I32;
            c->la = s == 1 ? LAYOUT_STRIDED : LAYOUT_PACKED;
            c->lb = s == 2 ? LAYOUT_STRIDED : LAYOUT_PACKED;
        }
        if (t < 4) {
            for (int s = 0; s < 3; s++) {
                int64_t n = types[t] == GGML_TYPE_Q8_0 ? 64 : s == 0 ? 64 : 37, a[4] = { s == 2 && t < 3 ? 1 : n, 11 }, b[4] = { s == 0 ? 1 : 5 };
                struct op_case * c = op_list_add2(l, GGML_OP_SET_ROWS, build_set_rows, a, b);
                c->type = types[t];
                c->type_b = GGML_TYPE_I64;
                c->la = s == 1 ? LAYOUT_STRIDED : LAYOUT_PACKED;
                c->lb = s == 2 ? LAYOUT_STRIDED : LAYOUT_PACKED;
            }
        }
    }
    static const int64_t a3[4] = { 37, 11, 3, 2 }, b3[4] = { 5, 3, 2 }, shared[4] = { 5, 1, 2 }; /* a cache: heads share the rows to write */
    op_list_add2(l, GGML_OP_GET_ROWS, build_get_rows, a3, b3)->type_b = GGML_TYPE_I32;
    op_list_add2(l, GGML_OP_SET_ROWS, build_set_rows, a3, b3)->type_b = GGML_TYPE_I64;
    struct op_case * c = op_list_add2(l, GGML_OP_SET_ROWS, build_set_rows, a3, shared);
    c->type_b = GGML_TYPE_I64;
    c->la = LAYOUT_PERMUTED;
    c = op_list_add2(l, GGML_OP_GET_ROWS, build_get_rows, (const int64_t[4]) { 5, 37 }, (const int64_t[4]) { 9 });
    c->type = c->type_b = GGML_TYPE_I32;
    c->fill = FILL_INDEX;
    c->hi = 1 << 20;
    struct op_case * real = op_list_add2(l, GGML_OP_GET_ROWS, build_get_rows, (const int64_t[4]) { 1024, 3072 }, (const int64_t[4]) { 16 });
    real->type = GGML_TYPE_Q8_0;
    real->type_b = GGML_TYPE_I32;
}

void op_cases_shape(struct op_list * list) {
    cases_copy(list);
    cases_concat(list);
    cases_rows(list);
}

void op_list_fill(struct op_list * list) {
    op_cases_shape(list);
    op_cases_elementwise(list);
    op_cases_products(list);
    op_cases_sizes(list);
    op_list_name(list);
}
