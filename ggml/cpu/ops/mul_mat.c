/* mul_mat.c - a [K, M, A2, A3] of any weight type, b F32 [K, N, B2, B3] -> F32 [M, N, B2, B3]; b's batch axes are multiples of a's.
 * Packed matrices go to mul_packed.c, products asked for as GGML_PREC_F32 to mul_f32.c, else up to MUL_VEC_COLS columns to mul_vec.c. The rest is a blocked
 * product in F32: b is packed to panels x [TILE_N, K] with columns as lanes, by all threads together, then each thread takes rows of a, converts a block
 * of them to F32 and runs register tiles of TILE_M rows by TILE_N columns.
 * Weights are read in the order they are stored and converted once; only b, the smaller operand, is transposed. */
#include "rows_f32.h"
#include "mul_amx.h"
#include "mul_f32.h"
#include "mul_packed.h"
#include "mul_vec.h"
#include "tile.h"

#define PANEL_FLOATS (1024 * 1024) /* of b packed at a time: 4 MB shared by all threads */
#define ROWS_FLOATS (64 * 1024)    /* of a a thread converts at a time: 256 KB, which leaves its L2 cache room for a panel */
#define PACK_STEP 64               /* values of k that a thread packs at a time */

struct mul_mat_plan {
    int64_t K, M, N;
    int64_t tiles_per_batch, n_tiles, chunk; /* chunk: tiles packed at a time */
    int64_t rows;                            /* of a converted at a time, a multiple of TILE_M */
    int64_t w_row;                           /* floats from one converted row to the next */
    size_t panel_bytes, thread_bytes;
};

static struct mul_mat_plan mul_mat_plan_of(const struct ggml_tensor * dst) {
    struct mul_mat_plan p = { .K = dst->src[0]->ne[0], .M = dst->ne[0], .N = dst->ne[1] };
    p.tiles_per_batch = (p.N + TILE_N - 1) / TILE_N;
    p.n_tiles = p.tiles_per_batch * dst->ne[2] * dst->ne[3];
    p.chunk = PANEL_FLOATS / (p.K * TILE_N);
    p.chunk = p.chunk < 1 ? 1 : p.chunk > p.n_tiles ? p.n_tiles : p.chunk;
    int64_t panels = ROWS_FLOATS / (p.K * TILE_M);
    p.rows = (panels < 1 ? 1 : panels > 8 ? 8 : panels) * TILE_M;
    p.w_row = tile_row_floats(p.K);
    p.panel_bytes = GGML_PAD((size_t) (p.chunk * p.K * TILE_N) * sizeof(float), 64);
    p.thread_bytes = (size_t) (p.rows * p.w_row) * sizeof(float);
    return p;
}

static bool is_exact(const struct ggml_tensor * dst) { return ggml_get_op_params_i32(dst, 0) == GGML_PREC_F32; }

size_t KERNEL(cpu_scratch_mul_mat)(const struct ggml_tensor * dst, int nth) {
    if (cpu_is_packed(dst->src[0])) {
        return KERNEL(mul_packed_scratch)(dst, nth);
    }
#if defined(QT_TIER_AMX)
    if (KERNEL(mul_amx_takes)(dst)) {
        return KERNEL(mul_amx_scratch)(dst, nth);
    }
#endif
    if (is_exact(dst)) {
        return KERNEL(mul_f32_scratch)(dst, nth);
    }
    if (dst->ne[1] <= MUL_VEC_COLS) {
        return KERNEL(mul_vec_scratch)(dst, nth);
    }
    struct mul_mat_plan p = mul_mat_plan_of(dst);
    return p.panel_bytes + p.thread_bytes * (size_t) nth;
}

/* Column n of tile's batch in b. */
static const float * column_of(const struct ggml_tensor * dst, int64_t batch, int64_t n) {
    const struct ggml_tensor * b = dst->src[1];
    int64_t i2 = batch % dst->ne[2], i3 = batch / dst->ne[2];
    return (const float *) ((const char *) b->data + (size_t) n * b->nb[1] + (size_t) i2 * b->nb[2] + (size_t) i3 * b->nb[3]);
}

/* Index of the matrix of a that a batch of b meets. */
static int64_t a_batch_of(const struct ggml_tensor * dst, int64_t batch) {
    const struct ggml_tensor * a = dst->src[0];
    int64_t i2 = batch % dst->ne[2] / (dst->ne[2] / a->ne[2]), i3 = batch / dst->ne[2] / (dst->ne[3] / a->ne[3]);
    return i2 + i3 * a->ne[2];
}

