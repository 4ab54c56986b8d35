/* rows_f32.h - stored weights to F32: n consecutive elements of a row, whole blocks for quantized types.
 * The many-column products, the convolutions and the outer product all compute in F32; this is where F16, BF16 and blocks become that. */
#pragma once

#include "../../core/half.h"
#include "../../core/quants.h"
#include "../vec.h"

/* memcpy with the source prefetched 4 KB ahead: long rows come from memory a third faster. */
static inline void rows_f32_copy(const float * src, float * dst, int64_t n) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __builtin_prefetch((const void *) ((uintptr_t) (src + i) + 4096), 0, 3);
        memcpy(dst + i, src + i, 16 * sizeof(float));
    }
    memcpy(dst + i, src + i, (size_t) (n - i) * sizeof(float));
}

static inline void rows_f32_half(bool bf16, const uint16_t * src, float * dst, int64_t n) {
    int64_t i = 0;
    for (; i + VF_N <= n; i += VF_N) {
        vf_store(dst + i, bf16 ? vf_load_bf16(src + i) : vf_load_f16(src + i));
    }
    for (; i < n; i++) {
        dst[i] = bf16 ? half_bf16_to_f32(src[i]) : half_f16_to_f32(src[i]);
    }
}

/* The compiler vectorises the loops below for the tier; the core's own conversions are built for any processor and take three times as long. */
static inline void rows_f32_q8_0(const struct block_q8_0 * src, float * dst, int64_t n) {
    const int64_t n_blocks = n / QK8_0;
    for (int64_t b = 0; b < n_blocks; b += VF_N) { /* the scales of VF_N blocks together: one by one they would take as long as the values */
        uint16_t halves[VF_N] = { 0 };
        float d[VF_N];
        const int64_t left = n_blocks - b < VF_N ? n_blocks - b : VF_N;
        for (int64_t i = 0; i < left; i++) {
            halves[i] = src[b + i].d;
        }
        vf_store(d, vf_load_f16(halves));
        for (int64_t i = 0; i < left; i++, dst += QK8_0) {
            const vf scale = vf_set1(d[i]);
            for (int j = 0; j < QK8_0; j += VF_N) {
                vf_store(dst + j, vf_mul(scale, vf_load_i8(src[b + i].qs + j)));
            }
        }
    }
}

/* Q4_K; with qh (32 bytes inside the block, a fifth bit for each sub-block) Q5_K. */
static inline void rows_f32_k45(const uint16_t * d_dmin, const uint8_t * scales, const uint8_t * qh, const uint8_t * qs, float * dst) {
    float d = half_f16_to_f32(d_dmin[0]), dmin = half_f16_to_f32(d_dmin[1]);
    for (int s = 0; s < 8; s++) {
        float scale = d * (float) k_scale(scales, s), min = dmin * (float) k_min(scales, s);
        const uint8_t * q = qs + 32 * (s / 2);
        float * y = dst + 32 * s;
        int shift = 4 * (s & 1);
        for (int j = 0; j < 32; j++) {
            int fifth = qh ? (qh[j] >> s & 1) << 4 : 0;
            y[j] = scale * (float) ((q[j] >> shift & 15) | fifth) - min;
        }
    }
}

static inline void rows_f32_q4_K(const struct block_q4_K * src, float * dst, int64_t n) {
    for (int64_t b = 0; b < n / QK_K; b++) {
        rows_f32_k45(&src[b].d, src[b].scales, NULL, src[b].qs, dst + b * QK_K);
    }
}

static inline void rows_f32_q5_K(const struct block_q5_K * src, float * dst, int64_t n) {
    for (int64_t b = 0; b < n / QK_K; b++) {
        rows_f32_k45(&src[b].d, src[b].scales, src[b].qh, src[b].qs, dst + b * QK_K);
    }
}

static inline void rows_f32_q6_K(const struct block_q6_K * src, float * dst, int64_t n) {
    for (int64_t b = 0; b < n / QK_K; b++) {
        float d = half_f16_to_f32(src[b].d);
        for (int g = 0; g < 8; g++) { /* groups of 32: four in each half */
            const uint8_t * ql = src[b].ql + 64 * (g / 4) + 32 * (g % 2);
            const uint8_t * qh = src[b].qh + 32 * (g / 4);
            float * y = dst + b * QK_K + 32 * g;
            int low = g % 4 < 2 ? 0 : 4, high = 2 * (g % 4);
            for (int half = 0; half < 2; half++) {
                float scale = d * (float) src[b].scales[2 * g + half];
                for (int j = 16 * half; j < 16 * half + 16; j++) {
                    y[j] = scale * (float) ((ql[j] >> low & 15) + ((qh[j] >> high & 3) << 4) - 32);
                }
            }
        }
    }
}

static inline void rows_f32(enum ggml_type type, const void * src, float * dst, int64_t n) {
    switch (type) {
        case GGML_TYPE_F32: rows_f32_copy(src, dst, n); break;
        case GGML_TYPE_F16: rows_f32_half(false, src, dst, n); break;
        case GGML_TYPE_BF16: rows_f32_half(true, src, dst, n); break;
        case GGML_TYPE_Q8_0: rows_f32_q8_0(src, dst, n); break;
        case GGML_TYPE_Q4_K: rows_f32_q4_K(src, dst, n); break;
        case GGML_TYPE_Q5_K: rows_f32_q5_K(src, dst, n); break;
        case GGML_TYPE_Q6_K: rows_f32_q6_K(src, dst, n); break;
        default: ggml_get_type_traits(type)->to_float(src, dst, n); break;
    }
}
