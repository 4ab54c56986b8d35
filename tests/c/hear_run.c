/* hear_run.c - hearing through the public interface, from C: a clip to codes and a speaker embedding, both at once for a voice, refusals, a cancel.
 * Run under sanitizers it shows that nothing leaks and nothing is read out of bounds; as a plain test it shows that a second session hears the
 * same and that a refused call leaves its arguments alone. Usage: hear_run BASE_TALKER.gguf CODEC.gguf; exit code = failures. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qwentts.h"

enum { SAMPLES = 150001 }; /* longer than a chunk of the encoder, no whole number of frames */

static int failures;

static void check(bool holds, const char * what) {
    if (!holds) {
        failures++;
        printf("FAIL %s (%s)\n", what, qt_last_error());
    }
}

struct heard {
    int32_t * codes; /* [groups, n_frames] */
    float * embedding;
    int n_frames;
};

static struct heard hear(struct qt_context * ctx, const struct qt_facts * f, const float * samples, int n) {
    struct heard h = { 0 };
    struct qt_session * session = NULL;
    int capacity = n / f->hop_samples + 1;
    h.codes = calloc((size_t) capacity * (size_t) f->n_code_groups, sizeof *h.codes);
    h.embedding = calloc((size_t) f->speaker_size + 1, sizeof *h.embedding);
    check(h.codes && h.embedding && qt_session_new(ctx, &session) == QT_STATUS_OK, "session");
    check(qt_codec_encode(session, samples, n, h.codes, capacity, &h.n_frames) == QT_STATUS_OK, "encode");
    check(h.n_frames == (n + f->hop_samples - 1) / f->hop_samples, "number of frames");
    check(qt_speaker_embed(session, samples, n, h.embedding) == QT_STATUS_OK, "embed");
    qt_session_free(session);
    return h;
}

static void heard_free(struct heard * h) {
    free(h->codes);
    free(h->embedding);
}

static void twice_the_same(struct qt_context * ctx, const struct qt_facts * f, const float * samples) {
    struct heard a = hear(ctx, f, samples, SAMPLES), b = hear(ctx, f, samples, SAMPLES);
    size_t n = (size_t) a.n_frames * (size_t) f->n_code_groups;
    int distinct = 0;
    for (size_t i = 0; i < n; i++) {
        check(a.codes[i] >= 0 && a.codes[i] < f->codebook_size, "code in the codebook");
        distinct += a.codes[i] != a.codes[0];
    }
    check(distinct > 0, "codes move");
    check(memcmp(a.codes, b.codes, n * sizeof *a.codes) == 0, "the same codes again");
    check(memcmp(a.embedding, b.embedding, (size_t) f->speaker_size * sizeof *a.embedding) == 0, "the same embedding again");
    heard_free(&a);
    heard_free(&b);
}

static void voice_of_whole_frames(struct qt_context * ctx, const struct qt_facts * f, const float * samples) {
    struct qt_voice_ref voice;
    int whole = SAMPLES / f->hop_samples * f->hop_samples;
    struct heard h = hear(ctx, f, samples, whole);
    check(qt_extract_voice_ref(ctx, samples, SAMPLES, &voice) == QT_STATUS_OK, "extract");
    check(voice.ref_T == h.n_frames && voice.num_codebooks == f->n_code_groups && voice.ref_spk_dim == f->speaker_size, "sizes of a voice");
    check(memcmp(voice.ref_codes, h.codes, (size_t) voice.ref_T * (size_t) voice.num_codebooks * sizeof *h.codes) == 0, "codes of a voice");
    check(memcmp(voice.ref_spk_emb, h.embedding, (size_t) voice.ref_spk_dim * sizeof *h.embedding) == 0, "embedding of a voice");
    qt_voice_ref_free(&voice);
    check(!voice.ref_codes && !voice.ref_spk_emb && voice.ref_T == 0, "a freed voice is zero");
    qt_voice_ref_free(&voice);
    qt_voice_ref_free(NULL);
    heard_free(&h);
}

