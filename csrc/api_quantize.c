/* api_quantize.c - quantizer entries of qwentts.h: rows to blocks and back on threads of their own, and the questions about types.
 * Threads take runs of rows from one counter; each row's error is kept, so the sum has one order whoever computed the rows. */
#include "tensor_policy.h"

#include <ggml-cpu.h>
#include <ggml.h>

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#define MAX_THREADS 256
#define RUN_VALUES 65536 /* a run takes about a millisecond and more: the counter costs nothing, and the ends are even */

struct job {
    const struct ggml_type_traits * traits;
    enum ggml_type type;
    const float *  values;
    char *         blocks;
    int64_t        n_per_row, n_rows, rows_a_run;
    size_t         row_bytes;
    float          limit;      /* largest magnitude the type holds */
    double *       row_errors; /* [n_rows], or NULL */
    float *        decoded;    /* [n_threads, n_per_row], or NULL */
    atomic_int     n_started;
    _Atomic int64_t next;      /* first row nobody has taken */
    _Atomic int64_t bad_row;   /* the first row with a value that the type cannot hold; n_rows while there is none */
};

static int64_t bad_column(const struct job * job, int64_t row) {
    const float * x = job->values + row * job->n_per_row;
    int64_t c = 0;
    while (c < job->n_per_row && fabsf(x[c]) <= job->limit) { /* false for NaN */
        c++;
    }
    return c;
}

static void note_bad_row(struct job * job, int64_t row) {
    int64_t seen = atomic_load(&job->bad_row);
    while (row < seen && !atomic_compare_exchange_weak(&job->bad_row, &seen, row)) {
    }
}

static double row_error(const struct job * job, int64_t row, float * decoded) {
    const float * x = job->values + row * job->n_per_row;
    job->traits->to_float(job->blocks + (size_t) row * job->row_bytes, decoded, job->n_per_row);
    double sum = 0;
    for (int64_t c = 0; c < job->n_per_row; c++) {
        double e = (double) decoded[c] - (double) x[c];
        sum += e * e;
    }
    return sum;
}

/* Runs are taken in order, so every row before a bad one is looked at, and the first bad one is named on any number of threads. */
static void * work(void * p) {
    struct job * job = p;
    float * decoded = job->decoded ? job->decoded + atomic_fetch_add(&job->n_started, 1) * job->n_per_row : NULL;
    for (;;) {
        int64_t first = atomic_fetch_add(&job->next, job->rows_a_run);
        if (first >= job->n_rows || first > atomic_load(&job->bad_row)) {
            return NULL;
        }
        int64_t end = first + job->rows_a_run < job->n_rows ? first + job->rows_a_run : job->n_rows;
        for (int64_t row = first; row < end; row++) {
            if (bad_column(job, row) < job->n_per_row) {
                note_bad_row(job, row);
                return NULL;
            }
            ggml_quantize_chunk(job->type, job->values, job->blocks, row * job->n_per_row, 1, job->n_per_row, NULL);
            if (job->row_errors) {
                job->row_errors[row] = row_error(job, row, decoded);
            }
        }
    }
}

/* The caller works too, so the job is done even where no thread can be had. */
static void run(struct job * job, int n_threads) {
    pthread_t threads[MAX_THREADS];
    int n = 0;
    sigset_t all, old;
    sigfillset(&all); /* signals stay with the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (n < n_threads - 1 && pthread_create(&threads[n], NULL, work, job) == 0) {
        n++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    work(job);
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
}

static enum qt_status check_rows(const char * who, int32_t type, int64_t n_per_row, int64_t n_rows, size_t blocks_bytes, size_t * row_bytes) {
    const struct ggml_type_traits * traits = ggml_get_type_traits((enum ggml_type) type);
    if (!traits || !traits->to_float || !traits->from_float_ref || type == GGML_TYPE_Q8_K) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: type is %d (%s), valid: float and block types of files", who, (int) type,
                       ggml_type_name((enum ggml_type) type));
    }
    if (n_per_row < 1 || n_per_row % traits->blck_size != 0) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: n_per_row is %lld, valid for %s: a positive multiple of %lld", who, (long long) n_per_row,
                       traits->type_name, (long long) traits->blck_size);
    }
    int64_t most = INT64_MAX / (int64_t) sizeof(double) / n_per_row; /* no type takes more than f64's bytes */
    if (n_rows < 0 || n_rows > most) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: n_rows is %lld, valid with n_per_row %lld: 0 to %lld", who, (long long) n_rows, (long long) n_per_row,
                       (long long) most);
    }
    *row_bytes = ggml_row_size((enum ggml_type) type, n_per_row);
    if (blocks_bytes != *row_bytes * (size_t) n_rows) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: blocks_bytes is %zu, %lld rows of %lld as %s take %zu", who, blocks_bytes, (long long) n_rows,
                       (long long) n_per_row, traits->type_name, *row_bytes * (size_t) n_rows);
    }
    return QT_STATUS_OK;
}

