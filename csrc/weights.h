/* weights.h - the tensors of a file as graph leaves, used in place in the mapping or, between weights_copy_begin and weights_copy_end, copied (see
 * weights_copy.h). Each is asked for by name with the shape the sizes imply; the first one that is missing or shaped differently is kept as the
 * failure and named with both shapes. */
#ifndef QT_WEIGHTS_H
#define QT_WEIGHTS_H

#include "file.h"
#include "weights_copy.h"

#include <ggml-backend.h>

#define WEIGHTS_MAX_JOINED 3

struct weights {
    const struct qt_file * file;
    ggml_backend_buffer_t buffer; /* over the mapping */
    struct weights_copy * copy;   /* NULL: every tensor is used in the mapping */
    bool copying;                 /* what is asked for now is copied */
    bool packing;                 /* kernels given to weights_packed now are */
    enum qt_status status;
};

/* Matrices over one input, results 0 .. n-1. Those of equal type that follow each other are rows of one tensor where they are copied. */
struct weights_joined {
    int n;
    struct ggml_tensor * matrix[WEIGHTS_MAX_JOINED]; /* [n_in, rows of the results it gives]; NULL: the one before gives this result too */
    int64_t n_out[WEIGHTS_MAX_JOINED];
};

/* Bind every tensor of the file to its place in the mapping. */
enum qt_status weights_init(struct weights * weights, struct qt_file * file, ggml_backend_dev_t device);
void weights_free(struct weights * weights);

/* What is asked for from here to the end is copied, but for tables, unless the file is large for the memory that is free: over half of it.
 * QWENTTS_WEIGHTS=mapped or copied decides otherwise. */
enum qt_status weights_copy_begin(struct weights * weights);
/* From here to weights_copy_end nothing is copied but kernels that weights_packed is asked for, where the backend has an order of its own for them; else, and
 * where weights_copy_begin would not copy, they stay in the file. */
enum qt_status weights_pack_begin(struct weights * weights, ggml_backend_t backend);
enum qt_status weights_copy_end(struct weights * weights, ggml_backend_t backend, int n_threads);
/* Loading is done: pages of the file that it looked at (header, vocabulary, values it checked) leave this process until they are used. */
void weights_rest(const struct weights * weights);

bool weights_has(const struct weights * weights, const char * fmt, ...) QT_PRINTF(2, 3);
/* Fails when the tensor exists: the keys count fewer than the file holds. */
void weights_none(struct weights * weights, const char * fmt, ...) QT_PRINTF(2, 3);
/* Fails when the tensor (NULL: nothing) holds NaN, infinity or zeros alone; reads all of it. */
void weights_look(struct weights * weights, const struct ggml_tensor * tensor);
/* F32 of n elements, one axis: norms, biases, scales. They are looked at. */
struct ggml_tensor * weights_vector(struct weights * weights, int64_t n, const char * fmt, ...) QT_PRINTF(3, 4);
/* [n_in, n_out] of any type with products. */
struct ggml_tensor * weights_matrix(struct weights * weights, int64_t n_in, int64_t n_out, const char * fmt, ...) QT_PRINTF(4, 5);
/* The same for what is read by rows, or once an utterance: never copied. */
struct ggml_tensor * weights_table(struct weights * weights, int64_t n_in, int64_t n_out, const char * fmt, ...) QT_PRINTF(4, 5);
/* prefix.names[i].weight, each [n_in, n_out[i]]. */
void weights_join(struct weights * weights, struct weights_joined * joined, int64_t n_in, int n, const int64_t * n_out, const char * const * names,
                  const char * prefix_fmt, ...) QT_PRINTF(7, 8);
/* [K, n_in, n_out] with any K from k_min to k_max (K is ne[0]). */
struct ggml_tensor * weights_kernel(struct weights * weights, int k_min, int k_max, int64_t n_in, int64_t n_out, const char * fmt, ...) QT_PRINTF(6, 7);

/* What a graph reads in place of a kernel (NULL: NULL) that convolutions alone read; stride 0, or that of transposed ones. */
struct ggml_tensor * weights_packed(struct weights * weights, struct ggml_tensor * kernel, int stride);

#endif
