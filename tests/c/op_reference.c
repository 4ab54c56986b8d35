/* op_reference.c - what each op computes, as plain loops over doubles: shapes, and the ops without sums over two tensors.
 * Inputs are read after rounding to their type (op_dtype.c), parameters from the case, so neither the library's builders nor its kernels take
 * part. Products, attention and convolutions: op_reference_products.c. With `fault`, every op is wrong in a way a kernel might be. */
#include "op_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double ref_at(const struct ref_source * s, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    return s->v[i0 + s->ne[0] * (i1 + s->ne[1] * (i2 + s->ne[2] * i3))];
}

static bool source_init(struct ref_source * s, const struct ggml_tensor * t, const uint8_t * image, const uint8_t * base) {
    memcpy(s->ne, t->ne, sizeof s->ne);
    s->v = malloc((size_t) (t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3]) * sizeof(double));
    if (!s->v) {
        return false;
    }
    double * v = s->v;
    bool blocks = ggml_blck_size(t->type) > 1;
    const uint8_t * first = image + ((const uint8_t *) t->data - base);
    for (int64_t i3 = 0; i3 < t->ne[3]; i3++) {
        for (int64_t i2 = 0; i2 < t->ne[2]; i2++) {
            for (int64_t i1 = 0; i1 < t->ne[1]; i1++) {
                const uint8_t * row = first + i1 * (int64_t) t->nb[1] + i2 * (int64_t) t->nb[2] + i3 * (int64_t) t->nb[3];
                for (int64_t i0 = 0; i0 < t->ne[0]; i0++) {
                    *v++ = blocks ? op_dtype_load(t->type, row, i0) : op_dtype_load(t->type, row + i0 * (int64_t) t->nb[0], 0);
                }
            }
        }
    }
    return true;
}

static void result_shape(struct ref_op * r) {
    const int64_t * a = r->src[0].ne, * b = r->n_src > 1 ? r->src[1].ne : a;
    const int32_t * p = r->c->p;
    memcpy(r->ne, a, sizeof r->ne);
    switch (r->c->op) {
        case GGML_OP_CPY:
        case GGML_OP_REPEAT:
            for (int d = 0; d < 4; d++) {
                r->ne[d] = r->c->b[d] ? r->c->b[d] : r->c->b[0] ? 1 : a[d];
            }
            break;
        case GGML_OP_CONCAT: r->ne[p[0]] += b[p[0]]; break;
        case GGML_OP_PAD:
            for (int d = 0; d < 4; d++) {
                r->ne[d] += p[2 * d] + p[2 * d + 1];
            }
            break;
        case GGML_OP_PAD_REFLECT_1D: r->ne[0] += p[0] + p[1]; break;
        case GGML_OP_SUM_ROWS:
        case GGML_OP_MEAN: r->ne[0] = 1; break;
        case GGML_OP_ARGMAX: r->ne[0] = a[1]; r->ne[1] = 1; break;
        case GGML_OP_GET_ROWS: r->ne[1] = b[0]; break;
        case GGML_OP_MUL_MAT: memcpy(r->ne, b, sizeof r->ne); r->ne[0] = a[1]; break;
        case GGML_OP_OUT_PROD: r->ne[1] = b[0]; break;
        case GGML_OP_FLASH_ATTN_EXT: r->ne[1] = a[2]; r->ne[2] = a[1]; break;
        case GGML_OP_CONV_1D:
        case GGML_OP_CONV_1D_DW:
            memcpy(r->ne, b, sizeof r->ne);
            r->ne[0] = (b[0] + 2 * p[1] - p[2] * (a[0] - 1) - 1) / p[0] + 1;
            r->ne[1] = a[2];
            if (p[3]) {
                r->ne[0] = (b[0] + p[0] - 1) / p[0];
            }
            break;
        case GGML_OP_CONV_TRANSPOSE_1D:
            memcpy(r->ne, b, sizeof r->ne);
            r->ne[0] = b[0] * p[0];
            r->ne[1] = a[1];
            break;
        case GGML_OP_COL2IM_1D:
            r->ne[0] = (a[1] - 1) * p[0] + a[0] / p[1] - 2 * p[2];
            r->ne[1] = p[1];
            break;
        default: break;
    }
}

bool ref_op_init(struct ref_op * r, const struct op_build * b, const uint8_t * image, const uint8_t * base, bool fault) {
    memset(r, 0, sizeof *r);
    r->c = b->c;
    r->fault = fault;
    for (; r->n_src < b->n_in; r->n_src++) {
        if (!source_init(&r->src[r->n_src], b->in[r->n_src].view, image, base)) {
            return false;
        }
    }
    result_shape(r);
    return true;
}

