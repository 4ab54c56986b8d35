/* ggml.h - tensors, operations, graphs: the part of ggml's API that speech models of this kind need, in our own code.
 *
 * Names, argument order, layouts and type numbers are ggml's. A tensor has up to four axes; ne[0] is the fastest, nb[i] is the stride
 * of axis i in bytes. Builders (ggml_add, ...) decide the shape of their result and check their sources; they compute nothing. A graph
 * is handed to a backend (ggml-backend.h), which computes it.
 *
 * A builder whose sources do not fit is a programming error and ends in GGML_ASSERT; nothing read from a file may reach a builder
 * before its shape was checked. A context that is full makes builders return NULL.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GGML_MAX_DIMS      4
#define GGML_MAX_SRC       7
#define GGML_MAX_NAME      64
#define GGML_MAX_OP_PARAMS 64 /* bytes */
#define GGML_MEM_ALIGN     64 /* bytes: a cache line, and the widest vector */
#define GGML_DEFAULT_GRAPH_SIZE 2048

#if defined(__GNUC__)
#  define GGML_NORETURN __attribute__((noreturn))
#  define GGML_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#  define GGML_NORETURN
#  define GGML_PRINTF(fmt, args)
#endif

/* Calls the abort callback, if one is set, then abort(). */
GGML_NORETURN void ggml_abort(const char * file, int line, const char * fmt, ...) GGML_PRINTF(3, 4);
typedef void (*ggml_abort_callback_t)(const char * message);
ggml_abort_callback_t ggml_set_abort_callback(ggml_abort_callback_t callback);

#define GGML_ABORT(...) ggml_abort(__FILE__, __LINE__, __VA_ARGS__)
#define GGML_ASSERT(x)  do { if (!(x)) GGML_ABORT("GGML_ASSERT(%s) failed", #x); } while (0)
#define GGML_UNUSED(x)  (void) (x)
#define GGML_PAD(x, n)  (((x) + (n) - 1) / (n) * (n))

enum ggml_status {
    GGML_STATUS_ALLOC_FAILED = -2,
    GGML_STATUS_FAILED = -1,
    GGML_STATUS_SUCCESS = 0,
    GGML_STATUS_ABORTED = 1, /* by the abort callback of the backend */
};

enum ggml_type {
    GGML_TYPE_F32 = 0,
    GGML_TYPE_F16 = 1,
    GGML_TYPE_Q4_0 = 2,
    GGML_TYPE_Q4_1 = 3,
    GGML_TYPE_Q5_0 = 6,
    GGML_TYPE_Q5_1 = 7,
    GGML_TYPE_Q8_0 = 8,
    GGML_TYPE_Q4_K = 12,
    GGML_TYPE_Q5_K = 13,
    GGML_TYPE_Q6_K = 14,
    GGML_TYPE_Q8_K = 15, /* activations only, never in a file */
    GGML_TYPE_I8 = 24,
    GGML_TYPE_I16 = 25,
    GGML_TYPE_I32 = 26,
    GGML_TYPE_I64 = 27,
    GGML_TYPE_F64 = 28,
    GGML_TYPE_BF16 = 30,
    GGML_TYPE_COUNT = 31,
};

/* One line an op in core/ops.def: the enum, its names and the coverage table come from it. */
enum ggml_op {
#define GGML_OP_DEF(id, name, family) GGML_OP_##id,
#include "../core/ops.def"
#undef GGML_OP_DEF
    GGML_OP_COUNT,
};

enum ggml_unary_op {
    GGML_UNARY_OP_TANH,
    GGML_UNARY_OP_RELU,
    GGML_UNARY_OP_SIGMOID,
    GGML_UNARY_OP_GELU,     /* tanh form */
    GGML_UNARY_OP_GELU_ERF, /* exact form */
    GGML_UNARY_OP_SILU,
    GGML_UNARY_OP_ELU,      /* x > 0 ? x : exp(x) - 1 */
    GGML_UNARY_OP_COUNT,
};

