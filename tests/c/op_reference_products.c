/* op_reference_products.c - sums over two tensors as plain loops over doubles: products, attention, convolutions.
 * mag is the sum of the absolute terms: a correct kernel's error is a small multiple of it, whatever the order of summation. */
#include "op_test.h"

#include <math.h>
#include <stdlib.h>

/* a [K, M, ..], b [K, N, ..] -> [M, N, ..] */
static void row_mul_mat(const struct ref_op * r, const int64_t i[4], double * out, double * mag) {
    const struct ref_source * a = &r->src[0], * b = &r->src[1];
    int64_t a2 = i[2] / (b->ne[2] / a->ne[2]), a3 = i[3] / (b->ne[3] / a->ne[3]);
    if (r->fault) { /* heads dealt round robin, and the last column lost */
        a2 = i[2] % a->ne[2];
    }
    for (int64_t m = 0; m < r->ne[0]; m++) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < a->ne[0] - (r->fault ? 1 : 0); k++) {
            double t = ref_at(a, k, m, a2, a3) * ref_at(b, k, i[1], i[2], i[3]);
            sum += t;
            size += fabs(t);
        }
        out[m] = sum;
        mag[m] = size;
    }
}

/* a [M, K], b [N, K] -> [M, N] */
static void row_out_prod(const struct ref_op * r, const int64_t i[4], double * out, double * mag) {
    const struct ref_source * a = &r->src[0], * b = &r->src[1];
    for (int64_t m = 0; m < r->ne[0]; m++) {
        for (int64_t k = 0; k < a->ne[1]; k++) {
            double t = ref_at(a, m, k, 0, 0) * ref_at(b, r->fault ? (i[1] + 1) % b->ne[0] : i[1], k, 0, 0);
            out[m] = k ? out[m] + t : t;
            mag[m] += fabs(t);
        }
    }
}

/* q [hd, T, H], k and v [hd, n, H_kv], mask [n, >= T] -> [hd, H, T]; this row is head i[1] at time i[2] */
static void row_flash_attn(const struct ref_op * r, const int64_t i[4], double * out, double * mag) {
    const struct ref_source * q = &r->src[0], * k = &r->src[1], * v = &r->src[2], * mask = r->n_src > 3 ? &r->src[3] : NULL;
    int64_t n = k->ne[1], group = q->ne[2] / k->ne[2], kv = r->fault ? i[1] % k->ne[2] : i[1] / group;
    double * score = malloc((size_t) n * sizeof(double)), top = -INFINITY, sum = 0, size = 0;
    GGML_ASSERT(score != NULL);
    for (int64_t j = 0; j < n; j++) {
        double dot = 0, abs_dot = 0, bias = mask ? ref_at(mask, j, i[2], 0, 0) : 0;
        score[j] = bias;
        if (isinf(bias)) { /* a key that takes no part, whatever it holds */
            continue;
        }
        for (int64_t d = 0; d < q->ne[0]; d++) {
            double t = ref_at(q, d, i[2], i[1], 0) * ref_at(k, d, j, kv, 0);
            dot += t;
            abs_dot += fabs(t);
        }
        score[j] = dot * (r->fault ? 1 : r->c->f[0]) + bias;
        top = fmax(top, score[j]);
        size = fmax(size, abs_dot * fabs(r->c->f[0]));
    }
    for (int64_t j = 0; j < n; j++) {
        score[j] = exp(score[j] - top);
        sum += score[j];
    }
    for (int64_t d = 0; d < r->ne[0]; d++) {
        double x = 0, m = 0;
        for (int64_t j = 0; j < n; j++) {
            if (score[j] == 0) {
                continue;
            }
            x += score[j] / sum * ref_at(v, d, j, kv, 0);
            m += score[j] / sum * fabs(ref_at(v, d, j, kv, 0));
        }
        out[d] = x;
        mag[d] = m * (1 + size); /* scores are sums themselves; their error scales the weights */
    }
    free(score);
}

/* kernel [K, IC, OC] (depthwise [K, 1, C]), data [T, IC] -> [T_out, OC]; this row is channel i[1] */
static void row_conv(const struct ref_op * r, const int64_t i[4], double * out, double * mag) {
    const struct ref_source * w = &r->src[0], * x = &r->src[1];
    bool depthwise = r->c->op == GGML_OP_CONV_1D_DW;
    int64_t stride = r->c->p[0], pad = r->c->p[1], dilation = r->c->p[2], taps = w->ne[0];
    for (int64_t t = 0; t < r->ne[0]; t++) {
        double sum = 0, size = 0;
        for (int64_t c = 0; c < w->ne[1]; c++) {
            for (int64_t k = 0; k < taps; k++) {
                int64_t at = t * stride - pad + k * dilation;
                if (at < 0 || at >= x->ne[0]) {
                    continue;
                }
                double term = ref_at(w, r->fault ? taps - 1 - k : k, c, i[1], 0) * ref_at(x, at, depthwise ? i[1] : c, 0, 0);
                sum += term;
                size += fabs(term);
            }
        }
        out[t] = sum;
        mag[t] = size;
    }
}

