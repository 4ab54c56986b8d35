/* kernels.h - what a tier offers: one function an op, and how much shared scratch the op wants.
 * Every file of ops/ and table.c is compiled once a tier with QT_TIER set to its name; KERNEL(f) makes f_avx2, f_scalar, ...
 * A kernel is called by all threads of the pool at once with the same dst. It splits outputs by (ith, nth), never a sum, so that results do not
 * depend on the number of threads. Shapes were decided by the builder; kernels trust them. */
#pragma once

#include "../core/internal.h"

#define KERNEL_PASTE2(a, b) a##_##b
#define KERNEL_PASTE(a, b) KERNEL_PASTE2(a, b)
#define KERNEL(name) KERNEL_PASTE(name, QT_TIER)

struct cpu_pool;

struct cpu_task {
    int ith;               /* this thread, 0 .. nth-1 */
    int nth;
    void * scratch;        /* shared by all threads, 64-byte aligned, as large as the op's scratch function said */
    struct cpu_pool * pool;
};

/* All threads of the task meet here; memory written before is seen after. */
void cpu_barrier(const struct cpu_task * task);

/* The next of the units 0, 1, 2, ... that no thread has taken since the op began or all threads last met: a core that is slowed down by what else runs on it
 * then takes fewer. own: of this thread, 0 before its first call. */
int64_t cpu_claim(const struct cpu_task * task, int64_t * own);

/* This thread's part [*first, *last) of n items, in multiples of grain (the last part takes the rest). */
static inline void cpu_range(const struct cpu_task * task, int64_t n, int64_t grain, int64_t * first, int64_t * last) {
    int64_t units = (n + grain - 1) / grain;
    int64_t lo = units * task->ith / task->nth * grain;
    int64_t hi = units * (task->ith + 1) / task->nth * grain;
    *first = lo < n ? lo : n;
    *last = hi < n ? hi : n;
}

typedef void (*cpu_op_fn)(const struct cpu_task * task, struct ggml_tensor * dst);
typedef size_t (*cpu_scratch_fn)(const struct ggml_tensor * dst, int nth);

struct cpu_kernels {
    const char * name;
    cpu_op_fn ops[GGML_OP_COUNT];          /* NULL: nothing to compute (views) */
    cpu_scratch_fn scratch[GGML_OP_COUNT]; /* NULL: none */
    bool (*multiplies_packed)(void);       /* whether MUL_MAT takes matrices of packed.h */
    bool (*convolves_packed)(void);        /* whether convolutions take kernels of packed_kernel.h */
    bool (*pack_kernel)(const struct ggml_tensor * kernel, int64_t stride, void * out); /* a quick way for some of them; false: not for this one */
    /* Two nodes in a row as one, where the first one's result is read by the second alone and stays unwritten. Whether they are taken so depends on the two
     * nodes alone, and what the second gives is bit for bit the same. */
    bool (*pairs)(const struct ggml_tensor * first, const struct ggml_tensor * second);
    void (*pair)(const struct cpu_task * task, struct ggml_tensor * first, struct ggml_tensor * second);
    size_t (*pair_scratch)(const struct ggml_tensor * first, const struct ggml_tensor * second, int nth);
};

/* One a tier that was compiled; tiers.c chooses. */
extern const struct cpu_kernels cpu_kernels_scalar;
extern const struct cpu_kernels cpu_kernels_avx2;
extern const struct cpu_kernels cpu_kernels_avxvnni;
extern const struct cpu_kernels cpu_kernels_avx512;
extern const struct cpu_kernels cpu_kernels_amx;
extern const struct cpu_kernels cpu_kernels_neon;
extern const struct cpu_kernels cpu_kernels_dotprod;