static void refusals(struct qt_context * ctx, const struct qt_facts * f, float * samples) {
    struct qt_session * s = NULL;
    struct qt_voice_ref voice;
    int32_t codes[4096];
    float embedding[1024];
    int n = 5;
    check(qt_session_new(ctx, &s) == QT_STATUS_OK, "session");
    check(qt_codec_encode(NULL, samples, 100, codes, 100, &n) == QT_STATUS_INVALID_PARAMS && n == 0, "no session");
    check(qt_codec_encode(s, NULL, 100, codes, 100, &n) == QT_STATUS_INVALID_PARAMS, "no samples");
    check(qt_codec_encode(s, samples, 100, NULL, 100, &n) == QT_STATUS_INVALID_PARAMS, "no codes");
    check(qt_codec_encode(s, samples, 100, codes, 100, NULL) == QT_STATUS_INVALID_PARAMS, "no n_frames");
    check(qt_codec_encode(s, samples, -1, codes, 100, &n) == QT_STATUS_INVALID_PARAMS, "fewer samples than none");
    check(qt_codec_encode(s, samples, f->hop_samples + 1, codes, 1, &n) == QT_STATUS_INVALID_PARAMS && n == 0, "no room");
    check(qt_codec_encode(s, samples, INT32_MAX, codes, INT32_MAX, &n) == QT_STATUS_INVALID_PARAMS, "an endless clip"); /* its length is looked at first */
    check(qt_speaker_embed(s, samples, 10, embedding) == QT_STATUS_INVALID_PARAMS, "too short a clip");
    check(qt_speaker_embed(s, samples, 5000, NULL) == QT_STATUS_INVALID_PARAMS, "no embedding");
    samples[7] = NAN;
    check(qt_codec_encode(s, samples, 100, codes, 100, &n) == QT_STATUS_INVALID_PARAMS && strstr(qt_last_error(), "samples[7]"), "NaN in the clip");
    check(qt_extract_voice_ref(ctx, samples, SAMPLES, &voice) == QT_STATUS_INVALID_PARAMS && !voice.ref_codes, "NaN in a reference");
    samples[7] = 0;
    check(qt_extract_voice_ref(ctx, samples, f->hop_samples - 1, &voice) == QT_STATUS_INVALID_PARAMS, "less than a frame");
    check(qt_extract_voice_ref(ctx, samples, SAMPLES, NULL) == QT_STATUS_INVALID_PARAMS, "nowhere to put the voice");
    check(qt_extract_voice_ref(NULL, samples, SAMPLES, &voice) == QT_STATUS_INVALID_PARAMS, "no context");
    qt_session_cancel(s);
    check(qt_codec_encode(s, samples, 100, codes, 100, &n) == QT_STATUS_CANCELLED, "cancelled");
    check(qt_session_reset(s) == QT_STATUS_OK && qt_codec_encode(s, samples, 100, codes, 100, &n) == QT_STATUS_OK && n == 1, "reset");
    qt_session_free(s);
}

int main(int argc, char ** argv) {
    if (argc != 3) {
        printf("usage: hear_run BASE_TALKER.gguf CODEC.gguf\n");
        return 2;
    }
    struct qt_init_params params;
    qt_init_default_params(&params);
    params.talker_path = argv[1];
    params.codec_path = argv[2];
    params.n_threads = 2;
    struct qt_context * ctx = qt_init(&params);
    struct qt_facts facts;
    float * samples = malloc(SAMPLES * sizeof *samples);
    check(ctx && samples && qt_facts_get(ctx, &facts, sizeof facts) == QT_STATUS_OK, "init");
    if (!failures) {
        uint32_t state = 1;
        for (int i = 0; i < SAMPLES; i++) {
            state = state * 1664525u + 1013904223u;
            samples[i] = (float) (0.3 * sin(1e-7 * i * (i % 40000))) + (float) (state >> 8) * 0x1p-28f;
        }
        refusals(ctx, &facts, samples);
        twice_the_same(ctx, &facts, samples);
        voice_of_whole_frames(ctx, &facts, samples);
    }
    free(samples);
    qt_free(ctx);
    printf("%d failures\n", failures);
    return failures > 125 ? 125 : failures;
}
