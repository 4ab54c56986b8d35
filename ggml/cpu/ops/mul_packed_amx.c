/* mul_packed_amx.c - a packed [K, M] (packed.h) times b F32 [K, N, ...] -> F32 [M, N, ...] on AMX tiles, for prompts: columns of b are rows of tiles, and rows
 * of a their columns, since the words of a group are already in that order.
 * All threads cut a chunk of b's columns into BF16 parts, then each takes two groups of rows at a time, widens them to two BF16 parts of scale * value - min,
 * which the L2 cache holds, and multiplies them with every column. Two parts of either side leave 2^-17 of a term, where 8-bit activations leave 2^-8. */
#include "mul_packed.h"

#if defined(QT_TIER_AMX)

#include "amx.h"
#include "packed_words.h"

#define CHUNK_FLOATS (256 * 1024) /* of b cut at a time: 1 MB that a thread reads once for each 32 rows, beside their panel in 2 MB of L2 */
#define PARTS 2                   /* of both sides */
#define ORDER 2
#define GROUPS (AMX_BLOCK / PACKED_ROWS)

struct amx_plan {
    int64_t K, M, N, n_units;
    int64_t chunk;           /* columns cut at a time, a multiple of AMX_ROWS */
    int64_t x_part, x_block; /* bytes of a part and of all parts of 32 k */
    size_t x_bytes, panel_bytes;
};

static struct amx_plan plan_of(const struct ggml_tensor * dst) {
    struct amx_plan p = { .K = dst->src[0]->ne[0], .M = dst->ne[0], .N = dst->ne[1] };
    p.n_units = p.K / UNIT_K;
    p.chunk = CHUNK_FLOATS / p.K / AMX_BLOCK * AMX_BLOCK;
    p.chunk = p.chunk < AMX_BLOCK ? AMX_BLOCK : p.chunk;
    p.chunk = p.chunk < p.N ? p.chunk : (int64_t) GGML_PAD((size_t) p.N, AMX_ROWS);
    p.x_part = p.chunk * 2 * AMX_K;
    p.x_block = p.x_part * PARTS;
    p.x_bytes = (size_t) (p.x_block * p.n_units);
    p.panel_bytes = AMX_STEP(PARTS) * (size_t) p.n_units;
    return p;
}

size_t KERNEL(mul_packed_amx_scratch)(const struct ggml_tensor * dst, int nth) {
    const struct amx_plan p = plan_of(dst);
    return p.x_bytes + p.panel_bytes * (size_t) nth;
}

/* A column of b as a row of every unit's tiles; NULL: zeros. */
static void cut_column(const struct amx_plan * p, const float * x, char * out) {
    for (int64_t u = 0; u < p->n_units; u++, out += p->x_block) {
        __m512 lo = x ? vf_load(x + u * UNIT_K) : vf_zero(), hi = x ? vf_load(x + u * UNIT_K + VF_N) : vf_zero();
#pragma GCC unroll 2
        for (int part = 0; part < PARTS; part++) {
            _mm512_store_si512(out + part * p->x_part, amx_next_row(false, PARTS, &lo, &hi));
        }
    }
}

/* Byte i of each word as scale * value + bias: the byte is put into the mantissa of 128, which makes 128 + value / 2. */
AMX_INLINE __m512 widen(__m512i words, const int i, __m512 twice_scale, __m512 bias) {
    const __m512i at = i == 0 ? _mm512_slli_epi32(words, 15) : i == 1 ? _mm512_slli_epi32(words, 7) : _mm512_srli_epi32(words, (unsigned) (8 * i - 15));
    const __m512i bits = _mm512_ternarylogic_epi32(at, _mm512_set1_epi32(255 << 15), _mm512_set1_epi32(0x43000000), 0xea); /* at & byte | 128.0f */
    return _mm512_fmadd_ps(_mm512_castsi512_ps(bits), twice_scale, bias);
}

