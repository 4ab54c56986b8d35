/* qwentts.h - the whole public interface of libqwentts: Qwen3-TTS 12 Hz forwards for a caller who owns the loop.
 *
 * The library computes networks; text, prompt, sampling and the frame loop belong to the caller (the Python package does them).
 * One context holds the weights (read-only, shared); sessions over it hold state (caches). See docs/architecture.md.
 *
 * Rules that hold for every entry:
 * - Fallible calls return qt_status (0 is success). After a failure qt_last_error() names the field, the value and what is valid.
 * - No call prints, exits or aborts, whatever the arguments or the files hold. Every _free accepts NULL.
 * - A context and a file may be used from any thread. A session belongs to one thread at a time, except for qt_session_cancel and
 *   qt_stream_push_beside. Sessions of one context may be used concurrently; their computations take turns.
 * - Arrays are row-major and packed; float is IEEE binary32. Sizes come from qt_facts, never from a constant.
 * The layout of version 4 of the reference interface (entries marked v4) is kept.
 */
#ifndef QWENTTS_H
#define QWENTTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#  if defined(QT_BUILD)
#    define QT_API __declspec(dllexport)
#  else
#    define QT_API __declspec(dllimport)
#  endif
#elif defined(__GNUC__)
#  define QT_API __attribute__((visibility("default")))
#else
#  define QT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* cdef: begin (the Python declarations are cut from here to the end marker at build time) */

/* The closed range of layouts this header can speak. A library accepts a struct whose abi_version lies in its own range. */
#define QT_ABI_VERSION 6
#define QT_ABI_MIN_VERSION 4

enum qt_status {
    QT_STATUS_OK = 0,
    QT_STATUS_INVALID_PARAMS = -1,  /* an argument or a file is not valid */
    QT_STATUS_MODE_INVALID = -2,    /* valid, but not for the loaded model */
    QT_STATUS_GENERATE_FAILED = -3, /* the computation failed (never for lack of memory) */
    QT_STATUS_OOM = -4,             /* memory could not be had; the handle is as before the call */
    QT_STATUS_CANCELLED = -5        /* qt_session_cancel was called */
};

enum qt_log_level { QT_LOG_DEBUG = 0, QT_LOG_INFO = 1, QT_LOG_WARN = 2, QT_LOG_ERROR = 3 };

enum qt_file_kind { QT_FILE_TALKER = 0, QT_FILE_CODEC = 1 };

struct qt_context; /* weights and backend, read-only */
struct qt_session; /* state of one utterance */
struct qt_file;    /* a GGUF file, mapped */
struct qt_vocabulary; /* tokens and merges, ready to encode */

enum qt_kv_type { QT_KV_F16 = 0, QT_KV_F32 = 1 };

/* v4 up to codec_chunk_sec; version 5 appends n_threads and backend, version 6 the rest. */
struct qt_init_params {
    int          abi_version;     /* the caller's, set by qt_init_default_params */
    const char * talker_path;     /* NULL: no talker, codec entries only */
    const char * codec_path;      /* NULL: no codec, talker entries only */
    bool         use_fa;          /* true: fused attention; false: product, softmax, product */
    bool         clamp_fp16;      /* keep residual stream and values within +-65504 */
    int          max_batch;       /* 1: sequences are computed one at a time */
    float        codec_chunk_sec; /* > 0: seconds decoded at a time by qt_codec_decode; bounds memory */
    int          n_threads;       /* 0: all cores this process may use */
    const char * backend;         /* NULL or "auto": best present; "cpu" */
    int          kv_type;         /* qt_kv_type: the talker's keys and values; F16 is half the memory, F32 exact */
};

/* PCM, mono. samples belongs to the caller after success: give it to qt_audio_free. */
struct qt_audio {
    float * samples;     /* [n_samples], in [-1, 1] */
    int     n_samples;
    int     sample_rate; /* Hz */
    int     channels;    /* 1 */
};

