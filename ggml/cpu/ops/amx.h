/* amx.h - F32 products from BF16 tiles, for the tier that has them: a block of up to 32 rows by 32 columns.
 *   out[m][n] = sum over steps s, k < 32 of row m's value (s, k) times column n's
 * A float is a sum of BF16 parts of eight bits each: F32 three, F16 two, BF16 one. A product of floats is the sum of the products of their parts i and j.
 * Order 3 takes those with i + j < 3 and leaves out what is of order 2^-24: as good as fused multiply-adds, and better, since the
 * sum is taken in chunks of about AMX_CHUNK steps, each of which starts at zero. Order 2 takes all parts of what is not a weight times the first of the
 * weight, and the first times the second: four products of F16 weights instead of five. What it leaves out, 2^-17 of a term at most with either sign, hardly
 * changes when the input changes in its last bits; with two parts of the input it would, by the same 2^-17.
 * An output depends on its own row and column alone, never on the block it is in, nor on which of the two the weights are.
 *
 * A tile of rows is 16 of them, 32 k side by side: 64 bytes a row. A tile of columns is 16 pairs of k, 16 columns side by side, one 32-bit word each (even k
 * below). Rows of tiles should start on cache lines: a tile of rows that cross them takes seven times as long to load. */
#pragma once

#include "../vec.h"

#if defined(QT_TIER_AMX)

#define AMX_ROWS 16
#define AMX_K 32            /* values of the reduction in a step: 16 pairs */
#define AMX_TILE 1024       /* bytes */
#define AMX_BLOCK 32        /* rows and columns of a block */
#define AMX_PARTS 3         /* of a float that is not a weight, and most of one that is */
#define AMX_STEP(parts) ((size_t) (parts) * 2 * AMX_TILE) /* bytes of a packed step: [part][tile of 16][16][64 bytes] */
#define AMX_CHUNK 24        /* steps whose sum starts at zero: adding chunks up costs 2 % of their time */

#define AMX_INLINE static inline __attribute__((always_inline))

/* Where the rows or the columns of a block lie: step (b, k) at at + b * block + tap[k]. In bytes. */
struct amx_operand {
    const char * at;
    int64_t row;         /* from one row of a tile to the next */
    int64_t tile;        /* to the second tile */
    int64_t part;        /* from one part to the next */
    int64_t block;       /* from one block of 32 k to the next */
    const int64_t * tap; /* of each tap; NULL: one tap at 0 */
};

struct amx_job {
    struct amx_operand rows, columns;
    int64_t n_blocks, n_taps;
    float (*out)[AMX_BLOCK];
    bool add;            /* to what out holds */
};

/* Tiles 0-3 add up, 4 and 5 hold rows, 6 and 7 columns. */
static inline void amx_begin(void) {
    struct { uint8_t palette, start_row, reserved[14]; uint16_t row_bytes[16]; uint8_t rows[16]; } config = { .palette = 1 };
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = AMX_ROWS;
    }
    __asm__ volatile("" : : "r"(&config) : "memory"); /* the intrinsic says that it reads eight bytes: the others must be there too */
    _tile_loadconfig(&config);
}

/* Tiles given back: a switch to another thread then does not save them. */
static inline void amx_end(void) { _tile_release(); }

/* The compiler does not know what tile loads read. */
#define AMX_WRITTEN() __asm__ volatile("" ::: "memory")

AMX_INLINE void amx_load_rows(const int tiles, const struct amx_operand * rows, const char * at) {
    _tile_loadd(4, at, rows->row);
    if (tiles > 1) {
        _tile_loadd(5, at + rows->tile, rows->row);
    }
}

AMX_INLINE void amx_load_columns(const int tiles, const struct amx_operand * columns, const char * at) {
    _tile_loadd(6, at, columns->row);
    if (tiles > 1) {
        _tile_loadd(7, at + columns->tile, columns->row);
    }
}

