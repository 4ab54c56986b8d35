/* codec_stream.c - one static graph a piece size, replayed in one memory for all sizes; nothing is allocated once the graphs stand.
 *
 *   push [Q, n] -> pieces of 8, 4, 2, 1 frames -> graph with keys and values in a cache, convolution contexts and overlap tails in a carry
 *     -> samples of the piece
 *
 * The cache is a row of places for window + 8 frames and more, in the order of time; when it is full, the window moves to the front by a multiple of
 * STREAM_ALIGN. So attention meets the same keys in the same blocks as in one pass and adds them up in the same order: with the fused op the
 * samples are bit for bit those of one pass. Without it the softmax's row has another length, so its sum may round differently.
 * A snapshot holds n_past, the carry and the window's keys and values. */
#include "codec_stream.h"

#include "log.h"

#include <math.h>
#include <stdlib.h>

#define STREAM_ALIGN 64 /* keys that attention kernels take at a time, or a multiple */

static int64_t align_up(int64_t n) {
    return (n + STREAM_ALIGN - 1) / STREAM_ALIGN * STREAM_ALIGN;
}

/* Frames before the next one that it sees. */
static int n_kept(const struct codec * codec, const struct codec_stream * stream) {
    int most = codec->sizes.sliding_window - 1;
    return stream->n_past < most ? stream->n_past : most;
}

void codec_stream_drop_graphs(struct codec_stream * stream) {
    for (int i = 0; i < STREAM_SIZES; i++) {
        arena_free(&stream->graphs[i].arena);
    }
    arena_free(&stream->silent.arena);
    ggml_gallocr_free(stream->memory);
    stream->memory = NULL;
}

void codec_stream_free(struct codec_stream * stream) {
    codec_stream_drop_graphs(stream);
    kv_cache_free(&stream->cache);
    ggml_backend_buffer_free(stream->carried);
    ggml_free(stream->carry.tensors);
    free(stream->positions);
    free(stream->rows);
    free(stream->mask);
    free(stream->head);
    *stream = (struct codec_stream) { 0 };
}

void codec_stream_reset(struct codec_stream * stream) {
    if (stream->n_past > 0 || stream->broken) {
        ggml_backend_buffer_clear(stream->cache.buffer, 0); /* plain products multiply masked places by 0: a NaN left there would stay one */
        ggml_backend_buffer_clear(stream->carried, 0);
    }
    stream->n_past = stream->first_frame = 0;
    stream->broken = false;
}

/* The cache and the host's side of the inputs. */
static enum qt_status make_room(const struct codec * codec, struct codec_stream * s, const struct runner * runner) {
    const struct stack_sizes * sizes = &codec->sizes.stack;
    int64_t window = codec->sizes.sliding_window, capacity = align_up(window + STREAM_ALIGN + STREAM_PIECE_MAX);
    if (s->cache.buffer) {
        return QT_STATUS_OK;
    }
    s->positions = malloc(STREAM_PIECE_MAX * sizeof *s->positions);
    s->rows = malloc(STREAM_PIECE_MAX * (size_t) sizes->n_kv_heads * sizeof *s->rows);
    s->mask = malloc(STREAM_PIECE_MAX * (size_t) capacity * sizeof *s->mask);
    s->head = malloc((size_t) window * (size_t) sizes->head_dim * sizeof *s->head);
    bool moved, got = s->positions && s->rows && s->mask && s->head;
    enum qt_status status = got ? kv_cache_reserve(&s->cache, ggml_backend_get_default_buffer_type(runner->backend), sizes, GGML_TYPE_F32, (int) capacity,
                                                   (int) capacity, 0, &moved)
                                : QT_FAIL(QT_STATUS_OOM, "no memory for a stream over a window of %lld frames", (long long) window);
    if (status != QT_STATUS_OK) {
        codec_stream_free(s);
    }
    return status;
}

/* The first graph has made the carry's tensors: give them memory. */
static enum qt_status finish_carry(struct codec_stream * s, const struct runner * runner) {
    if (s->carry.made) {
        return QT_STATUS_OK;
    }
    s->carried = ggml_backend_alloc_ctx_tensors(s->carry.tensors, runner->backend);
    if (!s->carried) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for the state of a stream");
    }
    ggml_backend_buffer_clear(s->carried, 0);
    s->carry.made = true;
    return QT_STATUS_OK;
}

