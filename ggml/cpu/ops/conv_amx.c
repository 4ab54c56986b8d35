/* conv_amx.c - conv_1d and conv_transpose_1d on AMX tiles: rows are moments in time, columns output channels (or phases of them), and the reduction goes
 * over blocks of 32 input channels and the taps inside a block. The input is packed once as rows of 32 channels, 64 bytes each, so a tap is an offset of
 * whole cache lines and no im2col exists.
 * Narrow convolutions: the threads pack all weights together, then each takes blocks of time, and all panels of columns over each.
 * Wide ones: the threads pack a chunk of the input together, then share out the panels; a thread packs a chunk of its panels' weights (amx.h) at a time and
 * takes it over all rows, so that packed weights never leave the L2 cache. A sum is the same in both. */
#include "conv_amx.h"

#if defined(QT_TIER_AMX)

#include "conv.h"
#include "conv_amx_weights.h"

#define KEPT_BYTES (1280 * 1024)  /* of packed weights that are all kept: of 2 MB of L2 */
#define BLOCK_BYTES (384 * 1024)  /* of packed input of a narrow convolution's block */
#define CHUNK_BYTES (3072 * 1024) /* of packed input that the threads share: a panel takes so long over it that it may come from the L3 cache */
#define UNITS_LEAST 6              /* blocks of time a thread, so that the threads end at about the same moment */
#define CHANNELS_LEAST 16
#define READ_ROWS 64              /* read at a time: pairs of them stay in the L1 cache */

struct amx_plan {
    struct conv_weights w;
    int64_t step, dilation, before; /* input samples from row to row, from tap to tap; before sample 0 that the first row reads */
    int64_t n_rows;                 /* of the result */
    int64_t n_ic, chunk_ic;         /* blocks of 32 input channels; those of a chunk of the reduction */
    int64_t block;                  /* rows of a block or chunk of time, a multiple of AMX_BLOCK */
    bool keeps;                     /* all packed weights */
    int64_t x_rows, x_part, x_block; /* packed rows of a block; bytes of a part and of all parts of 32 channels */
    size_t weights_bytes, x_bytes, sums_bytes, taps_bytes, thread_bytes;
    int order;                      /* of products */
};

bool KERNEL(conv_amx_takes)(const struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[CONV_SRC_KERNEL];
    if (dst->op == GGML_OP_CONV_TRANSPOSE_1D) {
        return a->ne[1] * ggml_get_op_params_i32(dst, 0) >= CHANNELS_LEAST && a->ne[2] >= CHANNELS_LEAST;
    }
    return a->ne[1] >= CHANNELS_LEAST && a->ne[2] >= CHANNELS_LEAST;
}

static struct amx_plan plan_of(const struct ggml_tensor * dst, int nth) {
    struct amx_plan p = { .order = conv_order(dst) };
    p.w = KERNEL(conv_weights_of)(dst, p.order, nth);
    if (dst->op == GGML_OP_CONV_1D) {
        struct conv_shape s = conv_shape_of(dst);
        p.step = s.s0;
        p.dilation = s.d0;
        p.before = s.p0;
        p.n_rows = s.T_out;
    } else {
        p.step = p.dilation = 1;
        p.before = p.w.taps - 1;
        p.n_rows = dst->src[CONV_SRC_DATA]->ne[0];
    }
    p.n_ic = conv_ceil_div(p.w.IC, AMX_K);
    p.chunk_ic = amx_chunk_blocks(p.w.taps);
    p.chunk_ic = p.chunk_ic < p.n_ic ? p.chunk_ic : p.n_ic;
    const size_t panel_bytes = p.w.step_bytes * (size_t) (p.w.taps * p.n_ic);
    p.keeps = panel_bytes * (size_t) p.w.n_panels <= KEPT_BYTES;
    const int64_t halo = (p.w.taps - 1) * p.dilation + 1, row_bytes = p.n_ic * AMX_PARTS * 64;
    const int64_t most = ((p.keeps ? BLOCK_BYTES : CHUNK_BYTES) / row_bytes - halo) / p.step / AMX_BLOCK * AMX_BLOCK;
    p.block = GGML_PAD(p.keeps && nth > 1 ? conv_ceil_div(p.n_rows, UNITS_LEAST * nth) : p.n_rows, AMX_BLOCK);
    p.block = most < AMX_BLOCK ? AMX_BLOCK : most < p.block ? most : p.block;
    p.x_rows = GGML_PAD((p.block - 1) * p.step + halo + AMX_ROWS - 1, 32) | 16; /* parts fall into different cache sets; groups of 16 rows end inside */
    p.x_part = 64 * p.x_rows;
    p.x_block = p.x_part * AMX_PARTS;
    p.x_bytes = (size_t) (p.x_block * p.n_ic);
    p.weights_bytes = p.keeps ? panel_bytes * (size_t) p.w.n_panels : p.w.step_bytes * (size_t) (p.w.taps * p.chunk_ic * p.w.group);
    p.sums_bytes = (size_t) (p.block * (p.keeps ? 1 : p.w.group)) * AMX_BLOCK * sizeof(float);
    p.taps_bytes = GGML_PAD(2 * (size_t) p.w.taps * sizeof(int64_t), 64);
    p.thread_bytes = (p.keeps ? p.x_bytes : p.weights_bytes) + p.sums_bytes + p.taps_bytes + p.w.values_bytes;
    return p;
}

