/* gguf_read_tensors.c - the tensor list of a GGUF file: names, shapes, types and places, all of which the file only claims. When it is read, every
 * tensor has a shape that its type allows, lies inside the file, shares no byte with another and is the only one of its name. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf_reader.h"

static bool sort_tensors(struct gguf_reader * r) {
    struct gguf_context * gguf = r->gguf;
    struct named * names = malloc((gguf->n_tensors + 1) * sizeof names[0]);
    if (!names) {
        return reader_fail(r, "no memory to sort %zu tensors", gguf->n_tensors);
    }
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        names[i] = (struct named) { gguf->tensors[i].name, i };
    }
    bool ok = reader_sort_names(r, names, gguf->n_tensors, gguf->tensor_order, "tensor");
    free(names);
    return ok;
}

/* Bytes of the tensor; false when its shape does not fit its type or the file. */
static bool tensor_bytes(struct gguf_reader * r, struct gguf_tensor_info * t, const char * what) {
    const struct ggml_type_traits * traits = ggml_get_type_traits(t->type);
    if (t->ne[0] % traits->blck_size != 0) {
        return reader_fail(r, "%s: rows of %" PRId64 " elements are no multiple of the %" PRId64 " in a block of %s", what, t->ne[0], traits->blck_size,
                    traits->type_name);
    }
    uint64_t limit = r->gguf->size_bytes;
    uint64_t bytes = traits->type_size;
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        uint64_t n = (uint64_t) (i == 0 ? t->ne[0] / traits->blck_size : t->ne[i]);
        if (n > limit / bytes) {
            return reader_fail(r, "%s: shape %" PRId64 " x %" PRId64 " x %" PRId64 " x %" PRId64 " of %s is larger than the file of %zu bytes", what, t->ne[0],
                        t->ne[1], t->ne[2], t->ne[3], traits->type_name, r->gguf->size_bytes);
        }
        bytes *= n;
    }
    t->size_bytes = (size_t) bytes;
    return true;
}

static bool read_tensor(struct gguf_reader * r, struct gguf_tensor_info * t, size_t index) {
    char what[128];
    const char * name;
    size_t name_bytes;
    uint32_t n_dims, type;
    snprintf(what, sizeof what, "tensor %zu", index);
    if (!reader_string(r, &name, &name_bytes, what)) {
        return false;
    }
    if (name_bytes == 0 || name_bytes >= GGML_MAX_NAME) {
        return reader_fail(r, "%s has a name of %zu bytes, valid are 1 to %d", what, name_bytes, GGML_MAX_NAME - 1);
    }
    if (memchr(name, 0, name_bytes)) {
        return reader_fail(r, "%s has a zero byte in its name", what);
    }
    memcpy(t->name, name, name_bytes);
    char shown[96];
    reader_printable(shown, sizeof shown, name, name_bytes);
    snprintf(what, sizeof what, "tensor \"%s\"", shown);
    if (!reader_u32(r, &n_dims, what)) {
        return false;
    }
    if (n_dims > GGML_MAX_DIMS) {
        return reader_fail(r, "%s has %" PRIu32 " dimensions, at most %d are supported", what, n_dims, GGML_MAX_DIMS);
    }
    t->n_dims = (int) n_dims;
    for (int i = 0; i < GGML_MAX_DIMS; i++) {
        uint64_t ne = 1;
        if (i < t->n_dims && !reader_u64(r, &ne, what)) {
            return false;
        }
        if (ne == 0 || ne > INT64_MAX) {
            return reader_fail(r, "%s: dimension %d is %" PRIu64 ", valid are 1 to %" PRId64, what, i, ne, INT64_MAX);
        }
        t->ne[i] = (int64_t) ne;
    }
    if (!reader_u32(r, &type, what) || !reader_u64(r, &t->offset, what)) {
        return false;
    }
    t->type = (enum ggml_type) type;
    if (type >= GGML_TYPE_COUNT || !ggml_get_type_traits(t->type) || t->type == GGML_TYPE_Q8_K) {
        return reader_fail(r, "%s has type number %" PRIu32 ", which is not a supported tensor type", what, type);
    }
    if (t->offset % r->gguf->alignment != 0) {
        return reader_fail(r, "%s: offset %" PRIu64 " is no multiple of the alignment %zu", what, t->offset, r->gguf->alignment);
    }
    return tensor_bytes(r, t, what);
}