void ref_op_free(struct ref_op * r) {
    for (int i = 0; i < r->n_src; i++) {
        free(r->src[i].v);
    }
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double silu(double x) { return isinf(x) && x > 0 ? x : x / (1 + exp(-x)); }

static double unary(enum ggml_unary_op op, double x, bool fault) {
    const double tanh_scale = sqrt(2 / M_PI);
    switch (op) {
        case GGML_UNARY_OP_TANH: return fault ? x / (1 + fabs(x)) : tanh(x);
        case GGML_UNARY_OP_RELU: return isnan(x) || x > 0 ? x : fault ? x / 100 : 0;
        case GGML_UNARY_OP_SIGMOID: return sigmoid(fault ? -x : x);
        case GGML_UNARY_OP_ELU: return isnan(x) || x > 0 ? x : fault ? x : expm1(x);
        case GGML_UNARY_OP_SILU: return fault ? x * sigmoid(1.702 * x) : silu(x);
        case GGML_UNARY_OP_GELU:
        case GGML_UNARY_OP_GELU_ERF:
            if ((op == GGML_UNARY_OP_GELU_ERF) != fault) {
                return 0.5 * x * erfc(-x / sqrt(2)); /* erfc keeps its digits where 1 + erf cancels */
            }
            /* 0.5 (1 + tanh u) = 1 / (1 + exp(-2 u)) without cancellation */
            return x * sigmoid(2 * tanh_scale * (x + 0.044715 * x * x * x));
        default: return NAN;
    }
}

static void row_elementwise(const struct ref_op * r, const int64_t i[4], double * out, double * mag) {
    const struct ref_source * a = &r->src[0], * b = &r->src[1];
    const float * f = r->c->f;
    for (int64_t k = 0; k < r->ne[0]; k++) {
        double x = ref_at(a, k, i[1], i[2], i[3]), y = 0;
        if (r->n_src > 1 && r->c->op != GGML_OP_SNAKE) {
            y = ref_at(b, r->fault && r->c->op == GGML_OP_ADD ? 0 : k % b->ne[0], i[1] % b->ne[1], i[2] % b->ne[2], i[3] % b->ne[3]);
        }
        double v = NAN, m = 0;
        switch (r->c->op) {
            case GGML_OP_ADD: v = x + y; break;
            case GGML_OP_SUB: v = r->fault ? y - x : x - y; break;
            case GGML_OP_MUL: v = r->fault ? x : x * y; break;
            case GGML_OP_DIV: v = r->fault ? y / x : x / y; break;
            case GGML_OP_GLU: v = r->fault ? silu(y) * x : silu(x) * y; m = fabs(x * y); break;
            case GGML_OP_SCALE: v = r->fault ? x : x * f[0]; break;
            case GGML_OP_CLAMP: v = isnan(x) ? x : fmin(r->fault ? x : fmax(x, f[0]), f[1]); break;
            case GGML_OP_SQR: v = r->fault ? x * fabs(x) : x * x; break;
            case GGML_OP_SQRT: v = r->fault ? cbrt(x) : sqrt(x); break;
            case GGML_OP_LOG: v = r->fault ? log1p(x) : log(x); break;
            case GGML_OP_UNARY:
                v = unary(r->c->unary, x, r->fault);
                m = r->c->unary == GGML_UNARY_OP_TANH || r->c->unary == GGML_UNARY_OP_SIGMOID || r->c->unary == GGML_UNARY_OP_ELU ? fabs(v) : fabs(x);
                break;
            case GGML_OP_SNAKE: {
                double alpha = r->src[1].v[i[1]], inv_b = r->src[2].v[i[1]], s = sin(alpha * x);
                v = x + (r->fault ? fabs(s) : s * s) * inv_b;
                m = fabs(x) + fabs(inv_b) * (1 + fabs(alpha * x)); /* the angle itself is rounded */
                break;
            }
            default: break;
        }
        out[k] = v;
        mag[k] = m;
    }
}

static void row_norm(const struct ref_op * r, const int64_t i[4], double * out, double * mag) {
    int64_t n = r->ne[0];
    double sum = 0, square = 0;
    bool centred = (r->c->op == GGML_OP_NORM) != r->fault;
    for (int64_t k = 0; k < n; k++) {
        sum += ref_at(&r->src[0], k, i[1], i[2], i[3]);
    }
    double mean = centred ? sum / (double) n : 0;
    for (int64_t k = 0; k < n; k++) {
        double d = ref_at(&r->src[0], k, i[1], i[2], i[3]) - mean;
        square += d * d;
    }
    double scale = 1 / sqrt(square / (double) n + r->c->f[0]);
    for (int64_t k = 0; k < n; k++) {
        double x = ref_at(&r->src[0], k, i[1], i[2], i[3]);
        out[k] = (x - mean) * scale;
        mag[k] = (fabs(x) + fabs(mean)) * scale;
    }
}

/* Indices: with equal values the first, with NaN never it. The fault takes the last, and forgets the last element of a sum. */
static int64_t argmax(const struct ref_op * r, int64_t i1) {
    int64_t best = -1;
    for (int64_t k = 0; k < r->src[0].ne[0]; k++) {
        double x = ref_at(&r->src[0], k, i1, 0, 0), top = best < 0 ? 0 : ref_at(&r->src[0], best, i1, 0, 0);
        if (!isnan(x) && (best < 0 || x > top || (r->fault && x == top))) {
            best = k;
        }
    }
    return best < 0 ? 0 : best;
}

static void row_reduce(const struct ref_op * r, const int64_t i[4], double * out, double * mag) {
    int64_t n = r->src[0].ne[0];
    if (r->c->op == GGML_OP_ARGMAX) {
        for (int64_t k = 0; k < r->ne[0]; k++) {
            out[k] = (double) argmax(r, k);
        }
        return;
    }
    for (int64_t k = 0; k < n - (r->fault && n > 1); k++) {
        out[0] += ref_at(&r->src[0], k, i[1], i[2], i[3]);
        mag[0] += fabs(ref_at(&r->src[0], k, i[1], i[2], i[3]));
    }
    if (r->c->op == GGML_OP_MEAN) {
        out[0] /= (double) n;
        mag[0] /= (double) n;
    }
}

static void row_soft_max(const struct ref_op * r, const int64_t i[4], double * out, double * mag) {
    int64_t n = r->ne[0];
    double top = -INFINITY, sum = 0;
    for (int64_t k = 0; k < n; k++) {
        double x = ref_at(&r->src[0], k, i[1], i[2], i[3]) * (r->fault ? 1 : r->c->f[0]);
        if (r->n_src > 1) {
            x += ref_at(&r->src[1], k, i[1], i[2] % r->src[1].ne[2], i[3] % r->src[1].ne[3]);
        }
        out[k] = x;
        top = fmax(top, x);
    }
    for (int64_t k = 0; k < n; k++) {
        mag[k] = out[k];
        out[k] = exp(out[k] - top);
        sum += out[k];
    }
    for (int64_t k = 0; k < n; k++) {
        out[k] /= sum;
        /* the exponent is rounded: its size scales the relative error */
        mag[k] = out[k] > 0 ? out[k] * (1 + fabs(mag[k]) + fabs(top)) : 0;
    }
}

static void row_rope(const struct ref_op * r, const int64_t i[4], double * out, double * mag) {
    const float * f = r->c->f;
    int n_dims = r->c->p[0];
    bool neox = (r->c->p[1] == GGML_ROPE_TYPE_NEOX) != r->fault;
    for (int64_t k = 0; k < r->ne[0]; k++) {
        out[k] = ref_at(&r->src[0], k, i[1], i[2], i[3]);
        mag[k] = fabs(out[k]);
    }
    for (int j = 0; j < n_dims / 2; j++) {
        int64_t k0 = neox ? j : 2 * j, k1 = neox ? j + n_dims / 2 : 2 * j + 1;
        double angle = r->src[1].v[i[2]] * pow(f[0], -2.0 * j / n_dims) * f[1];
        double x = out[k0], y = out[k1], c = cos(angle) * f[2], s = sin(angle) * f[2];
        out[k0] = x * c - y * s;
        out[k1] = x * s + y * c;
        mag[k0] = mag[k1] = (fabs(x) + fabs(y)) * f[2] * (1 + angle); /* the angle is rounded */
    }
}

/* Writing Q8_0: an error is measured in steps of the block, its largest value / 127. */
static void block_steps(const double * out, double * mag, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        double top = 0;
        for (int64_t j = k / 32 * 32; j < k / 32 * 32 + 32; j++) {
            top = fmax(top, fabs(out[j]));
        }
        mag[k] = top / 127;
    }
}

