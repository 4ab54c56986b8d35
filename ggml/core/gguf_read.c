/* gguf_read.c - GGUF files, versions 2 and 3: header and key-value pairs. The tensor list: gguf_read_tensors.c. The data is left where it is.
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
        for (uint64_t i = 0; type == GGUF_TYPE_BOOL && i < kv->n; i++) {
            if (kv->raw[i] > 1) {
                return reader_fail(r, "%s: a bool is %u, valid are 0 and 1", what, (unsigned) kv->raw[i]);
            }
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

static bool sort_keys(struct gguf_reader * r) {
    struct gguf_context * gguf = r->gguf;
    struct named * names = malloc((gguf->n_kv + 1) * sizeof names[0]);
    if (!names) {
        return reader_fail(r, "no memory to sort %zu keys", gguf->n_kv);
    }
    for (size_t i = 0; i < gguf->n_kv; i++) {
        names[i] = (struct named) { gguf->kv[i].key, i };
    }
    bool ok = reader_sort_names(r, names, gguf->n_kv, gguf->kv_order, "key");
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

/* The lengths of an array's strings and the strings are what raw_bytes says, no more. */
static bool strings_add_up(const struct gguf_kv * kv) {
    size_t at = 0;
    for (uint64_t i = 0; i < kv->n; i++) {
        uint64_t length;
        if (kv->raw_bytes - at < sizeof length) {
            return false;
        }
        memcpy(&length, kv->raw + at, sizeof length);
        at += sizeof length;
        if (length > kv->raw_bytes - at) {
            return false;
        }
        at += (size_t) length;
    }
    return at == kv->raw_bytes;
}

/* Values move to memory of their own: whoever writes to a mapped file, or cuts it, then changes no key, and no length that was checked. */
static bool keep_values(struct gguf_reader * r) {
    struct gguf_context * gguf = r->gguf;
    size_t n_bytes = 0;
    for (size_t i = 0; i < gguf->n_kv; i++) {
        n_bytes += gguf->kv[i].raw_bytes;
    }
    uint8_t * to = gguf->values = malloc(n_bytes ? n_bytes : 1);
    if (!to) {
        return reader_fail(r, "no memory for the %zu bytes of the keys' values", n_bytes);
    }
    for (size_t i = 0; i < gguf->n_kv; i++) {
        struct gguf_kv * kv = &gguf->kv[i];
        memcpy(to, kv->raw, kv->raw_bytes);
        kv->raw = to;
        to += kv->raw_bytes;
        if (kv->arr_type == GGUF_TYPE_STRING && !strings_add_up(kv)) {
            return reader_fail(r, "the file changes while it is read");
        }
    }
    return true;
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
    return tensor_table_read(r);
}

static struct gguf_context * init(struct gguf_context * gguf, const char * source, struct gguf_init_params params, char * error, size_t error_size) {
    struct gguf_reader r = { .gguf = gguf, .source = source, .at = 0, .error = error, .error_size = error_size };
    if (!read_all(&r) || (gguf->file.data && !keep_values(&r)) || (params.ctx && !tensor_records_make(&r, params.ctx))) {
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
