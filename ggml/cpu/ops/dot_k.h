/* dot_k.h - products of one row of 256-blocks (Q4_K, Q5_K, Q6_K) with up to four columns of 8-bit activations.
 * Sub-block scales are small integers, so a block is summed in integers whole and turned to float once:
 *   d_w * d_x * sum over sub-blocks of scale * sum(q x)  -  dmin * d_x * sum over sub-blocks of min * sum(x)      Q4_K, Q5_K
 *   d_w * d_x * (sum over sub-blocks of scale * (sum(q x) - 32 * sum(x)))                                         Q6_K */
#pragma once

#include "dot_blocks.h"

DOT_INLINE size_t dot_k_block_bytes(const enum ggml_type type) {
    return type == GGML_TYPE_Q4_K ? sizeof(struct block_q4_K) : type == GGML_TYPE_Q5_K ? sizeof(struct block_q5_K) : sizeof(struct block_q6_K);
}

#if defined(QT_TIER_AVX512) || defined(QT_TIER_AVX2)

/* Adds scale * (w x) of 32 values to sum; scale has a lane for each pair of values. */
DOT_INLINE __m256i dot_k_add(__m256i sum, __m256i w, const int8_t * x, __m256i scale) {
    __m256i pairs = _mm256_maddubs_epi16(w, _mm256_loadu_si256((const __m256i *) x));
#if defined(QT_TIER_AVX512)
    return _mm256_dpwssd_epi32(sum, pairs, scale);
#else
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, scale));
#endif
}

/* Q4_K and Q5_K: eight scales, then eight mins, as 16-bit lanes of one vector. */
DOT_INLINE __m256i dot_k_scales(const uint8_t * packed) {
    uint32_t a, b, c; /* bytes 0-3, 4-7, 8-11 */
    memcpy(&a, packed, 4);
    memcpy(&b, packed + 4, 4);
    memcpy(&c, packed + 8, 4);
    uint32_t high_a = a >> 2 & 0x30303030u, high_b = b >> 2 & 0x30303030u;
    return _mm256_cvtepu8_epi16(_mm_setr_epi32((int) (a & 0x3f3f3f3fu), (int) ((c & 0x0f0f0f0fu) | high_a),
                                               (int) (b & 0x3f3f3f3fu), (int) ((c >> 4 & 0x0f0f0f0fu) | high_b)));
}

DOT_INLINE void dot_k_block_45(const enum ggml_type type, const int n_cols, const void * block, int64_t b, const struct act_column * x, __m256 * acc) {
    const struct block_q4_K * q4 = block;
    const struct block_q5_K * q5 = block;
    const uint8_t * qs = type == GGML_TYPE_Q4_K ? q4->qs : q5->qs;
    const __m256i low4 = _mm256_set1_epi8(15), bit4 = _mm256_set1_epi8(16);
    const __m256i scales = dot_k_scales(q4->scales);
    const __m256i scale8 = _mm256_broadcastsi128_si256(_mm256_castsi256_si128(scales));
    const __m128i min8 = _mm256_extracti128_si256(scales, 1);
    const __m256i mins = _mm256_set_m128i(_mm_unpackhi_epi16(min8, min8), _mm_unpacklo_epi16(min8, min8));
    __m256i high = _mm256_setzero_si256(), sum[DOT_COLS];
    if (type == GGML_TYPE_Q5_K) {
        high = _mm256_loadu_si256((const __m256i *) q5->qh);
    }
#pragma GCC unroll 4
    for (int c = 0; c < n_cols; c++) {
        sum[c] = _mm256_setzero_si256();
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m256i raw = _mm256_loadu_si256((const __m256i *) (qs + 32 * i));
        __m256i w0 = _mm256_and_si256(raw, low4), w1 = _mm256_and_si256(_mm256_srli_epi16(raw, 4), low4);
        if (type == GGML_TYPE_Q5_K) {
            w0 = _mm256_or_si256(w0, _mm256_and_si256(_mm256_slli_epi16(high, 4), bit4));
            w1 = _mm256_or_si256(w1, _mm256_and_si256(_mm256_slli_epi16(high, 3), bit4));
            high = _mm256_srli_epi16(high, 2);
        }
        __m256i s0 = _mm256_shuffle_epi8(scale8, _mm256_set1_epi16((short) (4 * i | (4 * i + 1) << 8)));
        __m256i s1 = _mm256_shuffle_epi8(scale8, _mm256_set1_epi16((short) ((4 * i + 2) | (4 * i + 3) << 8)));
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) {
            const int8_t * xq = x[c].q + b * 256 + 64 * i;
            sum[c] = dot_k_add(dot_k_add(sum[c], w0, xq, s0), w1, xq + 32, s1);
        }
    }
    __m256 d = dot_scale(&q4->d), dmin = dot_scale(&q4->dmin);
