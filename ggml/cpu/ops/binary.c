/* binary.c - add, sub, mul, div with b tiled to a's shape, and the gate silu(a) * b: a [n, ...], b -> [n, ...], F32.
 * Packed sources of one shape are cut anywhere, others by rows; within a row b is one value, a whole row, or a divisor of it. */
#include "../row.h"
#include "../vec_math.h"

enum kind { KIND_ADD, KIND_SUB, KIND_MUL, KIND_DIV, KIND_GLU };

/* z = expr over x and y, y read as its name says, with a partial vector at the end. */
#define MAP(expr, load_y, load_y_n)                                \
    do {                                                           \
        int64_t i = 0;                                             \
        for (; i + VF_N <= n; i += VF_N) {                         \
            vf x = vf_load(a + i), y = load_y;                     \
            vf_store(dst + i, expr);                               \
        }                                                          \
        if (i < n) {                                               \
            int rest = (int) (n - i);                              \
            vf x = vf_load_n(a + i, rest), y = load_y_n;           \
            vf_store_n(dst + i, expr, rest);                       \
        }                                                          \
    } while (0)
#define MAP_ROW(expr) MAP(expr, vf_load(b + i), vf_load_n(b + i, rest))
#define MAP_ONE(expr) MAP(expr, one, one)

static void row_by_row(enum kind kind, const float * a, const float * b, float * dst, int64_t n) {
    switch (kind) {
        case KIND_ADD: MAP_ROW(vf_add(x, y)); break;
        case KIND_SUB: MAP_ROW(vf_sub(x, y)); break;
        case KIND_MUL: MAP_ROW(vf_mul(x, y)); break;
        case KIND_DIV: MAP_ROW(vf_div(x, y)); break;
        case KIND_GLU: MAP_ROW(vf_mul(vf_mul(x, vf_sigmoid(x)), y)); break;
    }
}

static void row_by_one(enum kind kind, const float * a, float b, float * dst, int64_t n) {
    const vf one = vf_set1(b);
    switch (kind) {
        case KIND_ADD: MAP_ONE(vf_add(x, y)); break;
        case KIND_SUB: MAP_ONE(vf_sub(x, y)); break;
        case KIND_MUL: MAP_ONE(vf_mul(x, y)); break;
        case KIND_DIV: MAP_ONE(vf_div(x, y)); break;
        case KIND_GLU: MAP_ONE(vf_mul(vf_mul(x, vf_sigmoid(x)), y)); break;
    }
}

static void binary(const struct cpu_task * task, struct ggml_tensor * dst, enum kind kind) {
    const struct ggml_tensor * a = dst->src[0];
    const struct ggml_tensor * b = dst->src[1];
    int64_t first, last;
    if (ggml_are_same_shape(a, b) && ggml_is_contiguous(a) && ggml_is_contiguous(b) && ggml_is_contiguous(dst)) {
        cpu_range(task, ggml_nelements(dst), 64, &first, &last);
        if (first < last) {
            row_by_row(kind, (const float *) a->data + first, (const float *) b->data + first, (float *) dst->data + first, last - first);
        }
        return;
    }
    const int64_t n = dst->ne[0], nb = b->ne[0];
    cpu_range(task, ggml_nrows(dst), 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        struct row at = row_of(dst, r);
        const float * pa = (const float *) row_data(a, at);
        const float * pb = (const float *) row_data_tiled(b, at);
        float * pd = (float *) row_data(dst, at);
        if (nb == 1) {
            row_by_one(kind, pa, *pb, pd, n);
        } else {
            for (int64_t i = 0; i < n; i += nb) {
                row_by_row(kind, pa + i, pb, pd + i, nb);
            }
        }
    }
}

void KERNEL(cpu_op_add)(const struct cpu_task * task, struct ggml_tensor * dst) { binary(task, dst, KIND_ADD); }
void KERNEL(cpu_op_sub)(const struct cpu_task * task, struct ggml_tensor * dst) { binary(task, dst, KIND_SUB); }
void KERNEL(cpu_op_mul)(const struct cpu_task * task, struct ggml_tensor * dst) { binary(task, dst, KIND_MUL); }
void KERNEL(cpu_op_div)(const struct cpu_task * task, struct ggml_tensor * dst) { binary(task, dst, KIND_DIV); }
void KERNEL(cpu_op_glu)(const struct cpu_task * task, struct ggml_tensor * dst) { binary(task, dst, KIND_GLU); }
