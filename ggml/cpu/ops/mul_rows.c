/* mul_rows.c - a [K, M, ...] Q8_0 times b F32 [K, N <= MUL_ROWS_COLS, ...] -> F32 [M, N, ...] on AVX-512; other tiers and types leave it to mul_mat.c.
 * All threads round the columns to 8-bit integers once, each then takes a range of rows of a and walks it in blocks that stay in its L2 cache, four columns
 * at a time: memory is read once, as for one column. Two blocks of 32 fill one vector. The activations are the unsigned side, x + 128, so what the offset
 * adds, 128 * sum(w), depends on the weights alone and is taken off once for four columns; their scales lie in memory ready as lanes. A product of 64
 * values is then a dot, a conversion, a product of scales and a sum. From about 24 columns on the blocked product in F32 is faster (performance.md). */
#include "mul_rows.h"
#include "dot_blocks.h"

#if defined(QT_TIER_AVX512)

#define MUL_ROWS_COLS 20
#define ROW_BLOCK 16 /* rows of a: 50 KB at K = 3072 */
#define WIDE_ROWS 2

/* Both padded to whole vectors; the scales of a padded block are 0. */
struct wide_column {
    const uint8_t * q; /* [K] */
    const float * d;   /* [K / 4]: eight lanes a block */
};

static inline size_t wide_column_bytes(int64_t K) { return 2 * GGML_PAD((size_t) K, 64); }

static inline struct wide_column wide_column_at(const char * memory, int64_t K) {
    return (struct wide_column) { .q = (const uint8_t *) memory, .d = (const float *) (memory + GGML_PAD((size_t) K, 64)) };
}

static inline void wide_quantize(const float * x, int64_t K, char * memory) {
    int8_t * q = (int8_t *) memory;
    float * d = (float *) (memory + GGML_PAD((size_t) K, 64));
    const int64_t n_blocks = K / 32;
    for (int64_t b = 0; b < n_blocks; b++) {
        float spoilt, most = act_max_abs(x + b * 32, 32, &spoilt);
        act_round(x + b * 32, most > 0.0f ? 127.0f / most : 0.0f, q + b * 32, 32);
        __m256i stored = _mm256_loadu_si256((const __m256i *) (q + b * 32));
        _mm256_storeu_si256((__m256i *) (q + b * 32), _mm256_xor_si256(stored, _mm256_set1_epi8((char) 0x80)));
        _mm256_storeu_ps(d + b * 8, _mm256_set1_ps(most / 127.0f + spoilt));
    }
    if (n_blocks % 2) {
        memset(q + n_blocks * 32, 0, 32);
        memset(d + n_blocks * 8, 0, 8 * sizeof(float));
    }
}

/* One pair of blocks (pair false: one block and zeros) of each row against each column. */
DOT_INLINE void wide_pair(const int n_rows, const int n_cols, const bool pair, const char * const * rows, int64_t b, const struct wide_column * x,
                          __m512 (*acc)[DOT_COLS]) {
    __m512i w[WIDE_ROWS], start[WIDE_ROWS];
    __m512 d[WIDE_ROWS];
#pragma GCC unroll 2
    for (int r = 0; r < n_rows; r++) {
        const struct block_q8_0 * block = (const struct block_q8_0 *) rows[r] + b;
        dot_prefetch(block);
        __m256i high = pair ? _mm256_loadu_si256((const __m256i *) block[1].qs) : _mm256_setzero_si256();
        w[r] = _mm512_inserti64x4(_mm512_zextsi256_si512(_mm256_loadu_si256((const __m256i *) block[0].qs)), high, 1);
        d[r] = _mm512_insertf32x8(_mm512_zextps256_ps512(dot_scale(&block[0].d)), pair ? dot_scale(&block[1].d) : _mm256_setzero_ps(), 1);
        start[r] = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8((char) 0x80), w[r]));
    }
#pragma GCC unroll 4
    for (int c = 0; c < n_cols; c++) {
        const __m512i q = _mm512_loadu_si512(x[c].q + b * 32);
        const __m512 dx = _mm512_loadu_ps(x[c].d + b * 8);
#pragma GCC unroll 2
        for (int r = 0; r < n_rows; r++) {
            __m512 part = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(start[r], q, w[r]));
            acc[r][c] = _mm512_fmadd_ps(part, _mm512_mul_ps(d[r], dx), acc[r][c]);
        }
    }
}

/* out[r][c] = row r times column c. */
DOT_INLINE void wide_tile(const int n_rows, const int n_cols, const char * const * rows, int64_t n_blocks, const struct wide_column * x,
                          float (*out)[DOT_COLS]) {
    __m512 acc[WIDE_ROWS][DOT_COLS];
#pragma GCC unroll 2
    for (int r = 0; r < n_rows; r++) {
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) {
            acc[r][c] = _mm512_setzero_ps();
        }
    }
    int64_t b = 0;
    for (; b + 2 <= n_blocks; b += 2) {
        wide_pair(n_rows, n_cols, true, rows, b, x, acc);
    }
    if (b < n_blocks) {
        wide_pair(n_rows, n_cols, false, rows, b, x, acc);
    }
