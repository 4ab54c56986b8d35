/* session.c - make, reset and free sessions, and the turn they take on the backend. */
#include "session.h"

#include <ggml-cpu.h>

#include <stdlib.h>

enum qt_status session_new(struct qt_context * context, struct qt_session ** session) {
    *session = NULL;
    struct qt_session * s = calloc(1, sizeof *s);
    if (!s) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for a session");
    }
    s->context = context;
    atomic_init(&s->cancelled, false);
    s->runner = (struct runner) {
        .backend = context->backend,
        .fused_attention = context->fused_attention,
        .clamp_fp16 = context->clamp_fp16,
        .kv_type = context->kv_type,
        .cancelled = &s->cancelled,
    };
    enum qt_status status = QT_STATUS_OK;
    if (context->talker_file) {
        status = talker_state_init(&s->talker, &context->talker, &s->runner);
        if (status == QT_STATUS_OK) {
            status = predictor_state_init(&s->predictor, &context->predictor, &s->runner);
        }
    }
    if (status != QT_STATUS_OK) {
        session_free(s);
        return status;
    }
    *session = s;
    return QT_STATUS_OK;
}

void session_free(struct qt_session * s) {
    if (!s) {
        return;
    }
    codec_stream_free(&s->stream);
    predictor_state_free(&s->predictor);
    talker_state_free(&s->talker);
    free(s);
}

void session_reset(struct qt_session * s) {
    talker_state_reset(&s->talker, &s->runner);
    s->predictor.next = 0;
    codec_stream_reset(&s->stream);
    atomic_store(&s->cancelled, false);
}

void session_set_tap(struct qt_session * s, qt_tap_cb callback, void * user_data) {
    bool rebuild = (callback != NULL) != (s->runner.tap != NULL); /* a graph holds named stages or it does not */
    s->runner.tap = callback;
    s->runner.tap_user_data = user_data;
    if (rebuild) {
        talker_state_drop_graphs(&s->talker);
        predictor_state_drop_graphs(&s->predictor);
        codec_stream_drop_graphs(&s->stream);
    }
}

static bool is_cancelled(void * session) {
    return atomic_load(&((struct qt_session *) session)->cancelled);
}

/* Weights may lie in the mapped files. */
static enum qt_status check_files(const struct qt_context * context) {
    if (context->talker_file) {
        QT_TRY(file_check(context->talker_file));
    }
    return context->codec_file ? file_check(context->codec_file) : QT_STATUS_OK;
}

enum qt_status session_enter(struct qt_session * s) {
    QT_TRY(check_files(s->context));
    pthread_mutex_lock(&s->context->lock);
    if (atomic_load(&s->cancelled)) {
        pthread_mutex_unlock(&s->context->lock);
        return QT_FAIL(QT_STATUS_CANCELLED, "the session was cancelled: qt_session_reset starts it again");
    }
    if (ggml_backend_is_cpu(s->runner.backend)) {
        ggml_backend_cpu_set_abort_callback(s->runner.backend, is_cancelled, s);
    }
    return QT_STATUS_OK;
}

enum qt_status session_leave(struct qt_session * s, enum qt_status status) {
    if (ggml_backend_is_cpu(s->runner.backend)) {
        ggml_backend_cpu_set_abort_callback(s->runner.backend, NULL, NULL);
    }
    pthread_mutex_unlock(&s->context->lock);
    return status;
}
