/* abi_c99.c - the public interface as a strict C99 program sees it: every entry of qwentts.h is called in a way that returns early, without a
 * model, and each refusal must say why: its text holds the field, the value and what would be valid. Exit code = failures. */
#include "qwentts.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Version 4's layout as its bindings declare it. */
struct v4_init_params {
    int          abi_version;
    const char * talker_path;
    const char * codec_path;
    bool         use_fa;
    bool         clamp_fp16;
    int          max_batch;
    float        codec_chunk_sec;
};

/* Version 5's: two fields more. */
struct v5_init_params {
    int          abi_version;
    const char * talker_path;
    const char * codec_path;
    bool         use_fa;
    bool         clamp_fp16;
    int          max_batch;
    float        codec_chunk_sec;
    int          n_threads;
    const char * backend;
};

#define V4_FIELDS_BYTES (offsetof(struct v4_init_params, codec_chunk_sec) + sizeof(float))

static int checks, failures;
static const char * this_program; /* a file that is there and is not GGUF */

static void check(bool holds, const char * what) {
    checks++;
    if (!holds) {
        failures++;
        printf("FAIL %s (last error: \"%s\")\n", what, qt_last_error());
    }
}

/* The call refused with this status, and its text holds each of the words. NULL words are skipped. */
static void refused(const char * what, int got, int want, const char * word0, const char * word1, const char * word2, const char * word3) {
    const char * words[4];
    int i;
    words[0] = word0;
    words[1] = word1;
    words[2] = word2;
    words[3] = word3;
    checks++;
    if (got != want) {
        failures++;
        printf("FAIL %s: status %d, expected %d\n", what, got, want);
        return;
    }
    for (i = 0; i < 4; i++) {
        if (words[i] && !strstr(qt_last_error(), words[i])) {
            failures++;
            printf("FAIL %s: \"%s\" does not name \"%s\"\n", what, qt_last_error(), words[i]);
        }
    }
}

static struct {
    int calls;
    enum qt_log_level level;
    char text[512];
    void * user_data;
} logged;

static void on_log(enum qt_log_level level, const char * message, void * user_data) {
    logged.calls++;
    logged.level = level;
    logged.user_data = user_data;
    strncpy(logged.text, message, sizeof logged.text - 1);
}

static void on_tap(const char * name, const float * data, const int64_t * ne, void * user_data) {
    (void) name;
    (void) data;
    (void) ne;
    (void) user_data;
}

static void library_entries(void) {
    check(strcmp(qt_last_error(), "") == 0, "qt_last_error is empty before the first failure");
    check(strncmp(qt_version(), "0.", 2) == 0, "qt_version begins with the version");
    check(qt_abi_version() == QT_ABI_VERSION && qt_abi_min_version() == QT_ABI_MIN_VERSION, "library and header accept the same range");
    check(qt_struct_size("qt_init_params") == sizeof(struct qt_init_params), "qt_struct_size(qt_init_params)");
    check(qt_struct_size("qt_audio") == sizeof(struct qt_audio), "qt_struct_size(qt_audio)");
    check(qt_struct_size("qt_facts") == sizeof(struct qt_facts), "qt_struct_size(qt_facts)");
    check(qt_struct_size("qt_value") == sizeof(struct qt_value), "qt_struct_size(qt_value)");
    check(qt_struct_size("qt_tensor_info") == sizeof(struct qt_tensor_info), "qt_struct_size(qt_tensor_info)");
    check(qt_struct_size("qt_context") == 0 && qt_struct_size("qt_audi") == 0 && qt_struct_size("") == 0 && qt_struct_size(NULL) == 0,
          "qt_struct_size of an opaque, an unknown, an empty and no name is 0");
}

