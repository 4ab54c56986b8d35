/* conv.c - conv_1d and conv_1d_dw, time first, without an im2col in memory.
 *   conv_1d:    w [K, IC, OC], x [T, IC] -> [T_out, OC]: out[oc][t] = sum over ic, k of w[oc][ic][k] * x[ic][t*s0 + k*d0 - p0]
 *   conv_1d_dw: w [K, 1, C],   x [T, C]  -> [T_out, C]
 * conv_1d cuts time into blocks whose input fits in the L2 cache. A thread copies the block's input once, with the zeros of the padding and split
 * by s0 into phases so that every tap reads contiguous samples, converts TILE_M rows of weights at a time to F32, and runs register tiles over them.
 * The pair (block, rows) is the unit that threads share out. Where the tier has AMX tiles, conv_amx.c computes all but the narrowest. */
#include "conv.h"
#include "conv_amx.h"
#include "conv_amx_weights.h"
#include "tile.h"

#define BLOCK_FLOATS (192 * 1024) /* of input a block may take: 768 KB of a 1-2 MB L2 cache */

struct conv_plan {
    struct conv_shape s;
    int64_t block;      /* outputs of a time block, a multiple of TILE_N */
    int64_t n_blocks, n_panels;
    int64_t phase_len;  /* samples kept of each of the s0 phases */
    int64_t x_step;     /* floats from one input channel of the block to the next */
    int64_t w_row;      /* floats from one row of weights to the next */
    size_t thread_bytes;
};

static struct conv_plan conv_plan_of(const struct ggml_tensor * dst, int nth) {
    struct conv_plan p = { .s = conv_shape_of(dst) };
    int64_t halo = conv_halo(&p.s);
    p.n_panels = conv_ceil_div(p.s.OC, TILE_M);
    int64_t most = (BLOCK_FLOATS / p.s.IC / p.s.s0 - halo) / TILE_N * TILE_N;
    int64_t enough = conv_ceil_div(4 * nth, p.n_panels); /* blocks that give each thread four units */
    int64_t n = conv_ceil_div(p.s.T_out, most > TILE_N ? most : TILE_N);
    p.block = GGML_PAD(conv_ceil_div(p.s.T_out, n > enough ? n : enough), TILE_N);
    p.n_blocks = conv_ceil_div(p.s.T_out, p.block);
    p.phase_len = p.block + halo;
    p.x_step = tile_row_floats(p.s.s0 * p.phase_len);
    p.w_row = tile_row_floats(p.s.IC * p.s.K);
    p.thread_bytes = GGML_PAD((size_t) (TILE_M * p.w_row + p.s.IC * p.x_step) * sizeof(float) + (size_t) p.s.K * sizeof(int64_t), 64);
    return p;
}

size_t KERNEL(cpu_scratch_conv_1d)(const struct ggml_tensor * dst, int nth) {
#if defined(QT_TIER_AMX)
    if (KERNEL(conv_amx_takes)(dst)) {
        return KERNEL(conv_amx_scratch)(dst, nth);
    }
#endif
    return conv_plan_of(dst, nth).thread_bytes * (size_t) nth;
}

bool KERNEL(conv_packed_exists)(void) {
#if defined(QT_TIER_AMX)
    return true;
#else
    return false;
#endif
}

bool KERNEL(conv_pack_kernel)(const struct ggml_tensor * kernel, int64_t stride, void * out) {
#if defined(QT_TIER_AMX)
    return KERNEL(conv_weights_order)(kernel, stride, out);
#else
    GGML_UNUSED(kernel);
    GGML_UNUSED(stride);
    GGML_UNUSED(out);
    return false;
#endif
}

/* Whether the result of first stays unwritten: the builder says that second alone reads it. */
bool KERNEL(conv_pairs)(const struct ggml_tensor * first, const struct ggml_tensor * second) {
#if defined(QT_TIER_AMX)
    return first->op == GGML_OP_CONV_1D && ggml_get_op_params_i32(first, 5) && KERNEL(conv_amx_pairs)(first, second);
#else
    GGML_UNUSED(first);
    GGML_UNUSED(second);
    return false;
#endif
}

size_t KERNEL(conv_pair_scratch)(const struct ggml_tensor * first, const struct ggml_tensor * second, int nth) {
#if defined(QT_TIER_AMX)
    return KERNEL(conv_amx_pair_scratch)(first, second, nth);
#else
    GGML_UNUSED(first);
    GGML_UNUSED(second);
    GGML_UNUSED(nth);
    return 0;
#endif
}

void KERNEL(conv_pair)(const struct cpu_task * task, struct ggml_tensor * first, struct ggml_tensor * second) {
#if defined(QT_TIER_AMX)
    KERNEL(conv_amx_pair)(task, first, second);
#else
    GGML_UNUSED(task);
    GGML_UNUSED(first);
    GGML_UNUSED(second);
#endif
}

static void tiles_one_tap(const struct tile_job * job, int rows, int cols) { tile_run(*job, rows, cols, true, false); }
static void tiles_taps(const struct tile_job * job, int rows, int cols) { tile_run(*job, rows, cols, false, false); }