/* Sizes of the loaded model, from the files' keys. Zero where the part is not loaded. */
struct qt_facts {
    int32_t n_code_groups;     /* codes a frame; the codec's and the talker's agree */
    int32_t hidden_size;       /* width of a prompt row */
    int32_t codec_vocab_size;  /* logits of codebook 0, code groups' special ids included */
    int32_t code_vocab_size;   /* logits of codebooks 1 .. n_code_groups-1 */
    int32_t text_vocab_size;   /* rows of the text embedding */
    int32_t context_length;    /* positions a session can hold */
    int32_t sample_rate;       /* Hz */
    int32_t hop_samples;       /* samples a frame */
    int32_t codebook_size;     /* entries of a codec codebook: codes to decode are below it */
    int32_t speaker_size;      /* width of a speaker embedding; 0 without a speaker encoder (only base models have one) */
};

/* How a code is drawn: scores are divided by temperature, those below the top_k-th are dropped, then the least that top_p leaves out. */
struct qt_sampling {
    bool    greedy;      /* the first of the highest logits; the rest is not used */
    int32_t top_k;       /* 0: off */
    double  temperature; /* 1e-6 to 1e6; may be 0 when greedy */
    double  top_p;       /* above 0, 1: off */
};

/* v4: what a clone needs of a reference clip. Both arrays belong to the caller after success: give the struct to qt_voice_ref_free. */
struct qt_voice_ref {
    float *   ref_spk_emb;   /* [ref_spk_dim] */
    int       ref_spk_dim;
    int32_t * ref_codes;     /* [num_codebooks, ref_T] */
    int       ref_T;         /* frames */
    int       num_codebooks;
};

/* One value of a file's metadata; it lives as long as the file. Types are GGUF's numbers (u8 0, i8 1, u16 2, i16 3, u32 4, i32 5,
 * f32 6, bool 7, string 8, array 9, u64 10, i64 11, f64 12). A scalar has n 1. Strings, also in arrays, are stored one after the other
 * as a little-endian uint64 length and that many bytes, unaligned; n_bytes covers all of them. */
struct qt_value {
    int32_t      type;     /* of the elements */
    bool         is_array;
    int64_t      n;
    const void * data;
    int64_t      n_bytes;
};

struct qt_tensor_info {
    const char * name;      /* lives as long as the file */
    const char * type_name; /* "f32", "q8_0", ... */
    int32_t      type;      /* ggml_type */
    int32_t      n_dims;
    int64_t      ne[4];     /* fastest axis first */
    int64_t      n_bytes;
};

/* message has no trailing newline and lives for the call. Called on the thread that made the logging call. */
typedef void (*qt_log_cb)(enum qt_log_level level, const char * message, void * user_data);

/* One named stage after it was computed: data [ne[3], ne[2], ne[1], ne[0]], lives for the call. Names: docs/model.md. */
typedef void (*qt_tap_cb)(const char * name, const float * data, const int64_t * ne, void * user_data);

/* --- library --- */

/* Freed memory that the C library keeps goes back to the system: worth a call once what a program only needs to start is freed. */
QT_API void qt_trim_memory(void);
QT_API const char * qt_version(void);     /* v4: "0.1.0 ..." */
QT_API const char * qt_last_error(void);  /* v4: text of this thread's last failure, "" if none; lives until the next failure */
QT_API void qt_log_set(qt_log_cb callback, void * user_data); /* v4, but NULL means silence: the library never prints */

/* The closed range the library accepts. */
QT_API int qt_abi_version(void);
QT_API int qt_abi_min_version(void);
/* Size of a public struct by its name without "struct", 0 for an unknown name. */
QT_API size_t qt_struct_size(const char * name);

/* --- the processor: strings that live as long as the calling thread --- */

QT_API const char * qt_cpu_name(void);        /* "Intel(R) Xeon(R) ..." */
QT_API const char * qt_cpu_features(void);    /* "sse2 ... avx2 ... os:avx": instructions it has, registers the system saves; "" where not known */
QT_API const char * qt_cpu_tiers(void);       /* "scalar avx2": sets of kernels that run here, worst first */
QT_API const char * qt_cpu_tier(void);        /* the one a new context computes with; NULL: QWENTTS_CPU_TIER names none of these */
QT_API int qt_cpu_quota(void);                /* cores of the control group's CPU quota, rounded up; 0: no limit */
QT_API int qt_cpu_default_threads(void);      /* n_threads of a context that is given 0 */

/* --- context --- */

/* Fill *params with defaults for the layout of abi_version, whose size must be struct_size. Call it through the macro
 * qt_init_default_params below, which passes the version and size the caller was compiled with. */