/* The graph of T frames stands; a silent one needs the carry of another. */
static enum qt_status ensure(const struct codec * codec, struct codec_stream * s, const struct runner * runner, struct codec_graph * g, int64_t T) {
    if (g->arena.ctx) {
        return QT_STATUS_OK;
    }
    QT_TRY(make_room(codec, s, runner));
    if (!s->carry.made) {
        size_t n_bytes = (size_t) codec_n_convs(codec) * ggml_tensor_overhead();
        ggml_free(s->carry.tensors); /* of an attempt that failed */
        s->carry.tensors = ggml_init((struct ggml_init_params) { .mem_size = n_bytes, .no_alloc = true });
        if (!s->carry.tensors) {
            return QT_FAIL(QT_STATUS_OOM, "no memory for the state of a stream");
        }
    }
    if (!s->memory && !(s->memory = ggml_gallocr_new(ggml_backend_get_default_buffer_type(runner->backend)))) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for the graphs of a stream");
    }
    enum qt_status status = (g == &s->silent ? codec_graph_build_silent : codec_graph_build)(g, codec, runner, T, &s->cache, &s->carry);
    if (status == QT_STATUS_OK) {
        status = finish_carry(s, runner);
    }
    if (status != QT_STATUS_OK) {
        arena_free(&g->arena);
        return status;
    }
    arena_share(&g->arena, s->memory);
    return arena_alloc(&g->arena, runner);
}

/* Room for n more frames behind those the next one sees. */
static void make_place(const struct codec * codec, struct codec_stream * s, int n) {
    if (s->n_past - s->first_frame + n <= s->cache.capacity) {
        return;
    }
    int kept = n_kept(codec, s), from = s->n_past - kept - s->first_frame;
    int first_frame = (s->n_past - kept) / STREAM_ALIGN * STREAM_ALIGN;
    kv_cache_move(&s->cache, from, s->n_past - kept - first_frame, kept, s->head);
    s->first_frame = first_frame;
}

/* T frames from n_past on; place p holds frame first_frame + p. */
static void set_positions(const struct codec * codec, struct codec_stream * s, const struct codec_graph * g, int T) {
    int64_t capacity = s->cache.capacity, window = codec->sizes.sliding_window, place = s->n_past - s->first_frame;
    for (int64_t t = 0; t < T; t++) {
        int64_t own = place + t;
        s->positions[t] = s->n_past + (int32_t) t;
        for (int64_t j = 0; j < capacity; j++) {
            s->mask[t * capacity + j] = j <= own && own - j < window ? 0.0f : -INFINITY;
        }
    }
    kv_cache_rows(&s->cache, codec->sizes.stack.n_kv_heads, (int) place, T, s->rows);
    ggml_backend_tensor_set(g->positions, s->positions, 0, ggml_nbytes(g->positions));
    ggml_backend_tensor_set(g->mask, s->mask, 0, ggml_nbytes(g->mask));
    ggml_backend_tensor_set(g->cache_rows, s->rows, 0, ggml_nbytes(g->cache_rows));
}

/* Largest graph for n frames that are left. */
static int size_for(int n) {
    int size = STREAM_SIZES - 1;
    while ((1 << size) > n) {
        size--;
    }
    return size;
}

/* Frames first .. first + T-1 through their graph. */
static enum qt_status run_piece(const struct codec * codec, struct codec_stream * s, const struct runner * runner, const struct codec_codes * codes, int first,
                                struct codec_graph * g, int T) {
    QT_TRY(arena_place(&g->arena));
    make_place(codec, s, T);
    codec_graph_set_codes(g, codes, first);
    set_positions(codec, s, g, T);
    QT_TRY(arena_run(&g->arena, runner));
    s->n_past += T;
    return QT_STATUS_OK;
}

