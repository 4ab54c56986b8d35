/* codec_encoder.h - the codec's encoder: samples of a whole clip to codes, all of it in F32. Its three parts, each in its own file:
 *
 *   samples [n] -> codec_seanet -> [T', D] -> codec_encoder: blocks, downsampling -> [D, T] -> codec_quantize -> codes [Q, T]
 *
 * T is ceil(n / hop). A clip's convolutions are computed a chunk at a time, so memory does not grow with its length at the sample rate. */
#ifndef QT_CODEC_ENCODER_H
#define QT_CODEC_ENCODER_H

#include "block.h"
#include "causal_conv.h"

#define SEANET_MAX_UNITS 8 /* residual units a stage */

struct seanet_unit {
    struct conv conv1; /* dilated */
    struct conv conv2;
    int dilation;
};

struct seanet_stage {
    struct seanet_unit units[SEANET_MAX_UNITS];
    struct conv conv; /* strided, doubles the channels */
    int stride;
};

struct codec_seanet {
    struct conv first;
    struct seanet_stage stages[SIZES_MAX_STAGES];
    int n_stages, n_units;
    struct conv last;
    int64_t step_samples;    /* the product of the strides: samples a column of the result */
    int64_t context_samples; /* that a column depends on before its own, rounded up to whole columns */
};

struct encoder_block {
    struct ggml_tensor * attn_norm, * attn_norm_bias; /* [D] */
    struct ggml_tensor * attn_q;      /* [D, H*hd] */
    struct ggml_tensor * attn_k;      /* [D, H_kv*hd] */
    struct ggml_tensor * attn_v;      /* [D, H_kv*hd] */
    struct ggml_tensor * attn_output; /* [H*hd, D] */
    struct ggml_tensor * attn_scale;  /* [D] */
    struct ggml_tensor * ffn_norm, * ffn_norm_bias; /* [D] */
    struct ggml_tensor * ffn_up;      /* [D, F] */
    struct ggml_tensor * ffn_down;    /* [F, D] */
    struct ggml_tensor * ffn_scale;   /* [D] */
};

struct codec_quantizer {
    struct ggml_tensor * semantic_proj; /* [1, D, C] */
    struct ggml_tensor * acoustic_proj; /* [1, D, C] */
    struct ggml_tensor ** codebooks;    /* [Q], each [C, size], semantic ones first */
    struct ggml_tensor ** offsets;      /* [Q], each [size]: -|entry|^2 / 2 */
    int n_codebooks, n_semantic;
    struct ggml_context * derived; /* holds the offsets */
    ggml_backend_buffer_t derived_buffer;
};

struct codec_encoder {
    struct encoder_sizes sizes;
    struct codec_seanet seanet;
    struct encoder_block * blocks;   /* [n_layers] */
    struct ggml_tensor * downsample; /* [K, D, D], no bias */
    struct codec_quantizer quantizer;
};

enum qt_status codec_encoder_load(struct codec_encoder * encoder, struct weights * weights, const struct encoder_sizes * sizes, ggml_backend_t backend);
void codec_encoder_free(struct codec_encoder * encoder);

/* samples [n_samples] -> codes [Q, ceil(n_samples / hop)]. */
enum qt_status codec_encode(const struct codec_encoder * encoder, const struct runner * runner, const float * samples, int64_t n_samples, int32_t * codes);

/* --- the parts --- */

enum qt_status codec_seanet_load(struct codec_seanet * seanet, struct weights * weights, const struct encoder_sizes * sizes);
/* *n_columns = ceil(n_samples / step_samples); *columns [n_columns, D], malloc'd. */
enum qt_status codec_seanet_run(const struct codec_seanet * seanet, const struct runner * runner, const float * samples, int64_t n_samples,
                                float ** columns, int64_t * n_columns);
enum qt_status codec_quantizer_load(struct codec_quantizer * quantizer, struct weights * weights, const struct encoder_sizes * sizes, ggml_backend_t backend);
void codec_quantizer_free(struct codec_quantizer * quantizer);
/* x [D, T]; codes [Q] gets one I32 [T] a codebook. */
void codec_quantize_build(const struct codec_quantizer * quantizer, struct arena * arena, struct ggml_tensor * x, struct ggml_tensor ** codes);

#endif
