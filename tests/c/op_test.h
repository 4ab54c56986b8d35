/* op_test.h - what the files of the op runner share: a case, its inputs, guarded memory, the reference and the comparison.
 *
 * case (op_cases*.c) -> build one op in a context -> place every tensor between poisoned margins (op_guard.c) -> fill from the seed
 * (op_dtype.c) -> compute on the backend -> compare with loops in double (op_reference*.c) against tests/bounds.csv (op_compare.c). */
#pragma once

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#define OP_MAX_INPUTS 7

enum op_layout {
    LAYOUT_PACKED,
    LAYOUT_STRIDED,    /* a view with an offset into wider rows and more of them */
    LAYOUT_PERMUTED,   /* axes 1 and 2 swapped in memory: rows stay packed */
    LAYOUT_TRANSPOSED, /* axes 0 and 1 swapped in memory */
};

enum op_fill {
    FILL_UNIFORM,  /* lo .. hi */
    FILL_SPECIAL,  /* uniform with NaN, infinities, zeros, subnormals and huge values strewn in */
    FILL_ONE_NAN,  /* uniform with a NaN in every row */
    FILL_WHOLE,    /* integers in -127 .. 127 with one of +-127 in every 32: int8 activations hold them exactly */
    FILL_INDEX,    /* 0 .. limit-1 */
    FILL_DISTINCT, /* 0 .. limit-1, none twice */
    FILL_POSITION, /* ascending from a random start, below limit */
    FILL_MASK,     /* 0 or -infinity, never a whole row of -infinity, some finite biases */
    FILL_GARBAGE,  /* uniform, but rows from the middle on are NaN: what a cache holds behind its mask */
    FILL_BEFORE,   /* a mask that hides those rows: -infinity from the middle of axis 0 on */
};

struct op_input {
    struct ggml_tensor * leaf; /* owns the memory */
    struct ggml_tensor * view; /* what the reference reads; the leaf's other bytes are poison */
    enum op_fill fill;
    double lo, hi;
    int64_t limit;
};

struct op_case;

struct op_build {
    struct ggml_context * ctx;
    const struct op_case * c;
    bool through_graph; /* F32 inputs pass through a node, so that the graph allocator may compute in place */
    struct op_input in[OP_MAX_INPUTS];
    struct ggml_tensor * passed[OP_MAX_INPUTS]; /* those nodes, NULL where there is none */
    int n_in;
};

typedef struct ggml_tensor * (*op_build_fn)(struct op_build * b);

struct op_case {
    enum ggml_op op;
    enum ggml_unary_op unary;
    const char * key;    /* bounds.csv: first this, then the family */
    enum ggml_type type; /* of the weights or the data */
    enum ggml_type type_b;
    op_build_fn build;
    int64_t a[4], b[4], c[4]; /* shapes of the inputs; zeros mean 1, or "no such input" when all are zero */
    int32_t p[8];             /* integer parameters of the op */
    float f[4];               /* real ones */
    enum op_layout la, lb;
    enum op_fill fill;
    double lo, hi;
    int64_t row_step; /* compare every n-th row only (real shapes); the others must hold no poison */
    char text[128];
};

/* p[3] of a causal convolution: what it does besides, and which inputs follow kernel and data, in this order. */
enum { WITH_CAUSAL = 1, WITH_PAST = 2, WITH_ELU = 4, WITH_SNAKE = 8, WITH_BIAS = 16, WITH_RESIDUAL = 32 };

struct op_list {
    struct op_case * items;
    int n, cap;
};

/* --- op_cases*.c --- */
void op_list_fill(struct op_list * list);      /* every case of the test mode */
void op_list_fill_perf(struct op_list * list); /* the model's real shapes */
struct op_case * op_list_add(struct op_list * list, enum ggml_op op, op_build_fn build);
struct op_case * op_list_add2(struct op_list * list, enum ggml_op op, op_build_fn build, const int64_t a[4], const int64_t b[4]); /* b may be NULL */
void op_list_name(struct op_list * list); /* give every case its text */
void op_list_free(struct op_list * list);
void op_cases_shape(struct op_list * list);
void op_cases_elementwise(struct op_list * list);
void op_cases_products(struct op_list * list);
void op_cases_sizes(struct op_list * list);
struct ggml_tensor * op_in(struct op_build * b, enum ggml_type type, const int64_t ne[4], enum op_layout layout, enum op_fill fill);
struct ggml_tensor * build_mul_mat(struct op_build * b);
struct ggml_tensor * build_get_rows(struct op_build * b);
struct ggml_tensor * build_conv_1d(struct op_build * b);
struct ggml_tensor * build_conv_1d_dw(struct op_build * b);
struct ggml_tensor * build_col2im_1d(struct op_build * b);
struct ggml_tensor * build_flash_attn(struct op_build * b);
struct ggml_tensor * build_snake(struct op_build * b);
struct ggml_tensor * build_rms_norm(struct op_build * b);
const char * op_family(enum ggml_op op);