/* Unit u of half a block as pairs of k: 16 rows of a tile in each part. */
AMX_INLINE void widen_unit(const enum ggml_type type, const char * block, struct packed_d d, int half, const int u, char * out) {
    const int unit = half * units_of_half(type) + u, words = type == GGML_TYPE_Q6_K ? UNIT_WORDS / 2 : UNIT_WORDS; /* of a scale */
    packed_prefetch_scales(type, block, unit);
    __m512 twice_scale = vf_zero(), bias = vf_zero();
#pragma GCC unroll 8
    for (int j = 0; j < UNIT_WORDS; j++) {
        if (j % words == 0) {
            const __m512 scale = packed_scale(type, block, d, unit, j / words);
            twice_scale = vf_add(scale, scale);
            bias = vf_mul(scale, vf_set1((float) -(256 + packed_offset(type))));
            bias = has_min(type) ? vf_sub(bias, packed_min(type, block, d, unit)) : bias;
        }
        const __m512i w = packed_word(type, block, half, u, j);
#pragma GCC unroll 2
        for (int pair = 0; pair < 2; pair++, out += 64) {
            __m512 even = widen(w, 2 * pair, twice_scale, bias), odd = widen(w, 2 * pair + 1, twice_scale, bias);
#pragma GCC unroll 2
            for (int part = 0; part < PARTS; part++) {
                _mm512_store_si512(out + part * 2 * AMX_TILE, amx_next_pair(true, 3, &even, &odd)); /* cut: costs less than to round */
            }
        }
    }
}

/* A group as the first or second tile of every step of the panel. */
AMX_INLINE void widen_group(const enum ggml_type type, const struct amx_plan * p, const char * block, char * out) {
    int n_halves = halves_of(type);
    __asm__("" : "+r"(n_halves)); /* as in mul_packed.c: two halves unrolled are slower */
    for (int64_t at = 0; at < p->n_units; at += halves_of(type) * units_of_half(type), block += packed_block_bytes(type)) {
        const struct packed_d d = packed_d_of(type, block);
#pragma GCC unroll 1
        for (int half = 0; half < n_halves; half++) {
#pragma GCC unroll 4
            for (int u = 0; u < units_of_half(type); u++, out += AMX_STEP(PARTS)) {
                if (type == GGML_TYPE_Q8_0 && u == 1 && at + 1 == p->n_units) {
                    break;
                }
                widen_unit(type, block, d, half, u, out);
            }
        }
    }
}

static void widen_q8_0(const struct amx_plan * p, const char * group, char * out) { widen_group(GGML_TYPE_Q8_0, p, group, out); }
static void widen_q4_K(const struct amx_plan * p, const char * group, char * out) { widen_group(GGML_TYPE_Q4_K, p, group, out); }
static void widen_q5_K(const struct amx_plan * p, const char * group, char * out) { widen_group(GGML_TYPE_Q5_K, p, group, out); }
static void widen_q6_K(const struct amx_plan * p, const char * group, char * out) { widen_group(GGML_TYPE_Q6_K, p, group, out); }

static void widen_any(enum ggml_type type, const struct amx_plan * p, const char * group, char * out) {
    switch (type) {
        case GGML_TYPE_Q8_0: widen_q8_0(p, group, out); break;
        case GGML_TYPE_Q4_K: widen_q4_K(p, group, out); break;
        case GGML_TYPE_Q5_K: widen_q5_K(p, group, out); break;
        default: widen_q6_K(p, group, out); break;
    }
}

/* Columns of b from x on times a panel: sums[column][row]. */
static void multiply(const struct amx_plan * p, const char * panel, const char * x, int rows, int cols, float (*sums)[AMX_BLOCK]) {
    const int64_t step = (int64_t) AMX_STEP(PARTS);
    struct amx_job job = { .rows = { .at = x, .row = 2 * AMX_K, .tile = AMX_ROWS * 2 * AMX_K, .part = p->x_part, .block = p->x_block },
                           .columns = { .at = panel, .row = 64, .tile = AMX_TILE, .part = 2 * AMX_TILE, .block = step }, .n_taps = 1, .out = sums };
    for (int64_t u = 0; u < p->n_units; u += AMX_CHUNK, job.rows.at += AMX_CHUNK * p->x_block, job.columns.at += AMX_CHUNK * step, job.add = true) {
        job.n_blocks = p->n_units - u < AMX_CHUNK ? p->n_units - u : AMX_CHUNK;
        amx_tiles(&job, false, ORDER, PARTS, PARTS, rows, cols);
    }
}

