/* weights_copy.h - the matrices that every frame reads, copied out of the mapping into one buffer of the backend.
 * Why: memory of 2 MB pages is read at up to twice the speed of a mapped file's 4 KB pages, matrices over one input become one, and a file that is cut
 * while it is used cannot stop a running synthesis there. Pages of the file are given back as they are copied, so a matrix counts once. */
#ifndef QT_WEIGHTS_COPY_H
#define QT_WEIGHTS_COPY_H

#include "error.h"

#include <ggml-backend.h>
#include <ggml.h>

struct weights_copy;

/* Room to plan up to n_tensors copies; NULL: no memory. */
struct weights_copy * weights_copy_new(int64_t n_tensors);
void weights_copy_free(struct weights_copy * copy);
/* A tensor that will hold the rows of n matrices of one type and width, one matrix after the other; sources lie in mapped memory. It has no data yet. */
struct ggml_tensor * weights_copy_add(struct weights_copy * copy, struct ggml_tensor * const * sources, int n);
/* Give every planned tensor its memory and values, read by n_threads threads. */
enum qt_status weights_copy_run(struct weights_copy * copy, ggml_backend_t backend, int n_threads);
/* The pages of mapped memory that any byte of the range touches leave this process; they come back, from the page cache, when they are read. */
void weights_drop_pages(const void * data, size_t n_bytes);

#endif
