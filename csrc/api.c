/* api.c - library and context entries of qwentts.h: check the arguments, call, answer with status and text. Files: api_file.c; sessions:
 * api_session.c. */
#include "context.h"
#include "log.h"
#include "memory.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#define V4_SIZE offsetof(struct qt_init_params, n_threads) /* bytes of version 4's fields */
#define V5_SIZE offsetof(struct qt_init_params, kv_type)
#define MAX_THREADS 4096

const char * qt_version(void) {
#if defined(__VERSION__)
    return QT_VERSION " (interface 4-6, compiler " __VERSION__ ")";
#else
    return QT_VERSION " (interface 4-6)";
#endif
}
_Static_assert(QT_ABI_VERSION == 6 && QT_ABI_MIN_VERSION == 4, "qt_version names the range");

const char * qt_last_error(void) {
    return error_text();
}

void qt_log_set(qt_log_cb callback, void * user_data) {
    log_set(callback, user_data);
}

void qt_trim_memory(void) {
    memory_trim();
}

int qt_abi_version(void) {
    return QT_ABI_VERSION;
}

int qt_abi_min_version(void) {
    return QT_ABI_MIN_VERSION;
}

size_t qt_struct_size(const char * name) {
    static const struct { const char * name; size_t size; } sizes[] = {
        { "qt_init_params", sizeof(struct qt_init_params) }, { "qt_audio", sizeof(struct qt_audio) },
        { "qt_facts", sizeof(struct qt_facts) },             { "qt_value", sizeof(struct qt_value) },
        { "qt_tensor_info", sizeof(struct qt_tensor_info) }, { "qt_voice_ref", sizeof(struct qt_voice_ref) },
        { "qt_sampling", sizeof(struct qt_sampling) },
    };
    for (size_t i = 0; name && i < sizeof sizes / sizeof *sizes; i++) {
        if (strcmp(name, sizes[i].name) == 0) {
            return sizes[i].size;
        }
    }
    return 0;
}

static enum qt_status check_version(const char * who, int version) {
    if (version < QT_ABI_MIN_VERSION || version > QT_ABI_VERSION) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: abi_version is %d, this library accepts %d to %d", who, version, QT_ABI_MIN_VERSION, QT_ABI_VERSION);
    }
    return QT_STATUS_OK;
}

static size_t fields_size(int version) {
    return version == 4 ? V4_SIZE : version == 5 ? V5_SIZE : sizeof(struct qt_init_params);
}

static void fill_defaults(struct qt_init_params * params, int version) {
    params->abi_version = version;
    params->talker_path = NULL;
    params->codec_path = NULL;
    params->use_fa = true;
    params->clamp_fp16 = false;
    params->max_batch = 1;
    params->codec_chunk_sec = 24.0f;
    if (version >= 5) {
        params->n_threads = 0;
        params->backend = NULL;
    }
    if (version >= 6) {
        params->kv_type = QT_KV_F16;
    }
}

enum qt_status qt_init_params_fill(struct qt_init_params * params, int abi_version, size_t struct_size) {
    QT_REQUIRE(params);
    QT_TRY(check_version(__func__, abi_version));
    /* A version's struct ends after its last field, padded to the alignment of its pointers. */
    size_t n_bytes = fields_size(abi_version), align = _Alignof(struct qt_init_params);
    size_t expected = (n_bytes + align - 1) / align * align;
    if (struct_size != expected) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: struct_size is %zu, version %d has %zu", __func__, struct_size, abi_version, expected);
    }
    fill_defaults(params, abi_version);
    return QT_STATUS_OK;
}

#undef qt_init_default_params
void qt_init_default_params(struct qt_init_params * params) {
    if (params) {
        fill_defaults(params, 4);
    }
}

static enum qt_status init(const struct qt_init_params * given, struct qt_context ** context) {
    if (!given) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "qt_init: params is NULL");
    }
    QT_TRY(check_version("qt_init", given->abi_version));
    struct qt_init_params params = { 0 };
    memcpy(&params, given, fields_size(given->abi_version));
    if (!params.talker_path && !params.codec_path) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "qt_init: talker_path and codec_path are both NULL, at least one is needed");
    }
    if (params.max_batch != 1) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "qt_init: max_batch is %d, valid: 1", params.max_batch);
    }
    if (!isfinite(params.codec_chunk_sec) || params.codec_chunk_sec <= 0) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "qt_init: codec_chunk_sec is %g, valid: finite and over 0", (double) params.codec_chunk_sec);
    }
    if (params.n_threads < 0 || params.n_threads > MAX_THREADS) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "qt_init: n_threads is %d, valid: 0 (all) to %d", params.n_threads, MAX_THREADS);
    }
    if (params.kv_type != QT_KV_F16 && params.kv_type != QT_KV_F32) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "qt_init: kv_type is %d, valid: 0 (f16), 1 (f32)", params.kv_type);
    }
    return context_new(&params, context);
}

struct qt_context * qt_init(const struct qt_init_params * params) {
    struct qt_context * context = NULL;
    enum qt_status status = init(params, &context);
    if (status != QT_STATUS_OK) {
        log_write(QT_LOG_ERROR, "%s", error_text());
    }
    return context;
}

void qt_free(struct qt_context * ctx) {
    context_free(ctx);
}

const char * qt_backend_name(const struct qt_context * ctx) {
    return ctx ? ctx->backend_name : "";
}

enum qt_status qt_facts_get(const struct qt_context * ctx, struct qt_facts * facts, size_t struct_size) {
    QT_REQUIRE(ctx);
    QT_REQUIRE(facts);
    if (struct_size == 0 || struct_size > sizeof *facts) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: struct_size is %zu, valid: 1 to %zu", __func__, struct_size, sizeof *facts);
    }
    memcpy(facts, &ctx->facts, struct_size);
    return QT_STATUS_OK;
}

const struct qt_file * qt_context_file(const struct qt_context * ctx, enum qt_file_kind kind) {
    if (!ctx) {
        return NULL;
    }
    return kind == QT_FILE_TALKER ? ctx->talker_file : kind == QT_FILE_CODEC ? ctx->codec_file : NULL;
}

int qt_num_codebooks(const struct qt_context * ctx) {
    return ctx ? ctx->facts.n_code_groups : 0;
}

int qt_duration_sec_to_tokens(const struct qt_context * ctx, float sec) {
    if (!ctx || !ctx->facts.hop_samples || !(sec > 0)) {
        return 0;
    }
    double frames = ceil((double) sec * ctx->facts.sample_rate / ctx->facts.hop_samples);
    return frames < INT_MAX ? (int) frames : INT_MAX;
}

int qt_n_speakers(const struct qt_context * ctx) {
    return ctx ? ctx->n_speakers : 0;
}

const char * qt_speaker_name(const struct qt_context * ctx, int index) {
    return ctx && index >= 0 && index < ctx->n_speakers ? ctx->speakers[index] : NULL;
}
