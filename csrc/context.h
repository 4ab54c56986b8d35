/* context.h - what qt_init loads: files, weights, networks and the backend they run on. Read-only after qt_init, but for the backend and the
 * snapshots, which the lock guards. */
#ifndef QT_CONTEXT_H
#define QT_CONTEXT_H

#include "codec.h"
#include "codec_snapshots.h"
#include "hear.h"
#include "predictor.h"
#include "talker.h"

#include <pthread.h>

struct qt_context {
    struct qt_file * talker_file; /* NULL: no talker */
    struct qt_file * codec_file;  /* NULL: no codec */
    struct weights talker_weights;
    struct weights codec_weights;
    struct talker talker;
    struct predictor predictor;
    struct codec codec;
    struct hearing hearing; /* empty until something is heard, then guarded by the lock */
    int codec_chunk_frames;           /* decoded at a time by qt_codec_decode */
    struct codec_snapshots snapshots; /* of streams primed with a reference */
    struct qt_facts facts;
    char ** speakers; /* one block, see meta_strings */
    int n_speakers;
    ggml_backend_t backend;
    char backend_name[128];
    bool fused_attention;
    bool clamp_fp16;
    enum ggml_type kv_type;
    pthread_mutex_t lock; /* held by the session that computes */
    bool lock_ready;
};

/* params are complete (every version's fields) and their talker_path or codec_path is given. */
enum qt_status context_new(const struct qt_init_params * params, struct qt_context ** context);
void context_free(struct qt_context * context);

#endif
