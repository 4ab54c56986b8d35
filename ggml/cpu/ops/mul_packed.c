/* mul_packed.c - a packed [K, M] (packed.h) times b F32 [K, N, ...] -> F32 [M, N, ...]: the decode path, and the prefill.
 * A thread takes groups of sixteen rows and walks them in memory order, each against up to MOST_COLUMNS columns at a time, so memory is read once, for one
 * column in MOST_STREAMS streams at a time (each a part of the thread's groups), which memory is faster with (docs/performance.md). Columns are
 * 8-bit integers in units of 32: up to FEW_COLUMNS, those of a frame, are rounded to one, by every thread itself, which costs less than a barrier; more, a
 * prompt's, are shared and cut into two, whose products are added, which leaves 2^-16 of a term instead of 2^-8. Four products of a row are one 32-bit
 * lane of a dot instruction; the sums of a unit are exact integers, turned to float and scaled once. Prompts on AMX: mul_packed_amx.c. */
#include "mul_packed.h"
#include "packed_words.h"

#if defined(HAS_LANES)

#include "activations.h"

#define FEW_COLUMNS 2
#if defined(QT_TIER_AVX512)
#  define MOST_COLUMNS 8
#  define MOST_STREAMS 4
#else /* a row of lanes takes two or four registers */
#  define MOST_COLUMNS 4
#  define MOST_STREAMS 2
#endif
#define GROUPS_CLAIMED 4 /* at a time, by a thread that has many columns to multiply them with */

/* Columns of activations in units of 32: x = d * q, or the sum of that of two successive columns. */
struct packed_columns {
    int8_t * q;      /* [tile of MOST_COLUMNS columns][unit][column of tile][32] */
    int64_t n_units; /* K / 32 */
    int64_t n;       /* columns there is memory for: whole tiles, or one smaller one; of two integers a value, two each */
    int64_t tile;    /* columns of a tile */
    float * d;       /* [unit][column] */
    float * less;    /* [unit][column], -d * sum of q: what a min is multiplied by */
    int32_t * corr;  /* [unit][half][column], -offset * sum of q: of both halves for Q6_K, else of the unit, as the first */
};

struct packed_job {
    enum ggml_type type;
    const char * w; /* the first group */
    int64_t K, M;
    int64_t N;       /* columns of integers */
    int parts;       /* integers of a value */
    struct packed_columns x;
    char * y;        /* F32 [M, N / parts], columns y_column bytes apart */
    size_t y_column;
};

static int parts_of(int64_t n_columns) { return n_columns > FEW_COLUMNS ? 2 : 1; }

static int64_t columns_kept(int64_t n) { return n > MOST_COLUMNS ? (int64_t) GGML_PAD((size_t) n, MOST_COLUMNS) : n; }

static size_t columns_bytes(int64_t K, int64_t n) {
    return GGML_PAD((size_t) (columns_kept(n) * (K + K / UNIT_K * 4 * (int64_t) sizeof(float))), 64);
}

static struct packed_columns columns_at(char * memory, int64_t K, int64_t n) {
    struct packed_columns x = { .q = (int8_t *) memory, .n_units = K / UNIT_K, .n = columns_kept(n) };
    x.tile = x.n < MOST_COLUMNS ? x.n : MOST_COLUMNS;
    x.d = (float *) (memory + K * x.n);
    x.less = x.d + x.n_units * x.n;
    x.corr = (int32_t *) (x.less + x.n_units * x.n);
    return x;
}

/* Unit 0 of column n; the next unit is tile * 32 bytes on, the next column of the tile 32. */
static int8_t * packed_column(const struct packed_columns * x, int64_t n) {
    return x->q + (n / x->tile * x->n_units * x->tile + n % x->tile) * UNIT_K;
}

/* A column as one or two from n on. */
static void column_round(enum ggml_type type, const float * x, const struct packed_columns * to, int64_t n, int parts) {
    const int offset = packed_offset(type);
    int8_t * q = packed_column(to, n);
    for (int64_t u = 0; u < to->n_units; u++, x += UNIT_K, q += to->tile * UNIT_K) {
        float rest[UNIT_K], spoilt, most = act_max_abs(x, UNIT_K, &spoilt), d = most / 127.0f, scale = most > 0.0f ? 127.0f / most : 0.0f;
        for (int part = 0; part < parts; part++, d /= 254.0f, scale *= 254.0f) { /* what is left is at most half a step */
            int8_t * own = q + part * UNIT_K;
            act_round(part ? rest : x, scale, own, UNIT_K);
            for (int i = 0; i < (part + 1 < parts ? UNIT_K : 0); i++) {
                rest[i] = x[i] - d * (float) own[i];
            }
            const int64_t at = u * to->n + n + part, at_half = 2 * u * to->n + n + part;
            const int low = act_sum(own, UNIT_K / 2), high = act_sum(own + UNIT_K / 2, UNIT_K / 2);
            to->d[at] = d + spoilt;
            to->less[at] = -(d + spoilt) * (float) (low + high);
            to->corr[at_half] = -offset * (type == GGML_TYPE_Q6_K ? low : low + high);
            to->corr[at_half + to->n] = -offset * high;
        }
    }
}