static void default_params(void) {
    struct qt_init_params p;
    unsigned char bytes[sizeof(struct qt_init_params) + 16];
    struct v4_init_params v4;
    struct v5_init_params v5;
    size_t i;
    bool untouched = true;
    char size[32];

    memset(&p, 0xff, sizeof p);
    check(qt_init_default_params(&p) == QT_STATUS_OK, "qt_init_default_params");
    check(p.abi_version == QT_ABI_VERSION && !p.talker_path && !p.codec_path && p.use_fa && !p.clamp_fp16 && p.max_batch == 1 && p.codec_chunk_sec == 24.0f &&
              p.n_threads == 0 && !p.backend && p.kv_type == QT_KV_F16,
          "the defaults of version 6");

    refused("fill NULL", qt_init_params_fill(NULL, QT_ABI_VERSION, sizeof p), QT_STATUS_INVALID_PARAMS, "params", "NULL", NULL, NULL);
    refused("fill version 3", qt_init_params_fill(&p, 3, sizeof p), QT_STATUS_INVALID_PARAMS, "abi_version is 3", "4", "6", NULL);
    refused("fill version 7", qt_init_params_fill(&p, 7, sizeof p), QT_STATUS_INVALID_PARAMS, "abi_version is 7", "4", "6", NULL);
    refused("fill version INT_MIN", qt_init_params_fill(&p, INT_MIN, sizeof p), QT_STATUS_INVALID_PARAMS, "abi_version is -2147483648", "4", "6", NULL);
    sprintf(size, "%lu", (unsigned long) sizeof p);
    refused("fill version 6, size too small", qt_init_params_fill(&p, 6, 7), QT_STATUS_INVALID_PARAMS, "struct_size is 7", "version 6", size, NULL);
    refused("fill version 6, size too large", qt_init_params_fill(&p, 6, sizeof p + 8), QT_STATUS_INVALID_PARAMS, "struct_size", "version 6", size, NULL);
    sprintf(size, "%lu", (unsigned long) sizeof v5);
    refused("fill version 5 with version 6's size", qt_init_params_fill(&p, 5, sizeof p), QT_STATUS_INVALID_PARAMS, "struct_size", "version 5", size, NULL);
    memset(bytes, 0xa5, sizeof bytes);
    check(qt_init_params_fill((struct qt_init_params *) (void *) bytes, 5, sizeof v5) == QT_STATUS_OK, "fill version 5");
    memcpy(&v5, bytes, sizeof v5);
    check(v5.abi_version == 5 && v5.use_fa && v5.max_batch == 1 && v5.n_threads == 0 && !v5.backend, "the defaults of version 5");
    for (i = sizeof v5; i < sizeof bytes; i++) {
        untouched = untouched && bytes[i] == 0xa5;
    }
    check(untouched, "filling version 5 writes its fields and no more");
    sprintf(size, "%lu", (unsigned long) sizeof v4);
    refused("fill version 4 with version 6's size", qt_init_params_fill(&p, 4, sizeof p), QT_STATUS_INVALID_PARAMS, "struct_size", "version 4", size, NULL);

    /* Version 4: its fields, and not one byte after them. Both ways to ask for it. */
    for (i = 0; i < 2; i++) {
        size_t k;
        memset(bytes, 0xa5, sizeof bytes);
        if (i == 0) {
            check(qt_init_params_fill((struct qt_init_params *) (void *) bytes, 4, sizeof v4) == QT_STATUS_OK, "fill version 4");
        } else {
            (qt_init_default_params)((struct qt_init_params *) (void *) bytes);
        }
        memcpy(&v4, bytes, sizeof v4);
        check(v4.abi_version == 4 && !v4.talker_path && !v4.codec_path && v4.use_fa && !v4.clamp_fp16 && v4.max_batch == 1 && v4.codec_chunk_sec == 24.0f,
              i ? "the defaults of version 4 from the plain symbol" : "the defaults of version 4");
        for (k = V4_FIELDS_BYTES; k < sizeof bytes; k++) {
            untouched = untouched && bytes[k] == 0xa5;
        }
        check(untouched, i ? "the plain symbol writes version 4's fields and no more" : "filling version 4 writes its fields and no more");
    }
    (qt_init_default_params)(NULL);
}

/* qt_init with one field wrong. */
static void init_refused(const char * what, const struct qt_init_params * p, const char * word0, const char * word1, const char * word2) {
    struct qt_context * ctx = qt_init(p);
    refused(what, ctx ? QT_STATUS_OK : QT_STATUS_INVALID_PARAMS, QT_STATUS_INVALID_PARAMS, word0, word1, word2, NULL);
    qt_free(ctx);
}

