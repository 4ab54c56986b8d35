/* rows.c - get_rows: a [n, m, ...] of any float or block type, indices I32 [r, ...] -> F32 [n, r, ...], rows of I32 as they are;
 * set_rows: F32 rows [n, r, ...] into the rows of dst [n, m, ...] (F32, F16, BF16, Q8_0) that indices I64 [r, ...] name.
 * An index outside the table is a fault of the caller's and ends the program: models check token ids before a graph sees them. */
#include "../row.h"
#include "rows_f32.h"

void KERNEL(cpu_op_get_rows)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[0];
    const struct ggml_tensor * indices = dst->src[1];
    int64_t first, last;
    cpu_range(task, ggml_nrows(dst), 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        struct row at = row_of(dst, r);
        const char * index = (const char *) indices->data + (size_t) at.i1 * indices->nb[0] + (size_t) at.i2 * indices->nb[1] + (size_t) at.i3 * indices->nb[2];
        struct row from = { .i1 = *(const int32_t *) index, .i2 = at.i2, .i3 = at.i3 };
        GGML_ASSERT(from.i1 >= 0 && from.i1 < a->ne[1]);
        if (a->type == GGML_TYPE_I32) {
            memcpy(row_data(dst, at), row_data(a, from), (size_t) dst->ne[0] * sizeof(int32_t));
        } else {
            rows_f32(a->type, row_data(a, from), (float *) row_data(dst, at), dst->ne[0]);
        }
    }
}

static void store_row(const float * src, void * dst, enum ggml_type type, int64_t n) {
    if (type != GGML_TYPE_F16 && type != GGML_TYPE_BF16) {
        ggml_get_type_traits(type)->from_float_ref(src, dst, n);
        return;
    }
    uint16_t * h = dst;
    for (int64_t i = 0; i < n; i += VF_N) {
        int part = n - i < VF_N ? (int) (n - i) : VF_N;
        vf v = part == VF_N ? vf_load(src + i) : vf_load_n(src + i, part);
        if (type == GGML_TYPE_F16) {
            vf_store_f16_n(h + i, v, part);
        } else {
            vf_store_bf16_n(h + i, v, part);
        }
    }
}

void KERNEL(cpu_op_set_rows)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * rows = dst->src[0];
    const struct ggml_tensor * indices = dst->src[1];
    int64_t first, last;
    cpu_range(task, ggml_nrows(rows), 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        struct row at = row_of(rows, r);
        const char * index = (const char *) indices->data + (size_t) at.i1 * indices->nb[0] + (size_t) (at.i2 % indices->ne[1]) * indices->nb[1] +
                             (size_t) (at.i3 % indices->ne[2]) * indices->nb[2];
        struct row to = { .i1 = *(const int64_t *) index, .i2 = at.i2, .i3 = at.i3 };
        GGML_ASSERT(to.i1 >= 0 && to.i1 < dst->ne[1]);
        const float * src = (const float *) row_data(rows, at);
        if (dst->type == GGML_TYPE_F32) {
            memcpy(row_data(dst, to), src, (size_t) dst->ne[0] * sizeof(float));
        } else {
            store_row(src, row_data(dst, to), dst->type, dst->ne[0]);
        }
    }
}
