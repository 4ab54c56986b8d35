/* threads.c - pool and barrier over pthreads and C11 atomics.
 * Everything rests on one primitive, the gate: a counter that one thread advances and others wait to see change. A waiter spins first; one that
 * goes to sleep counts itself in sleepers before it looks at the counter for the last time, and the opener advances the counter before it looks at
 * sleepers. Both in sequentially consistent order, so at least one of them sees the other and no wake-up is lost; nobody sleeping costs no lock.
 * How long a thread spins adapts: where cores are shared with other programs, the awaited thread is often not running, and spinning takes the very
 * core it needs. With two threads on two cores that ran six other jobs, a fixed 40 us made a graph take twice as long as no spinning at all. */
#include "threads.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../include/ggml-cpu.h"
#include "kernels.h"

#define SPIN_MOST_NS 40000  /* longer than the wait at a barrier of a balanced node, about what a sleep and its wake-up cost */
#define SPIN_LEAST_NS 1000
#define SPIN_STEP_NS 500    /* slow enough that the budget stays low where a thread loses its core every few milliseconds */
#define SPIN_WORTH_NS 80000 /* a wait that ended within this, wake-up included, would have been caught by SPIN_MOST_NS of spinning */

struct gate {
    _Alignas(64) atomic_uint value;
    atomic_int sleepers;
    pthread_mutex_t mutex;
    pthread_cond_t opened;
};

struct cpu_pool {
    struct gate start;            /* advanced once a run */
    struct gate barrier;          /* advanced by the last to arrive */
    _Alignas(64) atomic_int arrived;
    _Alignas(64) atomic_llong claimed; /* units since the last barrier */
    int nth;
    int n_workers;                /* threads that really run, nth - 1 once the pool is made */
    bool spins;                   /* false with more threads than cores: the awaited one needs ours */
    pid_t process;                /* that made the workers */
    bool stop;                    /* written before start is advanced, like fn and arg */
    cpu_pool_fn fn;
    void * arg;
    long caller_spin_ns;          /* at barriers, of thread 0 */
    struct worker {
        _Alignas(64) struct cpu_pool * pool;
        int ith;
        long start_spin_ns;       /* what this thread spins now before it sleeps, at either gate */
        long barrier_spin_ns;
        pthread_t thread;
    } workers[];
};

static bool gate_init(struct gate * gate) {
    atomic_init(&gate->value, 0);
    atomic_init(&gate->sleepers, 0);
    if (pthread_mutex_init(&gate->mutex, NULL) != 0) {
        return false;
    }
    if (pthread_cond_init(&gate->opened, NULL) != 0) {
        pthread_mutex_destroy(&gate->mutex);
        return false;
    }
    return true;
}

static void gate_destroy(struct gate * gate) {
    pthread_cond_destroy(&gate->opened);
    pthread_mutex_destroy(&gate->mutex);
}

static void gate_advance(struct gate * gate) {
    atomic_fetch_add(&gate->value, 1);
    if (atomic_load(&gate->sleepers) > 0) {
        pthread_mutex_lock(&gate->mutex); /* past this no sleeper is between its last look and its wait */
        pthread_mutex_unlock(&gate->mutex);
        pthread_cond_broadcast(&gate->opened);
    }
}

static inline void spin_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); /* yield does nothing on most cores; isb waits about as long as pause */
#endif
}

static long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long) (t.tv_sec % 1000000) * 1000000000L + t.tv_nsec;
}

/* Spins up to spin_ns; whether the gate opened. */
static bool gate_spin(struct gate * gate, unsigned seen, long spin_ns) {
    long end = 0;
    for (int i = 1;; i++) {
        if (atomic_load_explicit(&gate->value, memory_order_acquire) != seen) {
            return true;
        }
        spin_pause();
        if (i % 16 == 0) { /* reading the clock costs about as much as a pause */
            long t = now_ns();
            if (end == 0) {
                end = t + spin_ns;
            } else if (t >= end) {
                return false;
            }
        }
    }
}

static void gate_sleep(struct gate * gate, unsigned seen) {
    pthread_mutex_lock(&gate->mutex);
    atomic_fetch_add(&gate->sleepers, 1);
    while (atomic_load(&gate->value) == seen) {
        pthread_cond_wait(&gate->opened, &gate->mutex);
    }
    atomic_fetch_sub(&gate->sleepers, 1);
    pthread_mutex_unlock(&gate->mutex);
}

