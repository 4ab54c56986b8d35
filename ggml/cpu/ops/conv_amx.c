/* conv_amx.c - conv_1d on AMX tiles: the same sums as conv.c, with the reduction in blocks of 32 input channels and the taps inside a block.
 * A tap is an offset into the packed input, so no im2col exists. A time block's input is packed once, by all threads together where there is one
 * block, else by each thread for its own blocks. A thread packs the weights of a panel of 32 output channels when it first meets them: in the file
 * the taps of one channel lie together, here the channels of one tap do. */
#include "conv_amx.h"

#if defined(QT_TIER_AMX)

#include "amx.h"
#include "conv.h"

#define INPUT_BYTES (2048 * 1024)  /* of a block's packed input: a panel takes so long over it that it may come from the L3 cache */
#define PANEL_BYTES (768 * 1024)   /* of packed weights, read again every 32 columns: the widest panel, or all panels of a narrow layer, in 2 MB of L2 */
#define CHANNELS_LEAST 16
#define GATHER_TAPS 16 /* a kernel with more takes the slow way to its weights */

struct amx_plan {
    struct conv_shape s;
    int order, parts;              /* of products; BF16 parts of a weight */
    int64_t n_ic;                  /* blocks of 32 input channels */
    int64_t block, n_blocks;       /* outputs of a time block, a multiple of AMX_BLOCK; blocks */
    int64_t n_panels, n_kept;      /* panels of 32 output channels; those that have a place */
    int64_t phase_len;             /* samples kept of each of the s0 phases */
    int64_t x_pair;                /* bytes of a pair of channels */
    int64_t x_part, x_block;       /* bytes of a part and of all parts of 32 channels */
    size_t panel_bytes, x_bytes, row_bytes, values_bytes, thread_bytes;
};

bool KERNEL(conv_amx_takes)(const struct ggml_tensor * dst) {
    return dst->src[0]->ne[1] >= CHANNELS_LEAST && dst->src[0]->ne[2] >= CHANNELS_LEAST;
}

static struct amx_plan plan_of(const struct ggml_tensor * dst, int nth) {
    struct amx_plan p = { .s = conv_shape_of(dst), .order = conv_order(dst) };
    p.parts = amx_parts(dst->src[0]->type, p.order);
    int64_t halo = conv_halo(&p.s);
    p.n_ic = conv_ceil_div(p.s.IC, AMX_K);
    p.n_panels = conv_ceil_div(p.s.OC, AMX_BLOCK);
    int64_t most = (INPUT_BYTES / (p.n_ic * AMX_K * 2 * p.order) / p.s.s0 - halo) / AMX_BLOCK * AMX_BLOCK;
    int64_t enough = conv_ceil_div(4 * nth, p.n_panels); /* blocks that give each thread four units */
    int64_t n = conv_ceil_div(p.s.T_out, most > AMX_BLOCK ? most : AMX_BLOCK);
    p.block = GGML_PAD(conv_ceil_div(p.s.T_out, n > enough ? n : enough), AMX_BLOCK);
    p.n_blocks = conv_ceil_div(p.s.T_out, p.block);
    p.phase_len = p.block + halo;
    p.x_pair = (GGML_PAD(p.s.s0 * p.phase_len, 16) | 16) * 4; /* an odd number of cache lines */
    p.x_part = p.x_pair * AMX_K / 2;
    p.x_block = p.x_part * p.order;
    p.panel_bytes = AMX_W_STEP(p.parts) * (size_t) (p.n_ic * p.s.K);
    p.n_kept = (int64_t) (PANEL_BYTES / p.panel_bytes);
    p.n_kept = p.n_kept < 1 ? 1 : p.n_kept < p.n_panels ? p.n_kept : p.n_panels;
    p.x_bytes = (size_t) (p.x_block * p.n_ic);
    p.row_bytes = GGML_PAD((size_t) (p.s.s0 * p.phase_len) * sizeof(float), 64);
    p.values_bytes = (size_t) (AMX_K * p.s.K) * sizeof(float);
    p.thread_bytes = p.panel_bytes * (size_t) p.n_kept + (p.n_blocks > 1 ? p.x_bytes : 0) + 2 * p.row_bytes + p.values_bytes + GGML_PAD((size_t) (p.s.K + p.n_kept) * sizeof(int64_t), 64);
    return p;
}

size_t KERNEL(conv_amx_scratch)(const struct ggml_tensor * dst, int nth) {
    struct amx_plan p = plan_of(dst, nth);
    return p.thread_bytes * (size_t) nth + (p.n_blocks > 1 ? 0 : p.x_bytes);
}

