/* ggml-alloc.h - memory for graphs and contexts.
 * A graph allocator gives every node an offset in one buffer by liveness: memory of a tensor is reused once its last reader has run,
 * and elementwise ops write over their source where that source has no other reader. */
#pragma once

#include "ggml.h"
#include "ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ggml_gallocr * ggml_gallocr_t;

ggml_gallocr_t ggml_gallocr_new(ggml_backend_buffer_type_t buft); /* NULL when memory cannot be had */
void ggml_gallocr_free(ggml_gallocr_t galloc);
/* Plan graph and make the buffer large enough; false when memory cannot be had. */
bool ggml_gallocr_reserve(ggml_gallocr_t galloc, struct ggml_cgraph * graph);
/* Plan and give data pointers to every tensor without memory; tensors that have a buffer keep it. false when memory cannot be had. */
bool ggml_gallocr_alloc_graph(ggml_gallocr_t galloc, struct ggml_cgraph * graph);
size_t ggml_gallocr_get_buffer_size(ggml_gallocr_t galloc, int buffer_id); /* buffer_id 0 */

/* One buffer for all tensors of ctx that have no data; NULL when there are none or memory cannot be had. */
ggml_backend_buffer_t ggml_backend_alloc_ctx_tensors_from_buft(struct ggml_context * ctx, ggml_backend_buffer_type_t buft);
ggml_backend_buffer_t ggml_backend_alloc_ctx_tensors(struct ggml_context * ctx, ggml_backend_t backend);

#ifdef __cplusplus
}
#endif
