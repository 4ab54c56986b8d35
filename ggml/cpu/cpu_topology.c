/* cpu_topology.c - see cpu_topology.h. Read of each processor: topology/thread_siblings_list, cpu_capacity (Arm, 1024 is the fastest) or
 * cpufreq/cpuinfo_max_freq; of the machine: devices/cpu_core/cpus, the fast cores of an Intel hybrid.
 * Threads take equal shares of every product and meet behind it, so a slow core among fast ones would set the pace. */
#include "cpu_topology.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAST_CAPACITY 0.8  /* of the fastest: a little core has 0.2 to 0.6, a middle one next to a prime core 0.85 and more */
#define FAST_FREQUENCY 0.7 /* of the highest: favoured cores of one kind differ by a tenth; a compact core next to a large one has 0.6 to 0.69 */

struct cpu {
    bool counts; /* allowed, and the first allowed hardware thread of its core */
    long capacity, frequency; /* 0: not said */
};

static bool read_line(char * line, int size, const char * root, const char * format, int number) {
    char name[128], path[1200];
    snprintf(name, sizeof name, format, number);
    if (snprintf(path, sizeof path, "%s/sys/devices/%s", root, name) >= (int) sizeof path) {
        return false;
    }
    FILE * f = fopen(path, "r");
    bool got = f && fgets(line, size, f);
    if (f) {
        fclose(f);
    }
    return got;
}

static long read_number(const char * root, const char * format, int number) {
    char line[64];
    return read_line(line, sizeof line, root, format, number) ? strtol(line, NULL, 10) : 0;
}

/* The next range of a list such as "0,64-65"; false at its end. */
static bool next_range(const char ** list, long * first, long * last) {
    char * end;
    *first = *last = strtol(*list, &end, 10);
    if (end == *list) {
        return false;
    }
    if (*end == '-') {
        *last = strtol(end + 1, &end, 10);
    }
    *list = *end == ',' ? end + 1 : end;
    return true;
}

/* The lowest processor of the list that may be used; fallback where there is none. */
static long first_allowed(const char * list, const unsigned char * allowed, int n_cpus, long fallback) {
    long lowest = n_cpus, first, last;
    while (next_range(&list, &first, &last)) {
        for (long i = first < 0 ? 0 : first; i <= last && i < lowest; i++) {
            lowest = allowed[i] ? i : lowest;
        }
    }
    return lowest < n_cpus ? lowest : fallback;
}

static bool is_listed(const char * list, long cpu) {
    long first, last;
    while (next_range(&list, &first, &last)) {
        if (first <= cpu && cpu <= last) {
            return true;
        }
    }
    return false;
}

/* Whether a core is as fast as the fastest allowed one, or nearly. */
static bool is_fast(const struct cpu * cpu, long most_capacity, long most_frequency) {
    if (most_capacity > 0 && cpu->capacity > 0) {
        return (double) cpu->capacity >= FAST_CAPACITY * (double) most_capacity;
    }
    return cpu->frequency == 0 || (double) cpu->frequency >= FAST_FREQUENCY * (double) most_frequency;
}

int cpu_topology_cores(const char * root, const unsigned char * allowed, int n_cpus) {
    struct cpu * cpus = calloc((size_t) n_cpus + 1, sizeof *cpus);
    char line[4096], fast_list[4096];
    int n_cores = 0, n_fast = 0;
    long most_capacity = 0, most_frequency = 0;
    for (int i = 0; cpus && i < n_cpus; i++) {
        if (!allowed[i]) {
            continue;
        }
        if (!read_line(line, sizeof line, root, "system/cpu/cpu%d/topology/thread_siblings_list", i)) {
            free(cpus);
            return 0;
        }
        struct cpu * cpu = &cpus[i];
        cpu->counts = first_allowed(line, allowed, n_cpus, i) == i;
        cpu->capacity = read_number(root, "system/cpu/cpu%d/cpu_capacity", i);
        cpu->frequency = read_number(root, "system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", i);
        most_capacity = cpu->capacity > most_capacity ? cpu->capacity : most_capacity;
        most_frequency = cpu->frequency > most_frequency ? cpu->frequency : most_frequency;
        n_cores += cpu->counts;
    }
    bool is_hybrid = read_line(fast_list, sizeof fast_list, root, "cpu_core/cpus", 0);
    for (int i = 0; cpus && i < n_cpus; i++) {
        n_fast += cpus[i].counts && (is_hybrid ? is_listed(fast_list, i) : is_fast(&cpus[i], most_capacity, most_frequency));
    }
    free(cpus);
    return n_fast >= 2 ? n_fast : n_cores;
}