enum ggml_tensor_flag {
    GGML_TENSOR_FLAG_INPUT = 1,  /* set by the caller before a graph runs: its memory is not reused */
    GGML_TENSOR_FLAG_OUTPUT = 2, /* read after the graph ran: likewise */
};

enum ggml_log_level { GGML_LOG_LEVEL_NONE = 0, GGML_LOG_LEVEL_DEBUG = 1, GGML_LOG_LEVEL_INFO = 2, GGML_LOG_LEVEL_WARN = 3, GGML_LOG_LEVEL_ERROR = 4 };
typedef void (*ggml_log_callback)(enum ggml_log_level level, const char * text, void * user_data);
void ggml_log_set(ggml_log_callback callback, void * user_data); /* NULL: silence */

struct ggml_backend_buffer;

struct ggml_tensor {
    enum ggml_type type;
    struct ggml_backend_buffer * buffer;
    int64_t ne[GGML_MAX_DIMS]; /* elements */
    size_t  nb[GGML_MAX_DIMS]; /* bytes: nb[0] = type size, nb[1] = nb[0] * ne[0] / block size, nb[i] = nb[i-1] * ne[i-1] when packed */
    enum ggml_op op;
    int32_t op_params[GGML_MAX_OP_PARAMS / sizeof(int32_t)];
    int32_t flags;
    struct ggml_tensor * src[GGML_MAX_SRC];
    struct ggml_tensor * view_src; /* the tensor that owns the memory, never itself a view */
    size_t view_offs;
    void * data;
    char   name[GGML_MAX_NAME];
    void * extra;
};

struct ggml_context;
struct ggml_cgraph;
typedef uint16_t ggml_fp16_t;
typedef struct { uint16_t bits; } ggml_bf16_t;

struct ggml_init_params {
    size_t mem_size;   /* bytes */
    void * mem_buffer; /* NULL: the context allocates and frees it */
    bool   no_alloc;   /* true: tensors get no data here; a backend buffer or a graph allocator gives it */
};

/* --- contexts and tensors --- */

struct ggml_context * ggml_init(struct ggml_init_params params); /* NULL when memory cannot be had */
void   ggml_reset(struct ggml_context * ctx);                    /* forget all tensors */
void   ggml_free(struct ggml_context * ctx);
size_t ggml_used_mem(const struct ggml_context * ctx);
bool   ggml_get_no_alloc(struct ggml_context * ctx);
size_t ggml_tensor_overhead(void);                               /* bytes of a context that one tensor takes */
size_t ggml_graph_overhead(void);
size_t ggml_graph_overhead_custom(size_t size, bool grads);

struct ggml_tensor * ggml_new_tensor(struct ggml_context * ctx, enum ggml_type type, int n_dims, const int64_t * ne);
struct ggml_tensor * ggml_new_tensor_1d(struct ggml_context * ctx, enum ggml_type type, int64_t ne0);
struct ggml_tensor * ggml_new_tensor_2d(struct ggml_context * ctx, enum ggml_type type, int64_t ne0, int64_t ne1);
struct ggml_tensor * ggml_new_tensor_3d(struct ggml_context * ctx, enum ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2);
struct ggml_tensor * ggml_new_tensor_4d(struct ggml_context * ctx, enum ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3);
struct ggml_tensor * ggml_dup_tensor(struct ggml_context * ctx, const struct ggml_tensor * src); /* same type and shape, packed */
struct ggml_tensor * ggml_view_tensor(struct ggml_context * ctx, struct ggml_tensor * src);
struct ggml_tensor * ggml_get_first_tensor(const struct ggml_context * ctx);
struct ggml_tensor * ggml_get_next_tensor(const struct ggml_context * ctx, struct ggml_tensor * tensor);
struct ggml_tensor * ggml_get_tensor(struct ggml_context * ctx, const char * name); /* NULL if none */