AMX_INLINE void amx_multiply(const int row_tiles, const int column_tiles) {
    _tile_dpbf16ps(0, 4, 6);
    if (column_tiles > 1) {
        _tile_dpbf16ps(1, 4, 7);
    }
    if (row_tiles > 1) {
        _tile_dpbf16ps(2, 5, 6);
    }
    if (row_tiles > 1 && column_tiles > 1) {
        _tile_dpbf16ps(3, 5, 7);
    }
}

/* What the tiles 4 to 7 are filled with: constants where a step is inlined, but for the addresses. */
struct amx_at {
    const bool w_rows; /* the weights are the rows */
    const int w_parts, x_parts, row_tiles, column_tiles;
    const struct amx_job * job;
    const char * rows, * columns;
    int row_loaded, column_loaded;
};

/* Part i of the weights times part j of the others, if there are such. */
AMX_INLINE void amx_product(struct amx_at * at, const int i, const int j) {
    const int row = at->w_rows ? i : j, column = at->w_rows ? j : i;
    if (i >= at->w_parts || j >= at->x_parts) {
        return;
    }
    if (row != at->row_loaded) {
        amx_load_rows(at->row_tiles, &at->job->rows, at->rows + row * at->job->rows.part);
        at->row_loaded = row;
    }
    if (column != at->column_loaded) {
        amx_load_columns(at->column_tiles, &at->job->columns, at->columns + column * at->job->columns.part);
        at->column_loaded = column;
    }
    amx_multiply(at->row_tiles, at->column_tiles);
}

/* All that belong to an order, one of the two changing at a time, so that few tiles are loaded twice. */
AMX_INLINE void amx_step(const int order, struct amx_at at) {
    at.row_loaded = at.column_loaded = -1;
    if (order == 3) {
        amx_product(&at, 0, 2);
        amx_product(&at, 0, 1);
        amx_product(&at, 1, 1);
        amx_product(&at, 1, 0);
        amx_product(&at, 2, 0);
        amx_product(&at, 0, 0);
    } else {
        amx_product(&at, 0, 2);
        amx_product(&at, 0, 1);
        amx_product(&at, 0, 0);
        amx_product(&at, 1, 0);
    }
}

AMX_INLINE void amx_zero(const int row_tiles, const int column_tiles) {
    _tile_zero(0);
    if (column_tiles > 1) {
        _tile_zero(1);
    }
    if (row_tiles > 1) {
        _tile_zero(2);
    }
    if (row_tiles > 1 && column_tiles > 1) {
        _tile_zero(3);
    }
}

AMX_INLINE void amx_store(const int row_tiles, const int column_tiles, float (*out)[AMX_BLOCK]) {
    const int64_t row = sizeof out[0];
    _tile_stored(0, &out[0][0], row);
    if (column_tiles > 1) {
        _tile_stored(1, &out[0][AMX_ROWS], row);
    }
    if (row_tiles > 1) {
        _tile_stored(2, &out[AMX_ROWS][0], row);
    }
    if (row_tiles > 1 && column_tiles > 1) {
        _tile_stored(3, &out[AMX_ROWS][AMX_ROWS], row);
    }
}

/* One chunk. Parts and tiles are constants where this is inlined. */
AMX_INLINE void amx_fixed(const struct amx_job * job, const bool w_rows, const int order, const int w_parts, const int x_parts, const int row_tiles,
                          const int column_tiles) {
    float more[AMX_BLOCK][AMX_BLOCK] __attribute__((aligned(64)));
    const char * rows = job->rows.at, * columns = job->columns.at;
    amx_zero(row_tiles, column_tiles);
    for (int64_t b = 0; b < job->n_blocks; b++, rows += job->rows.block, columns += job->columns.block) {
        for (int64_t k = 0; k < job->n_taps; k++) {
            amx_step(order, (struct amx_at) { .w_rows = w_rows, .w_parts = w_parts, .x_parts = x_parts, .row_tiles = row_tiles, .column_tiles = column_tiles,
                                              .job = job, .rows = job->rows.tap ? rows + job->rows.tap[k] : rows,
                                              .columns = job->columns.tap ? columns + job->columns.tap[k] : columns });
        }
    }
    amx_store(row_tiles, column_tiles, job->add ? more : job->out);
    for (int m = 0; m < (job->add ? row_tiles * AMX_ROWS : 0); m++) {
        for (int v = 0; v < column_tiles; v++) {
            vf_store(&job->out[m][v * VF_N], vf_add(vf_load(&job->out[m][v * VF_N]), vf_load(&more[m][v * VF_N])));
        }
    }
}

