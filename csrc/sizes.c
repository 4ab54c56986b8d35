/* sizes.c - read and cross-check the sizes. Upper bounds only keep products inside int64 and int32; the tensors' shapes, compared with
 * these sizes in weights.c, are the real check that a file means what it says. */
#include "sizes.h"

#include "meta.h"

#include <stdio.h>
#include <string.h>

#define MAX_WIDTH (1 << 16) /* published files reach 6144 */
#define MAX_VOCAB (1 << 24)
#define MAX_HEADS_WIDTH 32  /* of heads side by side, times the hidden width; published files reach 2. A cache is as wide as its heads */
#define MAX_DILATION 1024
#define MAX_TABLE 65536     /* speakers, languages */
#define MIN_RATE_HZ 1000
#define MAX_RATE_HZ 384000

enum qt_status sizes_check_arch(const struct qt_file * file, const char * arch, const char * role) {
    struct meta meta = { file, QT_STATUS_OK };
    const char * found = meta_text(&meta, "general.architecture");
    if (meta.status != QT_STATUS_OK) {
        return meta.status;
    }
    if (strcmp(found, arch) == 0) {
        return QT_STATUS_OK;
    }
    bool swapped = strcmp(found, TALKER_ARCH) == 0 || strcmp(found, CODEC_ARCH) == 0;
    return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: %s: general.architecture is '%.64s', expected '%s'%s", role, file->path, found, arch,
                   swapped ? ": talker and codec are swapped" : "");
}

/* Heads that do not fit each other would reach a builder's assert later. */
static void check_heads(struct meta * meta, const char * prefix, const struct stack_sizes * s) {
    if (meta->status == QT_STATUS_OK && s->n_heads % s->n_kv_heads != 0) {
        meta->status = QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: %s: %d heads are no multiple of %d key/value heads", meta->file->path, prefix,
                               (int) s->n_heads, (int) s->n_kv_heads);
    }
    if (meta->status == QT_STATUS_OK && s->head_dim % 2 != 0) {
        meta->status = QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: %s: the head width %d is odd, valid: an even number", meta->file->path, prefix, (int) s->head_dim);
    }
    if (meta->status == QT_STATUS_OK && (int64_t) s->n_heads * s->head_dim > (int64_t) MAX_HEADS_WIDTH * s->hidden) {
        meta->status = QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: %s: %d heads of width %d are more than %d times the hidden width %d", meta->file->path, prefix,
                               (int) s->n_heads, (int) s->head_dim, MAX_HEADS_WIDTH, (int) s->hidden);
    }
}

static struct stack_sizes read_stack(struct meta * meta, const char * prefix) {
    char key[128];
#define KEY(name) (snprintf(key, sizeof key, "%s.%s", prefix, (name)), key)
    struct stack_sizes s = { 0 };
    s.hidden = meta_int(meta, KEY("embedding_length"), 1, MAX_WIDTH);
    s.feed_forward = meta_int(meta, KEY("feed_forward_length"), 1, MAX_WIDTH);
    s.n_layers = meta_int(meta, KEY("block_count"), 1, 512);
    s.n_heads = meta_int(meta, KEY("attention.head_count"), 1, 4096);
    s.n_kv_heads = meta_int(meta, KEY("attention.head_count_kv"), 1, 4096);
    s.head_dim = meta_int(meta, KEY("attention.key_length"), 2, 4096);
    s.rope_base = meta_float(meta, KEY("rope.freq_base"), 1, 1e12);
    s.norm_eps = meta_float(meta, KEY("attention.layer_norm_rms_epsilon"), 0, 1);
#undef KEY
    check_heads(meta, prefix, &s);
    return s;
}