static int compare_offsets(const void * a, const void * b) {
    const struct gguf_tensor_info * x = *(const struct gguf_tensor_info * const *) a;
    const struct gguf_tensor_info * y = *(const struct gguf_tensor_info * const *) b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Each tensor lies inside the data, and no two share bytes. */
static bool check_ranges(struct gguf_reader * r) {
    struct gguf_context * gguf = r->gguf;
    size_t data_bytes = gguf->size_bytes - gguf->data_offset;
    const struct gguf_tensor_info ** sorted = malloc((gguf->n_tensors + 1) * sizeof sorted[0]);
    if (!sorted) {
        return reader_fail(r, "no memory to sort %zu tensors", gguf->n_tensors);
    }
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        sorted[i] = &gguf->tensors[i];
    }
    qsort(sorted, gguf->n_tensors, sizeof sorted[0], compare_offsets);
    char name[GGML_MAX_NAME];
    char other[GGML_MAX_NAME];
    bool ok = true;
    for (size_t i = 0; i < gguf->n_tensors && ok; i++) {
        const struct gguf_tensor_info * t = sorted[i];
        const struct gguf_tensor_info * before = i > 0 ? sorted[i - 1] : NULL;
        reader_printable(name, sizeof name, t->name, strlen(t->name));
        if (t->offset > data_bytes || t->size_bytes > data_bytes - t->offset) {
            ok = reader_fail(r, "tensor \"%s\": %zu bytes at offset %" PRIu64 " reach past the %zu bytes of data: the file is truncated or broken", name,
                             t->size_bytes, t->offset, data_bytes);
        } else if (before && t->offset - before->offset < before->size_bytes) {
            reader_printable(other, sizeof other, before->name, strlen(before->name));
            ok = reader_fail(r, "tensor \"%s\" at offset %" PRIu64 " overlaps tensor \"%s\" of %zu bytes at offset %" PRIu64, name, t->offset, other,
                             before->size_bytes, before->offset);
        }
    }
    free(sorted);
    return ok;
}

bool tensor_table_read(struct gguf_reader * r) {
    struct gguf_context * gguf = r->gguf;
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        if (!read_tensor(r, &gguf->tensors[i], i)) {
            return false;
        }
    }
    if (!sort_tensors(r)) {
        return false;
    }
    size_t padding = (gguf->alignment - r->at % gguf->alignment) % gguf->alignment;
    if (gguf->n_tensors > 0 && padding > reader_left(r)) {
        return reader_fail(r, "file ends at byte %zu before its data, which starts at %zu", gguf->size_bytes, r->at + padding);
    }
    gguf->data_offset = r->at + (padding < reader_left(r) ? padding : reader_left(r));
    return check_ranges(r);
}

bool tensor_records_make(struct gguf_reader * r, struct ggml_context ** out) {
    struct gguf_context * gguf = r->gguf;
    struct ggml_init_params params = { .mem_size = gguf->n_tensors * ggml_tensor_overhead(), .mem_buffer = NULL, .no_alloc = true };
    struct ggml_context * ctx = ggml_init(params);
    if (!ctx) {
        return reader_fail(r, "no memory for %zu tensor records", gguf->n_tensors);
    }
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        const struct gguf_tensor_info * t = &gguf->tensors[i];
        struct ggml_tensor * made = ggml_new_tensor(ctx, t->type, GGML_MAX_DIMS, t->ne);
        if (!made) {
            ggml_free(ctx);
            return reader_fail(r, "no memory for the record of tensor \"%s\"", t->name);
        }
        ggml_set_name(made, t->name);
    }
    *out = ctx;
    return true;
}
