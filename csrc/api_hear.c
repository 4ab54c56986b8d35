/* api_hear.c - hearing entries of qwentts.h: check the clip and that the model can hear it, take the turn, compute. */
#include "session.h"

#include <math.h>
#include <stdlib.h>

#define MAX_CLIP_S 300 /* the transformer's mask grows with the square: 225 MB at 25 positions a second */

static enum qt_status check_clip(const char * who, const float * samples, int64_t n, int64_t least, int rate_hz) {
    int64_t most = (int64_t) MAX_CLIP_S * rate_hz;
    if (n < least || n > most) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: the clip has %lld samples, valid: %lld to %lld (%d s)", who, (long long) n, (long long) least,
                       (long long) most, MAX_CLIP_S);
    }
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(samples[i])) {
            return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: samples[%lld] is %g, valid: finite numbers", who, (long long) i, (double) samples[i]);
        }
    }
    return QT_STATUS_OK;
}

static enum qt_status check_codec(const char * who, const struct qt_context * c) {
    return c->codec_file ? QT_STATUS_OK : QT_FAIL(QT_STATUS_MODE_INVALID, "%s: no codec is loaded", who);
}

static enum qt_status check_speaker(const char * who, const struct qt_context * c) {
    if (!c->talker_file) {
        return QT_FAIL(QT_STATUS_MODE_INVALID, "%s: no talker is loaded", who);
    }
    if (!c->facts.speaker_size) {
        return QT_FAIL(QT_STATUS_MODE_INVALID, "%s: %s has no speaker encoder, only base models have one", who, c->talker_file->path);
    }
    return QT_STATUS_OK;
}

enum qt_status qt_codec_encode(struct qt_session * session, const float * samples, int n_samples, int32_t * codes, int capacity_frames, int * n_frames) {
    QT_REQUIRE(n_frames);
    *n_frames = 0;
    QT_REQUIRE(session);
    QT_REQUIRE(samples);
    QT_REQUIRE(codes);
    const struct qt_context * c = session->context;
    QT_TRY(check_codec(__func__, c));
    QT_TRY(check_clip(__func__, samples, n_samples, 1, c->facts.sample_rate));
    int n = (n_samples - 1) / c->facts.hop_samples + 1;
    if (capacity_frames < n) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: capacity_frames is %d, %d samples take %d", __func__, capacity_frames, n_samples, n);
    }
    QT_TRY(hear_codes(session, samples, n_samples, codes));
    *n_frames = n;
    return QT_STATUS_OK;
}

enum qt_status qt_speaker_embed(struct qt_session * session, const float * samples, int n_samples, float * embedding) {
    QT_REQUIRE(session);
    QT_REQUIRE(samples);
    QT_REQUIRE(embedding);
    QT_TRY(check_speaker(__func__, session->context));
    QT_TRY(check_clip(__func__, samples, n_samples, 1, MEL_RATE_HZ));
    return hear_speaker(session, samples, n_samples, embedding);
}

static enum qt_status extract(struct qt_context * ctx, const float * samples, int n_frames, struct qt_voice_ref * out) {
    const struct qt_facts * f = &ctx->facts;
    int64_t n_samples = (int64_t) n_frames * f->hop_samples;
    out->ref_spk_emb = calloc((size_t) f->speaker_size, sizeof *out->ref_spk_emb);
    out->ref_codes = calloc((size_t) f->n_code_groups * (size_t) n_frames, sizeof *out->ref_codes);
    if (!out->ref_spk_emb || !out->ref_codes) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for the voice of %d frames", n_frames);
    }
    out->ref_spk_dim = f->speaker_size;
    out->ref_T = n_frames;
    out->num_codebooks = f->n_code_groups;
    struct qt_session * session;
    QT_TRY(session_new(ctx, &session));
    enum qt_status status = hear_speaker(session, samples, n_samples, out->ref_spk_emb);
    if (status == QT_STATUS_OK) {
        status = hear_codes(session, samples, n_samples, out->ref_codes);
    }
    session_free(session);
    return status;
}

enum qt_status qt_extract_voice_ref(struct qt_context * ctx, const float * ref_audio_24k, int ref_n_samples, struct qt_voice_ref * out) {
    QT_REQUIRE(out);
    *out = (struct qt_voice_ref) { 0 };
    QT_REQUIRE(ctx);
    QT_REQUIRE(ref_audio_24k);
    QT_TRY(check_speaker(__func__, ctx));
    QT_TRY(check_codec(__func__, ctx));
    if (ctx->facts.sample_rate != MEL_RATE_HZ) {
        return QT_FAIL(QT_STATUS_MODE_INVALID, "%s: the codec runs at %d Hz, the speaker encoder at %d", __func__, (int) ctx->facts.sample_rate, MEL_RATE_HZ);
    }
    QT_TRY(check_clip(__func__, ref_audio_24k, ref_n_samples, ctx->facts.hop_samples, MEL_RATE_HZ));
    enum qt_status status = extract(ctx, ref_audio_24k, ref_n_samples / ctx->facts.hop_samples, out);
    if (status != QT_STATUS_OK) {
        qt_voice_ref_free(out);
    }
    return status;
}

void qt_voice_ref_free(struct qt_voice_ref * ref) {
    if (ref) {
        free(ref->ref_spk_emb);
        free(ref->ref_codes);
        *ref = (struct qt_voice_ref) { 0 };
    }
}