QT_API enum qt_status qt_init_params_fill(struct qt_init_params * params, int abi_version, size_t struct_size);
/* v4, for callers without this header: fills version 4's fields and no more. */
QT_API void qt_init_default_params(struct qt_init_params * params);
/* Load and check the files, map their weights. NULL on failure, with qt_last_error(). */
QT_API struct qt_context * qt_init(const struct qt_init_params * params);
QT_API void qt_free(struct qt_context * ctx); /* after its sessions are freed */
/* "CPU avx2, 2 threads"; lives as long as the context. */
QT_API const char * qt_backend_name(const struct qt_context * ctx);
/* Fill *facts; struct_size is sizeof *facts of the caller: a smaller one gets the fields it knows. */
QT_API enum qt_status qt_facts_get(const struct qt_context * ctx, struct qt_facts * facts, size_t struct_size);
/* The context's own file, borrowed; NULL when that part is not loaded. */
QT_API const struct qt_file * qt_context_file(const struct qt_context * ctx, enum qt_file_kind kind);
QT_API int qt_num_codebooks(const struct qt_context * ctx);                      /* v4: 0 for NULL */
QT_API int qt_duration_sec_to_tokens(const struct qt_context * ctx, float sec);  /* v4: frames, rounded up; 0 for NULL or sec <= 0 */
QT_API int qt_n_speakers(const struct qt_context * ctx);                         /* v4: 0 for NULL */
QT_API const char * qt_speaker_name(const struct qt_context * ctx, int index);   /* v4: NULL out of range; lives with the context */

/* --- files --- */

/* Map a GGUF file and check its header, metadata and tensor table. */
QT_API enum qt_status qt_file_open(const char * path, struct qt_file ** file);
QT_API void qt_file_free(struct qt_file * file);
QT_API int64_t qt_file_n_keys(const struct qt_file * file);
QT_API const char * qt_file_key(const struct qt_file * file, int64_t index); /* NULL out of range */
QT_API enum qt_status qt_file_value(const struct qt_file * file, const char * key, struct qt_value * value);
QT_API int64_t qt_file_n_tensors(const struct qt_file * file);
QT_API enum qt_status qt_file_tensor(const struct qt_file * file, int64_t index, struct qt_tensor_info * info);
QT_API int64_t qt_file_tensor_offset(const struct qt_file * file, int64_t index); /* of its data, from the start of the file; -1 out of range */
/* All elements as float, any type; n_values must be the number of elements. */
QT_API enum qt_status qt_file_tensor_read(const struct qt_file * file, int64_t index, float * values, int64_t n_values);

/* --- vocabulary: byte-level BPE of one word; words are the caller's to cut, their bytes as printable characters --- */

/* tokens and merges are qt_file_value's tokenizer.ggml.tokens and .merges, or arrays of the same form, and read here only. is_added
 * [n_tokens]: 1 for tokens that no merge makes. Merges that begin with # and are missing, as in published files, are made from the tokens. Refuses merges
 * of what is no token. Any number of threads may use one vocabulary. */
QT_API enum qt_status qt_vocabulary_new(const struct qt_value * tokens, const struct qt_value * merges, const uint8_t * is_added, int64_t n_tokens,
                                        struct qt_vocabulary ** vocabulary);
QT_API void qt_vocabulary_free(struct qt_vocabulary * vocabulary);
QT_API int64_t qt_vocabulary_n_derived(const struct qt_vocabulary * vocabulary); /* merges made from the tokens; 0 for NULL */
/* The id of the token of these n_bytes, of equal ones the last; -1: none, or NULL. */
QT_API int64_t qt_vocabulary_find(const struct qt_vocabulary * vocabulary, const char * text, int64_t n_bytes);
/* The n_bytes of a token, not ended by a zero; they live as long as the vocabulary. NULL out of range. */
QT_API const char * qt_vocabulary_token(const struct qt_vocabulary * vocabulary, int64_t id, int64_t * n_bytes);
/* The ids of a word; ids has room for n_bytes, *n_ids says how many there are. Characters that are no token are left out. */
QT_API enum qt_status qt_vocabulary_encode(const struct qt_vocabulary * vocabulary, const char * word, int64_t n_bytes, int32_t * ids, int64_t * n_ids);

/* --- element types (ggml_type numbers) --- */