/* k0 .. k1-1 of one tile: out[k][n], zero past the last column. */
static void pack_tile(const struct ggml_tensor * dst, const struct mul_mat_plan * p, int64_t tile, int64_t k0, int64_t k1, float * out) {
    int64_t n0 = tile % p->tiles_per_batch * TILE_N;
    for (int64_t n = 0; n < TILE_N; n++) {
        if (n0 + n < p->N) {
            const float * b = column_of(dst, tile / p->tiles_per_batch, n0 + n);
            for (int64_t k = k0; k < k1; k++) {
                out[k * TILE_N + n] = b[k];
            }
        } else {
            for (int64_t k = k0; k < k1; k++) {
                out[k * TILE_N + n] = 0.0f;
            }
        }
    }
}

static void tiles_rows(const struct tile_job * job, int rows, int cols) { tile_run(*job, rows, cols, true, false); }

/* Rows m .. m + rows - 1 (rows <= TILE_M) of one tile into dst. */
static void run_tile(struct ggml_tensor * dst, const struct mul_mat_plan * p, int64_t tile, int64_t m, int rows, const float * w, const float * x) {
    float out[TILE_M * TILE_N];
    int64_t n0 = tile % p->tiles_per_batch * TILE_N, batch = tile / p->tiles_per_batch;
    int cols = (int) (p->N - n0 < TILE_N ? p->N - n0 : TILE_N);
    struct tile_job job = { .w = w, .w_row = p->w_row, .x = x, .x_step = TILE_N, .n_steps = p->K, .out = out, .out_row = TILE_N };
    tiles_rows(&job, rows, cols);
    char * base = (char *) dst->data + (size_t) (batch % dst->ne[2]) * dst->nb[2] + (size_t) (batch / dst->ne[2]) * dst->nb[3];
    for (int n = 0; n < cols; n++) {
        float * d = (float *) (base + (size_t) (n0 + n) * dst->nb[1]) + m;
        for (int i = 0; i < rows; i++) {
            d[i] = out[i * TILE_N + n];
        }
    }
}

static void mul_mat_blocked(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[0];
    struct mul_mat_plan p = mul_mat_plan_of(dst);
    float * panels = task->scratch;
    float * w = (float *) ((char *) task->scratch + p.panel_bytes + p.thread_bytes * (size_t) task->ith);
    const int64_t k_steps = (p.K + PACK_STEP - 1) / PACK_STEP, panel_floats = p.K * TILE_N;
    for (int64_t t0 = 0; t0 < p.n_tiles; t0 += p.chunk) {
        int64_t t1 = t0 + p.chunk < p.n_tiles ? t0 + p.chunk : p.n_tiles;
        if (t0 > 0) {
            cpu_barrier(task); /* the panels of the chunk before are no longer read */
        }
        int64_t first, last;
        cpu_range(task, (t1 - t0) * k_steps, 1, &first, &last);
        for (int64_t u = first; u < last; u++) {
            int64_t tile = t0 + u / k_steps, k0 = u % k_steps * PACK_STEP;
            pack_tile(dst, &p, tile, k0, k0 + PACK_STEP < p.K ? k0 + PACK_STEP : p.K, panels + (tile - t0) * panel_floats);
        }
        cpu_barrier(task);
        cpu_range(task, p.M, TILE_M, &first, &last);
        for (int64_t tile = t0, next; tile < t1; tile = next) { /* tiles that meet the same matrix of a */
            int64_t a_batch = a_batch_of(dst, tile / p.tiles_per_batch);
            for (next = tile + 1; next < t1 && a_batch_of(dst, next / p.tiles_per_batch) == a_batch; next++) {
            }
            const char * base = (const char *) a->data + (size_t) (a_batch % a->ne[2]) * a->nb[2] + (size_t) (a_batch / a->ne[2]) * a->nb[3];
            for (int64_t m0 = first; m0 < last; m0 += p.rows) {
                int64_t m1 = m0 + p.rows < last ? m0 + p.rows : last;
                for (int64_t m = m0; m < m1; m++) {
                    rows_f32(a->type, base + (size_t) m * a->nb[1], w + (m - m0) * p.w_row, p.K);
                }
                for (int64_t t = tile; t < next; t++) {
                    for (int64_t m = m0; m < m1; m += TILE_M) {
                        int rows = (int) (m1 - m < TILE_M ? m1 - m : TILE_M);
                        run_tile(dst, &p, t, m, rows, w + (m - m0) * p.w_row, panels + (t - t0) * panel_floats);
                    }
                }
            }
        }
    }
}

void KERNEL(cpu_op_mul_mat)(const struct cpu_task * task, struct ggml_tensor * dst) {
    if (cpu_is_packed(dst->src[0])) {
        KERNEL(mul_packed)(task, dst);
        return;
    }
#if defined(QT_TIER_AMX)
    if (KERNEL(mul_amx_takes)(dst)) {
        KERNEL(mul_amx)(task, dst);
        return;
    }
#endif
    if (is_exact(dst)) {
        KERNEL(mul_f32)(task, dst);
    } else if (dst->ne[1] <= MUL_VEC_COLS) {
        KERNEL(mul_vec)(task, dst);
    } else {
        mul_mat_blocked(task, dst);
    }
}
