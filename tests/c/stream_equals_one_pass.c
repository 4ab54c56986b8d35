/* stream_equals_one_pass.c - the codec's stream against the one-pass decode, through the public interface.
 * With fused attention every split of the frames must give the one pass bit for bit, without it within NMSE 1e-12. Also: a reset, cancelled, primed or
 * restored stream is a fresh one, two sessions on one context do not meet, more references than snapshot slots, chunked decode, refusals.
 * Usage: stream_equals_one_pass CODEC.gguf [time]; exit code = failures. "time" prints milliseconds a push instead, for a full-size codec. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "qwentts.h"

enum { FRAMES = 211 }; /* over a move of the keys with a window of 72 frames, several with fewer, and no multiple of a piece */

static int failures;

static void check(bool holds, const char * what, const char * detail) {
    if (!holds) {
        failures++;
        printf("FAIL %s %s (%s)\n", what, detail, qt_last_error());
    }
}

struct fixture {
    struct qt_context * ctx;
    struct qt_session * session;
    struct qt_facts facts;
    int32_t * codes; /* [n_code_groups, FRAMES] */
    int32_t * piece; /* [n_code_groups, up to FRAMES] */
    float * whole;   /* [FRAMES * hop], one pass */
    float * samples; /* the same from a stream */
    bool fused;
};

static uint32_t random_state = 12345;

static uint32_t next_random(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

static struct qt_context * load(const char * path, bool fused, int n_threads, float chunk_s) {
    struct qt_init_params params;
    qt_init_default_params(&params);
    params.codec_path = path;
    params.use_fa = fused;
    params.n_threads = n_threads;
    params.codec_chunk_sec = chunk_s;
    return qt_init(&params);
}

static size_t n_samples(const struct fixture * f, int n_frames) { return (size_t) n_frames * (size_t) f->facts.hop_samples; }

static const int32_t * frames(struct fixture * f, int first, int n) {
    for (int q = 0; q < f->facts.n_code_groups; q++) {
        memcpy(f->piece + (size_t) q * (size_t) n, f->codes + (size_t) q * FRAMES + first, sizeof(int32_t) * (size_t) n);
    }
    return f->piece;
}

static enum qt_status push(struct fixture * f, struct qt_session * session, int first, int n) {
    return qt_stream_push(session, frames(f, first, n), n, f->samples + n_samples(f, first));
}

static bool fixture_init(struct fixture * f, const char * path, bool fused, int n_threads) {
    *f = (struct fixture) { .ctx = load(path, fused, n_threads, 1e6f), .fused = fused };
    if (!f->ctx || qt_session_new(f->ctx, &f->session) != QT_STATUS_OK || qt_facts_get(f->ctx, &f->facts, sizeof f->facts) != QT_STATUS_OK) {
        return false;
    }
    size_t n_codes = (size_t) f->facts.n_code_groups * FRAMES;
    f->codes = malloc(sizeof(int32_t) * n_codes);
    f->piece = malloc(sizeof(int32_t) * n_codes);
    f->samples = calloc(n_samples(f, FRAMES), sizeof(float));
    random_state = 12345;
    for (size_t i = 0; f->codes && i < n_codes; i++) f->codes[i] = (int32_t) (next_random() % (uint32_t) f->facts.codebook_size);
    struct qt_audio audio;
    check(qt_codec_decode(f->session, f->codes, FRAMES, &audio) == QT_STATUS_OK, "one pass", "");
    f->whole = audio.samples;
    return f->codes && f->piece && f->samples && f->whole;
}

static void fixture_free(struct fixture * f) {
    struct qt_audio audio = { .samples = f->whole };
    qt_audio_free(&audio);
    free(f->codes);
    free(f->piece);
    free(f->samples);
    qt_session_free(f->session);
    qt_free(f->ctx);
}

static double nmse(const float * got, const float * want, size_t n) {
    double error = 0, power = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double) got[i] - want[i];
        error += d * d;
        power += (double) want[i] * want[i];
    }
    return error / power;
}

/* samples of frames first .. end-1 are those of the one pass. */
static void check_equal(const struct fixture * f, int first, int end, const char * what, const char * detail) {
    const float * got = f->samples + n_samples(f, first), * want = f->whole + n_samples(f, first);
    size_t n = n_samples(f, end - first);
    bool equal = f->fused ? memcmp(got, want, n * sizeof *got) == 0 : nmse(got, want, n) <= 1e-12;
    if (!equal) printf("NMSE %.3g: ", nmse(got, want, n));
    check(equal, what, detail);
}

