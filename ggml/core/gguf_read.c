/* gguf_read.c - GGUF files, versions 2 and 3: header, key-value pairs, tensor list. The data itself is left where it is.
 * magic, version, n_tensors, n_kv -> pairs -> tensor infos -> padding -> data. The bytes are hostile until checked: a length is compared with what
 * is left of the file before it is used, memory taken is in proportion to bytes present, and a refusal names the place and both values.
 * Upstream counterpart: gguf.cpp. The values are handed out by gguf_values.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_reader.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#  error "GGUF files are little-endian and used in place"
#endif

#define HEADER_BYTES 24 /* magic, version, two counts */
#define DEFAULT_ALIGNMENT 32
#define MIN_ALIGNMENT 8
#define MAX_ALIGNMENT 65536
#define MAX_KEY_BYTES 65535
#define MIN_KV_BYTES 14     /* key length 8, key 1, type 4, value 1 */
#define MIN_TENSOR_BYTES 25 /* name length 8, name 1, n_dims 4, type 4, offset 8 */

static bool read_header(struct gguf_reader * r) {
    struct gguf_context * gguf = r->gguf;
    uint8_t magic[4];
    uint64_t n_tensors, n_kv;
    if (gguf->size_bytes >= sizeof magic) {
        reader_bytes(r, magic, sizeof magic, "magic");
        if (memcmp(magic, "GGUF", sizeof magic) != 0) {
            return reader_fail(r, "not a GGUF file: first bytes are %02x %02x %02x %02x, expected 47 47 55 46", magic[0], magic[1], magic[2], magic[3]);
        }
    }
    if (gguf->size_bytes < HEADER_BYTES) {
        return reader_fail(r, "file of %zu bytes is too short for a GGUF header of %d", gguf->size_bytes, HEADER_BYTES);
    }
    reader_u32(r, &gguf->version, "version");
    if (gguf->version != 0 && (gguf->version & 0xffffu) == 0) {
        return reader_fail(r, "GGUF version field is 0x%08" PRIx32 ": a big-endian file, only little-endian is supported", gguf->version);
    }
    if (gguf->version < 2 || gguf->version > 3) {
        return reader_fail(r, "GGUF version is %" PRIu32 ", supported are 2 and 3", gguf->version);
    }
    reader_u64(r, &n_tensors, "tensor count");
    reader_u64(r, &n_kv, "key count");
    if (n_kv > reader_left(r) / MIN_KV_BYTES) {
        return reader_fail(r, "key count %" PRIu64 " does not fit the %zu bytes left", n_kv, reader_left(r));
    }
    if (n_tensors > reader_left(r) / MIN_TENSOR_BYTES) {
        return reader_fail(r, "tensor count %" PRIu64 " does not fit the %zu bytes left", n_tensors, reader_left(r));
    }
    gguf->kv = calloc(n_kv ? (size_t) n_kv : 1, sizeof gguf->kv[0]);
    gguf->tensors = calloc(n_tensors ? (size_t) n_tensors : 1, sizeof gguf->tensors[0]);
    gguf->kv_order = calloc(n_kv ? (size_t) n_kv : 1, sizeof gguf->kv_order[0]);
    gguf->tensor_order = calloc(n_tensors ? (size_t) n_tensors : 1, sizeof gguf->tensor_order[0]);
    if (!gguf->kv || !gguf->tensors || !gguf->kv_order || !gguf->tensor_order) {
        return reader_fail(r, "no memory for %" PRIu64 " keys and %" PRIu64 " tensors", n_kv, n_tensors);
    }
    gguf->n_kv = (size_t) n_kv;
    gguf->n_tensors = (size_t) n_tensors;
    return true;
}