/* Adds unit u of half a block, unit at of the columns. */
LANES_INLINE void unit_times(const enum ggml_type type, const int n_cols, const char * block, struct packed_d d, int half, const int u, int64_t at,
                             const struct packed_columns * x, lane_floats * acc) {
    const int unit = half * units_of_half(type) + u;
    const int n_sums = type == GGML_TYPE_Q6_K ? 2 : 1, words = UNIT_WORDS / n_sums;
#pragma GCC unroll 2
    for (int h = 0; h < n_sums; h++) {
        lane_sums sum[MOST_COLUMNS];
#pragma GCC unroll 8
        for (int c = 0; c < n_cols; c++) {
            sum[c] = lanes_set1_i32(has_min(type) ? 0 : x->corr[(2 * at + h) * x->n + c]);
        }
#pragma GCC unroll 8
        for (int j = h * words; j < (h + 1) * words; j++) {
            lane_words w = packed_word(type, block, half, u, j);
#pragma GCC unroll 8
            for (int c = 0; c < n_cols; c++) {
                sum[c] = lanes_dot(sum[c], w, x->q + (at * x->tile + c) * UNIT_K + 4 * j);
            }
        }
        const lane_floats scale = packed_scale(type, block, d, unit, h);
#pragma GCC unroll 8
        for (int c = 0; c < n_cols; c++) {
            acc[c] = lanes_fma(lanes_float(sum[c]), lanes_mul(scale, lanes_set1(x->d[at * x->n + c])), acc[c]);
        }
    }
    if (has_min(type)) {
        const lane_floats min = packed_min(type, block, d, unit);
#pragma GCC unroll 8
        for (int c = 0; c < n_cols; c++) {
            acc[c] = lanes_fma(min, lanes_set1(x->less[at * x->n + c]), acc[c]);
        }
    }
}

/* Results of the rows from m on, those behind the last left out. */
LANES_INLINE void group_store(const struct packed_job * job, int64_t m, int64_t n, lane_floats sums) {
    float * y = (float *) (job->y + (size_t) n * job->y_column) + m;
    float last[PACKED_ROWS];
    lanes_store(job->M - m < PACKED_ROWS ? last : y, sums);
    if (job->M - m < PACKED_ROWS) {
        memcpy(y, last, (size_t) (job->M - m) * sizeof *y);
    }
}

