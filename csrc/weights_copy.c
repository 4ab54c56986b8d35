/* weights_copy.c - plan and make the copies; see weights_copy.h. Threads take the sources one by one; each is brought in by one call, copied and
 * dropped from the mapping (the page cache keeps it). */
#if defined(__linux__)
#  define _GNU_SOURCE
#endif
#include "weights_copy.h"

#include <ggml-alloc.h>
#include <ggml-cpu.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_THREADS 16 /* memory is the limit long before */

struct piece {
    const struct ggml_tensor * source;
    struct ggml_tensor * target;
    size_t offset; /* bytes into target */
};

struct weights_copy {
    struct ggml_context * tensors;
    ggml_backend_buffer_t buffer, packed, kernels;
    struct piece * pieces;
    int64_t n_pieces;
};

struct weights_copy * weights_copy_new(int64_t n_tensors) {
    struct weights_copy * copy = calloc(1, sizeof *copy);
    if (!copy) {
        return NULL;
    }
    copy->pieces = calloc((size_t) n_tensors, sizeof *copy->pieces);
    copy->tensors = ggml_init((struct ggml_init_params) { .mem_size = (size_t) n_tensors * ggml_tensor_overhead(), .no_alloc = true });
    if (!copy->pieces || !copy->tensors) {
        weights_copy_free(copy);
        return NULL;
    }
    return copy;
}

void weights_copy_free(struct weights_copy * copy) {
    if (copy) {
        ggml_backend_buffer_free(copy->buffer);
        ggml_backend_buffer_free(copy->packed);
        ggml_backend_buffer_free(copy->kernels);
        ggml_free(copy->tensors);
        free(copy->pieces);
        free(copy);
    }
}

struct ggml_tensor * weights_copy_add(struct weights_copy * copy, struct ggml_tensor * const * sources, int n) {
    const struct ggml_tensor * first = sources[0];
    int64_t n_rows = 0;
    for (int i = 0; i < n; i++) {
        n_rows += sources[i]->ne[1];
    }
    struct ggml_tensor * target = ggml_new_tensor_4d(copy->tensors, first->type, first->ne[0], n_rows, first->ne[2], first->ne[3]);
    ggml_set_name(target, ggml_get_name(first));
    size_t offset = 0;
    for (int i = 0; i < n; i++) {
        copy->pieces[copy->n_pieces++] = (struct piece) { sources[i], target, offset };
        offset += ggml_nbytes(sources[i]);
    }
    return target;
}

/* The pages of a range that any byte of it touches. */
static void page_range(const void * data, size_t n_bytes, void ** start, size_t * length) {
    uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t) data / page * page;
    *start = (void *) first;
    *length = (uintptr_t) data + n_bytes - first;
}

void weights_drop_pages(const void * data, size_t n_bytes) {
#if defined(MADV_DONTNEED)
    size_t length;
    void * start;
    page_range(data, n_bytes, &start, &length);
    madvise(start, length, MADV_DONTNEED);
#else
    (void) data;
    (void) n_bytes;
#endif
}

static bool copy_piece(const struct piece * piece) {
    size_t n_bytes = ggml_nbytes(piece->source);
#if defined(MADV_POPULATE_READ)
    size_t length;
    void * start;
    page_range(piece->source->data, n_bytes, &start, &length);
    if (madvise(start, length, MADV_POPULATE_READ) != 0 && errno == EFAULT) {
        return false; /* the file has become shorter: reading would be a SIGBUS */
    }
#endif
    ggml_backend_tensor_set(piece->target, piece->source->data, piece->offset, n_bytes);
    weights_drop_pages(piece->source->data, n_bytes);
    return true;
}

struct copy_job {
    const struct weights_copy * copy;
    atomic_llong next;
    atomic_bool failed;
};

static void * copy_pieces(void * arg) {
    struct copy_job * job = arg;
    for (int64_t i; (i = atomic_fetch_add(&job->next, 1)) < job->copy->n_pieces;) {
        if (!copy_piece(&job->copy->pieces[i])) {
            atomic_store(&job->failed, true);
        }
    }
    return NULL;
}

/* Tensors that the backend would rather have in an order of its own get their memory, one after the other. type NULL: it has none. */
static bool alloc_packed(struct weights_copy * copy, ggml_backend_buffer_type_t type, bool (*fits)(const struct ggml_tensor * t), ggml_backend_buffer_t * buffer) {
    size_t at = 0, align = type ? ggml_backend_buft_get_alignment(type) : 1;
    for (struct ggml_tensor * t = ggml_get_first_tensor(copy->tensors); t && type; t = ggml_get_next_tensor(copy->tensors, t)) {
        at += fits(t) ? GGML_PAD(ggml_backend_buft_get_alloc_size(type, t), align) : 0;
    }
    *buffer = at > 0 ? ggml_backend_buft_alloc_buffer(type, at) : NULL;
    if (!*buffer) {
        return at == 0;
    }
    ggml_backend_buffer_set_usage(*buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    char * base = ggml_backend_buffer_get_base(*buffer);
    for (struct ggml_tensor * t = ggml_get_first_tensor(copy->tensors); t; t = ggml_get_next_tensor(copy->tensors, t)) {
        if (fits(t)) {
            ggml_backend_tensor_alloc(*buffer, t, base);
            base += GGML_PAD(ggml_backend_buft_get_alloc_size(type, t), align);
        }
    }
    return true;
}

enum qt_status weights_copy_run(struct weights_copy * copy, ggml_backend_t backend, int n_threads) {
    if (copy->n_pieces == 0) {
        return QT_STATUS_OK;
    }
    bool ok = alloc_packed(copy, ggml_backend_cpu_packed_buffer_type(backend), ggml_cpu_can_pack, &copy->packed) &&
              alloc_packed(copy, ggml_backend_cpu_kernel_buffer_type(backend), ggml_cpu_is_kernel, &copy->kernels);
    bool all = ok; /* have memory */
    for (struct ggml_tensor * t = ggml_get_first_tensor(copy->tensors); t; t = ggml_get_next_tensor(copy->tensors, t)) {
        all = all && t->buffer;
    }
    copy->buffer = ok && !all ? ggml_backend_alloc_ctx_tensors(copy->tensors, backend) : NULL;
    if (!all && !copy->buffer) {
        return QT_FAIL(QT_STATUS_OOM, "no memory for the weights of %lld tensors (QWENTTS_WEIGHTS=mapped uses them in the file)", (long long) copy->n_pieces);
    }
    if (copy->buffer) {
        ggml_backend_buffer_set_usage(copy->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    }
    struct copy_job job = { .copy = copy };
    atomic_init(&job.next, 0);
    atomic_init(&job.failed, false);
    pthread_t threads[MAX_THREADS];
    int n = 0;
    bool side_by_side = ggml_backend_is_cpu(backend); /* a device's own queue belongs to one thread */
    while (side_by_side && n < MAX_THREADS && n < n_threads - 1 && pthread_create(&threads[n], NULL, copy_pieces, &job) == 0) {
        n++;
    }
    copy_pieces(&job);
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
    return atomic_load(&job.failed) ? QT_FAIL(QT_STATUS_INVALID_PARAMS, "the file became shorter while it was loaded") : QT_STATUS_OK;
}
