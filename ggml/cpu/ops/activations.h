/* activations.h - a column of F32 activations as 8-bit integers, for products with quantized weights:
 * blocks of 32 (Q4_0 .. Q8_0) or 256 (K types), x = d * q with d = max|x| / 127, and the sums of q that products need beside the values. */
#pragma once

#include "../../core/quants.h"
#include "../vec.h"

struct act_column {
    int8_t * q;     /* [K] */
    float * d;      /* one a block */
    int32_t * sum;  /* blocks of 32: sum of q */
    int32_t * corr; /* blocks of 32: -offset * sum, what a product of stored, unsigned weight values starts from */
    int16_t * sums; /* blocks of 256: sums of 16 q each */
};

static inline size_t act_column_bytes(int64_t K) { /* enough for both kinds */
    return GGML_PAD((size_t) K, 64) + GGML_PAD((size_t) (K / 32) * 3 * sizeof(int32_t), 64);
}

static inline struct act_column act_column_at(void * memory, int64_t K, bool k_blocks) {
    struct act_column c = { .q = memory };
    char * rest = (char *) memory + GGML_PAD((size_t) K, 64);
    c.d = (float *) rest;
    if (k_blocks) {
        c.sums = (int16_t *) (c.d + K / 256);
    } else {
        c.sum = (int32_t *) (c.d + K / 32);
        c.corr = c.sum + K / 32;
    }
    return c;
}

/* Largest |x|. *spoilt is 0, or NaN where any x is NaN or infinite: added to d it carries that into the product, which integers cannot. */
static inline float act_max_abs(const float * x, int64_t n, float * spoilt) {
    vf most = vf_zero(), zeros = vf_zero();
    for (int64_t i = 0; i < n; i += VF_N) {
        vf v = vf_load(x + i);
        most = vf_max(most, vf_abs(v));
        zeros = vf_fma(v, vf_zero(), zeros);
    }
    *spoilt = vf_sum(zeros);
    return vf_hmax(most);
}

/* n (a multiple of 32) values to integers; x * scale is within -127 .. 127. */
static inline void act_round(const float * x, float scale, int8_t * q, int64_t n) {
#if defined(QT_TIER_AVX512)
    __m512 s = _mm512_set1_ps(scale);
    for (int64_t i = 0; i < n; i += 16) {
        _mm_storeu_si128((__m128i *) (q + i), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(s, _mm512_loadu_ps(x + i)))));
    }
#elif defined(QT_TIER_AVX2)
    __m256 s = _mm256_set1_ps(scale);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (int64_t i = 0; i < n; i += 32) {
        __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(s, _mm256_loadu_ps(x + i)));
        __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(s, _mm256_loadu_ps(x + i + 8)));
        __m256i c = _mm256_cvtps_epi32(_mm256_mul_ps(s, _mm256_loadu_ps(x + i + 16)));
        __m256i d = _mm256_cvtps_epi32(_mm256_mul_ps(s, _mm256_loadu_ps(x + i + 24)));
        __m256i r = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
        _mm256_storeu_si256((__m256i *) (q + i), _mm256_permutevar8x32_epi32(r, order));
    }
#else
    for (int64_t i = 0; i < n; i++) {
        float r = rintf(x[i] * scale);
        q[i] = r >= -127.0f && r <= 127.0f ? (int8_t) (int) r : 0; /* outside only where the column is spoilt */
    }
#endif
}

static inline int act_sum(const int8_t * q, int n) {
    int sum = 0;
    for (int j = 0; j < n; j++) {
        sum += q[j];
    }
    return sum;
}

/* offset: what the weight type subtracts from its stored values (8 for Q4_0). */
static inline void act_quantize_32(const float * x, int64_t K, int offset, struct act_column * c) {
    for (int64_t b = 0; b < K / 32; b++) {
        float spoilt, most = act_max_abs(x + b * 32, 32, &spoilt);
        act_round(x + b * 32, most > 0.0f ? 127.0f / most : 0.0f, c->q + b * 32, 32);
        c->d[b] = most / 127.0f + spoilt;
        c->sum[b] = act_sum(c->q + b * 32, 32);
        c->corr[b] = -offset * c->sum[b];
    }
}

static inline void act_quantize_256(const float * x, int64_t K, struct act_column * c) {
    for (int64_t b = 0; b < K / 256; b++) {
        float spoilt, most = act_max_abs(x + b * 256, 256, &spoilt);
        act_round(x + b * 256, most > 0.0f ? 127.0f / most : 0.0f, c->q + b * 256, 256);
        c->d[b] = most / 127.0f + spoilt;
        for (int j = 0; j < 16; j++) {
            c->sums[b * 16 + j] = (int16_t) act_sum(c->q + b * 256 + j * 16, 16);
        }
    }
}