/* Step over the value that starts at r->at: kv->n elements of type. what names the key. */
static bool skip_value(struct gguf_reader * r, struct gguf_kv * kv, enum gguf_type type, const char * what) {
    kv->raw = r->gguf->bytes + r->at;
    size_t start = r->at;
    size_t element = gguf_type_bytes(type);
    if (type == GGUF_TYPE_STRING) {
        if (kv->n > reader_left(r) / 8) {
            return reader_fail(r, "%s: %" PRIu64 " strings do not fit the %zu bytes left", what, kv->n, reader_left(r));
        }
        for (uint64_t i = 0; i < kv->n; i++) {
            const char * text;
            size_t n;
            if (!reader_string(r, &text, &n, what)) {
                return false;
            }
        }
    } else {
        if (kv->n > reader_left(r) / element) {
            return reader_fail(r, "%s: %" PRIu64 " values of %zu bytes do not fit the %zu bytes left", what, kv->n, element, reader_left(r));
        }
        r->at += (size_t) kv->n * element;
    }
    kv->raw_bytes = r->at - start;
    return true;
}

static bool read_kv(struct gguf_reader * r, struct gguf_kv * kv, size_t index) {
    char what[128];
    const char * key;
    size_t key_bytes;
    uint32_t type;
    snprintf(what, sizeof what, "key %zu", index);
    if (!reader_string(r, &key, &key_bytes, what)) {
        return false;
    }
    if (key_bytes == 0 || key_bytes > MAX_KEY_BYTES) {
        return reader_fail(r, "%s has a name of %zu bytes, valid are 1 to %d", what, key_bytes, MAX_KEY_BYTES);
    }
    if (memchr(key, 0, key_bytes)) {
        return reader_fail(r, "%s has a zero byte in its name", what);
    }
    kv->key = reader_copy_text(key, key_bytes);
    if (!kv->key) {
        return reader_fail(r, "no memory for the %zu bytes of %s", key_bytes, what);
    }
    char name[96];
    reader_printable(name, sizeof name, key, key_bytes);
    snprintf(what, sizeof what, "key \"%s\"", name);
    if (!reader_u32(r, &type, what)) {
        return false;
    }
    if (type >= GGUF_TYPE_COUNT) {
        return reader_fail(r, "%s has type %" PRIu32 ", valid are 0 to %d", what, type, GGUF_TYPE_COUNT - 1);
    }
    kv->type = (enum gguf_type) type;
    kv->arr_type = GGUF_TYPE_COUNT;
    kv->n = 1;
    if (kv->type != GGUF_TYPE_ARRAY) {
        if (!skip_value(r, kv, kv->type, what)) {
            return false;
        }
        if (kv->type == GGUF_TYPE_STRING) {
            kv->str = reader_copy_text((const char *) kv->raw + 8, kv->raw_bytes - 8);
            if (!kv->str) {
                return reader_fail(r, "%s: no memory for %zu bytes", what, kv->raw_bytes);
            }
        }
        return true;
    }
    if (!reader_u32(r, &type, what) || !reader_u64(r, &kv->n, what)) {
        return false;
    }
    if (type >= GGUF_TYPE_COUNT || type == GGUF_TYPE_ARRAY) {
        return reader_fail(r, "%s is an array of type %" PRIu32 ", valid are 0 to %d except %d", what, type, GGUF_TYPE_COUNT - 1, GGUF_TYPE_ARRAY);
    }
    kv->arr_type = (enum gguf_type) type;
    return skip_value(r, kv, kv->arr_type, what);
}

/* qsort has no argument for the table, so the compared entries are pairs of a name and its index. */
struct named {
    const char * name;
    size_t index;
};

