/* concat.c - concat of two tensors along an axis; pad: zeros before and after each axis; pad_reflect_1d: each row continued by its mirror image,
 * the edge not repeated. Any plain type, any strides of the sources. */
#include "../row.h"
#include "../vec.h"

/* n elements of size bytes from src, stride bytes apart, packed into dst. */
static void copy_packed(char * dst, const char * src, size_t stride, size_t size, int64_t n) {
    if (stride == size) {
        memcpy(dst, src, (size_t) n * size);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy(dst + (size_t) i * size, src + (size_t) i * stride, size);
    }
}

void KERNEL(cpu_op_concat)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[0];
    const struct ggml_tensor * b = dst->src[1];
    const int dim = ggml_get_op_params_i32(dst, 0);
    const size_t size = ggml_element_size(dst);
    int64_t first, last;
    cpu_range(task, ggml_nrows(dst), 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        struct row at = row_of(dst, r);
        char * out = row_data(dst, at);
        if (dim == 0) {
            copy_packed(out, row_data(a, at), a->nb[0], size, a->ne[0]);
            copy_packed(out + (size_t) a->ne[0] * size, row_data(b, at), b->nb[0], size, b->ne[0]);
            continue;
        }
        int64_t * i = dim == 1 ? &at.i1 : dim == 2 ? &at.i2 : &at.i3;
        const struct ggml_tensor * from = *i < a->ne[dim] ? a : b;
        *i -= from == b ? a->ne[dim] : 0;
        copy_packed(out, row_data(from, at), from->nb[0], size, dst->ne[0]);
    }
}

void KERNEL(cpu_op_pad)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[0];
    const size_t size = ggml_element_size(dst);
    const int64_t before = ggml_get_op_params_i32(dst, 0);
    int64_t first, last;
    cpu_range(task, ggml_nrows(dst), 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        struct row at = row_of(dst, r);
        char * out = row_data(dst, at);
        at.i1 -= ggml_get_op_params_i32(dst, 2);
        at.i2 -= ggml_get_op_params_i32(dst, 4);
        at.i3 -= ggml_get_op_params_i32(dst, 6);
        bool inside = at.i1 >= 0 && at.i1 < a->ne[1] && at.i2 >= 0 && at.i2 < a->ne[2] && at.i3 >= 0 && at.i3 < a->ne[3];
        if (!inside) {
            memset(out, 0, (size_t) dst->ne[0] * size);
            continue;
        }
        memset(out, 0, (size_t) before * size);
        copy_packed(out + (size_t) before * size, row_data(a, at), a->nb[0], size, a->ne[0]);
        memset(out + (size_t) (before + a->ne[0]) * size, 0, (size_t) (dst->ne[0] - before - a->ne[0]) * size);
    }
}

void KERNEL(cpu_op_pad_reflect_1d)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[0];
    const size_t size = ggml_element_size(dst);
    const int64_t n = a->ne[0], before = ggml_get_op_params_i32(dst, 0), after = ggml_get_op_params_i32(dst, 1);
    int64_t first, last;
    cpu_range(task, ggml_nrows(dst), 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        struct row at = row_of(dst, r);
        const char * in = row_data(a, at);
        char * out = row_data(dst, at);
        for (int64_t j = 0; j < before; j++) {
            memcpy(out + (size_t) j * size, in + (size_t) (before - j) * a->nb[0], size);
        }
        copy_packed(out + (size_t) before * size, in, a->nb[0], size, n);
        for (int64_t j = 0; j < after; j++) {
            memcpy(out + (size_t) (before + n + j) * size, in + (size_t) (n - 2 - j) * a->nb[0], size);
        }
    }
}
