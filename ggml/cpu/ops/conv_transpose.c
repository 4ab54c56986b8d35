/* conv_transpose.c - causal transposed convolution: w [K, OC, IC], x [T, IC] -> [T*s0, OC], out[oc][t*s0 + r] = sum over ic, j of w[ic][oc][j*s0 + r] * x[ic][t - j].
 * A column of products x[., t] . w[., oc, k] holds what one input column adds to K outputs; overlapping them is a sum of J = ceil(K / s0) of them. Products are made
 * for a few output channels (a panel, as much of the weights as fits a cache) and a run of columns at a time, and overlapped while a cache holds them.
 * All threads pack a chunk of the input, then share out (panel, run). Products: register tiles of tile.h. Where the tier has AMX tiles, conv_amx.c computes all
 * but the narrowest. */
#include "conv.h"
#include "conv_amx.h"
#include "tile.h"

#define CHUNK_FLOATS (1024 * 1024) /* of input packed at a time, shared by all threads */
#define PANEL_FLOATS (128 * 1024)  /* of weights that a panel may take: 512 KB */
#define RUN_FLOATS (64 * 1024)     /* of products that are overlapped while a cache holds them */
#define PREFETCH_ROWS 8            /* rows of weights ahead: a panel is a few lines of each, pages apart */
#define READ_COLUMNS 256           /* of a channel read at a time */

#define GROUP TILE_M               /* columns that are packed together */

struct transpose_plan {
    int64_t K, OC, IC, T, s0, J;
    int64_t chunk;                /* outputs' columns of a chunk, a multiple of GROUP */
    int64_t panel, n_panels;      /* output channels of a panel */
    int64_t m_row;                /* floats from one column of products to the next */
    int64_t run;                  /* columns overlapped at a time, a multiple of GROUP */
    int64_t w_row;                /* floats of a row of weights */
    size_t group_bytes;           /* GROUP packed columns */
    size_t weights_bytes, products_bytes, thread_bytes, chunk_bytes;
};

static struct transpose_plan plan_of(const struct ggml_tensor * dst, int nth) {
    const struct ggml_tensor * a = dst->src[CONV_SRC_KERNEL];
    struct transpose_plan p = { .K = a->ne[0], .OC = a->ne[1], .IC = a->ne[2], .T = dst->src[CONV_SRC_DATA]->ne[0], .s0 = ggml_get_op_params_i32(dst, 0) };
    p.J = conv_ceil_div(p.K, p.s0);
    p.chunk = CHUNK_FLOATS / p.IC / GROUP * GROUP;
    p.chunk = p.chunk < GROUP ? GROUP : p.chunk < GGML_PAD(p.T, GROUP) ? p.chunk : GGML_PAD(p.T, GROUP);
    p.panel = PANEL_FLOATS / (p.IC * p.K);
    int64_t share = conv_ceil_div(p.OC, 2 * nth); /* two panels a thread at least */
    p.panel = p.panel < 1 ? 1 : p.panel < share ? p.panel : share;
    p.n_panels = conv_ceil_div(p.OC, p.panel);
    p.m_row = tile_row_floats(GGML_PAD(p.panel * p.K, 32));
    p.run = (RUN_FLOATS / p.m_row - (p.J - 1)) / GROUP * GROUP;
    p.run = p.run < GROUP ? GROUP : p.run < p.chunk ? p.run : p.chunk;
    p.group_bytes = (size_t) (p.IC * GROUP) * sizeof(float);
    p.w_row = p.m_row;
    p.weights_bytes = (size_t) (p.IC * p.w_row) * sizeof(float);
    p.products_bytes = (size_t) ((p.run + GGML_PAD(p.J - 1, GROUP)) * p.m_row) * sizeof(float);
    p.chunk_bytes = p.group_bytes * (size_t) (p.chunk / GROUP + conv_ceil_div(p.J - 1, GROUP));
    p.thread_bytes = GGML_PAD(p.weights_bytes + p.products_bytes, 64);
    return p;
}

size_t KERNEL(cpu_scratch_conv_transpose_1d)(const struct ggml_tensor * dst, int nth) {
#if defined(QT_TIER_AMX)
    if (KERNEL(conv_amx_takes)(dst)) {
        return KERNEL(conv_amx_scratch)(dst, nth);
    }
#endif
    struct transpose_plan p = plan_of(dst, nth);
    return GGML_PAD(p.chunk_bytes, 64) + p.thread_bytes * (size_t) nth;
}

/* One input channel of columns c .. c + n - 1, column 0 being sample first: GROUP of them side by side. */
static void pack_columns(const struct ggml_tensor * dst, const struct transpose_plan * p, int64_t k, int64_t first, int64_t c, int64_t n, char * chunk) {
    float row[READ_COLUMNS];
    conv_read(dst, k, first + c, 1, n, row);
    for (int64_t t = 0; t < n; t += GROUP) {
        memcpy(chunk + (size_t) ((c + t) / GROUP) * p->group_bytes + (size_t) (k * GROUP) * sizeof(float), row + t, GROUP * sizeof(float));
    }
}

static void load_weights(const struct transpose_plan * p, const struct ggml_tensor * a, int64_t oc, int64_t n_oc, char * out) {
    const int64_t n = n_oc * p->K;
    const size_t bytes = (size_t) n * a->nb[0];
    float * to = (float *) out;
    for (int64_t ic = 0; ic < p->IC; ic++, to += p->w_row) {
        const char * row = (const char *) a->data + (size_t) ic * a->nb[2] + (size_t) oc * a->nb[1];
        for (size_t line = 0; line < bytes && ic + PREFETCH_ROWS < p->IC; line += 64) {
            __builtin_prefetch(row + PREFETCH_ROWS * a->nb[2] + line, 0, 3);
        }
        rows_f32(a->type, row, to, n);
        memset(to + n, 0, (size_t) (GGML_PAD(n, VF_N) - n) * sizeof(float));
    }
}

