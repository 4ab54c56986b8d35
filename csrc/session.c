/* session.c - make, reset and free sessions, and the turns they take on the backends. */
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
    s->codec_runner = s->runner;
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

/* The locks of backend are held. */
static enum qt_status begin(struct qt_session * s, struct runner * runner, ggml_backend_t backend) {
    if (atomic_load(&s->cancelled)) {
        return QT_FAIL(QT_STATUS_CANCELLED, "the session was cancelled: qt_session_reset starts it again");
    }
    runner->backend = backend;
    if (ggml_backend_is_cpu(backend)) {
        ggml_backend_cpu_set_abort_callback(backend, is_cancelled, s);
    }
    return QT_STATUS_OK;
}

static void end(const struct qt_session * s, struct runner * runner) {
    if (ggml_backend_is_cpu(runner->backend)) {
        ggml_backend_cpu_set_abort_callback(runner->backend, NULL, NULL);
    }
    runner->backend = s->context->backend; /* the codec's threads may be freed between calls */
}

static void unlock(struct qt_session * s) {
    if (s->has_all) {
        s->has_all = false;
        pthread_mutex_unlock(&s->context->codec_lock);
    }
    pthread_mutex_unlock(&s->context->lock);
}

static enum qt_status enter(struct qt_session * s, bool needs_all) {
    struct qt_context * c = s->context;
    QT_TRY(check_files(c));
    pthread_mutex_lock(&c->lock);
    if (c->codec_backend) {
        if (needs_all) {
            pthread_mutex_lock(&c->codec_lock);
            s->has_all = true;
        } else {
            s->has_all = atomic_load(&c->codec_wanted) == 0 && pthread_mutex_trylock(&c->codec_lock) == 0;
        }
    }
    enum qt_status status = begin(s, &s->runner, s->has_all || !c->codec_backend ? c->backend : c->frame_backend);
    if (status != QT_STATUS_OK) {
        unlock(s);
    }
    return status;
}

enum qt_status session_enter(struct qt_session * s) { return enter(s, true); }

enum qt_status session_enter_frame(struct qt_session * s) { return enter(s, false); }

enum qt_status session_leave(struct qt_session * s, enum qt_status status) {
    end(s, &s->runner);
    unlock(s);
    return status;
}

enum qt_status session_enter_codec(struct qt_session * s, bool * beside) {
    struct qt_context * c = s->context;
    *beside = false;
    QT_TRY(check_files(c));
    atomic_fetch_add(&c->codec_wanted, 1);
    pthread_mutex_lock(&c->codec_lock);
    atomic_fetch_sub(&c->codec_wanted, 1);
    enum qt_status status = QT_STATUS_OK;
    if (c->codec_backend && !s->runner.tap) {
        status = begin(s, &s->codec_runner, c->codec_backend);
        *beside = status == QT_STATUS_OK;
    }
    if (!*beside) {
        pthread_mutex_unlock(&c->codec_lock);
    }
    return status;
}

enum qt_status session_leave_codec(struct qt_session * s, enum qt_status status) {
    end(s, &s->codec_runner);
    pthread_mutex_unlock(&s->context->codec_lock);
    return status;
}
