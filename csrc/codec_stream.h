/* codec_stream.h - the decoder frame by frame: its state lives from push to push, so that pieces give the samples of one pass. */
#ifndef QT_CODEC_STREAM_H
#define QT_CODEC_STREAM_H

#include "codec.h"
#include "codec_snapshots.h"

#define STREAM_SIZES 4                           /* graphs of 1, 2, 4 and 8 frames; a push is cut into them */
#define STREAM_PIECE_MAX (1 << (STREAM_SIZES - 1))
#define STREAM_MAX_FRAMES (1 << 24)              /* positions that F32 counts */

/* Zero until the first push; then its memory stays until codec_stream_free. */
struct codec_stream {
    struct kv_cache cache;        /* place p holds frame first_frame + p */
    struct carry carry;
    ggml_backend_buffer_t carried; /* memory of carry.tensors */
    struct codec_graph graphs[STREAM_SIZES];
    struct codec_graph silent;    /* of STREAM_PIECE_MAX frames of a reference */
    ggml_gallocr_t memory;        /* of all graphs, as large as the largest that was needed: one runs at a time */
    int n_past;                   /* frames taken in */
    int first_frame;              /* a multiple of STREAM_ALIGN */
    bool broken;                  /* a push stopped inside: the state is between two frames */
    int32_t * positions;          /* [STREAM_PIECE_MAX] */
    int64_t * rows;               /* [STREAM_PIECE_MAX * H_kv] */
    float * mask;                 /* [STREAM_PIECE_MAX, capacity] */
    float * head;                 /* [window, hd]: keys on their way to another place */
};

void codec_stream_free(struct codec_stream * stream);
/* As a stream that has not taken a frame yet, bit for bit. */
void codec_stream_reset(struct codec_stream * stream);
/* Graphs are built anew at their next use: settings changed. */
void codec_stream_drop_graphs(struct codec_stream * stream);

/* Take all frames from first on in; samples from the beginning [n_frames * hop_samples], or NULL when nobody reads them. Fails without effect when memory cannot be had; any other failure leaves the stream broken. */
enum qt_status codec_stream_push(const struct codec * codec, struct codec_stream * stream, const struct runner * runner, const struct codec_codes * codes,
                                 int first, float * samples);
/* Reset, then take all frames in, or copy the state that a snapshot of the same frames holds. Convolutions only see the last codec_memory_frames. */
enum qt_status codec_stream_prime(const struct codec * codec, struct codec_stream * stream, const struct runner * runner,
                                  struct codec_snapshots * snapshots, const struct codec_codes * codes, bool * reused);

#endif