#pragma GCC unroll 4
    for (int c = 0; c < n_cols; c++) {
        __m256 dx = _mm256_broadcast_ss(x[c].d + b);
        __m256i min = _mm256_madd_epi16(mins, _mm256_loadu_si256((const __m256i *) (x[c].sums + b * 16)));
        acc[c] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[c]), _mm256_mul_ps(d, dx), acc[c]);
        acc[c] = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(min), _mm256_mul_ps(dmin, dx), acc[c]);
    }
}

DOT_INLINE void dot_k_block_6(const int n_cols, const struct block_q6_K * block, int64_t b, const struct act_column * x, __m256 * acc) {
    const __m256i low4 = _mm256_set1_epi8(15), bits45 = _mm256_set1_epi8(48);
    const __m128i stored = _mm_loadu_si128((const __m128i *) block->scales);
    const __m256i in_order = _mm256_cvtepi8_epi16(stored);
    /* even scales in the low half, odd ones in the high half: group g's two are lane g of each */
    const __m256i scales = _mm256_cvtepi8_epi16(_mm_shuffle_epi8(stored, _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15)));
    __m256i sum[DOT_COLS];
#pragma GCC unroll 4
    for (int c = 0; c < n_cols; c++) {
        sum[c] = _mm256_setzero_si256();
    }
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        __m256i l0 = _mm256_loadu_si256((const __m256i *) (block->ql + 64 * half)), l1 = _mm256_loadu_si256((const __m256i *) (block->ql + 64 * half + 32));
        __m256i h = _mm256_loadu_si256((const __m256i *) (block->qh + 32 * half));
        const __m256i w[4] = {
            _mm256_or_si256(_mm256_and_si256(l0, low4), _mm256_and_si256(_mm256_slli_epi16(h, 4), bits45)),
            _mm256_or_si256(_mm256_and_si256(l1, low4), _mm256_and_si256(_mm256_slli_epi16(h, 2), bits45)),
            _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(l0, 4), low4), _mm256_and_si256(h, bits45)),
            _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(l1, 4), low4), _mm256_and_si256(_mm256_srli_epi16(h, 2), bits45)),
        };
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            int g = 4 * half + i;
            __m256i scale = _mm256_shuffle_epi8(scales, _mm256_set1_epi16((short) (2 * g | (2 * g + 1) << 8)));
#pragma GCC unroll 4
            for (int c = 0; c < n_cols; c++) {
                sum[c] = dot_k_add(sum[c], w[i], x[c].q + b * 256 + 32 * g, scale);
            }
        }
    }
    __m256 d = dot_scale(&block->d);
#pragma GCC unroll 4
    for (int c = 0; c < n_cols; c++) {
        __m256i offset = _mm256_madd_epi16(in_order, _mm256_loadu_si256((const __m256i *) (x[c].sums + b * 16)));
        __m256 part = _mm256_cvtepi32_ps(_mm256_sub_epi32(sum[c], _mm256_slli_epi32(offset, 5)));
        acc[c] = _mm256_fmadd_ps(part, _mm256_mul_ps(d, _mm256_broadcast_ss(x[c].d + b)), acc[c]);
    }
}