/* Values under this round to a finite number of the type; blocks hold any, at worst clipped. */
static float limit_of(enum ggml_type type) {
    switch (type) {
        case GGML_TYPE_F16: return 0x1.ffdffep+15f;   /* 65519.99: from 65520 on f16 rounds to infinity */
        case GGML_TYPE_BF16: return 0x1.fefffep+127f; /* likewise half a step over the largest bf16 */
        default: return 0x1.fffffep+127f;
    }
}

static enum qt_status refuse_value(const struct job * job, int64_t row) {
    int64_t column = bad_column(job, row);
    float value = job->values[row * job->n_per_row + column];
    if (!isfinite(value)) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "qt_quantize_rows: the value at row %lld, column %lld is %s, valid: finite", (long long) row,
                       (long long) column, isnan(value) ? "NaN" : value > 0 ? "infinity" : "-infinity");
    }
    return QT_FAIL(QT_STATUS_INVALID_PARAMS, "qt_quantize_rows: the value at row %lld, column %lld is %g, %s holds up to %g", (long long) row,
                   (long long) column, (double) value, job->traits->type_name, job->type == GGML_TYPE_F16 ? 65504.0 : 0x1.fep+127);
}

enum qt_status qt_quantize_rows(int32_t type, const float * values, int64_t n_per_row, int64_t n_rows, void * blocks, size_t blocks_bytes, int n_threads,
                                double * sum_sq_error) {
    QT_REQUIRE(values);
    QT_REQUIRE(blocks);
    struct job job = { .type = (enum ggml_type) type, .values = values, .blocks = blocks, .n_per_row = n_per_row, .n_rows = n_rows };
    QT_TRY(check_rows(__func__, type, n_per_row, n_rows, blocks_bytes, &job.row_bytes));
    if (n_threads < 0 || n_threads > MAX_THREADS) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: n_threads is %d, valid: 0 (all) to %d", __func__, n_threads, MAX_THREADS);
    }
    job.traits = ggml_get_type_traits(job.type);
    job.limit = limit_of(job.type);
    job.rows_a_run = n_per_row < RUN_VALUES ? RUN_VALUES / n_per_row : 1;
    int64_t n_runs = (n_rows + job.rows_a_run - 1) / job.rows_a_run;
    int most = ggml_cpu_default_n_threads();
    n_threads = n_threads ? n_threads : most < MAX_THREADS ? most : MAX_THREADS;
    n_threads = n_runs < n_threads ? (int) n_runs : n_threads;
    atomic_init(&job.bad_row, n_rows);
    if (sum_sq_error && n_rows > 0) {
        job.row_errors = malloc((size_t) n_rows * sizeof *job.row_errors);
        job.decoded = malloc((size_t) n_threads * (size_t) n_per_row * sizeof *job.decoded);
        if (!job.row_errors || !job.decoded) {
            free(job.row_errors);
            free(job.decoded);
            return QT_FAIL(QT_STATUS_OOM, "%s: no memory to measure the error of %lld rows of %lld", __func__, (long long) n_rows, (long long) n_per_row);
        }
    }
    run(&job, n_threads);
    int64_t bad = atomic_load(&job.bad_row);
    if (sum_sq_error && bad == n_rows) {
        *sum_sq_error = 0;
        for (int64_t row = 0; row < n_rows; row++) {
            *sum_sq_error += job.row_errors[row];
        }
    }
    free(job.row_errors);
    free(job.decoded);
    return bad < n_rows ? refuse_value(&job, bad) : QT_STATUS_OK;
}

enum qt_status qt_dequantize_rows(int32_t type, const void * blocks, size_t blocks_bytes, int64_t n_per_row, int64_t n_rows, float * values) {
    QT_REQUIRE(blocks);
    QT_REQUIRE(values);
    size_t row_bytes;
    QT_TRY(check_rows(__func__, type, n_per_row, n_rows, blocks_bytes, &row_bytes));
    ggml_get_type_traits((enum ggml_type) type)->to_float(blocks, values, n_per_row * n_rows);
    return QT_STATUS_OK;
}

enum qt_status qt_policy_type(const char * variant, const char * predictor_type, const char * tensor_name, int32_t n_dims, const int64_t * ne,
                              int32_t n_layers, int32_t * type, const char ** reason) {
    QT_REQUIRE(variant);
    QT_REQUIRE(tensor_name);
    QT_REQUIRE(ne);
    QT_REQUIRE(type);
    QT_REQUIRE(reason);
    return policy_type(variant, predictor_type, tensor_name, n_dims, ne, n_layers, type, reason);
}

const char * qt_policy_f32_reason(const char * tensor_name, int32_t n_dims, const int64_t * ne) {
    return tensor_name && ne && n_dims >= 1 && n_dims <= GGML_MAX_DIMS ? policy_f32_reason(tensor_name, n_dims, ne) : NULL;
}

const char * qt_policy_variant(int32_t index) {
    return policy_variant_name(index);
}
