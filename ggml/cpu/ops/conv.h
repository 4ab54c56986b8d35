/* conv.h - what conv_1d's two products share: the shape, how input is read and how weights lie. */
#pragma once

#include "rows_f32.h"

struct conv_shape {
    int64_t K, IC, OC, T, T_out, s0, p0, d0;
};

static inline int64_t conv_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static inline struct conv_shape conv_shape_of(const struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[0];
    return (struct conv_shape) {
        .K = a->ne[0], .IC = a->ne[1], .OC = a->ne[2], .T = dst->src[1]->ne[0], .T_out = dst->ne[0],
        .s0 = ggml_get_op_params_i32(dst, 0), .p0 = ggml_get_op_params_i32(dst, 1), .d0 = ggml_get_op_params_i32(dst, 2),
    };
}

/* Samples of a phase that an output needs beyond its own. */
static inline int64_t conv_halo(const struct conv_shape * s) { return (s->K - 1) * s->d0 / s->s0 + 1; }

/* Offset of tap k in the phases that conv_load_channel writes. */
static inline int64_t conv_tap(const struct conv_shape * s, int64_t phase_len, int64_t k) { return k * s->d0 % s->s0 * phase_len + k * s->d0 / s->s0; }

/* Samples of input channel ic that outputs from t0 on read, split by s0 so that every tap reads neighbours:
 * out[q * phase_len + j] = x[(t0 + j) * s0 + q - p0], zero outside 0 .. T-1. */
static inline void conv_load_channel(const struct ggml_tensor * dst, const struct conv_shape * s, int64_t phase_len, int64_t ic, int64_t t0, float * out) {
    const float * x = (const float *) ((const char *) dst->src[1]->data + (size_t) ic * dst->src[1]->nb[1]);
    for (int64_t q = 0; q < s->s0; q++, out += phase_len) {
        int64_t start = t0 * s->s0 + q - s->p0;
        int64_t lo = start < 0 ? conv_ceil_div(-start, s->s0) : 0;
        int64_t hi = start < s->T ? conv_ceil_div(s->T - start, s->s0) : 0;
        lo = lo < phase_len ? lo : phase_len;
        hi = hi < lo ? lo : hi < phase_len ? hi : phase_len;
        memset(out, 0, (size_t) lo * sizeof(float));
        if (s->s0 == 1) {
            memcpy(out + lo, x + (start + lo), (size_t) (hi - lo) * sizeof(float));
        } else {
            for (int64_t j = lo; j < hi; j++) {
                out[j] = x[start + j * s->s0];
            }
        }
        memset(out + hi, 0, (size_t) (phase_len - hi) * sizeof(float));
    }
}

/* Input channels ic .. ic + n - 1 of output channel oc as F32: out[i * K + k]. */
static inline void conv_row_f32(const struct ggml_tensor * a, int64_t oc, int64_t ic, int64_t n, float * out) {
    const char * row = (const char *) a->data + (size_t) oc * a->nb[2] + (size_t) ic * a->nb[1];
    if (a->nb[1] == ggml_row_size(a->type, a->ne[0])) {
        rows_f32(a->type, row, out, n * a->ne[0]);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        rows_f32(a->type, row + (size_t) i * a->nb[1], out + i * a->ne[0], a->ne[0]);
    }
}
