/* packed_words.h - groups of packed.h in vector registers: sixteen rows are the lanes.
 * A unit is the 32 k that share a block of activations: eight words of unsigned values, and for each lane x = scale * (value - offset) - min. */
#pragma once

#include "../packed.h"
#include "lanes.h"

#define UNIT_K 32
#define UNIT_WORDS 8

/* A block is one half of two units or two of four: units have constant numbers u within a half, halves take turns in one piece of code. */
LANES_INLINE int halves_of(const enum ggml_type type) { return type == GGML_TYPE_Q8_0 ? 1 : 2; }
LANES_INLINE int units_of_half(const enum ggml_type type) { return type == GGML_TYPE_Q8_0 ? 2 : 4; }

LANES_INLINE bool has_min(const enum ggml_type type) { return type == GGML_TYPE_Q4_K || type == GGML_TYPE_Q5_K; }

#if defined(HAS_LANES)
#if defined(QT_TIER_DOTPROD) /* both sides of its dot are signed */
#  define BYTE_OFFSET 0
#  define BYTES(w) lanes_flip(w)
#else
#  define BYTE_OFFSET 128
#  define BYTES(w) (w)
#endif

/* What is taken off the values of words: as many times the sum of the activations. */
static inline int packed_offset(enum ggml_type type) { return type == GGML_TYPE_Q8_0 ? BYTE_OFFSET : type == GGML_TYPE_Q6_K ? 32 : 0; }

/* How far ahead in the same stream (docs/performance.md); what is fetched past its end is wasted, and streams are short. */
LANES_INLINE int bytes_ahead(const enum ggml_type type) { return type == GGML_TYPE_Q8_0 ? 1024 : 3072; }

LANES_INLINE void packed_prefetch(const enum ggml_type type, const void * at) {
    __builtin_prefetch((const void *) ((uintptr_t) at + (uintptr_t) bytes_ahead(type)), 0, 3);
}

/* A vector of the block, whose successor in the stream is fetched too. A vector is read by two units or more: each fetches a part, since a memory that is
 * asked in bursts idles between them. */
LANES_INLINE lane_words packed_load(const enum ggml_type type, const void * at, const bool fetch) {
    if (fetch) {
        packed_prefetch(type, at);
    }
    return lanes_load(at);
}

/* Word j of unit u. */
LANES_INLINE lane_words packed_word(const enum ggml_type type, const void * block, int half, const int u, const int j) {
    switch (type) {
        case GGML_TYPE_Q8_0: return BYTES(packed_load(type, ((const struct packed_q8_0 *) block)->q[u][j], true));
        case GGML_TYPE_Q4_K: return lanes_nibble(packed_load(type, ((const struct packed_q4_K *) block)->q[2 * half + u / 2][j], u % 2 == j / 4), u % 2);
        case GGML_TYPE_Q5_K: {
            const struct packed_q5_K * p = block;
            lane_words q = lanes_nibble(packed_load(type, p->q[2 * half + u / 2][j], u % 2 == j / 4), u % 2);
            return lanes_bits(packed_load(type, p->high[half][j % 4], u == j), j < 4 ? 4 - u : -u, 16, q);
        }
        default: {
            const struct packed_q6_K * p = block;
            lane_words q = lanes_nibble(packed_load(type, p->low[half][u % 2][j], u / 2 == j / 4), u >= 2);
            return lanes_bits(packed_load(type, p->high[half][j], u == j / 2), 4 - 2 * u, 48, q);
        }
    }
}

/* Unit u's part of the vectors that are no words, up to five a block. u: of the block. */
LANES_INLINE void packed_prefetch_scales(const enum ggml_type type, const void * block, int u) {
    const char * scales = type == GGML_TYPE_Q8_0 ? (const char *) ((const struct packed_q8_0 *) block)->d :
                          type == GGML_TYPE_Q4_K ? (const char *) ((const struct packed_q4_K *) block)->scale :
                          type == GGML_TYPE_Q5_K ? (const char *) ((const struct packed_q5_K *) block)->scale : (const char *) ((const struct packed_q6_K *) block)->scale;
    if (scales + 64 * u < (const char *) block + packed_block_bytes(type)) {
        packed_prefetch(type, scales + 64 * u);
    }
}

/* The block's own scales, of which scale and min of a unit are multiples. */
struct packed_d { lane_floats d, dmin; };

LANES_INLINE struct packed_d packed_d_of(const enum ggml_type type, const void * block) {
    switch (type) {
        case GGML_TYPE_Q4_K: return (struct packed_d) { lanes_f16(((const struct packed_q4_K *) block)->d), lanes_f16(((const struct packed_q4_K *) block)->dmin) };
        case GGML_TYPE_Q5_K: return (struct packed_d) { lanes_f16(((const struct packed_q5_K *) block)->d), lanes_f16(((const struct packed_q5_K *) block)->dmin) };
        case GGML_TYPE_Q6_K: return (struct packed_d) { lanes_f16(((const struct packed_q6_K *) block)->d), lanes_set1(0.0f) };
        default: return (struct packed_d) { lanes_set1(0.0f), lanes_set1(0.0f) };
    }
}

/* Of the first or second 16 k (h) of the block's unit u; only Q6_K's differ. */
LANES_INLINE lane_floats packed_scale(const enum ggml_type type, const void * block, struct packed_d d, int u, const int h) {
    switch (type) {
        case GGML_TYPE_Q8_0: return lanes_f16(((const struct packed_q8_0 *) block)->d[u]);
        case GGML_TYPE_Q4_K: return lanes_mul(d.d, lanes_u8(((const struct packed_q4_K *) block)->scale[u]));
        case GGML_TYPE_Q5_K: return lanes_mul(d.d, lanes_u8(((const struct packed_q5_K *) block)->scale[u]));
        default: return lanes_mul(d.d, lanes_i8(((const struct packed_q6_K *) block)->scale[2 * u + h]));
    }
}

LANES_INLINE lane_floats packed_min(const enum ggml_type type, const void * block, struct packed_d d, int u) {
    return lanes_mul(d.dmin, lanes_u8(type == GGML_TYPE_Q4_K ? ((const struct packed_q4_K *) block)->min[u] : ((const struct packed_q5_K *) block)->min[u]));
}

#endif
