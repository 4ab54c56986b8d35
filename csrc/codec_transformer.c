/* codec_transformer.c - context across frames: a causal convolution, then decoder blocks that see a window of frames.
 *
 *   x [T, C_q] -> conv [T, C] -> [C, T] -> input projection [D, T] -> blocks -> norm -> output projection [C, T] -> [T, C]
 *
 * The mask is the caller's: frame i sees frames j <= i with i - j < sliding_window. A stream keeps keys and values of earlier frames in a cache.
 * Upstream: Qwen3TTSTokenizerV2DecoderTransformerModel. */
#include "codec_parts.h"

enum qt_status codec_transformer_load(struct codec_transformer * t, struct weights * w, const struct codec_sizes * sizes) {
    int64_t D = sizes->stack.hidden, C = sizes->latent;
    t->sliding_window = sizes->sliding_window;
    t->pre_conv = conv_load(w, sizes->codebook_dim, C, "tok_dec.pre_conv");
    t->input_proj = weights_matrix(w, C, D, "tok_dec.pre_tfm.input_proj.weight");
    t->input_bias = weights_vector(w, D, "tok_dec.pre_tfm.input_proj.bias");
    QT_TRY(stack_load(&t->stack, w, &sizes->stack, BLOCK_LAYER_SCALE, "tok_dec.pre_tfm", "tok_dec.pre_tfm.norm.weight"));
    t->output_proj = weights_matrix(w, D, C, "tok_dec.pre_tfm.output_proj.weight");
    t->output_bias = weights_vector(w, C, "tok_dec.pre_tfm.output_proj.bias");
    return w->status;
}

void codec_transformer_free(struct codec_transformer * t) {
    stack_free(&t->stack);
}

struct ggml_tensor * codec_transformer_build(const struct codec_transformer * t, const struct codec_run * run, struct ggml_tensor * x) {
    struct ggml_context * ctx = run->arena->ctx;
    x = conv_build(ctx, &t->pre_conv, x, &(struct conv_with) { .dilation = 1 }, run->carry); /* [T, C] */
    arena_tap_columns(run->arena, x, "codec.pre_conv");
    x = ggml_cont(ctx, ggml_transpose(ctx, x)); /* [C, T] */
    x = linear_build(ctx, t->input_proj, t->input_bias, x); /* [D, T] */
    struct block_run blocks = {
        .arena = run->arena, .runner = run->runner, .stack = &t->stack, .positions = run->positions, .mask = run->mask, .cache = run->cache,
        .cache_rows = run->cache_rows, .n_kv = run->mask->ne[0],
    };
    x = stack_build(&blocks, x, NULL);
    x = rms_norm_build(ctx, x, t->stack.norm, t->stack.sizes.norm_eps);
    x = linear_build(ctx, t->output_proj, t->output_bias, x); /* [C, T] */
    arena_tap_rows(run->arena, x, "codec.pre_tfm");
    return ggml_cont(ctx, ggml_transpose(ctx, x)); /* [T, C] */
}
