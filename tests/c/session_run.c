/* session_run.c - a whole utterance through the public interface, from C, without Python: load, prompt rows, frames, audio, free.
 * Run under sanitizers it shows that nothing leaks and nothing is read out of bounds; as a plain test it shows that a reset session, a fresh one and
 * two interleaved ones say the same codes, and that a cancelled one stops. Usage: session_run TALKER.gguf CODEC.gguf; exit code = failures. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qwentts.h"

enum { FRAMES = 12, PROMPT = 9 };

static int failures;

static void check(bool holds, const char * what) {
    if (!holds) {
        failures++;
        printf("FAIL %s (%s)\n", what, qt_last_error());
    }
}

static int32_t argmax(const float * x, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++) {
        if (x[i] > x[best]) best = i;
    }
    return best;
}

struct speaker {
    struct qt_session * session;
    const struct qt_facts * facts;
    float * logits;  /* [max(codec_vocab_size, code_vocab_size)] */
    float * overlay; /* [hidden_size] */
    int32_t * codes; /* [FRAMES, n_code_groups] */
    int n_frames;
};

static void speaker_prompt(struct speaker * s) {
    int32_t ids[PROMPT];
    for (int i = 0; i < PROMPT; i++) ids[i] = (i * 37 + 5) % s->facts->text_vocab_size;
    float * rows = malloc(sizeof *rows * PROMPT * (size_t) s->facts->hidden_size);
    check(rows && qt_text_embed(s->session, ids, PROMPT, rows) == QT_STATUS_OK, "text rows");
    check(qt_talker_prefill(s->session, rows, PROMPT, s->logits) == QT_STATUS_OK, "prefill");
    memcpy(s->overlay, rows, sizeof *rows * (size_t) s->facts->hidden_size);
    free(rows);
    s->n_frames = 0;
}

static void speaker_frame(struct speaker * s) {
    int groups = s->facts->n_code_groups;
    int32_t * codes = s->codes + (size_t) s->n_frames++ * groups;
    const struct qt_sampling greedy = { .greedy = true, .temperature = 1, .top_p = 1 };
    int32_t whole[64];
    float ones[64];
    for (int g = 0; g < 64; g++) ones[g] = 1;
    codes[0] = argmax(s->logits, s->facts->codebook_size); /* special ids are not for the codec */
    check(groups <= 64 && qt_predictor_frame(s->session, codes[0], ones, &greedy, whole) == QT_STATUS_OK, "predictor frame");
    check(qt_predictor_begin(s->session, codes[0], s->logits) == QT_STATUS_OK, "predictor begin");
    for (int g = 1; g < groups; g++) {
        codes[g] = argmax(s->logits, s->facts->code_vocab_size);
        if (g + 1 < groups) check(qt_predictor_step(s->session, codes[g], s->logits) == QT_STATUS_OK, "predictor step");
    }
    check(memcmp(whole, codes, sizeof *codes * (size_t) groups) == 0, "a whole frame says the codes of its steps");
    check(qt_talker_step(s->session, codes, s->overlay, s->logits) == QT_STATUS_OK, "talker step");
}

static bool speaker_init(struct speaker * s, struct qt_context * ctx, const struct qt_facts * facts) {
    int32_t n_logits = facts->codec_vocab_size > facts->code_vocab_size ? facts->codec_vocab_size : facts->code_vocab_size;
    s->facts = facts;
    s->logits = malloc(sizeof *s->logits * (size_t) n_logits);
    s->overlay = malloc(sizeof *s->overlay * (size_t) facts->hidden_size);
    s->codes = malloc(sizeof *s->codes * FRAMES * (size_t) facts->n_code_groups);
    s->n_frames = 0;
    s->session = NULL;
    return qt_session_new(ctx, &s->session) == QT_STATUS_OK && s->logits && s->overlay && s->codes;
}

static void speaker_free(struct speaker * s) {
    qt_session_free(s->session);
    free(s->logits);
    free(s->overlay);
    free(s->codes);
}

static void decode(struct speaker * s, struct qt_audio * audio) {
    int groups = s->facts->n_code_groups;
    int32_t * by_group = malloc(sizeof *by_group * FRAMES * (size_t) groups); /* [n_code_groups, FRAMES] */
    for (int f = 0; f < FRAMES; f++) {
        for (int g = 0; g < groups; g++) by_group[g * FRAMES + f] = s->codes[f * groups + g];
    }
    check(qt_codec_decode(s->session, by_group, FRAMES, audio) == QT_STATUS_OK, "decode");
    free(by_group);
}

int main(int argc, char ** argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: session_run TALKER.gguf CODEC.gguf\n");
        return 2;
    }
    struct qt_init_params params;
    check(qt_init_default_params(&params) == QT_STATUS_OK, "default params");
    params.talker_path = argv[1];
    params.codec_path = argv[2];
    params.n_threads = 2;
    struct qt_context * ctx = qt_init(&params);
    struct qt_facts facts;
    if (!ctx || qt_facts_get(ctx, &facts, sizeof facts) != QT_STATUS_OK) {
        printf("FAIL load: %s\n", qt_last_error());
        return 1;
    }

    struct speaker first, second;
    bool ready = speaker_init(&first, ctx, &facts);
    ready = speaker_init(&second, ctx, &facts) && ready;
    check(ready, "sessions");
    if (ready) {
        speaker_prompt(&first);
        speaker_prompt(&second);
        for (int f = 0; f < FRAMES; f++) {
            speaker_frame(&first);
            speaker_frame(&second);
        }
        size_t codes_bytes = sizeof *first.codes * FRAMES * (size_t) facts.n_code_groups;
        check(memcmp(first.codes, second.codes, codes_bytes) == 0, "interleaved sessions say the same codes");

        struct qt_audio audio = { 0 }, again = { 0 };
        decode(&first, &audio);
        check(audio.n_samples == FRAMES * facts.hop_samples && audio.sample_rate == facts.sample_rate && audio.channels == 1, "audio size");
        double energy = 0;
        bool in_range = true;
        for (int i = 0; i < audio.n_samples; i++) {
            energy += (double) audio.samples[i] * audio.samples[i];
            in_range = in_range && fabsf(audio.samples[i]) <= 1.0f;
        }
        check(in_range && energy > 0, "audio is finite, in range and not silent");

        check(qt_session_reset(second.session) == QT_STATUS_OK, "reset");
        memset(second.codes, 0xff, codes_bytes);
        speaker_prompt(&second);
        for (int f = 0; f < FRAMES; f++) speaker_frame(&second);
        check(memcmp(first.codes, second.codes, codes_bytes) == 0, "a reset session says the same codes");
        decode(&second, &again);
        check(again.n_samples == audio.n_samples && memcmp(again.samples, audio.samples, sizeof(float) * (size_t) audio.n_samples) == 0, "same audio");

        qt_session_cancel(first.session);
        check(qt_predictor_begin(first.session, 0, first.logits) == QT_STATUS_CANCELLED, "a cancelled session stops");
        check(qt_session_reset(first.session) == QT_STATUS_OK, "reset after cancel");
        speaker_prompt(&first);
        qt_audio_free(&audio);
        qt_audio_free(&again);
        check(audio.samples == NULL && audio.n_samples == 0, "free zeroes the struct");
    }
    speaker_free(&first);
    speaker_free(&second);
    qt_free(ctx);
    printf("session_run: %d failures\n", failures);
    return failures;
}
