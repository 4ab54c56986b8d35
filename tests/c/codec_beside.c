/* codec_beside.c - pushes of the codec beside frames, each in a thread of its own, through the public interface: codes and samples are those of calls in turn.
 * Also with two sessions at once, with calls that need all threads in between, while the codec is given and taken threads, with a tap, after a cancel of
 * both sides; and what is refused. Under ThreadSanitizer it shows that the two sides share nothing unguarded.
 * Usage: codec_beside TALKER.gguf CODEC.gguf; exit code = failures. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "qwentts.h"

enum { FRAMES = 40, PUSH = 3, LONG = 1500, ENOUGH = 10, PROMPT = 9, THREADS = 3, MOST_GROUPS = 64 };

static atomic_int failures;

static void check(bool holds, const char * what, const char * detail) {
    if (!holds) {
        atomic_fetch_add(&failures, 1);
        printf("FAIL %s %s (%s)\n", what, detail, qt_last_error());
    }
}

static struct qt_facts facts;

struct speaker {
    struct qt_session * session;
    int seed;        /* of the prompt */
    int32_t * codes; /* [FRAMES, n_code_groups], as spoken */
    float * samples; /* [FRAMES * hop_samples], of the codes of known */
    const int32_t * known;
    enum qt_status spoken, decoded;
};

static size_t codes_bytes(void) { return sizeof(int32_t) * FRAMES * (size_t) facts.n_code_groups; }

static size_t samples_bytes(void) { return sizeof(float) * FRAMES * (size_t) facts.hop_samples; }

static bool speaker_init(struct speaker * s, struct qt_context * ctx, int seed) {
    *s = (struct speaker) { .seed = seed, .codes = malloc(codes_bytes()), .samples = malloc(samples_bytes()) };
    return qt_session_new(ctx, &s->session) == QT_STATUS_OK && s->codes && s->samples;
}

static void speaker_free(struct speaker * s) {
    qt_session_free(s->session);
    free(s->codes);
    free(s->samples);
}

static int32_t argmax(const float * x, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++) {
        if (x[i] > x[best]) best = i;
    }
    return best;
}

static enum qt_status prefill(struct speaker * s, float * rows, float * logits) {
    int32_t ids[PROMPT];
    for (int i = 0; i < PROMPT; i++) ids[i] = (i * 37 + s->seed) % facts.text_vocab_size;
    enum qt_status status = qt_text_embed(s->session, ids, PROMPT, rows);
    return status == QT_STATUS_OK ? qt_talker_prefill(s->session, rows, PROMPT, logits) : status;
}

static enum qt_status frames(struct speaker * s, const float * overlay, float * logits) {
    const struct qt_sampling greedy = { .greedy = true, .temperature = 1, .top_p = 1 };
    float ones[MOST_GROUPS];
    for (int g = 0; g < MOST_GROUPS; g++) ones[g] = 1;
    enum qt_status status = QT_STATUS_OK;
    for (int f = 0; f < FRAMES && status == QT_STATUS_OK; f++) {
        int32_t * codes = s->codes + (size_t) f * (size_t) facts.n_code_groups;
        status = qt_predictor_frame(s->session, argmax(logits, facts.codebook_size), ones, &greedy, codes);
        if (status == QT_STATUS_OK) status = qt_talker_step(s->session, codes, overlay, logits);
    }
    return status;
}

typedef enum qt_status (*push_fn)(struct qt_session *, const int32_t *, int, float *);

static enum qt_status pushes(struct speaker * s, push_fn push) {
    int groups = facts.n_code_groups;
    int32_t planes[MOST_GROUPS * PUSH]; /* [n_code_groups, n] */
    enum qt_status status = QT_STATUS_OK;
    for (int first = 0, n; first < FRAMES && status == QT_STATUS_OK; first += n) {
        n = PUSH < FRAMES - first ? PUSH : FRAMES - first;
        for (int g = 0; g < groups; g++) {
            for (int t = 0; t < n; t++) planes[g * n + t] = s->known[(size_t) (first + t) * (size_t) groups + g];
        }
        status = push(s->session, planes, n, s->samples + (size_t) first * (size_t) facts.hop_samples);
    }
    return status;
}