static void init_entries(void) {
    static const char missing[] = "/nonexistent/qwentts/talker.gguf";
    struct qt_init_params p, good;
    int version;
    char word[32];

    qt_init_default_params(&good);
    good.talker_path = missing;
    init_refused("qt_init NULL", NULL, "params", "NULL", NULL);
    for (version = -1; version <= 8; version++) {
        if (version < QT_ABI_MIN_VERSION || version > QT_ABI_VERSION) {
            memset(&p, 0xff, sizeof p); /* no other field may be read: the pointers are wild */
            p.abi_version = version;
            sprintf(word, "abi_version is %d,", version);
            init_refused("qt_init with a foreign version", &p, word, "4", "6");
        }
    }
    p = good;
    p.talker_path = NULL;
    init_refused("no path", &p, "talker_path", "codec_path", "NULL");
    p = good;
    p.kv_type = 2;
    init_refused("kv_type 2", &p, "kv_type is 2", "f16", "f32");
    p = good;
    p.max_batch = 2;
    init_refused("max_batch 2", &p, "max_batch is 2", "1", NULL);
    p = good;
    p.codec_chunk_sec = 0.0f;
    init_refused("codec_chunk_sec 0", &p, "codec_chunk_sec is 0", "over 0", NULL);
    p.codec_chunk_sec = (float) sqrt(-1.0);
    init_refused("codec_chunk_sec NaN", &p, "codec_chunk_sec is", "nan", NULL);
    p.codec_chunk_sec = FLT_MAX * 2.0f;
    init_refused("codec_chunk_sec infinite", &p, "codec_chunk_sec is inf", NULL, NULL);
    p = good;
    p.n_threads = -3;
    init_refused("n_threads -3", &p, "n_threads is -3", "0", NULL);
    p.n_threads = INT_MAX;
    init_refused("n_threads INT_MAX", &p, "n_threads is 2147483647", "4096", NULL);
    p = good;
    p.backend = "abacus";
    init_refused("an unknown backend", &p, "backend is 'abacus'", "CPU", NULL);
    init_refused("a missing talker", &good, missing, NULL, NULL);
    p = good;
    p.talker_path = NULL;
    p.codec_path = missing;
    init_refused("a missing codec", &p, missing, NULL, NULL);
    p.codec_path = this_program;
    init_refused("a codec that is no GGUF file", &p, this_program, "GGUF", NULL);

    /* A version 4 struct ends before n_threads: wild bytes there must not be read. */
    memset(&p, 0xff, sizeof p);
    (qt_init_default_params)(&p);
    p.talker_path = missing;
    init_refused("version 4 with wild bytes after its fields", &p, missing, NULL, NULL);

    qt_log_set(on_log, &p);
    init_refused("a missing talker, logged", &good, missing, NULL, NULL);
    check(logged.calls >= 1 && logged.level == QT_LOG_ERROR && logged.user_data == &p && strcmp(logged.text, qt_last_error()) == 0,
          "a failed qt_init logs the text of qt_last_error");
    check(logged.text[0] && logged.text[strlen(logged.text) - 1] != '\n', "a logged message has no trailing newline");
    qt_log_set(NULL, NULL);
    logged.calls = 0;
    init_refused("a missing talker, in silence", &good, missing, NULL, NULL);
    check(logged.calls == 0, "no callback, no message");
}

static void context_entries(void) {
    struct qt_facts facts;
    qt_free(NULL);
    check(strcmp(qt_backend_name(NULL), "") == 0, "qt_backend_name(NULL)");
    refused("qt_facts_get NULL", qt_facts_get(NULL, &facts, sizeof facts), QT_STATUS_INVALID_PARAMS, "qt_facts_get", "ctx", "NULL", NULL);
    check(!qt_context_file(NULL, QT_FILE_TALKER) && !qt_context_file(NULL, QT_FILE_CODEC), "qt_context_file(NULL)");
    check(qt_num_codebooks(NULL) == 0, "qt_num_codebooks(NULL)");
    check(qt_duration_sec_to_tokens(NULL, 1.0f) == 0, "qt_duration_sec_to_tokens(NULL)");
    check(qt_n_speakers(NULL) == 0, "qt_n_speakers(NULL)");
    check(!qt_speaker_name(NULL, 0), "qt_speaker_name(NULL)");
}

