/* dot_blocks.h - products of one row of 32-blocks (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0) with up to four columns of 8-bit activations.
 * A weight is d * (q - offset) (or d * q + m) with q unsigned, so a block's part is d_w * d_x * (sum q x - offset * sum x), the bracket in exact
 * integers; the column holds -offset * sum x ready as the value the sum starts from. Q8_0 stores signed values: AVX-512's unsigned-by-signed
 * dot takes them with the top bit flipped (offset 128), AVX2 moves the sign to the activation. */
#pragma once

#include "activations.h"
#include "../../core/half.h"

#define DOT_INLINE static inline __attribute__((always_inline))
#define DOT_COLS 4
#define PREFETCH_BYTES 4096 /* ahead of the row: doubles what one core reads from memory on Sapphire Rapids */

DOT_INLINE void dot_prefetch(const void * p) { __builtin_prefetch((const void *) ((uintptr_t) p + PREFETCH_BYTES), 0, 3); }

DOT_INLINE size_t dot_block_bytes(const enum ggml_type type) {
    return type == GGML_TYPE_Q4_0 ? sizeof(struct block_q4_0) : type == GGML_TYPE_Q4_1 ? sizeof(struct block_q4_1) :
           type == GGML_TYPE_Q5_0 ? sizeof(struct block_q5_0) : type == GGML_TYPE_Q5_1 ? sizeof(struct block_q5_1) : sizeof(struct block_q8_0);
}

DOT_INLINE bool dot_has_min(const enum ggml_type type) { return type == GGML_TYPE_Q4_1 || type == GGML_TYPE_Q5_1; }

/* What act_quantize_32 is told for weights of this type. */
static inline int dot_offset(enum ggml_type type) {
    return type == GGML_TYPE_Q4_0 ? 8 : type == GGML_TYPE_Q5_0 ? 16 : type == GGML_TYPE_Q8_0 ? 128 : 0;
}

#if defined(QT_TIER_AVX512) || defined(QT_TIER_AVX2)

/* 16 bytes as 32 nibbles: low ones in the first half, high ones in the second. */
DOT_INLINE __m256i dot_nibbles(const uint8_t * qs) {
    __m128i b = _mm_loadu_si128((const __m128i *) qs);
    __m256i two = _mm256_inserti128_si256(_mm256_castsi128_si256(b), _mm_srli_epi16(b, 4), 1);
    return _mm256_and_si256(two, _mm256_set1_epi8(15));
}

/* 16 in byte j where bit j of the 32 is set, else 0. */
DOT_INLINE __m256i dot_fifth_bits(const uint8_t * qh) {
    uint32_t bits;
    memcpy(&bits, qh, sizeof bits);
    __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32((int) bits),
        _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3));
    __m256i mask = _mm256_set1_epi64x((long long) 0x8040201008040201ull);
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(spread, mask), mask), _mm256_set1_epi8(16));
}

DOT_INLINE __m256i dot_weights(const enum ggml_type type, const void * block) {
    switch (type) {
        case GGML_TYPE_Q4_0: return dot_nibbles(((const struct block_q4_0 *) block)->qs);
        case GGML_TYPE_Q4_1: return dot_nibbles(((const struct block_q4_1 *) block)->qs);
        case GGML_TYPE_Q5_0: {
            const struct block_q5_0 * b = block;
            return _mm256_or_si256(dot_nibbles(b->qs), dot_fifth_bits(b->qh));
        }
        case GGML_TYPE_Q5_1: {
            const struct block_q5_1 * b = block;
            return _mm256_or_si256(dot_nibbles(b->qs), dot_fifth_bits(b->qh));
        }
        default: {
            __m256i q = _mm256_loadu_si256((const __m256i *) ((const struct block_q8_0 *) block)->qs);
#if defined(QT_TIER_AVX512)
            q = _mm256_xor_si256(q, _mm256_set1_epi8((char) 0x80));
#endif
            return q;
        }
    }
}