static void row_shape(const struct ref_op * r, const int64_t i[4], double * out, double * mag) {
    const struct ref_source * a = &r->src[0], * b = &r->src[1];
    const int32_t * p = r->c->p;
    int64_t first = r->ne[0] * (i[1] + r->ne[1] * (i[2] + r->ne[2] * i[3]));
    for (int64_t k = 0; k < r->ne[0]; k++) {
        int64_t at[4] = { k, i[1], i[2], i[3] };
        switch (r->c->op) {
            case GGML_OP_CPY: out[k] = a->v[first + (r->fault ? (k + 1) % r->ne[0] : k)]; break;
            case GGML_OP_CONT: out[k] = r->fault ? a->v[(k * r->ne[1] + i[1]) % (r->ne[0] * r->ne[1])] : ref_at(a, k, i[1], i[2], i[3]); break;
            case GGML_OP_REPEAT:
                for (int d = 0; d < 4; d++) {
                    at[d] = r->fault ? (at[d] < a->ne[d] ? at[d] : a->ne[d] - 1) : at[d] % a->ne[d];
                }
                out[k] = ref_at(a, at[0], at[1], at[2], at[3]);
                break;
            case GGML_OP_CONCAT: {
                const struct ref_source * s = r->fault ? b : a, * next = r->fault ? a : b;
                if (at[p[0]] >= s->ne[p[0]]) {
                    at[p[0]] -= s->ne[p[0]];
                    s = next;
                }
                out[k] = ref_at(s, at[0], at[1], at[2], at[3]);
                break;
            }
            case GGML_OP_PAD: {
                bool inside = true;
                for (int d = 0; d < 4; d++) {
                    at[d] -= p[2 * d + (r->fault ? 1 : 0)];
                    inside = inside && at[d] >= 0 && at[d] < a->ne[d];
                }
                out[k] = inside ? ref_at(a, at[0], at[1], at[2], at[3]) : 0;
                break;
            }
            case GGML_OP_PAD_REFLECT_1D: {
                int64_t j = k - p[0], n = a->ne[0];
                j = j < 0 ? -j - (r->fault && j < 0) : j >= n ? 2 * n - 2 - j + r->fault : j;
                out[k] = ref_at(a, j, i[1], i[2], i[3]);
                break;
            }
            case GGML_OP_GET_ROWS: {
                int64_t row = (int64_t) ref_at(b, i[1], i[2], i[3], 0);
                out[k] = ref_at(a, k, r->fault ? (row + 1) % a->ne[1] : row, i[2], i[3]);
                break;
            }
            case GGML_OP_SET_ROWS: {
                const struct ref_source * index = &r->src[2];
                out[k] = ref_at(a, k, i[1], i[2], i[3]);
                for (int64_t j = 0; j < index->ne[0]; j++) {
                    if ((int64_t) ref_at(index, j, i[2] % index->ne[1], i[3] % index->ne[2], 0) == i[1]) {
                        out[k] = ref_at(b, k, r->fault ? (j + 1) % b->ne[1] : j, i[2], i[3]);
                    }
                }
                break;
            }
            default: out[k] = NAN; break;
        }
    }
    if (r->c->type == GGML_TYPE_Q8_0 && r->c->op == GGML_OP_SET_ROWS) {
        block_steps(out, mag, r->ne[0]);
    }
}

