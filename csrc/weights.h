/* weights.h - the tensors of a file as graph leaves, used in place in the mapping. Each is asked for by name with the shape the sizes imply;
 * the first one that is missing or shaped differently is kept as the failure and named with both shapes. */
#ifndef QT_WEIGHTS_H
#define QT_WEIGHTS_H

#include "file.h"

#include <ggml-backend.h>

struct weights {
    const struct qt_file * file;
    ggml_backend_buffer_t buffer; /* over the mapping */
    enum qt_status status;
};

/* Bind every tensor of the file to its place in the mapping. */
enum qt_status weights_init(struct weights * weights, struct qt_file * file, ggml_backend_dev_t device);
void weights_free(struct weights * weights);

bool weights_has(const struct weights * weights, const char * fmt, ...) QT_PRINTF(2, 3);
/* F32 of n elements, one axis: norms, biases, scales. */
struct ggml_tensor * weights_vector(struct weights * weights, int64_t n, const char * fmt, ...) QT_PRINTF(3, 4);
/* [n_in, n_out] of any type with products. */
struct ggml_tensor * weights_matrix(struct weights * weights, int64_t n_in, int64_t n_out, const char * fmt, ...) QT_PRINTF(4, 5);
/* [K, n_in, n_out] with any K from k_min to k_max (K is ne[0]). */
struct ggml_tensor * weights_kernel(struct weights * weights, int k_min, int k_max, int64_t n_in, int64_t n_out, const char * fmt, ...) QT_PRINTF(6, 7);

#endif