QT_API const char * qt_type_name(int32_t type);                  /* "f32", "q8_0", ...; NULL for a number that is no type */
QT_API int64_t qt_row_bytes(int32_t type, int64_t n_per_row);    /* of one row; -1: no type, n_per_row < 0 or no whole number of blocks */

/* --- quantizer: tensor names and shapes those of the GGUF files --- */

/* Float rows [n_rows, n_per_row] to blocks of type: f32, f16, bf16 or a block type of files. blocks_bytes is exactly what the rows take, and
 * n_per_row a multiple of the type's block. Rows are split over n_threads (0: all this process may use); the bytes and *sum_sq_error, the sum
 * of (decoded - value)^2 (NULL: not computed), are the same for any number. NaN, infinity and what f16 or bf16 cannot hold are refused by
 * row and column; blocks is then partly written. */
QT_API enum qt_status qt_quantize_rows(int32_t type, const float * values, int64_t n_per_row, int64_t n_rows, void * blocks, size_t blocks_bytes,
                                       int n_threads, double * sum_sq_error);
/* The way back, any type with a decoder. */
QT_API enum qt_status qt_dequantize_rows(int32_t type, const void * blocks, size_t blocks_bytes, int64_t n_per_row, int64_t n_rows, float * values);
/* The type of a tensor, ne [n_dims] fastest axis first, in a file of variant (qt_policy_variant; letter case does not matter). predictor_type is for
 * tensors of code_pred: NULL for the variant's own rule, else a variant, "Q5_K" or "Q4_K". n_layers is the number of blocks in the stack that a
 * "<stack>.blk.N." tensor belongs to, not read for others. *reason is static text without values: "codebook", "deciding layer", "row fits no
 * block of 256", ... */
QT_API enum qt_status qt_policy_type(const char * variant, const char * predictor_type, const char * tensor_name, int32_t n_dims, const int64_t * ne,
                                     int32_t n_layers, int32_t * type, const char ** reason);
/* Why a tensor is F32 in every variant, static text; NULL where it may be of another type. The loader refuses others. */
QT_API const char * qt_policy_f32_reason(const char * tensor_name, int32_t n_dims, const int64_t * ne);
QT_API const char * qt_policy_variant(int32_t index); /* "F32", "F16", ...; NULL out of range */

/* --- session --- */

QT_API enum qt_status qt_session_new(struct qt_context * ctx, struct qt_session ** session);
QT_API void qt_session_free(struct qt_session * session);
/* Forget the utterance and a pending cancel; caches keep their memory. */
QT_API enum qt_status qt_session_reset(struct qt_session * session);
/* From any thread: the running call, or else the next one, returns QT_STATUS_CANCELLED soon; holds until qt_session_reset. */
QT_API void qt_session_cancel(struct qt_session * session);
/* Call back with every named stage of the following calls; NULL ends it. Slower: meant for tests and --dump. */
QT_API enum qt_status qt_session_set_tap(struct qt_session * session, qt_tap_cb callback, void * user_data);

/* rows [n, hidden_size] = text projection of the text embedding of ids [n], each below text_vocab_size. */
QT_API enum qt_status qt_text_embed(struct qt_session * session, const int32_t * ids, int n, float * rows);
/* rows [n, hidden_size] of the embedding table of a codebook (0: the talker's, special ids too). */
QT_API enum qt_status qt_code_embed(struct qt_session * session, int codebook, const int32_t * codes, int n, float * rows);

/* Append rows [n_rows, hidden_size] to the session's positions; logits [codec_vocab_size] of codebook 0 after the last row. */
QT_API enum qt_status qt_talker_prefill(struct qt_session * session, const float * rows, int n_rows, float * logits);
/* Append one row: the sum of the embeddings of codes [n_code_groups] and overlay [hidden_size]; logits as above. */
QT_API enum qt_status qt_talker_step(struct qt_session * session, const int32_t * codes, const float * overlay, float * logits);
/* Start a frame from the talker's last hidden state and codebook 0's code; logits [code_vocab_size] of codebook 1. */
QT_API enum qt_status qt_predictor_begin(struct qt_session * session, int32_t code0, float * logits);
/* Give the code drawn from the last logits, codebook g; logits of codebook g + 1. Legal n_code_groups - 2 times a frame. */
QT_API enum qt_status qt_predictor_step(struct qt_session * session, int32_t code, float * logits);
/* One draw from logits [n] with a uniform number above 0 and at most 1, as the Python package makes it. */
QT_API enum qt_status qt_draw(const float * logits, int n, const struct qt_sampling * sampling, float uniform, int32_t * token);
/* A whole frame in one call: codes [n_code_groups] = code0, then one draw a codebook, each with its number of uniforms [n_code_groups - 1], all above
 * 0 and at most 1. The same codes as begin and step with the draws of the Python package. */
