/* op_cases_sizes.c - products and row gathers of every weight type at sizes around a vector and a block, packed and as views with offsets:
 * what users met as repeating speech on one device, an assertion on another and a wrong gather from a view. */
#include "op_test.h"

static const int64_t SIZES[] = { 1, 31, 32, 33, 255, 256, 257 };
enum { N_SIZES = sizeof SIZES / sizeof SIZES[0] };

static void add(struct op_list * l, enum ggml_op op, enum ggml_type type, const int64_t a[4], const int64_t b[4]) {
    /* with few outputs an average over them means nothing: activations that int8 blocks hold exactly, and a bound on each output */
    bool whole = op == GGML_OP_MUL_MAT && a[1] * b[1] < 16;
    for (int view = 0; view < 2; view++) {
        struct op_case * c = op_list_add2(l, op, op == GGML_OP_MUL_MAT ? build_mul_mat : build_get_rows, a, b);
        c->type = type;
        c->type_b = op == GGML_OP_MUL_MAT ? GGML_TYPE_F32 : GGML_TYPE_I32;
        c->la = c->lb = view ? LAYOUT_STRIDED : LAYOUT_PACKED;
        c->fill = whole ? FILL_WHOLE : FILL_UNIFORM;
        c->key = whole ? "MUL_MAT_WHOLE" : NULL;
    }
}

void op_cases_sizes(struct op_list * l) {
    for (int t = 0; t < GGML_TYPE_COUNT; t++) {
        const enum ggml_type type = (enum ggml_type) t;
        const struct ggml_type_traits * traits = ggml_get_type_traits(type);
        if (!traits || !traits->to_float || type == GGML_TYPE_Q8_K) { /* numbers only, and activations: no weights */
            continue;
        }
        int64_t block = traits->blck_size, row = block > 1 ? 2 * block : 33;
        for (int s = 0; s < N_SIZES; s++) {
            int64_t n = SIZES[s];
            add(l, GGML_OP_MUL_MAT, type, (const int64_t[4]) { row, n }, (const int64_t[4]) { row, 1 });
            add(l, GGML_OP_MUL_MAT, type, (const int64_t[4]) { row, 5 }, (const int64_t[4]) { row, n });
            add(l, GGML_OP_GET_ROWS, type, (const int64_t[4]) { row, n }, (const int64_t[4]) { n });
            if (block == 1) {
                add(l, GGML_OP_MUL_MAT, type, (const int64_t[4]) { n, 5 }, (const int64_t[4]) { n, 1 });
                add(l, GGML_OP_MUL_MAT, type, (const int64_t[4]) { n, 5 }, (const int64_t[4]) { n, 5 });
                add(l, GGML_OP_GET_ROWS, type, (const int64_t[4]) { n, 5 }, (const int64_t[4]) { 7 });
            } else if (n * block <= 257 * 32) { /* blocks a row instead of elements */
                add(l, GGML_OP_MUL_MAT, type, (const int64_t[4]) { n * block, 5 }, (const int64_t[4]) { n * block, 1 });
                add(l, GGML_OP_GET_ROWS, type, (const int64_t[4]) { n * block, 5 }, (const int64_t[4]) { 7 });
            }
        }
    }
}
