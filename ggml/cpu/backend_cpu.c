/* backend_cpu.c - the CPU as a ggml device: its buffers are ordinary memory, its backend a thread pool and a kernel table.
 * What ops it has is supports_op.c's answer, how a graph runs is graph_run.c's; here are the vtables that lead there. */
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#  include <cpuid.h>
#endif

#include "graph_run.h"
#include "memory.h"
#include "tiers.h"

/* --- buffers: context is the memory --- */

static void buffer_free(ggml_backend_buffer_t buffer) { cpu_memory_free(buffer->context, buffer->size); }

static void * buffer_get_base(ggml_backend_buffer_t buffer) { return buffer->context; }

static void buffer_memset(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor, uint8_t value, size_t offset, size_t size) {
    GGML_UNUSED(buffer);
    memset((char *) tensor->data + offset, value, size);
}

static void buffer_set(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor, const void * data, size_t offset, size_t size) {
    GGML_UNUSED(buffer);
    memcpy((char *) tensor->data + offset, data, size);
}

static void buffer_get(ggml_backend_buffer_t buffer, const struct ggml_tensor * tensor, void * data, size_t offset, size_t size) {
    GGML_UNUSED(buffer);
    memcpy(data, (const char *) tensor->data + offset, size);
}

static void buffer_clear(ggml_backend_buffer_t buffer, uint8_t value) { memset(buffer->context, value, buffer->size); }

static const struct ggml_backend_buffer_i buffer_iface = {
    .free_buffer = buffer_free,
    .get_base = buffer_get_base,
    .memset_tensor = buffer_memset,
    .set_tensor = buffer_set,
    .get_tensor = buffer_get,
    .clear = buffer_clear,
};

static const char * buft_name(ggml_backend_buffer_type_t buft) {
    GGML_UNUSED(buft);
    return "CPU";
}

static ggml_backend_buffer_t buft_alloc(ggml_backend_buffer_type_t buft, size_t size) {
    void * memory = cpu_memory_new(size);
    return memory ? ggml_backend_buffer_init(buft, buffer_iface, memory, size) : NULL;
}

static size_t buft_alignment(ggml_backend_buffer_type_t buft) {
    GGML_UNUSED(buft);
    return GGML_MEM_ALIGN;
}

static bool buft_is_host(ggml_backend_buffer_type_t buft) {
    GGML_UNUSED(buft);
    return true;
}

static struct ggml_backend_device cpu_device;

static struct ggml_backend_buffer_type cpu_buft = {
    .iface = { .get_name = buft_name, .alloc_buffer = buft_alloc, .get_alignment = buft_alignment, .is_host = buft_is_host },
    .device = &cpu_device,
};

ggml_backend_buffer_type_t ggml_backend_cpu_buffer_type(void) { return &cpu_buft; }

/* The memory stays the caller's. */
ggml_backend_buffer_t ggml_backend_cpu_buffer_from_ptr(void * ptr, size_t size) {
    struct ggml_backend_buffer_i iface = buffer_iface;
    iface.free_buffer = NULL;
    return ggml_backend_buffer_init(&cpu_buft, iface, ptr, size);
}

/* --- backend --- */

static const char * backend_name(ggml_backend_t backend) {
    GGML_UNUSED(backend);
    return "CPU";
}

static void backend_free(ggml_backend_t backend) {
    struct cpu_backend * cpu = backend->context;
    cpu_pool_free(cpu->pool);
    cpu_memory_free(cpu->scratch, cpu->scratch_bytes);
    free(cpu);
    free(backend);
}

static enum ggml_status backend_graph_compute(ggml_backend_t backend, struct ggml_cgraph * graph) { return cpu_graph_run(backend->context, graph); }