DOT_INLINE void dot_row_k(const enum ggml_type type, const int n_cols, const char * w, int64_t n_blocks, const struct act_column * x, float * out) {
    const size_t bytes = dot_k_block_bytes(type);
    __m256 acc[DOT_COLS];
#pragma GCC unroll 4
    for (int c = 0; c < n_cols; c++) {
        acc[c] = _mm256_setzero_ps();
    }
    for (int64_t b = 0; b < n_blocks; b++, w += bytes) {
        for (size_t line = 0; line < bytes; line += 64) {
            dot_prefetch(w + line);
        }
        if (type == GGML_TYPE_Q6_K) {
            dot_k_block_6(n_cols, (const struct block_q6_K *) w, b, x, acc);
        } else {
            dot_k_block_45(type, n_cols, w, b, x, acc);
        }
    }
#pragma GCC unroll 4
    for (int c = 0; c < n_cols; c++) {
        out[c] = dot_sum_lanes(acc[c]);
    }
}

#else

/* Values 0 .. 63 of a block, a scale and a min for each 16: x = d * scale * q - dmin * min (Q6_K's offset as a min of 32 * scale). */
DOT_INLINE void dot_k_unpack(const enum ggml_type type, const void * block, uint8_t * q, int * scale, int * min, float * d, float * dmin) {
    if (type == GGML_TYPE_Q6_K) {
        const struct block_q6_K * w = block;
        for (int j = 0; j < 256; j++) {
            int half = j / 128, g = j / 32 % 4, l = j % 32;
            int low = w->ql[64 * half + 32 * (g % 2) + l] >> (g < 2 ? 0 : 4) & 15;
            q[j] = (uint8_t) (low | (w->qh[32 * half + l] >> 2 * g & 3) << 4);
        }
        for (int i = 0; i < 16; i++) {
            scale[i] = w->scales[i];
            min[i] = 32 * scale[i];
        }
        *d = *dmin = half_f16_to_f32(w->d);
        return;
    }
    const struct block_q4_K * q4 = block;
    const struct block_q5_K * q5 = block;
    const uint8_t * qs = type == GGML_TYPE_Q4_K ? q4->qs : q5->qs;
    for (int j = 0; j < 256; j++) {
        int s = j / 32, l = j % 32;
        int fifth = type == GGML_TYPE_Q5_K ? q5->qh[l] >> s & 1 : 0;
        q[j] = (uint8_t) ((qs[32 * (s / 2) + l] >> 4 * (s & 1) & 15) | fifth << 4);
    }
    for (int i = 0; i < 16; i++) {
        scale[i] = k_scale(q4->scales, i / 2);
        min[i] = k_min(q4->scales, i / 2);
    }
    *d = half_f16_to_f32(q4->d);
    *dmin = half_f16_to_f32(q4->dmin);
}

DOT_INLINE void dot_row_k(const enum ggml_type type, const int n_cols, const char * w, int64_t n_blocks, const struct act_column * x, float * out) {
    float sum[DOT_COLS] = { 0.0f };
    for (int64_t b = 0; b < n_blocks; b++, w += dot_k_block_bytes(type)) {
        uint8_t q[256];
        int scale[16], min[16];
        float d, dmin;
        dot_k_unpack(type, w, q, scale, min, &d, &dmin);
        for (int c = 0; c < n_cols; c++) {
            int dots = 0, mins = 0;
            for (int i = 0; i < 16; i++) {
                const int8_t * xq = x[c].q + b * 256 + 16 * i;
                int part = 0;
                for (int j = 0; j < 16; j++) {
                    part += q[16 * i + j] * xq[j];
                }
                dots += scale[i] * part;
                mins += min[i] * x[c].sums[b * 16 + i];
            }
            sum[c] += x[c].d[b] * (d * (float) dots - dmin * (float) mins);
        }
    }
    for (int c = 0; c < n_cols; c++) {
        out[c] = sum[c];
    }
}

#endif
