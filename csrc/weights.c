/* weights.c - bind a file's tensors and look them up; see weights.h. */
#include "weights.h"

#include "log.h"
#include "memory.h"
#include "tensor_policy.h"
#include "values.h"

#include <ggml-cpu.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum qt_status weights_init(struct weights * weights, struct qt_file * file, ggml_backend_dev_t device) {
    *weights = (struct weights) { .file = file };
    int64_t n_tensors = gguf_get_n_tensors(file->gguf);
    if (n_tensors == 0) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: the file holds no tensors", file->path);
    }
    size_t n_bytes = 0, largest_bytes = 0;
    const char * mapping = gguf_get_mapping(file->gguf, &n_bytes);
    for (int64_t i = 0; i < n_tensors; i++) {
        size_t size = gguf_get_tensor_size(file->gguf, i);
        largest_bytes = size > largest_bytes ? size : largest_bytes;
    }
    weights->buffer = ggml_backend_dev_buffer_from_host_ptr(device, (void *) (uintptr_t) mapping, n_bytes, largest_bytes);
    if (!weights->buffer) {
        return QT_FAIL(QT_STATUS_OOM, "%s: no memory to use the mapped file on %s", file->path, ggml_backend_dev_name(device));
    }
    ggml_backend_buffer_set_usage(weights->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    int64_t i = 0;
    for (struct ggml_tensor * t = ggml_get_first_tensor(file->tensors); t; t = ggml_get_next_tensor(file->tensors, t), i++) {
        void * data = (void *) (uintptr_t) file_tensor_data(file, i);
        if (ggml_backend_tensor_alloc(weights->buffer, t, data) != GGML_STATUS_SUCCESS) {
            return QT_FAIL(QT_STATUS_GENERATE_FAILED, "%s: tensor %s cannot be used in place", file->path, ggml_get_name(t));
        }
    }
    return QT_STATUS_OK;
}

void weights_free(struct weights * weights) {
    weights_copy_free(weights->copy);
    ggml_backend_buffer_free(weights->buffer);
    *weights = (struct weights) { 0 };
}

/* Bytes of the file's tensors: more than is copied, since tables stay. */
static int64_t tensor_bytes(const struct qt_file * file) {
    int64_t n_bytes = 0;
    for (int64_t i = 0; i < gguf_get_n_tensors(file->gguf); i++) {
        n_bytes += (int64_t) gguf_get_tensor_size(file->gguf, i);
    }
    return n_bytes;
}

/* Makes w->copy, unless copies are unwanted. */
static enum qt_status plan_copies(struct weights * w) {
    const char * wish = getenv("QWENTTS_WEIGHTS");
    if (wish && *wish && strcmp(wish, "mapped") != 0 && strcmp(wish, "copied") != 0) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "QWENTTS_WEIGHTS is '%.64s', valid: mapped, copied", wish);
    }
    int64_t n_bytes = tensor_bytes(w->file), n_free = memory_available_bytes();
    bool given = wish && *wish;
    if (!(given ? strcmp(wish, "copied") == 0 : n_bytes <= n_free / 2)) {
        log_write(QT_LOG_INFO, "%s: %lld MB of weights are used in the file, %lld MB of memory are free", w->file->path, (long long) (n_bytes >> 20),
                  (long long) (n_free >> 20));
        return QT_STATUS_OK;
    }
    w->copy = weights_copy_new(gguf_get_n_tensors(w->file->gguf));
    return w->copy ? QT_STATUS_OK : QT_FAIL(QT_STATUS_OOM, "%s: no memory for the list of its tensors", w->file->path);
}

enum qt_status weights_copy_begin(struct weights * w) {
    QT_TRY(plan_copies(w));
    w->copying = w->copy != NULL;
    return QT_STATUS_OK;
}

enum qt_status weights_pack_begin(struct weights * w, ggml_backend_t backend) {
    if (ggml_backend_cpu_kernel_buffer_type(backend)) {
        QT_TRY(plan_copies(w));
    }
    w->packing = w->copy != NULL;
    return QT_STATUS_OK;
}

enum qt_status weights_copy_end(struct weights * w, ggml_backend_t backend, int n_threads) {
    w->copying = w->packing = false;
    return w->copy ? weights_copy_run(w->copy, backend, n_threads) : QT_STATUS_OK;
}

void weights_rest(const struct weights * w) {
    size_t n_bytes;
    const void * mapping = gguf_get_mapping(w->file->gguf, &n_bytes);
    weights_drop_pages(mapping, n_bytes);
}

#define NAME_BYTES 160
#define FORMAT_NAME(name, fmt) do { va_list args_; va_start(args_, fmt); vsnprintf((name), NAME_BYTES, (fmt), args_); va_end(args_); } while (0)

static struct ggml_tensor * find(const struct weights * weights, const char * name) {
    return gguf_find_tensor(weights->file->gguf, name) < 0 ? NULL : ggml_get_tensor(weights->file->tensors, name);
}

