/* lanes.h - sixteen rows of packed.h as the lanes of vectors, for tiers with a dot instruction of four 8-bit products:
 * one vector of AVX-512 VNNI, two of AVX-VNNI, four of AArch64's dotprod. HAS_LANES is defined where there is one.
 *
 *   lane_words  64 bytes: four unsigned values of each row      lane_sums  int32 of each row      lane_floats  float of each row
 *   lanes_nibble(w, high)         low or high nibbles of the bytes
 *   lanes_bits(w, left, mask, q)  q | (w shifted left, to the right where negative) & mask; bits from a neighbour byte must be masked away
 *   lanes_dot(s, w, x)            s + sum of w * x over the four values of a row; x: four int8_t. w counts as signed on AArch64, where lanes_flip turns
 *                                 values with offset 128 into such, else as unsigned */
#pragma once

#include "../vec.h"

#define LANES_INLINE static inline __attribute__((always_inline))

#if defined(QT_TIER_AVX512)
#define HAS_LANES 1

typedef __m512i lane_words;
typedef __m512i lane_sums;
typedef __m512 lane_floats;

LANES_INLINE lane_words lanes_load(const void * p) { return _mm512_load_si512(p); }
LANES_INLINE lane_words lanes_nibble(lane_words w, const bool high) { return _mm512_and_si512(high ? _mm512_srli_epi16(w, 4) : w, _mm512_set1_epi8(15)); }
LANES_INLINE lane_words lanes_bits(lane_words w, const int left, const int mask, lane_words q) {
    w = left >= 0 ? _mm512_slli_epi16(w, (unsigned) left) : _mm512_srli_epi16(w, (unsigned) -left);
    return _mm512_ternarylogic_epi32(w, _mm512_set1_epi8((char) mask), q, 0xea); /* w & mask | q */
}
LANES_INLINE lane_sums lanes_set1_i32(int32_t i) { return _mm512_set1_epi32(i); }
LANES_INLINE lane_sums lanes_dot(lane_sums s, lane_words w, const int8_t * x) {
    int32_t word;
    memcpy(&word, x, sizeof word);
    return _mm512_dpbusd_epi32(s, w, _mm512_set1_epi32(word));
}
LANES_INLINE lane_floats lanes_float(lane_sums s) { return _mm512_cvtepi32_ps(s); }
LANES_INLINE lane_floats lanes_set1(float f) { return _mm512_set1_ps(f); }
LANES_INLINE lane_floats lanes_add(lane_floats a, lane_floats b) { return _mm512_add_ps(a, b); }
LANES_INLINE lane_floats lanes_mul(lane_floats a, lane_floats b) { return _mm512_mul_ps(a, b); }
LANES_INLINE lane_floats lanes_fma(lane_floats a, lane_floats b, lane_floats c) { return _mm512_fmadd_ps(a, b, c); }
LANES_INLINE lane_floats lanes_f16(const uint16_t * p) { return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *) p)); }
LANES_INLINE lane_floats lanes_u8(const uint8_t * p) { return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_load_si128((const __m128i *) p))); }
LANES_INLINE lane_floats lanes_i8(const int8_t * p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_load_si128((const __m128i *) p))); }
LANES_INLINE void lanes_store(float * p, lane_floats v) { _mm512_storeu_ps(p, v); }

#elif defined(QT_TIER_AVXVNNI)
#define HAS_LANES 1
#define EACH(name, type, of) LANES_INLINE type name { type r; for (int i = 0; i < 2; i++) { r.v[i] = of; } return r; }

typedef struct { __m256i v[2]; } lane_words;
typedef struct { __m256i v[2]; } lane_sums;
typedef struct { __m256 v[2]; } lane_floats;

EACH(lanes_load(const void * p), lane_words, _mm256_load_si256((const __m256i *) p + i))
EACH(lanes_nibble(lane_words w, const bool high), lane_words, _mm256_and_si256(high ? _mm256_srli_epi16(w.v[i], 4) : w.v[i], _mm256_set1_epi8(15)))
EACH(lanes_bits(lane_words w, const int left, const int mask, lane_words q), lane_words, _mm256_or_si256(q.v[i], _mm256_and_si256(
    left >= 0 ? _mm256_slli_epi16(w.v[i], left) : _mm256_srli_epi16(w.v[i], -left), _mm256_set1_epi8((char) mask))))
