/* fuzz_model.c - libFuzzer entry: a whole model from any bytes. They are loaded as a talker, then as a codec; what loads computes one cheap step of
 * everything it can. Bounds on the sizes keep an input fast: a file may well be accepted and mean hours of work. */
#include "fuzz_file.h"
#include "qwentts.h"

#include <stdlib.h>
#include <string.h>

#define MAX_BYTES (1 << 16)
#define MAX_NUMBERS (1 << 20) /* logits, samples or rows an array may hold */
#define N_ROWS 3              /* rows of a prompt, frames of codes */

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size);

static void require(bool holds) {
    if (!holds) {
        abort();
    }
}

/* Every outcome is right but one without a message. */
static bool done(enum qt_status status) {
    require(status == QT_STATUS_OK || strlen(qt_last_error()) > 10);
    return status == QT_STATUS_OK;
}

static void * numbers(int64_t n, size_t size) {
    void * p = calloc((size_t) (n > 0 ? n : 1), size);
    require(p != NULL);
    return p;
}

/* The codes it draws are ones that the talker takes, whatever the weights made of the logits. */
static bool frame_in_one_call(struct qt_session * s, const struct qt_facts * f, int32_t * codes) {
    struct qt_sampling sampling = { .top_k = 3, .temperature = 0.9, .top_p = 0.8 };
    float * uniforms = numbers(f->n_code_groups, sizeof *uniforms);
    for (int g = 0; g < f->n_code_groups; g++) {
        uniforms[g] = (float) (g + 1) / (float) f->n_code_groups;
    }
    bool drawn = done(qt_predictor_frame(s, 0, uniforms, &sampling, codes));
    for (int g = 1; drawn && g < f->n_code_groups; g++) {
        require(codes[g] >= 0 && codes[g] < f->code_vocab_size);
    }
    free(uniforms);
    return drawn;
}

static void speak(struct qt_session * s, const struct qt_facts * f) {
    if (f->hidden_size > MAX_NUMBERS / N_ROWS || f->codec_vocab_size > MAX_NUMBERS || f->code_vocab_size > MAX_NUMBERS) {
        return;
    }
    float * rows = numbers((int64_t) f->hidden_size * N_ROWS, sizeof *rows);
    float * logits = numbers(f->codec_vocab_size > f->code_vocab_size ? f->codec_vocab_size : f->code_vocab_size, sizeof *logits);
    int32_t * codes = numbers(f->n_code_groups, sizeof *codes);
    int32_t ids[N_ROWS] = { 0, f->text_vocab_size - 1, f->text_vocab_size / 2 }, code = f->code_vocab_size - 1;
    done(qt_code_embed(s, f->n_code_groups - 1, &code, 1, rows));
    bool going = done(qt_text_embed(s, ids, N_ROWS, rows)) && done(qt_talker_prefill(s, rows, N_ROWS, logits));
    for (int frame = 0; frame < 2 && going; frame++) {
        going = done(qt_predictor_begin(s, f->codec_vocab_size - 1, logits));
        for (int g = 0; g < f->n_code_groups - 2 && g < 4 && going; g++) {
            going = done(qt_predictor_step(s, f->code_vocab_size - 1, logits));
        }
        going = going && frame_in_one_call(s, f, codes) && done(qt_talker_step(s, codes, rows, logits));
    }
    free(codes);
    free(logits);
    free(rows);
}

static void decode(struct qt_session * s, const struct qt_facts * f) {
    if (f->hop_samples > 4096) {
        return;
    }
    int32_t * codes = numbers((int64_t) f->n_code_groups * N_ROWS, sizeof *codes);
    float * samples = numbers((int64_t) f->hop_samples * N_ROWS, sizeof *samples);
    for (int i = 0; i < f->n_code_groups * N_ROWS; i++) {
        codes[i] = i % f->codebook_size;
    }
    struct qt_audio audio;
    done(qt_codec_decode(s, codes, N_ROWS, &audio));
    qt_audio_free(&audio);
    if (done(qt_stream_push(s, codes, 1, samples))) {
        done(qt_stream_push(s, codes, N_ROWS, samples));
    }
    bool reused;
    done(qt_stream_prime(s, codes, N_ROWS, &reused));
    free(samples);
    free(codes);
}

static void hear(struct qt_session * s, const struct qt_facts * f) {
    int n = f->sample_rate ? 2 * f->hop_samples + 1 : 2048;
    if (n > 8192) {
        return;
    }
    float * samples = numbers(n, sizeof *samples);
    for (int i = 0; i < n; i++) {
        samples[i] = (float) (i % 17 - 8) / 8;
    }
    if (f->sample_rate) {
        int n_frames;
        int32_t * codes = numbers((int64_t) f->n_code_groups * 3, sizeof *codes);
        done(qt_codec_encode(s, samples, n, codes, 3, &n_frames));
        done(qt_codec_encode(s, samples, n, codes, 3, &n_frames)); /* a part that was refused stays so */
        free(codes);
    }
    if (f->speaker_size > 0 && f->speaker_size <= MAX_NUMBERS) {
        float * embedding = numbers(f->speaker_size, sizeof *embedding);
        done(qt_speaker_embed(s, samples, n, embedding));
        free(embedding);
    }
    free(samples);
}

static void read_file(const struct qt_file * file) {
    for (int64_t i = 0; i < qt_file_n_keys(file); i++) {
        struct qt_value value;
        require(qt_file_value(file, qt_file_key(file, i), &value) == QT_STATUS_OK);
    }
    for (int64_t i = 0; i < qt_file_n_tensors(file); i++) {
        struct qt_tensor_info info;
        require(qt_file_tensor(file, i, &info) == QT_STATUS_OK);
        int64_t n = info.ne[0] * info.ne[1] * info.ne[2] * info.ne[3];
        float * values = numbers(n, sizeof *values);
        done(qt_file_tensor_read(file, i, values, n));
        free(values);
    }
}

static void use(const char * path, bool as_talker, bool fused) {
    struct qt_init_params params;
    require(qt_init_default_params(&params) == QT_STATUS_OK);
    params.talker_path = as_talker ? path : NULL;
    params.codec_path = as_talker ? NULL : path;
    params.n_threads = 1;
    params.use_fa = fused;
    struct qt_context * context = qt_init(&params);
    if (!context) {
        done(QT_STATUS_INVALID_PARAMS);
        return;
    }
    struct qt_facts f;
    struct qt_session * s = NULL;
    require(qt_facts_get(context, &f, sizeof f) == QT_STATUS_OK);
    read_file(qt_context_file(context, as_talker ? QT_FILE_TALKER : QT_FILE_CODEC));
    if (done(qt_session_new(context, &s))) {
        if (as_talker) {
            speak(s, &f);
        } else {
            decode(s, &f);
        }
        hear(s, &f);
    }
    qt_session_free(s);
    qt_free(context);
}

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size) {
    if (size > MAX_BYTES) {
        return 0;
    }
    struct fuzz_file file;
    const char * path = fuzz_file_put(&file, data, size);
    use(path, true, size % 2 == 0);
    use(path, false, size % 2 == 0);
    fuzz_file_drop(&file);
    return 0;
}
