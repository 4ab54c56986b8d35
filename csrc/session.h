/* session.h - the state of one utterance over a shared context. Computing calls go between session_enter and session_leave, which hold the
 * context's lock: sessions take turns. A tap is called inside, so it must not compute with another session of the same context.
 * Pushes of the codec's stream that go on beside frames have a lock and a runner of their own; of the session they touch the stream alone. */
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
    struct runner runner;             /* its backend is that of the call that has the turn */
    struct runner codec_runner;       /* of pushes beside frames; never a tap */
    bool has_all;                     /* the turn is on all threads, those of the codec included */
    struct talker_state talker;       /* zero without a talker */
    struct predictor_state predictor; /* likewise */
    struct codec_stream stream;       /* zero until its first push */
};

enum qt_status session_new(struct qt_context * context, struct qt_session ** session);
void session_free(struct qt_session * session);
void session_reset(struct qt_session * session);
void session_set_tap(struct qt_session * session, qt_tap_cb callback, void * user_data);

/* Take the turn on all threads and let qt_session_cancel stop what is computed; fails, without the turn, when the session is cancelled. */
enum qt_status session_enter(struct qt_session * session);
/* The same for what can go on beside a push: on the threads that are not the codec's own while one runs or waits, else on all. */
enum qt_status session_enter_frame(struct qt_session * session);
/* Give the turn back; returns status. */
enum qt_status session_leave(struct qt_session * session, enum qt_status status);
/* The turn on the codec's own threads, for codec_runner, where it has some and no tap is set; else *beside is false and no turn is taken. */
enum qt_status session_enter_codec(struct qt_session * session, bool * beside);
enum qt_status session_leave_codec(struct qt_session * session, enum qt_status status);

#endif
