/* flash_tile.h - the two products of attention over one block of keys: scores = q k^T and acc = acc * keep + weights v.
 * A tile is some rows of q that share k and v. Each (row, key) and each (row, column) is computed by the same operations in the same order whatever
 * tile it lies in, so that a row's result does not depend on its neighbours: a dot product adds up lane by lane along the head width and then over lanes
 * as vf_sum does, a weighted sum adds key by key (tests/c/attention_tiles.c).
 * k and v are F32, F16 or BF16 in place, or F32 copies of a block for tiles of many rows. */
#pragma once

#include "../row.h"
#include "../vec_math.h"

#define KV_BLOCK 64 /* keys: one bit each in a uint64_t */
#define FLASH_INLINE static inline __attribute__((always_inline))
#define LINE_BYTES 64

/* Dot products and vectors of sums at once: as many as leave registers for what they are made of. */
#if defined(QT_TIER_AVX512) || defined(QT_TIER_NEON)
#  define TILE_ROWS 4
#  define TILE_SUMS 16
#else
#  define TILE_ROWS 2
#  define TILE_SUMS 8
#endif

FLASH_INLINE vf load_as(const char * p, int64_t i, const enum ggml_type type) {
    switch (type) {
        case GGML_TYPE_F16: return vf_load_f16((const uint16_t *) p + i);
        case GGML_TYPE_BF16: return vf_load_bf16((const uint16_t *) p + i);
        default: return vf_load((const float *) p + i);
    }
}

FLASH_INLINE vf load_as_n(const char * p, int64_t i, const enum ggml_type type, int n) {
    switch (type) {
        case GGML_TYPE_F16: return vf_load_f16_n((const uint16_t *) p + i, n);
        case GGML_TYPE_BF16: return vf_load_bf16_n((const uint16_t *) p + i, n);
        default: return vf_load_n((const float *) p + i, n);
    }
}

/* The row half a block further, 8 KB ahead at 128 values of F16, into the second cache: faster than the first, and than a block further (performance.md). */
FLASH_INLINE void fetch_ahead(const char * row, size_t stride, size_t row_bytes) {
    uintptr_t at = (uintptr_t) row + KV_BLOCK / 2 * stride;
    for (size_t i = 0; i < row_bytes; i += LINE_BYTES) {
        __builtin_prefetch((const void *) (at + i), 0, 2);
    }
}

/* out[4 * i + j] = sum of s[i][j] over lanes; on AVX-512 the additions of vf_sum, made for 16 vectors at a time. */
#if defined(QT_TIER_AVX512)
FLASH_INLINE void sums_store(const vf * s, float * const * out) {
    __m512 row[4];
#  pragma GCC unroll 4
    for (int i = 0; i < 4; i++) { /* lanes of 128 bits: 8 values further are added, then 4 further */
        const vf * v = s + 4 * i;
        __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(v[0], v[1], 0x44), _mm512_shuffle_f32x4(v[0], v[1], 0xee));
        __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(v[2], v[3], 0x44), _mm512_shuffle_f32x4(v[2], v[3], 0xee));
        row[i] = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd)); /* lane j: four partial sums of v[j] */
    }
    __m512 half[2];
#  pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        __m512d a = _mm512_castps_pd(row[2 * i]), b = _mm512_castps_pd(row[2 * i + 1]);
        half[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    __m512 all = _mm512_add_ps(_mm512_shuffle_ps(half[0], half[1], 0x88), _mm512_shuffle_ps(half[0], half[1], 0xdd)); /* lane j: v[j] of rows 0-3 */
    all = _mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), all);
    _mm_storeu_ps(out[0], _mm512_castps512_ps128(all));
    _mm_storeu_ps(out[1], _mm512_extractf32x4_ps(all, 1));
    _mm_storeu_ps(out[2], _mm512_extractf32x4_ps(all, 2));
    _mm_storeu_ps(out[3], _mm512_extractf32x4_ps(all, 3));
}
#else
FLASH_INLINE void sums_store(const vf * s, float * const * out) {
    for (int i = 0; i < TILE_SUMS; i++) {
        out[i / 4][i % 4] = vf_sum(s[i]);
    }
}
#endif

