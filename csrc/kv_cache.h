/* kv_cache.h - keys and values of the positions seen so far, F32 or F16, one pair of tensors [hd, capacity, H_kv] a layer. */
#ifndef QT_KV_CACHE_H
#define QT_KV_CACHE_H

#include "error.h"
#include "sizes.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>

#define KV_BUCKET 128 /* positions: graphs are built for a multiple of this, so one is replayed 128 times */
#define KV_STEP 1024  /* positions: twice a long cache would be memory that few utterances use */

struct kv_cache {
    struct ggml_context * tensors;
    ggml_backend_buffer_t buffer;
    struct ggml_tensor ** k; /* [n_layers], each [hd, capacity, H_kv] */
    struct ggml_tensor ** v;
    int n_layers;
    int capacity; /* positions */
};

/* Make room for n_positions of type, keeping the first n_kept. Capacity doubles from n_start on, past KV_STEP it grows by that. On failure the cache is
 * as before. *moved tells that the tensors are new ones: graphs that read the old ones must be built anew. */
enum qt_status kv_cache_reserve(struct kv_cache * cache, ggml_backend_buffer_type_t buft, const struct stack_sizes * sizes, enum ggml_type type,
                                int n_start, int n_positions, int n_kept, bool * moved);
void kv_cache_free(struct kv_cache * cache);

/* First n_positions of layer's keys or values: [hd, n_positions, H_kv]. */
struct ggml_tensor * kv_cache_view(struct ggml_context * ctx, struct ggml_tensor * layer, int64_t n_positions);
/* The cache row of each (position, head), heads fastest, for ggml_set_rows: rows [H_kv * n]. */
void kv_cache_rows(const struct kv_cache * cache, int n_kv_heads, int first, int n, int64_t * rows);

/* The rest is for caches in F32. Move n positions of every head from place from to place to; head holds n * hd floats. */
void kv_cache_move(struct kv_cache * cache, int from, int to, int n, float * head);
/* n positions of every head, from place first on, to and from packed floats; kv_cache_size says how many. */
int64_t kv_cache_size(const struct kv_cache * cache, int n);
void kv_cache_get(const struct kv_cache * cache, int first, int n, float * values);
void kv_cache_set(struct kv_cache * cache, int first, int n, const float * values);

#endif
