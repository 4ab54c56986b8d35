/* values.c - see values.h. Elements are widened a piece at a time, so a check needs no memory, whatever the file says. */
#include "values.h"

#include "log.h"

#include <string.h>

#define PIECE 1024 /* elements, a multiple of every block; of F32 a page */

static bool ends_with(const char * text, const char * end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool may_be_zero(const char * name) {
    return ends_with(name, ".bias") || ends_with(name, ".alpha") || ends_with(name, ".beta");
}

/* Numbers by their bits, without a branch, so that the compiler makes vectors of it: 33 MB of codebooks are looked at when a codec is loaded. */
static void look_at(const uint32_t * bits, int64_t n, bool * finite, bool * all_zero) {
    uint32_t magnitude = 0, bad = 0;
    for (int64_t i = 0; i < n; i++) {
        magnitude |= bits[i] & 0x7fffffffu;
        bad |= (bits[i] & 0x7f800000u) == 0x7f800000u;
    }
    *finite = *finite && !bad;
    *all_zero = *all_zero && !magnitude;
}

const char * values_fault(const struct qt_file * file, int64_t index, int64_t n_most) {
    const int64_t * ne = gguf_get_tensor_ne(file->gguf, index);
    const char * data = file_tensor_data(file, index);
    enum ggml_type type = gguf_get_tensor_type(file->gguf, index);
    const struct ggml_type_traits * traits = ggml_get_type_traits(type);
    int64_t n = ne[0] * ne[1] * ne[2] * ne[3];
    bool finite = true, all_zero = true;
    if (!traits->to_float) {
        return NULL;
    }
    for (int64_t at = 0; finite && at < n && (at < n_most || all_zero); at += PIECE) {
        union { float values[PIECE]; uint32_t bits[PIECE]; } piece;
        int64_t n_piece = n - at < PIECE ? n - at : PIECE;
        const void * from = data + ggml_row_size(type, at);
        if (type == GGML_TYPE_F32) {
            look_at(from, n_piece, &finite, &all_zero);
        } else {
            traits->to_float(from, piece.values, n_piece);
            look_at(piece.bits, n_piece, &finite, &all_zero);
        }
    }
    return !finite ? "holds NaN or infinity" : all_zero && !may_be_zero(gguf_get_tensor_name(file->gguf, index)) ? "is all zeros" : NULL;
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
