/* op_guard.c - one backend buffer in which every tensor lies between margins of poison.
 * The poison is a NaN in every float type and differs from byte to byte, so a read beyond a tensor shows in the result and a write beyond
 * it shows in the margin. With the address sanitizer, the margins cannot be touched at all. */
#include "op_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#  include <sanitizer/asan_interface.h>
#endif

#define MARGIN_BYTES 256 /* four of the widest vectors */

uint8_t op_guard_poison(size_t offset) { return offset & 1 ? 0xff : (uint8_t) (0x81 | (offset * 37 & 0x7f)); }

static size_t place_all(struct op_guard * g, struct ggml_context * ctx, bool nodes_too, bool assign, size_t align) {
    size_t at = MARGIN_BYTES;
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t; t = ggml_get_next_tensor(ctx, t)) {
        if (t->view_src || (t->op != GGML_OP_NONE && !nodes_too)) {
            continue;
        }
        at = GGML_PAD(at, align);
        if (assign && ggml_backend_tensor_alloc(g->buffer, t, g->base + at) != GGML_STATUS_SUCCESS) {
            return 0;
        }
        at += ggml_nbytes(t) + MARGIN_BYTES;
    }
    return at;
}

/* Sanitized builds: during the computation only tensors can be touched, the margins cannot. */
static void set_access(const struct op_guard * g, bool everywhere) {
#if defined(__SANITIZE_ADDRESS__)
    if (everywhere) {
        ASAN_UNPOISON_MEMORY_REGION(g->base, g->size);
        return;
    }
    ASAN_POISON_MEMORY_REGION(g->base, g->size);
    for (struct ggml_tensor * t = ggml_get_first_tensor(g->tensors); t; t = ggml_get_next_tensor(g->tensors, t)) {
        if (!t->view_src && t->buffer == g->buffer) {
            ASAN_UNPOISON_MEMORY_REGION(t->data, ggml_nbytes(t));
        }
    }
#else
    GGML_UNUSED(g);
    GGML_UNUSED(everywhere);
#endif
}

bool op_guard_init(struct op_guard * g, ggml_backend_t backend, struct ggml_context * ctx, bool nodes_too) {
    memset(g, 0, sizeof *g);
    g->tensors = ctx;
    size_t align = ggml_backend_buft_get_alignment(ggml_backend_get_default_buffer_type(backend));
    g->size = GGML_PAD(place_all(g, ctx, nodes_too, false, align), align);
    g->buffer = ggml_backend_alloc_buffer(backend, g->size);
    g->ctx = ggml_init((struct ggml_init_params) { .mem_size = 2 * ggml_tensor_overhead(), .no_alloc = true });
    g->image = malloc(g->size);
    g->after = malloc(g->size);
    g->mask = calloc(g->size, 1);
    if (!g->buffer || !g->ctx || !g->image || !g->after || !g->mask) {
        return false;
    }
    g->base = ggml_backend_buffer_get_base(g->buffer);
    g->whole = ggml_new_tensor_1d(g->ctx, GGML_TYPE_I8, (int64_t) g->size);
    if (!g->whole || ggml_backend_tensor_alloc(g->buffer, g->whole, g->base) != GGML_STATUS_SUCCESS || !place_all(g, ctx, nodes_too, true, align)) {
        return false;
    }
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t; t = ggml_get_next_tensor(ctx, t)) {
        if (t->view_src && t->view_src->buffer == g->buffer && !t->buffer && ggml_backend_view_init(t) != GGML_STATUS_SUCCESS) {
            return false;
        }
    }
    for (size_t i = 0; i < g->size; i++) {
        g->image[i] = op_guard_poison(i);
    }
    return true;
}

void op_guard_free(struct op_guard * g) {
    if (g->base) {
        set_access(g, true);
    }
    ggml_backend_buffer_free(g->buffer);
    if (g->ctx) {
        ggml_free(g->ctx);
    }
    free(g->image);
    free(g->after);
    free(g->mask);
    memset(g, 0, sizeof *g);
}

/* The bytes of dst's elements, and no gap between them, may change. */
void op_guard_allow(struct op_guard * g, const struct ggml_tensor * dst) {
    size_t first = (size_t) ((const uint8_t *) dst->data - g->base);
    for (int64_t i3 = 0; i3 < dst->ne[3]; i3++) {
        for (int64_t i2 = 0; i2 < dst->ne[2]; i2++) {
            for (int64_t i1 = 0; i1 < dst->ne[1]; i1++) {
                for (int64_t i0 = 0; i0 < dst->ne[0] / ggml_blck_size(dst->type); i0++) {
                    size_t at = first + (size_t) i0 * dst->nb[0] + (size_t) i1 * dst->nb[1] + (size_t) i2 * dst->nb[2] + (size_t) i3 * dst->nb[3];
                    memset(g->mask + at, 1, ggml_type_size(dst->type));
                }
            }
        }
    }
}

void op_guard_upload(struct op_guard * g) {
    set_access(g, true);
    ggml_backend_tensor_set(g->whole, g->image, 0, g->size);
    set_access(g, false);
}

void op_guard_download(struct op_guard * g) {
    set_access(g, true);
    ggml_backend_tensor_get(g->whole, g->after, 0, g->size);
}

size_t op_guard_check(const struct op_guard * g, char * what, size_t what_bytes) {
    size_t changed = 0, first = 0;
    for (size_t i = 0; i < g->size; i++) {
        if (!g->mask[i] && g->image[i] != g->after[i]) {
            first = changed++ ? first : i;
        }
    }
    if (!changed) {
        return 0;
    }
    snprintf(what, what_bytes, "%zu bytes changed, the first in a margin", changed);
    for (struct ggml_tensor * t = ggml_get_first_tensor(g->tensors); t; t = ggml_get_next_tensor(g->tensors, t)) {
        size_t at = (size_t) ((uint8_t *) t->data - g->base);
        if (!t->view_src && t->buffer == g->buffer && first >= at && first < at + ggml_nbytes(t)) {
            snprintf(what, what_bytes, "%zu bytes changed, the first in %s at byte %zu", changed, t->op == GGML_OP_NONE ? "an input" : "the result",
                     first - at);
        }
    }
    return changed;
}