static void forget_samples(struct fixture * f) { memset(f->samples, 0xff, n_samples(f, FRAMES) * sizeof *f->samples); }

/* Pushes of size frames each, 0: random sizes. */
static void split(struct fixture * f, int size) {
    char detail[32];
    snprintf(detail, sizeof detail, "pushes of %d", size);
    check(qt_stream_reset(f->session) == QT_STATUS_OK, "reset", "");
    forget_samples(f);
    for (int first = 0, n; first < FRAMES; first += n) {
        n = size ? size : 1 + (int) (next_random() % 40);
        n = n < FRAMES - first ? n : FRAMES - first;
        check(push(f, f->session, first, n) == QT_STATUS_OK, "push", detail);
    }
    check_equal(f, 0, FRAMES, "a stream equals one pass:", detail);
}

static void cancelled(struct fixture * f) {
    qt_stream_reset(f->session);
    check(push(f, f->session, 0, 5) == QT_STATUS_OK, "push", "before cancel");
    qt_session_cancel(f->session);
    check(push(f, f->session, 5, 30) == QT_STATUS_CANCELLED, "a cancelled session", "pushes nothing");
    check(qt_session_reset(f->session) == QT_STATUS_OK, "session reset", "");
    forget_samples(f);
    check(push(f, f->session, 0, 40) == QT_STATUS_OK, "push", "after session reset");
    check_equal(f, 0, 40, "a stream equals one pass:", "after cancel and session reset");
}

static struct qt_session * to_cancel;

static void cancel_at_upsample(const char * name, const float * data, const int64_t * ne, void * user_data) {
    (void) data, (void) ne, (void) user_data;
    if (strncmp(name, "codec.upsample", 14) == 0) qt_session_cancel(to_cancel);
}

/* A tap cancels while a push of several pieces is computed: the first piece is done, the second is not. */
static void cancelled_inside(struct fixture * f) {
    qt_session_reset(f->session);
    to_cancel = f->session;
    check(qt_session_set_tap(f->session, cancel_at_upsample, NULL) == QT_STATUS_OK, "tap", "");
    check(push(f, f->session, 0, 30) == QT_STATUS_CANCELLED, "cancel", "inside a push");
    check(qt_session_set_tap(f->session, NULL, NULL) == QT_STATUS_OK, "no tap", "");
    check(qt_stream_reset(f->session) == QT_STATUS_OK, "stream reset", "");
    check(push(f, f->session, 0, 1) == QT_STATUS_CANCELLED, "a cancel holds", "until the session's reset");
    check(qt_session_reset(f->session) == QT_STATUS_OK, "session reset", "");
    forget_samples(f);
    check(push(f, f->session, 0, 30) == QT_STATUS_OK, "push", "after cancel inside");
    check_equal(f, 0, 30, "a stream equals one pass:", "after cancel inside a push");
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double) t.tv_sec + 1e-6 * (double) t.tv_nsec;
}

static atomic_bool canceller_runs, push_begins; /* starting a thread may take longer than a push */

static void * cancel_later(void * wait_ms) {
    atomic_store(&canceller_runs, true);
    while (!atomic_load(&push_begins)) {
    }
    for (double end = now_ms() + *(double *) wait_ms; now_ms() < end;) {
    }
    qt_session_cancel(to_cancel);
    return NULL;
}

/* Another thread cancels at many moments of a push of one graph: the state may be half of the new frames', and must not outlive a reset. */
static void cancelled_at_any_moment(struct fixture * f) {
    enum { TRIES = 40, TRIES_MOST = 50 * TRIES }; /* on a busy machine a canceller may lose its core for longer than a push of a tiny model */
    qt_session_reset(f->session);
    to_cancel = f->session;
    double start = now_ms();
    check(push(f, f->session, 0, 8) == QT_STATUS_OK, "push", "undisturbed");
    double push_ms = now_ms() - start;
    int n_cancelled = 0;
    for (int i = 0; i < TRIES || (n_cancelled == 0 && i < TRIES_MOST); i++) {
        double wait_ms = push_ms * (i % TRIES) / TRIES;
        pthread_t thread;
        qt_session_reset(f->session);
        atomic_store(&canceller_runs, false);
        atomic_store(&push_begins, false);
        if (pthread_create(&thread, NULL, cancel_later, &wait_ms) != 0) {
            check(false, "a thread", "");
            return;
        }
        while (!atomic_load(&canceller_runs)) {
        }
        atomic_store(&push_begins, true);
        enum qt_status status = push(f, f->session, 0, 8);
        pthread_join(thread, NULL);
        check(status == QT_STATUS_OK || status == QT_STATUS_CANCELLED, "a cancelled push", "ends as one or the other");
        n_cancelled += status == QT_STATUS_CANCELLED;
        qt_session_reset(f->session);
        forget_samples(f);
        check(push(f, f->session, 0, 8) == QT_STATUS_OK, "push", "after cancel at any moment");
        check_equal(f, 0, 8, "a stream equals one pass:", "after cancel at any moment");
    }
    check(n_cancelled > 0, "some pushes", "were cancelled");
}

