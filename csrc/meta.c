/* meta.c - typed reading of a file's keys; see meta.h. Values are unaligned in the mapping, so they are copied out. */
#include "meta.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FAIL_ONCE(meta, code, ...) do { if ((meta)->status == QT_STATUS_OK) (meta)->status = QT_FAIL((code), __VA_ARGS__); } while (0)

bool meta_has(const struct meta * meta, const char * key) {
    return gguf_find_key(meta->file->gguf, key) >= 0;
}

static bool find(struct meta * meta, const char * key, bool is_array, struct qt_value * value) {
    if (meta->status != QT_STATUS_OK) {
        return false;
    }
    meta->status = file_value(meta->file, key, value);
    if (meta->status == QT_STATUS_OK && value->is_array != is_array) {
        FAIL_ONCE(meta, QT_STATUS_INVALID_PARAMS, "%s: the key %s is %s, expected %s", meta->file->path, key,
                  value->is_array ? "an array" : "a single value", is_array ? "an array" : "a single value");
    }
    return meta->status == QT_STATUS_OK;
}

int64_t meta_length(struct meta * meta, const char * key) {
    struct qt_value value;
    return meta_has(meta, key) && find(meta, key, true, &value) ? value.n : 0;
}

/* Element i as an integer; false when the type is none. Values over int64 saturate, which every range check below refuses. */
static bool integer_at(const struct qt_value * value, int64_t i, int64_t * out) {
    const unsigned char * p = value->data;
    union { int16_t i16; uint16_t u16; int32_t i32; uint32_t u32; int64_t i64; uint64_t u64; } v;
    switch ((enum gguf_type) value->type) {
        case GGUF_TYPE_UINT8:  *out = p[i]; return true;
        case GGUF_TYPE_INT8:   *out = (int8_t) p[i]; return true;
        case GGUF_TYPE_UINT16: memcpy(&v, p + 2 * i, 2); *out = v.u16; return true;
        case GGUF_TYPE_INT16:  memcpy(&v, p + 2 * i, 2); *out = v.i16; return true;
        case GGUF_TYPE_UINT32: memcpy(&v, p + 4 * i, 4); *out = v.u32; return true;
        case GGUF_TYPE_INT32:  memcpy(&v, p + 4 * i, 4); *out = v.i32; return true;
        case GGUF_TYPE_INT64:  memcpy(&v, p + 8 * i, 8); *out = v.i64; return true;
        case GGUF_TYPE_UINT64: memcpy(&v, p + 8 * i, 8); *out = v.u64 > INT64_MAX ? INT64_MAX : (int64_t) v.u64; return true;
        default: return false;
    }
}

static int32_t checked_int(struct meta * meta, const char * key, const struct qt_value * value, int64_t i, int32_t lo, int32_t hi) {
    int64_t number = 0;
    if (!integer_at(value, i, &number)) {
        const char * type = gguf_type_name((enum gguf_type) value->type);
        FAIL_ONCE(meta, QT_STATUS_INVALID_PARAMS, "%s: the key %s is of type %s, expected an integer", meta->file->path, key, type ? type : "unknown");
        return 0;
    }
    if (number < lo || number > hi) {
        FAIL_ONCE(meta, QT_STATUS_INVALID_PARAMS, "%s: the key %s is %lld, valid: %d to %d", meta->file->path, key, (long long) number, (int) lo, (int) hi);
        return 0;
    }
    return (int32_t) number;
}

int32_t meta_int(struct meta * meta, const char * key, int32_t lo, int32_t hi) {
    struct qt_value value;
    return find(meta, key, false, &value) ? checked_int(meta, key, &value, 0, lo, hi) : 0;
}

float meta_float(struct meta * meta, const char * key, double lo, double hi) {
    struct qt_value value;
    if (!find(meta, key, false, &value)) {
        return 0;
    }
    double number = 0;
    int64_t whole = 0;
    if (value.type == GGUF_TYPE_FLOAT32) {
        float f;
        memcpy(&f, value.data, sizeof f);
        number = f;
    } else if (value.type == GGUF_TYPE_FLOAT64) {
        memcpy(&number, value.data, sizeof number);
    } else if (integer_at(&value, 0, &whole)) {
        number = (double) whole;
    } else {
        const char * type = gguf_type_name((enum gguf_type) value.type);
        FAIL_ONCE(meta, QT_STATUS_INVALID_PARAMS, "%s: the key %s is of type %s, expected a number", meta->file->path, key, type ? type : "unknown");
        return 0;
    }
    if (!(number >= lo && number <= hi)) { /* NaN fails here too */
        FAIL_ONCE(meta, QT_STATUS_INVALID_PARAMS, "%s: the key %s is %g, valid: %g to %g", meta->file->path, key, number, lo, hi);
        return 0;
    }
    return (float) number;
}

int meta_ints(struct meta * meta, const char * key, int32_t * values, int n_max, int32_t lo, int32_t hi) {
    struct qt_value value;
    if (!find(meta, key, true, &value)) {
        return 0;
    }
    if (value.n < 1 || value.n > n_max) {
        FAIL_ONCE(meta, QT_STATUS_INVALID_PARAMS, "%s: the key %s has %lld elements, valid: 1 to %d", meta->file->path, key, (long long) value.n, n_max);
        return 0;
    }
    for (int i = 0; i < (int) value.n; i++) {
        int32_t checked = checked_int(meta, key, &value, i, lo, hi);
        if (values) {
            values[i] = checked;
        }
    }
    return meta->status == QT_STATUS_OK ? (int) value.n : 0;
}

int meta_strings(struct meta * meta, const char * key, int n_max, char *** strings) {
    *strings = NULL;
    struct qt_value value;
    if (!find(meta, key, true, &value)) {
        return 0;
    }
    if (value.type != GGUF_TYPE_STRING || value.n < 0 || value.n > n_max) {
        FAIL_ONCE(meta, QT_STATUS_INVALID_PARAMS, "%s: the key %s is no array of up to %d strings", meta->file->path, key, n_max);
        return 0;
    }
    size_t n = (size_t) value.n;
    char ** list = malloc(n * sizeof *list + (size_t) value.n_bytes + n + 1); /* the terminators take the place of the lengths, and some */
    if (!list) {
        FAIL_ONCE(meta, QT_STATUS_OOM, "%s: no memory for the strings of %s", meta->file->path, key);
        return 0;
    }
    char * to = (char *) (list + n);
    const char * from = value.data;
    for (size_t i = 0; i < n; i++) {
        uint64_t length;
        memcpy(&length, from, sizeof length);
        memcpy(to, from + sizeof length, (size_t) length);
        to[length] = '\0';
        list[i] = to;
        to += length + 1;
        from += sizeof length + length;
    }
    *strings = list;
    return (int) n;
}

const char * meta_text(struct meta * meta, const char * key) {
    struct qt_value value;
    if (!find(meta, key, false, &value)) {
        return "";
    }
    if (value.type != GGUF_TYPE_STRING) {
        FAIL_ONCE(meta, QT_STATUS_INVALID_PARAMS, "%s: the key %s is not a text", meta->file->path, key);
        return "";
    }
    const char * text = gguf_get_val_str(meta->file->gguf, gguf_find_key(meta->file->gguf, key));
    return text ? text : "";
}