/* Scores of n_rows rows of q, padded values apart, with TILE_SUMS / n_rows keys; score has KV_BLOCK places a row. */
FLASH_INLINE void scores_tile(const int n_rows, const float * q, int64_t padded, const char * const * key, int64_t hd, float * score,
                              const enum ggml_type type) {
    const int n_keys = TILE_SUMS / n_rows;
    vf s[TILE_SUMS];
#pragma GCC unroll 16
    for (int i = 0; i < TILE_SUMS; i++) {
        s[i] = vf_zero();
    }
    int64_t i = 0;
    for (; i + VF_N <= hd; i += VF_N) {
        vf row[TILE_ROWS];
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r++) {
            row[r] = vf_load(q + r * padded + i);
        }
#pragma GCC unroll 16
        for (int u = 0; u < n_keys; u++) {
            vf k = load_as(key[u], i, type);
#pragma GCC unroll 4
            for (int r = 0; r < n_rows; r++) {
                s[r * n_keys + u] = vf_fma(row[r], k, s[r * n_keys + u]);
            }
        }
    }
    if (i < hd) {
        for (int u = 0; u < n_keys; u++) {
            vf k = load_as_n(key[u], i, type, (int) (hd - i));
            for (int r = 0; r < n_rows; r++) {
                s[r * n_keys + u] = vf_fma(vf_load(q + r * padded + i), k, s[r * n_keys + u]);
            }
        }
    }
    float * out[TILE_SUMS / 4];
#pragma GCC unroll 4
    for (int g = 0; g < TILE_SUMS / 4; g++) {
        out[g] = score + (4 * g / n_keys) * KV_BLOCK + 4 * g % n_keys;
    }
    sums_store(s, out);
}

/* A block of keys (or values): the rows from first to last, stride bytes apart. */
struct kv_block {
    const char * data;
    size_t stride;
    int first, last;
    bool ahead; /* bring in the block behind this one meanwhile */
};

/* Scores of the block's keys with all rows of a tile; q and score have room for whole TILE_ROWS. Places around first and last may be written too. */
FLASH_INLINE void scores_block(const int at_once, int n_rows, const float * q, int64_t padded, const struct kv_block * k, int64_t hd, float * score,
                               const enum ggml_type type) {
    const int step = TILE_SUMS / at_once;
    for (int j = k->first / step * step; j < k->last; j += step) {
        const char * key[TILE_SUMS];
        for (int u = 0; u < step; u++) {
            int at = j + u < k->first ? k->first : j + u < k->last ? j + u : k->last - 1;
            key[u] = k->data + (size_t) at * k->stride;
            if (k->ahead && at == j + u) {
                fetch_ahead(key[u], k->stride, (size_t) hd * ggml_type_size(type));
            }
        }
        for (int r = 0; r < n_rows; r += at_once) {
            scores_tile(at_once, q + r * padded, padded, key, hd, score + r * KV_BLOCK + j, type);
        }
    }
}

FLASH_INLINE void scores_typed(int n_rows, const float * q, int64_t padded, const struct kv_block * k, int64_t hd, float * score, const enum ggml_type type) {
    switch (n_rows) {
        case 1: scores_block(1, n_rows, q, padded, k, hd, score, type); break;
        case 2: scores_block(2, n_rows, q, padded, k, hd, score, type); break;
        default: scores_block(TILE_ROWS, n_rows, q, padded, k, hd, score, type); break;
    }
}

static void scores(int n_rows, const float * q, int64_t padded, const struct kv_block * k, int64_t hd, float * score, enum ggml_type type) {
    switch (type) {
        case GGML_TYPE_F16: scores_typed(n_rows, q, padded, k, hd, score, GGML_TYPE_F16); break;
        case GGML_TYPE_BF16: scores_typed(n_rows, q, padded, k, hd, score, GGML_TYPE_BF16); break;
        default: scores_typed(n_rows, q, padded, k, hd, score, GGML_TYPE_F32); break;
    }
}