size_t KERNEL(conv_amx_scratch)(const struct ggml_tensor * dst, int nth) {
    struct amx_plan p = plan_of(dst, nth);
    return (p.keeps ? p.weights_bytes : p.x_bytes) + p.thread_bytes * (size_t) nth;
}

/* n columns of two neighbouring channels, after the activation, as a row of pairs in each part. */
AMX_INLINE void pack_pair(const int act, const struct ggml_tensor * dst, int64_t ic, const float * even, const float * odd, int64_t n, char * out) {
    vf a[2] = { vf_zero(), vf_zero() }, inv_b[2] = { vf_zero(), vf_zero() };
    for (int i = 0; i < (act == GGML_CONV_ACT_SNAKE ? odd ? 2 : 1 : 0); i++) {
        a[i] = vf_set1(((const float *) dst->src[CONV_SRC_SNAKE_A]->data)[ic + i]);
        inv_b[i] = vf_set1(((const float *) dst->src[CONV_SRC_SNAKE_INV_B]->data)[ic + i]);
    }
    for (int64_t t = 0; t < n; t += VF_N, out += 64) {
        const int width = n - t < VF_N ? (int) (n - t) : VF_N;
        vf e = vf_load_n(even + t, width), o = odd ? vf_load_n(odd + t, width) : vf_zero();
        if (act == GGML_CONV_ACT_SNAKE) {
            e = vf_snake(e, a[0], inv_b[0]);
            o = vf_snake(o, a[1], inv_b[1]);
        } else if (act == GGML_CONV_ACT_ELU) {
            e = vf_elu(e);
            o = vf_elu(o);
        }
#pragma GCC unroll 3
        for (int part = 0; part < AMX_PARTS; part++) {
            _mm512_store_si512(out + part * AMX_K / 2 * 4 * READ_ROWS, amx_next_pair(AMX_PARTS, &e, &o));
        }
    }
}

static void pack_pair_any(int act, const struct ggml_tensor * dst, int64_t ic, const float * even, const float * odd, int64_t n, char * out) {
    switch (act) {
        case GGML_CONV_ACT_NONE: pack_pair(GGML_CONV_ACT_NONE, dst, ic, even, odd, n, out); break;
        case GGML_CONV_ACT_SNAKE: pack_pair(GGML_CONV_ACT_SNAKE, dst, ic, even, odd, n, out); break;
        default: pack_pair(GGML_CONV_ACT_ELU, dst, ic, even, odd, n, out); break;
    }
}

/* Input channels of block b, n samples from first on, as packed rows of a block: out is the place of the first in part 0. What lies inside the input is read
 * where it is, what does not by way of conv_read. */