/* Names and ids of a table of codec ids: as many of the one as of the other, and every id is one that the talker can say. */
static void check_table(struct meta * meta, const char * what, int32_t vocab) {
    char names[64], ids[64];
    snprintf(names, sizeof names, "qwen3-tts.codec.%s_names", what);
    snprintf(ids, sizeof ids, "qwen3-tts.codec.%s_ids", what);
    int64_t n_names = meta_length(meta, names), n_ids = meta_length(meta, ids);
    if (meta->status == QT_STATUS_OK && n_names != n_ids) {
        meta->status = QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: the key %s has %lld entries, %s %lld", meta->file->path, names, (long long) n_names, ids,
                               (long long) n_ids);
    }
    if (n_ids > 0) {
        meta_ints(meta, ids, NULL, MAX_TABLE, 0, vocab - 1);
    }
}

enum qt_status talker_sizes_read(const struct qt_file * file, struct talker_sizes * sizes) {
    struct meta meta = { file, QT_STATUS_OK };
    struct talker_sizes s = { 0 };
    s.n_code_groups = meta_int(&meta, "qwen3-tts.num_code_groups", 2, 256);
    s.stack = read_stack(&meta, "qwen3-tts.talker");
    s.vocab = meta_int(&meta, "qwen3-tts.talker.vocab_size", 1, MAX_VOCAB);
    s.text_vocab = meta_int(&meta, "qwen3-tts.talker.text_vocab_size", 1, MAX_VOCAB);
    s.text_hidden = meta_int(&meta, "qwen3-tts.talker.text_hidden_size", 1, MAX_WIDTH);
    s.context_length = meta_int(&meta, "qwen3-tts.talker.context_length", 1, 1 << 24);
    s.predictor = read_stack(&meta, "qwen3-tts.code_pred");
    s.predictor_vocab = meta_int(&meta, "qwen3-tts.code_pred.vocab_size", 1, MAX_VOCAB);
    int32_t predictor_context = meta_int(&meta, "qwen3-tts.code_pred.context_length", 1, 1 << 24);
    if (meta.status == QT_STATUS_OK && predictor_context < s.n_code_groups) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: the key qwen3-tts.code_pred.context_length is %d, but a frame takes %d positions", file->path,
                       (int) predictor_context, (int) s.n_code_groups);
    }

    /* The caller builds prompts from these; out of range they would only fail much later, as a code or an id that nobody gave. */
    static const char * const codec_ids[] = { "pad_id", "bos_id", "eos_id", "think_id", "nothink_id", "think_bos_id", "think_eos_id" };
    static const char * const text_ids[] = { "im_start_id", "im_end_id", "tts_pad_id", "tts_bos_id", "tts_eos_id" };
    char key[128];
    for (size_t i = 0; i < sizeof codec_ids / sizeof *codec_ids; i++) {
        snprintf(key, sizeof key, "qwen3-tts.codec.%s", codec_ids[i]);
        meta_int(&meta, key, 0, s.vocab - 1);
    }
    for (size_t i = 0; i < sizeof text_ids / sizeof *text_ids; i++) {
        snprintf(key, sizeof key, "qwen3-tts.text.%s", text_ids[i]);
        meta_int(&meta, key, 0, s.text_vocab - 1);
    }
    check_table(&meta, "language", s.vocab);
    check_table(&meta, "speaker", s.vocab);
    *sizes = s;
    return meta.status;
}