static void * decode(void * speaker) {
    struct speaker * s = speaker;
    s->decoded = pushes(s, qt_stream_push_beside);
    return NULL;
}

/* An utterance from the start, the codes of known decoded beside it; known NULL: first spoken, then decoded, all in turn. */
static void * speak(void * speaker) {
    struct speaker * s = speaker;
    float * rows = malloc(sizeof *rows * PROMPT * (size_t) facts.hidden_size);
    int32_t n_logits = facts.codec_vocab_size > facts.code_vocab_size ? facts.codec_vocab_size : facts.code_vocab_size;
    float * logits = malloc(sizeof *logits * (size_t) n_logits);
    const int32_t * known = s->known;
    pthread_t codec;
    memset(s->codes, 0xff, codes_bytes());
    memset(s->samples, 0xff, samples_bytes());
    qt_session_reset(s->session);
    s->spoken = prefill(s, rows, logits);
    bool beside = known && s->spoken == QT_STATUS_OK && pthread_create(&codec, NULL, decode, s) == 0;
    if (s->spoken == QT_STATUS_OK) s->spoken = frames(s, rows, logits);
    if (beside) {
        pthread_join(codec, NULL);
    } else {
        check(!known || s->spoken == QT_STATUS_CANCELLED, "a thread", "");
        s->known = s->codes;
        s->decoded = s->spoken == QT_STATUS_OK ? pushes(s, qt_stream_push) : s->spoken;
        s->known = known;
    }
    free(rows);
    free(logits);
    return NULL;
}

static void check_same(const struct speaker * got, const struct speaker * want, const char * what) {
    check(got->spoken == QT_STATUS_OK && got->decoded == QT_STATUS_OK, "spoken and decoded:", what);
    check(memcmp(got->codes, want->codes, codes_bytes()) == 0, "the codes are those of calls in turn:", what);
    check(memcmp(got->samples, want->samples, samples_bytes()) == 0, "the samples are those of calls in turn:", what);
}

static void * give_and_take(void * ctx) {
    for (int i = 0; i < 12; i++) check(qt_set_codec_threads(ctx, i % THREADS) == QT_STATUS_OK, "threads", "given and taken");
    return NULL;
}

static void at_once(struct qt_context * ctx, struct speaker * a, struct speaker * b, const struct speaker * want, bool moving, const char * what) {
    pthread_t other, mover;
    bool moves = moving && pthread_create(&mover, NULL, give_and_take, ctx) == 0;
    bool two = pthread_create(&other, NULL, speak, b) == 0;
    speak(a);
    if (two) pthread_join(other, NULL);
    if (moves) pthread_join(mover, NULL);
    check(two && moves == moving, "threads", what);
    check_same(a, &want[0], what);
    check_same(b, &want[1], what);
}

/* b decodes in one pass, again and again, which needs all threads, while a speaks. */
static void * decode_whole(void * speaker) {
    struct speaker * s = speaker;
    int32_t * planes = malloc(codes_bytes());
    for (int g = 0; g < facts.n_code_groups; g++) {
        for (int t = 0; t < FRAMES; t++) planes[g * FRAMES + t] = s->known[(size_t) t * (size_t) facts.n_code_groups + g];
    }
    for (int i = 0; i < 6; i++) {
        struct qt_audio audio;
        s->decoded = qt_codec_decode(s->session, planes, FRAMES, &audio);
        if (s->decoded != QT_STATUS_OK) break;
        memcpy(s->samples, audio.samples, samples_bytes());
        qt_audio_free(&audio);
    }
    free(planes);
    return NULL;
}

static void all_beside(struct speaker * a, struct speaker * b, const struct speaker * want) {
    pthread_t other;
    qt_session_reset(b->session);
    if (pthread_create(&other, NULL, decode_whole, b) != 0) {
        check(false, "a thread", "");
        return;
    }
    speak(a);
    pthread_join(other, NULL);
    check_same(a, &want[0], "beside calls that need all threads");
    check(b->decoded == QT_STATUS_OK && memcmp(b->samples, want[1].samples, samples_bytes()) == 0, "the one pass beside frames and pushes", "");
}

