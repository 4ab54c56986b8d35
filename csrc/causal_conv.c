/* causal_conv.c - causal convolutions of the codec, each one op that also reads the columns before, activates what it reads and adds to what it writes.
 *
 *   stride 1:   x [T, IC] behind (K-1)*dilation columns -> activation -> conv -> + bias -> + residual [T, OC]
 *   transposed: x [T, IC] behind ceil(K/s)-1 columns -> activation -> w [K, OC, IC] -> + bias [T*s, OC]
 *
 * Carried from graph to graph: those columns, before the activation. They stand where the zeros of the beginning were, so a sample is bit for bit
 * that of one pass, whatever the pieces.
 *
 * A transposed kernel lies in the file as (IC, OC, K), K fastest, which is the op's layout already: nothing is permuted at load.
 * Upstream: Qwen3TTSTokenizerV2CausalConvNet and ...CausalTransConvNet. */
#include "causal_conv.h"

struct conv conv_load(struct weights * weights, int64_t n_in, int64_t n_out, const char * name) {
    return (struct conv) {
        .weight = weights_packed(weights, weights_kernel(weights, 1, CONV_MAX_KERNEL, n_in, n_out, "%s.weight", name), 0),
        .bias = weights_vector(weights, n_out, "%s.bias", name),
    };
}

struct conv conv_transposed_load(struct weights * weights, int64_t n_in, int64_t n_out, int stride, const char * name) {
    struct conv conv = {
        .weight = weights_packed(weights, weights_kernel(weights, stride, CONV_MAX_KERNEL, n_out, n_in, "%s.weight", name), stride),
        .bias = weights_vector(weights, n_out, "%s.bias", name),
    };
    if (weights->status == QT_STATUS_OK && ggml_is_quantized(conv.weight->type)) {
        weights->status = QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: tensor %s.weight is of type %s, expected f32, f16 or bf16", weights->file->path, name,
                                  ggml_type_name(conv.weight->type));
    }
    return conv;
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

/* The last n of past and x, written to the carry after y has read what stands there. */
static void keep_last(struct ggml_context * ctx, struct ggml_tensor * all, struct ggml_tensor * y, int64_t n, struct carry * carry) {
    ggml_build_forward_expand(carry->graph, y);
    write_now(ctx, carry, ggml_view_2d(ctx, all, n, all->ne[1], all->nb[1], (size_t) (all->ne[0] - n) * all->nb[0]), carry->taken);
}

/* A convolution that looks n columns back; stride 0: not transposed. Fewer new columns than n are joined with the old ones, since some of those are
 * needed again. */
static struct ggml_tensor * causal_build(struct ggml_context * ctx, const struct conv * conv, struct ggml_tensor * x, int64_t n, int stride,
                                         const struct conv_with * with, struct carry * carry) {
    struct ggml_conv_ext ext = { .bias = conv->bias, .residual = with->residual, .prec = with->rounds ? GGML_PREC_DEFAULT : GGML_PREC_F32, .passed_on = with->behind };
    if (with->act) {
        ext.act = GGML_CONV_ACT_SNAKE;
        ext.snake_a = with->act->a;
        ext.snake_inv_b = with->act->inv_b;
    }
    struct ggml_tensor * all = x;
    bool carries = n > 0 && carry;
    if (carries) {
        ext.past = take(carry, n, x->ne[1]);
        if (x->ne[0] < n) {
            all = ggml_concat(ctx, ext.past, x, 0); /* [n + T, IC] */
            ext.past = ggml_view_2d(ctx, all, n, all->ne[1], all->nb[1], 0);
            x = ggml_view_2d(ctx, all, x->ne[0], all->ne[1], all->nb[1], (size_t) n * all->nb[0]);
        }
    }
    struct ggml_tensor * y = stride ? ggml_conv_transpose_1d_causal(ctx, conv->weight, x, stride, &ext)
                                    : ggml_conv_1d_causal(ctx, conv->weight, x, 1, with->dilation, &ext);
    if (with->behind) {
        y = causal_build(ctx, with->behind, y, 0, 0, with->with_behind, NULL); /* before what is kept is written, which would come between the two */
    }
    if (carries) {
        keep_last(ctx, all, y, n, carry);
    }
    return y;
}

struct ggml_tensor * conv_build(struct ggml_context * ctx, const struct conv * conv, struct ggml_tensor * x, const struct conv_with * with, struct carry * carry) {
    return causal_build(ctx, conv, x, (conv->weight->ne[0] - 1) * with->dilation, 0, with, carry);
}

struct ggml_tensor * conv_transposed_build(struct ggml_context * ctx, const struct conv * conv, struct ggml_tensor * x, int stride,
                                           const struct conv_with * with, struct carry * carry) {
    return causal_build(ctx, conv, x, (conv->weight->ne[0] + stride - 1) / stride - 1, stride, with, carry);
}

/* No fused form: a few values a column. */
struct ggml_tensor * conv_depthwise_build(struct ggml_context * ctx, const struct conv * conv, struct ggml_tensor * x, struct carry * carry) {
    int64_t n = conv->weight->ne[0] - 1;
    if (n > 0 && carry) {
        struct ggml_tensor * past = take(carry, n, x->ne[1]);
        x = ggml_concat(ctx, past, x, 0); /* [n + T, C] */
        write_now(ctx, carry, ggml_view_2d(ctx, x, n, x->ne[1], x->nb[1], (size_t) (x->ne[0] - n) * x->nb[0]), past);
    } else if (n > 0) {
        x = ggml_pad_ext(ctx, x, (int) n, 0, 0, 0, 0, 0, 0, 0);
    }
    return ggml_add(ctx, ggml_conv_1d_dw(ctx, conv->weight, x, 1, 0, 1), ggml_reshape_2d(ctx, conv->bias, 1, conv->bias->ne[0])); /* [T, C] + [1, C] */
}