void KERNEL(cpu_op_conv_1d)(const struct cpu_task * task, struct ggml_tensor * dst) {
#if defined(QT_TIER_AMX)
    if (KERNEL(conv_amx_takes)(dst)) {
        KERNEL(conv_amx)(task, dst);
        return;
    }
#endif
    struct conv_plan p = conv_plan_of(dst, task->nth);
    float * w = (float *) ((char *) task->scratch + (size_t) task->ith * p.thread_bytes); /* [w_row, TILE_M] */
    float * x = w + TILE_M * p.w_row;                                                    /* [x_step, IC] */
    int64_t * tap = (int64_t *) (x + p.s.IC * p.x_step);
    for (int64_t k = 0; k < p.s.K; k++) {
        tap[k] = conv_tap(&p.s, p.phase_len, k);
    }
    int64_t first, last, block_loaded = -1, panel_loaded = -1;
    cpu_range(task, p.n_blocks * p.n_panels, 1, &first, &last);
    for (int64_t unit = first; unit < last; unit++) {
        int64_t block = unit / p.n_panels, panel = unit % p.n_panels;
        int64_t t0 = block * p.block, t1 = t0 + p.block < p.s.T_out ? t0 + p.block : p.s.T_out;
        int64_t oc = panel * TILE_M;
        int rows = (int) (p.s.OC - oc < TILE_M ? p.s.OC - oc : TILE_M);
        if (block != block_loaded) {
            for (int64_t ic = 0; ic < p.s.IC; ic++) {
                conv_load_channel(dst, &p.s, p.phase_len, ic, t0, x + ic * p.x_step);
            }
            block_loaded = block;
        }
        if (panel != panel_loaded) {
            for (int m = 0; m < rows; m++) {
                conv_row_f32(dst->src[0], oc + m, 0, p.s.IC, w + m * p.w_row);
            }
            panel_loaded = panel;
        }
        struct tile_job job = { .w = w, .w_row = p.w_row, .x = x, .x_step = p.x_step, .n_steps = p.s.IC, .tap = tap, .n_taps = p.s.K,
                                .out = (float *) ((char *) dst->data + (size_t) oc * dst->nb[1]) + t0, .out_row = (int64_t) (dst->nb[1] / sizeof(float)) };
        for (int64_t t = t0; t < t1; t += TILE_N, job.x += TILE_N, job.out += TILE_N) {
            int cols = (int) (t1 - t < TILE_N ? t1 - t : TILE_N);
            (p.s.K == 1 ? tiles_one_tap : tiles_taps)(&job, rows, cols);
        }
        if (dst->src[CONV_SRC_BIAS] || dst->src[CONV_SRC_RESIDUAL]) {
            for (int m = 0; m < rows; m++) {
                conv_finish(dst, oc + m, t0, t1 - t0, (const float *) ((const char *) dst->data + (size_t) (oc + m) * dst->nb[1]) + t0);
            }
        }
    }
}

/* Lanes j of x[(t + j) * s0 + offset], zero outside 0 .. T-1. */
static vf load_lanes(const float * x, int64_t T, int64_t start, int64_t s0) {
    if (s0 == 1 && start >= 0 && start + VF_N <= T) {
        return vf_load(x + start);
    }
    float lane[VF_N];
    for (int j = 0; j < VF_N; j++) {
        int64_t i = start + j * s0;
        lane[j] = i >= 0 && i < T ? x[i] : 0.0f;
    }
    return vf_load(lane);
}

void KERNEL(cpu_op_conv_1d_dw)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[0];
    const struct ggml_tensor * b = dst->src[1];
    const int64_t K = a->ne[0], T = b->ne[0], T_out = dst->ne[0], C = dst->ne[1];
    const int64_t s0 = ggml_get_op_params_i32(dst, 0), p0 = ggml_get_op_params_i32(dst, 1), d0 = ggml_get_op_params_i32(dst, 2);
    const int64_t chunk = 64 * VF_N, n_chunks = conv_ceil_div(T_out, chunk);
    int64_t first, last;
    cpu_range(task, C * n_chunks, 1, &first, &last);
    for (int64_t unit = first; unit < last; unit++) {
        int64_t c = unit / n_chunks, t0 = unit % n_chunks * chunk;
        int64_t t1 = t0 + chunk < T_out ? t0 + chunk : T_out;
        const char * w = (const char *) a->data + (size_t) c * a->nb[2];
        const float * x = (const float *) ((const char *) b->data + (size_t) c * b->nb[1]);
        float * out = (float *) ((char *) dst->data + (size_t) c * dst->nb[1]);
        for (int64_t t = t0; t < t1; t += VF_N) {
            vf acc = vf_zero();
            for (int64_t k = 0; k < K; k++) {
                float wk;
                rows_f32(a->type, w + (size_t) k * a->nb[0], &wk, 1);
                acc = vf_fma(vf_set1(wk), load_lanes(x, T, t * s0 + k * d0 - p0, s0), acc);
            }
            if (t1 - t >= VF_N) {
                vf_store(out + t, acc);
            } else {
                vf_store_n(out + t, acc, (int) (t1 - t));
            }
        }
    }
}