struct ggml_tensor * ggml_set_name(struct ggml_tensor * tensor, const char * name); /* cut at GGML_MAX_NAME - 1 */
struct ggml_tensor * ggml_format_name(struct ggml_tensor * tensor, const char * fmt, ...) GGML_PRINTF(2, 3);
const char * ggml_get_name(const struct ggml_tensor * tensor);
void ggml_set_input(struct ggml_tensor * tensor);
void ggml_set_output(struct ggml_tensor * tensor);

/* --- facts --- */

int64_t ggml_nelements(const struct ggml_tensor * tensor);
int64_t ggml_nrows(const struct ggml_tensor * tensor);
size_t  ggml_nbytes(const struct ggml_tensor * tensor); /* from the first to the last byte, gaps of a view included */
size_t  ggml_row_size(enum ggml_type type, int64_t ne);
int64_t ggml_blck_size(enum ggml_type type);
size_t  ggml_type_size(enum ggml_type type);            /* bytes of a block; 0 for a number that is no type */
const char * ggml_type_name(enum ggml_type type);       /* "q8_0"; "none" for a number that is no type */
size_t  ggml_element_size(const struct ggml_tensor * tensor);
bool    ggml_is_quantized(enum ggml_type type);
const char * ggml_op_name(enum ggml_op op);
const char * ggml_unary_op_name(enum ggml_unary_op op);
enum ggml_unary_op ggml_get_unary_op(const struct ggml_tensor * tensor);
int     ggml_n_dims(const struct ggml_tensor * tensor);
bool    ggml_is_contiguous(const struct ggml_tensor * tensor);
bool    ggml_is_contiguous_rows(const struct ggml_tensor * tensor); /* nb[0] is packed */
bool    ggml_is_transposed(const struct ggml_tensor * tensor);
bool    ggml_is_permuted(const struct ggml_tensor * tensor);
bool    ggml_is_empty(const struct ggml_tensor * tensor);
bool    ggml_is_view(const struct ggml_tensor * tensor);
bool    ggml_is_scalar(const struct ggml_tensor * tensor);
bool    ggml_are_same_shape(const struct ggml_tensor * a, const struct ggml_tensor * b);
bool    ggml_can_repeat(const struct ggml_tensor * a, const struct ggml_tensor * b); /* a tiles b */

float       ggml_fp16_to_fp32(ggml_fp16_t x);
ggml_fp16_t ggml_fp32_to_fp16(float x); /* nearest even */
float       ggml_bf16_to_fp32(ggml_bf16_t x);
ggml_bf16_t ggml_fp32_to_bf16(float x);

typedef void (*ggml_to_float_t)(const void * x, float * y, int64_t k);
typedef void (*ggml_from_float_t)(const float * x, void * y, int64_t k);
struct ggml_type_traits {
    const char *      type_name;
    int64_t           blck_size;
    size_t            type_size;
    bool              is_quantized;
    ggml_to_float_t   to_float;       /* k elements, whole blocks; NULL for integers */
    ggml_from_float_t from_float_ref; /* k elements; q4_K, q5_K and q6_K search for small errors, the others round; NULL for integers */
};
const struct ggml_type_traits * ggml_get_type_traits(enum ggml_type type); /* NULL for a number that is no type */

/* Rows of floats to blocks: nrows rows of n_per_row elements, the first at element start of src, a multiple of n_per_row; they go to the same rows
 * of dst. Any type of a file: f32, f16, bf16 and blocks. imatrix [n_per_row], NULL for none, weights the columns' errors where a type has a
 * search (q4_K, q5_K, q6_K). Returns the bytes written. Values must be finite. */
size_t ggml_quantize_chunk(enum ggml_type type, const float * src, void * dst, int64_t start, int64_t nrows, int64_t n_per_row, const float * imatrix);

/* --- elementwise --- */

