/* api_codec.c - entries of qwentts.h that turn codes into samples: the whole decode and the stream. Counts and codes are checked before anything
 * is computed. */
#include "session.h"

#include <limits.h>
#include <stdlib.h>

/* codes [Q, n_frames] is something to decode. */
static enum qt_status check_codes(const char * who, const struct qt_context * c, const int32_t * codes, int n_frames) {
    int limit = INT_MAX / c->facts.hop_samples;
    if (n_frames < 1 || n_frames > limit) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: n_frames is %d, valid: 1 to %d", who, n_frames, limit);
    }
    for (int q = 0; q < c->codec.sizes.n_quantizers; q++) {
        const int32_t * row = codes + (int64_t) q * n_frames;
        for (int t = 0; t < n_frames; t++) {
            if (row[t] < 0 || row[t] >= c->facts.codebook_size) {
                return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: codes[%d][%d] is %d, valid: 0 to %d", who, q, t, (int) row[t], (int) c->facts.codebook_size - 1);
            }
        }
    }
    return QT_STATUS_OK;
}

static enum qt_status check_stream_room(const char * who, int n_past, int n) {
    if (n > STREAM_MAX_FRAMES - n_past) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: the stream has taken %d frames, %d more are over %d", who, n_past, n, STREAM_MAX_FRAMES);
    }
    return QT_STATUS_OK;
}

enum qt_status qt_codec_decode(struct qt_session * session, const int32_t * codes, int n_frames, struct qt_audio * audio) {
    QT_REQUIRE(audio);
    *audio = (struct qt_audio) { 0 };
    QT_REQUIRE(session);
    QT_REQUIRE(codes);
    QT_REQUIRE_PART(session, codec_file, "codec");
    const struct qt_context * c = session->context;
    QT_TRY(check_codes(__func__, c, codes, n_frames));
    struct codec_codes all = { codes, n_frames };
    float * samples = NULL;
    QT_TRY(session_enter(session));
    QT_TRY(session_leave(session, codec_decode(&c->codec, &session->runner, &all, c->codec_chunk_frames, &samples)));
    *audio = (struct qt_audio) { samples, n_frames * c->facts.hop_samples, c->facts.sample_rate, 1 };
    return QT_STATUS_OK;
}

void qt_audio_free(struct qt_audio * audio) {
    if (audio) {
        free(audio->samples);
        *audio = (struct qt_audio) { 0 };
    }
}

enum qt_status qt_stream_reset(struct qt_session * session) {
    QT_REQUIRE(session);
    QT_REQUIRE_PART(session, codec_file, "codec");
    codec_stream_reset(&session->stream);
    return QT_STATUS_OK;
}

static enum qt_status check_push(const char * who, const struct qt_session * session, const int32_t * codes, int n_frames) {
    QT_TRY(check_codes(who, session->context, codes, n_frames));
    return check_stream_room(who, session->stream.n_past, n_frames);
}

/* The turn is taken: before, a cancel that still holds is the first thing to say. */
static enum qt_status push(const char * who, struct qt_session * session, const struct runner * runner, const int32_t * codes, int n_frames, float * samples) {
    if (session->stream.broken) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: the push before was cancelled or failed inside: qt_stream_reset starts the stream again", who);
    }
    struct codec_codes all = { codes, n_frames };
    return codec_stream_push(&session->context->codec, &session->stream, runner, &all, 0, samples);
}

enum qt_status qt_stream_push(struct qt_session * session, const int32_t * codes, int n_frames, float * samples) {
    QT_REQUIRE(session);
    QT_REQUIRE(codes);
    QT_REQUIRE(samples);
    QT_REQUIRE_PART(session, codec_file, "codec");
    QT_TRY(check_push(__func__, session, codes, n_frames));
    QT_TRY(session_enter(session));
    return session_leave(session, push(__func__, session, &session->runner, codes, n_frames, samples));
}

enum qt_status qt_stream_push_beside(struct qt_session * session, const int32_t * codes, int n_frames, float * samples) {
    bool beside;
    QT_REQUIRE(session);
    QT_REQUIRE(codes);
    QT_REQUIRE(samples);
    QT_REQUIRE_PART(session, codec_file, "codec");
    QT_TRY(check_push(__func__, session, codes, n_frames));
    QT_TRY(session_enter_codec(session, &beside));
    if (beside) {
        return session_leave_codec(session, push(__func__, session, &session->codec_runner, codes, n_frames, samples));
    }
    QT_TRY(session_enter(session));
    return session_leave(session, push(__func__, session, &session->runner, codes, n_frames, samples));
}

enum qt_status qt_set_codec_threads(struct qt_context * ctx, int n_threads) {
    QT_REQUIRE(ctx);
    if (!ctx->codec_file && n_threads != 0) {
        return QT_FAIL(QT_STATUS_MODE_INVALID, "%s: no codec is loaded", __func__);
    }
    if (ctx->n_threads == 0 && n_threads != 0) {
        return QT_FAIL(QT_STATUS_MODE_INVALID, "%s: n_threads is %d, but %s has no threads to share out, valid: 0", __func__, n_threads, ctx->backend_name);
    }
    if (n_threads < 0 || (n_threads > 0 && n_threads >= ctx->n_threads)) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: n_threads is %d, valid: 0 to %d, fewer than the %d of the context", __func__, n_threads, ctx->n_threads - 1,
                       ctx->n_threads);
    }
    return context_set_codec_threads(ctx, n_threads);
}

enum qt_status qt_stream_prime(struct qt_session * session, const int32_t * codes, int n_frames, bool * reused) {
    bool unread;
    reused = reused ? reused : &unread;
    *reused = false;
    QT_REQUIRE(session);
    QT_REQUIRE(codes);
    QT_REQUIRE_PART(session, codec_file, "codec");
    struct qt_context * c = session->context;
    QT_TRY(check_codes(__func__, c, codes, n_frames));
    QT_TRY(check_stream_room(__func__, 0, n_frames));
    struct codec_codes all = { codes, n_frames };
    QT_TRY(session_enter(session));
    return session_leave(session, codec_stream_prime(&c->codec, &session->stream, &session->runner, &c->snapshots, &all, reused));
}