/* --- op_dtype.c: formats, from their public description --- */
uint64_t op_random(uint64_t seed, uint64_t stream, uint64_t counter);
uint64_t op_hash(const char * text);
double op_dtype_round(enum ggml_type type, double x); /* nearest value of the type, ties to even */
double op_dtype_ulp(enum ggml_type type, double x);   /* spacing of the type's values around x */
double op_dtype_load(enum ggml_type type, const void * row, int64_t i);
void op_dtype_store(enum ggml_type type, void * row, int64_t i, double x);
/* Values of the input into image, which maps tensor->data to image + (data - base). */
void op_fill_input(const struct op_input * in, uint64_t seed, uint64_t stream, uint8_t * image, const uint8_t * base);

/* --- op_guard.c: one buffer, every tensor between margins of poison --- */
struct op_guard {
    ggml_backend_buffer_t buffer;
    struct ggml_context * tensors; /* the guarded ones */
    struct ggml_context * ctx;     /* holds `whole` */
    struct ggml_tensor * whole;
    uint8_t * base;
    size_t size;
    uint8_t * image; /* initial bytes */
    uint8_t * after; /* bytes read back */
    uint8_t * mask;  /* 1: the op may write this byte */
};
bool op_guard_init(struct op_guard * g, ggml_backend_t backend, struct ggml_context * ctx, bool nodes_too);
void op_guard_free(struct op_guard * g);
void op_guard_allow(struct op_guard * g, const struct ggml_tensor * dst);
void op_guard_upload(struct op_guard * g);
void op_guard_download(struct op_guard * g);
/* Bytes changed that no op may change; what[] says where the first one lies. */
size_t op_guard_check(const struct op_guard * g, char * what, size_t what_bytes);
uint8_t op_guard_poison(size_t offset);

/* --- op_reference*.c --- */
struct ref_source {
    double * v; /* dense, [ne3, ne2, ne1, ne0] */
    int64_t ne[4];
};
struct ref_op {
    const struct op_case * c;
    struct ref_source src[OP_MAX_INPUTS];
    int n_src;
    int64_t ne[4]; /* of the result */
    bool fault;    /* compute something that is wrong in the way a kernel might be */
};
bool ref_op_init(struct ref_op * r, const struct op_build * b, const uint8_t * image, const uint8_t * base, bool fault);
void ref_op_free(struct ref_op * r);
/* Row (i1, i2, i3) of the result, and for each element the magnitude that rounding errors scale with. */
void ref_op_row(const struct ref_op * r, const int64_t i[4], double * out, double * mag);
bool ref_row_products(const struct ref_op * r, const int64_t i[4], double * out, double * mag); /* op_reference_products.c; false: not one of its ops */
double ref_at(const struct ref_source * s, int64_t i0, int64_t i1, int64_t i2, int64_t i3);

/* --- op_compare.c --- */
struct op_metrics {
    int64_t n;         /* elements compared */
    int64_t unlike;    /* NaN or infinity on one side only, or of another kind */
    int64_t different; /* not the nearest value of the type, signs of zero included */
    double ulp;        /* largest distance from it */
    double nmse;       /* sum (got - ref)^2 / sum ref^2 */
    double mag;        /* largest |got - ref| / magnitude */
    double sum_error2, sum_ref2;
};
void op_metrics_add(struct op_metrics * m, enum ggml_type type, double got, double ref, double mag);
void op_metrics_finish(struct op_metrics * m);
struct op_bound {
    const char * metric;
    double bound;
};
/* Rows of bounds.csv that govern the case; 0 if there are none, which is an error. */
int op_bounds_find(const struct op_case * c, const char * backend, struct op_bound * bounds, int max);
double op_metrics_get(const struct op_metrics * m, const char * metric);

/* --- op_runner.c, op_perf.c --- */
struct op_options {
    const char * op;
    const char * filter;
    const char * fault;
    const char * backend_name;
    int threads[8];
    int n_threads;
    uint64_t seed;
    size_t working_set_bytes;
    bool quiet, json;
};
ggml_backend_t op_backend_open(const struct op_options * o);
bool op_case_selected(const struct op_options * o, const struct op_case * c);
#define OP_OUT_OF_BOUNDS "out of bounds"
struct op_result {
    int n; /* rows of bounds.csv that were applied */
    struct { const char * metric; double value, bound; bool ok; } of[4];
    char error[512]; /* the first failure, "" if there is none */
};
int op_run_case(ggml_backend_t backend, const struct op_options * o, const struct op_case * c, struct op_result * r); /* failures; -1: not supported */
int op_run_perf(ggml_backend_t backend, const struct op_options * o);
struct ggml_tensor * op_build_guarded(struct op_build * b, const struct op_case * c, char * error, size_t error_bytes);

/* --- op_report.c --- */
void op_report_begin(ggml_backend_t backend, const struct op_options * o, const struct op_list * list);
void op_report_case_begin(const struct op_options * o, const struct op_case * c);
void op_report_case_end(ggml_backend_t backend, const struct op_options * o, const struct op_case * c, int verdict, const struct op_result * r);
