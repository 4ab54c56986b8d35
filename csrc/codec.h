/* codec.h - the codec's decoder: weights, its graph, and decoding of codes that are all known (codec_stream.h takes them piece by piece). */
#ifndef QT_CODEC_H
#define QT_CODEC_H

#include "codec_parts.h"

/* Weights, read-only and shared. */
struct codec {
    struct codec_sizes sizes;
    struct codec_rvq rvq;
    struct codec_transformer transformer;
    struct codec_upsample upsample;
    struct codec_dac dac;
};

/* A graph over T frames. */
struct codec_graph {
    struct arena arena;
    struct ggml_tensor * codes;      /* I32 [T, Q] */
    struct ggml_tensor * positions;  /* I32 [T] */
    struct ggml_tensor * mask;       /* F32 [n_kv, T] */
    struct ggml_tensor * cache_rows; /* I64 [H_kv*T], NULL in one pass */
    struct ggml_tensor * audio;      /* [T * hop, 1]; NULL: of a silent graph */
};

/* codes of a whole call, [Q, n_frames] row by row. */
struct codec_codes {
    const int32_t * values;
    int n_frames;
};

enum qt_status codec_load(struct codec * codec, struct weights * weights, const struct codec_sizes * sizes, ggml_backend_t backend, int n_threads);
void codec_free(struct codec * codec);

/* Convolutions of the decoder: a bound on the tensors of a carry. */
int codec_n_convs(const struct codec * codec);
/* Build a graph of T frames, without memory: arena_alloc comes next. cache and carry NULL: one pass; else the graph continues the ones before. */
enum qt_status codec_graph_build(struct codec_graph * graph, const struct codec * codec, const struct runner * runner, int64_t T,
                                 const struct kv_cache * cache, struct carry * carry);
/* The same up to the transformer: it takes frames in, for those behind it to see, and makes no sound. The carry has been made. */
enum qt_status codec_graph_build_silent(struct codec_graph * graph, const struct codec * codec, const struct runner * runner, int64_t T,
                                        const struct kv_cache * cache, struct carry * carry);
/* Frames that the convolutions behind the transformer remember: what they carry after as many from silence on is what it is after any number. */
int64_t codec_memory_frames(const struct codec * codec);
/* Frames first .. first + T-1 of codes to the graph. */
void codec_graph_set_codes(const struct codec_graph * graph, const struct codec_codes * codes, int first);

/* Samples of frames first .. first + n-1 to out [n * hop_samples], from one pass that begins n_context frames before them. */
enum qt_status codec_decode_pass(const struct codec * codec, const struct runner * runner, const struct codec_codes * codes, int first, int n,
                                 int n_context, float * out);
/* codec_chunks.c: all frames to samples [n_frames * hop_samples], malloc'd, at most chunk_frames at a time. */
enum qt_status codec_decode(const struct codec * codec, const struct runner * runner, const struct codec_codes * codes, int chunk_frames,
                            float ** samples);

#endif
