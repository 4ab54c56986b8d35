/* mul_amx.c - a [K, M, ...] of F32, F16 or BF16 times b F32 [K, N, ...] -> F32 [M, N, ...] on AMX tiles: rows of a, as they lie, are rows of tiles.
 * All threads pack a chunk of b's columns as pairs of k, then each takes rows of a, 32 at a time, packs them and multiplies them with every column. */
#include "mul_amx.h"

#if defined(QT_TIER_AMX)

#include "amx.h"
#include "mul_vec.h"
#include "rows_f32.h"

#define CHUNK_FLOATS (512 * 1024) /* of b packed at a time: 3 MB shared by all threads */
#define ORDER 3

struct amx_plan {
    int64_t K, M, N;
    int64_t n_k;           /* blocks of 32 k */
    int64_t chunk;         /* columns packed at a time, a multiple of AMX_BLOCK */
    int64_t x_pair, x_part, x_block;
    int parts;
    size_t x_bytes, panel_bytes;
};

static struct amx_plan plan_of(const struct ggml_tensor * dst) {
    struct amx_plan p = { .K = dst->src[0]->ne[0], .M = dst->ne[0], .N = dst->ne[1], .parts = amx_parts(dst->src[0]->type, ORDER) };
    p.n_k = (p.K + AMX_K - 1) / AMX_K;
    p.chunk = CHUNK_FLOATS / p.K / AMX_BLOCK * AMX_BLOCK;
    p.chunk = p.chunk < AMX_BLOCK ? AMX_BLOCK : p.chunk < GGML_PAD(p.N, AMX_BLOCK) ? p.chunk : GGML_PAD(p.N, AMX_BLOCK);
    p.x_pair = (p.chunk | 16) * 4; /* an odd number of cache lines */
    p.x_part = p.x_pair * AMX_K / 2;
    p.x_block = p.x_part * ORDER;
    p.x_bytes = (size_t) (p.x_block * p.n_k);
    p.panel_bytes = AMX_STEP(p.parts) * (size_t) p.n_k;
    return p;
}

bool KERNEL(mul_amx_takes)(const struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[0];
    const bool exact = ggml_get_op_params_i32(dst, 0) == GGML_PREC_F32;
    return (a->type == GGML_TYPE_F32 || a->type == GGML_TYPE_F16 || a->type == GGML_TYPE_BF16) && a->ne[0] >= AMX_K && a->ne[1] >= AMX_ROWS &&
           (exact || dst->ne[1] > MUL_VEC_COLS);
}

size_t KERNEL(mul_amx_scratch)(const struct ggml_tensor * dst, int nth) {
    struct amx_plan p = plan_of(dst);
    return p.x_bytes + p.panel_bytes * (size_t) nth;
}

/* 16 columns of b from n on, 32 k from k on, as pairs. */
static void pack_columns(const struct amx_plan * p, const struct ggml_tensor * b, const char * columns, int64_t n, int64_t k, char * out) {
    char rows[ORDER * 2 * AMX_TILE] __attribute__((aligned(64)));
    const int64_t left = p->K - k;
    for (int64_t i = 0; i < AMX_ROWS; i++) {
        const float * x = (const float *) (columns + (size_t) (n + i) * b->nb[1]) + k;
        __m512 lo = vf_zero(), hi = vf_zero();
        if (n + i < p->N) {
            lo = left >= VF_N ? vf_load(x) : vf_load_n(x, (int) left);
            hi = left >= AMX_K ? vf_load(x + VF_N) : left > VF_N ? vf_load_n(x + VF_N, (int) (left - VF_N)) : vf_zero();
        }
        amx_pack_row(lo, hi, ORDER, rows + 64 * i);
    }
    for (int part = 0; part < ORDER; part++) {
        amx_turn(rows + part * 2 * AMX_TILE, 64, out + part * p->x_part, p->x_pair);
    }
}

/* One row of a into its rows of the panel's tiles. */
AMX_INLINE void pack_row(const enum ggml_type type, const int parts, const char * row, int64_t K, char * out) {
    const size_t size = type == GGML_TYPE_F32 ? 4 : 2;
    for (int64_t k = 0; k < K; k += AMX_K, row += AMX_K * size, out += AMX_STEP(parts)) {
        const int64_t left = K - k;
        _mm_prefetch((const char *) ((uintptr_t) row + 4096), _MM_HINT_T0);
        __m512 lo, hi;
        if (type == GGML_TYPE_F32) {
            const float * x = (const float *) row;
            lo = left >= VF_N ? vf_load(x) : vf_load_n(x, (int) left);
            hi = left >= AMX_K ? vf_load(x + VF_N) : left > VF_N ? vf_load_n(x + VF_N, (int) (left - VF_N)) : vf_zero();
        } else {
            __m512i v = left >= AMX_K ? _mm512_loadu_si512(row) : _mm512_maskz_loadu_epi16((__mmask32) ((1u << left) - 1), row);
            if (type == GGML_TYPE_BF16) {
                _mm512_store_si512(out, v);
                continue;
            }
            lo = _mm512_cvtph_ps(_mm512_castsi512_si256(v));
            hi = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(v, 1));
        }
        amx_pack_row(lo, hi, parts, out);
    }
}

