/* unary.c - scale, clamp, square, root, logarithm and the activations, element by element: x [n, ...] -> [n, ...], F32.
 * Packed tensors are cut anywhere, strided ones by rows. Activations: tanh, relu, sigmoid, gelu (tanh form), gelu_erf (exact form), silu, elu. */
#include "../row.h"
#include "../vec_math.h"

struct op_args {
    int kind;
    float a, b; /* scale: a; clamp: a .. b */
};

enum { KIND_SCALE = GGML_UNARY_OP_COUNT, KIND_CLAMP, KIND_SQR, KIND_SQRT, KIND_LOG };

/* y = expr over x, with a partial vector at the end. */
#define MAP(expr)                                                  \
    do {                                                           \
        int64_t i = 0;                                             \
        for (; i + VF_N <= n; i += VF_N) {                         \
            vf x = vf_load(src + i);                               \
            vf_store(dst + i, expr);                               \
        }                                                          \
        if (i < n) {                                               \
            vf x = vf_load_n(src + i, (int) (n - i));              \
            vf_store_n(dst + i, expr, (int) (n - i));              \
        }                                                          \
    } while (0)

/* x (1 + tanh u) / 2 = x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3). */
static inline vf gelu_tanh(vf x) {
    vf u2 = vf_mul(vf_mul(x, vf_set1(1.59576912f)), vf_fma(vf_mul(x, x), vf_set1(0.044715f), vf_set1(1.0f)));
    return vf_mul(x, vf_sigmoid(u2));
}

static inline vf gelu_erf(vf x) {
    vf half = vf_mul(x, vf_set1(0.5f));
    return vf_fma(half, vf_erf(vf_mul(x, vf_set1(0.707106781f))), half);
}

/* libm's, a lane at a time: a few hundred thousand values a clip do not want a polynomial of their own. */
static inline vf log_lanes(vf x) {
    float v[VF_N];
    vf_store(v, x);
    for (int i = 0; i < VF_N; i++) {
        v[i] = logf(v[i]);
    }
    return vf_load(v);
}

static void map_run(const struct op_args * args, const float * src, float * dst, int64_t n) {
    const vf a = vf_set1(args->a), b = vf_set1(args->b);
    switch (args->kind) {
        case GGML_UNARY_OP_TANH: MAP(vf_tanh(x)); break;
        case GGML_UNARY_OP_RELU: MAP(vf_max(vf_zero(), x)); break;
        case GGML_UNARY_OP_SIGMOID: MAP(vf_sigmoid(x)); break;
        case GGML_UNARY_OP_GELU: MAP(gelu_tanh(x)); break;
        case GGML_UNARY_OP_GELU_ERF: MAP(gelu_erf(x)); break;
        case GGML_UNARY_OP_SILU: MAP(vf_mul(x, vf_sigmoid(x))); break;
        case GGML_UNARY_OP_ELU: MAP(vf_elu(x)); break;
        case KIND_SQR: MAP(vf_mul(x, x)); break;
        case KIND_SQRT: MAP(vf_sqrt(x)); break;
        case KIND_LOG: MAP(log_lanes(x)); break;
        case KIND_SCALE: MAP(vf_mul(x, a)); break;
        case KIND_CLAMP: MAP(vf_max(a, vf_min(b, x))); break; /* in this order NaN stays NaN */
        default: GGML_ABORT("unary: no kind %d", args->kind);
    }
}

static void map_tensor(const struct cpu_task * task, struct ggml_tensor * dst, const struct op_args * args) {
    const struct ggml_tensor * src = dst->src[0];
    int64_t first, last;
    if (ggml_is_contiguous(src) && ggml_is_contiguous(dst)) {
        cpu_range(task, ggml_nelements(dst), 64, &first, &last);
        if (first < last) {
            map_run(args, (const float *) src->data + first, (float *) dst->data + first, last - first);
        }
        return;
    }
    cpu_range(task, ggml_nrows(dst), 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        struct row at = row_of(dst, r);
        map_run(args, (const float *) row_data(src, at), (float *) row_data(dst, at), dst->ne[0]);
    }
}

void KERNEL(cpu_op_unary)(const struct cpu_task * task, struct ggml_tensor * dst) {
    map_tensor(task, dst, &(struct op_args) { .kind = ggml_get_op_params_i32(dst, 0) });
}

void KERNEL(cpu_op_scale)(const struct cpu_task * task, struct ggml_tensor * dst) {
    map_tensor(task, dst, &(struct op_args) { .kind = KIND_SCALE, .a = ggml_get_op_params_f32(dst, 0) });
}

void KERNEL(cpu_op_clamp)(const struct cpu_task * task, struct ggml_tensor * dst) {
    map_tensor(task, dst, &(struct op_args) { .kind = KIND_CLAMP, .a = ggml_get_op_params_f32(dst, 0), .b = ggml_get_op_params_f32(dst, 1) });
}

void KERNEL(cpu_op_sqr)(const struct cpu_task * task, struct ggml_tensor * dst) { map_tensor(task, dst, &(struct op_args) { .kind = KIND_SQR }); }
void KERNEL(cpu_op_sqrt)(const struct cpu_task * task, struct ggml_tensor * dst) { map_tensor(task, dst, &(struct op_args) { .kind = KIND_SQRT }); }
void KERNEL(cpu_op_log)(const struct cpu_task * task, struct ggml_tensor * dst) { map_tensor(task, dst, &(struct op_args) { .kind = KIND_LOG }); }
