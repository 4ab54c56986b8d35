/* tensor.c - contexts and tensors.
 * A context is one block of memory that is filled from the front and freed as a whole: records of tensors (with their data where the
 * context gives data) and of graphs, linked in order of making. A view shares the memory of its view_src, the owner, which is never a view. */
#include "tensor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Precedes each record, padded to GGML_MEM_ALIGN. */
struct record {
    struct record * next;
    bool is_tensor;
};

#define RECORD_BYTES GGML_PAD(sizeof(struct record), GGML_MEM_ALIGN)
#define TENSOR_BYTES GGML_PAD(sizeof(struct ggml_tensor), GGML_MEM_ALIGN)

struct ggml_context {
    char * mem; /* aligned start */
    size_t mem_bytes;
    size_t used_bytes;
    void * owned; /* what to free; NULL when the caller gave the memory */
    bool no_alloc;
    struct record * first;
    struct record * last;
};

struct ggml_context * ggml_init(struct ggml_init_params params) {
    struct ggml_context * ctx = calloc(1, sizeof *ctx);
    if (!ctx) {
        return NULL;
    }
    char * mem = params.mem_buffer;
    size_t size = params.mem_size;
    if (!mem) {
        if (size > SIZE_MAX - 2 * GGML_MEM_ALIGN) {
            free(ctx);
            return NULL;
        }
        size = GGML_PAD(size, GGML_MEM_ALIGN) + GGML_MEM_ALIGN; /* the start may need moving up */
        mem = ctx->owned = malloc(size);
        if (!mem) {
            free(ctx);
            return NULL;
        }
    }
    size_t skip = (GGML_MEM_ALIGN - (uintptr_t) mem % GGML_MEM_ALIGN) % GGML_MEM_ALIGN;
    ctx->mem = skip < size ? mem + skip : mem;
    ctx->mem_bytes = skip < size ? size - skip : 0;
    if (ctx->owned) {
        ctx->mem_bytes = GGML_PAD(params.mem_size, GGML_MEM_ALIGN);
    }
    ctx->no_alloc = params.no_alloc;
    return ctx;
}

void ggml_reset(struct ggml_context * ctx) {
    ctx->first = ctx->last = NULL;
    ctx->used_bytes = 0;
}

void ggml_free(struct ggml_context * ctx) {
    if (ctx) {
        free(ctx->owned);
        free(ctx);
    }
}

size_t ggml_used_mem(const struct ggml_context * ctx) { return ctx->used_bytes; }
bool ggml_get_no_alloc(struct ggml_context * ctx) { return ctx->no_alloc; }
size_t ggml_tensor_overhead(void) { return RECORD_BYTES + TENSOR_BYTES; }

static void * record_new(struct ggml_context * ctx, size_t size_bytes, bool is_tensor) {
    size_t left = ctx->mem_bytes - ctx->used_bytes;
    if (left < RECORD_BYTES || size_bytes > left - RECORD_BYTES) {
        ggml_log_internal(GGML_LOG_LEVEL_ERROR, "context is full: %zu of %zu bytes used, %zu more wanted", ctx->used_bytes, ctx->mem_bytes,
                          size_bytes);
        return NULL;
    }
    struct record * record = (struct record *) (ctx->mem + ctx->used_bytes);
    record->next = NULL;
    record->is_tensor = is_tensor;
    if (ctx->last) {
        ctx->last->next = record;
    } else {
        ctx->first = record;
    }
    ctx->last = record;
    size_t padded = RECORD_BYTES + GGML_PAD(size_bytes, GGML_MEM_ALIGN);
    ctx->used_bytes = padded < left ? ctx->used_bytes + padded : ctx->mem_bytes;
    return (char *) record + RECORD_BYTES;
}

void * context_alloc(struct ggml_context * ctx, size_t size_bytes) { return record_new(ctx, size_bytes, false); }

/* Shape, and strides of a packed tensor. A shape whose bytes do not fit a size_t is a programming error. */
static void set_packed(struct ggml_tensor * t, enum ggml_type type, const int64_t ne[GGML_MAX_DIMS]) {
    const struct ggml_type_traits * traits = ggml_get_type_traits(type);
    GGML_ASSERT(traits);
    GGML_ASSERT(ne[0] >= 0 && ne[0] % traits->blck_size == 0);
    t->type = type;
    size_t bytes = traits->type_size;
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        GGML_ASSERT(ne[i] >= 0);
        t->ne[i] = ne[i];
        t->nb[i] = bytes;
        size_t count = (size_t) (i == 0 ? ne[0] / traits->blck_size : ne[i]);
        GGML_ASSERT(count == 0 || bytes <= SIZE_MAX / 2 / count);
        bytes *= count;
    }
}

static struct ggml_tensor * tensor_new(struct ggml_context * ctx, enum ggml_type type, const int64_t ne[GGML_MAX_DIMS], bool with_data) {
    struct ggml_tensor shape = { .op = GGML_OP_NONE };
    set_packed(&shape, type, ne);
    size_t data_bytes = with_data && !ctx->no_alloc ? ggml_nbytes(&shape) : 0;
    struct ggml_tensor * t = record_new(ctx, TENSOR_BYTES + data_bytes, true);
    if (!t) {
        return NULL;
    }
    *t = shape;
    if (with_data && !ctx->no_alloc) {
        t->data = (char *) t + TENSOR_BYTES;
    }
    return t;
}