struct long_push {
    struct qt_session * session;
    int32_t * planes; /* [n_code_groups, LONG] */
    float * samples;
    enum qt_status status;
    atomic_bool begins, done;
};

static void * push_long(void * long_push) {
    struct long_push * p = long_push;
    atomic_store(&p->begins, true);
    p->status = qt_stream_push_beside(p->session, p->planes, LONG, p->samples);
    atomic_store(&p->done, true);
    return NULL;
}

/* Frames do not wait for a push: many are made while one runs. */
static void frames_go_on(struct speaker * a) {
    struct long_push p = { .session = a->session, .planes = malloc(sizeof(int32_t) * LONG * (size_t) facts.n_code_groups),
                           .samples = malloc(sizeof(float) * LONG * (size_t) facts.hop_samples) };
    int32_t n_logits = facts.codec_vocab_size > facts.code_vocab_size ? facts.codec_vocab_size : facts.code_vocab_size;
    float * rows = malloc(sizeof *rows * PROMPT * (size_t) facts.hidden_size), * logits = malloc(sizeof *logits * (size_t) n_logits);
    int n_groups = facts.n_code_groups, n_steps = 0;
    for (int g = 0; g < n_groups; g++) {
        for (int t = 0; t < LONG; t++) p.planes[g * LONG + t] = a->known[(size_t) (t % FRAMES) * (size_t) n_groups + (size_t) g];
    }
    qt_session_reset(a->session);
    check(prefill(a, rows, logits) == QT_STATUS_OK, "prefill", "");
    pthread_t codec;
    if (pthread_create(&codec, NULL, push_long, &p) == 0) {
        while (!atomic_load(&p.begins)) {
        }
        nanosleep(&(struct timespec) { .tv_nsec = 20000000 }, NULL); /* it has its turn */
        while (!atomic_load(&p.done) && n_steps < ENOUGH) {
            check(qt_talker_step(a->session, a->known, rows, logits) == QT_STATUS_OK, "a step", "beside a long push");
            n_steps += !atomic_load(&p.done);
        }
        pthread_join(codec, NULL);
    }
    check(p.status == QT_STATUS_OK && n_steps == ENOUGH, "frames go on", "beside a long push");
    free(p.planes);
    free(p.samples);
    free(rows);
    free(logits);
}

struct seen { atomic_int inside, talker, codec; bool met; };

static void tap(const char * name, const float * data, const int64_t * ne, void * user_data) {
    struct seen * seen = user_data;
    (void) data, (void) ne;
    seen->met = seen->met || atomic_fetch_add(&seen->inside, 1) > 0;
    atomic_fetch_add(strncmp(name, "codec.", 6) == 0 ? &seen->codec : &seen->talker, 1);
    atomic_fetch_sub(&seen->inside, 1);
}

static void tapped(struct speaker * a, const struct speaker * want) {
    struct seen seen = { 0 };
    check(qt_session_set_tap(a->session, tap, &seen) == QT_STATUS_OK, "tap", "");
    speak(a);
    check(qt_session_set_tap(a->session, NULL, NULL) == QT_STATUS_OK, "no tap", "");
    check_same(a, want, "with a tap");
    check(seen.talker > 0 && seen.codec > 0 && !seen.met, "a tap is told of both sides,", "one at a time");
    speak(a);
    check_same(a, want, "after a tap");
}

static void cancelled(struct speaker * a, const struct speaker * want) {
    pthread_t thread;
    int n_stopped = 0;
    for (int i = 0; i < 20; i++) {
        if (pthread_create(&thread, NULL, speak, a) != 0) {
            check(false, "a thread", "");
            return;
        }
        for (volatile int wait = 0; wait < i * 200000; wait++) {
        }
        qt_session_cancel(a->session);
        pthread_join(thread, NULL);
        check(a->spoken == QT_STATUS_OK || a->spoken == QT_STATUS_CANCELLED, "cancelled frames", "end as one or the other");
        check(a->decoded == QT_STATUS_OK || a->decoded == QT_STATUS_CANCELLED, "cancelled pushes", "end as one or the other");
        n_stopped += a->spoken == QT_STATUS_CANCELLED && a->decoded == QT_STATUS_CANCELLED;
    }
    check(n_stopped > 0, "a cancel", "stops both sides");
    speak(a);
    check_same(a, want, "after cancels");
}