/* Eight partial sums of a block; corr starts the first of them. */
DOT_INLINE __m256i dot_32(const enum ggml_type type, __m256i w, const int8_t * x, const int32_t * corr) {
    __m256i xv = _mm256_loadu_si256((const __m256i *) x);
#if defined(QT_TIER_AVX512)
    (void) type;
    return _mm256_dpbusd_epi32(_mm256_zextsi128_si256(_mm_cvtsi32_si128(*corr)), w, xv);
#else
    const __m256i ones = _mm256_set1_epi16(1);
    if (type == GGML_TYPE_Q8_0) {
        return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(xv, w)), ones);
    }
    __m256i sum = _mm256_madd_epi16(_mm256_maddubs_epi16(w, xv), ones);
    return _mm256_add_epi32(sum, _mm256_zextsi128_si256(_mm_cvtsi32_si128(*corr)));
#endif
}

DOT_INLINE __m256 dot_scale(const void * d) { /* the f16 at d in every lane */
    uint16_t bits;
    memcpy(&bits, d, sizeof bits);
    return _mm256_cvtph_ps(_mm_set1_epi16((short) bits));
}

DOT_INLINE float dot_sum_lanes(__m256 v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

#define DOT_GROUP 8 /* blocks whose scales are converted at once */

/* The f16 scales at offset in each of DOT_GROUP blocks. */
DOT_INLINE __m256 dot_group_scales(const char * w, const size_t bytes, const size_t offset) {
    uint16_t d[DOT_GROUP];
#pragma GCC unroll 8
    for (int i = 0; i < DOT_GROUP; i++) {
        memcpy(&d[i], w + (size_t) i * bytes + offset, sizeof d[i]);
    }
    return _mm256_cvtph_ps(_mm_setr_epi16((short) d[0], (short) d[1], (short) d[2], (short) d[3], (short) d[4], (short) d[5], (short) d[6], (short) d[7]));
}

/* Adds n_blocks <= DOT_GROUP blocks from b on, scales of the group being given as d_w * d_x and m_w * d_x of each block. */
DOT_INLINE void dot_group(const enum ggml_type type, const int n_cols, const char * w, const int n_blocks, int64_t b, const struct act_column * x,
                          float scale[DOT_COLS][DOT_GROUP], float min[DOT_COLS][DOT_GROUP], __m256 acc[4][DOT_COLS]) {
    const int chains = n_cols == 1 ? 4 : 2;
#pragma GCC unroll 8
    for (int i = 0; i < n_blocks; i++, w += dot_block_bytes(type)) {
        if (i % 2 == 0) {
            dot_prefetch(w);
        }
        __m256i q = dot_weights(type, w);
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) {
            __m256 part = _mm256_cvtepi32_ps(dot_32(type, q, x[c].q + (b + i) * 32, x[c].corr + b + i));
            __m256 * to = &acc[i % chains][c];
            *to = _mm256_fmadd_ps(part, _mm256_broadcast_ss(&scale[c][i]), *to);
            if (dot_has_min(type)) {
                __m256 sum = _mm256_zextps128_ps256(_mm_cvtsi32_ss(_mm_setzero_ps(), x[c].sum[b + i]));
                *to = _mm256_fmadd_ps(_mm256_broadcast_ss(&min[c][i]), sum, *to);
            }
        }
    }
}

/* out[c] = row w of n_blocks times column c. One column has four chains of additions, more columns two each. Scales pass through the stack: a
 * broadcast from memory costs no vector port, of which products leave little. */
