/* causal_conv.c - causal convolutions of the codec.
 *
 *   stride 1:   x [T, IC] -> (K-1)*dilation zeros in front -> conv -> + bias [T, OC]
 *   transposed: w [K*OC, IC] . x [T, IC] -> columns [K*OC, T] -> overlap-add [(T-1)*s + K, OC] -> first T*s + bias [T*s, OC]
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

static struct ggml_tensor * pad_left(struct ggml_context * ctx, struct ggml_tensor * x, int64_t n) {
    return n ? ggml_pad_ext(ctx, x, (int) n, 0, 0, 0, 0, 0, 0, 0) : x; /* [n + T, C] */
}

struct ggml_tensor * conv_build(struct ggml_context * ctx, const struct conv * conv, struct ggml_tensor * x, int dilation) {
    x = pad_left(ctx, x, (conv->weight->ne[0] - 1) * dilation);
    return add_bias(ctx, conv, ggml_conv_1d(ctx, conv->weight, x, 1, 0, dilation));
}

struct ggml_tensor * conv_depthwise_build(struct ggml_context * ctx, const struct conv * conv, struct ggml_tensor * x) {
    x = pad_left(ctx, x, conv->weight->ne[0] - 1);
    return add_bias(ctx, conv, ggml_conv_1d_dw(ctx, conv->weight, x, 1, 0, 1));
}

struct ggml_tensor * conv_transposed_build(struct ggml_context * ctx, const struct conv * conv, struct ggml_tensor * x, int stride) {
    int64_t K = conv->weight->ne[0], OC = conv->weight->ne[1], IC = conv->weight->ne[2], T = x->ne[0];
    struct ggml_tensor * w = ggml_reshape_2d(ctx, conv->weight, K * OC, IC);
    struct ggml_tensor * columns = ggml_out_prod(ctx, w, x);                        /* [K*OC, T] */
    struct ggml_tensor * y = ggml_col2im_1d(ctx, columns, stride, (int) OC, 0);     /* [(T-1)*stride + K, OC] */
    if (K > stride) {
        y = ggml_view_2d(ctx, y, T * stride, OC, y->nb[1], 0);                      /* [T*stride, OC]: the tail needs frames to come */
    }
    return add_bias(ctx, conv, y);
}
