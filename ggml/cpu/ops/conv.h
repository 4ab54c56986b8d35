/* conv.h - what the convolutions share: the shape, how input is read and finished, how weights lie.
 * Input goes through here on its way into a kernel's packed block: columns of the past, zeros and the activation cost no pass of their own. */
#pragma once

#include "../vec_math.h"
#include "rows_f32.h"

struct conv_shape {
    int64_t K, IC, OC, T, T_out, s0, p0, d0;
};

static inline int64_t conv_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static inline struct conv_shape conv_shape_of(const struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[CONV_SRC_KERNEL];
    return (struct conv_shape) {
        .K = a->ne[0], .IC = a->ne[1], .OC = a->ne[2], .T = dst->src[CONV_SRC_DATA]->ne[0], .T_out = dst->ne[0],
        .s0 = ggml_get_op_params_i32(dst, 0), .p0 = ggml_get_op_params_i32(dst, 1), .d0 = ggml_get_op_params_i32(dst, 2),
    };
}

/* Order of the products of BF16 parts, see amx.h. */
static inline int conv_order(const struct ggml_tensor * dst) { return ggml_get_op_params_i32(dst, 4) == GGML_PREC_F32 ? 3 : 2; }

/* Samples of a phase that an output needs beyond its own. */
static inline int64_t conv_halo(const struct conv_shape * s) { return (s->K - 1) * s->d0 / s->s0 + 1; }

/* Offset of tap k in the phases that conv_load_channel writes. */
static inline int64_t conv_tap(const struct conv_shape * s, int64_t phase_len, int64_t k) { return k * s->d0 % s->s0 * phase_len + k * s->d0 / s->s0; }

/* out[j] = x[first + j * step] for the j that lie inside x's n_x samples. */
static inline void conv_copy(const float * x, int64_t n_x, int64_t first, int64_t step, int64_t n, float * out) {
    int64_t lo = first < 0 ? conv_ceil_div(-first, step) : 0;
    int64_t hi = first < n_x ? conv_ceil_div(n_x - first, step) : 0;
    hi = hi < n ? hi : n;
    if (step == 1 && lo < hi) {
        memcpy(out + lo, x + (first + lo), (size_t) (hi - lo) * sizeof(float));
        return;
    }
    for (int64_t j = lo; j < hi; j++) {
        out[j] = x[first + j * step];
    }
}

/* n values of input channel ic after the activation: out[j] is sample first + j * step, where those below 0 are the past and what neither has is zero. */
static inline void conv_read(const struct ggml_tensor * dst, int64_t ic, int64_t first, int64_t step, int64_t n, float * out) {
    const struct ggml_tensor * x = dst->src[CONV_SRC_DATA], * past = dst->src[CONV_SRC_PAST];
    if (first < 0 || first + (n - 1) * step >= x->ne[0]) {
        memset(out, 0, (size_t) n * sizeof(float));
    }
    conv_copy((const float *) ((const char *) x->data + (size_t) ic * x->nb[1]), x->ne[0], first, step, n, out);
    if (past && first < 0) {
        conv_copy((const float *) ((const char *) past->data + (size_t) ic * past->nb[1]), past->ne[0], past->ne[0] + first, step, n, out);
    }
    const int act = ggml_get_op_params_i32(dst, 3);
    if (act == GGML_CONV_ACT_NONE) {
        return;
    }
    const bool snake = act == GGML_CONV_ACT_SNAKE;
    const vf a = vf_set1(snake ? ((const float *) dst->src[CONV_SRC_SNAKE_A]->data)[ic] : 0.0f);
    const vf inv_b = vf_set1(snake ? ((const float *) dst->src[CONV_SRC_SNAKE_INV_B]->data)[ic] : 0.0f);
    int64_t j = 0;
    for (; snake && j + VF_N <= n; j += VF_N) {
        vf_store(out + j, vf_snake(vf_load(out + j), a, inv_b));
    }
    for (; j < n; j += VF_N) {
        int width = n - j < VF_N ? (int) (n - j) : VF_N;
        vf v = vf_load_n(out + j, width);
        vf_store_n(out + j, snake ? vf_snake(v, a, inv_b) : vf_elu(v), width);
    }
}

/* Samples of input channel ic that outputs from t0 on read, split by s0 so that every tap reads neighbours:
 * out[q * phase_len + j] is sample (t0 + j) * s0 + q - p0. */
static inline void conv_load_channel(const struct ggml_tensor * dst, const struct conv_shape * s, int64_t phase_len, int64_t ic, int64_t t0, float * out) {
    for (int64_t q = 0; q < s->s0; q++) {
        conv_read(dst, ic, t0 * s->s0 + q - s->p0, s->s0, phase_len, out + q * phase_len);
    }
}

/* n sums of output channel oc from t on, with what is added to them, into the result. sums may be that place. */
static inline void conv_finish(const struct ggml_tensor * dst, int64_t oc, int64_t t, int64_t n, const float * sums) {
    const struct ggml_tensor * bias = dst->src[CONV_SRC_BIAS], * residual = dst->src[CONV_SRC_RESIDUAL];
    float * out = (float *) ((char *) dst->data + (size_t) oc * dst->nb[1]) + t;
    const float * more = residual ? (const float *) ((const char *) residual->data + (size_t) oc * residual->nb[1]) + t : NULL;
    const vf b = vf_set1(bias ? ((const float *) bias->data)[oc] : 0.0f);
    int64_t j = 0;
    for (; !more && j + VF_N <= n; j += VF_N) {
        vf_store(out + j, vf_add(vf_load(sums + j), b));
    }
    for (; more && j + VF_N <= n; j += VF_N) {
        vf_store(out + j, vf_add(vf_add(vf_load(sums + j), b), vf_load(more + j)));
    }
    if (j < n) {
        int width = (int) (n - j);
        vf v = vf_add(vf_load_n(sums + j, width), b);
        v = more ? vf_add(v, vf_load_n(more + j, width)) : v;
        vf_store_n(out + j, v, width);
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