static void pack_rows(const struct amx_plan * p, const struct ggml_tensor * dst, int64_t b, int64_t first, int64_t n, char * out) {
    const struct ggml_tensor * x = dst->src[CONV_SRC_DATA];
    const int act = ggml_get_op_params_i32(dst, 3);
    float rows[2][READ_ROWS];
    char pairs[AMX_PARTS][AMX_K / 2][4 * READ_ROWS] __attribute__((aligned(64)));
    for (int64_t t = 0; t < n; t += READ_ROWS, out += READ_ROWS * 64) {
        const int64_t len = n - t < READ_ROWS ? n - t : READ_ROWS;
        const bool inside = first + t >= 0 && first + t + len <= x->ne[0];
        for (int64_t i = 0; i < AMX_K; i += 2) {
            const int64_t ic = b * AMX_K + i;
            const float * from[2] = { rows[0], ic + 1 < p->w.IC ? rows[1] : NULL };
            if (ic >= p->w.IC) {
                for (int part = 0; part < AMX_PARTS; part++) {
                    memset(pairs[part][i / 2], 0, sizeof pairs[0][0]);
                }
                continue;
            }
            for (int64_t j = 0; j < 2 && ic + j < p->w.IC; j++) {
                if (inside) {
                    from[j] = (const float *) ((const char *) x->data + (size_t) (ic + j) * x->nb[1]) + first + t;
                    for (int64_t line = 0; line < READ_ROWS && t + READ_ROWS < n; line += VF_N) {
                        _mm_prefetch((const char *) (from[j] + READ_ROWS + line), _MM_HINT_T0);
                    }
                } else {
                    conv_read(dst, ic + j, first + t, 1, len, rows[j]);
                }
            }
            pack_pair_any(inside ? act : GGML_CONV_ACT_NONE, dst, ic, from[0], from[1], len, pairs[0][i / 2]);
        }
        for (int part = 0; part < AMX_PARTS; part++) {
            for (int64_t r = 0; r < len; r += AMX_ROWS) {
                amx_turn(pairs[part][0] + 4 * r, sizeof pairs[0][0], out + part * p->x_part + 64 * r, 64);
            }
        }
    }
}

/* What a thread works with. */
struct worker {
    char * x, * weights;
    float (*sums)[AMX_BLOCK];
    int64_t * row_tap, * column_tap;
    float * values;
};

/* Where the results of some rows of a panel will go, and what is added to them. */
static void prefetch_result(const struct amx_plan * p, const struct ggml_tensor * dst, int64_t panel, int64_t t0, int64_t n) {
    const struct ggml_tensor * residual = dst->src[CONV_SRC_RESIDUAL];
    const int64_t first = panel * p->w.panel / p->w.phases, last = first + (conv_weights_columns(&p->w, panel) + p->w.phases - 1) / p->w.phases;
    for (int64_t oc = first; oc < last; oc++) {
        const char * to = (const char *) dst->data + (size_t) oc * dst->nb[1];
        const char * more = residual ? (const char *) residual->data + (size_t) oc * residual->nb[1] : NULL;
        for (size_t at = (size_t) (t0 * p->w.phases) * sizeof(float); at < (size_t) ((t0 + n) * p->w.phases) * sizeof(float); at += 64) {
            __builtin_prefetch(to + at, 1, 3);
            if (more) {
                _mm_prefetch(more + at, _MM_HINT_T0);
            }
        }
    }
}

/* A chunk of the reduction from block b on, over rows t0 .. t0 + n - 1 of a group of panels, the first of the packed input; weights: those of the chunk. Panels
 * of a group are taken over the same rows one after the other: where there are few taps, reading rows would take longer than multiplying them once. */
static void multiply(const struct amx_plan * p, const struct ggml_tensor * dst, const struct worker * t, int64_t b, const char * weights, size_t panel_bytes,
                     int64_t panel, int64_t group, int64_t t0, int64_t n) {
    const int64_t n_blocks = p->n_ic - b < p->chunk_ic ? p->n_ic - b : p->chunk_ic;
    struct amx_job job = {
        .rows = { .at = t->x + b * p->x_block, .row = 64 * p->step, .tile = AMX_ROWS * 64 * p->step, .part = p->x_part, .block = p->x_block,
                  .tap = t->row_tap },
        .columns = { .row = 64, .tile = AMX_TILE, .part = 2 * AMX_TILE, .block = (int64_t) p->w.step_bytes * p->w.taps, .tap = t->column_tap },
        .n_blocks = n_blocks, .n_taps = p->w.taps, .add = b > 0,
    };
    AMX_WRITTEN();
    for (int64_t r = 0; r < n; r += AMX_BLOCK, job.rows.at += AMX_BLOCK * 64 * p->step) {
        const int64_t rows = n - r < AMX_BLOCK ? n - r : AMX_BLOCK;
        for (int64_t g = 0; g < group; g++) {
            if (b + n_blocks == p->n_ic) {
                prefetch_result(p, dst, panel + g, t0 + r, rows);
            }
            job.columns.at = weights + (size_t) g * panel_bytes;
            job.out = t->sums + g * p->block + r;
            amx_run(&job, false, p->order, p->w.parts, (int) rows, (int) conv_weights_columns(&p->w, panel + g));
        }
    }
}

/* The sums of a panel, rows t0 .. t0 + n - 1, to the result, 16 by 16. What is added is read before anything is written: rows of residual and result often lie
 * at the same place of their pages, where a load waits for the stores before it. */
