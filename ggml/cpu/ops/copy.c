/* copy.c - cpy, cont and cast: the elements of src in order of its shape into dst in order of its own, strides and types as they are; and repeat.
 * Types: F32, F16, BF16 from any to any (nearest even), every other plain type to itself. A transposed source is read in square tiles. */
#include "../row.h"
#include "../vec.h"

#define TILE 16  /* elements of a side: 16 cache lines read, 16 written */
#define STRIP 64 /* rows of dst a thread takes at a time */

static float load_float(const char * p, enum ggml_type type) {
    uint16_t h;
    float f;
    if (type == GGML_TYPE_F32) {
        memcpy(&f, p, sizeof f);
        return f;
    }
    memcpy(&h, p, sizeof h);
    return type == GGML_TYPE_F16 ? ggml_fp16_to_fp32(h) : ggml_bf16_to_fp32((ggml_bf16_t) { h });
}

static void store_float(char * p, enum ggml_type type, float f) {
    if (type == GGML_TYPE_F32) {
        memcpy(p, &f, sizeof f);
        return;
    }
    uint16_t h = type == GGML_TYPE_F16 ? ggml_fp32_to_fp16(f) : ggml_fp32_to_bf16(f).bits;
    memcpy(p, &h, sizeof h);
}

static inline vf load_vec(const char * p, int64_t i, enum ggml_type type) {
    const uint16_t * h = (const uint16_t *) p + i;
    return type == GGML_TYPE_F32 ? vf_load((const float *) p + i) : type == GGML_TYPE_F16 ? vf_load_f16(h) : vf_load_bf16(h);
}

static inline void store_vec(char * p, int64_t i, enum ggml_type type, vf v) {
    uint16_t * h = (uint16_t *) p + i;
    if (type == GGML_TYPE_F32) {
        vf_store((float *) p + i, v);
    } else if (type == GGML_TYPE_F16) {
        vf_store_f16(h, v);
    } else {
        vf_store_bf16(h, v);
    }
}

static inline void copy_element(char * dst, const char * src, size_t size) {
    switch (size) { /* sizes the compiler knows become one move */
        case 1: *dst = *src; break;
        case 2: memcpy(dst, src, 2); break;
        case 4: memcpy(dst, src, 4); break;
        default: memcpy(dst, src, 8); break;
    }
}

struct side {
    enum ggml_type type;
    size_t stride; /* bytes from one element to the next */
    size_t size;   /* bytes of an element */
};

static void copy_run(char * dst, const struct side * to, const char * src, const struct side * from, int64_t n) {
    bool packed = to->stride == to->size && from->stride == from->size;
    if (to->type == from->type) {
        if (packed) {
            memmove(dst, src, (size_t) n * to->size);
        } else {
            for (int64_t i = 0; i < n; i++) {
                copy_element(dst + (size_t) i * to->stride, src + (size_t) i * from->stride, to->size);
            }
        }
        return;
    }
    int64_t i = 0;
    for (; packed && i + VF_N <= n; i += VF_N) {
        store_vec(dst, i, to->type, load_vec(src, i, from->type));
    }
    for (; i < n; i++) {
        store_float(dst + (size_t) i * to->stride, to->type, load_float(src + (size_t) i * from->stride, from->type));
    }
}

/* A whole tile of 4-byte elements by way of a buffer, so that every cache line is read and written once: lines a power of two apart share a
 * cache set, and read element by element they push each other out (5 ns an element at a stride of 4096 bytes). */
static void transpose_tile(char * dst, size_t dst_stride, const char * src, size_t src_stride) {
    uint32_t tile[TILE][TILE];
    for (int j = 0; j < TILE; j++) {
        memcpy(tile[j], src + (size_t) j * src_stride, sizeof tile[j]);
    }
    for (int i = 0; i < TILE; i++) {
        uint32_t line[TILE];
        for (int j = 0; j < TILE; j++) {
            line[j] = tile[j][i];
        }
        memcpy(dst + (size_t) i * dst_stride, line, sizeof line);
    }
}

/* Columns i0 .. i0_end of rows lo .. hi of one plane, element by element. */
static void transpose_edge(const struct ggml_tensor * dst, char * d, const struct ggml_tensor * src, const char * s, int64_t i0, int64_t i0_end, int64_t lo,
                           int64_t hi) {
    const size_t size = ggml_element_size(dst);
    for (int64_t i1 = lo; i1 < hi; i1++) {
        for (int64_t i = i0; i < i0_end; i++) {
            copy_element(d + (size_t) i1 * dst->nb[1] + (size_t) i * size, s + (size_t) i1 * size + (size_t) i * src->nb[0], size);
        }
    }
}