/* Prime with the first n frames, then push the rest up to end. */
static void primed(struct fixture * f, struct qt_session * session, int n, int end, bool want_reused, const char * what) {
    bool reused = !want_reused;
    check(qt_stream_prime(session, frames(f, 0, n), n, &reused) == QT_STATUS_OK, "prime", what);
    check(reused == want_reused, want_reused ? "the snapshot is used:" : "no snapshot is used:", what);
    forget_samples(f);
    for (int first = n, size = 1; first < end; first += size, size = size % 3 + 1) {
        size = size < end - first ? size : end - first;
        check(push(f, session, first, size) == QT_STATUS_OK, "push", what);
    }
    check_equal(f, n, end, "a primed stream equals one pass:", what);
}

static void snapshots(struct fixture * f) {
    struct qt_session * other = NULL;
    check(qt_session_new(f->ctx, &other) == QT_STATUS_OK, "second session", "");
    primed(f, f->session, 150, 200, false, "150 frames");
    primed(f, f->session, 150, 200, true, "150 frames again");
    primed(f, other, 150, 200, true, "150 frames in a new session");
    for (int n = 12; n < 44; n += 5) primed(f, other, n, n + 20, false, "frames that convolutions remember, and more");
    primed(f, other, 3, 30, false, "3 frames");
    primed(f, f->session, 3, 30, true, "3 frames again");
    for (int n = 4; n < 12; n++) primed(f, other, n, 20, false, "many references"); /* eight slots: 150 and 3 are gone */
    primed(f, f->session, 4, 30, true, "a reference still held");
    primed(f, f->session, 3, 30, false, "a reference pushed out");
    bool reused;
    int32_t * changed = f->piece;
    primed(f, f->session, 10, 20, true, "before one code differs");
    frames(f, 0, 10);
    changed[7] = (changed[7] + 1) % f->facts.codebook_size;
    check(qt_stream_prime(f->session, changed, 10, &reused) == QT_STATUS_OK && !reused, "one code differs:", "another reference");
    check(qt_stream_prime(f->session, frames(f, 0, 10), 10, NULL) == QT_STATUS_OK, "reused may be NULL", "");
    qt_session_free(other);
}

static void interleaved(struct fixture * f) {
    struct qt_session * other = NULL;
    check(qt_session_new(f->ctx, &other) == QT_STATUS_OK, "second session", "");
    float * first = f->samples, * second = calloc(n_samples(f, FRAMES), sizeof(float));
    qt_stream_reset(f->session);
    for (int i = 0; second && i < 60; i += 3) {
        f->samples = first;
        check(push(f, f->session, i, 3) == QT_STATUS_OK, "push", "first of two");
        f->samples = second;
        for (int j = 0; j < 3; j++) check(push(f, other, i + j, 1) == QT_STATUS_OK, "push", "second of two");
    }
    check_equal(f, 0, 60, "interleaved sessions:", "second");
    f->samples = first;
    check_equal(f, 0, 60, "interleaved sessions:", "first");
    free(second);
    qt_session_free(other);
}

static void refusals(struct fixture * f) {
    check(qt_stream_push(NULL, f->codes, 1, f->samples) == QT_STATUS_INVALID_PARAMS, "refuse", "session NULL");
    check(qt_stream_push(f->session, NULL, 1, f->samples) == QT_STATUS_INVALID_PARAMS, "refuse", "codes NULL");
    check(qt_stream_push(f->session, f->codes, 1, NULL) == QT_STATUS_INVALID_PARAMS, "refuse", "samples NULL");
    check(qt_stream_push(f->session, f->codes, 0, f->samples) == QT_STATUS_INVALID_PARAMS, "refuse", "no frames");
    check(qt_stream_prime(f->session, f->codes, -1, NULL) == QT_STATUS_INVALID_PARAMS, "refuse", "negative frames");
    check(qt_stream_reset(NULL) == QT_STATUS_INVALID_PARAMS, "refuse", "reset of NULL");
    int32_t kept = f->codes[0];
    f->codes[0] = f->facts.codebook_size;
    check(qt_stream_push(f->session, f->codes, 1, f->samples) == QT_STATUS_INVALID_PARAMS, "refuse", "code too large");
    check(strstr(qt_last_error(), "codes[0][0]") != NULL, "the message names the code", "");
    f->codes[0] = kept;
}