static void store_channels(const struct ggml_tensor * dst, int64_t oc, int cols, int64_t t0, int64_t n, float (*sums)[AMX_BLOCK]) {
    const struct ggml_tensor * bias = dst->src[CONV_SRC_BIAS], * residual = dst->src[CONV_SRC_RESIDUAL];
    for (int c = 0; c < cols; c += AMX_ROWS) {
        const int n_oc = cols - c < AMX_ROWS ? cols - c : AMX_ROWS;
        float b[AMX_ROWS] = { 0 };
        if (bias) {
            memcpy(b, (const float *) bias->data + oc + c, (size_t) n_oc * sizeof b[0]);
        }
        for (int64_t t = 0; t < n; t += AMX_ROWS) {
            const int len = (int) (n - t < AMX_ROWS ? n - t : AMX_ROWS);
            char * out = (char *) dst->data + (size_t) (oc + c) * dst->nb[1] + (size_t) (t0 + t) * sizeof(float);
            __m512i v[AMX_ROWS];
#pragma GCC unroll 16
            for (int i = 0; i < AMX_ROWS; i++) {
                v[i] = _mm512_load_si512(&sums[t + i][c]);
            }
            amx_turn_rows(v);
            vf y[AMX_ROWS];
#pragma GCC unroll 16
            for (int i = 0; i < AMX_ROWS; i++) {
                y[i] = vf_add(_mm512_castsi512_ps(v[i]), vf_set1(b[i]));
            }
            if (residual) {
                const char * more = (const char *) residual->data + (size_t) (oc + c) * residual->nb[1] + (size_t) (t0 + t) * sizeof(float);
#pragma GCC unroll 16
                for (int i = 0; i < AMX_ROWS; i++) {
                    y[i] = i < n_oc ? vf_add(y[i], vf_load_n((const float *) (more + (size_t) i * residual->nb[1]), len)) : y[i];
                }
            }
#pragma GCC unroll 16
            for (int i = 0; i < AMX_ROWS; i++) {
                if (i < n_oc) {
                    vf_store_n((float *) (out + (size_t) i * dst->nb[1]), y[i], len);
                }
            }
        }
    }
}

/* Transposed: a row has the phases of a channel side by side, as the result does. */
static void store_phases(const struct amx_plan * p, const struct ggml_tensor * dst, int64_t panel, int cols, int64_t t0, int64_t n, float (*sums)[AMX_BLOCK]) {
    const float * bias = dst->src[CONV_SRC_BIAS] ? dst->src[CONV_SRC_BIAS]->data : NULL;
    const int64_t phases = p->w.phases;
    for (int64_t c = 0, len; c < cols; c += len) {
        const int64_t column = panel * p->w.panel + c, oc = column / phases, phase = column % phases;
        len = phases - phase < cols - c ? phases - phase : cols - c;
        len = len < VF_N ? len : VF_N;
        float * out = (float *) ((char *) dst->data + (size_t) oc * dst->nb[1]) + t0 * phases + phase;
        const vf b = vf_set1(bias ? bias[oc] : 0.0f);
        for (int64_t t = 0; t < n; t++, out += phases) {
            vf_store_n(out, vf_add(vf_load_n(&sums[t][c], (int) len), b), (int) len);
        }
    }
}

static void store(const struct amx_plan * p, const struct ggml_tensor * dst, int64_t panel, int64_t t0, int64_t n, float (*sums)[AMX_BLOCK]) {
    const int cols = (int) conv_weights_columns(&p->w, panel);
    if (p->w.phases == 1) {
        store_channels(dst, panel * p->w.panel, cols, t0, n, sums);
    } else {
        store_phases(p, dst, panel, cols, t0, n, sums);
    }
}

