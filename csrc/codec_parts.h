/* codec_parts.h - the four parts of the codec's decoder, each in its own file:
 *
 *   codes [Q, T] -> codec_rvq -> [T, C_q] -> codec_transformer -> [T, C] -> codec_upsample -> [T*up, C] -> codec_dac -> [T*hop, 1]
 *
 * Time is first everywhere but inside the transformer and the pointwise products of the upsampling. */
#ifndef QT_CODEC_PARTS_H
#define QT_CODEC_PARTS_H

#include "block.h"
#include "causal_conv.h"

#define DAC_MAX_UNITS 8 /* residual units a block; dilation 3^i stays small */

/* Split residual quantizer: semantic codebooks, then acoustic ones. */
struct codec_rvq {
    struct ggml_tensor ** codebooks; /* [Q], each [C_book, size] */
    struct ggml_tensor * first_proj; /* [1, C_book, C_q] */
    struct ggml_tensor * rest_proj;  /* [1, C_book, C_q] */
    int n_codebooks;
    int n_semantic;
};

struct codec_transformer {
    struct conv pre_conv;             /* [K, C_q, C] */
    struct ggml_tensor * input_proj;  /* [C, D] */
    struct ggml_tensor * input_bias;
    struct stack stack;
    struct ggml_tensor * output_proj; /* [D, C] */
    struct ggml_tensor * output_bias;
    int32_t sliding_window;           /* frames */
};

struct upsample_stage {
    struct conv conv; /* transposed */
    struct conv depthwise;
    struct ggml_tensor * norm, * norm_bias;  /* [C] */
    struct ggml_tensor * wide, * wide_bias;  /* [C, 4C], [4C] */
    struct ggml_tensor * narrow, * narrow_bias; /* [4C, C], [C] */
    struct ggml_tensor * gamma;              /* [C] */
    int stride;
};

struct codec_upsample {
    struct upsample_stage stages[SIZES_MAX_STAGES];
    int n_stages;
};

/* Snakes hold what the op takes, from the stored logarithms: a = exp(alpha), inv_b = 1 / (exp(beta) + 1e-9). */
struct dac_unit {
    struct snake act1;
    struct conv conv1; /* dilated */
    struct snake act2;
    struct conv conv2;
};

struct dac_block {
    struct snake act;
    struct conv conv; /* transposed */
    struct dac_unit units[DAC_MAX_UNITS];
    int n_units;
    int stride;
};

struct codec_dac {
    struct conv first;
    struct dac_block blocks[SIZES_MAX_STAGES];
    int n_blocks;
    struct snake last_act;
    struct conv last;
    struct ggml_context * derived; /* holds every snake's a and inv_b */
    ggml_backend_buffer_t derived_buffer;
};

/* What the parts of one graph share. In a stream, keys and values go through a cache and convolutions through a carry; in one pass both are NULL. */
struct codec_run {
    struct arena * arena;
    const struct runner * runner;
    struct ggml_tensor * positions;  /* I32 [T] */
    struct ggml_tensor * mask;       /* F32 [n_kv, T] */
    struct ggml_tensor * cache_rows; /* I64 [H_kv*T], NULL in one pass */
    const struct kv_cache * cache;
    struct carry * carry;
};

enum qt_status codec_rvq_load(struct codec_rvq * rvq, struct weights * weights, const struct codec_sizes * sizes);
void codec_rvq_free(struct codec_rvq * rvq);
/* codes I32 [T, Q] -> [T, C_q] */
struct ggml_tensor * codec_rvq_build(const struct codec_rvq * rvq, const struct codec_run * run, struct ggml_tensor * codes);

enum qt_status codec_transformer_load(struct codec_transformer * transformer, struct weights * weights, const struct codec_sizes * sizes);
void codec_transformer_free(struct codec_transformer * transformer);
/* x [T, C_q] -> [T, C] */
struct ggml_tensor * codec_transformer_build(const struct codec_transformer * transformer, const struct codec_run * run, struct ggml_tensor * x);

enum qt_status codec_upsample_load(struct codec_upsample * upsample, struct weights * weights, const struct codec_sizes * sizes);
/* x [T, C] -> [T*up, C] */
struct ggml_tensor * codec_upsample_build(const struct codec_upsample * upsample, const struct codec_run * run, struct ggml_tensor * x);

enum qt_status codec_dac_load(struct codec_dac * dac, struct weights * weights, const struct codec_sizes * sizes, ggml_backend_t backend);
void codec_dac_free(struct codec_dac * dac);
/* x [T, C] -> [T*hop/up, 1], in [-1, 1] */
struct ggml_tensor * codec_dac_build(const struct codec_dac * dac, const struct codec_run * run, struct ggml_tensor * x);

#endif