AMX_INLINE void amx_tiles(const struct amx_job * job, const bool w_rows, const int order, const int w_parts, const int x_parts, int rows, int cols) {
    if (rows > AMX_ROWS) {
        if (cols > AMX_ROWS) {
            amx_fixed(job, w_rows, order, w_parts, x_parts, 2, 2);
        } else {
            amx_fixed(job, w_rows, order, w_parts, x_parts, 2, 1);
        }
    } else if (cols > AMX_ROWS) {
        amx_fixed(job, w_rows, order, w_parts, x_parts, 1, 2);
    } else {
        amx_fixed(job, w_rows, order, w_parts, x_parts, 1, 1);
    }
}

/* BF16 parts a weight is stored in for products of an order; activations take AMX_PARTS. */
static inline int amx_parts(enum ggml_type type, int order) {
    int exact = type == GGML_TYPE_BF16 ? 1 : type == GGML_TYPE_F16 ? 2 : 3;
    return exact < order ? exact : order;
}

/* Blocks of 32 k that make a chunk. */
static inline int64_t amx_chunk_blocks(int64_t n_taps) { return n_taps < AMX_CHUNK ? AMX_CHUNK / n_taps : 1; }

/* One chunk; rows and cols of the block, 1 .. AMX_BLOCK; parts are those of the weights. */
AMX_INLINE void amx_run(const struct amx_job * job, const bool w_rows, int order, int parts, int rows, int cols) {
    switch (10 * order + parts) {
        case 21: amx_tiles(job, w_rows, 2, 1, 3, rows, cols); break;
        case 22: amx_tiles(job, w_rows, 2, 2, 3, rows, cols); break;
        case 31: amx_tiles(job, w_rows, 3, 1, 3, rows, cols); break;
        case 32: amx_tiles(job, w_rows, 3, 2, 3, rows, cols); break;
        default: amx_tiles(job, w_rows, 3, 3, 3, rows, cols); break;
    }
}

/* Each part is the nearest to what the ones before leave: three lose no bit of a float, one or two none of BF16 or F16. Of three, parts may be cut instead: the
 * second is then up to twice as large, which matters only where products with it are left out. */
AMX_INLINE __m512 amx_top(__m512 v) { return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32((int) 0xffff0000u))); }

/* What has the nearest BF16 in its upper half, ties away from zero. The second part of a NaN whose payload this wraps around is still one. */
AMX_INLINE __m512 amx_near(__m512 v) { return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(v), _mm512_set1_epi32(0x8000))); }

/* The next part of two vectors in the order of their lanes, lo first; both keep the rest. */
AMX_INLINE __m512i amx_next_row(const bool cut, const int parts, __m512 * lo, __m512 * hi) {
    __m512i part;
    if (parts < 3) {
        part = (__m512i) _mm512_cvtne2ps_pbh(*hi, *lo);
        *lo = vf_sub(*lo, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(part)), 16)));
        *hi = vf_sub(*hi, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(part, 1)), 16)));
        return part;
    }
    const __m512i upper = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    const __m512 near_lo = cut ? *lo : amx_near(*lo), near_hi = cut ? *hi : amx_near(*hi);
    part = _mm512_permutex2var_epi16(_mm512_castps_si512(near_lo), upper, _mm512_castps_si512(near_hi));
    *lo = vf_sub(*lo, amx_top(near_lo));
    *hi = vf_sub(*hi, amx_top(near_hi));
    return part;
}

