/* quants.c - quantized rows to floats, and floats to the simple formats by plain rounding (quants.h has the layouts).
 * blocks -> float [k] and back. Rounding follows ggml, so files made by either are equal, except where the scale is no normal f16: there values are
 * rounded against the scale as stored, which is finite. The formats with a search have it in quants_k_*.c. */
#include "quants.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "half.h"

void dequantize_row_q4_0(const void * x, float * y, int64_t k) {
    const struct block_q4_0 * b = x;
    for (int64_t i = 0; i < k / QK4_0; i++, b++, y += QK4_0) {
        float d = half_f16_to_f32(b->d);
        for (int j = 0; j < QK4_0 / 2; j++) {
            y[j] = (float) ((b->qs[j] & 15) - 8) * d;
            y[j + QK4_0 / 2] = (float) ((b->qs[j] >> 4) - 8) * d;
        }
    }
}

void dequantize_row_q4_1(const void * x, float * y, int64_t k) {
    const struct block_q4_1 * b = x;
    for (int64_t i = 0; i < k / QK4_1; i++, b++, y += QK4_1) {
        float d = half_f16_to_f32(b->d);
        float m = half_f16_to_f32(b->m);
        for (int j = 0; j < QK4_1 / 2; j++) {
            y[j] = (float) (b->qs[j] & 15) * d + m;
            y[j + QK4_1 / 2] = (float) (b->qs[j] >> 4) * d + m;
        }
    }
}

static uint32_t fifth_bits(const uint8_t qh[4]) {
    return (uint32_t) qh[0] | (uint32_t) qh[1] << 8 | (uint32_t) qh[2] << 16 | (uint32_t) qh[3] << 24;
}

void dequantize_row_q5_0(const void * x, float * y, int64_t k) {
    const struct block_q5_0 * b = x;
    for (int64_t i = 0; i < k / QK5_0; i++, b++, y += QK5_0) {
        float d = half_f16_to_f32(b->d);
        uint32_t high = fifth_bits(b->qh);
        for (int j = 0; j < QK5_0 / 2; j++) {
            int lo = (b->qs[j] & 15) | (int) (high >> j & 1) << 4;
            int hi = b->qs[j] >> 4 | (int) (high >> (j + 16) & 1) << 4;
            y[j] = (float) (lo - 16) * d;
            y[j + QK5_0 / 2] = (float) (hi - 16) * d;
        }
    }
}

void dequantize_row_q5_1(const void * x, float * y, int64_t k) {
    const struct block_q5_1 * b = x;
    for (int64_t i = 0; i < k / QK5_1; i++, b++, y += QK5_1) {
        float d = half_f16_to_f32(b->d);
        float m = half_f16_to_f32(b->m);
        uint32_t high = fifth_bits(b->qh);
        for (int j = 0; j < QK5_1 / 2; j++) {
            int lo = (b->qs[j] & 15) | (int) (high >> j & 1) << 4;
            int hi = b->qs[j] >> 4 | (int) (high >> (j + 16) & 1) << 4;
            y[j] = (float) lo * d + m;
            y[j + QK5_1 / 2] = (float) hi * d + m;
        }
    }
}

void dequantize_row_q8_0(const void * x, float * y, int64_t k) {
    const struct block_q8_0 * b = x;
    for (int64_t i = 0; i < k / QK8_0; i++, b++, y += QK8_0) {
        float d = half_f16_to_f32(b->d);
        for (int j = 0; j < QK8_0; j++) {
            y[j] = (float) b->qs[j] * d;
        }
    }
}

void dequantize_row_q4_K(const void * x, float * y, int64_t k) {
    const struct block_q4_K * b = x;
    for (int64_t i = 0; i < k / QK_K; i++, b++) {
        float d = half_f16_to_f32(b->d);
        float dmin = half_f16_to_f32(b->dmin);
        for (int s = 0; s < 8; s++) {
            float scale = d * (float) k_scale(b->scales, s);
            float min = dmin * (float) k_min(b->scales, s);
            const uint8_t * qs = b->qs + s / 2 * 32;
            int shift = s % 2 * 4;
            for (int l = 0; l < 32; l++) {
                *y++ = scale * (float) (qs[l] >> shift & 15) - min;
            }
        }
    }
}