#pragma GCC unroll 2
    for (int r = 0; r < n_rows; r++) {
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) {
            out[r][c] = vf_sum(acc[r][c]);
        }
    }
}

static void wide_rows(int n_rows, int n_cols, const char * const * rows, int64_t n_blocks, const struct wide_column * x, float (*out)[DOT_COLS]) {
    if (n_rows == 2) {
        switch (n_cols) {
            case 1: wide_tile(2, 1, rows, n_blocks, x, out); break;
            case 2: wide_tile(2, 2, rows, n_blocks, x, out); break;
            case 3: wide_tile(2, 3, rows, n_blocks, x, out); break;
            default: wide_tile(2, 4, rows, n_blocks, x, out); break;
        }
    } else {
        switch (n_cols) {
            case 1: wide_tile(1, 1, rows, n_blocks, x, out); break;
            case 2: wide_tile(1, 2, rows, n_blocks, x, out); break;
            case 3: wide_tile(1, 3, rows, n_blocks, x, out); break;
            default: wide_tile(1, 4, rows, n_blocks, x, out); break;
        }
    }
}

bool KERNEL(mul_rows_takes)(const struct ggml_tensor * dst) { return dst->src[0]->type == GGML_TYPE_Q8_0 && dst->ne[1] <= MUL_ROWS_COLS; }

size_t KERNEL(mul_rows_scratch)(const struct ggml_tensor * dst) { return wide_column_bytes(dst->src[0]->ne[0]) * (size_t) dst->ne[1]; }

/* Rows m0 .. m1-1 of w against columns n0 .. n0 + n_cols - 1. */
static void block_times_columns(const struct ggml_tensor * dst, const char * columns, const char * w, int64_t m0, int64_t m1, int64_t n0, int n_cols,
                                char * y) {
    const struct ggml_tensor * a = dst->src[0];
    const int64_t K = a->ne[0];
    struct wide_column x[DOT_COLS];
    for (int i = 0; i < n_cols; i++) {
        x[i] = wide_column_at(columns + wide_column_bytes(K) * (size_t) (n0 + i), K);
    }
    for (int64_t m = m0; m < m1; m += WIDE_ROWS) {
        int n_rows = (int) (m1 - m < WIDE_ROWS ? m1 - m : WIDE_ROWS);
        const char * rows[WIDE_ROWS] = { w + (size_t) m * a->nb[1], w + (size_t) (m + n_rows - 1) * a->nb[1] };
        float out[WIDE_ROWS][DOT_COLS];
        wide_rows(n_rows, n_cols, rows, K / 32, x, out);
        for (int i = 0; i < n_cols; i++) {
            for (int r = 0; r < n_rows; r++) {
                ((float *) (y + (size_t) (n0 + i) * dst->nb[1]))[m + r] = out[r][i];
            }
        }
    }
}

void KERNEL(mul_rows)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[0], * b = dst->src[1];
    const int64_t K = a->ne[0], N = dst->ne[1];
    char * columns = task->scratch;
    for (int64_t batch = 0; batch < dst->ne[2] * dst->ne[3]; batch++) {
        int64_t i2 = batch % dst->ne[2], i3 = batch / dst->ne[2], first, last;
        const char * w = (const char *) a->data + (size_t) (i2 / (dst->ne[2] / a->ne[2])) * a->nb[2] + (size_t) (i3 / (dst->ne[3] / a->ne[3])) * a->nb[3];
        const char * x = (const char *) b->data + (size_t) i2 * b->nb[2] + (size_t) i3 * b->nb[3];
        char * y = (char *) dst->data + (size_t) i2 * dst->nb[2] + (size_t) i3 * dst->nb[3];
        if (batch > 0) {
            cpu_barrier(task); /* the columns of the batch before are no longer read */
        }
        cpu_range(task, N, 1, &first, &last);
        for (int64_t n = first; n < last; n++) {
            wide_quantize((const float *) (x + (size_t) n * b->nb[1]), K, columns + wide_column_bytes(K) * (size_t) n);
        }
        cpu_barrier(task);
        cpu_range(task, dst->ne[0], WIDE_ROWS, &first, &last);
        for (int64_t m0 = first; m0 < last; m0 += ROW_BLOCK) {
            int64_t m1 = m0 + ROW_BLOCK < last ? m0 + ROW_BLOCK : last;
            for (int64_t n0 = 0; n0 < N; n0 += DOT_COLS) {
                block_times_columns(dst, columns, w, m0, m1, n0, (int) (N - n0 < DOT_COLS ? N - n0 : DOT_COLS), y);
            }
        }
    }
}

#else

bool KERNEL(mul_rows_takes)(const struct ggml_tensor * dst) {
    (void) dst;
    return false;
}

size_t KERNEL(mul_rows_scratch)(const struct ggml_tensor * dst) {
    (void) dst;
    return 0;
}

void KERNEL(mul_rows)(const struct cpu_task * task, struct ggml_tensor * dst) {
    (void) task;
    GGML_ABORT("mul_mat: no such product of %s on this tier", ggml_type_name(dst->src[0]->type));
}

#endif