/* dst packed in its rows, src of the same shape and type with its elements packed along axis 1. Threads share strips of STRIP rows of dst, which
 * read whole neighbouring lines of src. */
static void copy_transposed(const struct cpu_task * task, struct ggml_tensor * dst, const struct ggml_tensor * src) {
    const int64_t planes = dst->ne[2] * dst->ne[3], strips = (dst->ne[1] + STRIP - 1) / STRIP;
    int64_t first, last;
    cpu_range(task, planes * strips, 1, &first, &last);
    for (int64_t u = first; u < last; u++) {
        int64_t plane = u / strips, lo = u % strips * STRIP, hi = lo + STRIP < dst->ne[1] ? lo + STRIP : dst->ne[1];
        struct row at = { .i1 = 0, .i2 = plane % dst->ne[2], .i3 = plane / dst->ne[2] };
        char * d = row_data(dst, at);
        const char * s = row_data(src, at);
        for (int64_t i0 = 0; i0 < dst->ne[0]; i0 += TILE) {
            int64_t end = i0 + TILE < dst->ne[0] ? i0 + TILE : dst->ne[0], i1 = lo;
            for (; ggml_element_size(dst) == 4 && end - i0 == TILE && i1 + TILE <= hi; i1 += TILE) {
                transpose_tile(d + (size_t) i1 * dst->nb[1] + (size_t) i0 * 4, dst->nb[1], s + (size_t) i1 * 4 + (size_t) i0 * src->nb[0], src->nb[0]);
            }
            transpose_edge(dst, d, src, s, i0, end, i1, hi);
        }
    }
}

/* n elements of dst's row at, the first being element flat of src: runs end where a row of src ends. */
static void copy_row(char * dst, const struct side * to, int64_t n, const struct ggml_tensor * src, const struct side * from, int64_t flat) {
    while (n > 0) {
        int64_t r = flat / src->ne[0], i0 = flat - r * src->ne[0];
        int64_t run = src->ne[0] - i0 < n ? src->ne[0] - i0 : n;
        copy_run(dst, to, row_data(src, row_of(src, r)) + (size_t) i0 * from->stride, from, run);
        dst += (size_t) run * to->stride;
        flat += run;
        n -= run;
    }
}

static void copy(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * src = dst->src[0];
    const struct side to = { dst->type, dst->nb[0], ggml_element_size(dst) };
    const struct side from = { src->type, src->nb[0], ggml_element_size(src) };
    int64_t first, last;
    if (ggml_is_contiguous(src) && ggml_is_contiguous(dst)) {
        /* the stride of an axis of one element says nothing: [1, T] seen through a transpose keeps the old one */
        const struct side to_packed = { to.type, to.size, to.size }, from_packed = { from.type, from.size, from.size };
        cpu_range(task, ggml_nelements(dst), 64, &first, &last);
        copy_run((char *) dst->data + (size_t) first * to.size, &to_packed, (const char *) src->data + (size_t) first * from.size, &from_packed, last - first);
        return;
    }
    if (src->type == dst->type && ggml_are_same_shape(src, dst) && to.stride == to.size && src->nb[1] == from.size && src->ne[0] > 1) {
        copy_transposed(task, dst, src);
        return;
    }
    cpu_range(task, ggml_nrows(dst), 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        copy_row(row_data(dst, row_of(dst, r)), &to, dst->ne[0], src, &from, r * dst->ne[0]);
    }
}

void KERNEL(cpu_op_cpy)(const struct cpu_task * task, struct ggml_tensor * dst) { copy(task, dst); }
void KERNEL(cpu_op_cont)(const struct cpu_task * task, struct ggml_tensor * dst) { copy(task, dst); }

/* Each row of dst is the row of src it tiles from, over and over. */
void KERNEL(cpu_op_repeat)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * src = dst->src[0];
    const struct side to = { dst->type, dst->nb[0], ggml_element_size(dst) };
    const struct side from = { src->type, src->ne[0] == 1 ? 0 : src->nb[0], ggml_element_size(src) };
    const int64_t run = src->ne[0] == 1 ? dst->ne[0] : src->ne[0]; /* one element: a run of it with stride 0 */
    int64_t first, last;
    cpu_range(task, ggml_nrows(dst), 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        struct row at = row_of(dst, r);
        char * d = row_data(dst, at);
        const char * s = row_data_tiled(src, at);
        for (int64_t i = 0; i < dst->ne[0]; i += run) {
            copy_run(d + (size_t) i * to.stride, &to, s, &from, run);
        }
    }
}
