/* cpu_count.c - how many cores this process may keep busy: those of its affinity mask, cut by the CPU quota of its control group.
 * Linux: cores and not hardware threads count (cpu_topology.c); the quota is cpu.max (version 2) or cpu.cfs_quota_us over cpu.cfs_period_us (version 1), of the group itself or any group above it. */
#if defined(__linux__)
#  define _GNU_SOURCE
#  include <sched.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../include/ggml-cpu.h"
#include "cpu_topology.h"

static int count_affinity(void) {
#if defined(__linux__)
    for (int n = 1024; n <= 1 << 20; n *= 2) { /* the kernel refuses a mask shorter than its own */
        cpu_set_t * set = CPU_ALLOC((size_t) n);
        if (!set) {
            break;
        }
        size_t size = CPU_ALLOC_SIZE((size_t) n);
        int ok = sched_getaffinity(0, size, set) == 0;
        int count = ok ? CPU_COUNT_S(size, set) : 0, cores = 0;
        unsigned char * allowed = ok ? calloc((size_t) n, 1) : NULL;
        if (allowed) {
            for (int i = 0; i < n; i++) {
                allowed[i] = CPU_ISSET_S((size_t) i, size, set) != 0;
            }
            cores = cpu_topology_cores("", allowed, n);
        }
        free(allowed);
        CPU_FREE(set);
        if (ok) {
            return cores > 0 ? cores : count > 0 ? count : 1;
        }
    }
#endif
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int) n : 1;
}

#if defined(__linux__)
static int read_text(const char * path, char * text, size_t size) {
    FILE * f = fopen(path, "r");
    if (!f) {
        return 0;
    }
    size_t n = fread(text, 1, size - 1, f);
    fclose(f);
    text[n] = 0;
    return n > 0;
}

/* Cores, rounded up, that quota microseconds in every period pay for; 0: no limit. */
static int quota_cores(long quota, long period) { return quota > 0 && period > 0 ? (int) ((quota + period - 1) / period) : 0; }

static int group_quota(const char * dir, int version) {
    char path[1200], text[128];
    long quota = 0, period = 0;
    if (version == 2) {
        snprintf(path, sizeof path, "%s/cpu.max", dir);
        return read_text(path, text, sizeof text) && sscanf(text, "%ld %ld", &quota, &period) == 2 ? quota_cores(quota, period) : 0;
    }
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", dir);
    if (!read_text(path, text, sizeof text)) {
        return 0;
    }
    quota = strtol(text, NULL, 10);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
    return read_text(path, text, sizeof text) ? quota_cores(quota, strtol(text, NULL, 10)) : 0;
}

/* The least quota from group up to the root of the hierarchy mounted at root; 0: none. In a container the group's own path may not exist
 * below the mount, whose root then is the group. */
static int least_quota(const char * root, const char * group, int version) {
    char dir[1024];
    int least = 0;
    if (snprintf(dir, sizeof dir, "%s%s", root, group) >= (int) sizeof dir) {
        return 0;
    }
    size_t root_len = strlen(root);
    for (;;) {
        int n = group_quota(dir, version);
        if (n > 0 && (least == 0 || n < least)) {
            least = n;
        }
        char * slash = strrchr(dir, '/');
        if (strlen(dir) <= root_len || !slash) {
            return least;
        }
        *slash = 0;
    }
}

int cpu_quota_cores(const char * root) {
    char line[1024], v1[512], v2[512];
    snprintf(line, sizeof line, "%.500s/proc/self/cgroup", root);
    snprintf(v1, sizeof v1, "%.490s/sys/fs/cgroup/cpu", root);
    snprintf(v2, sizeof v2, "%.490s/sys/fs/cgroup", root);
    FILE * f = fopen(line, "r");
    int least = 0;
    while (f && fgets(line, sizeof line, f)) { /* "0::/group" or "4:cpu,cpuacct:/group" */
        line[strcspn(line, "\n")] = 0;
        char * names = strchr(line, ':');
        char * group = names ? strchr(names + 1, ':') : NULL;
        if (!group) {
            continue;
        }
        *group++ = 0;
        names++;
        int n = 0;
        if (*names == 0) {
            n = least_quota(v2, group, 2);
        } else {
            for (char * rest = NULL, * name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
                if (strcmp(name, "cpu") == 0) {
                    n = least_quota(v1, group, 1);
                }
            }
        }
        if (n > 0 && (least == 0 || n < least)) {
            least = n;
        }
    }
    if (f) {
        fclose(f);
    }
    return least;
}
#else
int cpu_quota_cores(const char * root) {
    (void) root;
    return 0;
}
#endif

int ggml_cpu_quota_cores(void) { return cpu_quota_cores(""); }

int ggml_cpu_default_n_threads(void) {
    int cores = count_affinity(), quota = ggml_cpu_quota_cores();
    return quota > 0 && quota < cores ? quota : cores;
}