EACH(lanes_set1_i32(int32_t x), lane_sums, _mm256_set1_epi32(x))
LANES_INLINE lane_sums lanes_dot(lane_sums s, lane_words w, const int8_t * x) {
    int32_t word;
    memcpy(&word, x, sizeof word);
    const __m256i four = _mm256_set1_epi32(word);
    return (lane_sums) { { _mm256_dpbusd_avx_epi32(s.v[0], w.v[0], four), _mm256_dpbusd_avx_epi32(s.v[1], w.v[1], four) } };
}
EACH(lanes_float(lane_sums s), lane_floats, _mm256_cvtepi32_ps(s.v[i]))
EACH(lanes_set1(float f), lane_floats, _mm256_set1_ps(f))
EACH(lanes_add(lane_floats a, lane_floats b), lane_floats, _mm256_add_ps(a.v[i], b.v[i]))
EACH(lanes_mul(lane_floats a, lane_floats b), lane_floats, _mm256_mul_ps(a.v[i], b.v[i]))
EACH(lanes_fma(lane_floats a, lane_floats b, lane_floats c), lane_floats, _mm256_fmadd_ps(a.v[i], b.v[i], c.v[i]))
EACH(lanes_f16(const uint16_t * p), lane_floats, _mm256_cvtph_ps(_mm_load_si128((const __m128i *) p + i)))
EACH(lanes_u8(const uint8_t * p), lane_floats, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *) (p + 8 * i)))))
EACH(lanes_i8(const int8_t * p), lane_floats, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *) (p + 8 * i)))))
LANES_INLINE void lanes_store(float * p, lane_floats v) {
    _mm256_storeu_ps(p, v.v[0]);
    _mm256_storeu_ps(p + 8, v.v[1]);
}

#elif defined(QT_TIER_DOTPROD)
#define HAS_LANES 1
#define EACH(name, type, of) LANES_INLINE type name { type r; for (int i = 0; i < 4; i++) { r.v[i] = of; } return r; }

typedef struct { uint8x16_t v[4]; } lane_words;
typedef struct { int32x4_t v[4]; } lane_sums;
typedef struct { float32x4_t v[4]; } lane_floats;

EACH(lanes_load(const void * p), lane_words, vld1q_u8((const uint8_t *) p + 16 * i))
EACH(lanes_nibble(lane_words w, const bool high), lane_words, high ? vshrq_n_u8(w.v[i], 4) : vandq_u8(w.v[i], vdupq_n_u8(15)))
EACH(lanes_bits(lane_words w, const int left, const int mask, lane_words q), lane_words,
     vorrq_u8(q.v[i], vandq_u8(vshlq_u8(w.v[i], vdupq_n_s8((int8_t) left)), vdupq_n_u8((uint8_t) mask))))
EACH(lanes_flip(lane_words w), lane_words, veorq_u8(w.v[i], vdupq_n_u8(0x80)))
EACH(lanes_set1_i32(int32_t x), lane_sums, vdupq_n_s32(x))
LANES_INLINE lane_sums lanes_dot(lane_sums s, lane_words w, const int8_t * x) {
    int32_t word;
    memcpy(&word, x, sizeof word);
    const int8x16_t four = vreinterpretq_s8_s32(vdupq_n_s32(word));
    for (int i = 0; i < 4; i++) {
        s.v[i] = vdotq_s32(s.v[i], vreinterpretq_s8_u8(w.v[i]), four);
    }
    return s;
}
EACH(lanes_float(lane_sums s), lane_floats, vcvtq_f32_s32(s.v[i]))
EACH(lanes_set1(float f), lane_floats, vdupq_n_f32(f))
EACH(lanes_add(lane_floats a, lane_floats b), lane_floats, vaddq_f32(a.v[i], b.v[i]))
EACH(lanes_mul(lane_floats a, lane_floats b), lane_floats, vmulq_f32(a.v[i], b.v[i]))
EACH(lanes_fma(lane_floats a, lane_floats b, lane_floats c), lane_floats, vfmaq_f32(c.v[i], a.v[i], b.v[i]))
EACH(lanes_f16(const uint16_t * p), lane_floats, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))))
EACH(lanes_u8(const uint8_t * p), lane_floats, vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vld1_dup_u32((const uint32_t *) (const void *) (p + 4 * i))))))))
EACH(lanes_i8(const int8_t * p), lane_floats, vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vld1_dup_u32((const uint32_t *) (const void *) (p + 4 * i))))))))
LANES_INLINE void lanes_store(float * p, lane_floats v) {
    for (int i = 0; i < 4; i++) {
        vst1q_f32(p + 4 * i, v.v[i]);
    }
}

#endif
