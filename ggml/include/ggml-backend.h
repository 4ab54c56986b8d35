/* ggml-backend.h - devices, buffers, and running graphs.
 * A device makes backends (streams of computation) and buffer types (kinds of memory). One backend serves one thread at a time. */
#pragma once

#include "ggml.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ggml_backend_buffer_type * ggml_backend_buffer_type_t;
typedef struct ggml_backend_buffer * ggml_backend_buffer_t;
typedef struct ggml_backend * ggml_backend_t;
typedef struct ggml_backend_device * ggml_backend_dev_t;

enum ggml_backend_buffer_usage { GGML_BACKEND_BUFFER_USAGE_ANY = 0, GGML_BACKEND_BUFFER_USAGE_WEIGHTS = 1, GGML_BACKEND_BUFFER_USAGE_COMPUTE = 2 };
enum ggml_backend_dev_type { GGML_BACKEND_DEVICE_TYPE_CPU = 0, GGML_BACKEND_DEVICE_TYPE_GPU = 1 };

/* --- buffer types and buffers --- */
const char *          ggml_backend_buft_name(ggml_backend_buffer_type_t buft);
ggml_backend_buffer_t ggml_backend_buft_alloc_buffer(ggml_backend_buffer_type_t buft, size_t size); /* NULL when memory cannot be had */
size_t                ggml_backend_buft_get_alignment(ggml_backend_buffer_type_t buft);
size_t                ggml_backend_buft_get_alloc_size(ggml_backend_buffer_type_t buft, const struct ggml_tensor * tensor);
bool                  ggml_backend_buft_is_host(ggml_backend_buffer_type_t buft);

void   ggml_backend_buffer_free(ggml_backend_buffer_t buffer);
void * ggml_backend_buffer_get_base(ggml_backend_buffer_t buffer);
size_t ggml_backend_buffer_get_size(ggml_backend_buffer_t buffer);
void   ggml_backend_buffer_clear(ggml_backend_buffer_t buffer, uint8_t value);
bool   ggml_backend_buffer_is_host(ggml_backend_buffer_t buffer);
void   ggml_backend_buffer_set_usage(ggml_backend_buffer_t buffer, enum ggml_backend_buffer_usage usage);
ggml_backend_buffer_type_t ggml_backend_buffer_get_type(ggml_backend_buffer_t buffer);

/* Give tensor memory at addr inside buffer. */
enum ggml_status ggml_backend_tensor_alloc(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor, void * addr);
/* Give a view the memory of its view_src. */
enum ggml_status ggml_backend_view_init(struct ggml_tensor * tensor);

/* Host to tensor and back, packed tensors; offset and size in bytes, inside the tensor. */
void ggml_backend_tensor_set(struct ggml_tensor * tensor, const void * data, size_t offset, size_t size);
void ggml_backend_tensor_get(const struct ggml_tensor * tensor, void * data, size_t offset, size_t size);
void ggml_backend_tensor_memset(struct ggml_tensor * tensor, uint8_t value, size_t offset, size_t size);

/* --- backends --- */
const char *     ggml_backend_name(ggml_backend_t backend);
void             ggml_backend_free(ggml_backend_t backend);
ggml_backend_buffer_type_t ggml_backend_get_default_buffer_type(ggml_backend_t backend);
ggml_backend_buffer_t      ggml_backend_alloc_buffer(ggml_backend_t backend, size_t size);
enum ggml_status ggml_backend_graph_compute(ggml_backend_t backend, struct ggml_cgraph * graph);
void             ggml_backend_synchronize(ggml_backend_t backend);
bool             ggml_backend_supports_op(ggml_backend_t backend, const struct ggml_tensor * op);
ggml_backend_dev_t ggml_backend_get_device(ggml_backend_t backend);

/* --- devices --- */
size_t             ggml_backend_dev_count(void);
ggml_backend_dev_t ggml_backend_dev_get(size_t index);             /* NULL out of range */
ggml_backend_dev_t ggml_backend_dev_by_name(const char * name);    /* "CPU", ...; NULL if none; letter case does not matter */
ggml_backend_dev_t ggml_backend_dev_by_type(enum ggml_backend_dev_type type);
const char *       ggml_backend_dev_name(ggml_backend_dev_t device);
const char *       ggml_backend_dev_description(ggml_backend_dev_t device);
enum ggml_backend_dev_type ggml_backend_dev_type(ggml_backend_dev_t device);
ggml_backend_t     ggml_backend_dev_init(ggml_backend_dev_t device, const char * params); /* NULL on failure */
ggml_backend_buffer_type_t ggml_backend_dev_buffer_type(ggml_backend_dev_t device);
/* Memory that already holds data (a mapped file), used in place and never written; NULL where a device cannot. */
ggml_backend_buffer_t ggml_backend_dev_buffer_from_host_ptr(ggml_backend_dev_t device, void * ptr, size_t size, size_t max_tensor_size);
bool               ggml_backend_dev_supports_op(ggml_backend_dev_t device, const struct ggml_tensor * op);

#ifdef __cplusplus
}
#endif