static void tiles_across(const struct tile_job * job, int rows, int cols) { tile_run(*job, rows, cols, true, true); }

/* Columns of one group times n weights: out[c * m_row + m]. */
static void multiply(const struct transpose_plan * p, const char * group, const char * weights, int64_t n, int cols, float * out) {
    struct tile_job job = { .w = (const float *) group, .w_row = GROUP, .x = (const float *) weights, .x_step = p->w_row, .n_steps = p->IC, .out = out, .out_row = p->m_row };
    for (int64_t m = 0; m < n; m += TILE_N, job.x += TILE_N, job.out += TILE_N) {
        tiles_across(&job, cols, (int) (n - m < TILE_N ? n - m : TILE_N));
    }
}

/* n outputs of a slot, from phase r on, of the channel whose products start at columns: bias + sum over j of column -j at j*s0 + r. */
static void overlap(const struct transpose_plan * p, const float * column, int64_t r, int n, vf bias, bool add_bias, float * out) {
    vf acc = vf_load_n(column + r, n);
    for (int64_t j = 1; j * p->s0 + r < p->K; j++) {
        int64_t tap = j * p->s0 + r;
        acc = vf_add(acc, vf_load_n(column - j * p->m_row + tap, p->K - tap < n ? (int) (p->K - tap) : n));
    }
    vf_store_n(out, add_bias ? vf_add(acc, bias) : acc, n);
}

/* Outputs of columns t0 .. t0 + n - 1 of a panel; products: the first belongs to column t0 - (J - 1). */
static void overlap_panel(const struct transpose_plan * p, const struct ggml_tensor * dst, int64_t oc0, int64_t n_oc, int64_t t0, int64_t n, const float * products) {
    const float * bias = dst->src[CONV_SRC_BIAS] ? dst->src[CONV_SRC_BIAS]->data : NULL;
    for (int64_t i = 0; i < n_oc; i++) {
        const float * column = products + (p->J - 1) * p->m_row + i * p->K;
        float * out = (float *) ((char *) dst->data + (size_t) (oc0 + i) * dst->nb[1]) + t0 * p->s0;
        const vf b = vf_set1(bias ? bias[oc0 + i] : 0.0f);
        for (int64_t t = 0; t < n; t++, column += p->m_row) {
            for (int64_t r = 0; r < p->s0; r += VF_N) {
                overlap(p, column, r, p->s0 - r < VF_N ? (int) (p->s0 - r) : VF_N, b, bias, out + r);
            }
            out += p->s0;
        }
    }
}

void KERNEL(cpu_op_conv_transpose_1d)(const struct cpu_task * task, struct ggml_tensor * dst) {
#if defined(QT_TIER_AMX)
    if (KERNEL(conv_amx_takes)(dst)) {
        KERNEL(conv_amx)(task, dst);
        return;
    }
#endif
    const struct transpose_plan p = plan_of(dst, task->nth);
    const struct ggml_tensor * a = dst->src[CONV_SRC_KERNEL];
    char * chunk = task->scratch;
    char * weights = chunk + GGML_PAD(p.chunk_bytes, 64) + p.thread_bytes * (size_t) task->ith;
    float * products = (float *) (weights + p.weights_bytes);
    int64_t first, last, panel_loaded = -1;
    for (int64_t t0 = 0; t0 < p.T; t0 += p.chunk) {
        const int64_t n = p.T - t0 < p.chunk ? p.T - t0 : p.chunk, n_columns = GGML_PAD(n + p.J - 1, GROUP), n_reads = conv_ceil_div(n_columns, READ_COLUMNS);
        if (t0 > 0) {
            cpu_barrier(task); /* the chunk before is no longer read */
        }
        cpu_range(task, p.IC * n_reads, 1, &first, &last);
        for (int64_t u = first; u < last; u++) {
            int64_t c = u % n_reads * READ_COLUMNS;
            pack_columns(dst, &p, u / n_reads, t0 - (p.J - 1), c, n_columns - c < READ_COLUMNS ? n_columns - c : READ_COLUMNS, chunk);
        }
        cpu_barrier(task);
        const int64_t n_runs = conv_ceil_div(n, p.run);
        cpu_range(task, p.n_panels * n_runs, 1, &first, &last);
        for (int64_t u = first; u < last; u++) {
            int64_t panel = u / n_runs, c0 = u % n_runs * p.run, c1 = c0 + p.run < n ? c0 + p.run : n; /* outputs' columns in the chunk */
            int64_t oc = panel * p.panel, n_oc = p.OC - oc < p.panel ? p.OC - oc : p.panel;
            if (panel != panel_loaded) {
                load_weights(&p, a, oc, n_oc, weights);
                panel_loaded = panel;
            }
            for (int64_t c = c0; c < c1 + p.J - 1; c += GROUP) {
                int cols = (int) (c1 + p.J - 1 - c < GROUP ? c1 + p.J - 1 - c : GROUP);
                multiply(&p, chunk + (size_t) (c / GROUP) * p.group_bytes, weights, n_oc * p.K, cols, products + (c - c0) * p.m_row);
            }
            overlap_panel(&p, dst, oc, n_oc, t0 + c0, c1 - c0, products);
        }
    }
}