struct ggml_tensor * ggml_add(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b); /* b tiles a, F32 */
struct ggml_tensor * ggml_sub(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b);
struct ggml_tensor * ggml_mul(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b);
struct ggml_tensor * ggml_div(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b);
struct ggml_tensor * ggml_scale(struct ggml_context * ctx, struct ggml_tensor * a, float s);
struct ggml_tensor * ggml_clamp(struct ggml_context * ctx, struct ggml_tensor * a, float min, float max);
struct ggml_tensor * ggml_unary(struct ggml_context * ctx, struct ggml_tensor * a, enum ggml_unary_op op);
struct ggml_tensor * ggml_tanh(struct ggml_context * ctx, struct ggml_tensor * a);
struct ggml_tensor * ggml_relu(struct ggml_context * ctx, struct ggml_tensor * a);
struct ggml_tensor * ggml_sigmoid(struct ggml_context * ctx, struct ggml_tensor * a);
struct ggml_tensor * ggml_gelu(struct ggml_context * ctx, struct ggml_tensor * a);
struct ggml_tensor * ggml_gelu_erf(struct ggml_context * ctx, struct ggml_tensor * a);
struct ggml_tensor * ggml_elu(struct ggml_context * ctx, struct ggml_tensor * a);
struct ggml_tensor * ggml_sqr(struct ggml_context * ctx, struct ggml_tensor * a);
struct ggml_tensor * ggml_sqrt(struct ggml_context * ctx, struct ggml_tensor * a);
struct ggml_tensor * ggml_log(struct ggml_context * ctx, struct ggml_tensor * a);
struct ggml_tensor * ggml_silu(struct ggml_context * ctx, struct ggml_tensor * a);
struct ggml_tensor * ggml_swiglu_split(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b); /* silu(a) * b */
/* y = x + sin^2(a * x) * inv_b. x [T, C]; a, inv_b F32 with C elements: [C] or [1, C]. */
struct ggml_tensor * ggml_snake(struct ggml_context * ctx, struct ggml_tensor * x, struct ggml_tensor * a, struct ggml_tensor * inv_b);

/* --- rows --- */

struct ggml_tensor * ggml_norm(struct ggml_context * ctx, struct ggml_tensor * a, float eps);     /* (x - mean) / sqrt(var + eps) */
struct ggml_tensor * ggml_rms_norm(struct ggml_context * ctx, struct ggml_tensor * a, float eps); /* x / sqrt(mean(x^2) + eps) */
struct ggml_tensor * ggml_sum_rows(struct ggml_context * ctx, struct ggml_tensor * a); /* [n, m, ...] -> [1, m, ...] */
struct ggml_tensor * ggml_mean(struct ggml_context * ctx, struct ggml_tensor * a);     /* [n, m, ...] -> [1, m, ...] */
struct ggml_tensor * ggml_argmax(struct ggml_context * ctx, struct ggml_tensor * a);   /* F32 [n, m] -> I32 [m], the first of equal ones */
/* a [n, m], b I32 [r] -> F32 [n, r]; an index outside 0..m-1 is the caller's error and asserts. */
struct ggml_tensor * ggml_get_rows(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b);
/* Write rows of b (F32 [n, r]) to rows c (I64 [r]) of a ([n, m], F32/F16/BF16/Q8_0); a view of a. */
struct ggml_tensor * ggml_set_rows(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b, struct ggml_tensor * c);

/* --- products --- */

/* a [K, M, ...], b F32 [K, N, ...] -> F32 [M, N, ...]: b's axes 2, 3 are multiples of a's. */
struct ggml_tensor * ggml_mul_mat(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b);
enum ggml_prec { GGML_PREC_DEFAULT = 0, GGML_PREC_F32 = 10 };
/* GGML_PREC_F32: b is never rounded and a column's result does not depend on how many columns b has. Default: the backend's fastest. */
void ggml_mul_mat_set_prec(struct ggml_tensor * a, enum ggml_prec prec);
/* a [M, K], b F32 [N, K] -> F32 [M, N] = sum over k of a[m, k] * b[n, k]. a: F32, F16, BF16. */
struct ggml_tensor * ggml_out_prod(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b);

