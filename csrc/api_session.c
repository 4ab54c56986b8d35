/* api_session.c - session and talker entries of qwentts.h: check every pointer, count, id and code before anything is
 * computed, take the turn, compute. The codec's entries: api_codec.c. */
#include "session.h"

enum qt_status qt_session_new(struct qt_context * ctx, struct qt_session ** session) {
    QT_REQUIRE(session);
    *session = NULL;
    QT_REQUIRE(ctx);
    return session_new(ctx, session);
}

void qt_session_free(struct qt_session * session) {
    session_free(session);
}

enum qt_status qt_session_reset(struct qt_session * session) {
    QT_REQUIRE(session);
    session_reset(session);
    return QT_STATUS_OK;
}

void qt_session_cancel(struct qt_session * session) {
    if (session) {
        atomic_store(&session->cancelled, true);
    }
}

enum qt_status qt_session_set_tap(struct qt_session * session, qt_tap_cb callback, void * user_data) {
    QT_REQUIRE(session);
    session_set_tap(session, callback, user_data);
    return QT_STATUS_OK;
}

static enum qt_status check_count(const char * who, const char * name, int n) {
    return n > 0 ? QT_STATUS_OK : QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: %s is %d, valid: 1 or more", who, name, n);
}

/* Every value is below limit and not negative. */
static enum qt_status check_values(const char * who, const char * name, const int32_t * values, int64_t n, int32_t limit) {
    for (int64_t i = 0; i < n; i++) {
        if (values[i] < 0 || values[i] >= limit) {
            return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: %s[%lld] is %d, valid: 0 to %d", who, name, (long long) i, (int) values[i], (int) limit - 1);
        }
    }
    return QT_STATUS_OK;
}

static enum qt_status check_room(const char * who, const struct qt_session * s, int n) {
    int limit = s->context->facts.context_length;
    if (n > limit - s->talker.n_past) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: the session holds %d positions, %d more are over the model's context_length of %d", who, s->talker.n_past, n,
                       limit);
    }
    return QT_STATUS_OK;
}

enum qt_status qt_text_embed(struct qt_session * session, const int32_t * ids, int n, float * rows) {
    QT_REQUIRE(session);
    QT_REQUIRE(ids);
    QT_REQUIRE(rows);
    QT_REQUIRE_PART(session, talker_file, "talker");
    const struct qt_context * c = session->context;
    QT_TRY(check_count(__func__, "n", n));
    QT_TRY(check_values(__func__, "ids", ids, n, c->facts.text_vocab_size));
    QT_TRY(session_enter_frame(session));
    return session_leave(session, embed_text(&c->talker, &session->runner, ids, n, rows));
}

enum qt_status qt_code_embed(struct qt_session * session, int codebook, const int32_t * codes, int n, float * rows) {
    QT_REQUIRE(session);
    QT_REQUIRE(codes);
    QT_REQUIRE(rows);
    QT_REQUIRE_PART(session, talker_file, "talker");
    const struct qt_context * c = session->context;
    QT_TRY(check_count(__func__, "n", n));
    if (codebook < 0 || codebook >= c->facts.n_code_groups) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: codebook is %d, valid: 0 to %d", __func__, codebook, (int) c->facts.n_code_groups - 1);
    }
    QT_TRY(check_values(__func__, "codes", codes, n, codebook == 0 ? c->facts.codec_vocab_size : c->facts.code_vocab_size));
    QT_TRY(session_enter_frame(session));
    return session_leave(session, embed_codes(&c->talker, &session->runner, codebook, codes, n, rows));
}

enum qt_status qt_talker_prefill(struct qt_session * session, const float * rows, int n_rows, float * logits) {
    QT_REQUIRE(session);
    QT_REQUIRE(rows);
    QT_REQUIRE(logits);
    QT_REQUIRE_PART(session, talker_file, "talker");
    QT_TRY(check_count(__func__, "n_rows", n_rows));
    QT_TRY(check_room(__func__, session, n_rows));
    QT_TRY(session_enter(session));
    session->predictor.next = 0;
    return session_leave(session, talker_prefill(&session->context->talker, &session->talker, &session->runner, rows, n_rows, logits));
}

