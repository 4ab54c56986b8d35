/* codec_upsample.c - frames to a higher rate: per stage a transposed convolution and a ConvNeXt block.
 *
 *   x [T, C] -> transposed conv [T*s, C] = r -> depthwise conv -> [C, T*s] -> LayerNorm -> wide [4C, T*s] -> GELU (erf) -> narrow [C, T*s]
 *     -> * gamma -> [T*s, C] -> + r
 *
 * Upstream: Qwen3TTSTokenizerV2CausalTransConvNet and ...ConvNeXtBlock. */
#include "codec_parts.h"

#include <stdio.h>

#define NORM_EPS 1e-6f /* fixed upstream, in no key */

enum qt_status codec_upsample_load(struct codec_upsample * upsample, struct weights * w, const struct codec_sizes * sizes) {
    int64_t C = sizes->latent;
    upsample->n_stages = sizes->n_upsample;
    for (int i = 0; i < upsample->n_stages; i++) {
        struct upsample_stage * s = &upsample->stages[i];
        char name[64];
        s->stride = sizes->upsample[i];
        snprintf(name, sizeof name, "tok_dec.upsample.%d.conv", i);
        s->conv = conv_transposed_load(w, C, C, s->stride, name);
        snprintf(name, sizeof name, "tok_dec.upsample.%d.dwconv", i);
        s->depthwise = conv_load(w, 1, C, name);
        s->norm = weights_vector(w, C, "tok_dec.upsample.%d.norm.weight", i);
        s->norm_bias = weights_vector(w, C, "tok_dec.upsample.%d.norm.bias", i);
        s->wide = weights_matrix(w, C, 4 * C, "tok_dec.upsample.%d.pwconv1.weight", i);
        s->wide_bias = weights_vector(w, 4 * C, "tok_dec.upsample.%d.pwconv1.bias", i);
        s->narrow = weights_matrix(w, 4 * C, C, "tok_dec.upsample.%d.pwconv2.weight", i);
        s->narrow_bias = weights_vector(w, C, "tok_dec.upsample.%d.pwconv2.bias", i);
        s->gamma = weights_vector(w, C, "tok_dec.upsample.%d.gamma", i);
    }
    weights_none(w, "tok_dec.upsample.%d.conv.weight", upsample->n_stages);
    return w->status;
}

struct ggml_tensor * codec_upsample_build(const struct codec_upsample * upsample, const struct codec_run * run, struct ggml_tensor * x) {
    struct ggml_context * ctx = run->arena->ctx;
    for (int i = 0; i < upsample->n_stages; i++) {
        const struct upsample_stage * s = &upsample->stages[i];
        x = conv_transposed_build(ctx, &s->conv, x, s->stride, &(struct conv_with) { 0 }, run->carry); /* [T*s, C] */
        struct ggml_tensor * y = conv_depthwise_build(ctx, &s->depthwise, x, run->carry); /* [T*s, C] */
        y = ggml_cont(ctx, ggml_transpose(ctx, y));                                       /* [C, T*s] */
        y = ggml_norm(ctx, y, NORM_EPS);
        y = ggml_add(ctx, ggml_mul(ctx, y, s->norm), s->norm_bias);
        y = ggml_gelu_erf(ctx, linear_build(ctx, s->wide, s->wide_bias, y));  /* [4C, T*s] */
        y = linear_build(ctx, s->narrow, s->narrow_bias, y);                  /* [C, T*s] */
        y = ggml_mul(ctx, y, s->gamma);
        y = ggml_cont(ctx, ggml_transpose(ctx, y));                           /* [T*s, C] */
        x = ggml_add(ctx, x, y);
        arena_tap_columns(run->arena, x, "codec.upsample.%d", i);
    }
    return x;
}