/* --- attention --- */

enum { GGML_ROPE_TYPE_NORMAL = 0, GGML_ROPE_TYPE_NEOX = 2 };
/* a [hd, H, T], b I32 [T] positions; NEOX pairs i and i + n_dims/2. */
struct ggml_tensor * ggml_rope_ext(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b, struct ggml_tensor * freq_factors,
                                   int n_dims, int mode, int n_ctx_orig, float freq_base, float freq_scale, float ext_factor,
                                   float attn_factor, float beta_fast, float beta_slow); /* ext_factor 0 and freq_factors NULL here */
struct ggml_tensor * ggml_soft_max(struct ggml_context * ctx, struct ggml_tensor * a);
/* softmax(a * scale + mask), mask F32 or F16 [n_kv, >= T] or NULL; max_bias 0 here. */
struct ggml_tensor * ggml_soft_max_ext(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * mask, float scale, float max_bias);
/* q F32 [hd, T, H], k and v [hd, n_kv, H_kv] (F32, F16, BF16), mask F32 or F16 [n_kv, >= T] or NULL -> F32 [hd, H, T]; H is a multiple of H_kv. */
struct ggml_tensor * ggml_flash_attn_ext(struct ggml_context * ctx, struct ggml_tensor * q, struct ggml_tensor * k, struct ggml_tensor * v,
                                         struct ggml_tensor * mask, float scale, float max_bias, float logit_softcap);

/* --- convolutions, time first: ne[0] = T, ne[1] = C --- */

/* a [K, IC, OC] (any float type, or blocks where K fits), b F32 [T, IC] -> F32 [T_out, OC], T_out = (T + 2 p0 - d0 (K-1) - 1) / s0 + 1. One op, no im2col in memory. */
struct ggml_tensor * ggml_conv_1d(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b, int s0, int p0, int d0);
/* a [K, 1, C], b F32 [T, C] -> F32 [T_out, C] */
struct ggml_tensor * ggml_conv_1d_dw(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b, int s0, int p0, int d0);

/* What a causal convolution does to the columns it reads and to those it writes, so that neither is stored in between. NULL: not. All F32. */
enum ggml_conv_act { GGML_CONV_ACT_NONE, GGML_CONV_ACT_ELU, GGML_CONV_ACT_SNAKE };
struct ggml_conv_ext {
    struct ggml_tensor * past;     /* [n, IC], n at least the columns that stand before b: the last of them do instead of zeros */
    enum ggml_conv_act act;        /* of past and b: elu(x), or x + sin^2(snake_a * x) * snake_inv_b; all three keep a zero */
    struct ggml_tensor * snake_a;  /* [IC] */
    struct ggml_tensor * snake_inv_b;
    struct ggml_tensor * bias;     /* [OC] */
    struct ggml_tensor * residual; /* the result's shape, added after the bias */
    enum ggml_prec prec;           /* GGML_PREC_F32: as sums of F32 products. Default: a backend may leave out 2^-17 of a term */
    bool passed_on;                /* the result is read by the next convolution of the graph alone: a backend may leave it unwritten */
};
/* a [K, IC, OC] as for ggml_conv_1d, b [T, IC] -> [ceil(T / s0), OC]. d0 (K-1) + 1 - s0 >= 0 columns stand before b, zeros behind it complete the last stride. */
struct ggml_tensor * ggml_conv_1d_causal(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b, int s0, int d0, const struct ggml_conv_ext * ext);
/* a [K, OC, IC] of F32, F16 or BF16, b [T, IC] -> [T*s0, OC]: out[t*s0 + r] = sum over j of a[j*s0 + r] b[t - j]. ceil(K / s0) - 1 columns stand before b. No residual. */
struct ggml_tensor * ggml_conv_transpose_1d_causal(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b, int s0, const struct ggml_conv_ext * ext);
/* Overlap-add of a transposed convolution: cols F32 [K*OC, T] (k fastest) -> F32 [T_out, OC], T_out = (T-1)*s0 + K - 2*p0. */
struct ggml_tensor * ggml_col2im_1d(struct ggml_context * ctx, struct ggml_tensor * cols, int s0, int oc, int p0);

