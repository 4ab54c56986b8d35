/* file.c - open a GGUF file and hand out what it holds. The reader below (gguf.h) checks every count and range; the text of its refusal
 * becomes the message here. */
#include "file.h"

#include <stdlib.h>
#include <string.h>

enum qt_status file_open(const char * path, struct qt_file ** file) {
    *file = NULL;
    struct qt_file * opened = calloc(1, sizeof *opened);
    if (!opened) {
        return QT_FAIL(QT_STATUS_OOM, "%s: no memory for the file's handle", path);
    }
    opened->path = strdup(path);
    if (!opened->path) {
        file_free(opened);
        return QT_FAIL(QT_STATUS_OOM, "%s: no memory for the file's path", path);
    }
    char reason[512] = "";
    struct gguf_init_params params = { .no_alloc = true, .ctx = &opened->tensors };
    opened->gguf = gguf_init_from_file_err(path, params, reason, sizeof reason);
    if (!opened->gguf) {
        file_free(opened);
        bool named = strstr(reason, path) != NULL;
        bool no_memory = strstr(reason, "no memory") != NULL; /* gguf.h answers in words only */
        return QT_FAIL(no_memory ? QT_STATUS_OOM : QT_STATUS_INVALID_PARAMS, "%s%s%s", named ? "" : path, named ? "" : ": ", reason[0] ? reason : "not a readable GGUF file");
    }
    *file = opened;
    return QT_STATUS_OK;
}

void file_free(struct qt_file * file) {
    if (!file) {
        return;
    }
    ggml_free(file->tensors);
    gguf_free(file->gguf);
    free(file->path);
    free(file);
}

enum qt_status file_check(const struct qt_file * file) {
    char reason[256];
    return gguf_check_file(file->gguf, reason, sizeof reason) ? QT_STATUS_OK : QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: %s", file->path, reason);
}

const void * file_tensor_data(const struct qt_file * file, int64_t index) {
    size_t size = 0;
    const char * base = gguf_get_mapping(file->gguf, &size);
    return base + gguf_get_data_offset(file->gguf) + gguf_get_tensor_offset(file->gguf, index);
}

enum qt_status file_tensor_read(const struct qt_file * file, int64_t index, float * values, int64_t n_values) {
    const int64_t * ne = gguf_get_tensor_ne(file->gguf, index);
    const char * name = gguf_get_tensor_name(file->gguf, index);
    int64_t n_elements = ne[0] * ne[1] * ne[2] * ne[3];
    if (n_values != n_elements) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: n_values is %lld, the tensor has %lld elements", name, (long long) n_values, (long long) n_elements);
    }
    enum ggml_type type = gguf_get_tensor_type(file->gguf, index);
    const struct ggml_type_traits * traits = ggml_get_type_traits(type);
    if (n_elements == 0) {
        return QT_STATUS_OK;
    }
    const void * data = file_tensor_data(file, index);
    if (traits && traits->to_float) {
        traits->to_float(data, values, n_elements);
        return QT_STATUS_OK;
    }
    for (int64_t i = 0; i < n_elements; i++) {
        switch (type) {
            case GGML_TYPE_F32: memcpy(values, data, (size_t) n_elements * sizeof *values); return QT_STATUS_OK;
            case GGML_TYPE_F64: { double v; memcpy(&v, (const char *) data + i * 8, sizeof v); values[i] = (float) v; break; }
            case GGML_TYPE_I8:  values[i] = (float) ((const int8_t *) data)[i]; break;
            case GGML_TYPE_I16: { int16_t v; memcpy(&v, (const char *) data + i * 2, sizeof v); values[i] = (float) v; break; }
            case GGML_TYPE_I32: { int32_t v; memcpy(&v, (const char *) data + i * 4, sizeof v); values[i] = (float) v; break; }
            case GGML_TYPE_I64: { int64_t v; memcpy(&v, (const char *) data + i * 8, sizeof v); values[i] = (float) v; break; }
            default: return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: elements of type %s cannot be read as numbers", name, ggml_type_name(type));
        }
    }
    return QT_STATUS_OK;
}

enum qt_status file_value(const struct qt_file * file, const char * key, struct qt_value * value) {
    int64_t id = gguf_find_key(file->gguf, key);
    if (id < 0) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: the key %s is missing", file->path, key);
    }
    size_t n_bytes = 0;
    const void * data = gguf_get_raw(file->gguf, id, &n_bytes);
    enum gguf_type type = gguf_get_kv_type(file->gguf, id);
    bool is_array = type == GGUF_TYPE_ARRAY;
    *value = (struct qt_value) {
        .type = (int32_t) (is_array ? gguf_get_arr_type(file->gguf, id) : type),
        .is_array = is_array,
        .n = is_array ? (int64_t) gguf_get_arr_n(file->gguf, id) : 1,
        .data = data,
        .n_bytes = (int64_t) n_bytes,
    };
    return QT_STATUS_OK;
}