/* Waits until gate leaves seen. spin_ns is this thread's budget for spinning here: a long wait ends it, short ones restore it step by step. */
static void gate_wait(struct gate * gate, unsigned seen, bool spins, long * spin_ns) {
    if (!spins) {
        gate_sleep(gate, seen);
        return;
    }
    bool was_short = gate_spin(gate, seen, *spin_ns);
    if (!was_short) {
        long start = now_ns();
        gate_sleep(gate, seen);
        was_short = *spin_ns + now_ns() - start < SPIN_WORTH_NS;
    }
    *spin_ns = !was_short ? SPIN_LEAST_NS : *spin_ns + SPIN_STEP_NS < SPIN_MOST_NS ? *spin_ns + SPIN_STEP_NS : SPIN_MOST_NS;
}

void cpu_pool_barrier(struct cpu_pool * pool, int ith) {
    if (pool->nth == 1) {
        return;
    }
    long * spin_ns = ith == 0 ? &pool->caller_spin_ns : &pool->workers[ith - 1].barrier_spin_ns;
    unsigned seen = atomic_load_explicit(&pool->barrier.value, memory_order_relaxed);
    if (atomic_fetch_add(&pool->arrived, 1) == pool->nth - 1) {
        atomic_store_explicit(&pool->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&pool->claimed, 0, memory_order_relaxed);
        gate_advance(&pool->barrier);
    } else {
        gate_wait(&pool->barrier, seen, pool->spins, spin_ns);
    }
}

void cpu_barrier(const struct cpu_task * task) {
    if (task->nth > 1) {
        cpu_pool_barrier(task->pool, task->ith);
    }
}

int64_t cpu_claim(const struct cpu_task * task, int64_t * own) {
    return task->nth > 1 ? atomic_fetch_add_explicit(&task->pool->claimed, 1, memory_order_relaxed) : (*own)++;
}

static void * worker_main(void * p) {
    struct worker * worker = p;
    struct cpu_pool * pool = worker->pool;
    for (unsigned seen = 0;; seen++) {
        gate_wait(&pool->start, seen, pool->spins, &worker->start_spin_ns);
        if (pool->stop) {
            return NULL;
        }
        pool->fn(pool, worker->ith, pool->nth, pool->arg);
        cpu_pool_barrier(pool, worker->ith);
    }
}

void cpu_pool_run(struct cpu_pool * pool, cpu_pool_fn fn, void * arg) {
    pool->fn = fn;
    pool->arg = arg;
    if (pool->nth > 1) {
        gate_advance(&pool->start);
    }
    fn(pool, 0, pool->nth, arg);
    cpu_pool_barrier(pool, 0);
}

struct cpu_pool * cpu_pool_new(int n_threads) {
    size_t size = sizeof(struct cpu_pool) + (size_t) (n_threads - 1) * sizeof(struct worker);
    struct cpu_pool * pool = aligned_alloc(64, GGML_PAD(size, 64));
    if (!pool) {
        return NULL;
    }
    memset(pool, 0, size);
    pool->nth = n_threads;
    pool->spins = n_threads <= ggml_cpu_default_n_threads();
    pool->caller_spin_ns = SPIN_MOST_NS;
    pool->process = getpid();
    atomic_init(&pool->arrived, 0);
    atomic_init(&pool->claimed, 0); /* and 0 again after the barrier that ends a run */
    if (!gate_init(&pool->start)) {
        free(pool);
        return NULL;
    }
    if (!gate_init(&pool->barrier)) {
        gate_destroy(&pool->start);
        free(pool);
        return NULL;
    }
    /* Signals stay with the program's own threads: an interrupt must reach the one that can act on it. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool ok = true;
    while (ok && pool->n_workers < n_threads - 1) {
        struct worker * worker = &pool->workers[pool->n_workers];
        worker->pool = pool;
        worker->ith = pool->n_workers + 1;
        worker->start_spin_ns = worker->barrier_spin_ns = SPIN_MOST_NS;
        ok = pthread_create(&worker->thread, NULL, worker_main, worker) == 0;
        pool->n_workers += ok;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!ok) {
        cpu_pool_free(pool);
        return NULL;
    }
    return pool;
}

void cpu_pool_free(struct cpu_pool * pool) {
    if (!pool) {
        return;
    }
    if (!cpu_pool_is_ours(pool)) {
        free(pool);
        return;
    }
    pool->stop = true;
    gate_advance(&pool->start);
    for (int i = 0; i < pool->n_workers; i++) {
        pthread_join(pool->workers[i].thread, NULL);
    }
    gate_destroy(&pool->barrier);
    gate_destroy(&pool->start);
    free(pool);
}

bool cpu_pool_is_ours(const struct cpu_pool * pool) { return pool->process == getpid(); }

int cpu_pool_n_threads(const struct cpu_pool * pool) { return pool->nth; }