static void refusals(struct qt_context * ctx, const struct speaker * a, const struct qt_init_params * params) {
    float sample;
    check(qt_set_codec_threads(NULL, 1) == QT_STATUS_INVALID_PARAMS, "refuse", "context NULL");
    check(qt_set_codec_threads(ctx, -1) == QT_STATUS_INVALID_PARAMS && strstr(qt_last_error(), "n_threads is -1"), "refuse", "threads below 0");
    check(qt_set_codec_threads(ctx, THREADS) == QT_STATUS_INVALID_PARAMS && strstr(qt_last_error(), "0 to 2"), "refuse", "all threads for the codec");
    check(qt_stream_push_beside(NULL, a->known, 1, &sample) == QT_STATUS_INVALID_PARAMS, "refuse", "session NULL");
    check(qt_stream_push_beside(a->session, NULL, 1, &sample) == QT_STATUS_INVALID_PARAMS, "refuse", "codes NULL");
    check(qt_stream_push_beside(a->session, a->known, 1, NULL) == QT_STATUS_INVALID_PARAMS, "refuse", "samples NULL");
    check(qt_stream_push_beside(a->session, a->known, 0, &sample) == QT_STATUS_INVALID_PARAMS, "refuse", "no frames");
    struct qt_init_params talker_only = *params;
    talker_only.codec_path = NULL;
    struct qt_context * other = qt_init(&talker_only);
    check(other && qt_set_codec_threads(other, 0) == QT_STATUS_OK && qt_set_codec_threads(other, 1) == QT_STATUS_MODE_INVALID, "refuse", "without a codec");
    qt_free(other);
}

int main(int argc, char ** argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: codec_beside TALKER.gguf CODEC.gguf\n");
        return 2;
    }
    struct qt_init_params params;
    check(qt_init_default_params(&params) == QT_STATUS_OK, "default params", "");
    params.talker_path = argv[1];
    params.codec_path = argv[2];
    params.n_threads = THREADS;
    struct qt_context * ctx = qt_init(&params);
    struct speaker want[2], got[2];
    if (!ctx || qt_facts_get(ctx, &facts, sizeof facts) != QT_STATUS_OK || facts.n_code_groups > MOST_GROUPS) {
        printf("FAIL load: %s\n", qt_last_error());
        return 1;
    }
    bool ready = true;
    for (int i = 0; i < 2; i++) {
        ready = speaker_init(&want[i], ctx, 5 + i) && speaker_init(&got[i], ctx, 5 + i) && ready;
        if (ready) speak(&want[i]);
        got[i].known = want[i].codes;
    }
    check(ready, "sessions", "");
    if (ready) {
        check(want[0].decoded == QT_STATUS_OK && memcmp(want[0].codes, want[1].codes, codes_bytes()) != 0, "two prompts say two things", "");
        speak(&got[0]);
        check_same(&got[0], &want[0], "no threads of the codec's own");
        for (int n = 1; n < THREADS; n++) {
            char what[32];
            snprintf(what, sizeof what, "%d + %d threads", THREADS - n, n);
            check(qt_set_codec_threads(ctx, n) == QT_STATUS_OK, "threads", what);
            speak(&got[0]);
            check_same(&got[0], &want[0], what);
        }
        at_once(ctx, &got[0], &got[1], want, false, "two sessions");
        at_once(ctx, &got[0], &got[1], want, true, "two sessions while threads are given and taken");
        check(qt_set_codec_threads(ctx, 1) == QT_STATUS_OK, "threads", "1");
        all_beside(&got[0], &got[1], want);
        frames_go_on(&got[0]);
        tapped(&got[0], &want[0]);
        cancelled(&got[0], &want[0]);
        refusals(ctx, &got[0], &params);
    }
    for (int i = 0; i < 2; i++) {
        speaker_free(&want[i]);
        speaker_free(&got[i]);
    }
    qt_free(ctx);
    int n = atomic_load(&failures);
    printf("codec_beside: %d failures\n", n);
    return n;
}
