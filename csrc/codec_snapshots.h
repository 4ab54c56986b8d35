/* codec_snapshots.h - states of primed streams, by the codes that primed them; the context has one, its lock guards it. */
#ifndef QT_CODEC_SNAPSHOTS_H
#define QT_CODEC_SNAPSHOTS_H

#include <stdint.h>

#define SNAPSHOT_SLOTS 8 /* about 6 MB each with published files */

struct codec_snapshot {
    uint64_t hash;
    int32_t * codes;    /* [n_codes]; NULL: the slot is free */
    float * state;      /* [n_state] */
    int64_t n_codes, n_state;
    uint64_t last_used;
};

struct codec_snapshots {
    struct codec_snapshot slots[SNAPSHOT_SLOTS];
    uint64_t clock; /* counts uses */
};

/* The state stored for exactly these codes, NULL if none; it lives until the next codec_snapshots_add. */
const float * codec_snapshots_find(struct codec_snapshots * snapshots, const int32_t * codes, int64_t n_codes);
/* Room [n_state] for a state of these codes, in place of the least recently used one; NULL without memory: then nothing is stored. */
float * codec_snapshots_add(struct codec_snapshots * snapshots, const int32_t * codes, int64_t n_codes, int64_t n_state);
void codec_snapshots_free(struct codec_snapshots * snapshots);

#endif
