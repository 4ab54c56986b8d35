/* hear.c - load the encoders at first use and look at every value of theirs once. */
#include "hear.h"

#include "session.h"
#include "values.h"

#include <stdio.h>

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
    return values_check(c->codec_file, "tok_enc.");
}

static enum qt_status load_speaker(struct qt_context * c) {
    struct weights weights = { .file = c->talker_file, .buffer = c->talker_weights.buffer };
    QT_TRY(speaker_load(&c->hearing.speaker, &weights, c->facts.speaker_size, c->backend));
    return values_check(c->talker_file, "spk_enc.");
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
