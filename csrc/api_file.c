/* api_file.c - file entries of qwentts.h: check the arguments and the index, then answer from the mapping. */
#include "file.h"

enum qt_status qt_file_open(const char * path, struct qt_file ** file) {
    QT_REQUIRE(file);
    *file = NULL;
    QT_REQUIRE(path);
    return file_open(path, file);
}

void qt_file_free(struct qt_file * file) {
    file_free(file);
}

int64_t qt_file_n_keys(const struct qt_file * file) {
    return file ? gguf_get_n_kv(file->gguf) : 0;
}

const char * qt_file_key(const struct qt_file * file, int64_t index) {
    return file && index >= 0 && index < gguf_get_n_kv(file->gguf) ? gguf_get_key(file->gguf, index) : NULL;
}

enum qt_status qt_file_value(const struct qt_file * file, const char * key, struct qt_value * value) {
    QT_REQUIRE(file);
    QT_REQUIRE(key);
    QT_REQUIRE(value);
    return file_value(file, key, value);
}

int64_t qt_file_n_tensors(const struct qt_file * file) {
    return file ? gguf_get_n_tensors(file->gguf) : 0;
}

static enum qt_status check_index(const char * who, const struct qt_file * file, int64_t index) {
    int64_t n = gguf_get_n_tensors(file->gguf);
    if (index < 0 || index >= n) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: index is %lld, the file has %lld tensors", who, (long long) index, (long long) n);
    }
    return QT_STATUS_OK;
}

enum qt_status qt_file_tensor(const struct qt_file * file, int64_t index, struct qt_tensor_info * info) {
    QT_REQUIRE(file);
    QT_REQUIRE(info);
    QT_TRY(check_index(__func__, file, index));
    const int64_t * ne = gguf_get_tensor_ne(file->gguf, index);
    enum ggml_type type = gguf_get_tensor_type(file->gguf, index);
    *info = (struct qt_tensor_info) {
        .name = gguf_get_tensor_name(file->gguf, index),
        .type_name = ggml_type_name(type),
        .type = (int32_t) type,
        .n_dims = gguf_get_tensor_n_dims(file->gguf, index),
        .ne = { ne[0], ne[1], ne[2], ne[3] },
        .n_bytes = (int64_t) gguf_get_tensor_size(file->gguf, index),
    };
    return QT_STATUS_OK;
}

int64_t qt_file_tensor_offset(const struct qt_file * file, int64_t index) {
    if (!file || index < 0 || index >= gguf_get_n_tensors(file->gguf)) {
        return -1;
    }
    return (int64_t) (gguf_get_data_offset(file->gguf) + gguf_get_tensor_offset(file->gguf, index));
}

enum qt_status qt_file_tensor_read(const struct qt_file * file, int64_t index, float * values, int64_t n_values) {
    QT_REQUIRE(file);
    QT_REQUIRE(values);
    QT_TRY(check_index(__func__, file, index));
    QT_TRY(file_check(file));
    return file_tensor_read(file, index, values, n_values);
}

const char * qt_type_name(int32_t type) {
    const struct ggml_type_traits * traits = ggml_get_type_traits((enum ggml_type) type);
    return traits ? traits->type_name : NULL;
}

int64_t qt_row_bytes(int32_t type, int64_t n_per_row) {
    const struct ggml_type_traits * traits = ggml_get_type_traits((enum ggml_type) type);
    if (!traits || n_per_row < 0 || n_per_row % traits->blck_size || n_per_row / traits->blck_size > INT64_MAX / (int64_t) traits->type_size) {
        return -1;
    }
    return n_per_row / traits->blck_size * (int64_t) traits->type_size;
}