void ref_op_row(const struct ref_op * r, const int64_t i[4], double * out, double * mag) {
    memset(mag, 0, (size_t) r->ne[0] * sizeof *mag);
    memset(out, 0, (size_t) r->ne[0] * sizeof *out);
    if (ref_row_products(r, i, out, mag)) {
        return;
    }
    switch (r->c->op) {
        case GGML_OP_ADD: case GGML_OP_SUB: case GGML_OP_MUL: case GGML_OP_DIV: case GGML_OP_GLU: case GGML_OP_SCALE: case GGML_OP_CLAMP:
        case GGML_OP_UNARY: case GGML_OP_SQR: case GGML_OP_SQRT: case GGML_OP_LOG: case GGML_OP_SNAKE: row_elementwise(r, i, out, mag); break;
        case GGML_OP_NORM: case GGML_OP_RMS_NORM: row_norm(r, i, out, mag); break;
        case GGML_OP_SUM_ROWS: case GGML_OP_MEAN: case GGML_OP_ARGMAX: row_reduce(r, i, out, mag); break;
        case GGML_OP_SOFT_MAX: row_soft_max(r, i, out, mag); break;
        case GGML_OP_ROPE: row_rope(r, i, out, mag); break;
        default: row_shape(r, i, out, mag); break;
    }
}
