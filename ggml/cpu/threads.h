/* threads.h - the pool of threads that runs a graph: a caller and nth - 1 workers that meet at barriers.
 * Waiting spins for tens of microseconds, the time between two nodes of a graph, and then sleeps: between graphs no core is busy. */
#pragma once

#include <stdbool.h>

struct cpu_pool;

typedef void (*cpu_pool_fn)(struct cpu_pool * pool, int ith, int nth, void * arg);

struct cpu_pool * cpu_pool_new(int n_threads); /* NULL when memory or a thread cannot be had */
void cpu_pool_free(struct cpu_pool * pool);    /* ends the workers where they are ours; NULL is legal */
int  cpu_pool_n_threads(const struct cpu_pool * pool);

/* false in a forked child, which has the pool's memory but none of its workers: a child makes a pool of its own. */
bool cpu_pool_is_ours(const struct cpu_pool * pool);

/* fn on every thread, the caller being ith 0; returns once all have returned. One caller at a time. */
void cpu_pool_run(struct cpu_pool * pool, cpu_pool_fn fn, void * arg);

/* Inside fn: all threads meet; memory written before is seen after. */
void cpu_pool_barrier(struct cpu_pool * pool, int ith);