static int compare_named(const void * a, const void * b) {
    const struct named * x = a;
    const struct named * y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* Fill order with the indices sorted by name; two equal names are refused. */
static bool sort_names(struct gguf_reader * r, struct named * names, size_t n, size_t * order, const char * kind) {
    qsort(names, n, sizeof names[0], compare_named);
    for (size_t i = 0; i < n; i++) {
        order[i] = names[i].index;
        if (i > 0 && strcmp(names[i - 1].name, names[i].name) == 0) {
            char name[96];
            reader_printable(name, sizeof name, names[i].name, strlen(names[i].name));
            return reader_fail(r, "%s \"%s\" appears twice, as number %zu and %zu", kind, name, names[i - 1].index, names[i].index);
        }
    }
    return true;
}

static bool sort_keys(struct gguf_reader * r) {
    struct gguf_context * gguf = r->gguf;
    struct named * names = malloc((gguf->n_kv + 1) * sizeof names[0]);
    if (!names) {
        return reader_fail(r, "no memory to sort %zu keys", gguf->n_kv);
    }
    for (size_t i = 0; i < gguf->n_kv; i++) {
        names[i] = (struct named) { gguf->kv[i].key, i };
    }
    bool ok = sort_names(r, names, gguf->n_kv, gguf->kv_order, "key");
    free(names);
    return ok;
}

static bool sort_tensors(struct gguf_reader * r) {
    struct gguf_context * gguf = r->gguf;
    struct named * names = malloc((gguf->n_tensors + 1) * sizeof names[0]);
    if (!names) {
        return reader_fail(r, "no memory to sort %zu tensors", gguf->n_tensors);
    }
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        names[i] = (struct named) { gguf->tensors[i].name, i };
    }
    bool ok = sort_names(r, names, gguf->n_tensors, gguf->tensor_order, "tensor");
    free(names);
    return ok;
}

static bool read_alignment(struct gguf_reader * r) {
    struct gguf_context * gguf = r->gguf;
    gguf->alignment = DEFAULT_ALIGNMENT;
    int64_t id = gguf_find_key(gguf, "general.alignment");
    if (id < 0) {
        return true;
    }
    if (gguf->kv[id].type != GGUF_TYPE_UINT32) {
        return reader_fail(r, "key \"general.alignment\" has type %s, expected u32", gguf_type_name(gguf->kv[id].type));
    }
    uint32_t value = gguf_get_val_u32(gguf, id);
    if (value < MIN_ALIGNMENT || value > MAX_ALIGNMENT || (value & (value - 1)) != 0) {
        return reader_fail(r, "key \"general.alignment\" is %" PRIu32 ", expected a power of two in %d..%d", value, MIN_ALIGNMENT, MAX_ALIGNMENT);
    }
    gguf->alignment = value;
    return true;
}

/* Bytes of the tensor; false when its shape does not fit its type or the file. */
static bool tensor_bytes(struct gguf_reader * r, struct gguf_tensor_info * t, const char * what) {
    const struct ggml_type_traits * traits = ggml_get_type_traits(t->type);
    if (t->ne[0] % traits->blck_size != 0) {
        return reader_fail(r, "%s: rows of %" PRId64 " elements are no multiple of the %" PRId64 " in a block of %s", what, t->ne[0], traits->blck_size,
                    traits->type_name);
    }
    uint64_t limit = r->gguf->size_bytes;
    uint64_t bytes = traits->type_size;
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        uint64_t n = (uint64_t) (i == 0 ? t->ne[0] / traits->blck_size : t->ne[i]);
        if (n > limit / bytes) {
            return reader_fail(r, "%s: shape %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64 " of %s is larger than the file of %zu bytes", what, t->ne[0],
                        t->ne[1], t->ne[2], t->ne[3], traits->type_name, r->gguf->size_bytes);
        }
        bytes *= n;
    }
    t->size_bytes = (size_t) bytes;
    return true;
}