static void file_entries(void) {
    static const char missing[] = "/nonexistent/qwentts/file.gguf";
    struct qt_file * file = (struct qt_file *) &failures; /* not a file: must become NULL */
    struct qt_value value;
    struct qt_tensor_info info;
    float x;
    refused("qt_file_open without a path", qt_file_open(NULL, &file), QT_STATUS_INVALID_PARAMS, "qt_file_open", "path", "NULL", NULL);
    check(!file, "qt_file_open leaves NULL on failure");
    refused("qt_file_open without a result", qt_file_open(missing, NULL), QT_STATUS_INVALID_PARAMS, "file", "NULL", NULL, NULL);
    refused("qt_file_open of a missing file", qt_file_open(missing, &file), QT_STATUS_INVALID_PARAMS, missing, NULL, NULL, NULL);
    refused("qt_file_open of a folder", qt_file_open("/", &file), QT_STATUS_INVALID_PARAMS, "/", NULL, NULL, NULL);
    refused("qt_file_open of another format", qt_file_open(this_program, &file), QT_STATUS_INVALID_PARAMS, this_program, "GGUF", NULL, NULL);
    check(!file, "qt_file_open leaves NULL after each of them");
    qt_file_free(NULL);
    check(qt_file_n_keys(NULL) == 0 && !qt_file_key(NULL, 0), "keys of no file");
    check(qt_file_n_tensors(NULL) == 0, "tensors of no file");
    check(qt_file_tensor_offset(NULL, 0) == -1, "offset in no file");
    check(strcmp(qt_type_name(14), "q6_K") == 0 && !qt_type_name(4) && !qt_type_name(-1) && !qt_type_name(1 << 30), "names of types");
    check(qt_row_bytes(14, 512) == 420 && qt_row_bytes(0, 3) == 12 && qt_row_bytes(8, 0) == 0, "bytes of a row");
    check(qt_row_bytes(14, 128) == -1 && qt_row_bytes(8, -32) == -1 && qt_row_bytes(4, 32) == -1 && qt_row_bytes(0, INT64_MAX) == -1, "rows that no type has");
    refused("qt_file_value NULL", qt_file_value(NULL, "general.name", &value), QT_STATUS_INVALID_PARAMS, "qt_file_value", "file", "NULL", NULL);
    refused("qt_file_tensor NULL", qt_file_tensor(NULL, 0, &info), QT_STATUS_INVALID_PARAMS, "qt_file_tensor", "file", "NULL", NULL);
    check(qt_cpu_name() && qt_cpu_features() && strstr(qt_cpu_tiers(), "scalar"), "the processor is described");
    check(!qt_cpu_tier() || strstr(qt_cpu_tiers(), qt_cpu_tier()), "the tier in use is one of the processor");
    check(qt_cpu_quota() >= 0 && qt_cpu_default_threads() >= 1, "threads of the processor");
    refused("qt_file_tensor_read NULL", qt_file_tensor_read(NULL, 0, &x, 1), QT_STATUS_INVALID_PARAMS, "qt_file_tensor_read", "file", "NULL", NULL);
}