enum qt_status qt_talker_step(struct qt_session * session, const int32_t * codes, const float * overlay, float * logits) {
    QT_REQUIRE(session);
    QT_REQUIRE(codes);
    QT_REQUIRE(overlay);
    QT_REQUIRE(logits);
    QT_REQUIRE_PART(session, talker_file, "talker");
    const struct qt_context * c = session->context;
    if (session->talker.n_past == 0) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: the session holds no prompt, qt_talker_prefill comes first", __func__);
    }
    QT_TRY(check_values(__func__, "codes", codes, 1, c->facts.codec_vocab_size));
    for (int g = 1; g < c->facts.n_code_groups; g++) {
        if (codes[g] < 0 || codes[g] >= c->facts.code_vocab_size) {
            return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: codes[%d] is %d, valid: 0 to %d", __func__, g, (int) codes[g], (int) c->facts.code_vocab_size - 1);
        }
    }
    QT_TRY(check_room(__func__, session, 1));
    QT_TRY(session_enter_frame(session));
    session->predictor.next = 0;
    return session_leave(session, talker_step(&c->talker, &session->talker, &session->runner, codes, overlay, logits));
}

enum qt_status qt_predictor_begin(struct qt_session * session, int32_t code0, float * logits) {
    QT_REQUIRE(session);
    QT_REQUIRE(logits);
    QT_REQUIRE_PART(session, talker_file, "talker");
    const struct qt_context * c = session->context;
    if (!session->talker.hidden_valid) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: the session holds no prompt, qt_talker_prefill comes first", __func__);
    }
    QT_TRY(check_values(__func__, "code0", &code0, 1, c->facts.codec_vocab_size));
    QT_TRY(session_enter_frame(session));
    session->predictor.next = 0;
    return session_leave(session,
                         predictor_begin(&c->predictor, &c->talker, &session->predictor, &session->runner, session->talker.hidden, code0, logits));
}

enum qt_status qt_predictor_step(struct qt_session * session, int32_t code, float * logits) {
    QT_REQUIRE(session);
    QT_REQUIRE(logits);
    QT_REQUIRE_PART(session, talker_file, "talker");
    const struct qt_context * c = session->context;
    int n_groups = c->facts.n_code_groups, next = session->predictor.next;
    if (next == 0) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: no frame is begun, qt_predictor_begin comes first", __func__);
    }
    if (next > n_groups - 2) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: all %d codebooks of the frame are spoken, a frame takes %d steps", __func__, n_groups, n_groups - 2);
    }
    QT_TRY(check_values(__func__, "code", &code, 1, c->facts.code_vocab_size));
    QT_TRY(session_enter_frame(session));
    return session_leave(session, predictor_step(&c->predictor, &c->talker, &session->predictor, &session->runner, code, logits));
}

static enum qt_status check_uniforms(const char * who, const float * uniforms, int n) {
    for (int i = 0; i < n; i++) {
        if (!(uniforms[i] > 0 && uniforms[i] <= 1)) {
            return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: uniforms[%d] is %g, valid: above 0 up to 1", who, i, (double) uniforms[i]);
        }
    }
    return QT_STATUS_OK;
}

enum qt_status qt_draw(const float * logits, int n, const struct qt_sampling * sampling, float uniform, int32_t * token) {
    QT_REQUIRE(logits);
    QT_REQUIRE(sampling);
    QT_REQUIRE(token);
    QT_TRY(check_count(__func__, "n", n));
    QT_TRY(sampling_check(__func__, sampling));
    QT_TRY(check_uniforms(__func__, &uniform, 1));
    struct sampler sampler;
    QT_TRY(sampler_init(&sampler, n));
    enum qt_status status = sampling_draw(&sampler, logits, n, sampling, uniform, token);
    sampler_free(&sampler);
    return status;
}

enum qt_status qt_predictor_frame(struct qt_session * session, int32_t code0, const float * uniforms, const struct qt_sampling * sampling,
                                  int32_t * codes) {
    QT_REQUIRE(session);
    QT_REQUIRE(uniforms);
    QT_REQUIRE(sampling);
    QT_REQUIRE(codes);
    QT_REQUIRE_PART(session, talker_file, "talker");
    const struct qt_context * c = session->context;
    if (!session->talker.hidden_valid) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: the session holds no prompt, qt_talker_prefill comes first", __func__);
    }
    QT_TRY(check_values(__func__, "code0", &code0, 1, c->facts.codec_vocab_size));
    QT_TRY(sampling_check(__func__, sampling));
    QT_TRY(check_uniforms(__func__, uniforms, c->facts.n_code_groups - 1));
    QT_TRY(session_enter_frame(session));
    return session_leave(session, predictor_frame(&c->predictor, &c->talker, &session->predictor, &session->runner, session->talker.hidden, code0, uniforms,
                                                  sampling, codes));
}
