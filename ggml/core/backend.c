/* backend.c - buffers, tensors in buffers, and streams: the public calls, each a check and a call through the vtable of internal.h. */
#include <stdlib.h>
#include <string.h>

#include "tensor.h"

const char * ggml_backend_buft_name(ggml_backend_buffer_type_t buft) { return buft->iface.get_name(buft); }
size_t ggml_backend_buft_get_alignment(ggml_backend_buffer_type_t buft) { return buft->iface.get_alignment(buft); }
bool ggml_backend_buft_is_host(ggml_backend_buffer_type_t buft) { return buft->iface.is_host && buft->iface.is_host(buft); }

ggml_backend_buffer_t ggml_backend_buft_alloc_buffer(ggml_backend_buffer_type_t buft, size_t size) { return buft->iface.alloc_buffer(buft, size); }

size_t ggml_backend_buft_get_alloc_size(ggml_backend_buffer_type_t buft, const struct ggml_tensor * tensor) {
    return buft->iface.get_alloc_size ? buft->iface.get_alloc_size(buft, tensor) : ggml_nbytes(tensor);
}

ggml_backend_buffer_t ggml_backend_buffer_init(ggml_backend_buffer_type_t buft, struct ggml_backend_buffer_i iface, void * context, size_t size) {
    struct ggml_backend_buffer made = { .iface = iface, .buft = buft, .context = context, .size = size, .usage = GGML_BACKEND_BUFFER_USAGE_ANY };
    ggml_backend_buffer_t buffer = malloc(sizeof *buffer);
    if (!buffer) {
        if (iface.free_buffer) {
            iface.free_buffer(&made);
        }
        return NULL;
    }
    *buffer = made;
    return buffer;
}

void ggml_backend_buffer_free(ggml_backend_buffer_t buffer) {
    if (buffer) {
        if (buffer->iface.free_buffer) {
            buffer->iface.free_buffer(buffer);
        }
        free(buffer);
    }
}

void * ggml_backend_buffer_get_base(ggml_backend_buffer_t buffer) { return buffer->iface.get_base(buffer); }
size_t ggml_backend_buffer_get_size(ggml_backend_buffer_t buffer) { return buffer->size; }
void ggml_backend_buffer_clear(ggml_backend_buffer_t buffer, uint8_t value) { buffer->iface.clear(buffer, value); }
bool ggml_backend_buffer_is_host(ggml_backend_buffer_t buffer) { return ggml_backend_buft_is_host(buffer->buft); }
void ggml_backend_buffer_set_usage(ggml_backend_buffer_t buffer, enum ggml_backend_buffer_usage usage) { buffer->usage = usage; }
ggml_backend_buffer_type_t ggml_backend_buffer_get_type(ggml_backend_buffer_t buffer) { return buffer->buft; }

enum ggml_status ggml_backend_tensor_alloc(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor, void * addr) {
    char * base = ggml_backend_buffer_get_base(buffer);
    size_t bytes = ggml_backend_buft_get_alloc_size(buffer->buft, tensor);
    GGML_ASSERT(!tensor->view_src);
    GGML_ASSERT((char *) addr >= base && (size_t) ((char *) addr - base) <= buffer->size);
    GGML_ASSERT(bytes <= buffer->size - (size_t) ((char *) addr - base));
    tensor->buffer = buffer;
    tensor->data = addr;
    return GGML_STATUS_SUCCESS;
}

enum ggml_status ggml_backend_view_init(struct ggml_tensor * tensor) {
    GGML_ASSERT(tensor->view_src && tensor->view_src->data);
    tensor->buffer = tensor->view_src->buffer;
    tensor->data = (char *) tensor->view_src->data + tensor->view_offs;
    return GGML_STATUS_SUCCESS;
}

/* Where bytes of a tensor are read and written: NULL for memory of a context that gives data itself. */
static ggml_backend_buffer_t checked_buffer(const struct ggml_tensor * tensor, size_t offset, size_t size) {
    GGML_ASSERT(tensor->data);
    size_t bytes = ggml_nbytes(tensor);
    GGML_ASSERT(offset <= bytes && size <= bytes - offset);
    return tensor->view_src ? tensor->view_src->buffer : tensor->buffer;
}

void ggml_backend_tensor_set(struct ggml_tensor * tensor, const void * data, size_t offset, size_t size) {
    if (size > 0) {
        ggml_backend_buffer_t buffer = checked_buffer(tensor, offset, size);
        if (buffer) {
            buffer->iface.set_tensor(buffer, tensor, data, offset, size);
        } else {
            memcpy((char *) tensor->data + offset, data, size);
        }
    }
}

void ggml_backend_tensor_get(const struct ggml_tensor * tensor, void * data, size_t offset, size_t size) {
    if (size > 0) {
        ggml_backend_buffer_t buffer = checked_buffer(tensor, offset, size);
        if (buffer) {
            buffer->iface.get_tensor(buffer, tensor, data, offset, size);
        } else {
            memcpy(data, (const char *) tensor->data + offset, size);
        }
    }
}

void ggml_backend_tensor_memset(struct ggml_tensor * tensor, uint8_t value, size_t offset, size_t size) {
    if (size > 0) {
        ggml_backend_buffer_t buffer = checked_buffer(tensor, offset, size);
        if (buffer) {
            buffer->iface.memset_tensor(buffer, tensor, value, offset, size);
        } else {
            memset((char *) tensor->data + offset, value, size);
        }
    }
}

const char * ggml_backend_name(ggml_backend_t backend) { return backend->iface.get_name(backend); }

void ggml_backend_free(ggml_backend_t backend) {
    if (backend) {
        backend->iface.free(backend);
    }
}

ggml_backend_dev_t ggml_backend_get_device(ggml_backend_t backend) { return backend->device; }

ggml_backend_buffer_type_t ggml_backend_get_default_buffer_type(ggml_backend_t backend) {
    return ggml_backend_dev_buffer_type(backend->device);
}

ggml_backend_buffer_t ggml_backend_alloc_buffer(ggml_backend_t backend, size_t size) {
    return ggml_backend_buft_alloc_buffer(ggml_backend_get_default_buffer_type(backend), size);
}

enum ggml_status ggml_backend_graph_compute(ggml_backend_t backend, struct ggml_cgraph * graph) {
    return backend->iface.graph_compute(backend, graph);
}

void ggml_backend_synchronize(ggml_backend_t backend) {
    if (backend->iface.synchronize) {
        backend->iface.synchronize(backend);
    }
}

bool ggml_backend_supports_op(ggml_backend_t backend, const struct ggml_tensor * op) { return ggml_backend_dev_supports_op(backend->device, op); }