/* Arrays of strings as files hold them: a length of eight bytes, then the bytes. */
static void vocabulary_entries(void) {
    char three[] = "\1\0\0\0\0\0\0\0a\1\0\0\0\0\0\0\0b\2\0\0\0\0\0\0\0ab";
    static const char one[] = "\3\0\0\0\0\0\0\0a b";
    static const uint8_t is_added[3] = { 0, 0, 0 };
    struct qt_value tokens = { 8, true, 3, three, sizeof three - 1 }, merges = { 8, true, 1, one, sizeof one - 1 };
    struct qt_vocabulary * vocabulary = (struct qt_vocabulary *) &failures;
    int32_t ids[4];
    int64_t n = -1;
    refused("qt_vocabulary_new NULL", qt_vocabulary_new(NULL, &merges, is_added, 3, &vocabulary), QT_STATUS_INVALID_PARAMS, "tokens", "NULL", NULL, NULL);
    check(!vocabulary, "qt_vocabulary_new leaves NULL on failure");
    refused("qt_vocabulary_new n_tokens", qt_vocabulary_new(&tokens, &merges, is_added, 2, &vocabulary), QT_STATUS_INVALID_PARAMS, "n_tokens is 2", "3", NULL, NULL);
    tokens.n_bytes--;
    refused("a token behind the end", qt_vocabulary_new(&tokens, &merges, is_added, 3, &vocabulary), QT_STATUS_INVALID_PARAMS, "tokens", "2 of 3", NULL, NULL);
    tokens.n_bytes++, merges.n = 2;
    refused("a merge too few", qt_vocabulary_new(&tokens, &merges, is_added, 3, &vocabulary), QT_STATUS_INVALID_PARAMS, "merges", "1 of 2", NULL, NULL);
    merges.n = 1, merges.type = 4;
    refused("merges that are numbers", qt_vocabulary_new(&tokens, &merges, is_added, 3, &vocabulary), QT_STATUS_INVALID_PARAMS, "merges", "type 4", NULL, NULL);
    merges.type = 8;
    check(qt_vocabulary_new(&tokens, &merges, is_added, 3, &vocabulary) == QT_STATUS_OK && vocabulary, "a small vocabulary");
    check(qt_vocabulary_find(vocabulary, "ab", 2) == 2 && qt_vocabulary_find(vocabulary, "ba", 2) == -1, "tokens are found");
    memset(three, 0, sizeof three); /* a vocabulary keeps nothing of the caller's */
    const char * token = qt_vocabulary_token(vocabulary, 2, &n);
    check(token && n == 2 && memcmp(token, "ab", 2) == 0 && !qt_vocabulary_token(vocabulary, 3, &n) && n == 0, "tokens by id");
    check(qt_vocabulary_n_derived(vocabulary) == 0 && qt_vocabulary_n_derived(NULL) == 0, "no merge is missing");
    check(qt_vocabulary_encode(vocabulary, "bab?", 4, ids, &n) == QT_STATUS_OK && n == 2 && ids[0] == 1 && ids[1] == 2, "a word");
    refused("qt_vocabulary_encode NULL", qt_vocabulary_encode(NULL, "a", 1, ids, &n), QT_STATUS_INVALID_PARAMS, "vocabulary", "NULL", NULL, NULL);
    refused("qt_vocabulary_encode", qt_vocabulary_encode(vocabulary, "a", -1, ids, &n), QT_STATUS_INVALID_PARAMS, "n_bytes is -1", NULL, NULL, NULL);
    check(qt_vocabulary_find(NULL, "a", 1) == -1, "qt_vocabulary_find(NULL)");
    qt_vocabulary_free(vocabulary);
    qt_vocabulary_free(NULL);
}

