/* dot_float.h - products of one row of F32, F16 or BF16 with up to four F32 columns. Weights widen in registers; activations are not rounded. */
#pragma once

#include "../../core/half.h"
#include "dot_blocks.h"

DOT_INLINE size_t dot_float_bytes(const enum ggml_type type) { return type == GGML_TYPE_F32 ? sizeof(float) : sizeof(uint16_t); }

DOT_INLINE vf dot_float_load(const enum ggml_type type, const char * w) {
    return type == GGML_TYPE_F32 ? vf_load((const float *) w) : type == GGML_TYPE_F16 ? vf_load_f16((const uint16_t *) w) : vf_load_bf16((const uint16_t *) w);
}

/* n < VF_N values, zeros after. */
DOT_INLINE vf dot_float_load_n(const enum ggml_type type, const char * w, int n) {
    if (type == GGML_TYPE_F32) {
        return vf_load_n((const float *) w, n);
    }
    uint16_t part[VF_N] = { 0 };
    memcpy(part, w, (size_t) n * sizeof(uint16_t));
    return dot_float_load(type, (const char *) part);
}

/* out[c] = row w of K values times column x[c]. One column has four chains of additions, more columns two each. */
DOT_INLINE void dot_row_float(const enum ggml_type type, const int n_cols, const char * w, int64_t K, const float * const * x, float * out) {
    const size_t size = dot_float_bytes(type);
    const int chains = n_cols == 1 ? 4 : 2;
    vf acc[4][DOT_COLS];
#pragma GCC unroll 4
    for (int i = 0; i < chains; i++) {
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) {
            acc[i][c] = vf_zero();
        }
    }
    int64_t k = 0;
    for (; k + chains * VF_N <= K; k += chains * VF_N) {
#pragma GCC unroll 4
        for (int i = 0; i < chains; i++) {
            const char * at = w + (size_t) (k + i * VF_N) * size;
            if (i * VF_N * size % 64 == 0) {
                dot_prefetch(at);
            }
            vf wv = dot_float_load(type, at);
#pragma GCC unroll 4
            for (int c = 0; c < n_cols; c++) {
                acc[i][c] = vf_fma(wv, vf_load(x[c] + k + i * VF_N), acc[i][c]);
            }
        }
    }
    for (; k < K; k += VF_N) {
        int n = (int) (K - k < VF_N ? K - k : VF_N);
        const char * at = w + (size_t) k * size;
        vf wv = n < VF_N ? dot_float_load_n(type, at, n) : dot_float_load(type, at);
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) {
            acc[0][c] = vf_fma(wv, vf_load_n(x[c] + k, n), acc[0][c]);
        }
    }
#pragma GCC unroll 4
    for (int c = 0; c < n_cols; c++) {
        vf sum = vf_add(acc[0][c], acc[1][c]);
        if (chains == 4) {
            sum = vf_add(sum, vf_add(acc[2][c], acc[3][c]));
        }
        out[c] = vf_sum(sum);
    }
}