/* weights: all of them, packed by all threads. */
static void run_narrow(const struct cpu_task * task, const struct amx_plan * p, struct ggml_tensor * dst, struct worker * t, char * weights) {
    const size_t block_bytes = p->w.step_bytes * (size_t) p->w.taps, panel_bytes = block_bytes * (size_t) p->n_ic;
    const int64_t halo = (p->w.taps - 1) * p->dilation + 1, n_groups = conv_ceil_div(p->w.n_panels, p->w.group);
    int64_t have = 0, from = 0; /* packed rows that are there already, for a block at from */
    for (int64_t own = 0, u; (u = cpu_claim(task, &own)) < n_groups * p->n_ic;) {
        const int64_t panel = u / p->n_ic * p->w.group, b = u % p->n_ic;
        KERNEL(conv_weights_pack)(&p->w, panel, b, 1, t->values, weights + (size_t) panel * panel_bytes + (size_t) b * block_bytes, panel_bytes);
    }
    cpu_barrier(task);
    for (int64_t own = 0, t0; (t0 = cpu_claim(task, &own) * p->block) < p->n_rows;) {
        const int64_t n = p->n_rows - t0 < p->block ? p->n_rows - t0 : p->block, want = (n - 1) * p->step + halo;
        have = t0 == from ? have : 0;
        for (int64_t b = 0; b < p->n_ic && want > have; b++) {
            pack_rows(p, dst, b, t0 * p->step - p->before + have, want - have, t->x + b * p->x_block + 64 * have);
        }
        for (int64_t panel = 0; panel < p->w.n_panels; panel++) {
            for (int64_t b = 0; b < p->n_ic; b += p->chunk_ic) {
                multiply(p, dst, t, b, weights + (size_t) panel * panel_bytes + (size_t) b * block_bytes, panel_bytes, panel, 1, t0, n);
            }
            store(p, dst, panel, t0, n, t->sums);
        }
        from = t0 + n;
        have = want > n * p->step ? want - n * p->step : 0;
        for (int64_t plane = 0; plane < p->n_ic * AMX_PARTS; plane++) {
            memmove(t->x + plane * p->x_part, t->x + plane * p->x_part + 64 * n * p->step, (size_t) (64 * have));
        }
    }
}

static void run_wide(const struct cpu_task * task, const struct amx_plan * p, struct ggml_tensor * dst, struct worker * t) {
    const size_t panel_bytes = p->w.step_bytes * (size_t) (p->w.taps * p->chunk_ic);
    const int64_t halo = (p->w.taps - 1) * p->dilation + 1;
    for (int64_t t0 = 0; t0 < p->n_rows; t0 += p->block) {
        const int64_t n = p->n_rows - t0 < p->block ? p->n_rows - t0 : p->block, want = (n - 1) * p->step + halo, n_reads = conv_ceil_div(want, READ_ROWS);
        if (t0 > 0) {
            cpu_barrier(task); /* the chunk before is no longer read */
        }
        for (int64_t own = 0, u; (u = cpu_claim(task, &own)) < p->n_ic * n_reads;) {
            const int64_t b = u / n_reads, r = u % n_reads * READ_ROWS;
            pack_rows(p, dst, b, t0 * p->step - p->before + r, want - r < READ_ROWS ? want - r : READ_ROWS, t->x + b * p->x_block + 64 * r);
        }
        cpu_barrier(task);
        for (int64_t own = 0, first; (first = cpu_claim(task, &own) * p->w.group) < p->w.n_panels;) {
            const int64_t group = p->w.n_panels - first < p->w.group ? p->w.n_panels - first : p->w.group;
            for (int64_t b = 0; b < p->n_ic; b += p->chunk_ic) {
                const int64_t n_blocks = p->n_ic - b < p->chunk_ic ? p->n_ic - b : p->chunk_ic;
                KERNEL(conv_weights_pack)(&p->w, first, b, n_blocks, t->values, t->weights, panel_bytes);
                multiply(p, dst, t, b, t->weights, panel_bytes, first, group, t0, n);
            }
            for (int64_t g = 0; g < group; g++) {
                store(p, dst, first + g, t0, n, t->sums + g * p->block);
            }
        }
    }
}

void KERNEL(conv_amx)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct amx_plan p = plan_of(dst, task->nth);
    char * shared = task->scratch, * own = shared + (p.keeps ? p.weights_bytes : p.x_bytes) + p.thread_bytes * (size_t) task->ith;
    struct worker t = { .x = p.keeps ? own : shared, .weights = p.keeps ? shared : own };
    own += p.keeps ? p.x_bytes : p.weights_bytes;
    t.sums = (float (*)[AMX_BLOCK]) (void *) own;
    t.row_tap = (int64_t *) (void *) (own + p.sums_bytes);
    t.column_tap = t.row_tap + p.w.taps;
    t.values = (float *) (void *) (own + p.sums_bytes + p.taps_bytes);
    for (int64_t k = 0; k < p.w.taps; k++) {
        t.row_tap[k] = 64 * p.dilation * k;
        t.column_tap[k] = (int64_t) p.w.step_bytes * k;
    }
    amx_begin();
    if (p.keeps) {
        run_narrow(task, &p, dst, &t, shared);
    } else {
        run_wide(task, &p, dst, &t);
    }
    amx_end();
}

#endif