/* The same with the lanes of even and odd in turns. */
AMX_INLINE __m512i amx_next_pair(const bool cut, const int parts, __m512 * even, __m512 * odd) {
    __m512i part;
    if (parts < 3) {
        const __m512i turns = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
        part = _mm512_permutexvar_epi16(turns, (__m512i) _mm512_cvtne2ps_pbh(*odd, *even));
        *even = vf_sub(*even, _mm512_castsi512_ps(_mm512_slli_epi32(part, 16)));
        *odd = vf_sub(*odd, amx_top(_mm512_castsi512_ps(part)));
        return part;
    }
    const __m512 near_even = cut ? *even : amx_near(*even), near_odd = cut ? *odd : amx_near(*odd);
    part = _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(_mm512_castps_si512(near_even), 16), _mm512_castps_si512(near_odd));
    *even = vf_sub(*even, amx_top(near_even));
    *odd = vf_sub(*odd, amx_top(near_odd));
    return part;
}

/* n columns of two neighbouring k into their pair's row; parts lie part bytes apart. odd may be NULL: zeros. */
AMX_INLINE void amx_pack_pair_fixed(const float * even, const float * odd, int64_t n, const int parts, char * out, int64_t part) {
    for (int64_t t = 0; t < n; t += VF_N, out += 64) {
        int width = n - t < VF_N ? (int) (n - t) : VF_N;
        __m512 e = vf_load_n(even + t, width), o = odd ? vf_load_n(odd + t, width) : vf_zero();
#pragma GCC unroll 3
        for (int p = 0; p < parts; p++) {
            _mm512_storeu_si512(out + p * part, amx_next_pair(false, parts, &e, &o));
        }
    }
}

static inline void amx_pack_pair(const float * even, const float * odd, int64_t n, int parts, char * out, int64_t part) {
    switch (parts) {
        case 1: amx_pack_pair_fixed(even, odd, n, 1, out, part); break;
        case 2: amx_pack_pair_fixed(even, odd, n, 2, out, part); break;
        default: amx_pack_pair_fixed(even, odd, n, 3, out, part); break;
    }
}

/* 32 values as two vectors, into their rows of the parts' tiles; of three parts, they are cut. */
AMX_INLINE void amx_pack_row(__m512 lo, __m512 hi, const int parts, char * out) {
#pragma GCC unroll 3
    for (int p = 0; p < parts; p++) {
        _mm512_store_si512(out + p * 2 * AMX_TILE, amx_next_row(true, parts, &lo, &hi));
    }
}

/* 16 x 16 words turned over. */
AMX_INLINE void amx_turn_rows(__m512i a[AMX_ROWS]) {
    __m512i b[AMX_ROWS];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i += 2) { /* words of two rows side by side */
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i += 4) { /* of four */
        a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
        a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
        a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
        a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 4; i++) { /* a[4 g + i]: rows 4 g .. 4 g + 3 of columns i, 4 + i, 8 + i, 12 + i */
        __m512i low01 = _mm512_shuffle_i32x4(a[i], a[4 + i], 0x44), low23 = _mm512_shuffle_i32x4(a[8 + i], a[12 + i], 0x44);
        __m512i high01 = _mm512_shuffle_i32x4(a[i], a[4 + i], 0xee), high23 = _mm512_shuffle_i32x4(a[8 + i], a[12 + i], 0xee);
        b[i] = _mm512_shuffle_i32x4(low01, low23, 0x88);
        b[4 + i] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
        b[8 + i] = _mm512_shuffle_i32x4(high01, high23, 0x88);
        b[12 + i] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        a[i] = b[i];
    }
}

/* The same in memory, rows row and out_row bytes apart: pairs of columns become rows, and the reverse. */
static inline void amx_turn(const char * x, int64_t row, char * out, int64_t out_row) {
    __m512i a[AMX_ROWS];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        a[i] = _mm512_loadu_si512(x + i * row);
    }
    amx_turn_rows(a);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        _mm512_storeu_si512(out + i * out_row, a[i]);
    }
}

#endif
