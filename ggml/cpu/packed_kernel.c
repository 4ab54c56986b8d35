/* packed_kernel.c - a buffer type whose tensors are kernels in the order of packed_kernel.h. A kernel is packed as it is set and unpacked as it is read back, so
 * to everybody but the convolutions it is an ordinary F16 tensor. Its op_params say what it is for: 1 + the stride, 0 if that was never said. */
#include "packed_kernel.h"

#include "graph_run.h"
#include "packed.h"

#define CHANNELS_LEAST 16 /* with fewer a tile is mostly zeros: convolutions compute them in another way */

enum { PACK, UNPACK };

static struct kernel_shape shape_of(const struct ggml_tensor * kernel) {
    GGML_ASSERT(ggml_get_op_params_i32(kernel, 0) > 0);
    return kernel_shape_of(kernel, ggml_get_op_params_i32(kernel, 0) - 1);
}

/* The taps of one channel of one column: way says which of the two is written. There are n; what a step has more stays zero. */
static inline void taps_move(const int way, const bool transposed, uint16_t * packed, uint16_t * file, int64_t taps, int64_t phases, int64_t n) {
    const int64_t step = KERNEL_STEP_BYTES / 2;
    for (int64_t k = 0; k < n; k++) {
        uint16_t * at = packed + (transposed ? taps - 1 - k : k) * step; /* in the order of time */
        *(way == PACK ? at : file + k * phases) = *(way == PACK ? file + k * phases : at);
    }
    for (int64_t k = n; way == PACK && k < taps; k++) {
        packed[(transposed ? taps - 1 - k : k) * step] = 0;
    }
}

/* A block of channels of a panel; K: taps of a channel in the file. */
static inline void block_move(const int way, const bool transposed, const struct kernel_shape * s, int64_t K, uint16_t * packed, uint16_t * file,
                              int64_t panel, int64_t b) {
    for (int64_t c = 0; c < KERNEL_COLUMNS; c++) {
        const int64_t column = panel * s->panel + c, oc = column / s->phases, phase = column % s->phases;
        const bool is_column = c < s->panel && oc < s->OC;
        const int64_t n = transposed ? (K - phase + s->phases - 1) / s->phases : s->taps;
        for (int64_t i = 0; i < KERNEL_CHANNELS; i++) {
            const int64_t ic = b * KERNEL_CHANNELS + i, at = (transposed ? ic * s->OC + oc : oc * s->IC + ic) * K + phase;
            uint16_t * to = packed + c / 16 * (KERNEL_CHANNELS * 16) + i / 2 * 32 + c % 16 * 2 + i % 2;
            const bool is_there = is_column && ic < s->IC;
            taps_move(way, transposed, to, file + (is_there ? at : 0), s->taps, s->phases, is_there ? n : 0);
        }
    }
}

static inline void kernel_move(const int way, const struct ggml_tensor * kernel, uint16_t * file) {
    const struct kernel_shape s = shape_of(kernel);
    uint16_t * packed = kernel->data;
    for (int64_t panel = 0; panel < s.n_panels; panel++) {
        for (int64_t b = 0; b < s.n_ic; b++, packed += s.taps * (KERNEL_STEP_BYTES / 2)) {
            if (s.phases > 1) {
                block_move(way, true, &s, kernel->ne[0], packed, file, panel, b);
            } else {
                block_move(way, false, &s, kernel->ne[0], packed, file, panel, b);
            }
        }
    }
}

/* Such memory exists only beside kernels that read it. */
static bool pack_quickly(const struct ggml_tensor * kernel, int64_t stride, void * out) {
#if defined(GGML_HAS_TIER_AMX)
    return cpu_kernels_amx.pack_kernel(kernel, stride, out);
#else
    GGML_UNUSED(kernel);
    GGML_UNUSED(stride);
    GGML_UNUSED(out);
    return false;
#endif
}

static void buffer_set(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor, const void * data, size_t offset, size_t size) {
    GGML_UNUSED(buffer);
    GGML_ASSERT(offset == 0 && size == ggml_nbytes(tensor));
    struct ggml_tensor file = *tensor; /* the same kernel as it lies in a file */
    file.data = (void *) (uintptr_t) data;
    if (!pack_quickly(&file, ggml_get_op_params_i32(tensor, 0) - 1, tensor->data)) {
        kernel_move(PACK, tensor, (uint16_t *) (uintptr_t) data);
    }
}

static void buffer_get(ggml_backend_buffer_t buffer, const struct ggml_tensor * tensor, void * data, size_t offset, size_t size) {
    GGML_UNUSED(buffer);
    GGML_ASSERT(offset == 0 && size == ggml_nbytes(tensor));
    kernel_move(UNPACK, tensor, data);
}

static const char * buft_name(ggml_backend_buffer_type_t buft) {
    GGML_UNUSED(buft);
    return "CPU_KERNEL";
}

static ggml_backend_buffer_t buft_alloc(ggml_backend_buffer_type_t buft, size_t size) { return cpu_packed_buffer_new(buft, size, buffer_set, buffer_get); }

static size_t buft_alloc_size(ggml_backend_buffer_type_t buft, const struct ggml_tensor * tensor) {
    GGML_UNUSED(buft);
    const struct kernel_shape s = shape_of(tensor);
    return kernel_packed_bytes(&s);
}

static struct ggml_backend_buffer_type kernel_buft = {
    .iface = { .get_name = buft_name, .alloc_buffer = buft_alloc, .get_alignment = cpu_packed_alignment, .get_alloc_size = buft_alloc_size },
};

bool cpu_is_packed_kernel(const struct ggml_tensor * tensor) { return tensor->buffer && tensor->buffer->buft == &kernel_buft; }

bool ggml_cpu_can_pack_kernel(const struct ggml_tensor * kernel, int stride) {
    const struct kernel_shape s = kernel_shape_of(kernel, stride);
    return kernel->type == GGML_TYPE_F16 && !kernel->view_src && kernel->ne[3] == 1 && stride != 1 &&
           s.IC >= CHANNELS_LEAST && s.OC * s.phases >= CHANNELS_LEAST;
}

void ggml_cpu_set_kernel_stride(struct ggml_tensor * kernel, int stride) { ggml_set_op_params_i32(kernel, 0, 1 + stride); }

bool ggml_cpu_is_kernel(const struct ggml_tensor * tensor) { return tensor->op == GGML_OP_NONE && ggml_get_op_params_i32(tensor, 0) > 0; }

ggml_backend_buffer_type_t ggml_backend_cpu_kernel_buffer_type(ggml_backend_t backend) {
    return ggml_backend_is_cpu(backend) && ((struct cpu_backend *) backend->context)->kernels->convolves_packed() ? &kernel_buft : NULL;
}