/* Input of a causal convolution, before and behind the data included, after the activation; size: what its rounding errors scale with. */
static double causal_input(const struct ref_op * r, int64_t at, int64_t c, double * size) {
    const struct ref_source * x = &r->src[1], * past = &r->src[2];
    const int with = r->c->p[3];
    double v = at >= x->ne[0] ? 0 : at >= 0 ? ref_at(x, at, c, 0, 0) : with & WITH_PAST ? ref_at(past, past->ne[0] + at, c, 0, 0) : 0;
    *size = fabs(v);
    if (with & WITH_ELU) {
        return v > 0 ? v : expm1(v);
    }
    if (with & WITH_SNAKE) {
        const struct ref_source * a = &r->src[with & WITH_PAST ? 3 : 2];
        double s = sin(ref_at(a, c, 0, 0, 0) * v), inv_b = ref_at(a + 1, c, 0, 0, 0);
        *size += fabs(inv_b);
        return v + s * s * inv_b;
    }
    return v;
}

/* Bias and residual, the last inputs. */
static void causal_finish(const struct ref_op * r, int64_t t, int64_t oc, double * out, double * mag) {
    int source = r->n_src - !!(r->c->p[3] & WITH_BIAS) - !!(r->c->p[3] & WITH_RESIDUAL);
    if (r->c->p[3] & WITH_BIAS) {
        double bias = ref_at(&r->src[source++], r->fault ? 0 : oc, 0, 0, 0);
        *out += bias;
        *mag += fabs(bias);
    }
    if (r->c->p[3] & WITH_RESIDUAL) {
        double residual = ref_at(&r->src[source], t, oc, 0, 0);
        *out += residual;
        *mag += fabs(residual);
    }
}

/* kernel [K, IC, OC], data [T, IC] behind (K-1)*dilation + 1 - stride columns -> [ceil(T / stride), OC]; this row is channel i[1] */
static void row_conv_causal(const struct ref_op * r, const int64_t i[4], double * out, double * mag) {
    const struct ref_source * w = &r->src[0];
    int64_t stride = r->c->p[0], dilation = r->c->p[2], taps = w->ne[0], before = (taps - 1) * dilation + 1 - stride;
    for (int64_t t = 0; t < r->ne[0]; t++) {
        for (int64_t c = 0; c < w->ne[1]; c++) {
            for (int64_t k = 0; k < taps; k++) {
                double size, weight = ref_at(w, r->fault ? taps - 1 - k : k, c, i[1], 0), term = weight * causal_input(r, t * stride - before + k * dilation, c, &size);
                out[t] = c || k ? out[t] + term : term;
                mag[t] += fabs(weight) * size;
            }
        }
        causal_finish(r, t, i[1], &out[t], &mag[t]);
    }
}

/* kernel [K, OC, IC], data [T, IC] behind ceil(K / stride) - 1 columns -> [T*stride, OC]: sample t*stride + k of column t takes tap k; this row is channel i[1] */
static void row_conv_transpose(const struct ref_op * r, const int64_t i[4], double * out, double * mag) {
    const struct ref_source * w = &r->src[0], * x = &r->src[1];
    int64_t stride = r->c->p[0], taps = w->ne[0];
    for (int64_t t = 0; t < r->ne[0]; t++) {
        out[t] = 0;
    }
    for (int64_t column = -(taps - 1) / stride; column < x->ne[0]; column++) {
        for (int64_t k = 0; k < taps; k++) {
            int64_t t = column * stride + k;
            for (int64_t c = 0; t >= 0 && t < r->ne[0] && c < w->ne[2]; c++) {
                double size, weight = ref_at(w, r->fault ? taps - 1 - k : k, i[1], c, 0);
                out[t] += weight * causal_input(r, column, c, &size);
                mag[t] += fabs(weight) * size;
            }
        }
    }
    for (int64_t t = 0; t < r->ne[0]; t++) {
        causal_finish(r, t, i[1], &out[t], &mag[t]);
    }
}

/* cols [K*OC, T], k fastest -> [T_out, OC]: column t adds its taps at t*stride + k - crop; this row is channel i[1] */
static void row_col2im(const struct ref_op * r, const int64_t i[4], double * out, double * mag) {
    const struct ref_source * cols = &r->src[0];
    int64_t stride = r->c->p[0], channels = r->c->p[1], crop = r->c->p[2], taps = cols->ne[0] / channels;
    for (int64_t t = 0; t < r->ne[0]; t++) {
        out[t] = 0;
    }
    for (int64_t column = 0; column < cols->ne[1]; column++) {
        for (int64_t k = 0; k < taps; k++) {
            int64_t t = column * stride + k - crop;
            if (t >= 0 && t < r->ne[0]) {
                double v = ref_at(cols, r->fault ? k * channels + i[1] : i[1] * taps + k, column, 0, 0);
                out[t] += v;
                mag[t] += fabs(v);
            }
        }
    }
}

bool ref_row_products(const struct ref_op * r, const int64_t i[4], double * out, double * mag) {
    switch (r->c->op) {
        case GGML_OP_MUL_MAT: row_mul_mat(r, i, out, mag); return true;
        case GGML_OP_OUT_PROD: row_out_prod(r, i, out, mag); return true;
        case GGML_OP_FLASH_ATTN_EXT: row_flash_attn(r, i, out, mag); return true;
        case GGML_OP_CONV_TRANSPOSE_1D: row_conv_transpose(r, i, out, mag); return true;
        case GGML_OP_CONV_1D:
            if (r->c->p[3]) {
                row_conv_causal(r, i, out, mag);
                return true;
            }
            row_conv(r, i, out, mag);
            return true;
        case GGML_OP_CONV_1D_DW: row_conv(r, i, out, mag); return true;
        case GGML_OP_COL2IM_1D: row_col2im(r, i, out, mag); return true;
        default: return false;
    }
}
