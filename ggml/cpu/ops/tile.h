/* tile.h - the register tile under conv_1d, out_prod and the many-column mul_mat:
 *   out[m][t] = sum over step, tap of w[m][step, tap] * x[step][t + tap offset],   m < TILE_M, t < TILE_N
 * Vectors run along t; each weight is broadcast. An output is one chain of fused multiply-adds in the order of the reduction, whatever the
 * size of the tile it is in, so results depend neither on the number of threads nor on how the outputs are cut into blocks.
 * Callers keep x rows readable up to the next multiple of VF_N past the last column. */
#pragma once

#include "../vec.h"

#if defined(QT_TIER_AVX512) || defined(QT_TIER_NEON)
#  define TILE_M 8 /* 24 of 32 registers accumulate */
#else
#  define TILE_M 4 /* 12 of 16 */
#endif
#define TILE_V 3
#define TILE_N (TILE_V * VF_N)

struct tile_job {
    const float * w;     /* row m, reduction index r: w[m * w_row + r], or w[r * w_row + m] where weights_across */
    int64_t w_row;
    const float * x;     /* step s: x + s * x_step */
    int64_t x_step;
    int64_t n_steps;
    const int64_t * tap; /* offsets into a row of x; NULL: one tap at 0 */
    int64_t n_taps;
    float * out;         /* row m: out + m * out_row */
    int64_t out_row;
};

/* A row length in floats that is an odd number of cache lines: rows of one column then fall into different cache sets. */
static inline int64_t tile_row_floats(int64_t n) { return GGML_PAD(n, 16) | 16; }

#define TILE_INLINE static inline __attribute__((always_inline))

TILE_INLINE void tile_step(vf acc[TILE_M][TILE_V], const int rows, const int vecs, const float * w, int64_t w_stride, const float * x) {
    vf xv[TILE_V];
#pragma GCC unroll 3
    for (int v = 0; v < vecs; v++) {
        xv[v] = vf_load(x + v * VF_N);
    }
#pragma GCC unroll 8
    for (int m = 0; m < rows; m++) {
        vf wv = vf_set1(w[m * w_stride]);
#pragma GCC unroll 3
        for (int v = 0; v < vecs; v++) {
            acc[m][v] = vf_fma(wv, xv[v], acc[m][v]);
        }
    }
}

/* rows, vecs, one_tap and weights_across are constants where this is inlined. */
TILE_INLINE void tile_fixed(const struct tile_job * job, const int rows, const int vecs, int cols, const bool one_tap, const bool weights_across) {
    vf acc[TILE_M][TILE_V];
#pragma GCC unroll 8
    for (int m = 0; m < rows; m++) {
#pragma GCC unroll 3
        for (int v = 0; v < vecs; v++) {
            acc[m][v] = vf_zero();
        }
    }
    const float * w = job->w;
    const float * x = job->x;
    const int64_t w_stride = weights_across ? 1 : job->w_row;
    const int64_t w_next = weights_across ? job->w_row : 1;
    if (one_tap) {
        for (int64_t s = 0; s < job->n_steps; s++, x += job->x_step, w += w_next) {
            tile_step(acc, rows, vecs, w, w_stride, x);
        }
    } else {
        for (int64_t s = 0; s < job->n_steps; s++, x += job->x_step) {
            for (int64_t k = 0; k < job->n_taps; k++, w += w_next) {
                tile_step(acc, rows, vecs, w, w_stride, x + job->tap[k]);
            }
        }
    }
    const int tail = cols - (vecs - 1) * VF_N; /* columns of the last vector */
#pragma GCC unroll 8
    for (int m = 0; m < rows; m++) {
        float * out = job->out + m * job->out_row;
#pragma GCC unroll 3
        for (int v = 0; v < vecs - 1; v++) {
            vf_store(out + v * VF_N, acc[m][v]);
        }
        if (tail == VF_N) {
            vf_store(out + (vecs - 1) * VF_N, acc[m][vecs - 1]);
        } else {
            vf_store_n(out + (vecs - 1) * VF_N, acc[m][vecs - 1], tail);
        }
    }
}

TILE_INLINE void tile_rows(const struct tile_job * job, const int rows, int cols, const bool one_tap, const bool weights_across) {
    if (cols > 2 * VF_N) {
        tile_fixed(job, rows, 3, cols, one_tap, weights_across);
    } else if (cols > VF_N) {
        tile_fixed(job, rows, 2, cols, one_tap, weights_across);
    } else {
        tile_fixed(job, rows, 1, cols, one_tap, weights_across);
    }
}

/* rows <= TILE_M and cols <= TILE_N of any count: whole tiles, then fewer rows at a time. */
TILE_INLINE void tile_run(struct tile_job job, int rows, int cols, const bool one_tap, const bool weights_across) {
    while (rows > 0) {
        int done;
        if (rows >= TILE_M) {
            tile_rows(&job, TILE_M, cols, one_tap, weights_across);
            done = TILE_M;
        } else if (rows >= 2) {
            tile_rows(&job, 2, cols, one_tap, weights_across);
            done = 2;
        } else {
            tile_rows(&job, 1, cols, one_tap, weights_across);
            done = 1;
        }
        rows -= done;
        job.w += weights_across ? done : done * job.w_row;
        job.out += done * job.out_row;
    }
}
