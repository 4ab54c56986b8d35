/* values.c - see values.h. Elements are widened a piece at a time, so a check needs no memory, whatever the file says. */
#include "values.h"

#include "log.h"

#include <math.h>
#include <string.h>

#define PIECE 1024 /* elements, a multiple of every block; of F32 a page */

static bool ends_with(const char * text, const char * end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool may_be_zero(const char * name) {
    return ends_with(name, ".bias") || ends_with(name, ".alpha") || ends_with(name, ".beta");
}

const char * values_fault(const struct qt_file * file, int64_t index, int64_t n_most) {
    const int64_t * ne = gguf_get_tensor_ne(file->gguf, index);
    const char * data = file_tensor_data(file, index);
    enum ggml_type type = gguf_get_tensor_type(file->gguf, index);
    const struct ggml_type_traits * traits = ggml_get_type_traits(type);
    int64_t n = ne[0] * ne[1] * ne[2] * ne[3];
    bool all_zero = true;
    if (!traits->to_float) {
        return NULL;
    }
    for (int64_t at = 0; at < n && (at < n_most || all_zero); at += PIECE) {
        float values[PIECE];
        int64_t n_piece = n - at < PIECE ? n - at : PIECE;
        traits->to_float(data + ggml_row_size(type, at), values, n_piece);
        for (int64_t i = 0; i < n_piece; i++) {
            if (!isfinite(values[i])) {
                return "holds NaN or infinity";
            }
            all_zero = all_zero && values[i] == 0;
        }
    }
    return all_zero && !may_be_zero(gguf_get_tensor_name(file->gguf, index)) ? "is all zeros" : NULL;
}

static bool belongs(const struct qt_file * file, int64_t index, const char * prefix) {
    return strncmp(gguf_get_tensor_name(file->gguf, index), prefix, strlen(prefix)) == 0;
}

static void warn(const struct qt_file * file, int64_t index, const char * fault) {
    if (fault) {
        log_write(QT_LOG_WARN, "%s: tensor %s %s", file->path, gguf_get_tensor_name(file->gguf, index), fault);
    }
}

void values_warn(const struct qt_file * file, const char * prefix) {
    for (int64_t i = 0; i < gguf_get_n_tensors(file->gguf); i++) {
        warn(file, i, belongs(file, i, prefix) ? values_fault(file, i, PIECE) : NULL);
    }
}

enum qt_status values_check(const struct qt_file * file, const char * prefix) {
    enum qt_status status = QT_STATUS_OK;
    for (int64_t i = 0; i < gguf_get_n_tensors(file->gguf); i++) {
        const char * fault = belongs(file, i, prefix) ? values_fault(file, i, VALUES_ALL) : NULL;
        warn(file, i, fault && !values_fault(file, i, PIECE) ? fault : NULL);
        if (fault && status == QT_STATUS_OK) {
            status = QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: tensor %s %s: the file is damaged, convert the checkpoint again", file->path,
                             gguf_get_tensor_name(file->gguf, i), fault);
        }
    }
    return status;
}