/* 32 channels of one tap from a row whose channels are K halves apart: lanes come from each of the K vectors that hold the block. */
struct gather {
    __m512i index;
    __mmask32 from[GATHER_TAPS];
};

static void gather_init(struct gather * g, int64_t K, int64_t k) {
    uint16_t index[AMX_K];
    memset(g->from, 0, sizeof g->from);
    for (int64_t i = 0; i < AMX_K; i++) {
        int64_t at = i * K + k;
        index[i] = (uint16_t) (at % AMX_K);
        g->from[at / AMX_K] |= (__mmask32) (1u << i);
    }
    g->index = _mm512_loadu_si512(index);
}

AMX_INLINE void pack_half(const bool bf16, __m512i v, char * out) {
    if (bf16) {
        _mm512_store_si512(out, v);
        return;
    }
    amx_pack_row(_mm512_cvtph_ps(_mm512_castsi512_si256(v)), _mm512_cvtph_ps(_mm512_extracti64x4_epi64(v, 1)), 2, out);
}

/* One row of F16 or BF16, channels and taps as in the file; out: its row in the first tile of the first step. */
AMX_INLINE void pack_row_half(const bool bf16, const struct amx_plan * p, const struct gather * g, const uint16_t * row, char * out) {
    const int64_t K = p->s.K;
    const size_t step = AMX_W_STEP(bf16 ? 1 : 2);
    __m512i v[GATHER_TAPS];
    for (int64_t ic = 0; ic < p->s.IC; ic += AMX_K, row += AMX_K * K) {
        int64_t n = (p->s.IC - ic < AMX_K ? p->s.IC - ic : AMX_K) * K;
        for (int64_t j = 0; j < K; j++, n -= AMX_K) {
            _mm_prefetch((const char *) ((uintptr_t) (row + j * AMX_K) + 4096), _MM_HINT_T0);
            v[j] = n >= AMX_K ? _mm512_loadu_si512(row + j * AMX_K) : n > 0 ? _mm512_maskz_loadu_epi16((__mmask32) ((1u << n) - 1), row + j * AMX_K) : _mm512_setzero_si512();
        }
        for (int64_t k = 0; k < K; k++, out += step) {
            __m512i taps = K == 1 ? v[0] : _mm512_setzero_si512();
            for (int64_t j = 0; j < (K == 1 ? 0 : K); j++) {
                taps = _mm512_mask_permutexvar_epi16(taps, g[k].from[j], g[k].index, v[j]);
            }
            pack_half(bf16, taps, out);
        }
    }
}

/* The same for any type, by way of F32: parts of what is exact in fewer are zero and left out. */
static void pack_row_any(const struct amx_plan * p, const struct ggml_tensor * a, int64_t oc, float * values, char * out) {
    const int64_t K = p->s.K;
    for (int64_t ic = 0; ic < p->s.IC; ic += AMX_K) {
        int64_t n = p->s.IC - ic < AMX_K ? p->s.IC - ic : AMX_K;
        conv_row_f32(a, oc, ic, n, values);
        for (int64_t k = 0; k < K; k++, out += AMX_W_STEP(p->parts)) {
            float tap[AMX_K] = { 0 };
            for (int64_t i = 0; i < n; i++) {
                tap[i] = values[i * K + k];
            }
            __m512 lo = vf_load(tap), hi = vf_load(tap + VF_N);
            switch (p->parts) {
                case 1: amx_pack_row(lo, hi, 1, out); break;
                case 2: amx_pack_row(lo, hi, 2, out); break;
                default: amx_pack_row(lo, hi, 3, out); break;
            }
        }
    }
}

/* Up to 32 output channels from oc on; rows past the last are zero. */
static void pack_panel(const struct amx_plan * p, const struct ggml_tensor * a, int64_t oc, float * values, char * out) {
    const int64_t rows = p->s.OC - oc < AMX_BLOCK ? p->s.OC - oc : AMX_BLOCK;
    struct gather g[GATHER_TAPS];
    const bool half = (a->type == GGML_TYPE_F16 || a->type == GGML_TYPE_BF16) && p->s.K <= GATHER_TAPS && a->nb[1] == (size_t) p->s.K * a->nb[0];
    for (int64_t k = 0; k < (half ? p->s.K : 0); k++) {
        gather_init(&g[k], p->s.K, k);
    }
    if (rows < AMX_BLOCK) {
        memset(out, 0, p->panel_bytes);
    }
    for (int64_t m = 0; m < rows; m++) {
        char * to = out + m / AMX_ROWS * AMX_TILE + m % AMX_ROWS * 64;
        const uint16_t * row = (const uint16_t *) ((const char *) a->data + (size_t) (oc + m) * a->nb[2]);
        if (!half) {
            pack_row_any(p, a, oc + m, values, to);
        } else if (a->type == GGML_TYPE_BF16) {
            pack_row_half(true, p, g, row, to);
        } else {
            pack_row_half(false, p, g, row, to);
        }
    }
}

