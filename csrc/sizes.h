/* sizes.h - every size of the networks, from the keys of their files. Nothing else in csrc knows a size. */
#ifndef QT_SIZES_H
#define QT_SIZES_H

#include "file.h"

#define TALKER_ARCH "qwen3-tts"
#define CODEC_ARCH  "qwen3-tts-tokenizer"

#define SIZES_MAX_STAGES 8    /* upsampling stages of one kind; published codecs have 2 and 4 */
#define SIZES_MAX_WINDOW 4096 /* frames that a codec's frame sees: a stream keeps that many; published codecs have 72 */

/* A stack of decoder blocks. */
struct stack_sizes {
    int32_t hidden;       /* D */
    int32_t feed_forward;
    int32_t n_layers;
    int32_t n_heads;      /* H, a multiple of n_kv_heads */
    int32_t n_kv_heads;   /* H_kv */
    int32_t head_dim;     /* hd, even: RoPE turns pairs */
    float   norm_eps;
    float   rope_base;
};

struct talker_sizes {
    struct stack_sizes stack;
    int32_t n_code_groups;
    int32_t vocab;          /* logits of codebook 0 */
    int32_t text_vocab;
    int32_t text_hidden;
    int32_t context_length; /* positions */
    struct stack_sizes predictor;
    int32_t predictor_vocab; /* logits of codebooks 1 and up */
};

struct codec_sizes {
    struct stack_sizes stack;
    int32_t sliding_window; /* frames a frame sees, itself included */
    int32_t sample_rate;    /* Hz */
    int32_t hop_samples;    /* samples a frame: the product of all strides below */
    int32_t latent;
    int32_t codebook_dim;          /* width after the quantizer's projection */
    int32_t codebook_dim_internal; /* width of a codebook's entry */
    int32_t codebook_size;
    int32_t n_quantizers;
    int32_t n_semantic;
    int32_t decoder_dim;    /* channels before the first DAC block, halved by each */
    int32_t upsample[SIZES_MAX_STAGES]; /* strides of the ConvNeXt stages */
    int     n_upsample;
    int32_t dac[SIZES_MAX_STAGES];      /* strides of the DAC blocks */
    int     n_dac;
};

/* The codec's other half: samples to codes. */
struct encoder_sizes {
    struct stack_sizes stack;
    int32_t sample_rate;     /* Hz */
    int32_t hop_samples;     /* samples a frame: the product of the strides below */
    int32_t n_filters;       /* channels before the first stage, doubled by each */
    int32_t compress;        /* a residual unit works on channels / compress */
    int32_t n_residual;      /* units a stage */
    int32_t dilation_growth; /* unit j is dilated by dilation_growth^j */
    int32_t strides[SIZES_MAX_STAGES]; /* of the stages, in the order they are applied */
    int     n_stages;
    int32_t downsample;      /* stride of the last convolution */
    int32_t codebook_dim;
    int32_t codebook_size;
    int32_t n_quantizers;
    int32_t n_semantic;
};

/* Fails unless general.architecture is arch; role names the parameter that gave the file. */
enum qt_status sizes_check_arch(const struct qt_file * file, const char * arch, const char * role);
enum qt_status talker_sizes_read(const struct qt_file * file, struct talker_sizes * sizes);
enum qt_status codec_sizes_read(const struct qt_file * file, struct codec_sizes * sizes);
/* Fails, too, where it does not fit the decoder of the same file: both halves speak the same codes. */
enum qt_status encoder_sizes_read(const struct qt_file * file, const struct codec_sizes * decoder, struct encoder_sizes * sizes);
/* Width of a speaker embedding; 0 when the file holds no speaker encoder. */
enum qt_status speaker_size_read(const struct qt_file * file, const struct talker_sizes * talker, int32_t * size);

#endif
