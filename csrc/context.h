/* context.h - what qt_init loads: files, weights, networks and the backends they run on. Read-only after qt_init, but for the backends and the
 * snapshots, which the locks guard.
 * Its n_threads are one group, or two where context_set_codec_threads gave the codec some of its own: frames and pushes of the codec then go on at the
 * same time, and what needs all threads waits for both. A frame that begins while nothing is pushed has all of them too. */
#ifndef QT_CONTEXT_H
#define QT_CONTEXT_H

#include "codec.h"
#include "codec_snapshots.h"
#include "hear.h"
#include "predictor.h"
#include "talker.h"

#include <pthread.h>
#include <stdatomic.h>

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
    ggml_backend_t backend;       /* all threads */
    ggml_backend_t frame_backend; /* without the codec's; NULL: the codec has none of its own */
    ggml_backend_t codec_backend; /* the codec's own; likewise. Both are written under both locks and read under either */
    int n_threads;                /* of backend; 0: it is not the CPU's */
    char backend_name[128];
    bool fused_attention;
    bool clamp_fp16;
    enum ggml_type kv_type;
    pthread_mutex_t lock;       /* held by the session that computes, unless it is on the codec's own threads */
    pthread_mutex_t codec_lock; /* held by the session that computes on them, and by one that needs all threads, which takes lock first */
    bool lock_ready, codec_lock_ready;
    atomic_int codec_wanted;    /* pushes that wait for the codec's threads: a frame leaves them alone */
};

/* params are complete (every version's fields) and their talker_path or codec_path is given. */
enum qt_status context_new(const struct qt_init_params * params, struct qt_context ** context);
void context_free(struct qt_context * context);
/* Waits for what computes. Fails without effect. */
enum qt_status context_set_codec_threads(struct qt_context * context, int n_codec_threads);

#endif
