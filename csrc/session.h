/* session.h - the state of one utterance over a shared context. Computing calls go between session_enter and session_leave, which hold the
 * context's lock: sessions take turns. A tap is called inside, so it must not compute with another session of the same context. */
#ifndef QT_SESSION_H
#define QT_SESSION_H

#include "codec_stream.h"
#include "context.h"

/* In an entry of qwentts.h: refuse a model that lacks the part. */
#define QT_REQUIRE_PART(session, file, what) \
    do { if (!(session)->context->file) return QT_FAIL(QT_STATUS_MODE_INVALID, "%s: no " what " is loaded", __func__); } while (0)

struct qt_session {
    struct qt_context * context;
    atomic_bool cancelled;
    struct runner runner;
    struct talker_state talker;       /* zero without a talker */
    struct predictor_state predictor; /* likewise */
    struct codec_stream stream;       /* zero until its first push */
};

enum qt_status session_new(struct qt_context * context, struct qt_session ** session);
void session_free(struct qt_session * session);
void session_reset(struct qt_session * session);
void session_set_tap(struct qt_session * session, qt_tap_cb callback, void * user_data);

/* Take the turn and let qt_session_cancel stop what is computed; fails, without the turn, when the session is cancelled. */
enum qt_status session_enter(struct qt_session * session);
/* Give the turn back; returns status. */
enum qt_status session_leave(struct qt_session * session, enum qt_status status);

#endif
