/* ggml-cpu.h - the CPU backend.
 * One pool of threads and one table of kernels, chosen at start-up by what the processor has; QWENTTS_CPU_TIER=scalar|avx2|avxvnni|avx512|amx|neon|dotprod
 * forces one. */
#pragma once

#include "ggml.h"
#include "ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef bool (*ggml_abort_callback)(void * data); /* true stops the graph before its next node */

ggml_backend_t ggml_backend_cpu_init(void); /* NULL when memory or threads cannot be had, or QWENTTS_CPU_TIER names none of this machine's tiers */
bool ggml_backend_is_cpu(ggml_backend_t backend);
void ggml_backend_cpu_set_n_threads(ggml_backend_t backend, int n_threads); /* 1 or more; default: ggml_cpu_default_n_threads */
void ggml_backend_cpu_set_abort_callback(ggml_backend_t backend, ggml_abort_callback callback, void * data);
ggml_backend_buffer_t ggml_backend_cpu_buffer_from_ptr(void * ptr, size_t size);
ggml_backend_buffer_type_t ggml_backend_cpu_buffer_type(void);
/* Memory for quantized matrices in the order in which this backend multiplies fastest; NULL where it knows no better one than that of files. Only a
 * ggml_mul_mat may read them there. set and get take whole rows, as files hold them, and may be called by several threads. */
ggml_backend_buffer_type_t ggml_backend_cpu_packed_buffer_type(ggml_backend_t backend);
bool ggml_cpu_can_pack(const struct ggml_tensor * matrix);
/* The same for F16 kernels of convolutions, once it is said of each what it is for: stride 0, ggml_conv_1d and _causal, else ggml_conv_transpose_1d_causal of that
 * stride, which alone may read it there. set and get take whole kernels. */
ggml_backend_buffer_type_t ggml_backend_cpu_kernel_buffer_type(ggml_backend_t backend);
bool ggml_cpu_can_pack_kernel(const struct ggml_tensor * kernel, int stride);
void ggml_cpu_set_kernel_stride(struct ggml_tensor * kernel, int stride);
bool ggml_cpu_is_kernel(const struct ggml_tensor * tensor); /* whether its stride was said */

/* Facts for --caps and messages. */
const char * ggml_cpu_tier_name(ggml_backend_t backend);      /* "avx2" */
const char * ggml_cpu_tiers_available(void);                  /* "scalar avx2 avxvnni avx512 amx" */
const char * ggml_cpu_tier_default(void);                     /* what a new backend computes with; NULL: QWENTTS_CPU_TIER names none of these */
const char * ggml_cpu_features(void);                         /* "sse2 sse3 ... avx2 os:avx"; the string is the thread's */
int          ggml_cpu_quota_cores(void);                      /* cores of the cgroup's CPU quota, rounded up; 0: no limit */
int          ggml_cpu_default_n_threads(void);                /* cores, not hardware threads, of the affinity mask and cgroup quota; of unlike cores the fast ones */

#ifdef __cplusplus
}
#endif