/* Part i of n of the groups from row m on, into the L2 cache: memory would idle while tiles are multiplied. */
static void fetch_part(const struct ggml_tensor * a, const struct amx_plan * p, int64_t m, int64_t i, int64_t n) {
    const size_t group_bytes = packed_group_bytes(a->type, p->K);
    const char * first = (const char *) a->data + (size_t) (m / PACKED_ROWS) * group_bytes;
    const size_t size = group_bytes * (p->M - m > PACKED_ROWS ? GROUPS : 1);
    for (size_t at = GGML_PAD(size * (size_t) i / (size_t) n, 64); at < size * (size_t) (i + 1) / (size_t) n; at += 64) {
        __builtin_prefetch(first + at, 0, 2);
    }
}

/* n columns from x on times all of a; y: their place in the result. */
static void chunk_times(const struct cpu_task * task, const struct amx_plan * p, const struct ggml_tensor * dst, const char * x, char * panel, int64_t n,
                        int64_t * own, char * y) {
    const struct ggml_tensor * a = dst->src[0];
    const size_t group_bytes = packed_group_bytes(a->type, p->K);
    float sums[AMX_BLOCK][AMX_BLOCK] __attribute__((aligned(64)));
    for (int64_t m = cpu_claim(task, own) * AMX_BLOCK, next; m < p->M; m = next) {
        const int cols = (int) (p->M - m < AMX_BLOCK ? p->M - m : AMX_BLOCK);
        for (int g = 0; g < GROUPS && g * PACKED_ROWS < cols; g++) {
            widen_any(a->type, p, (const char *) a->data + (size_t) (m / PACKED_ROWS + g) * group_bytes, panel + g * AMX_TILE);
        }
        AMX_WRITTEN();
        next = cpu_claim(task, own) * AMX_BLOCK;
        for (int64_t c = 0; c < n; c += AMX_BLOCK) {
            const int rows = (int) (n - c < AMX_BLOCK ? n - c : AMX_BLOCK);
            if (next < p->M) {
                fetch_part(a, p, next, c / AMX_BLOCK, (n + AMX_BLOCK - 1) / AMX_BLOCK);
            }
            multiply(p, panel, x + c * 2 * AMX_K, rows, cols, sums);
            for (int i = 0; i < rows; i++) {
                float * out = (float *) (y + (size_t) (c + i) * dst->nb[1]) + m;
                vf_store_n(out, vf_load(sums[i]), cols < VF_N ? cols : VF_N);
                if (cols > VF_N) {
                    vf_store_n(out + VF_N, vf_load(sums[i] + VF_N), cols - VF_N);
                }
            }
        }
    }
}

void KERNEL(mul_packed_amx)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * b = dst->src[1];
    const struct amx_plan p = plan_of(dst);
    char * x = task->scratch, * panel = x + p.x_bytes + p.panel_bytes * (size_t) task->ith;
    bool used = false;
    amx_begin();
    for (int64_t batch = 0; batch < dst->ne[2] * dst->ne[3]; batch++) {
        const int64_t i2 = batch % dst->ne[2], i3 = batch / dst->ne[2];
        const char * columns = (const char *) b->data + (size_t) i2 * b->nb[2] + (size_t) i3 * b->nb[3];
        char * results = (char *) dst->data + (size_t) i2 * dst->nb[2] + (size_t) i3 * dst->nb[3];
        for (int64_t n0 = 0; n0 < p.N; n0 += p.chunk) {
            const int64_t n = p.N - n0 < p.chunk ? p.N - n0 : p.chunk;
            int64_t first, last, own = 0;
            if (used) {
                cpu_barrier(task); /* the columns before are no longer read, their groups all taken */
            }
            used = true;
            cpu_range(task, (int64_t) GGML_PAD((size_t) n, AMX_ROWS), 1, &first, &last);
            for (int64_t c = first; c < last; c++) {
                cut_column(&p, c < n ? (const float *) (columns + (size_t) (n0 + c) * b->nb[1]) : NULL, x + c * 2 * AMX_K);
            }
            cpu_barrier(task);
            chunk_times(task, &p, dst, x, panel, n, &own, results + (size_t) n0 * dst->nb[1]);
        }
    }
    amx_end();
}

#endif