static void session_entries(void) {
    struct qt_session * session = (struct qt_session *) &failures;
    struct qt_audio audio;
    struct qt_sampling sampling = { false, 0, 0.9, 1 };
    int32_t code = 0;
    float x = 0;
    refused("qt_session_new without a context", qt_session_new(NULL, &session), QT_STATUS_INVALID_PARAMS, "qt_session_new", "ctx", "NULL", NULL);
    check(!session, "qt_session_new leaves NULL on failure");
    refused("qt_session_new without a result", qt_session_new(NULL, NULL), QT_STATUS_INVALID_PARAMS, "session", "NULL", NULL, NULL);
    qt_trim_memory();
    qt_session_free(NULL);
    qt_session_cancel(NULL);
    refused("qt_session_reset", qt_session_reset(NULL), QT_STATUS_INVALID_PARAMS, "qt_session_reset", "session", "NULL", NULL);
    refused("qt_session_set_tap", qt_session_set_tap(NULL, on_tap, NULL), QT_STATUS_INVALID_PARAMS, "qt_session_set_tap", "session", "NULL", NULL);
    refused("qt_text_embed", qt_text_embed(NULL, &code, 1, &x), QT_STATUS_INVALID_PARAMS, "qt_text_embed", "session", "NULL", NULL);
    refused("qt_code_embed", qt_code_embed(NULL, 0, &code, 1, &x), QT_STATUS_INVALID_PARAMS, "qt_code_embed", "session", "NULL", NULL);
    refused("qt_talker_prefill", qt_talker_prefill(NULL, &x, 1, &x), QT_STATUS_INVALID_PARAMS, "qt_talker_prefill", "session", "NULL", NULL);
    refused("qt_talker_step", qt_talker_step(NULL, &code, &x, &x), QT_STATUS_INVALID_PARAMS, "qt_talker_step", "session", "NULL", NULL);
    refused("qt_predictor_begin", qt_predictor_begin(NULL, 0, &x), QT_STATUS_INVALID_PARAMS, "qt_predictor_begin", "session", "NULL", NULL);
    refused("qt_predictor_step", qt_predictor_step(NULL, 0, &x), QT_STATUS_INVALID_PARAMS, "qt_predictor_step", "session", "NULL", NULL);
    refused("qt_predictor_frame", qt_predictor_frame(NULL, 0, &x, &sampling, &code), QT_STATUS_INVALID_PARAMS, "qt_predictor_frame", "session", "NULL", NULL);
    refused("qt_draw NULL", qt_draw(NULL, 1, &sampling, 1, &code), QT_STATUS_INVALID_PARAMS, "qt_draw", "logits", "NULL", NULL);
    refused("qt_draw n", qt_draw(&x, 0, &sampling, 1, &code), QT_STATUS_INVALID_PARAMS, "qt_draw", "n is 0", NULL, NULL);
    refused("qt_draw uniform", qt_draw(&x, 1, &sampling, 0, &code), QT_STATUS_INVALID_PARAMS, "uniforms[0] is 0", NULL, NULL, NULL);
    check(qt_draw(&x, 1, &sampling, 1, &code) == QT_STATUS_OK && code == 0, "one logit is one token");
    sampling.top_k = -1;
    refused("qt_draw top_k", qt_draw(&x, 1, &sampling, 1, &code), QT_STATUS_INVALID_PARAMS, "top_k is -1", NULL, NULL, NULL);
    sampling.top_p = 1.5, sampling.top_k = 0;
    refused("qt_draw top_p", qt_draw(&x, 1, &sampling, 1, &code), QT_STATUS_INVALID_PARAMS, "top_p is 1.5", NULL, NULL, NULL);
    sampling.temperature = 0;
    refused("qt_draw temperature", qt_draw(&x, 1, &sampling, 1, &code), QT_STATUS_INVALID_PARAMS, "temperature is 0", NULL, NULL, NULL);
    memset(&audio, 0xff, sizeof audio); /* a wild pointer in samples must not survive */
    refused("qt_codec_decode", qt_codec_decode(NULL, &code, 1, &audio), QT_STATUS_INVALID_PARAMS, "qt_codec_decode", "session", "NULL", NULL);
    check(!audio.samples && audio.n_samples == 0, "a failed qt_codec_decode leaves empty audio");
    refused("qt_codec_decode without a result", qt_codec_decode(NULL, &code, 1, NULL), QT_STATUS_INVALID_PARAMS, "audio", "NULL", NULL, NULL);
    qt_audio_free(&audio);
    qt_audio_free(&audio);
    qt_audio_free(NULL);
    check(!audio.samples && audio.n_samples == 0 && audio.sample_rate == 0 && audio.channels == 0, "qt_audio_free of empty audio leaves it empty");
}

