/* internal.h - what the core and the backends share and a user of ggml does not see: the graph struct and the vtables.
 * A backend fills one table each for its device, its buffer type, its buffers and its streams; optional entries may be NULL. */
#pragma once

#include "../include/ggml.h"
#include "../include/ggml-backend.h"
#include "../include/gguf.h"

/* Nodes are in an order in which each follows its sources; leafs are the tensors no op computes. */
struct ggml_cgraph {
    int size; /* capacity of nodes and of leafs */
    int n_nodes;
    int n_leafs;
    struct ggml_tensor ** nodes;
    struct ggml_tensor ** leafs;
    size_t visited_size; /* slots of the hash set below, a power of two */
    struct ggml_tensor ** visited;
};

struct ggml_backend_buffer_type_i {
    const char * (*get_name)(ggml_backend_buffer_type_t buft);
    ggml_backend_buffer_t (*alloc_buffer)(ggml_backend_buffer_type_t buft, size_t size);
    size_t (*get_alignment)(ggml_backend_buffer_type_t buft);
    size_t (*get_alloc_size)(ggml_backend_buffer_type_t buft, const struct ggml_tensor * tensor); /* optional: ggml_nbytes */
    bool (*is_host)(ggml_backend_buffer_type_t buft);                                             /* optional: false */
};

struct ggml_backend_buffer_type {
    struct ggml_backend_buffer_type_i iface;
    ggml_backend_dev_t device;
    void * context;
};

struct ggml_backend_buffer_i {
    void (*free_buffer)(ggml_backend_buffer_t buffer); /* optional */
    void * (*get_base)(ggml_backend_buffer_t buffer);
    void (*memset_tensor)(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor, uint8_t value, size_t offset, size_t size);
    void (*set_tensor)(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor, const void * data, size_t offset, size_t size);
    void (*get_tensor)(ggml_backend_buffer_t buffer, const struct ggml_tensor * tensor, void * data, size_t offset, size_t size);
    void (*clear)(ggml_backend_buffer_t buffer, uint8_t value);
};

struct ggml_backend_buffer {
    struct ggml_backend_buffer_i iface;
    ggml_backend_buffer_type_t buft;
    void * context;
    size_t size;
    enum ggml_backend_buffer_usage usage;
};

struct ggml_backend_i {
    const char * (*get_name)(ggml_backend_t backend);
    void (*free)(ggml_backend_t backend);
    void (*synchronize)(ggml_backend_t backend); /* optional */
    enum ggml_status (*graph_compute)(ggml_backend_t backend, struct ggml_cgraph * graph);
};

struct ggml_backend {
    struct ggml_backend_i iface;
    ggml_backend_dev_t device;
    void * context;
};

struct ggml_backend_device_i {
    const char * (*get_name)(ggml_backend_dev_t dev);
    const char * (*get_description)(ggml_backend_dev_t dev);
    enum ggml_backend_dev_type (*get_type)(ggml_backend_dev_t dev);
    ggml_backend_t (*init_backend)(ggml_backend_dev_t dev, const char * params);
    ggml_backend_buffer_type_t (*get_buffer_type)(ggml_backend_dev_t dev);
    ggml_backend_buffer_t (*buffer_from_host_ptr)(ggml_backend_dev_t dev, void * ptr, size_t size, size_t max_tensor_size); /* optional */
    bool (*supports_op)(ggml_backend_dev_t dev, const struct ggml_tensor * op);
};

struct ggml_backend_device {
    struct ggml_backend_device_i iface;
    void * context;
};

/* Built-in devices register here; core/registry.c lists them. */
ggml_backend_dev_t ggml_backend_cpu_device(void);

/* core/backend.c: wrap what a backend made; NULL when memory cannot be had (then iface.free_buffer is called). */
ggml_backend_buffer_t ggml_backend_buffer_init(ggml_backend_buffer_type_t buft, struct ggml_backend_buffer_i iface, void * context, size_t size);

/* op_params are read and written through these. */
static inline int32_t ggml_get_op_params_i32(const struct ggml_tensor * t, int i) { return t->op_params[i]; }
static inline float ggml_get_op_params_f32(const struct ggml_tensor * t, int i) {
    union { int32_t i; float f; } u = { t->op_params[i] };
    return u.f;
}
static inline void ggml_set_op_params_i32(struct ggml_tensor * t, int i, int32_t v) { t->op_params[i] = v; }
static inline void ggml_set_op_params_f32(struct ggml_tensor * t, int i, float v) {
    union { float f; int32_t i; } u = { v };
    t->op_params[i] = u.i;
}

/* Sources of CONV_1D and CONV_TRANSPOSE_1D; from the third on NULL where the convolution does without. */
enum { CONV_SRC_KERNEL, CONV_SRC_DATA, CONV_SRC_PAST, CONV_SRC_SNAKE_A, CONV_SRC_SNAKE_INV_B, CONV_SRC_BIAS, CONV_SRC_RESIDUAL };

/* op_params by op (the builder writes them, the kernel reads them):
 *   SCALE f32 s | CLAMP f32 min, max | UNARY i32 ggml_unary_op | GLU none: silu(src0) * src1 | NORM, RMS_NORM f32 eps
 *   CONCAT i32 dim | PAD i32 lp0 rp0 lp1 rp1 lp2 rp2 lp3 rp3 | PAD_REFLECT_1D i32 p0 p1 | SOFT_MAX f32 scale; src1 mask or NULL
 *   ROPE i32 n_dims, mode; f32 freq_base, freq_scale, attn_factor | FLASH_ATTN_EXT f32 scale; src q k v mask
 *   CONV_1D i32 s0, p0 before the data, d0, ggml_conv_act, ggml_prec, passed on; src CONV_SRC_* | CONV_1D_DW i32 s0 p0 d0; src0 kernel, src1 data
 *   CONV_TRANSPOSE_1D i32 s0, none, none, ggml_conv_act, ggml_prec; src CONV_SRC_* | COL2IM_1D i32 s0 oc p0
 *   CPY src0 -> src1, dst is a view of src1 | SET_ROWS src0 rows, src1 indices, dst is a view of src2 */

void ggml_log_internal(enum ggml_log_level level, const char * fmt, ...) GGML_PRINTF(2, 3);