QT_API enum qt_status qt_predictor_frame(struct qt_session * session, int32_t code0, const float * uniforms, const struct qt_sampling * sampling,
                                         int32_t * codes);

/* codes [n_code_groups, n_frames] -> n_frames * hop_samples samples. In one pass when codec_chunk_sec covers them; else chunk by chunk, each
 * with the 2 * sliding window frames before it as context. */
QT_API enum qt_status qt_codec_decode(struct qt_session * session, const int32_t * codes, int n_frames, struct qt_audio * audio);
QT_API void qt_audio_free(struct qt_audio * audio); /* v4: frees samples and zeroes the struct */

/* --- codec stream: the decoder frame by frame, with its state in the session --- */

/* Forget the stream: the next push starts an utterance, bit for bit as a new session would. */
QT_API enum qt_status qt_stream_reset(struct qt_session * session);
/* Append codes [n_code_groups, n_frames]; samples [n_frames * hop_samples] are those of the one-pass decode, however the frames are split. */
QT_API enum qt_status qt_stream_push(struct qt_session * session, const int32_t * codes, int n_frames, float * samples);
/* Give the codec n_threads of the context's threads for qt_stream_push_beside, below their number: while one runs, the others compute qt_talker_step,
 * qt_predictor_*, qt_text_embed and qt_code_embed at the same time. Every other call still computes with all threads, and so waits for a push beside that
 * runs. 0, as at first: none, all calls take turns on all threads. No result depends on it. Waits for what computes; after a failure everything is as
 * before. Without a codec and on a backend that is not the CPU's only 0 is valid. */
QT_API enum qt_status qt_set_codec_threads(struct qt_context * ctx, int n_threads);
/* qt_stream_push on the codec's own threads. One thread may call it while another one calls qt_talker_step, qt_predictor_*, qt_text_embed or
 * qt_code_embed with the same session; no other call with this session until it has returned, qt_session_cancel aside, which stops both. Without threads of
 * its own, or while a tap is set, it takes its turn as qt_stream_push does. */
QT_API enum qt_status qt_stream_push_beside(struct qt_session * session, const int32_t * codes, int n_frames, float * samples);
/* Reset, then take in the frames of a reference without giving their samples. The context keeps the states of the last references (by a hash
 * of their codes), so a second priming with the same one copies the state; *reused says whether it did. reused may be NULL. */
QT_API enum qt_status qt_stream_prime(struct qt_session * session, const int32_t * codes, int n_frames, bool * reused);

/* --- hearing: base models' encoders; their weights are first touched here --- */

/* Mono samples at facts.sample_rate -> codes [n_code_groups, *n_frames], *n_frames = ceil(n_samples / hop_samples), the last frame padded with
 * zeros; capacity_frames is what codes has room for. */
QT_API enum qt_status qt_codec_encode(struct qt_session * session, const float * samples, int n_samples, int32_t * codes, int capacity_frames,
                                      int * n_frames);
/* Mono samples at 24 kHz -> embedding [speaker_size]. */
QT_API enum qt_status qt_speaker_embed(struct qt_session * session, const float * samples, int n_samples, float * embedding);
/* v4: both of a clip at 24 kHz, cut to whole frames. */
QT_API enum qt_status qt_extract_voice_ref(struct qt_context * ctx, const float * ref_audio_24k, int ref_n_samples, struct qt_voice_ref * out);
QT_API void qt_voice_ref_free(struct qt_voice_ref * ref); /* v4: frees both arrays and zeroes the struct */

/* cdef: end */

/* The caller's own version and size go along, so a library can refuse a layout it does not know. */
#define qt_init_default_params(params) qt_init_params_fill((params), QT_ABI_VERSION, sizeof(struct qt_init_params))

#ifdef __cplusplus
}
#endif

#endif