/* Chunks of 60 frames with context: the first one is the one pass's beginning, the rest close to it. */
static void chunks(struct fixture * f, const char * path) {
    float frame_s = (float) f->facts.hop_samples / (float) f->facts.sample_rate;
    struct qt_context * ctx = load(path, f->fused, 2, 60 * frame_s);
    struct qt_session * session = NULL;
    struct qt_audio audio = { 0 };
    check(ctx && qt_session_new(ctx, &session) == QT_STATUS_OK, "load", "for chunks");
    check(qt_codec_decode(session, frames(f, 0, FRAMES), FRAMES, &audio) == QT_STATUS_OK, "decode", "in chunks");
    if (audio.samples) {
        check(audio.n_samples == (int) n_samples(f, FRAMES), "samples of all chunks", "");
        check(memcmp(audio.samples, f->whole, n_samples(f, 60) * sizeof(float)) == 0, "the first chunk", "is the one pass");
        double residual = nmse(audio.samples, f->whole, n_samples(f, FRAMES));
        printf("chunks of 60 frames: NMSE %.3g\n", residual);
        check(residual < 1e-4, "chunked decode", "is near the one pass");
        qt_audio_free(&audio);
    }
    check(qt_codec_decode(session, frames(f, 0, 60), 60, &audio) == QT_STATUS_OK, "decode", "in one chunk");
    check(audio.samples && memcmp(audio.samples, f->whole, n_samples(f, 60) * sizeof(float)) == 0, "a chunk that covers all", "is the one pass");
    qt_audio_free(&audio);
    qt_session_free(session);
    qt_free(ctx);
}

static void times(struct fixture * f) {
    for (int size = 1; size <= 32; size *= 2) {
        qt_stream_reset(f->session);
        push(f, f->session, 0, size); /* builds the graphs */
        double least = 1e9, sum = 0;
        int n = 0, first = size;
        for (; first + size <= FRAMES && n < 40; first += size, n++) {
            double start = now_ms();
            push(f, f->session, first, size);
            double ms = now_ms() - start;
            least = ms < least ? ms : least;
            sum += ms;
        }
        check_equal(f, 0, first, "timed pushes", "equal one pass");
        printf("push of %2d: least %.2f ms, mean %.2f ms, a frame %.2f ms\n", size, least, sum / n, least / size);
    }
    double start = now_ms();
    qt_stream_prime(f->session, frames(f, 0, 100), 100, NULL);
    double primed_ms = now_ms() - start;
    start = now_ms();
    qt_stream_prime(f->session, frames(f, 0, 100), 100, NULL);
    printf("prime 100 frames: %.2f ms, again %.2f ms\n", primed_ms, now_ms() - start);
    start = now_ms();
    struct qt_audio audio;
    if (qt_codec_decode(f->session, frames(f, 0, 100), 100, &audio) == QT_STATUS_OK) {
        printf("one pass of 100 frames: %.2f ms a frame\n", (now_ms() - start) / 100);
        qt_audio_free(&audio);
    }
}

int main(int argc, char ** argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: stream_equals_one_pass CODEC.gguf [time | quick]\n");
        return 2;
    }
    bool quick = argc > 2 && !strcmp(argv[2], "quick"); /* for an emulated processor: one split, on one thread */
    static const int sizes[] = { 1, 2, 7, 25, FRAMES, 0 };
    for (int run = 0; run < 3; run++) {
        struct fixture f;
        if (!fixture_init(&f, argv[1], run != 2, run == 1 || quick ? 1 : 2)) {
            printf("FAIL load: %s\n", qt_last_error());
            return 1;
        }
        if (quick) {
            split(&f, 7);
            fixture_free(&f);
            break;
        }
        if (argc > 2) {
            times(&f);
            fixture_free(&f);
            return failures;
        }
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i += run == 0 ? 1 : 2) split(&f, sizes[i]);
        cancelled(&f);
        cancelled_inside(&f);
        cancelled_at_any_moment(&f);
        snapshots(&f);
        interleaved(&f);
        refusals(&f);
        if (run == 0) chunks(&f, argv[1]);
        fixture_free(&f);
    }
    printf("stream_equals_one_pass: %d failures\n", failures);
    return failures;
}
