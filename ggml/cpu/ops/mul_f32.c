/* mul_f32.c - a [K, M, ...] of any weight type times b F32 [K, N, ...] -> F32 [M, N, ...], in F32 and so that a column's result depends on nothing but
 * the column: one vector of partial sums an output, along K, added up at the end, whatever N is and however many threads there are.
 * A thread converts a block of its rows to F32, small enough to stay in its cache, then runs register tiles of ROWS rows by up to COLS columns over it. Where
 * few columns meet Q8_0, values are used as they are converted: storing and loading them again would take longer than multiplying. The sums are the same. */
#include "mul_f32.h"
#include "dot_blocks.h"
#include "rows_f32.h"

#define ROWS 4
#define COLS 4 /* 16 sums in registers with AVX-512; of the 16 registers of AVX2 two or three spill, in columns that are many */
#define FEW_FLOATS (8 * 1024)   /* 32 KB of rows at a time when each is used for a tile or two */
#define MANY_FLOATS (64 * 1024) /* 256 KB when all columns are read once a block */

#define CONVERT_STEP 256        /* values between prefetches, a multiple of every block */

#define MUL_INLINE static inline __attribute__((always_inline))

/* Rows converted at a time, a multiple of ROWS. */
static int64_t block_rows(const struct ggml_tensor * dst) {
    int64_t rows = (dst->ne[1] <= 2 * COLS ? FEW_FLOATS : MANY_FLOATS) / dst->src[0]->ne[0] / ROWS * ROWS;
    return rows < ROWS ? ROWS : rows;
}

/* Floats from one converted row to the next: an odd number of cache lines. */
static int64_t row_floats(const struct ggml_tensor * dst) { return GGML_PAD(dst->src[0]->ne[0], 16) | 16; }

size_t KERNEL(mul_f32_scratch)(const struct ggml_tensor * dst, int nth) {
    return (size_t) (block_rows(dst) * row_floats(dst)) * sizeof(float) * (size_t) nth;
}

/* rows_f32 over one row, with what comes PREFETCH_BYTES later on its way: rows lie one after the other. */
static void convert_row(enum ggml_type type, const char * row, float * out, int64_t K) {
    const size_t step_bytes = CONVERT_STEP * ggml_type_size(type) / (size_t) ggml_blck_size(type);
    for (int64_t k = 0; k < K; k += CONVERT_STEP, row += step_bytes) {
        for (size_t line = 0; line < step_bytes; line += 64) {
            dot_prefetch(row + line);
        }
        rows_f32(type, row, out + k, K - k < CONVERT_STEP ? K - k : CONVERT_STEP);
    }
}

/* out[c][r] = row r times column c; rows and cols are constants where this is inlined. */
MUL_INLINE void tile(const int rows, const int cols, const float * w, int64_t w_row, const float * const * x, int64_t K, float * const * out) {
    vf acc[ROWS][COLS];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int c = 0; c < cols; c++) {
            acc[r][c] = vf_zero();
        }
    }
    int64_t k = 0;
    for (; k + VF_N <= K; k += VF_N) {
        vf xv[COLS];
#pragma GCC unroll 4
        for (int c = 0; c < cols; c++) {
            xv[c] = vf_load(x[c] + k);
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            vf wv = vf_load(w + r * w_row + k);
#pragma GCC unroll 4
            for (int c = 0; c < cols; c++) {
                acc[r][c] = vf_fma(wv, xv[c], acc[r][c]);
            }
        }
    }
    if (k < K) {
        int n = (int) (K - k);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            vf wv = vf_load_n(w + r * w_row + k, n);
#pragma GCC unroll 4
            for (int c = 0; c < cols; c++) {
                acc[r][c] = vf_fma(wv, vf_load_n(x[c] + k, n), acc[r][c]);
            }
        }
    }
#pragma GCC unroll 4
    for (int c = 0; c < cols; c++) {
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            out[c][r] = vf_sum(acc[r][c]);
        }
    }
}

static void tile_any(int rows, int cols, const float * w, int64_t w_row, const float * const * x, int64_t K, float * const * out) {
    if (rows == ROWS && cols == COLS) {
        tile(ROWS, COLS, w, w_row, x, K, out);
    } else if (rows == ROWS && cols == 1) {
        tile(ROWS, 1, w, w_row, x, K, out);
    } else if (rows == ROWS && cols == 2) {
        tile(ROWS, 2, w, w_row, x, K, out);
    } else { /* edges, one output at a time */
        for (int c = 0; c < cols; c++) {
            for (int r = 0; r < rows; r++) {
                float * one[1] = { out[c] + r };
                tile(1, 1, w + r * w_row, w_row, x + c, K, one);
            }
        }
    }
}

#define FEW_COLUMNS (2 * COLS)
#define FEW_ROWS 32 /* claimed at a time: about 5 us */
#define SCALES 8 /* blocks of a row whose scales are converted together */