/* The tensor when its shape is ne (a 0 in ne[0] stands for k_min .. k_max) and its type fits: f32 where the policy knows no other. */
static struct ggml_tensor * require(struct weights * weights, const char * name, int n_dims, const int64_t ne[3], int k_min, int k_max) {
    if (weights->status != QT_STATUS_OK) {
        return NULL;
    }
    char wanted[96];
    if (ne[0] == 0) {
        snprintf(wanted, sizeof wanted, "[%d..%d, %lld, %lld]", k_min, k_max, (long long) ne[1], (long long) ne[2]);
    } else if (n_dims == 1) {
        snprintf(wanted, sizeof wanted, "[%lld]", (long long) ne[0]);
    } else {
        snprintf(wanted, sizeof wanted, "[%lld, %lld]", (long long) ne[0], (long long) ne[1]);
    }
    struct ggml_tensor * tensor = find(weights, name);
    if (!tensor) {
        weights->status = QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: tensor %s is missing, expected shape %s", weights->file->path, name, wanted);
        return NULL;
    }
    bool fits = ne[0] ? tensor->ne[0] == ne[0] : tensor->ne[0] >= k_min && tensor->ne[0] <= k_max;
    for (int d = 1; d < GGML_MAX_DIMS; d++) {
        fits = fits && tensor->ne[d] == (d < n_dims ? ne[d] : 1);
    }
    if (!fits) {
        weights->status = QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: tensor %s has shape [%lld, %lld, %lld, %lld], the keys imply %s", weights->file->path, name,
                                  (long long) tensor->ne[0], (long long) tensor->ne[1], (long long) tensor->ne[2], (long long) tensor->ne[3], wanted);
        return NULL;
    }
    const struct ggml_type_traits * traits = ggml_get_type_traits(tensor->type);
    const char * f32_reason = policy_f32_reason(name, n_dims, ne);
    if (f32_reason ? tensor->type != GGML_TYPE_F32 : !traits || !traits->to_float) {
        weights->status = QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: tensor %s (%s) is of type %s, expected %s", weights->file->path, name,
                                  f32_reason ? f32_reason : "matrix", ggml_type_name(tensor->type), f32_reason ? "f32" : "a floating-point or block type");
        return NULL;
    }
    return tensor;
}

bool weights_has(const struct weights * weights, const char * fmt, ...) {
    char name[NAME_BYTES];
    FORMAT_NAME(name, fmt);
    return find(weights, name) != NULL;
}

void weights_look(struct weights * weights, const struct ggml_tensor * tensor) {
    if (weights->status != QT_STATUS_OK || !tensor) {
        return;
    }
    const char * fault = values_fault(weights->file, gguf_find_tensor(weights->file->gguf, ggml_get_name(tensor)), VALUES_ALL);
    if (fault) {
        weights->status = QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: tensor %s %s: the file is damaged", weights->file->path, ggml_get_name(tensor), fault);
    }
}

void weights_none(struct weights * weights, const char * fmt, ...) {
    char name[NAME_BYTES];
    FORMAT_NAME(name, fmt);
    if (weights->status == QT_STATUS_OK && find(weights, name)) {
        weights->status = QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: tensor %s is in the file, but the keys (or what is supported) end before it",
                                  weights->file->path, name);
    }
}

/* What the graph reads in place of tensor, from the file. */
static struct ggml_tensor * taken(struct weights * weights, struct ggml_tensor * tensor) {
    return tensor && weights->copying ? weights_copy_add(weights->copy, &tensor, 1) : tensor;
}

static struct ggml_tensor * require_matrix(struct weights * weights, const char * name, int64_t n_in, int64_t n_out) {
    return require(weights, name, 2, (int64_t[3]) { n_in, n_out, 1 }, 0, 0);
}

struct ggml_tensor * weights_vector(struct weights * weights, int64_t n, const char * fmt, ...) {
    char name[NAME_BYTES];
    FORMAT_NAME(name, fmt);
    struct ggml_tensor * vector = require(weights, name, 1, (int64_t[3]) { n, 1, 1 }, 0, 0);
    weights_look(weights, vector);
    return taken(weights, vector);
}

struct ggml_tensor * weights_matrix(struct weights * weights, int64_t n_in, int64_t n_out, const char * fmt, ...) {
    char name[NAME_BYTES];
    FORMAT_NAME(name, fmt);
    return taken(weights, require_matrix(weights, name, n_in, n_out));
}

struct ggml_tensor * weights_table(struct weights * weights, int64_t n_in, int64_t n_out, const char * fmt, ...) {
    char name[NAME_BYTES];
    FORMAT_NAME(name, fmt);
    return require_matrix(weights, name, n_in, n_out);
}

void weights_join(struct weights * weights, struct weights_joined * joined, int64_t n_in, int n, const int64_t * n_out, const char * const * names,
                  const char * fmt, ...) {
    char prefix[NAME_BYTES], name[2 * NAME_BYTES];
    FORMAT_NAME(prefix, fmt);
    struct ggml_tensor * sources[WEIGHTS_MAX_JOINED] = { NULL };
    *joined = (struct weights_joined) { .n = n };
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%s.%s.weight", prefix, names[i]);
        sources[i] = require_matrix(weights, name, n_in, n_out[i]);
        joined->n_out[i] = n_out[i];
    }
    for (int i = 0, next; i < n && weights->status == QT_STATUS_OK; i = next) {
        for (next = i + 1; next < n && weights->copying && sources[next]->type == sources[i]->type; next++) {
        }
        joined->matrix[i] = weights->copying ? weights_copy_add(weights->copy, &sources[i], next - i) : sources[i];
    }
}

struct ggml_tensor * weights_kernel(struct weights * weights, int k_min, int k_max, int64_t n_in, int64_t n_out, const char * fmt, ...) {
    char name[NAME_BYTES];
    FORMAT_NAME(name, fmt);
    return taken(weights, require(weights, name, 3, (int64_t[3]) { 0, n_in, n_out }, k_min, k_max));
}

struct ggml_tensor * weights_packed(struct weights * weights, struct ggml_tensor * kernel, int stride) {
    if (!kernel || !weights->packing || !ggml_cpu_can_pack_kernel(kernel, stride)) {
        return kernel;
    }
    struct ggml_tensor * packed = weights_copy_add(weights->copy, &kernel, 1);
    ggml_cpu_set_kernel_stride(packed, stride);
    return packed;
}