void dequantize_row_q5_K(const void * x, float * y, int64_t k) {
    const struct block_q5_K * b = x;
    for (int64_t i = 0; i < k / QK_K; i++, b++) {
        float d = half_f16_to_f32(b->d);
        float dmin = half_f16_to_f32(b->dmin);
        for (int s = 0; s < 8; s++) {
            float scale = d * (float) k_scale(b->scales, s);
            float min = dmin * (float) k_min(b->scales, s);
            const uint8_t * qs = b->qs + s / 2 * 32;
            int shift = s % 2 * 4;
            for (int l = 0; l < 32; l++) {
                int q = (qs[l] >> shift & 15) | (b->qh[l] >> s & 1) << 4;
                *y++ = scale * (float) q - min;
            }
        }
    }
}

void dequantize_row_q6_K(const void * x, float * y, int64_t k) {
    const struct block_q6_K * b = x;
    for (int64_t i = 0; i < k / QK_K; i++, b++) {
        float d = half_f16_to_f32(b->d);
        for (int g = 0; g < 8; g++) { /* groups of 32: four in each half */
            const uint8_t * ql = b->ql + g / 4 * 64 + g % 2 * 32;
            const uint8_t * qh = b->qh + g / 4 * 32;
            int low_shift = g % 4 / 2 * 4;
            int high_shift = g % 4 * 2;
            for (int l = 0; l < 32; l++) {
                int q = (ql[l] >> low_shift & 15) | (qh[l] >> high_shift & 3) << 4;
                *y++ = d * (float) b->scales[g * 2 + l / 16] * (float) (q - 32);
            }
        }
    }
}

void dequantize_row_q8_K(const void * x, float * y, int64_t k) {
    const struct block_q8_K * b = x;
    for (int64_t i = 0; i < k / QK_K; i++, b++) {
        for (int j = 0; j < QK_K; j++) {
            *y++ = b->d * (float) b->qs[j];
        }
    }
}

/* v cut to an integer inside lo .. hi; NaN gives lo, so that no value makes the conversion undefined. */
static int cut(float v, int lo, int hi) {
    if (!(v >= (float) lo)) {
        return lo;
    }
    return v >= (float) hi ? hi : (int) v;
}

/* The element of largest magnitude, with its sign. */
static float extreme(const float * x, int n) {
    float amax = 0.0f;
    float max = 0.0f;
    for (int j = 0; j < n; j++) {
        if (fabsf(x[j]) > amax) {
            amax = fabsf(x[j]);
            max = x[j];
        }
    }
    return max;
}

static void range_of(const float * x, int n, float * min, float * max) {
    *min = *max = x[0];
    for (int j = 1; j < n; j++) {
        *min = x[j] < *min ? x[j] : *min;
        *max = x[j] > *max ? x[j] : *max;
    }
}

/* Store v as f16, never infinite. Returns what to round values against: v while it is a normal f16, else what is stored. */
static float keep(float v, uint16_t * h) {
    float magnitude = fabsf(v);
    bool is_normal = magnitude >= 0x1p-14f && magnitude <= 65504.0f;
    *h = half_f32_to_f16(magnitude > 65504.0f ? copysignf(65504.0f, v) : v);
    return is_normal ? v : half_f16_to_f32(*h);
}

/* The inverse of scale d as kept, 0 for 0. Where f16 has few bits it is rounded up: the values still fit, and no scale becomes 0. */
static float keep_scale(float d, uint16_t * h) {
    float kept = keep(d, h);
    if (fabsf(kept) < fabsf(d) && fabsf(d) < 0x1p-14f) {
        kept = half_f16_to_f32(++*h);
    }
    return kept != 0.0f ? 1.0f / kept : 0.0f;
}

void quantize_row_q4_0_ref(const float * x, void * y, int64_t k) {
    struct block_q4_0 * b = y;
    for (int64_t i = 0; i < k / QK4_0; i++, b++, x += QK4_0) {
        float d = extreme(x, QK4_0) / -8.0f; /* the extreme element is q = 0, exactly */
        float inv = keep_scale(d, &b->d);
        for (int j = 0; j < QK4_0 / 2; j++) {
            int lo = cut(x[j] * inv + 8.5f, 0, 15);
            int hi = cut(x[j + QK4_0 / 2] * inv + 8.5f, 0, 15);
            b->qs[j] = (uint8_t) (lo | hi << 4);
        }
    }
}

