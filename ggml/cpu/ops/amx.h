/* amx.h - F32 products from BF16 tiles, for the tier that has them: a block of up to 32 rows by 32 columns.
 *   out[m][t] = sum over steps s, k < 32 of w[m][s, k] * x[s, k][t + offset of s]
 * A float is an exact sum of BF16 parts, cut off the top eight bits at a time: F32 three, F16 two, BF16 one. A product of floats is the sum of the
 * products of their parts; those of order 2^-24 and below are left out, the others are added small ones first. Tiles add in F32, so the result is
 * as good as one of fused multiply-adds: better, since the sum is taken in chunks of AMX_CHUNK steps, each of which starts at zero.
 * An output depends on its own row and column alone, never on the block it is in.
 *
 * Layout: w [step][part][tile of 16 rows][row][32 k], x [pair of k][t] of one 32-bit word each (even k below), parts x_part bytes apart. */
#pragma once

#include "../vec.h"

#if defined(QT_TIER_AMX)

#define AMX_ROWS 16
#define AMX_K 32            /* values of the reduction in a step: 16 pairs */
#define AMX_TILE 1024       /* bytes */
#define AMX_BLOCK 32        /* rows and columns of a block */
#define AMX_X_PARTS 3
#define AMX_W_STEP(parts) ((size_t) (parts) * 2 * AMX_TILE) /* bytes of a step of w */
#define AMX_CHUNK 24        /* steps whose sum starts at zero: adding chunks up costs 2 % of their time */

#define AMX_INLINE static inline __attribute__((always_inline))

struct amx_job {
    const char * w;
    const char * x;
    int64_t x_pair;      /* bytes from one pair of k to the next */
    int64_t x_part;      /* bytes from one part to the next */
    int64_t n_blocks;    /* steps: blocks of k, and the taps of each */
    int64_t x_block;     /* bytes from one block of k to the next */
    const int64_t * tap; /* offsets in t; NULL: one tap at 0 */
    int64_t n_taps;
    float (*out)[AMX_BLOCK];
};

/* Tiles 0-3 add up, 4 and 5 hold rows, 6 and 7 columns. */
static inline void amx_begin(void) {
    struct { uint8_t palette, start_row, reserved[14]; uint16_t row_bytes[16]; uint8_t rows[16]; } config = { .palette = 1 };
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = AMX_ROWS;
    }
    _tile_loadconfig(&config);
}

/* Tiles given back: a switch to another thread then does not save them. */
static inline void amx_end(void) { _tile_release(); }

/* The compiler does not know what tile loads read. */
#define AMX_WRITTEN() __asm__ volatile("" ::: "memory")

AMX_INLINE void amx_load_w(const int tiles, const char * w) {
    _tile_loadd(4, w, 64);
    if (tiles > 1) {
        _tile_loadd(5, w + AMX_TILE, 64);
    }
}

AMX_INLINE void amx_load_x(const int tiles, const char * x, int64_t x_pair) {
    _tile_loadd(6, x, x_pair);
    if (tiles > 1) {
        _tile_loadd(7, x + 64, x_pair);
    }
}

AMX_INLINE void amx_multiply(const int w_tiles, const int x_tiles) {
    _tile_dpbf16ps(0, 4, 6);
    if (x_tiles > 1) {
        _tile_dpbf16ps(1, 4, 7);
    }
    if (w_tiles > 1) {
        _tile_dpbf16ps(2, 5, 6);
    }
    if (w_tiles > 1 && x_tiles > 1) {
        _tile_dpbf16ps(3, 5, 7);
    }
}

/* Parts i of w and j of x with i + j < 3, in an order that loads few tiles twice. */
AMX_INLINE void amx_step(const int parts, const int w_tiles, const int x_tiles, const char * w, const char * x, int64_t x_pair, int64_t x_part) {
    amx_load_w(w_tiles, w);
    amx_load_x(x_tiles, x + 2 * x_part, x_pair);
    amx_multiply(w_tiles, x_tiles);
    amx_load_x(x_tiles, x + x_part, x_pair);
    amx_multiply(w_tiles, x_tiles);
    if (parts > 1) {
        amx_load_w(w_tiles, w + 2 * AMX_TILE);
        amx_multiply(w_tiles, x_tiles);
    }
    amx_load_x(x_tiles, x, x_pair);
    if (parts > 1) {
        amx_multiply(w_tiles, x_tiles);
    }
    if (parts > 2) {
        amx_load_w(w_tiles, w + 4 * AMX_TILE);
        amx_multiply(w_tiles, x_tiles);
    }
    if (parts > 1) {
        amx_load_w(w_tiles, w);
    }
    amx_multiply(w_tiles, x_tiles);
}

AMX_INLINE void amx_zero(const int w_tiles, const int x_tiles) {
    _tile_zero(0);
    if (x_tiles > 1) {
        _tile_zero(1);
    }
    if (w_tiles > 1) {
        _tile_zero(2);
    }
    if (w_tiles > 1 && x_tiles > 1) {
        _tile_zero(3);
    }
}

