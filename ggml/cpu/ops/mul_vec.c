/* mul_vec.c - a [K, M, ...] of any weight type times few columns b F32 [K, N <= 8, ...] -> F32 [M, N, ...]: the decode path, bound by reading a once.
 * A thread takes a contiguous range of rows and walks them in memory order, each against up to four columns at a time. For quantized weights every thread
 * first rounds the columns to 8-bit integers in its own scratch: for one column that costs less than a barrier, and the copy is in its own L1 cache. */
#include "mul_vec.h"
#include "dot_float.h"
#include "dot_k.h"

static bool is_k_type(enum ggml_type type) { return type == GGML_TYPE_Q4_K || type == GGML_TYPE_Q5_K || type == GGML_TYPE_Q6_K; }

size_t KERNEL(mul_vec_scratch)(const struct ggml_tensor * dst, int nth) {
    const struct ggml_tensor * a = dst->src[0];
    return ggml_is_quantized(a->type) ? act_column_bytes(a->ne[0]) * (size_t) dst->ne[1] * (size_t) nth : 0;
}

/* Rows first .. last-1 of one matrix against n_cols <= DOT_COLS columns. */
struct vec_job {
    const char * w;
    size_t w_stride;
    int64_t K, first, last;
    const float * x[DOT_COLS];
    struct act_column act[DOT_COLS];
    float * out[DOT_COLS]; /* indexed by row */
};

DOT_INLINE void rows_times(const enum ggml_type type, const int n_cols, const struct vec_job * job) {
    for (int64_t m = job->first; m < job->last; m++) {
        const char * w = job->w + (size_t) m * job->w_stride;
        float out[DOT_COLS];
        if (type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16) {
            dot_row_float(type, n_cols, w, job->K, job->x, out);
        } else if (type == GGML_TYPE_Q4_K || type == GGML_TYPE_Q5_K || type == GGML_TYPE_Q6_K) {
            dot_row_k(type, n_cols, w, job->K / 256, job->act, out);
        } else {
            dot_row_blocks(type, n_cols, w, job->K / 32, job->act, out);
        }
#pragma GCC unroll 4
        for (int c = 0; c < n_cols; c++) {
            job->out[c][m] = out[c];
        }
    }
}

#define ROWS_OF_TYPE(name, type)                                          \
    static void name(const struct vec_job * job, int n_cols) {            \
        switch (n_cols) {                                                 \
            case 1: rows_times(type, 1, job); break;                      \
            case 2: rows_times(type, 2, job); break;                      \
            case 3: rows_times(type, 3, job); break;                      \
            default: rows_times(type, 4, job); break;                     \
        }                                                                 \
    }

ROWS_OF_TYPE(rows_f32_type, GGML_TYPE_F32)
ROWS_OF_TYPE(rows_f16_type, GGML_TYPE_F16)
ROWS_OF_TYPE(rows_bf16_type, GGML_TYPE_BF16)
ROWS_OF_TYPE(rows_q4_0_type, GGML_TYPE_Q4_0)
ROWS_OF_TYPE(rows_q4_1_type, GGML_TYPE_Q4_1)
ROWS_OF_TYPE(rows_q5_0_type, GGML_TYPE_Q5_0)
ROWS_OF_TYPE(rows_q5_1_type, GGML_TYPE_Q5_1)
ROWS_OF_TYPE(rows_q8_0_type, GGML_TYPE_Q8_0)
ROWS_OF_TYPE(rows_q4_K_type, GGML_TYPE_Q4_K)
ROWS_OF_TYPE(rows_q5_K_type, GGML_TYPE_Q5_K)
ROWS_OF_TYPE(rows_q6_K_type, GGML_TYPE_Q6_K)

static void rows_of(enum ggml_type type, const struct vec_job * job, int n_cols) {
    switch (type) {
        case GGML_TYPE_F32: rows_f32_type(job, n_cols); break;
        case GGML_TYPE_F16: rows_f16_type(job, n_cols); break;
        case GGML_TYPE_BF16: rows_bf16_type(job, n_cols); break;
        case GGML_TYPE_Q4_0: rows_q4_0_type(job, n_cols); break;
        case GGML_TYPE_Q4_1: rows_q4_1_type(job, n_cols); break;
        case GGML_TYPE_Q5_0: rows_q5_0_type(job, n_cols); break;
        case GGML_TYPE_Q5_1: rows_q5_1_type(job, n_cols); break;
        case GGML_TYPE_Q8_0: rows_q8_0_type(job, n_cols); break;
        case GGML_TYPE_Q4_K: rows_q4_K_type(job, n_cols); break;
        case GGML_TYPE_Q5_K: rows_q5_K_type(job, n_cols); break;
        case GGML_TYPE_Q6_K: rows_q6_K_type(job, n_cols); break;
        default: GGML_ABORT("mul_mat: no product for weights of type %s", ggml_type_name(type));
    }
}

void KERNEL(mul_vec)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[0];
    const struct ggml_tensor * b = dst->src[1];
    const int64_t K = a->ne[0], N = dst->ne[1];
    const bool quantized = ggml_is_quantized(a->type), k_type = is_k_type(a->type);
    const size_t column_bytes = act_column_bytes(K);
    char * columns = quantized ? (char *) task->scratch + column_bytes * (size_t) (N * task->ith) : NULL;
    struct vec_job job = { .w_stride = a->nb[1], .K = K };
    cpu_range(task, dst->ne[0], 4, &job.first, &job.last);
    if (job.first == job.last) {
        return;
    }
    for (int64_t i3 = 0; i3 < dst->ne[3]; i3++) {
        for (int64_t i2 = 0; i2 < dst->ne[2]; i2++) {
            const char * x = (const char *) b->data + (size_t) i2 * b->nb[2] + (size_t) i3 * b->nb[3];
            char * y = (char *) dst->data + (size_t) i2 * dst->nb[2] + (size_t) i3 * dst->nb[3];
            job.w = (const char *) a->data + (size_t) (i2 / (dst->ne[2] / a->ne[2])) * a->nb[2] + (size_t) (i3 / (dst->ne[3] / a->ne[3])) * a->nb[3];
            for (int64_t n0 = 0; n0 < N; n0 += DOT_COLS) {
                int n_cols = (int) (N - n0 < DOT_COLS ? N - n0 : DOT_COLS);
                for (int c = 0; c < n_cols; c++) {
                    job.x[c] = (const float *) (x + (size_t) (n0 + c) * b->nb[1]);
                    job.out[c] = (float *) (y + (size_t) (n0 + c) * dst->nb[1]);
                    if (quantized) {
                        job.act[c] = act_column_at(columns + column_bytes * (size_t) (n0 + c), K, k_type);
                        if (k_type) {
                            act_quantize_256(job.x[c], K, &job.act[c]);
                        } else {
                            act_quantize_32(job.x[c], K, dot_offset(a->type), &job.act[c]);
                        }
                    }
                }
                rows_of(a->type, &job, n_cols);
            }
        }
    }
}