/* n_streams * n groups of rows, those of stream s from first + s * n on, against columns n0 .. n0 + n_cols - 1. */
LANES_INLINE void groups_times(const enum ggml_type type, const int n_cols, const int n_streams, const struct packed_job * job, int64_t first, int64_t n,
                                int64_t n0) {
    const size_t block_bytes = packed_block_bytes(type), group_bytes = packed_group_bytes(type, job->K), stream_bytes = group_bytes * (size_t) n;
    int n_halves = halves_of(type);
    __asm__("" : "+r"(n_halves)); /* not known to the compiler: unrolled, both halves are 250 KB of code and minutes of a sanitizer build */
    const int n_units = halves_of(type) * units_of_half(type);
    struct packed_columns x = job->x;
    x.q = packed_column(&x, n0);
    x.d += n0;
    x.less += n0;
    x.corr += n0;
    for (int64_t g = first; g < first + n; g++) {
        const char * block = job->w + (size_t) g * group_bytes;
        lane_floats acc[MOST_STREAMS][MOST_COLUMNS];
#pragma GCC unroll 8
        for (int s = 0; s < n_streams; s++) {
#pragma GCC unroll 8
            for (int c = 0; c < n_cols; c++) {
                acc[s][c] = lanes_set1(0.0f);
            }
        }
        for (int64_t at = 0; at < x.n_units; at += n_units, block += block_bytes) {
            struct packed_d d[MOST_STREAMS];
#pragma GCC unroll 8
            for (int s = 0; s < n_streams; s++) {
                d[s] = packed_d_of(type, block + stream_bytes * (size_t) s);
            }
#pragma GCC unroll 1
            for (int half = 0; half < n_halves; half++) {
#pragma GCC unroll 4
                for (int u = 0; u < units_of_half(type); u++) {
                    if (type == GGML_TYPE_Q8_0 && u == 1 && at + 1 == x.n_units) {
                        break;
                    }
                    const int unit = half * units_of_half(type) + u;
#pragma GCC unroll 8
                    for (int s = 0; s < n_streams; s++) {
                        packed_prefetch_scales(type, block + stream_bytes * (size_t) s, unit);
                        unit_times(type, n_cols, block + stream_bytes * (size_t) s, d[s], half, u, at + unit, &x, acc[s]);
                    }
                }
            }
        }
        for (int s = 0; s < n_streams; s++) {
            const int64_t m = (g + n * s) * PACKED_ROWS;
            if (n_cols == 1 || job->parts == 1) {
#pragma GCC unroll 8
                for (int c = 0; c < n_cols; c++) {
                    group_store(job, m, n0 + c, acc[s][c]);
                }
            } else {
#pragma GCC unroll 4
                for (int c = 0; c + 1 < n_cols; c += 2) {
                    group_store(job, m, (n0 + c) / 2, lanes_add(acc[s][c], acc[s][c + 1]));
                }
            }
        }
    }
}

#define GROUPS_OF_TYPE(name, type)                                                                                                            \
    static void name##_streams(const struct packed_job * job, int64_t first, int64_t n) {                                                    \
        if (job->N == 1) {                                                                                                                    \
            groups_times(type, 1, MOST_STREAMS, job, first, n, 0);                                                                            \
        } else {                                                                                                                              \
            groups_times(type, 2, MOST_STREAMS / 2, job, first, n, 0);                                                                        \
        }                                                                                                                                     \
    }                                                                                                                                         \
    static void name(const struct packed_job * job, int64_t first, int64_t n, int64_t n0, int n_cols) {                                       \
        switch (n_cols) {                                                                                                                     \
            case 1: groups_times(type, 1, 1, job, first, n, n0); break;                                                                       \
            case 2: groups_times(type, 2, 1, job, first, n, n0); break;                                                                       \
            case 4: groups_times(type, 4, 1, job, first, n, n0); break;                                                                       \
            default: groups_times(type, MOST_COLUMNS, 1, job, first, n, n0); break;                                                           \
        }                                                                                                                                     \
    }

GROUPS_OF_TYPE(groups_q8_0, GGML_TYPE_Q8_0)
GROUPS_OF_TYPE(groups_q4_K, GGML_TYPE_Q4_K)
GROUPS_OF_TYPE(groups_q5_K, GGML_TYPE_Q5_K)
GROUPS_OF_TYPE(groups_q6_K, GGML_TYPE_Q6_K)

static void groups_of(const struct packed_job * job, int64_t first, int64_t n, int64_t n0, int n_cols) {
    switch (job->type) {
        case GGML_TYPE_Q8_0: groups_q8_0(job, first, n, n0, n_cols); break;
        case GGML_TYPE_Q4_K: groups_q4_K(job, first, n, n0, n_cols); break;
        case GGML_TYPE_Q5_K: groups_q5_K(job, first, n, n0, n_cols); break;
        default: groups_q6_K(job, first, n, n0, n_cols); break;
    }
}

/* All of FEW_COLUMNS columns. */
static void groups_in_streams(const struct packed_job * job, int64_t first, int64_t last) {
    const int64_t n_streams = MOST_STREAMS / job->N, n = (last - first) / n_streams;
    switch (job->type) {
        case GGML_TYPE_Q8_0: groups_q8_0_streams(job, first, n); break;
        case GGML_TYPE_Q4_K: groups_q4_K_streams(job, first, n); break;
        case GGML_TYPE_Q5_K: groups_q5_K_streams(job, first, n); break;
        default: groups_q6_K_streams(job, first, n); break;
    }
    groups_of(job, first + n * n_streams, last - first - n * n_streams, 0, (int) job->N);
}