AMX_INLINE void amx_store(const int w_tiles, const int x_tiles, float (*out)[AMX_BLOCK]) {
    const int64_t row = sizeof out[0];
    _tile_stored(0, &out[0][0], row);
    if (x_tiles > 1) {
        _tile_stored(1, &out[0][AMX_ROWS], row);
    }
    if (w_tiles > 1) {
        _tile_stored(2, &out[AMX_ROWS][0], row);
    }
    if (w_tiles > 1 && x_tiles > 1) {
        _tile_stored(3, &out[AMX_ROWS][AMX_ROWS], row);
    }
}

/* parts, w_tiles and x_tiles are constants where this is inlined. */
AMX_INLINE void amx_fixed(const struct amx_job * job, const int parts, const int w_tiles, const int x_tiles) {
    float more[AMX_BLOCK][AMX_BLOCK] __attribute__((aligned(64)));
    const char * w = job->w;
    int64_t in_chunk = 0;
    bool first = true;
    amx_zero(w_tiles, x_tiles);
    for (int64_t b = 0; b < job->n_blocks; b++) {
        const char * x = job->x + b * job->x_block;
        for (int64_t k = 0; k < job->n_taps; k++, w += AMX_W_STEP(parts)) {
            amx_step(parts, w_tiles, x_tiles, w, job->tap ? x + 4 * job->tap[k] : x, job->x_pair, job->x_part);
            if (++in_chunk < AMX_CHUNK && (b + 1 < job->n_blocks || k + 1 < job->n_taps)) {
                continue;
            }
            in_chunk = 0;
            amx_store(w_tiles, x_tiles, first ? job->out : more);
            amx_zero(w_tiles, x_tiles);
            for (int m = 0; m < (first ? 0 : w_tiles * AMX_ROWS); m++) {
                for (int v = 0; v < x_tiles; v++) {
                    vf_store(&job->out[m][v * VF_N], vf_add(vf_load(&job->out[m][v * VF_N]), vf_load(&more[m][v * VF_N])));
                }
            }
            first = false;
        }
    }
}

AMX_INLINE void amx_parts(const struct amx_job * job, const int parts, int rows, int cols) {
    if (rows > AMX_ROWS) {
        if (cols > AMX_ROWS) {
            amx_fixed(job, parts, 2, 2);
        } else {
            amx_fixed(job, parts, 2, 1);
        }
    } else if (cols > AMX_ROWS) {
        amx_fixed(job, parts, 1, 2);
    } else {
        amx_fixed(job, parts, 1, 1);
    }
}

/* BF16 parts a weight is the sum of. */
static inline int amx_w_parts(enum ggml_type type) { return type == GGML_TYPE_BF16 ? 1 : type == GGML_TYPE_F16 ? 2 : 3; }

/* rows and cols of a block, 1 .. AMX_BLOCK. */
static inline void amx_run(const struct amx_job * job, int w_parts, int rows, int cols) {
    switch (w_parts) {
        case 1: amx_parts(job, 1, rows, cols); break;
        case 2: amx_parts(job, 2, rows, cols); break;
        default: amx_parts(job, 3, rows, cols); break;
    }
}

/* The upper eight bits of a float's significand, and what they leave. */
static inline __m512 amx_top(__m512 v) { return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32((int) 0xffff0000u))); }

/* BF16 pairs: the top halves of even below those of odd, word by word. */
static inline __m512i amx_pair(__m512 even, __m512 odd) {
    return _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(_mm512_castps_si512(even), 16), _mm512_castps_si512(odd));
}

/* n columns of two neighbouring k into their pair's row: x parts, part bytes apart. */
static inline void amx_pack_pair(const float * even, const float * odd, int64_t n, char * out, int64_t part) {
    for (int64_t t = 0; t < n; t += VF_N, out += 64) {
        int width = n - t < VF_N ? (int) (n - t) : VF_N;
        __m512 e = vf_load_n(even + t, width), o = odd ? vf_load_n(odd + t, width) : vf_zero();
        for (int p = 0; p < AMX_X_PARTS; p++) {
            _mm512_storeu_si512(out + p * part, amx_pair(e, o));
            e = vf_sub(e, amx_top(e));
            o = vf_sub(o, amx_top(o));
        }
    }
}

/* 32 consecutive k of a row of w, as two vectors, into its rows of the parts' tiles. */
AMX_INLINE void amx_pack_w(__m512 lo, __m512 hi, const int parts, char * out) {
    const __m512i upper = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
#pragma GCC unroll 3
    for (int p = 0; p < parts; p++, out += 2 * AMX_TILE) {
        _mm512_store_si512(out, _mm512_permutex2var_epi16(_mm512_castps_si512(lo), upper, _mm512_castps_si512(hi)));
        lo = vf_sub(lo, amx_top(lo));
        hi = vf_sub(hi, amx_top(hi));
    }
}

#endif
