/* conv_amx.c - conv_1d and conv_transpose_1d on AMX tiles: rows are moments in time, columns output channels (or phases of them), and the reduction goes
 * over blocks of 32 input channels and the taps inside a block. The input is packed once as rows of 32 channels, 64 bytes each, so a tap is an offset of
 * whole cache lines and no im2col exists.
 * Narrow convolutions: the threads pack all weights together, then each takes blocks of time, and all panels of columns over each.
 * Wide ones: the threads pack a chunk of the input together, then share out the panels; a thread packs a chunk of its panels' weights (amx.h) at a time and
 * takes it over all rows, so that packed weights never leave the L2 cache. A sum is the same in both.
 * A pair, a convolution and one of one tap behind it: sums of the first go to packed rows of the second without being turned or stored in between; narrow
 * ones do so for a few rows at a time, wide ones share them and meet once. */
#include "conv_amx.h"

#if defined(QT_TIER_AMX)

#include "conv.h"
#include "conv_amx_result.h"
#include "conv_amx_rows.h"

#define KEPT_BYTES (1280 * 1024)  /* of packed weights that are all kept: of 2 MB of L2 */
#define BLOCK_BYTES (384 * 1024)  /* of packed input of a narrow convolution's block */
#define CHUNK_BYTES (3072 * 1024) /* of packed input that the threads share: a panel takes so long over it that it may come from the L3 cache */
#define UNITS_LEAST 6              /* blocks of time a thread, so that the threads end at about the same moment */
#define CHANNELS_LEAST 16
#define PART_ROWS 128              /* of a narrow block that all panels are taken over before the next: the rows between a pair stay in the L1 cache */
#define READ_ROWS 64               /* of the input that a thread packs at a time */

/* One convolution, and how its packed rows lie. */
struct amx_conv {
    struct conv_weights w;
    int64_t n_ic, chunk_ic;          /* blocks of 32 input channels; those of a chunk of the reduction */
    int64_t step, dilation;          /* input samples from row to row, from tap to tap */
    int64_t rows, part, block;       /* packed rows; bytes of a part and of all parts of 32 channels */
    size_t panel_bytes, chunk_bytes; /* packed weights of a panel: all, of a chunk */
    int order;                       /* of products */
};

struct amx_plan {
    struct amx_conv one, two; /* two: of a pair */
    bool pair, keeps;         /* keeps: all packed weights */
    int64_t before, halo;     /* samples before 0 that the first row reads; samples a row reads */
    int64_t n_rows;           /* of the result */
    int64_t time;             /* rows of a block or chunk of time, a multiple of AMX_BLOCK */
    int64_t time_part;        /* of a narrow block */
    size_t weights_bytes, chunks_bytes; /* packed weights: all, those a thread of a wide one packs at a time */
    size_t x_bytes, y_bytes, sums_bytes, taps_bytes, shared_bytes, thread_bytes;
};

bool KERNEL(conv_amx_takes)(const struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[CONV_SRC_KERNEL];
    if (dst->op == GGML_OP_CONV_TRANSPOSE_1D) {
        const int64_t stride = ggml_get_op_params_i32(dst, 0);
        return stride > 1 && a->ne[1] * stride >= CHANNELS_LEAST && a->ne[2] >= CHANNELS_LEAST;
    }
    return a->ne[1] >= CHANNELS_LEAST && a->ne[2] >= CHANNELS_LEAST;
}

static bool overlap(const struct ggml_tensor * a, const struct ggml_tensor * b) {
    const char * x = a->data, * y = b->data;
    return x < y + ggml_nbytes(b) && y < x + ggml_nbytes(a);
}