DOT_INLINE void dot_row_blocks(const enum ggml_type type, const int n_cols, const char * w, int64_t n_blocks, const struct act_column * x, float * out) {
    const size_t bytes = dot_block_bytes(type);
    const int chains = n_cols == 1 ? 4 : 2;
    __m256 acc[4][DOT_COLS];
    float scale[DOT_COLS][DOT_GROUP], min[DOT_COLS][DOT_GROUP];
#pragma GCC unroll 4
    for (int i = 0; i < chains; i++) {
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) {
            acc[i][c] = _mm256_setzero_ps();
        }
    }
    int64_t b = 0;
    for (; b + DOT_GROUP <= n_blocks; b += DOT_GROUP, w += DOT_GROUP * bytes) {
        __m256 d = dot_group_scales(w, bytes, 0);
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) {
            __m256 dx = _mm256_loadu_ps(x[c].d + b);
            _mm256_storeu_ps(scale[c], _mm256_mul_ps(d, dx));
            if (dot_has_min(type)) {
                _mm256_storeu_ps(min[c], _mm256_mul_ps(dot_group_scales(w, bytes, 2), dx));
            }
        }
        dot_group(type, n_cols, w, DOT_GROUP, b, x, scale, min, acc);
    }
    for (; b < n_blocks; b++, w += bytes) {
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) {
            scale[c][0] = _mm256_cvtss_f32(dot_scale(w)) * x[c].d[b];
            min[c][0] = dot_has_min(type) ? _mm256_cvtss_f32(dot_scale(w + 2)) * x[c].d[b] : 0.0f;
        }
        dot_group(type, n_cols, w, 1, b, x, scale, min, acc);
    }
#pragma GCC unroll 4
    for (int c = 0; c < n_cols; c++) {
        __m256 sum = _mm256_add_ps(acc[0][c], acc[1][c]);
        if (chains == 4) {
            sum = _mm256_add_ps(sum, _mm256_add_ps(acc[2][c], acc[3][c]));
        }
        out[c] = dot_sum_lanes(sum);
    }
}

#else

/* Signed values of a block; with a min they stay unsigned and *m gets it. */
DOT_INLINE float dot_unpack(const enum ggml_type type, const void * block, int8_t * q, float * m) {
    const uint8_t * bytes = block;
    const uint8_t * qs = bytes + dot_block_bytes(type) - (type == GGML_TYPE_Q8_0 ? 32 : 16);
    const bool five = type == GGML_TYPE_Q5_0 || type == GGML_TYPE_Q5_1;
    uint16_t d, min = 0;
    uint32_t bits = 0;
    memcpy(&d, bytes, sizeof d);
    if (dot_has_min(type)) {
        memcpy(&min, bytes + 2, sizeof min);
    }
    *m = half_f16_to_f32(min);
    if (type == GGML_TYPE_Q8_0) {
        memcpy(q, qs, 32);
        return half_f16_to_f32(d);
    }
    if (five) {
        memcpy(&bits, qs - 4, sizeof bits);
    }
    const int offset = dot_offset(type);
    for (int j = 0; j < 16; j++) {
        q[j] = (int8_t) ((qs[j] & 15) + (int) (bits >> j & 1) * 16 - offset);
        q[j + 16] = (int8_t) ((qs[j] >> 4) + (int) (bits >> (j + 16) & 1) * 16 - offset);
    }
    return half_f16_to_f32(d);
}

DOT_INLINE void dot_row_blocks(const enum ggml_type type, const int n_cols, const char * w, int64_t n_blocks, const struct act_column * x, float * out) {
    float sum[DOT_COLS] = { 0.0f };
    for (int64_t b = 0; b < n_blocks; b++, w += dot_block_bytes(type)) {
        int8_t q[32];
        float m, d = dot_unpack(type, w, q, &m);
        for (int c = 0; c < n_cols; c++) {
            const int8_t * xq = x[c].q + b * 32;
            int part = 0;
            for (int j = 0; j < 32; j++) {
                part += q[j] * xq[j];
            }
            sum[c] += x[c].d[b] * (d * (float) part + m * (float) x[c].sum[b]);
        }
    }
    for (int c = 0; c < n_cols; c++) {
        out[c] = sum[c];
    }
}

#endif