/* tile over rows of Q8_0, row_bytes apart. */
MUL_INLINE void tile_q8_0(const int rows, const int cols, const char * w, size_t row_bytes, const float * const * x, int64_t K, float * const * out) {
    vf acc[ROWS][COLS];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int c = 0; c < cols; c++) {
            acc[r][c] = vf_zero();
        }
    }
    for (int64_t b0 = 0; b0 < K / QK8_0; b0 += SCALES) {
        const int64_t n = K / QK8_0 - b0 < SCALES ? K / QK8_0 - b0 : SCALES;
        const struct block_q8_0 * block[ROWS];
        uint16_t halves[ROWS * SCALES] = { 0 };
        float scales[ROWS * SCALES];
        for (int r = 0; r < rows; r++) {
            block[r] = (const struct block_q8_0 *) (const void *) (w + (size_t) r * row_bytes) + b0;
            for (int64_t i = 0; i < n; i++) {
                dot_prefetch(&block[r][i]);
                halves[r * SCALES + i] = block[r][i].d;
            }
        }
        for (int i = 0; i < rows * SCALES; i += VF_N) {
            vf_store(scales + i, vf_load_f16(halves + i));
        }
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < QK8_0; j += VF_N) {
                const int64_t k = (b0 + i) * QK8_0 + j;
                vf xv[COLS];
#pragma GCC unroll 4
                for (int c = 0; c < cols; c++) {
                    xv[c] = vf_load(x[c] + k);
                }
#pragma GCC unroll 4
                for (int r = 0; r < rows; r++) {
                    const vf wv = vf_mul(vf_set1(scales[r * SCALES + i]), vf_load_i8(block[r][i].qs + j));
#pragma GCC unroll 4
                    for (int c = 0; c < cols; c++) {
                        acc[r][c] = vf_fma(wv, xv[c], acc[r][c]);
                    }
                }
            }
        }
    }
#pragma GCC unroll 4
    for (int c = 0; c < cols; c++) {
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            out[c][r] = vf_sum(acc[r][c]);
        }
    }
}

/* Rows first .. last - 1 of a matrix of Q8_0, which meet at most FEW_COLUMNS columns. */
static void few_columns(const struct ggml_tensor * a, const char * matrix, int64_t first, int64_t last, const float * const * x, int cols, float * const * columns) {
    for (int64_t m = first; m < last;) {
        const char * w = matrix + (size_t) m * a->nb[1];
        const int rows = last - m < ROWS ? 1 : ROWS;
        for (int c = 0, n; c < cols; c += n) {
            float * out[COLS];
            n = rows < ROWS ? 1 : cols - c >= COLS ? COLS : cols - c == 3 ? 1 : cols - c;
            for (int i = 0; i < n; i++) {
                out[i] = columns[c + i] + m;
            }
            if (rows == 1) {
                tile_q8_0(1, 1, w, a->nb[1], x + c, a->ne[0], out);
            } else if (n == 1) {
                tile_q8_0(ROWS, 1, w, a->nb[1], x + c, a->ne[0], out);
            } else if (n == 2) {
                tile_q8_0(ROWS, 2, w, a->nb[1], x + c, a->ne[0], out);
            } else {
                tile_q8_0(ROWS, COLS, w, a->nb[1], x + c, a->ne[0], out);
            }
        }
        m += rows;
    }
}

/* Rows m0 .. m1 - 1 of a matrix, by way of F32; w: room for a block. */
static void many_columns(const struct ggml_tensor * dst, const char * rows, const char * columns, char * results, int64_t m0, int64_t m1, float * w) {
    const struct ggml_tensor * a = dst->src[0], * b = dst->src[1];
    const int64_t K = a->ne[0], N = dst->ne[1], w_row = row_floats(dst);
    for (int64_t m = m0; m < m1; m++) {
        convert_row(a->type, rows + (size_t) m * a->nb[1], w + (m - m0) * w_row, K);
    }
    for (int64_t n = 0; n < N; n += COLS) {
        int cols = (int) (N - n < COLS ? N - n : COLS);
        const float * x[COLS];
        float * out[COLS];
        for (int c = 0; c < cols; c++) {
            x[c] = (const float *) (columns + (size_t) (n + c) * b->nb[1]);
        }
        for (int64_t m = m0; m < m1; m += ROWS) {
            for (int c = 0; c < cols; c++) {
                out[c] = (float *) (results + (size_t) (n + c) * dst->nb[1]) + m;
            }
            tile_any((int) (m1 - m < ROWS ? m1 - m : ROWS), cols, w + (m - m0) * w_row, w_row, x, K, out);
        }
    }
}

/* Blocks of rows are claimed: a thread whose core is disturbed takes fewer. */
void KERNEL(mul_f32)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[0], * b = dst->src[1];
    const int64_t N = dst->ne[1], M = dst->ne[0], room = block_rows(dst);
    const bool few = a->type == GGML_TYPE_Q8_0 && N <= FEW_COLUMNS;
    const int64_t block = few ? FEW_ROWS : room, n_blocks = (M + block - 1) / block;
    float * w = (float *) ((char *) task->scratch + (size_t) (room * row_floats(dst)) * sizeof(float) * (size_t) task->ith);
    for (int64_t own = 0, u; (u = cpu_claim(task, &own)) < n_blocks * dst->ne[2] * dst->ne[3];) {
        const int64_t batch = u / n_blocks, i2 = batch % dst->ne[2], i3 = batch / dst->ne[2];
        const int64_t m0 = u % n_blocks * block, m1 = m0 + block < M ? m0 + block : M;
        const char * rows = (const char *) a->data + (size_t) (i2 / (dst->ne[2] / a->ne[2])) * a->nb[2] + (size_t) (i3 / (dst->ne[3] / a->ne[3])) * a->nb[3];
        const char * columns = (const char *) b->data + (size_t) i2 * b->nb[2] + (size_t) i3 * b->nb[3];
        char * results = (char *) dst->data + (size_t) i2 * dst->nb[2] + (size_t) i3 * dst->nb[3];
        if (few) {
            const float * x[FEW_COLUMNS];
            float * out[FEW_COLUMNS];
            for (int64_t c = 0; c < N; c++) {
                x[c] = (const float *) (columns + (size_t) c * b->nb[1]);
                out[c] = (float *) (results + (size_t) c * dst->nb[1]);
            }
            few_columns(a, rows, m0, m1, x, (int) N, out);
        } else {
            many_columns(dst, rows, columns, results, m0, m1, w);
        }
    }
}
