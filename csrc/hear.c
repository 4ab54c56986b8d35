/* hear.c - load the encoders at first use and look at every value of theirs once: damaged files hold tensors of zeros or NaN, which would give a
 * voice that is silently wrong. Biases may be zero. */
#include "hear.h"

#include "log.h"
#include "session.h"

#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

static bool ends_with(const char * text, const char * end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* What is wrong with the values, "" if nothing. */
static enum qt_status look_at(const struct qt_file * file, int64_t index, const char ** fault) {
    const int64_t * ne = gguf_get_tensor_ne(file->gguf, index);
    int64_t n = ne[0] * ne[1] * ne[2] * ne[3];
    *fault = "";
    float * values = malloc((size_t) (n ? n : 1) * sizeof *values);
    if (!values) {
        return QT_FAIL(QT_STATUS_OOM, "no memory to check the values of %s", gguf_get_tensor_name(file->gguf, index));
    }
    enum qt_status status = file_tensor_read(file, index, values, n);
    bool all_zero = true, finite = true;
    for (int64_t i = 0; status == QT_STATUS_OK && i < n; i++) {
        all_zero = all_zero && values[i] == 0;
        finite = finite && isfinite(values[i]);
    }
    *fault = !finite ? "holds NaN or infinity" : all_zero && !ends_with(gguf_get_tensor_name(file->gguf, index), ".bias") ? "is all zeros" : "";
    free(values);
    return status;
}

/* Every tensor whose name starts with prefix; each bad one is logged, the first one refuses the file. */
static enum qt_status check_values(const struct qt_file * file, const char * prefix) {
    enum qt_status status = QT_STATUS_OK;
    for (int64_t i = 0; i < gguf_get_n_tensors(file->gguf); i++) {
        const char * name = gguf_get_tensor_name(file->gguf, i), * fault;
        if (strncmp(name, prefix, strlen(prefix)) != 0) {
            continue;
        }
        QT_TRY(look_at(file, i, &fault));
        if (*fault) {
            log_write(QT_LOG_WARN, "%s: tensor %s %s", file->path, name, fault);
            if (status == QT_STATUS_OK) {
                status = QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: tensor %s %s: the file is damaged, convert the checkpoint again", file->path, name, fault);
            }
        }
    }
    return status;
}

/* Remember the outcome. Lack of memory is not one. */
static enum qt_status settle(struct lazy_part * part, enum qt_status status) {
    part->loaded = status == QT_STATUS_OK;
    part->refused = status == QT_STATUS_INVALID_PARAMS;
    if (part->refused) {
        snprintf(part->reason, sizeof part->reason, "%s", error_text());
    }
    return status;
}

static enum qt_status load_encoder(struct qt_context * c) {
    struct encoder_sizes sizes;
    struct weights weights = { .file = c->codec_file, .buffer = c->codec_weights.buffer };
    QT_TRY(encoder_sizes_read(c->codec_file, &c->codec.sizes, &sizes));
    QT_TRY(codec_encoder_load(&c->hearing.encoder, &weights, &sizes, c->backend));
    return check_values(c->codec_file, "tok_enc.");
}

static enum qt_status load_speaker(struct qt_context * c) {
    struct weights weights = { .file = c->talker_file, .buffer = c->talker_weights.buffer };
    QT_TRY(speaker_load(&c->hearing.speaker, &weights, c->facts.speaker_size, c->backend));
    return check_values(c->talker_file, "spk_enc.");
}

static enum qt_status need_encoder(struct qt_context * c) {
    struct lazy_part * part = &c->hearing.encoder_part;
    if (part->loaded) {
        return QT_STATUS_OK;
    }
    if (part->refused) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s", part->reason);
    }
    enum qt_status status = settle(part, load_encoder(c));
    if (status != QT_STATUS_OK) {
        codec_encoder_free(&c->hearing.encoder);
    }
    return status;
}

static enum qt_status need_speaker(struct qt_context * c) {
    struct lazy_part * part = &c->hearing.speaker_part;
    if (part->loaded) {
        return QT_STATUS_OK;
    }
    if (part->refused) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s", part->reason);
    }
    enum qt_status status = settle(part, load_speaker(c));
    if (status != QT_STATUS_OK) {
        speaker_free(&c->hearing.speaker);
    }
    return status;
}

void hearing_free(struct hearing * hearing) {
    codec_encoder_free(&hearing->encoder);
    speaker_free(&hearing->speaker);
}

static enum qt_status codes_in_turn(struct qt_session * s, const float * samples, int64_t n_samples, int32_t * codes) {
    QT_TRY(need_encoder(s->context));
    return codec_encode(&s->context->hearing.encoder, &s->runner, samples, n_samples, codes);
}

static enum qt_status speaker_in_turn(struct qt_session * s, const float * samples, int64_t n_samples, float * embedding) {
    QT_TRY(need_speaker(s->context));
    const struct speaker * speaker = &s->context->hearing.speaker;
    if (n_samples < speaker->n_samples_min) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "n_samples is %lld, the speaker encoder needs %lld or more (%.0f ms)", (long long) n_samples,
                       (long long) speaker->n_samples_min, 1e3 * (double) speaker->n_samples_min / MEL_RATE_HZ);
    }
    return speaker_embed(speaker, &s->runner, samples, n_samples, embedding);
}

enum qt_status hear_codes(struct qt_session * s, const float * samples, int64_t n_samples, int32_t * codes) {
    QT_TRY(session_enter(s));
    return session_leave(s, codes_in_turn(s, samples, n_samples, codes));
}

enum qt_status hear_speaker(struct qt_session * s, const float * samples, int64_t n_samples, float * embedding) {
    QT_TRY(session_enter(s));
    return session_leave(s, speaker_in_turn(s, samples, n_samples, embedding));
}
