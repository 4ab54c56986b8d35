/* memory.c - Linux: MemAvailable of /proc/meminfo, cut by the control group's limit less what its processes hold (its page cache can be
 * dropped): memory.max and anon of memory.stat (version 2) or memory.limit_in_bytes and total_rss (version 1). */
#include "memory.h"

#if defined(__linux__)
#  include <stdio.h>
#  include <stdlib.h>
#  include <string.h>

/* The number behind key at the start of a line; -1: no such line or file. */
static int64_t number_in(const char * path, const char * key) {
    FILE * f = fopen(path, "r");
    int64_t value = -1;
    char line[256];
    while (f && value < 0 && fgets(line, sizeof line, f)) {
        size_t n = strlen(key);
        if (strncmp(line, key, n) == 0 && line[n] != '\0') {
            char * end;
            long long number = strtoll(line + n, &end, 10);
            value = end != line + n && number >= 0 ? number : -1;
        }
    }
    if (f) {
        fclose(f);
    }
    return value;
}

static int64_t group_available(const char * limit_path, const char * stat_path, const char * used_key) {
    int64_t limit = number_in(limit_path, ""), used = number_in(stat_path, used_key);
    return limit < 0 || used < 0 ? INT64_MAX : limit > used ? limit - used : 0;
}

int64_t memory_available_bytes(void) {
    int64_t kb = number_in("/proc/meminfo", "MemAvailable:");
    int64_t bytes = kb < 0 || kb > INT64_MAX / 1024 ? INT64_MAX : kb * 1024;
    int64_t v2 = group_available("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.stat", "anon ");
    int64_t v1 = group_available("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.stat", "total_rss ");
    bytes = v2 < bytes ? v2 : bytes;
    return v1 < bytes ? v1 : bytes;
}
#else
int64_t memory_available_bytes(void) { return INT64_MAX; }
#endif

#if defined(__GLIBC__)
#  include <malloc.h>
void memory_trim(void) { malloc_trim(0); }
#else
void memory_trim(void) {}
#endif