void quantize_row_q4_1_ref(const float * x, void * y, int64_t k) {
    struct block_q4_1 * b = y;
    for (int64_t i = 0; i < k / QK4_1; i++, b++, x += QK4_1) {
        float min, max;
        range_of(x, QK4_1, &min, &max);
        float d = (max - min) / 15.0f;
        float inv = keep_scale(d, &b->d);
        min = keep(min, &b->m);
        for (int j = 0; j < QK4_1 / 2; j++) {
            int lo = cut((x[j] - min) * inv + 0.5f, 0, 15);
            int hi = cut((x[j + QK4_1 / 2] - min) * inv + 0.5f, 0, 15);
            b->qs[j] = (uint8_t) (lo | hi << 4);
        }
    }
}

/* Store 5-bit values of elements j and j + 16. */
static void put_q5(uint8_t * qs, uint8_t * qh, int j, int lo, int hi) {
    qs[j] = (uint8_t) ((lo & 15) | (hi & 15) << 4);
    qh[j / 8] = (uint8_t) (qh[j / 8] | lo >> 4 << j % 8);
    qh[j / 8 + 2] = (uint8_t) (qh[j / 8 + 2] | hi >> 4 << j % 8);
}

void quantize_row_q5_0_ref(const float * x, void * y, int64_t k) {
    struct block_q5_0 * b = y;
    for (int64_t i = 0; i < k / QK5_0; i++, b++, x += QK5_0) {
        float d = extreme(x, QK5_0) / -16.0f;
        float inv = keep_scale(d, &b->d);
        memset(b->qh, 0, sizeof b->qh);
        for (int j = 0; j < QK5_0 / 2; j++) {
            put_q5(b->qs, b->qh, j, cut(x[j] * inv + 16.5f, 0, 31), cut(x[j + QK5_0 / 2] * inv + 16.5f, 0, 31));
        }
    }
}

void quantize_row_q5_1_ref(const float * x, void * y, int64_t k) {
    struct block_q5_1 * b = y;
    for (int64_t i = 0; i < k / QK5_1; i++, b++, x += QK5_1) {
        float min, max;
        range_of(x, QK5_1, &min, &max);
        float d = (max - min) / 31.0f;
        float inv = keep_scale(d, &b->d);
        min = keep(min, &b->m);
        memset(b->qh, 0, sizeof b->qh);
        for (int j = 0; j < QK5_1 / 2; j++) {
            put_q5(b->qs, b->qh, j, cut((x[j] - min) * inv + 0.5f, 0, 31), cut((x[j + QK5_1 / 2] - min) * inv + 0.5f, 0, 31));
        }
    }
}

void quantize_row_q8_0_ref(const float * x, void * y, int64_t k) {
    struct block_q8_0 * b = y;
    for (int64_t i = 0; i < k / QK8_0; i++, b++, x += QK8_0) {
        float d = fabsf(extreme(x, QK8_0)) / 127.0f;
        float inv = keep_scale(d, &b->d);
        for (int j = 0; j < QK8_0; j++) {
            b->qs[j] = (int8_t) cut(roundf(x[j] * inv), -127, 127); /* halves away from zero */
        }
    }
}

void quantize_row_q8_K_ref(const float * x, void * y, int64_t k) {
    struct block_q8_K * b = y;
    for (int64_t i = 0; i < k / QK_K; i++, b++, x += QK_K) {
        float max = extreme(x, QK_K);
        float scale = max != 0.0f ? -127.0f / max : 0.0f; /* the extreme element is q = -127 */
        b->d = max != 0.0f ? 1.0f / scale : 0.0f;
        for (int j = 0; j < QK_K; j++) {
            b->qs[j] = (int8_t) cut(rintf(x[j] * scale), -127, 127); /* halves to even */
        }
        for (int s = 0; s < QK_K / 16; s++) {
            int sum = 0;
            for (int j = 0; j < 16; j++) {
                sum += b->qs[s * 16 + j];
            }
            b->bsums[s] = (int16_t) sum;
        }
    }
}