/* Streams and hearing. */
static void newer_session_entries(void) {
    struct qt_voice_ref voice;
    int32_t code = 0;
    float x = 0;
    int n_frames = 9;
    bool reused = true;
    refused("qt_stream_reset", qt_stream_reset(NULL), QT_STATUS_INVALID_PARAMS, "qt_stream_reset", "session", "NULL", NULL);
    refused("qt_stream_push", qt_stream_push(NULL, &code, 1, &x), QT_STATUS_INVALID_PARAMS, "qt_stream_push", "session", "NULL", NULL);
    refused("qt_stream_push_beside", qt_stream_push_beside(NULL, &code, 1, &x), QT_STATUS_INVALID_PARAMS, "qt_stream_push_beside", "session", "NULL", NULL);
    refused("qt_set_codec_threads", qt_set_codec_threads(NULL, 1), QT_STATUS_INVALID_PARAMS, "qt_set_codec_threads", "ctx", "NULL", NULL);
    refused("qt_stream_prime", qt_stream_prime(NULL, &code, 1, &reused), QT_STATUS_INVALID_PARAMS, "qt_stream_prime", "session", "NULL", NULL);
    check(!reused, "a failed qt_stream_prime reused nothing");
    refused("qt_codec_encode", qt_codec_encode(NULL, &x, 1, &code, 1, &n_frames), QT_STATUS_INVALID_PARAMS, "qt_codec_encode", "session", "NULL", NULL);
    check(n_frames == 0, "a failed qt_codec_encode gives no frames");
    refused("qt_speaker_embed", qt_speaker_embed(NULL, &x, 1, &x), QT_STATUS_INVALID_PARAMS, "qt_speaker_embed", "session", "NULL", NULL);
    memset(&voice, 0xff, sizeof voice); /* wild pointers must not survive */
    refused("qt_extract_voice_ref", qt_extract_voice_ref(NULL, &x, 1, &voice), QT_STATUS_INVALID_PARAMS, "qt_extract_voice_ref", "ctx", "NULL", NULL);
    check(!voice.ref_spk_emb && !voice.ref_codes && voice.ref_T == 0, "a failed qt_extract_voice_ref leaves an empty voice");
    refused("qt_extract_voice_ref without a result", qt_extract_voice_ref(NULL, &x, 1, NULL), QT_STATUS_INVALID_PARAMS, "out", "NULL", NULL, NULL);
    qt_voice_ref_free(&voice);
    qt_voice_ref_free(NULL);
    check(!voice.ref_codes && voice.num_codebooks == 0, "qt_voice_ref_free of an empty voice leaves it empty");
}

