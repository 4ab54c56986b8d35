/* gguf_values.c - the facts of a GGUF file that gguf_read.c has checked: keys with their values, tensors with their place. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_context.h"

static const struct {
    const char * name;
    size_t size_bytes;
} types[GGUF_TYPE_COUNT] = {
    [GGUF_TYPE_UINT8] = { "u8", 1 },    [GGUF_TYPE_INT8] = { "i8", 1 },    [GGUF_TYPE_UINT16] = { "u16", 2 },  [GGUF_TYPE_INT16] = { "i16", 2 },
    [GGUF_TYPE_UINT32] = { "u32", 4 },  [GGUF_TYPE_INT32] = { "i32", 4 },  [GGUF_TYPE_FLOAT32] = { "f32", 4 }, [GGUF_TYPE_BOOL] = { "bool", 1 },
    [GGUF_TYPE_STRING] = { "str", 0 },  [GGUF_TYPE_ARRAY] = { "arr", 0 },  [GGUF_TYPE_UINT64] = { "u64", 8 },  [GGUF_TYPE_INT64] = { "i64", 8 },
    [GGUF_TYPE_FLOAT64] = { "f64", 8 },
};

const char * gguf_type_name(enum gguf_type type) { return (unsigned) type < GGUF_TYPE_COUNT ? types[type].name : NULL; }
size_t gguf_type_bytes(enum gguf_type type) { return (unsigned) type < GGUF_TYPE_COUNT ? types[type].size_bytes : 0; }

void gguf_free(struct gguf_context * ctx) {
    if (!ctx) {
        return;
    }
    for (size_t i = 0; i < ctx->n_kv; i++) {
        free(ctx->kv[i].key);
        free(ctx->kv[i].str);
        free(ctx->kv[i].strings);
    }
    free(ctx->kv);
    free(ctx->values);
    free(ctx->tensors);
    free(ctx->kv_order);
    free(ctx->tensor_order);
    mapped_file_close(&ctx->file);
    free(ctx);
}

bool gguf_check_file(const struct gguf_context * ctx, char * error, size_t error_size) { return mapped_file_check(&ctx->file, error, error_size); }

uint32_t gguf_get_version(const struct gguf_context * ctx) { return ctx->version; }
size_t gguf_get_alignment(const struct gguf_context * ctx) { return ctx->alignment; }
size_t gguf_get_data_offset(const struct gguf_context * ctx) { return ctx->data_offset; }

const void * gguf_get_mapping(const struct gguf_context * ctx, size_t * size) {
    *size = ctx->size_bytes;
    return ctx->bytes;
}

int64_t gguf_get_n_kv(const struct gguf_context * ctx) { return (int64_t) ctx->n_kv; }
int64_t gguf_get_n_tensors(const struct gguf_context * ctx) { return (int64_t) ctx->n_tensors; }

int64_t gguf_find_key(const struct gguf_context * ctx, const char * key) {
    size_t lo = 0;
    size_t hi = ctx->n_kv;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = strcmp(key, ctx->kv[ctx->kv_order[mid]].key);
        if (order == 0) {
            return (int64_t) ctx->kv_order[mid];
        }
        lo = order > 0 ? mid + 1 : lo;
        hi = order < 0 ? mid : hi;
    }
    return -1;
}

int64_t gguf_find_tensor(const struct gguf_context * ctx, const char * name) {
    size_t lo = 0;
    size_t hi = ctx->n_tensors;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = strcmp(name, ctx->tensors[ctx->tensor_order[mid]].name);
        if (order == 0) {
            return (int64_t) ctx->tensor_order[mid];
        }
        lo = order > 0 ? mid + 1 : lo;
        hi = order < 0 ? mid : hi;
    }
    return -1;
}

static const struct gguf_kv * kv_at(const struct gguf_context * ctx, int64_t key_id) {
    GGML_ASSERT(key_id >= 0 && (size_t) key_id < ctx->n_kv);
    return &ctx->kv[key_id];
}

static const struct gguf_tensor_info * tensor_at(const struct gguf_context * ctx, int64_t tensor_id) {
    GGML_ASSERT(tensor_id >= 0 && (size_t) tensor_id < ctx->n_tensors);
    return &ctx->tensors[tensor_id];
}

const char * gguf_get_key(const struct gguf_context * ctx, int64_t key_id) { return kv_at(ctx, key_id)->key; }
enum gguf_type gguf_get_kv_type(const struct gguf_context * ctx, int64_t key_id) { return kv_at(ctx, key_id)->type; }

enum gguf_type gguf_get_arr_type(const struct gguf_context * ctx, int64_t key_id) {
    GGML_ASSERT(kv_at(ctx, key_id)->type == GGUF_TYPE_ARRAY);
    return kv_at(ctx, key_id)->arr_type;
}

size_t gguf_get_arr_n(const struct gguf_context * ctx, int64_t key_id) {
    GGML_ASSERT(kv_at(ctx, key_id)->type == GGUF_TYPE_ARRAY);
    return (size_t) kv_at(ctx, key_id)->n;
}

const void * gguf_get_raw(const struct gguf_context * ctx, int64_t key_id, size_t * n_bytes) {
    *n_bytes = kv_at(ctx, key_id)->raw_bytes;
    return kv_at(ctx, key_id)->raw;
}

static const void * scalar_of(const struct gguf_context * ctx, int64_t key_id, enum gguf_type type) {
    GGML_ASSERT(kv_at(ctx, key_id)->type == type);
    return kv_at(ctx, key_id)->raw;
}

/* Values lie unaligned in the file, hence the copies. */
uint8_t gguf_get_val_u8(const struct gguf_context * ctx, int64_t key_id) {
    return *(const uint8_t *) scalar_of(ctx, key_id, GGUF_TYPE_UINT8);
}