enum qt_status codec_sizes_read(const struct qt_file * file, struct codec_sizes * sizes) {
    struct meta meta = { file, QT_STATUS_OK };
    struct codec_sizes s = { 0 };
#define KEY(name) "qwen3-tts-tokenizer." name
    s.sample_rate = meta_int(&meta, KEY("output_sample_rate"), MIN_RATE_HZ, MAX_RATE_HZ);
    s.hop_samples = meta_int(&meta, KEY("decode_upsample_rate"), 1, 1 << 20);
    s.latent = meta_int(&meta, KEY("decoder.latent_dim"), 1, MAX_WIDTH);
    s.codebook_dim = meta_int(&meta, KEY("decoder.codebook_dim"), 1, MAX_WIDTH);
    s.codebook_dim_internal = meta_int(&meta, KEY("decoder.codebook_dim_internal"), 1, MAX_WIDTH);
    s.codebook_size = meta_int(&meta, KEY("decoder.codebook_size"), 1, MAX_VOCAB);
    s.decoder_dim = meta_int(&meta, KEY("decoder.decoder_dim"), 1, MAX_WIDTH);
    s.stack.hidden = meta_int(&meta, KEY("decoder.hidden_size"), 1, MAX_WIDTH);
    s.stack.feed_forward = meta_int(&meta, KEY("decoder.intermediate_size"), 1, MAX_WIDTH);
    s.stack.head_dim = meta_int(&meta, KEY("decoder.head_dim"), 2, 4096);
    s.stack.n_heads = meta_int(&meta, KEY("decoder.num_attention_heads"), 1, 4096);
    s.stack.n_kv_heads = meta_int(&meta, KEY("decoder.num_key_value_heads"), 1, 4096);
    s.stack.n_layers = meta_int(&meta, KEY("decoder.num_hidden_layers"), 1, 512);
    s.stack.norm_eps = meta_float(&meta, KEY("decoder.rms_norm_eps"), 0, 1);
    s.stack.rope_base = meta_float(&meta, KEY("decoder.rope_theta"), 1, 1e12);
    check_heads(&meta, KEY("decoder"), &s.stack);
    s.n_quantizers = meta_int(&meta, KEY("decoder.num_quantizers"), 2, 256);
    s.n_semantic = meta_int(&meta, KEY("decoder.num_semantic_quantizers"), 1, s.n_quantizers - 1);
    s.sliding_window = meta_int(&meta, KEY("decoder.sliding_window"), 1, SIZES_MAX_WINDOW);
    s.n_dac = meta_ints(&meta, KEY("decoder.upsample_rates"), s.dac, SIZES_MAX_STAGES, 1, 1024);
    s.n_upsample = meta_ints(&meta, KEY("decoder.upsampling_ratios"), s.upsample, SIZES_MAX_STAGES, 1, 1024);
    if (meta.status != QT_STATUS_OK) {
        return meta.status;
    }
    int64_t strides = 1;
    for (int i = 0; i < s.n_dac + s.n_upsample && strides <= s.hop_samples; i++) {
        strides *= i < s.n_dac ? s.dac[i] : s.upsample[i - s.n_dac];
    }
    if (strides != s.hop_samples) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: the key " KEY("decode_upsample_rate") " is %d, but the decoder's strides multiply to %lld%s", file->path,
                       (int) s.hop_samples, (long long) strides, strides > s.hop_samples ? " or more" : "");
    }
    if (s.decoder_dim % (1 << s.n_dac) != 0) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: the key " KEY("decoder.decoder_dim") " is %d, which %d blocks cannot halve", file->path,
                       (int) s.decoder_dim, s.n_dac);
    }
#undef KEY
    *sizes = s;
    return QT_STATUS_OK;
}

static enum qt_status check_equal(const struct qt_file * file, const char * what, int32_t encoder, int32_t decoder) {
    return encoder == decoder ? QT_STATUS_OK : QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: the encoder has a %s of %d, the decoder of %d", file->path, what,
                                                       (int) encoder, (int) decoder);
}

