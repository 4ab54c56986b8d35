/* packed_words.h - groups of packed.h in vector registers: sixteen rows are the lanes.
 * A unit is the 32 k that share a block of activations: eight words of unsigned values, and for each lane x = scale * (value - offset) - min. */
#pragma once

#include "../packed.h"
#include "../vec.h"

#define PACKED_INLINE static inline __attribute__((always_inline))
#define UNIT_K 32
#define UNIT_WORDS 8
#define PACKED_PREFETCH_BYTES 1024 /* ahead in the same stream; what is fetched past its end is wasted, and streams are short */

PACKED_INLINE int units_of(const enum ggml_type type) { return type == GGML_TYPE_Q8_0 ? 2 : 8; }

PACKED_INLINE bool has_min(const enum ggml_type type) { return type == GGML_TYPE_Q4_K || type == GGML_TYPE_Q5_K; }

/* What is taken off a stored value: as many times the sum of the activations. */
static inline int packed_offset(enum ggml_type type) { return type == GGML_TYPE_Q8_0 ? 128 : type == GGML_TYPE_Q6_K ? 32 : 0; }

#if defined(QT_TIER_AVX512)

PACKED_INLINE void packed_prefetch(const void * at) { _mm_prefetch((const char *) ((uintptr_t) at + PACKED_PREFETCH_BYTES), _MM_HINT_T0); }

/* A vector of the block, whose successor in the stream is fetched too. A vector is read by two units or more: each fetches a part, since a memory that is
 * asked in bursts idles between them. */
PACKED_INLINE __m512i packed_load(const void * at, const bool fetch) {
    if (fetch) {
        packed_prefetch(at);
    }
    return _mm512_load_si512(at);
}

/* Word j of unit u. */
PACKED_INLINE __m512i packed_word(const enum ggml_type type, const void * block, const int u, const int j) {
    const __m512i nibble = _mm512_set1_epi8(15);
    switch (type) {
        case GGML_TYPE_Q8_0: return packed_load(((const struct packed_q8_0 *) block)->q[u][j], true);
        case GGML_TYPE_Q4_K: {
            __m512i q = packed_load(((const struct packed_q4_K *) block)->q[u / 2][j], u % 2 == j % 2);
            return _mm512_and_si512(u % 2 ? _mm512_srli_epi16(q, 4) : q, nibble);
        }
        case GGML_TYPE_Q5_K: {
            const struct packed_q5_K * p = block;
            __m512i q = packed_load(p->q[u / 2][j], u % 2 == j % 2), h = packed_load(p->high[j], u == j);
            q = _mm512_and_si512(u % 2 ? _mm512_srli_epi16(q, 4) : q, nibble);
            h = u < 4 ? _mm512_slli_epi16(h, (unsigned) (4 - u)) : _mm512_srli_epi16(h, (unsigned) (u - 4));
            return _mm512_ternarylogic_epi32(h, _mm512_set1_epi8(16), q, 0xea); /* h & 16 | q */
        }
        default: {
            const struct packed_q6_K * p = block;
            const int half = u / 4, g = u % 4;
            __m512i q = packed_load(p->low[half][g % 2][j], g / 2 == j % 2), h = packed_load(p->high[half][j], g == j / 2);
            q = _mm512_and_si512(g < 2 ? q : _mm512_srli_epi16(q, 4), nibble);
            h = g < 2 ? _mm512_slli_epi16(h, (unsigned) (4 - 2 * g)) : _mm512_srli_epi16(h, (unsigned) (2 * g - 4));
            return _mm512_ternarylogic_epi32(h, _mm512_set1_epi8(48), q, 0xea);
        }
    }
}

/* Unit u's part of the vectors that are no words, up to five a block. */
PACKED_INLINE void packed_prefetch_scales(const enum ggml_type type, const void * block, const int u) {
    const char * scales = type == GGML_TYPE_Q8_0 ? (const char *) ((const struct packed_q8_0 *) block)->d :
                          type == GGML_TYPE_Q4_K ? (const char *) ((const struct packed_q4_K *) block)->scale :
                          type == GGML_TYPE_Q5_K ? (const char *) ((const struct packed_q5_K *) block)->scale : (const char *) ((const struct packed_q6_K *) block)->scale;
    if (scales + 64 * u < (const char *) block + packed_block_bytes(type)) {
        packed_prefetch(scales + 64 * u);
    }
}

PACKED_INLINE __m512 packed_f16(const uint16_t * d) { return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *) d)); }
PACKED_INLINE __m512 packed_u8(const uint8_t * v) { return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_load_si128((const __m128i *) v))); }
PACKED_INLINE __m512 packed_i8(const int8_t * v) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_load_si128((const __m128i *) v))); }

/* The block's own scales, of which scale and min of a unit are multiples. */
struct packed_d { __m512 d, dmin; };

PACKED_INLINE struct packed_d packed_d_of(const enum ggml_type type, const void * block) {
    switch (type) {
        case GGML_TYPE_Q4_K: return (struct packed_d) { packed_f16(((const struct packed_q4_K *) block)->d), packed_f16(((const struct packed_q4_K *) block)->dmin) };
        case GGML_TYPE_Q5_K: return (struct packed_d) { packed_f16(((const struct packed_q5_K *) block)->d), packed_f16(((const struct packed_q5_K *) block)->dmin) };
        case GGML_TYPE_Q6_K: return (struct packed_d) { packed_f16(((const struct packed_q6_K *) block)->d), _mm512_setzero_ps() };
        default: return (struct packed_d) { _mm512_setzero_ps(), _mm512_setzero_ps() };
    }
}

/* Of half h of unit u; only Q6_K's halves differ. */
PACKED_INLINE __m512 packed_scale(const enum ggml_type type, const void * block, struct packed_d d, const int u, const int h) {
    switch (type) {
        case GGML_TYPE_Q8_0: return packed_f16(((const struct packed_q8_0 *) block)->d[u]);
        case GGML_TYPE_Q4_K: return _mm512_mul_ps(d.d, packed_u8(((const struct packed_q4_K *) block)->scale[u]));
        case GGML_TYPE_Q5_K: return _mm512_mul_ps(d.d, packed_u8(((const struct packed_q5_K *) block)->scale[u]));
        default: return _mm512_mul_ps(d.d, packed_i8(((const struct packed_q6_K *) block)->scale[2 * u + h]));
    }
}

PACKED_INLINE __m512 packed_min(const enum ggml_type type, const void * block, struct packed_d d, const int u) {
    const uint8_t * min = type == GGML_TYPE_Q4_K ? ((const struct packed_q4_K *) block)->min[u] : ((const struct packed_q5_K *) block)->min[u];
    return _mm512_mul_ps(d.dmin, packed_u8(min));
}

#endif