bool KERNEL(conv_amx_pairs)(const struct ggml_tensor * first, const struct ggml_tensor * second) {
    if (first->op != GGML_OP_CONV_1D || second->op != GGML_OP_CONV_1D || second->src[CONV_SRC_DATA] != first || !KERNEL(conv_amx_takes)(first) ||
        !KERNEL(conv_amx_takes)(second)) {
        return false;
    }
    const struct ggml_tensor * past = first->src[CONV_SRC_PAST];
    const bool one_tap = second->src[CONV_SRC_KERNEL]->ne[0] == 1 && ggml_get_op_params_i32(second, 0) == 1 && ggml_get_op_params_i32(second, 1) == 0;
    return one_tap && !first->src[CONV_SRC_RESIDUAL] && !overlap(second, first->src[CONV_SRC_DATA]) && !(past && overlap(second, past));
}

static struct amx_conv conv_of(const struct ggml_tensor * dst, int nth) {
    struct amx_conv c = { .order = conv_order(dst), .step = 1, .dilation = 1 };
    c.w = KERNEL(conv_weights_of)(dst, c.order, nth);
    if (dst->op == GGML_OP_CONV_1D) {
        c.step = ggml_get_op_params_i32(dst, 0);
        c.dilation = ggml_get_op_params_i32(dst, 2);
    }
    c.n_ic = conv_ceil_div(c.w.IC, AMX_K);
    c.chunk_ic = amx_chunk_blocks(c.w.taps);
    c.chunk_ic = c.chunk_ic < c.n_ic ? c.chunk_ic : c.n_ic;
    c.panel_bytes = c.w.step_bytes * (size_t) (c.w.taps * c.n_ic);
    c.chunk_bytes = c.w.step_bytes * (size_t) (c.w.taps * c.chunk_ic);
    return c;
}