static bool read_tensor(struct gguf_reader * r, struct gguf_tensor_info * t, size_t index) {
    char what[128];
    const char * name;
    size_t name_bytes;
    uint32_t n_dims, type;
    snprintf(what, sizeof what, "tensor %zu", index);
    if (!reader_string(r, &name, &name_bytes, what)) {
        return false;
    }
    if (name_bytes == 0 || name_bytes >= GGML_MAX_NAME) {
        return reader_fail(r, "%s has a name of %zu bytes, valid are 1 to %d", what, name_bytes, GGML_MAX_NAME - 1);
    }
    if (memchr(name, 0, name_bytes)) {
        return reader_fail(r, "%s has a zero byte in its name", what);
    }
    memcpy(t->name, name, name_bytes);
    char shown[96];
    reader_printable(shown, sizeof shown, name, name_bytes);
    snprintf(what, sizeof what, "tensor \"%s\"", shown);
    if (!reader_u32(r, &n_dims, what)) {
        return false;
    }
    if (n_dims > GGML_MAX_DIMS) {
        return reader_fail(r, "%s has %" PRIu32 " dimensions, at most %d are supported", what, n_dims, GGML_MAX_DIMS);
    }
    t->n_dims = (int) n_dims;
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        uint64_t ne = 1;
        if (i < t->n_dims && !reader_u64(r, &ne, what)) {
            return false;
        }
        if (ne == 0 || ne > INT64_MAX) {
            return reader_fail(r, "%s: dimension %d is %" PRIu64 ", valid are 1 to %" PRId64, what, i, ne, INT64_MAX);
        }
        t->ne[i] = (int64_t) ne;
    }
    if (!reader_u32(r, &type, what) || !reader_u64(r, &t->offset, what)) {
        return false;
    }
    t->type = (enum ggml_type) type;
    if (type >= GGML_TYPE_COUNT || !ggml_get_type_traits(t->type) || t->type == GGML_TYPE_Q8_K) {
        return reader_fail(r, "%s has type number %" PRIu32 ", which is not a supported tensor type", what, type);
    }
    if (t->offset % r->gguf->alignment != 0) {
        return reader_fail(r, "%s: offset %" PRIu64 " is no multiple of the alignment %zu", what, t->offset, r->gguf->alignment);
    }
    return tensor_bytes(r, t, what);
}

static int compare_offsets(const void * a, const void * b) {
    const struct gguf_tensor_info * x = *(const struct gguf_tensor_info * const *) a;
    const struct gguf_tensor_info * y = *(const struct gguf_tensor_info * const *) b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Each tensor lies inside the data, and no two share bytes. */
static bool check_ranges(struct gguf_reader * r) {
    struct gguf_context * gguf = r->gguf;
    size_t data_bytes = gguf->size_bytes - gguf->data_offset;
    const struct gguf_tensor_info ** sorted = malloc((gguf->n_tensors + 1) * sizeof sorted[0]);
    if (!sorted) {
        return reader_fail(r, "no memory to sort %zu tensors", gguf->n_tensors);
    }
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        sorted[i] = &gguf->tensors[i];
    }
    qsort(sorted, gguf->n_tensors, sizeof sorted[0], compare_offsets);
    char name[GGML_MAX_NAME];
    char other[GGML_MAX_NAME];
    bool ok = true;
    for (size_t i = 0; i < gguf->n_tensors && ok; i++) {
        const struct gguf_tensor_info * t = sorted[i];
        const struct gguf_tensor_info * before = i > 0 ? sorted[i - 1] : NULL;
        reader_printable(name, sizeof name, t->name, strlen(t->name));
        if (t->offset > data_bytes || t->size_bytes > data_bytes - t->offset) {
            ok = reader_fail(r, "tensor \"%s\": %zu bytes at offset %" PRIu64 " reach past the %zu bytes of data: the file is truncated or broken", name,
                             t->size_bytes, t->offset, data_bytes);
        } else if (before && t->offset - before->offset < before->size_bytes) {
            reader_printable(other, sizeof other, before->name, strlen(before->name));
            ok = reader_fail(r, "tensor \"%s\" at offset %" PRIu64 " overlaps tensor \"%s\" of %zu bytes at offset %" PRIu64, name, t->offset, other,
                             before->size_bytes, before->offset);
        }
    }
    free(sorted);
    return ok;
}