/* --- shape --- */

struct ggml_tensor * ggml_cpy(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b); /* a's elements into b; a view of b */
struct ggml_tensor * ggml_cont(struct ggml_context * ctx, struct ggml_tensor * a);
struct ggml_tensor * ggml_cast(struct ggml_context * ctx, struct ggml_tensor * a, enum ggml_type type);
struct ggml_tensor * ggml_concat(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b, int dim);
struct ggml_tensor * ggml_repeat(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b); /* a tiled to b's shape */
/* Zeros: lpi before and rpi after axis i. */
struct ggml_tensor * ggml_pad_ext(struct ggml_context * ctx, struct ggml_tensor * a, int lp0, int rp0, int lp1, int rp1, int lp2, int rp2, int lp3, int rp3);
struct ggml_tensor * ggml_pad_reflect_1d(struct ggml_context * ctx, struct ggml_tensor * a, int p0, int p1); /* mirrored without the edge; p < ne[0] */
struct ggml_tensor * ggml_reshape(struct ggml_context * ctx, struct ggml_tensor * a, struct ggml_tensor * b);
struct ggml_tensor * ggml_reshape_1d(struct ggml_context * ctx, struct ggml_tensor * a, int64_t ne0);
struct ggml_tensor * ggml_reshape_2d(struct ggml_context * ctx, struct ggml_tensor * a, int64_t ne0, int64_t ne1);
struct ggml_tensor * ggml_reshape_3d(struct ggml_context * ctx, struct ggml_tensor * a, int64_t ne0, int64_t ne1, int64_t ne2);
struct ggml_tensor * ggml_reshape_4d(struct ggml_context * ctx, struct ggml_tensor * a, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3);
struct ggml_tensor * ggml_view_1d(struct ggml_context * ctx, struct ggml_tensor * a, int64_t ne0, size_t offset);
struct ggml_tensor * ggml_view_2d(struct ggml_context * ctx, struct ggml_tensor * a, int64_t ne0, int64_t ne1, size_t nb1, size_t offset);
struct ggml_tensor * ggml_view_3d(struct ggml_context * ctx, struct ggml_tensor * a, int64_t ne0, int64_t ne1, int64_t ne2, size_t nb1, size_t nb2, size_t offset);
struct ggml_tensor * ggml_view_4d(struct ggml_context * ctx, struct ggml_tensor * a, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3,
                                  size_t nb1, size_t nb2, size_t nb3, size_t offset);
struct ggml_tensor * ggml_permute(struct ggml_context * ctx, struct ggml_tensor * a, int axis0, int axis1, int axis2, int axis3);
struct ggml_tensor * ggml_transpose(struct ggml_context * ctx, struct ggml_tensor * a);

/* --- graphs --- */

struct ggml_cgraph * ggml_new_graph(struct ggml_context * ctx);
struct ggml_cgraph * ggml_new_graph_custom(struct ggml_context * ctx, size_t size, bool grads);
void ggml_build_forward_expand(struct ggml_cgraph * graph, struct ggml_tensor * tensor); /* it and all it needs, in order */
void ggml_graph_clear(struct ggml_cgraph * graph);
int  ggml_graph_size(struct ggml_cgraph * graph);
int  ggml_graph_n_nodes(struct ggml_cgraph * graph);
struct ggml_tensor *  ggml_graph_node(struct ggml_cgraph * graph, int i); /* i < 0 counts from the end */
struct ggml_tensor ** ggml_graph_nodes(struct ggml_cgraph * graph);
struct ggml_tensor *  ggml_graph_get_tensor(const struct ggml_cgraph * graph, const char * name);

#ifdef __cplusplus
}
#endif