static void pack_panel(const struct amx_plan * p, const struct ggml_tensor * a, const char * rows, int64_t n, char * out) {
    if (n < AMX_BLOCK) {
        memset(out, 0, p->panel_bytes);
    }
    for (int64_t m = 0; m < n; m++) {
        const char * row = rows + (size_t) m * a->nb[1];
        char * to = out + m / AMX_ROWS * AMX_TILE + m % AMX_ROWS * 64;
        switch (a->type) {
            case GGML_TYPE_F16: pack_row(GGML_TYPE_F16, 2, row, p->K, to); break;
            case GGML_TYPE_BF16: pack_row(GGML_TYPE_BF16, 1, row, p->K, to); break;
            default: pack_row(GGML_TYPE_F32, 3, row, p->K, to); break;
        }
    }
}

/* A panel of rows times 32 columns, chunk by chunk. */
static void multiply(const struct amx_plan * p, const char * panel, const char * x, int rows, int cols, float (*sums)[AMX_BLOCK]) {
    const int64_t step = (int64_t) AMX_STEP(p->parts);
    struct amx_job job = { .rows = { .at = panel, .row = 64, .tile = AMX_TILE, .part = 2 * AMX_TILE, .block = step },
                           .columns = { .at = x, .row = p->x_pair, .tile = 64, .part = p->x_part, .block = p->x_block }, .n_taps = 1, .out = sums };
    for (int64_t k = 0; k < p->n_k; k += AMX_CHUNK, job.rows.at += AMX_CHUNK * step, job.columns.at += AMX_CHUNK * p->x_block, job.add = true) {
        job.n_blocks = p->n_k - k < AMX_CHUNK ? p->n_k - k : AMX_CHUNK;
        amx_run(&job, true, ORDER, p->parts, rows, cols);
    }
}

/* sums[m][n] to the columns of the result. */
static void write_block(const struct ggml_tensor * dst, char * columns, int64_t m, int64_t n, int rows, int cols, float (*sums)[AMX_BLOCK]) {
    float turned[AMX_ROWS][AMX_ROWS] __attribute__((aligned(64)));
    for (int m0 = 0; m0 < rows; m0 += AMX_ROWS) {
        for (int n0 = 0; n0 < cols; n0 += AMX_ROWS) {
            amx_turn((const char *) &sums[m0][n0], sizeof sums[0], (char *) turned, sizeof turned[0]);
            for (int i = 0; i < AMX_ROWS && n0 + i < cols; i++) {
                float * out = (float *) (columns + (size_t) (n + n0 + i) * dst->nb[1]) + m + m0;
                vf_store_n(out, vf_load(turned[i]), rows - m0 < AMX_ROWS ? rows - m0 : AMX_ROWS);
            }
        }
    }
}

void KERNEL(mul_amx)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[0], * b = dst->src[1];
    const struct amx_plan p = plan_of(dst);
    char * x = task->scratch, * panel = x + p.x_bytes + p.panel_bytes * (size_t) task->ith;
    float sums[AMX_BLOCK][AMX_BLOCK] __attribute__((aligned(64)));
    bool packed = false;
    amx_begin();
    for (int64_t batch = 0; batch < dst->ne[2] * dst->ne[3]; batch++) {
        const int64_t i2 = batch % dst->ne[2], i3 = batch / dst->ne[2];
        const char * rows = (const char *) a->data + (size_t) (i2 / (dst->ne[2] / a->ne[2])) * a->nb[2] + (size_t) (i3 / (dst->ne[3] / a->ne[3])) * a->nb[3];
        const char * columns = (const char *) b->data + (size_t) i2 * b->nb[2] + (size_t) i3 * b->nb[3];
        char * results = (char *) dst->data + (size_t) i2 * dst->nb[2] + (size_t) i3 * dst->nb[3];
        for (int64_t n0 = 0; n0 < p.N; n0 += p.chunk) {
            const int64_t n = p.N - n0 < p.chunk ? p.N - n0 : p.chunk, groups = (n + AMX_ROWS - 1) / AMX_ROWS;
            int64_t first, last;
            if (packed) {
                cpu_barrier(task); /* the columns before are no longer read */
            }
            cpu_range(task, groups * p.n_k, 1, &first, &last);
            for (int64_t u = first; u < last; u++) {
                int64_t group = u / p.n_k, k = u % p.n_k;
                pack_columns(&p, b, columns, n0 + group * AMX_ROWS, k * AMX_K, x + k * p.x_block + group * 64);
            }
            cpu_barrier(task);
            packed = true;
            cpu_range(task, p.M, AMX_BLOCK, &first, &last);
            for (int64_t m = first; m < last; m += AMX_BLOCK) {
                const int height = (int) (last - m < AMX_BLOCK ? last - m : AMX_BLOCK);
                pack_panel(&p, a, rows + (size_t) m * a->nb[1], height, panel);
                AMX_WRITTEN();
                for (int64_t c = 0; c < n; c += AMX_BLOCK) {
                    const int width = (int) (n - c < AMX_BLOCK ? n - c : AMX_BLOCK);
                    multiply(&p, panel, x + 4 * c, height, width, sums);
                    write_block(dst, results, m, n0 + c, height, width, sums);
                }
            }
        }
    }
    amx_end();
}

#endif