/* Columns i to i + n_columns vectors of acc of n_rows rows; seen has a bit for each key that takes part. */
FLASH_INLINE void gather_tile(const int n_rows, const int n_columns, const float * weight, const struct kv_block * v, uint64_t seen, int64_t i, int n_tail,
                              const float * keep, float * acc, int64_t padded, const enum ggml_type type) {
    vf a[TILE_SUMS];
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) {
#pragma GCC unroll 8
        for (int c = 0; c < n_columns; c++) {
            a[r * n_columns + c] = vf_mul(vf_load(acc + r * padded + i + c * VF_N), vf_set1(keep[r]));
        }
    }
    for (int j = v->first; j < v->last; j++) {
        if (!(seen >> j & 1)) {
            continue;
        }
        const char * row = v->data + (size_t) j * v->stride;
        if (v->ahead) {
            fetch_ahead(row + (size_t) i * ggml_type_size(type), v->stride, (n_tail ? (size_t) n_tail : (size_t) n_columns * VF_N) * ggml_type_size(type));
        }
        vf w[TILE_ROWS];
#pragma GCC unroll 4
        for (int r = 0; r < n_rows; r++) {
            w[r] = vf_set1(weight[r * KV_BLOCK + j]);
        }
#pragma GCC unroll 8
        for (int c = 0; c < n_columns; c++) {
            vf value = n_tail ? load_as_n(row, i, type, n_tail) : load_as(row, i + c * VF_N, type);
#pragma GCC unroll 4
            for (int r = 0; r < n_rows; r++) {
                a[r * n_columns + c] = vf_fma(w[r], value, a[r * n_columns + c]);
            }
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < n_rows; r++) {
#pragma GCC unroll 8
        for (int c = 0; c < n_columns; c++) {
            vf_store(acc + r * padded + i + c * VF_N, a[r * n_columns + c]);
        }
    }
}

/* Columns i to i + n_columns vectors of all rows: what is read of v stays in the L1 cache meanwhile. */
FLASH_INLINE void gather_columns(const int n_columns, int n_rows, const float * weight, const struct kv_block * v, uint64_t seen, int64_t i, int n_tail,
                                 const float * keep, float * acc, int64_t padded, const enum ggml_type type) {
    int r = 0;
    for (; r + TILE_ROWS <= n_rows; r += TILE_ROWS) {
        gather_tile(TILE_ROWS, n_columns, weight + r * KV_BLOCK, v, seen, i, n_tail, keep + r, acc + r * padded, padded, type);
    }
    for (; r < n_rows; r++) {
        gather_tile(1, n_columns, weight + r * KV_BLOCK, v, seen, i, n_tail, keep + r, acc + r * padded, padded, type);
    }
}

/* acc = acc * keep + sum over the keys in seen of weight * v, for rows that see the same keys. */
FLASH_INLINE void gather_typed(int n_rows, const float * weight, const struct kv_block * v, uint64_t seen, int64_t hd, const float * keep, float * acc,
                               int64_t padded, const enum ggml_type type) {
    const int wide = TILE_SUMS / TILE_ROWS, widest = TILE_SUMS / 2;
    int64_t i = 0;
    for (; n_rows == 2 && i + widest * VF_N <= hd; i += widest * VF_N) { /* a decode step's: as few passes over v as registers allow */
        gather_tile(2, widest, weight, v, seen, i, 0, keep, acc, padded, type);
    }
    for (; i + wide * VF_N <= hd; i += wide * VF_N) {
        gather_columns(wide, n_rows, weight, v, seen, i, 0, keep, acc, padded, type);
    }
    for (; i < hd; i += VF_N) {
        gather_columns(1, n_rows, weight, v, seen, i, hd - i < VF_N ? (int) (hd - i) : 0, keep, acc, padded, type);
    }
}

static void gather(int n_rows, const float * weight, const struct kv_block * v, uint64_t seen, int64_t hd, const float * keep, float * acc, int64_t padded,
                   enum ggml_type type) {
    switch (type) {
        case GGML_TYPE_F16: gather_typed(n_rows, weight, v, seen, hd, keep, acc, padded, GGML_TYPE_F16); break;
        case GGML_TYPE_BF16: gather_typed(n_rows, weight, v, seen, hd, keep, acc, padded, GGML_TYPE_BF16); break;
        default: gather_typed(n_rows, weight, v, seen, hd, keep, acc, padded, GGML_TYPE_F32); break;
    }
}

/* Rows first to last of the block as F32, at the same places, padded values apart. */
static void widen(const struct kv_block * from, int64_t hd, enum ggml_type type, float * to, int64_t padded) {
    for (int j = from->first; j < from->last; j++) {
        const char * row = from->data + (size_t) j * from->stride;
        float * out = to + j * padded;
        for (int64_t i = 0; i < hd; i += VF_N) {
            vf_store(out + i, hd - i >= VF_N ? load_as(row, i, type) : load_as_n(row, i, type, (int) (hd - i)));
        }
    }
}
