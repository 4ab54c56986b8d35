/* kv_cache.c - a cache that grows. A head's positions lie side by side, so attention reads each head as one stream:
 * k [hd, H_kv, T] -> rows [hd, H_kv*T] of the cache seen as [hd, capacity*H_kv]. Memory is cleared, because attention without the fused
 * op multiplies positions not yet written by zero. */
#include "kv_cache.h"

#include <stdlib.h>

static enum qt_status no_memory(int capacity) {
    return QT_FAIL(QT_STATUS_OOM, "no memory for the keys and values of %d positions", capacity);
}

static enum qt_status make(struct kv_cache * cache, ggml_backend_buffer_type_t buft, const struct stack_sizes * s, enum ggml_type type,
                           int capacity) {
    size_t n = (size_t) s->n_layers;
    cache->n_layers = s->n_layers;
    cache->capacity = capacity;
    cache->k = calloc(n, sizeof *cache->k);
    cache->v = calloc(n, sizeof *cache->v);
    cache->tensors = ggml_init((struct ggml_init_params) { .mem_size = 2 * n * ggml_tensor_overhead(), .no_alloc = true });
    if (!cache->k || !cache->v || !cache->tensors) {
        return no_memory(capacity);
    }
    for (size_t i = 0; i < n; i++) {
        cache->k[i] = ggml_new_tensor_3d(cache->tensors, type, s->head_dim, capacity, s->n_kv_heads);
        cache->v[i] = ggml_new_tensor_3d(cache->tensors, type, s->head_dim, capacity, s->n_kv_heads);
    }
    cache->buffer = ggml_backend_alloc_ctx_tensors_from_buft(cache->tensors, buft);
    if (!cache->buffer) {
        return no_memory(capacity);
    }
    ggml_backend_buffer_clear(cache->buffer, 0);
    return QT_STATUS_OK;
}

/* Keys or values of layer i / 2. */
static struct ggml_tensor * tensor_at(const struct kv_cache * cache, int i) {
    return i % 2 ? cache->v[i / 2] : cache->k[i / 2];
}

static size_t place_of(const struct ggml_tensor * t, int64_t head, int position) {
    return (size_t) head * t->nb[2] + (size_t) position * t->nb[1];
}

/* The first n_kept positions of every head, through one head's worth of host memory. */
static enum qt_status copy_positions(struct kv_cache * to, const struct kv_cache * from, int n_kept) {
    if (n_kept == 0) {
        return QT_STATUS_OK;
    }
    size_t n_bytes = from->k[0]->nb[1] * (size_t) n_kept;
    void * head = malloc(n_bytes);
    if (!head) {
        return no_memory(to->capacity);
    }
    for (int i = 0; i < 2 * from->n_layers; i++) {
        struct ggml_tensor * source = tensor_at(from, i), * target = tensor_at(to, i);
        for (int64_t h = 0; h < source->ne[2]; h++) {
            ggml_backend_tensor_get(source, head, place_of(source, h, 0), n_bytes);
            ggml_backend_tensor_set(target, head, place_of(target, h, 0), n_bytes);
        }
    }
    free(head);
    return QT_STATUS_OK;
}

enum qt_status kv_cache_reserve(struct kv_cache * cache, ggml_backend_buffer_type_t buft, const struct stack_sizes * sizes, enum ggml_type type,
                                int n_start, int n_positions, int n_kept, bool * moved) {
    *moved = false;
    if (n_positions <= cache->capacity) {
        return QT_STATUS_OK;
    }
    int64_t capacity = cache->capacity ? cache->capacity : n_start;
    while (capacity < n_positions) {
        capacity = capacity < KV_STEP ? 2 * capacity : capacity + KV_STEP;
    }
    struct kv_cache grown = { 0 };
    enum qt_status status = make(&grown, buft, sizes, type, (int) capacity);
    if (status == QT_STATUS_OK) {
        status = copy_positions(&grown, cache, n_kept);
    }
    if (status != QT_STATUS_OK) {
        kv_cache_free(&grown);
        return status;
    }
    kv_cache_free(cache);
    *cache = grown;
    *moved = true;
    return QT_STATUS_OK;
}

void kv_cache_free(struct kv_cache * cache) {
    ggml_backend_buffer_free(cache->buffer);
    ggml_free(cache->tensors);
    free(cache->k);
    free(cache->v);
    *cache = (struct kv_cache) { 0 };
}

struct ggml_tensor * kv_cache_view(struct ggml_context * ctx, struct ggml_tensor * layer, int64_t n_positions) {
    return ggml_view_3d(ctx, layer, layer->ne[0], n_positions, layer->ne[2], layer->nb[1], layer->nb[2], 0);
}

void kv_cache_rows(const struct kv_cache * cache, int n_kv_heads, int first, int n, int64_t * rows) {
    for (int t = 0; t < n; t++) {
        for (int h = 0; h < n_kv_heads; h++) {
            *rows++ = (int64_t) h * cache->capacity + first + t;
        }
    }
}

void kv_cache_move(struct kv_cache * cache, int from, int to, int n, float * head) {
    for (int i = 0; i < 2 * cache->n_layers; i++) {
        struct ggml_tensor * t = tensor_at(cache, i);
        for (int64_t h = 0; h < t->ne[2]; h++) {
            ggml_backend_tensor_get(t, head, place_of(t, h, from), (size_t) n * t->nb[1]);
            ggml_backend_tensor_set(t, head, place_of(t, h, to), (size_t) n * t->nb[1]);
        }
    }
}

int64_t kv_cache_size(const struct kv_cache * cache, int n) {
    return 2 * cache->n_layers * cache->k[0]->ne[2] * cache->k[0]->ne[0] * n;
}

void kv_cache_get(const struct kv_cache * cache, int first, int n, float * values) {
    for (int i = 0; i < 2 * cache->n_layers; i++) {
        const struct ggml_tensor * t = tensor_at(cache, i);
        for (int64_t h = 0; h < t->ne[2]; h++, values += n * t->ne[0]) {
            ggml_backend_tensor_get(t, values, place_of(t, h, first), (size_t) n * t->nb[1]);
        }
    }
}

void kv_cache_set(struct kv_cache * cache, int first, int n, const float * values) {
    for (int i = 0; i < 2 * cache->n_layers; i++) {
        struct ggml_tensor * t = tensor_at(cache, i);
        for (int64_t h = 0; h < t->ne[2]; h++, values += n * t->ne[0]) {
            ggml_backend_tensor_set(t, values, place_of(t, h, first), (size_t) n * t->nb[1]);
        }
    }
}