static bool read_all(struct gguf_reader * r) {
    struct gguf_context * gguf = r->gguf;
    if (!read_header(r)) {
        return false;
    }
    for (size_t i = 0; i < gguf->n_kv; i++) {
        if (!read_kv(r, &gguf->kv[i], i)) {
            return false;
        }
    }
    if (!sort_keys(r) || !read_alignment(r)) {
        return false;
    }
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        if (!read_tensor(r, &gguf->tensors[i], i)) {
            return false;
        }
    }
    if (!sort_tensors(r)) {
        return false;
    }
    size_t padding = (gguf->alignment - r->at % gguf->alignment) % gguf->alignment;
    if (gguf->n_tensors > 0 && padding > reader_left(r)) {
        return reader_fail(r, "file ends at byte %zu before its data, which starts at %zu", gguf->size_bytes, r->at + padding);
    }
    gguf->data_offset = r->at + (padding < reader_left(r) ? padding : reader_left(r));
    return check_ranges(r);
}

/* A tensor record for each of the file's, without data. */
static bool make_tensors(struct gguf_reader * r, struct ggml_context ** out) {
    struct gguf_context * gguf = r->gguf;
    struct ggml_init_params params = { .mem_size = gguf->n_tensors * ggml_tensor_overhead(), .mem_buffer = NULL, .no_alloc = true };
    struct ggml_context * ctx = ggml_init(params);
    if (!ctx) {
        return reader_fail(r, "no memory for %zu tensor records", gguf->n_tensors);
    }
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        const struct gguf_tensor_info * t = &gguf->tensors[i];
        struct ggml_tensor * made = ggml_new_tensor(ctx, t->type, GGML_MAX_DIMS, t->ne);
        if (!made) {
            ggml_free(ctx);
            return reader_fail(r, "no memory for the record of tensor \"%s\"", t->name);
        }
        ggml_set_name(made, t->name);
    }
    *out = ctx;
    return true;
}

static struct gguf_context * init(struct gguf_context * gguf, const char * source, struct gguf_init_params params, char * error, size_t error_size) {
    struct gguf_reader r = { .gguf = gguf, .source = source, .at = 0, .error = error, .error_size = error_size };
    if (!read_all(&r) || (params.ctx && !make_tensors(&r, params.ctx))) {
        gguf_free(gguf);
        return NULL;
    }
    return gguf;
}

static struct gguf_context * start(struct gguf_init_params params, const char * source, char * error, size_t error_size) {
    GGML_ASSERT(params.no_alloc);
    if (params.ctx) {
        *params.ctx = NULL;
    }
    if (error_size > 0) {
        error[0] = 0;
    }
    struct gguf_context * gguf = calloc(1, sizeof *gguf);
    if (!gguf) {
        snprintf(error, error_size, "%s: no memory", source);
    }
    return gguf;
}

struct gguf_context * gguf_init_from_file_err(const char * fname, struct gguf_init_params params, char * error, size_t error_size) {
    struct gguf_context * gguf = start(params, fname, error, error_size);
    if (!gguf) {
        return NULL;
    }
    if (!mapped_file_open(&gguf->file, fname, error, error_size)) {
        gguf_free(gguf);
        return NULL;
    }
    gguf->bytes = gguf->file.data;
    gguf->size_bytes = gguf->file.size_bytes;
    return init(gguf, fname, params, error, error_size);
}

struct gguf_context * gguf_init_from_file(const char * fname, struct gguf_init_params params) {
    char error[1024];
    struct gguf_context * gguf = gguf_init_from_file_err(fname, params, error, sizeof error);
    if (!gguf) {
        ggml_log_internal(GGML_LOG_LEVEL_ERROR, "%s", error);
    }
    return gguf;
}

struct gguf_context * gguf_init_from_buffer_err(const void * data, size_t size, struct gguf_init_params params, char * error, size_t error_size) {
    struct gguf_context * gguf = start(params, "buffer", error, error_size);
    if (!gguf) {
        return NULL;
    }
    gguf->bytes = data;
    gguf->size_bytes = size;
    return init(gguf, "buffer", params, error, error_size);
}