ggml_backend_t ggml_backend_cpu_init(void) {
    const struct cpu_kernels * kernels = cpu_tier_choose();
    if (!kernels) {
        return NULL;
    }
    struct cpu_backend * cpu = calloc(1, sizeof *cpu);
    struct ggml_backend * backend = calloc(1, sizeof *backend);
    struct cpu_pool * pool = cpu_pool_new(ggml_cpu_default_n_threads());
    if (!cpu || !backend || !pool) {
        ggml_log_internal(GGML_LOG_LEVEL_ERROR, "cpu: no memory, or %d threads cannot be started", ggml_cpu_default_n_threads());
        cpu_pool_free(pool);
        free(backend);
        free(cpu);
        return NULL;
    }
    *cpu = (struct cpu_backend) { .kernels = kernels, .pool = pool, .n_threads = cpu_pool_n_threads(pool) };
    backend->iface.get_name = backend_name;
    backend->iface.free = backend_free;
    backend->iface.graph_compute = backend_graph_compute;
    backend->device = &cpu_device;
    backend->context = cpu;
    return backend;
}

bool ggml_backend_is_cpu(ggml_backend_t backend) { return backend && backend->device == &cpu_device; }

static struct cpu_backend * cpu_of(ggml_backend_t backend) {
    GGML_ASSERT(ggml_backend_is_cpu(backend));
    return backend->context;
}

void ggml_backend_cpu_set_n_threads(ggml_backend_t backend, int n_threads) {
    struct cpu_backend * cpu = cpu_of(backend);
    GGML_ASSERT(n_threads >= 1);
    if (cpu->pool && cpu->n_threads == n_threads) {
        return;
    }
    cpu_pool_free(cpu->pool);
    cpu->n_threads = n_threads;
    cpu->pool = cpu_pool_new(n_threads); /* where this fails, computing a graph tries once more and reports it */
}

void ggml_backend_cpu_set_abort_callback(ggml_backend_t backend, ggml_abort_callback callback, void * data) {
    struct cpu_backend * cpu = cpu_of(backend);
    cpu->abort_callback = callback;
    cpu->abort_data = data;
}

const char * ggml_cpu_tier_name(ggml_backend_t backend) { return cpu_of(backend)->kernels->name; }

/* --- device --- */

static const char * device_name(ggml_backend_dev_t device) {
    GGML_UNUSED(device);
    return "CPU";
}

static const char * device_description(ggml_backend_dev_t device) {
    GGML_UNUSED(device);
#if defined(__x86_64__)
    static _Thread_local char brand[49];
    unsigned regs[12];
    if (__get_cpuid_max(0x80000000, NULL) >= 0x80000004) {
        for (unsigned i = 0; i < 3; i++) {
            __cpuid(0x80000002 + i, regs[4 * i], regs[4 * i + 1], regs[4 * i + 2], regs[4 * i + 3]);
        }
        memcpy(brand, regs, 48);
        return brand + strspn(brand, " ");
    }
#endif
    return "CPU";
}

static enum ggml_backend_dev_type device_type(ggml_backend_dev_t device) {
    GGML_UNUSED(device);
    return GGML_BACKEND_DEVICE_TYPE_CPU;
}

static ggml_backend_t device_init_backend(ggml_backend_dev_t device, const char * params) {
    GGML_UNUSED(device);
    GGML_UNUSED(params);
    return ggml_backend_cpu_init();
}

static ggml_backend_buffer_type_t device_buffer_type(ggml_backend_dev_t device) {
    GGML_UNUSED(device);
    return &cpu_buft;
}

static ggml_backend_buffer_t device_buffer_from_ptr(ggml_backend_dev_t device, void * ptr, size_t size, size_t max_tensor_size) {
    GGML_UNUSED(device);
    GGML_UNUSED(max_tensor_size);
    return ggml_backend_cpu_buffer_from_ptr(ptr, size);
}

static bool device_supports_op(ggml_backend_dev_t device, const struct ggml_tensor * op) {
    GGML_UNUSED(device);
    return cpu_supports_op(op);
}

static struct ggml_backend_device cpu_device = {
    .iface = {
        .get_name = device_name,
        .get_description = device_description,
        .get_type = device_type,
        .init_backend = device_init_backend,
        .get_buffer_type = device_buffer_type,
        .buffer_from_host_ptr = device_buffer_from_ptr,
        .supports_op = device_supports_op,
    },
};

ggml_backend_dev_t ggml_backend_cpu_device(void) { return &cpu_device; }
