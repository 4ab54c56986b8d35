/* packed_buffer.c - a buffer type whose tensors are matrices in the order of packed.h. Rows are packed as they are set and unpacked as they are read
 * back, so to everybody but mul_packed.c they are ordinary quantized tensors. */
#include "graph_run.h"
#include "packed.h"

/* What is set and read are whole rows. */
static void rows_of(const struct ggml_tensor * tensor, size_t offset, size_t size, int64_t * first, int64_t * n) {
    const size_t row_bytes = ggml_row_size(tensor->type, tensor->ne[0]);
    GGML_ASSERT(!tensor->view_src && offset % row_bytes == 0 && size % row_bytes == 0);
    *first = (int64_t) (offset / row_bytes);
    *n = (int64_t) (size / row_bytes);
}

static void buffer_set(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor, const void * data, size_t offset, size_t size) {
    int64_t first, n;
    GGML_UNUSED(buffer);
    rows_of(tensor, offset, size, &first, &n);
    packed_set_rows(tensor->type, tensor->ne[0], tensor->data, first, n, data);
}

static void buffer_get(ggml_backend_buffer_t buffer, const struct ggml_tensor * tensor, void * data, size_t offset, size_t size) {
    int64_t first, n;
    GGML_UNUSED(buffer);
    rows_of(tensor, offset, size, &first, &n);
    packed_get_rows(tensor->type, tensor->ne[0], tensor->data, first, n, data);
}

static void packed_memset(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor, uint8_t value, size_t offset, size_t size) {
    GGML_UNUSED(buffer);
    GGML_UNUSED(offset);
    GGML_UNUSED(size);
    GGML_UNUSED(value);
    GGML_ABORT("%s: bytes of packed weights cannot be set", ggml_get_name(tensor));
}

ggml_backend_buffer_t cpu_packed_buffer_new(ggml_backend_buffer_type_t buft, size_t size, cpu_packed_set set, cpu_packed_get get) {
    ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), size); /* but for what goes in and out */
    if (buffer) {
        buffer->buft = buft;
        buffer->iface.set_tensor = set;
        buffer->iface.get_tensor = get;
        buffer->iface.memset_tensor = packed_memset;
    }
    return buffer;
}

size_t cpu_packed_alignment(ggml_backend_buffer_type_t buft) {
    GGML_UNUSED(buft);
    return GGML_MEM_ALIGN;
}

static const char * buft_name(ggml_backend_buffer_type_t buft) {
    GGML_UNUSED(buft);
    return "CPU_PACKED";
}

static ggml_backend_buffer_t buft_alloc(ggml_backend_buffer_type_t buft, size_t size) { return cpu_packed_buffer_new(buft, size, buffer_set, buffer_get); }

static size_t buft_alloc_size(ggml_backend_buffer_type_t buft, const struct ggml_tensor * tensor) {
    GGML_UNUSED(buft);
    return (size_t) ((tensor->ne[1] + PACKED_ROWS - 1) / PACKED_ROWS) * packed_group_bytes(tensor->type, tensor->ne[0]);
}

static struct ggml_backend_buffer_type packed_buft = {
    .iface = { .get_name = buft_name, .alloc_buffer = buft_alloc, .get_alignment = cpu_packed_alignment, .get_alloc_size = buft_alloc_size },
};

bool cpu_is_packed(const struct ggml_tensor * tensor) { return tensor->buffer && tensor->buffer->buft == &packed_buft; }

bool ggml_cpu_can_pack(const struct ggml_tensor * tensor) {
    return packed_block_bytes(tensor->type) > 0 && !tensor->view_src && tensor->ne[1] >= PACKED_ROWS && tensor->ne[2] == 1 && tensor->ne[3] == 1;
}

ggml_backend_buffer_type_t ggml_backend_cpu_packed_buffer_type(ggml_backend_t backend) {
    return ggml_backend_is_cpu(backend) && ((struct cpu_backend *) backend->context)->kernels->multiplies_packed() ? &packed_buft : NULL;
}