uint32_t gguf_get_val_u32(const struct gguf_context * ctx, int64_t key_id) {
    uint32_t value;
    memcpy(&value, scalar_of(ctx, key_id, GGUF_TYPE_UINT32), sizeof value);
    return value;
}

int32_t gguf_get_val_i32(const struct gguf_context * ctx, int64_t key_id) {
    int32_t value;
    memcpy(&value, scalar_of(ctx, key_id, GGUF_TYPE_INT32), sizeof value);
    return value;
}

uint64_t gguf_get_val_u64(const struct gguf_context * ctx, int64_t key_id) {
    uint64_t value;
    memcpy(&value, scalar_of(ctx, key_id, GGUF_TYPE_UINT64), sizeof value);
    return value;
}

float gguf_get_val_f32(const struct gguf_context * ctx, int64_t key_id) {
    float value;
    memcpy(&value, scalar_of(ctx, key_id, GGUF_TYPE_FLOAT32), sizeof value);
    return value;
}

bool gguf_get_val_bool(const struct gguf_context * ctx, int64_t key_id) {
    return *(const uint8_t *) scalar_of(ctx, key_id, GGUF_TYPE_BOOL) != 0;
}

const char * gguf_get_val_str(const struct gguf_context * ctx, int64_t key_id) {
    GGML_ASSERT(kv_at(ctx, key_id)->type == GGUF_TYPE_STRING);
    return kv_at(ctx, key_id)->str;
}

/* One block: n pointers, then the texts. An array of n strings takes at least 8 n bytes of the file, so this is in proportion to it. */
static char ** copy_strings(const struct gguf_kv * kv) {
    size_t n = (size_t) kv->n;
    char ** strings = malloc(n * sizeof strings[0] + (kv->raw_bytes - 8 * n) + n);
    if (!strings) {
        return NULL;
    }
    char * to = (char *) (strings + n);
    const uint8_t * from = kv->raw;
    for (size_t i = 0; i < n; i++) {
        uint64_t length;
        memcpy(&length, from, sizeof length);
        memcpy(to, from + 8, (size_t) length);
        to[length] = 0;
        strings[i] = to;
        to += length + 1;
        from += 8 + length;
    }
    return strings;
}

const char * gguf_get_arr_str(const struct gguf_context * ctx, int64_t key_id, size_t i) {
    struct gguf_kv * kv = (struct gguf_kv *) kv_at(ctx, key_id); /* a cache; two threads may fill it at once, one copy stays */
    GGML_ASSERT(kv->type == GGUF_TYPE_ARRAY && kv->arr_type == GGUF_TYPE_STRING && i < kv->n);
    char ** strings = kv->strings;
    if (!strings) {
        char ** made = copy_strings(kv);
        if (!made) {
            return NULL;
        }
        if (atomic_compare_exchange_strong(&kv->strings, &strings, made)) {
            strings = made;
        } else {
            free(made);
        }
    }
    return strings[i];
}

const char * gguf_get_tensor_name(const struct gguf_context * ctx, int64_t tensor_id) { return tensor_at(ctx, tensor_id)->name; }
enum ggml_type gguf_get_tensor_type(const struct gguf_context * ctx, int64_t tensor_id) { return tensor_at(ctx, tensor_id)->type; }
const int64_t * gguf_get_tensor_ne(const struct gguf_context * ctx, int64_t tensor_id) { return tensor_at(ctx, tensor_id)->ne; }
int gguf_get_tensor_n_dims(const struct gguf_context * ctx, int64_t tensor_id) { return tensor_at(ctx, tensor_id)->n_dims; }
size_t gguf_get_tensor_size(const struct gguf_context * ctx, int64_t tensor_id) { return tensor_at(ctx, tensor_id)->size_bytes; }
size_t gguf_get_tensor_offset(const struct gguf_context * ctx, int64_t tensor_id) { return (size_t) tensor_at(ctx, tensor_id)->offset; }