/* All groups, shared out among the threads: with few columns three quarters in equal parts, in long streams, and the rest to who comes first. */
static void few_columns(const struct cpu_task * task, const struct packed_job * job, int64_t n_groups) {
    const int64_t equal = task->nth == 1 ? n_groups : n_groups - n_groups / 4;
    int64_t first, last;
    cpu_range(task, equal, 1, &first, &last);
    groups_in_streams(job, first, last);
    for (int64_t own = 0; equal < n_groups && (first = equal + cpu_claim(task, &own) * MOST_STREAMS) < n_groups;) {
        groups_in_streams(job, first, first + MOST_STREAMS < n_groups ? first + MOST_STREAMS : n_groups);
    }
}

/* A group stays in cache while columns pass, so many at a time as are left, and the next one is fetched. */
static void many_columns(const struct cpu_task * task, const struct packed_job * job, int64_t n_groups) {
    const size_t group_bytes = packed_group_bytes(job->type, job->K);
    for (int64_t own = 0, g; (g = cpu_claim(task, &own) * GROUPS_CLAIMED) < n_groups;) {
        const int64_t last = g + GROUPS_CLAIMED < n_groups ? g + GROUPS_CLAIMED : n_groups;
        for (; g < last; g++) {
            const char * after = job->w + (size_t) (g + 1) * group_bytes;
            for (size_t line = 0; g + 1 < last && line < group_bytes; line += 64) {
                __builtin_prefetch(after + line, 0, 2);
            }
            for (int64_t n = 0, left; (left = job->N - n) > 0;) {
                const int n_cols = left >= MOST_COLUMNS ? MOST_COLUMNS : left >= 4 ? 4 : 2;
                groups_of(job, g, 1, n, n_cols);
                n += n_cols;
            }
        }
    }
}

bool KERNEL(mul_packed_exists)(void) { return true; }

/* Few columns are each thread's own. */
size_t KERNEL(mul_packed_scratch)(const struct ggml_tensor * dst, int nth) {
#if defined(QT_TIER_AMX)
    if (dst->ne[1] > FEW_COLUMNS) {
        return KERNEL(mul_packed_amx_scratch)(dst, nth);
    }
#endif
    return columns_bytes(dst->src[0]->ne[0], dst->ne[1] * parts_of(dst->ne[1])) * (size_t) (dst->ne[1] <= FEW_COLUMNS ? nth : 1);
}

void KERNEL(mul_packed)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[0], * b = dst->src[1];
#if defined(QT_TIER_AMX)
    if (dst->ne[1] > FEW_COLUMNS) {
        KERNEL(mul_packed_amx)(task, dst);
        return;
    }
#endif
    const int64_t K = a->ne[0], N = dst->ne[1];
    const bool shared = N > FEW_COLUMNS;
    const int parts = parts_of(N);
    struct packed_job job = { .type = a->type, .w = a->data, .K = K, .M = dst->ne[0], .N = N * parts, .parts = parts, .y_column = dst->nb[1] };
    job.x = columns_at((char *) task->scratch + (shared ? 0 : columns_bytes(K, N) * (size_t) task->ith), K, job.N);
    const int64_t n_groups = (job.M + PACKED_ROWS - 1) / PACKED_ROWS;
    for (int64_t batch = 0; batch < dst->ne[2] * dst->ne[3]; batch++) {
        const int64_t i2 = batch % dst->ne[2], i3 = batch / dst->ne[2];
        const char * x = (const char *) b->data + (size_t) i2 * b->nb[2] + (size_t) i3 * b->nb[3];
        int64_t first = 0, last = N;
        if (batch > 0) {
            cpu_barrier(task); /* the columns of the batch before are no longer read, its groups all taken */
        }
        if (shared) {
            cpu_range(task, N, 1, &first, &last);
        }
        for (int64_t n = first; n < last; n++) {
            column_round(a->type, (const float *) (x + (size_t) n * b->nb[1]), &job.x, n * parts, parts);
        }
        if (shared) {
            cpu_barrier(task);
        }
        job.y = (char *) dst->data + (size_t) i2 * dst->nb[2] + (size_t) i3 * dst->nb[3];
        if (N <= FEW_COLUMNS) {
            few_columns(task, &job, n_groups);
        } else {
            many_columns(task, &job, n_groups);
        }
    }
}

#else

bool KERNEL(mul_packed_exists)(void) { return false; }

size_t KERNEL(mul_packed_scratch)(const struct ggml_tensor * dst, int nth) {
    (void) dst;
    (void) nth;
    return 0;
}

void KERNEL(mul_packed)(const struct cpu_task * task, struct ggml_tensor * dst) {
    (void) task;
    GGML_ABORT("mul_mat: no product of packed %s on this tier", ggml_type_name(dst->src[0]->type));
}

#endif
