/* hear.h - the encoders, loaded when something is heard for the first time. Until then no page of their tensors is touched, but for the first of
 * each where the talker is a base model: what is plainly damaged is logged at load. */
#ifndef QT_HEAR_H
#define QT_HEAR_H

#include "codec_encoder.h"
#include "speaker.h"

struct qt_session;

/* Whether a part is loaded; once its tensors were found unusable it stays refused, for the same reason. */
struct lazy_part {
    bool loaded, refused;
    char reason[512];
};

/* Of the context; the lock guards it. */
struct hearing {
    struct codec_encoder encoder;
    struct lazy_part encoder_part;
    struct speaker speaker;
    struct lazy_part speaker_part;
};

void hearing_free(struct hearing * hearing);

/* Both load what they need and compute, inside the session's turn. codes [Q, ceil(n_samples / hop)]; embedding [speaker_size]. */
enum qt_status hear_codes(struct qt_session * session, const float * samples, int64_t n_samples, int32_t * codes);
enum qt_status hear_speaker(struct qt_session * session, const float * samples, int64_t n_samples, float * embedding);

#endif