struct ggml_tensor * ggml_new_tensor(struct ggml_context * ctx, enum ggml_type type, int n_dims, const int64_t * ne) {
    GGML_ASSERT(n_dims >= 0 && n_dims <= GGML_MAX_DIMS);
    int64_t full[GGML_MAX_DIMS] = { 1, 1, 1, 1 };
    for (int i = 0; i < n_dims; i++) {
        full[i] = ne[i];
    }
    return tensor_new(ctx, type, full, true);
}

struct ggml_tensor * ggml_new_tensor_1d(struct ggml_context * ctx, enum ggml_type type, int64_t ne0) {
    return ggml_new_tensor(ctx, type, 1, &ne0);
}

struct ggml_tensor * ggml_new_tensor_2d(struct ggml_context * ctx, enum ggml_type type, int64_t ne0, int64_t ne1) {
    return ggml_new_tensor(ctx, type, 2, (int64_t[]) { ne0, ne1 });
}

struct ggml_tensor * ggml_new_tensor_3d(struct ggml_context * ctx, enum ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2) {
    return ggml_new_tensor(ctx, type, 3, (int64_t[]) { ne0, ne1, ne2 });
}

struct ggml_tensor * ggml_new_tensor_4d(struct ggml_context * ctx, enum ggml_type type, int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3) {
    return ggml_new_tensor(ctx, type, 4, (int64_t[]) { ne0, ne1, ne2, ne3 });
}

struct ggml_tensor * ggml_dup_tensor(struct ggml_context * ctx, const struct ggml_tensor * src) {
    return src ? tensor_new(ctx, src->type, src->ne, true) : NULL;
}

struct ggml_tensor * ggml_view_tensor(struct ggml_context * ctx, struct ggml_tensor * src) {
    if (!src) {
        return NULL;
    }
    struct ggml_tensor * t = tensor_new_view(ctx, GGML_OP_NONE, src, src->ne, src->nb, 0);
    if (t) {
        t->src[0] = NULL; /* no op: the graph takes it for a leaf */
    }
    return t;
}

struct ggml_tensor * tensor_new_op(struct ggml_context * ctx, enum ggml_op op, enum ggml_type type, const int64_t ne[GGML_MAX_DIMS],
                                   struct ggml_tensor * src0, struct ggml_tensor * src1, struct ggml_tensor * src2) {
    struct ggml_tensor * t = tensor_new(ctx, type, ne, true);
    if (!t) {
        return NULL;
    }
    t->op = op;
    t->src[0] = src0;
    t->src[1] = src1;
    t->src[2] = src2;
    return t;
}

struct ggml_tensor * tensor_new_view(struct ggml_context * ctx, enum ggml_op op, struct ggml_tensor * src0, const int64_t ne[GGML_MAX_DIMS],
                                     const size_t nb[GGML_MAX_DIMS], size_t offset_bytes) {
    struct ggml_tensor * owner = tensor_owner(src0);
    size_t offset = src0->view_offs + offset_bytes;
    struct ggml_tensor * t = tensor_new(ctx, src0->type, ne, false);
    if (!t) {
        return NULL;
    }
    if (nb) {
        memcpy(t->nb, nb, sizeof t->nb);
    }
    size_t owner_bytes = ggml_nbytes(owner);
    size_t view_bytes = ggml_nbytes(t);
    GGML_ASSERT(view_bytes == 0 || (offset <= owner_bytes && view_bytes <= owner_bytes - offset));
    t->op = op;
    t->src[0] = src0;
    t->view_src = owner;
    t->view_offs = offset;
    t->buffer = owner->buffer;
    t->data = owner->data ? (char *) owner->data + offset : NULL;
    return t;
}

static struct ggml_tensor * tensor_from(struct record * record) {
    while (record && !record->is_tensor) {
        record = record->next;
    }
    return record ? (struct ggml_tensor *) ((char *) record + RECORD_BYTES) : NULL;
}

struct ggml_tensor * ggml_get_first_tensor(const struct ggml_context * ctx) { return tensor_from(ctx->first); }

struct ggml_tensor * ggml_get_next_tensor(const struct ggml_context * ctx, struct ggml_tensor * tensor) {
    GGML_UNUSED(ctx);
    struct record * record = (struct record *) ((char *) tensor - RECORD_BYTES);
    return tensor_from(record->next);
}

struct ggml_tensor * ggml_get_tensor(struct ggml_context * ctx, const char * name) {
    for (struct ggml_tensor * t = ggml_get_first_tensor(ctx); t; t = ggml_get_next_tensor(ctx, t)) {
        if (strcmp(t->name, name) == 0) {
            return t;
        }
    }
    return NULL;
}

struct ggml_tensor * ggml_set_name(struct ggml_tensor * tensor, const char * name) {
    if (tensor) {
        size_t n = strlen(name);
        n = n < GGML_MAX_NAME ? n : GGML_MAX_NAME - 1;
        memcpy(tensor->name, name, n);
        tensor->name[n] = 0;
    }
    return tensor;
}

struct ggml_tensor * ggml_format_name(struct ggml_tensor * tensor, const char * fmt, ...) {
    if (tensor) {
        va_list args;
        va_start(args, fmt);
        vsnprintf(tensor->name, sizeof tensor->name, fmt, args);
        va_end(args);
    }
    return tensor;
}

const char * ggml_get_name(const struct ggml_tensor * tensor) { return tensor->name; }

void ggml_set_input(struct ggml_tensor * tensor) {
    if (tensor) {
        tensor->flags |= GGML_TENSOR_FLAG_INPUT;
    }
}

void ggml_set_output(struct ggml_tensor * tensor) {
    if (tensor) {
        tensor->flags |= GGML_TENSOR_FLAG_OUTPUT;
    }
}
