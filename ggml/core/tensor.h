/* tensor.h - what tensor.c offers the builders, the graph and the allocator beyond ggml.h.
 * Everything that makes a tensor returns NULL when the context is full, and so passes a failure on to the last tensor of a chain. */
#pragma once

#include "internal.h"

/* size_bytes of the context, 64-byte aligned, uninitialised; NULL when it is full. */
void * context_alloc(struct ggml_context * ctx, size_t size_bytes);

/* A packed result of op. Sources may be NULL: those the op does not have. */
struct ggml_tensor * tensor_new_op(struct ggml_context * ctx, enum ggml_op op, enum ggml_type type, const int64_t ne[GGML_MAX_DIMS],
                                   struct ggml_tensor * src0, struct ggml_tensor * src1, struct ggml_tensor * src2);

/* A view of src0's memory at offset_bytes with its own shape; nb NULL: packed. Asserts that it lies inside the memory's owner. */
struct ggml_tensor * tensor_new_view(struct ggml_context * ctx, enum ggml_op op, struct ggml_tensor * src0, const int64_t ne[GGML_MAX_DIMS],
                                     const size_t nb[GGML_MAX_DIMS], size_t offset_bytes);

/* The tensor that owns t's memory: t itself or its view_src. */
static inline struct ggml_tensor * tensor_owner(struct ggml_tensor * t) { return t->view_src ? t->view_src : t; }

static inline bool tensor_same_strides(const struct ggml_tensor * a, const struct ggml_tensor * b) {
    return a->nb[0] == b->nb[0] && a->nb[1] == b->nb[1] && a->nb[2] == b->nb[2] && a->nb[3] == b->nb[3];
}