/* Rows to blocks and back, and the questions about types. 8 is q8_0: 32 values in 34 bytes. */
static void quantizer_entries(void) {
    float values[64], back[64];
    unsigned char blocks[68];
    double error = -1;
    int64_t ne[4] = { 32, 2, 1, 1 };
    int32_t type = -1;
    const char * reason = NULL;
    bool close = true;
    int i;
    for (i = 0; i < 64; i++) {
        values[i] = (float) (i - 40);
    }
    check(qt_quantize_rows(8, values, 32, 2, blocks, 68, 2, &error) == QT_STATUS_OK && error > 0 && error < 1, "qt_quantize_rows to q8_0");
    check(qt_dequantize_rows(8, blocks, 68, 32, 2, back) == QT_STATUS_OK, "qt_dequantize_rows of q8_0");
    for (i = 0; i < 64; i++) {
        close = close && fabs((double) (back[i] - values[i])) < 0.2; /* 40 / 127 / 2, and the rounding of the scale */
    }
    check(close, "rows come back");
    check(qt_quantize_rows(8, values, 32, 0, blocks, 0, 0, &error) == QT_STATUS_OK && error == 0, "no rows have no error");
    refused("qt_quantize_rows, type", qt_quantize_rows(4, values, 32, 2, blocks, 68, 1, NULL), QT_STATUS_INVALID_PARAMS, "qt_quantize_rows", "type", "4", "valid");
    refused("qt_quantize_rows, activations' type", qt_quantize_rows(15, values, 32, 2, blocks, 68, 1, NULL), QT_STATUS_INVALID_PARAMS, "type", "q8_K", NULL, NULL);
    refused("qt_quantize_rows, row", qt_quantize_rows(8, values, 33, 1, blocks, 68, 1, NULL), QT_STATUS_INVALID_PARAMS, "n_per_row", "33", "multiple of 32", NULL);
    refused("qt_quantize_rows, rows", qt_quantize_rows(8, values, 32, -1, blocks, 68, 1, NULL), QT_STATUS_INVALID_PARAMS, "n_rows", "-1", "0 to", NULL);
    refused("qt_quantize_rows, many rows", qt_quantize_rows(8, values, 32, INT64_MAX / 32, blocks, 68, 1, NULL), QT_STATUS_INVALID_PARAMS, "n_rows", "0 to", NULL, NULL);
    refused("qt_quantize_rows, bytes", qt_quantize_rows(8, values, 32, 2, blocks, 67, 1, NULL), QT_STATUS_INVALID_PARAMS, "blocks_bytes", "67", "68", NULL);
    refused("qt_quantize_rows, threads", qt_quantize_rows(8, values, 32, 2, blocks, 68, -2, NULL), QT_STATUS_INVALID_PARAMS, "n_threads", "-2", "0 (all)", NULL);
    refused("qt_quantize_rows, values", qt_quantize_rows(8, NULL, 32, 2, blocks, 68, 1, NULL), QT_STATUS_INVALID_PARAMS, "values", "NULL", NULL, NULL);
    refused("qt_quantize_rows, blocks", qt_quantize_rows(8, values, 32, 2, NULL, 68, 1, NULL), QT_STATUS_INVALID_PARAMS, "blocks", "NULL", NULL, NULL);
    refused("qt_dequantize_rows, bytes", qt_dequantize_rows(8, blocks, 34, 32, 2, back), QT_STATUS_INVALID_PARAMS, "qt_dequantize_rows", "blocks_bytes", "34", "68");
    refused("qt_dequantize_rows, blocks", qt_dequantize_rows(8, NULL, 68, 32, 2, back), QT_STATUS_INVALID_PARAMS, "blocks", "NULL", NULL, NULL);
    values[35] = FLT_MAX;
    refused("qt_quantize_rows, f16", qt_quantize_rows(1, values, 32, 2, back, 128, 1, NULL), QT_STATUS_INVALID_PARAMS, "row 1", "column 3", "e+38", "65504");
    values[35] = (float) -HUGE_VAL;
    refused("qt_quantize_rows, infinity", qt_quantize_rows(8, values, 32, 2, blocks, 68, 2, NULL), QT_STATUS_INVALID_PARAMS, "row 1", "column 3", "-infinity", NULL);
    check(qt_policy_type("q8_0", NULL, "talker.blk.0.attn_q.weight", 2, ne, 1, &type, &reason) == QT_STATUS_OK && type == 8 && reason, "qt_policy_type");
    refused("qt_policy_type, variant", qt_policy_type("Q3", NULL, "a", 2, ne, 1, &type, &reason), QT_STATUS_INVALID_PARAMS, "variant", "\"Q3\"", "Q4_K_M", NULL);
    refused("qt_policy_type, predictor", qt_policy_type("F16", "x", "a", 2, ne, 1, &type, &reason), QT_STATUS_INVALID_PARAMS, "predictor_type", "\"x\"", "Q5_K,", NULL);
    refused("qt_policy_type, axes", qt_policy_type("F16", NULL, "a", 5, ne, 1, &type, &reason), QT_STATUS_INVALID_PARAMS, "n_dims", "5", "1 to 4", NULL);
    refused("qt_policy_type, name", qt_policy_type("F16", NULL, NULL, 2, ne, 1, &type, &reason), QT_STATUS_INVALID_PARAMS, "tensor_name", "NULL", NULL, NULL);
    refused("qt_policy_type, block", qt_policy_type("Q4_K_M", NULL, "talker.blk.7.attn_v.weight", 2, ne, 7, &type, &reason), QT_STATUS_INVALID_PARAMS, "block 7",
            "n_layers", "7", NULL);
    check(qt_policy_f32_reason("a.codebook", 2, ne) && !qt_policy_f32_reason("a.weight", 2, ne) && !qt_policy_f32_reason(NULL, 2, ne), "qt_policy_f32_reason");
    check(strcmp(qt_policy_variant(0), "F32") == 0 && !qt_policy_variant(-1) && !qt_policy_variant(99), "qt_policy_variant");
}

int main(int argc, char ** argv) {
    this_program = argc > 0 ? argv[0] : "";
    library_entries();
    default_params();
    init_entries();
    context_entries();
    file_entries();
    vocabulary_entries();
    session_entries();
    newer_session_entries();
    quantizer_entries();
    printf("abi_c99: %d checks, %d failed\n", checks, failures);
    return failures > 125 ? 125 : failures;
}