enum qt_status encoder_sizes_read(const struct qt_file * file, const struct codec_sizes * decoder, struct encoder_sizes * sizes) {
    struct meta meta = { file, QT_STATUS_OK };
    struct encoder_sizes s = { 0 };
    int32_t ratios[SIZES_MAX_STAGES];
#define KEY(name) "qwen3-tts-tokenizer." name
    s.sample_rate = meta_int(&meta, KEY("input_sample_rate"), MIN_RATE_HZ, MAX_RATE_HZ);
    s.hop_samples = meta_int(&meta, KEY("encode_downsample_rate"), 1, 1 << 20);
    s.n_quantizers = meta_int(&meta, KEY("encoder_valid_num_quantizers"), 2, 256);
    s.n_semantic = meta_int(&meta, KEY("encoder.num_semantic_quantizers"), 1, s.n_quantizers - 1);
    s.codebook_size = meta_int(&meta, KEY("encoder.codebook_size"), 1, MAX_VOCAB);
    s.codebook_dim = meta_int(&meta, KEY("encoder.vector_quantization_hidden_dim"), 1, MAX_WIDTH);
    s.n_filters = meta_int(&meta, KEY("encoder.num_filters"), 1, 1 << 12);
    s.compress = meta_int(&meta, KEY("encoder.compress"), 1, s.n_filters);
    s.n_residual = meta_int(&meta, KEY("encoder.num_residual_layers"), 1, 8);
    s.dilation_growth = meta_int(&meta, KEY("encoder.dilation_growth_rate"), 1, 8);
    s.n_stages = meta_ints(&meta, KEY("encoder.upsampling_ratios"), ratios, SIZES_MAX_STAGES, 1, 1024);
    s.stack.hidden = meta_int(&meta, KEY("encoder.hidden_size"), 1, MAX_WIDTH);
    s.stack.feed_forward = meta_int(&meta, KEY("encoder.intermediate_size"), 1, MAX_WIDTH);
    s.stack.head_dim = meta_int(&meta, KEY("encoder.head_dim"), 2, 4096);
    s.stack.n_heads = meta_int(&meta, KEY("encoder.num_attention_heads"), 1, 4096);
    s.stack.n_kv_heads = meta_int(&meta, KEY("encoder.num_key_value_heads"), 1, 4096);
    s.stack.n_layers = meta_int(&meta, KEY("encoder.num_hidden_layers"), 1, 512);
    s.stack.norm_eps = meta_float(&meta, KEY("encoder.norm_eps"), 0, 1);
    s.stack.rope_base = meta_float(&meta, KEY("encoder.rope_theta"), 1, 1e12);
    check_heads(&meta, KEY("encoder"), &s.stack);
#undef KEY
    QT_TRY(meta.status);
    int64_t dilation = 1;
    for (int i = 1; i < s.n_residual && dilation <= MAX_DILATION; i++) {
        dilation *= s.dilation_growth;
    }
    if (dilation > MAX_DILATION) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: a dilation_growth_rate of %d over %d num_residual_layers passes a dilation of %d", file->path,
                       (int) s.dilation_growth, (int) s.n_residual, MAX_DILATION);
    }
    int64_t strides = 1;
    for (int i = 0; i < s.n_stages && strides <= s.hop_samples; i++) {
        s.strides[i] = ratios[s.n_stages - 1 - i]; /* stored in the order of a decoder */
        strides *= s.strides[i];
    }
    if (s.hop_samples % strides != 0) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: the encoder's hop is %d samples, no multiple of its strides' product %lld", file->path,
                       (int) s.hop_samples, (long long) strides);
    }
    s.downsample = (int32_t) (s.hop_samples / strides);
    if (s.n_filters % s.compress != 0) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: the encoder's %d filters are no multiple of compress, %d", file->path, (int) s.n_filters, (int) s.compress);
    }
    QT_TRY(check_equal(file, "sample rate", s.sample_rate, decoder->sample_rate));
    QT_TRY(check_equal(file, "hop", s.hop_samples, decoder->hop_samples));
    QT_TRY(check_equal(file, "number of codebooks", s.n_quantizers, decoder->n_quantizers));
    QT_TRY(check_equal(file, "number of semantic codebooks", s.n_semantic, decoder->n_semantic));
    QT_TRY(check_equal(file, "codebook size", s.codebook_size, decoder->codebook_size));
    *sizes = s;
    return QT_STATUS_OK;
}

enum qt_status speaker_size_read(const struct qt_file * file, const struct talker_sizes * talker, int32_t * size) {
    *size = 0;
    if (gguf_find_tensor(file->gguf, "spk_enc.fc.weight") < 0) { /* the key may stand in a file without the tensors */
        return QT_STATUS_OK;
    }
    struct meta meta = { file, QT_STATUS_OK };
    int32_t width = meta_int(&meta, "qwen3-tts.spk_enc.embedding_length", 1, MAX_WIDTH);
    QT_TRY(meta.status);
    if (width != talker->stack.hidden) { /* an embedding is a row of the prompt */
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: the key qwen3-tts.spk_enc.embedding_length is %d, but the talker is %d wide", file->path, (int) width,
                       (int) talker->stack.hidden);
    }
    *size = width;
    return QT_STATUS_OK;
}