/* Channels first .. last - 1, even numbers, of the input of outputs t0 .. of a block, in pairs. */
static void pack_input(const struct amx_plan * p, const struct ggml_tensor * dst, int64_t t0, int64_t first, int64_t last, float * rows, char * out) {
    const int64_t n = p->s.s0 * p->phase_len;
    float * odd = rows + p->row_bytes / sizeof(float);
    for (int64_t ic = first; ic < last; ic += 2) {
        char * to = out + ic / AMX_K * p->x_block + ic % AMX_K / 2 * p->x_pair;
        if (ic >= p->s.IC) {
            for (int part = 0; part < p->order; part++) {
                memset(to + part * p->x_part, 0, (size_t) p->x_pair);
            }
            continue;
        }
        conv_load_channel(dst, &p->s, p->phase_len, ic, t0, rows);
        if (ic + 1 < p->s.IC) {
            conv_load_channel(dst, &p->s, p->phase_len, ic + 1, t0, odd);
        }
        amx_pack_pair(rows, ic + 1 < p->s.IC ? odd : NULL, n, p->order, to, p->x_part);
    }
}

void KERNEL(conv_amx)(const struct cpu_task * task, struct ggml_tensor * dst) {
    struct amx_plan p = plan_of(dst, task->nth);
    const bool shared = p.n_blocks == 1;
    char * panels = (char *) task->scratch + (size_t) task->ith * p.thread_bytes;
    char * own = panels + p.panel_bytes * (size_t) p.n_kept, * x = shared ? (char *) task->scratch + (size_t) task->nth * p.thread_bytes : own;
    float * rows_f = (float *) (shared ? own : own + p.x_bytes);
    float * values = (float *) ((char *) rows_f + 2 * p.row_bytes);
    int64_t * tap = (int64_t *) ((char *) values + p.values_bytes);
    int64_t * kept = tap + p.s.K; /* the panel in each place */
    float sums[AMX_BLOCK][AMX_BLOCK] __attribute__((aligned(64)));
    for (int64_t k = 0; k < p.s.K; k++) {
        tap[k] = conv_tap(&p.s, p.phase_len, k);
    }
    for (int64_t i = 0; i < p.n_kept; i++) {
        kept[i] = -1;
    }
    int64_t first, last, block_loaded = shared ? 0 : -1;
    if (shared) {
        cpu_range(task, p.n_ic * AMX_K, 2, &first, &last);
        pack_input(&p, dst, 0, first, last, rows_f, x);
        cpu_barrier(task);
    }
    cpu_range(task, p.n_blocks * p.n_panels, 1, &first, &last);
    amx_begin();
    for (int64_t unit = first; unit < last; unit++) {
        int64_t block = unit / p.n_panels, panel = unit % p.n_panels, oc = panel * AMX_BLOCK;
        int64_t t0 = block * p.block, t1 = t0 + p.block < p.s.T_out ? t0 + p.block : p.s.T_out;
        char * w = panels + p.panel_bytes * (size_t) (panel % p.n_kept);
        int rows = (int) (p.s.OC - oc < AMX_BLOCK ? p.s.OC - oc : AMX_BLOCK);
        if (block != block_loaded) {
            pack_input(&p, dst, t0, 0, p.n_ic * AMX_K, rows_f, x);
            block_loaded = block;
        }
        if (kept[panel % p.n_kept] != panel) {
            pack_panel(&p, dst->src[0], oc, values, w);
            kept[panel % p.n_kept] = panel;
        }
        AMX_WRITTEN();
        struct amx_job job = { .w = w, .x = x, .x_pair = p.x_pair, .x_part = p.x_part, .n_blocks = p.n_ic, .x_block = p.x_block, .tap = tap,
                               .n_taps = p.s.K, .out = sums };
        for (int64_t t = t0; t < t1; t += AMX_BLOCK, job.x += 4 * AMX_BLOCK) {
            int cols = (int) (t1 - t < AMX_BLOCK ? t1 - t : AMX_BLOCK);
            amx_run_weights_in_rows(&job, p.order, p.parts, rows, cols);
            for (int m = 0; m < rows; m++) {
                conv_finish(dst, oc + m, t, cols, sums[m]);
            }
        }
    }
    amx_end();
}

#endif
