/* out_prod.c - the product under transposed convolutions: a [M, R], b F32 [N, R] -> [M, N] = sum over r of a[r][m] * b[r][n].
 * Vectors run along m, the axis both a and the result have contiguous; eight values of b, neighbours in memory, are broadcast. A thread converts a block
 * of a ([block, R], sized for the L2 cache) to F32 once and runs register tiles over all n. The pair (block, n panel) is the unit that threads share out. */
#include "rows_f32.h"
#include "tile.h"

#define BLOCK_FLOATS (192 * 1024) /* of a that a block may take: 768 KB of a 1-2 MB L2 cache */

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
    p.thread_bytes = (size_t) (p.R * p.x_step) * sizeof(float);
    return p;
}

size_t KERNEL(cpu_scratch_out_prod)(const struct ggml_tensor * dst, int nth) {
    return out_prod_plan_of(dst, nth).thread_bytes * (size_t) nth;
}

static void tiles_across(const struct tile_job * job, int rows, int cols) { tile_run(*job, rows, cols, true, true); }

void KERNEL(cpu_op_out_prod)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[0];
    const struct ggml_tensor * b = dst->src[1];
    struct out_prod_plan p = out_prod_plan_of(dst, task->nth);
    float * x = (float *) ((char *) task->scratch + (size_t) task->ith * p.thread_bytes); /* [x_step, R] */
    int64_t first, last, block_loaded = -1;
    cpu_range(task, p.n_blocks * p.n_panels, 1, &first, &last);
    for (int64_t unit = first; unit < last; unit++) {
        int64_t block = unit / p.n_panels, n0 = unit % p.n_panels * TILE_M;
        int64_t m0 = block * p.block, m1 = m0 + p.block < p.M ? m0 + p.block : p.M;
        int rows = (int) (p.N - n0 < TILE_M ? p.N - n0 : TILE_M);
        if (block != block_loaded) {
            int64_t padded = GGML_PAD(m1 - m0, VF_N);
            for (int64_t r = 0; r < p.R; r++) {
                const char * row = (const char *) a->data + (size_t) r * a->nb[1] + (size_t) m0 * a->nb[0];
                rows_f32(a->type, row, x + r * p.x_step, m1 - m0);
                memset(x + r * p.x_step + (m1 - m0), 0, (size_t) (padded - (m1 - m0)) * sizeof(float));
            }
            block_loaded = block;
        }
        struct tile_job job = { .w = (const float *) b->data + n0, .w_row = (int64_t) (b->nb[1] / sizeof(float)), .x = x, .x_step = p.x_step, .n_steps = p.R,
                                .out = (float *) ((char *) dst->data + (size_t) n0 * dst->nb[1]) + m0, .out_row = (int64_t) (dst->nb[1] / sizeof(float)) };
        for (int64_t m = m0; m < m1; m += TILE_N, job.x += TILE_N, job.out += TILE_N) {
            tiles_across(&job, rows, (int) (m1 - m < TILE_N ? m1 - m : TILE_N));
        }
    }
}