enum qt_status codec_stream_push(const struct codec * codec, struct codec_stream * s, const struct runner * runner, const struct codec_codes * codes, int first,
                                 float * samples) {
    int n = codes->n_frames - first, hop = codec->sizes.hop_samples;
    for (int size = 0; size < STREAM_SIZES; size++) { /* all graphs before any runs: a push without memory changes nothing */
        if (size == STREAM_SIZES - 1 ? n >= STREAM_PIECE_MAX : n >> size & 1) {
            QT_TRY(ensure(codec, s, runner, &s->graphs[size], (int64_t) 1 << size));
        }
    }
    s->broken = true;
    for (int T; first < codes->n_frames; first += T) {
        int size = size_for(codes->n_frames - first);
        const struct ggml_tensor * audio = s->graphs[size].audio;
        T = 1 << size;
        QT_TRY(run_piece(codec, s, runner, codes, first, &s->graphs[size], T));
        if (samples) {
            ggml_backend_tensor_get(audio, samples + (size_t) first * (size_t) hop, 0, ggml_nbytes(audio));
        }
    }
    s->broken = false;
    return QT_STATUS_OK;
}

/* Floats of a snapshot: the carry, then keys and values of the frames that are still seen. */
static int64_t state_size(const struct codec * codec, const struct codec_stream * s) {
    int64_t n = kv_cache_size(&s->cache, n_kept(codec, s));
    for (struct ggml_tensor * t = ggml_get_first_tensor(s->carry.tensors); t; t = ggml_get_next_tensor(s->carry.tensors, t)) {
        n += ggml_nelements(t);
    }
    return n;
}

static void save(const struct codec * codec, const struct codec_stream * s, float * state) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(s->carry.tensors); t; t = ggml_get_next_tensor(s->carry.tensors, t)) {
        ggml_backend_tensor_get(t, state, 0, ggml_nbytes(t));
        state += ggml_nelements(t);
    }
    int kept = n_kept(codec, s);
    kv_cache_get(&s->cache, s->n_past - kept - s->first_frame, kept, state);
}

/* state is of a stream that had taken n_past frames; the stream is reset. */
static void restore(const struct codec * codec, struct codec_stream * s, int n_past, const float * state) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(s->carry.tensors); t; t = ggml_get_next_tensor(s->carry.tensors, t)) {
        ggml_backend_tensor_set(t, state, 0, ggml_nbytes(t));
        state += ggml_nelements(t);
    }
    s->n_past = n_past;
    int kept = n_kept(codec, s);
    s->first_frame = (n_past - kept) / STREAM_ALIGN * STREAM_ALIGN;
    kv_cache_set(&s->cache, n_past - kept - s->first_frame, kept, state);
}

enum qt_status codec_stream_prime(const struct codec * codec, struct codec_stream * s, const struct runner * runner, struct codec_snapshots * snapshots,
                                  const struct codec_codes * codes, bool * reused) {
    int64_t n_codes = (int64_t) codes->n_frames * codec->sizes.n_quantizers;
    QT_TRY(ensure(codec, s, runner, &s->graphs[0], 1));
    codec_stream_reset(s);
    const float * state = codec_snapshots_find(snapshots, codes->values, n_codes);
    *reused = state != NULL;
    if (state) {
        restore(codec, s, codes->n_frames, state);
        return QT_STATUS_OK;
    }
    int64_t n_silent = codes->n_frames - codec_memory_frames(codec);
    n_silent = n_silent > 0 ? n_silent / STREAM_PIECE_MAX * STREAM_PIECE_MAX : 0;
    QT_TRY(n_silent > 0 ? ensure(codec, s, runner, &s->silent, STREAM_PIECE_MAX) : QT_STATUS_OK);
    s->broken = n_silent > 0;
    for (int first = 0; first < n_silent; first += STREAM_PIECE_MAX) {
        QT_TRY(run_piece(codec, s, runner, codes, first, &s->silent, STREAM_PIECE_MAX));
    }
    QT_TRY(codec_stream_push(codec, s, runner, codes, (int) n_silent, NULL));
    float * room = codec_snapshots_add(snapshots, codes->values, n_codes, state_size(codec, s));
    if (room) {
        save(codec, s, room);
    } else {
        log_write(QT_LOG_WARN, "no memory to keep the state of a reference of %d frames: it will be decoded again", codes->n_frames);
    }
    return QT_STATUS_OK;
}