/* Room for n packed rows, in whole tiles. */
static size_t set_rows(struct amx_conv * c, int64_t n) {
    c->rows = GGML_PAD(n + AMX_ROWS - 1, 32) | 16; /* parts fall into different cache sets */
    c->part = 64 * c->rows;
    c->block = c->part * AMX_PARTS;
    return (size_t) (c->block * c->n_ic);
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* second: NULL but for a pair. */
static struct amx_plan plan_of(const struct ggml_tensor * dst, const struct ggml_tensor * second, int nth) {
    struct amx_plan p = { .one = conv_of(dst, nth), .pair = second != NULL };
    p.halo = (p.one.w.taps - 1) * p.one.dilation + 1;
    p.before = dst->op == GGML_OP_CONV_1D ? ggml_get_op_params_i32(dst, 1) : p.one.w.taps - 1;
    p.n_rows = dst->op == GGML_OP_CONV_1D ? dst->ne[0] : dst->src[CONV_SRC_DATA]->ne[0];
    p.weights_bytes = p.one.panel_bytes * (size_t) p.one.w.n_panels;
    int64_t group = p.one.w.group;
    size_t values_bytes = p.one.w.values_bytes;
    p.chunks_bytes = p.one.chunk_bytes * (size_t) group;
    if (p.pair) {
        p.two = conv_of(second, nth);
        p.weights_bytes += p.two.panel_bytes * (size_t) p.two.w.n_panels;
        group = group > p.two.w.group ? group : p.two.w.group;
        values_bytes = larger(values_bytes, p.two.w.values_bytes);
        p.chunks_bytes = larger(p.chunks_bytes, p.two.chunk_bytes * (size_t) p.two.w.group);
    }
    p.keeps = p.weights_bytes <= KEPT_BYTES;
    const int64_t most = ((p.keeps ? BLOCK_BYTES : CHUNK_BYTES) / (p.one.n_ic * AMX_PARTS * 64) - p.halo) / p.one.step / AMX_BLOCK * AMX_BLOCK;
    p.time = GGML_PAD(p.keeps && nth > 1 ? conv_ceil_div(p.n_rows, UNITS_LEAST * nth) : p.n_rows, AMX_BLOCK);
    p.time = most < AMX_BLOCK ? AMX_BLOCK : most < p.time ? most : p.time;
    p.time_part = p.time < PART_ROWS ? p.time : PART_ROWS;
    p.x_bytes = set_rows(&p.one, (p.time - 1) * p.one.step + p.halo);
    p.y_bytes = p.pair ? set_rows(&p.two, p.keeps ? p.time_part : p.time) : 0;
    p.sums_bytes = (size_t) (p.keeps ? p.time_part : p.time * group) * AMX_BLOCK * sizeof(float);
    p.taps_bytes = GGML_PAD(2 * (size_t) p.one.w.taps * sizeof(int64_t), 64);
    p.shared_bytes = p.keeps ? p.weights_bytes : p.x_bytes + p.y_bytes;
    p.thread_bytes = (p.keeps ? p.x_bytes + p.y_bytes : p.chunks_bytes) + p.sums_bytes + GGML_PAD(values_bytes, 64) + p.taps_bytes;
    return p;
}

size_t KERNEL(conv_amx_scratch)(const struct ggml_tensor * dst, int nth) {
    const struct amx_plan p = plan_of(dst, NULL, nth);
    return p.shared_bytes + p.thread_bytes * (size_t) nth;
}

size_t KERNEL(conv_amx_pair_scratch)(const struct ggml_tensor * first, const struct ggml_tensor * second, int nth) {
    const struct amx_plan p = plan_of(first, second, nth);
    return p.shared_bytes + p.thread_bytes * (size_t) nth;
}

/* What a thread works with. */
struct worker {
    char * x, * y, * weights; /* rows of the first and of the second convolution, weights: of the thread or of all, as the plan says */
    float (*sums)[AMX_BLOCK];
    int64_t * row_tap, * column_tap;
    float * values;
};

/* A chunk of the reduction from block b on, over n rows of a group of panels; x: the first of the packed rows, weights: those of the chunk. Sums of a panel lie
 * sums_rows apart. Panels of a group are taken over the same rows one after the other: where there are few taps, reading rows would take longer than
 * multiplying them once. */
static void multiply(const struct amx_conv * c, const struct worker * t, const char * x, int64_t b, const char * weights, size_t panel_bytes, int64_t panel,
                     int64_t group, int64_t n, int64_t sums_rows) {
    const int64_t n_blocks = c->n_ic - b < c->chunk_ic ? c->n_ic - b : c->chunk_ic;
    const bool one_tap = c->w.taps == 1;
    struct amx_job job = {
        .rows = { .at = x + b * c->block, .row = 64 * c->step, .tile = AMX_ROWS * 64 * c->step, .part = c->part, .block = c->block,
                  .tap = one_tap ? NULL : t->row_tap },
        .columns = { .row = 64, .tile = AMX_TILE, .part = 2 * AMX_TILE, .block = (int64_t) c->w.step_bytes * c->w.taps, .tap = one_tap ? NULL : t->column_tap },
        .n_blocks = n_blocks, .n_taps = c->w.taps, .add = b > 0,
    };
    AMX_WRITTEN();
    for (int64_t r = 0; r < n; r += AMX_BLOCK, job.rows.at += AMX_BLOCK * 64 * c->step) {
        const int64_t rows = n - r < AMX_BLOCK ? n - r : AMX_BLOCK;
        for (int64_t g = 0; g < group; g++) {
            job.columns.at = weights + (size_t) g * panel_bytes;
            job.out = t->sums + g * sums_rows + r;
            amx_run(&job, false, c->order, c->w.parts, (int) rows, (int) conv_weights_columns(&c->w, panel + g));
        }
    }
}

/* All weights, shared out by panels and blocks of channels. */
static void pack_weights(const struct cpu_task * task, const struct amx_conv * c, float * values, char * weights) {
    for (int64_t own = 0, u; (u = cpu_claim(task, &own)) < conv_ceil_div(c->w.n_panels, c->w.group) * c->n_ic;) {
        const int64_t panel = u / c->n_ic * c->w.group, b = u % c->n_ic;
        char * to = weights + (size_t) panel * c->panel_bytes + (size_t) b * c->w.step_bytes * (size_t) c->w.taps;
        KERNEL(conv_weights_pack)(&c->w, panel, b, 1, values, to, c->panel_bytes);
    }
    cpu_barrier(task);
}

/* All panels over a part of a block, n rows from t0 on. */
static void run_part(const struct amx_plan * p, const struct ggml_tensor * dst, const struct ggml_tensor * second, const struct worker * t, const char * x,
                     int64_t t0, int64_t n) {
    const struct amx_conv * c = &p->one;
    for (int64_t panel = 0; panel < c->w.n_panels; panel++) {
        for (int64_t b = 0; b < c->n_ic; b += c->chunk_ic) {
            const char * weights = t->weights + (size_t) panel * c->panel_bytes + (size_t) b * c->w.step_bytes * (size_t) c->w.taps;
            multiply(c, t, x, b, weights, 0, panel, 1, n, 0);
        }
        if (p->pair) {
            const int cols = (int) conv_weights_columns(&c->w, panel);
            KERNEL(conv_rows_pass)(dst, second, panel * AMX_BLOCK, cols, n, t->sums, p->two.part, t->y + panel * p->two.block);
        } else {
            KERNEL(conv_result_store)(&c->w, dst, panel, t0, n, t->sums);
        }
    }
    const char * weights = t->weights + (size_t) c->w.n_panels * c->panel_bytes;
    c = &p->two;
    for (int64_t panel = 0; panel < (p->pair ? c->w.n_panels : 0); panel++) {
        for (int64_t b = 0; b < c->n_ic; b += c->chunk_ic) {
            multiply(c, t, t->y, b, weights + (size_t) panel * c->panel_bytes + (size_t) b * c->w.step_bytes, 0, panel, 1, n, 0);
        }
        KERNEL(conv_result_store)(&c->w, second, panel, t0, n, t->sums);
    }
}

static void run_narrow(const struct cpu_task * task, const struct amx_plan * p, struct ggml_tensor * dst, struct ggml_tensor * second, struct worker * t) {
    const struct amx_conv * c = &p->one;
    int64_t have = 0, from = 0; /* packed rows that are there already, for a block at from */
    pack_weights(task, c, t->values, t->weights);
    if (p->pair) {
        pack_weights(task, &p->two, t->values, t->weights + (size_t) c->w.n_panels * c->panel_bytes);
    }
    for (int64_t own = 0, t0; (t0 = cpu_claim(task, &own) * p->time) < p->n_rows;) {
        const int64_t n = p->n_rows - t0 < p->time ? p->n_rows - t0 : p->time, want = (n - 1) * c->step + p->halo;
        have = t0 == from ? have : 0;
        for (int64_t b = 0; b < c->n_ic && want > have; b++) {
            KERNEL(conv_rows_pack)(dst, b, t0 * c->step - p->before + have, want - have, c->part, t->x + b * c->block + 64 * have);
        }
        for (int64_t r = 0; r < n; r += p->time_part) {
            run_part(p, dst, second, t, t->x + 64 * r * c->step, t0 + r, n - r < p->time_part ? n - r : p->time_part);
        }
        from = t0 + n;
        have = want > n * c->step ? want - n * c->step : 0;
        for (int64_t plane = 0; plane < c->n_ic * AMX_PARTS; plane++) {
            memmove(t->x + plane * c->part, t->x + plane * c->part + 64 * n * c->step, (size_t) (64 * have));
        }
    }
}

/* Panels of one convolution over n packed rows x, those of t0 on: to rows of the convolution behind, or to the result where that is NULL. */
static void run_panels(const struct cpu_task * task, const struct amx_plan * p, const struct amx_conv * c, const struct worker * t, const char * x,
                       const struct ggml_tensor * dst, const struct ggml_tensor * behind, int64_t t0, int64_t n) {
    for (int64_t own = 0, first; (first = cpu_claim(task, &own) * c->w.group) < c->w.n_panels;) {
        const int64_t group = c->w.n_panels - first < c->w.group ? c->w.n_panels - first : c->w.group;
        for (int64_t b = 0; b < c->n_ic; b += c->chunk_ic) {
            const int64_t n_blocks = c->n_ic - b < c->chunk_ic ? c->n_ic - b : c->chunk_ic;
            KERNEL(conv_weights_pack)(&c->w, first, b, n_blocks, t->values, t->weights, c->chunk_bytes);
            multiply(c, t, x, b, t->weights, c->chunk_bytes, first, group, n, p->time);
        }
        for (int64_t g = 0; g < group; g++) {
            float (*sums)[AMX_BLOCK] = t->sums + g * p->time;
            if (behind) {
                KERNEL(conv_rows_pass)(dst, behind, (first + g) * AMX_BLOCK, (int) conv_weights_columns(&c->w, first + g), n, sums, p->two.part,
                                       t->y + (first + g) * p->two.block);
            } else {
                KERNEL(conv_result_store)(&c->w, dst, first + g, t0, n, sums);
            }
        }
    }
}

static void run_wide(const struct cpu_task * task, const struct amx_plan * p, struct ggml_tensor * dst, struct ggml_tensor * second, struct worker * t) {
    const struct amx_conv * c = &p->one;
    for (int64_t t0 = 0; t0 < p->n_rows; t0 += p->time) {
        const int64_t n = p->n_rows - t0 < p->time ? p->n_rows - t0 : p->time, want = (n - 1) * c->step + p->halo, n_reads = conv_ceil_div(want, READ_ROWS);
        if (t0 > 0) {
            cpu_barrier(task); /* the chunk before is no longer read */
        }
        for (int64_t own = 0, u; (u = cpu_claim(task, &own)) < c->n_ic * n_reads;) {
            const int64_t b = u / n_reads, r = u % n_reads * READ_ROWS;
            KERNEL(conv_rows_pack)(dst, b, t0 * c->step - p->before + r, want - r < READ_ROWS ? want - r : READ_ROWS, c->part, t->x + b * c->block + 64 * r);
        }
        cpu_barrier(task);
        run_panels(task, p, c, t, t->x, dst, second, t0, n);
        if (p->pair) {
            cpu_barrier(task);
            run_panels(task, p, &p->two, t, t->y, second, NULL, t0, n);
        }
    }
}

static void run(const struct cpu_task * task, struct ggml_tensor * dst, struct ggml_tensor * second) {
    const struct amx_plan p = plan_of(dst, second, task->nth);
    char * shared = task->scratch, * own = shared + p.shared_bytes + p.thread_bytes * (size_t) task->ith;
    struct worker t = { .weights = p.keeps ? shared : own, .x = p.keeps ? own : shared };
    t.y = t.x + p.x_bytes;
    t.row_tap = (int64_t *) (void *) (own + p.thread_bytes - p.taps_bytes);
    t.column_tap = t.row_tap + p.one.w.taps;
    own += p.keeps ? p.x_bytes + p.y_bytes : p.chunks_bytes;
    t.sums = (float (*)[AMX_BLOCK]) (void *) own;
    t.values = (float *) (void *) (own + p.sums_bytes);
    for (int64_t k = 0; k < p.one.w.taps; k++) {
        t.row_tap[k] = 64 * p.one.dilation * k;
        t.column_tap[k] = (int64_t) p.one.w.step_bytes * k;
    }
    amx_begin();
    if (p.keeps) {
        run_narrow(task, &p, dst, second, &t);
    } else {
        run_wide(task, &p, dst, second, &t);
    }
    amx_end();
}

void KERNEL(conv_amx)(const struct cpu_task * task, struct ggml_tensor * dst) { run(task, dst, NULL); }
void KERNEL(conv_amx_pair)(const struct cpu_task * task, struct ggml_tensor * first, struct ggml_tensor * second) { run(task, first, second); }

#endif
