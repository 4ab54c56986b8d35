/* causal_conv.c - causal convolutions of the codec.
 *
 *   stride 1:   x [T, IC] -> (K-1)*dilation zeros in front -> conv -> + bias [T, OC]
 *   transposed: w [K*OC, IC] . x [T, IC] -> columns [K*OC, T] -> overlap-add [(T-1)*s + K, OC] -> first T*s + bias [T*s, OC]
 *
 * Carried from graph to graph: at stride 1 the last (K-1)*dilation columns of x, which stand where the zeros were; transposed the last K-s samples
 * of the overlap-add, which are added to the first K-s of the next. Two columns meet in a sample when K <= 2*s, as in every published file: then the
 * sum, and with it the whole convolution, is bit for bit that of one pass.
 *
 * A transposed kernel lies in the file as (IC, OC, K), K fastest, which is the product's layout already: nothing is permuted at load.
 * Upstream: Qwen3TTSTokenizerV2CausalConvNet and ...CausalTransConvNet. */
#include "causal_conv.h"

struct conv conv_load(struct weights * weights, int64_t n_in, int64_t n_out, const char * name) {
    return (struct conv) {
        .weight = weights_kernel(weights, 1, CONV_MAX_KERNEL, n_in, n_out, "%s.weight", name),
        .bias = weights_vector(weights, n_out, "%s.bias", name),
    };
}

struct conv conv_transposed_load(struct weights * weights, int64_t n_in, int64_t n_out, int stride, const char * name) {
    struct conv conv = {
        .weight = weights_kernel(weights, stride, CONV_MAX_KERNEL, n_out, n_in, "%s.weight", name),
        .bias = weights_vector(weights, n_out, "%s.bias", name),
    };
    if (weights->status == QT_STATUS_OK && ggml_is_quantized(conv.weight->type)) {
        weights->status = QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: tensor %s.weight is of type %s, expected f32, f16 or bf16", weights->file->path, name,
                                  ggml_type_name(conv.weight->type));
    }
    return conv;
}

static struct ggml_tensor * add_bias(struct ggml_context * ctx, const struct conv * conv, struct ggml_tensor * y) {
    return ggml_add(ctx, y, ggml_reshape_2d(ctx, conv->bias, 1, conv->bias->ne[0])); /* [T, OC] + [1, OC] */
}

/* The tensor [n, C] that this convolution carries. */
static struct ggml_tensor * take(struct carry * carry, int64_t n, int64_t C) {
    if (!carry->made) {
        carry->taken = ggml_new_tensor_2d(carry->tensors, GGML_TYPE_F32, n, C);
    } else {
        carry->taken = carry->taken ? ggml_get_next_tensor(carry->tensors, carry->taken) : ggml_get_first_tensor(carry->tensors);
    }
    return carry->taken;
}

/* The write is expanded at once: what reads the target later in the graph then reads the new values. */
static void write_now(struct ggml_context * ctx, struct carry * carry, struct ggml_tensor * from, struct ggml_tensor * to) {
    ggml_build_forward_expand(carry->graph, ggml_cpy(ctx, from, to));
}

/* x with the n columns before it: [n + T, C]. */
static struct ggml_tensor * with_past(struct ggml_context * ctx, struct ggml_tensor * x, int64_t n, struct carry * carry) {
    if (n == 0) {
        return x;
    }
    if (!carry) {
        return ggml_pad_ext(ctx, x, (int) n, 0, 0, 0, 0, 0, 0, 0);
    }
    struct ggml_tensor * past = take(carry, n, x->ne[1]);
    x = ggml_concat(ctx, past, x, 0);
    write_now(ctx, carry, ggml_view_2d(ctx, x, n, x->ne[1], x->nb[1], (size_t) (x->ne[0] - n) * x->nb[0]), past);
    return x;
}

struct ggml_tensor * conv_build(struct ggml_context * ctx, const struct conv * conv, struct ggml_tensor * x, int dilation, struct carry * carry) {
    x = with_past(ctx, x, (conv->weight->ne[0] - 1) * dilation, carry);
    return add_bias(ctx, conv, ggml_conv_1d(ctx, conv->weight, x, 1, 0, dilation));
}

struct ggml_tensor * conv_depthwise_build(struct ggml_context * ctx, const struct conv * conv, struct ggml_tensor * x, struct carry * carry) {
    x = with_past(ctx, x, conv->weight->ne[0] - 1, carry);
    return add_bias(ctx, conv, ggml_conv_1d_dw(ctx, conv->weight, x, 1, 0, 1));
}

struct ggml_tensor * conv_transposed_build(struct ggml_context * ctx, const struct conv * conv, struct ggml_tensor * x, int stride, struct carry * carry) {
    int64_t K = conv->weight->ne[0], OC = conv->weight->ne[1], IC = conv->weight->ne[2], T = x->ne[0], n_tail = K - stride;
    struct ggml_tensor * w = ggml_reshape_2d(ctx, conv->weight, K * OC, IC);
    struct ggml_tensor * columns = ggml_out_prod(ctx, w, x);                    /* [K*OC, T] */
    struct ggml_tensor * y = ggml_col2im_1d(ctx, columns, stride, (int) OC, 0); /* [T*stride + n_tail, OC] */
    if (n_tail > 0 && carry) {
        struct ggml_tensor * tail = take(carry, n_tail, OC);
        struct ggml_tensor * head = ggml_view_2d(ctx, y, n_tail, OC, y->nb[1], 0);
        write_now(ctx, carry, ggml_add(ctx, head, tail), head);
        write_now(ctx, carry, ggml_view_2d(ctx, y, n_tail, OC, y->nb[1], (size_t) (T * stride) * y->nb[0]), tail);
    }
    if (n_tail > 0) {
        y = ggml_view_2d(ctx, y, T * stride, OC, y->nb[1], 0); /* [T*stride, OC]: the tail needs frames to come */
    }
    return add_bias(ctx, conv, y);
}
