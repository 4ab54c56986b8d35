/* out_prod.c - the product under transposed convolutions: a [M, R], b F32 [N, R] -> [M, N] = sum over r of a[r][m] * b[r][n].
 * Vectors run along m, the axis both a and the result have contiguous; TILE_M values of b, neighbours in memory, are broadcast. A thread converts a block
 * of a ([block, R], sized for the L2 cache) to F32 once and runs register tiles over all n; it copies TILE_M columns of b side by side first, because
 * rows of b are pages apart. The pair (block, n panel) is the unit that threads share out. */
#include "rows_f32.h"
#include "tile.h"

#define BLOCK_FLOATS (192 * 1024) /* of a that a block may take: 768 KB of a 1-2 MB L2 cache */
#define PREFETCH_ROWS 4           /* rows of a ahead of the one being converted: a block is a few lines of each, which no processor foresees */

struct out_prod_plan {
    int64_t M, N, R;
    int64_t block; /* values of m, a multiple of TILE_N */
    int64_t n_blocks, n_panels;
    int64_t x_step;
    size_t thread_bytes;
};

static struct out_prod_plan out_prod_plan_of(const struct ggml_tensor * dst, int nth) {
    struct out_prod_plan p = { .M = dst->ne[0], .N = dst->ne[1], .R = dst->src[0]->ne[1] };
    p.n_panels = (p.N + TILE_M - 1) / TILE_M;
    int64_t most = BLOCK_FLOATS / p.R / TILE_N * TILE_N;
    int64_t n = (p.M + most - 1) / (most > TILE_N ? most : TILE_N);
    n = n > nth ? n : nth;
    p.block = GGML_PAD((p.M + n - 1) / n, TILE_N);
    p.n_blocks = (p.M + p.block - 1) / p.block;
    p.x_step = tile_row_floats(p.block);
    p.thread_bytes = GGML_PAD((size_t) (p.R * (p.x_step + TILE_M)) * sizeof(float), 64);
    return p;
}

size_t KERNEL(cpu_scratch_out_prod)(const struct ggml_tensor * dst, int nth) {
    return out_prod_plan_of(dst, nth).thread_bytes * (size_t) nth;
}

/* m0 .. m1-1 of all rows of a: out[r * x_step + m - m0], zeros up to a whole vector. */
static void load_block(const struct out_prod_plan * p, const struct ggml_tensor * a, int64_t m0, int64_t m1, float * out) {
    const size_t bytes = (size_t) (m1 - m0) * a->nb[0];
    for (int64_t r = 0; r < p->R; r++, out += p->x_step) {
        const char * row = (const char *) a->data + (size_t) r * a->nb[1] + (size_t) m0 * a->nb[0];
        if (r + PREFETCH_ROWS < p->R) {
            for (size_t line = 0; line < bytes; line += 64) {
                __builtin_prefetch(row + PREFETCH_ROWS * a->nb[1] + line, 0, 3);
            }
        }
        rows_f32(a->type, row, out, m1 - m0);
        memset(out + (m1 - m0), 0, (size_t) (GGML_PAD(m1 - m0, VF_N) - (m1 - m0)) * sizeof(float));
    }
}

/* Columns n0 .. n0 + cols - 1 of b side by side: out[r * TILE_M + j]. */
static void load_columns(const struct out_prod_plan * p, const struct ggml_tensor * b, int64_t n0, int cols, float * out) {
    for (int64_t r = 0; r < p->R; r++, out += TILE_M) {
        const float * row = (const float *) ((const char *) b->data + (size_t) r * b->nb[1]) + n0;
        if (cols == TILE_M) {
            memcpy(out, row, TILE_M * sizeof(float));
        } else {
            for (int j = 0; j < cols; j++) {
                out[j] = row[j];
            }
        }
    }
}

static void tiles_across(const struct tile_job * job, int rows, int cols) { tile_run(*job, rows, cols, true, true); }

void KERNEL(cpu_op_out_prod)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[0];
    struct out_prod_plan p = out_prod_plan_of(dst, task->nth);
    float * x = (float *) ((char *) task->scratch + (size_t) task->ith * p.thread_bytes); /* [x_step, R] */
    float * w = x + p.R * p.x_step;                                                      /* [TILE_M, R] */
    int64_t first, last, block_loaded = -1;
    cpu_range(task, p.n_blocks * p.n_panels, 1, &first, &last);
    for (int64_t unit = first; unit < last; unit++) {
        int64_t block = unit / p.n_panels, n0 = unit % p.n_panels * TILE_M;
        int64_t m0 = block * p.block, m1 = m0 + p.block < p.M ? m0 + p.block : p.M;
        int rows = (int) (p.N - n0 < TILE_M ? p.N - n0 : TILE_M);
        if (block != block_loaded) {
            load_block(&p, a, m0, m1, x);
            block_loaded = block;
        }
        load_columns(&p, dst->src[1], n0, rows, w);
        struct tile_job job = { .w = w, .w_row = TILE_M, .x = x, .x_step = p.x_step, .n_steps = p.R,
                                .out = (float *) ((char *) dst->data + (size_t) n0 * dst->nb[1]) + m0, .out_row = (int64_t) (dst->nb[1] / sizeof(float)) };
        for (int64_t m = m0; m < m1; m += TILE_N, job.x += TILE_N, job.out += TILE_N) {
            tiles_across(&job, rows, (int) (m1 - m < TILE_N ? m1 - m : TILE_N));
        }
    }
}
