/* memory.c - small buffers from the heap, large ones from maps of their own that ask for huge pages.
 * Two threads read an anonymous buffer 1.02 to 1.16 times as fast in pages of 2 MB as in pages of 4 KB (docs/performance.md). Pages are huge only where
 * a whole one fits, so a buffer takes no more memory than its size. */
#if defined(__linux__)
#  define _DEFAULT_SOURCE
#  include <sys/mman.h>
#endif
#include "memory.h"

#include <stdint.h>
#include <stdlib.h>

#include "../core/internal.h"

#define HUGE_PAGE_BYTES ((size_t) 2 << 20)

/* The heap keeps the sanitizer's red zones. */
#if defined(__linux__) && defined(MADV_HUGEPAGE) && !defined(__SANITIZE_ADDRESS__)
#  define HAS_HUGE_PAGES 1
#else
#  define HAS_HUGE_PAGES 0
#endif

#if HAS_HUGE_PAGES
static size_t map_bytes(size_t size) { return GGML_PAD(size, (size_t) 64 << 10); } /* a multiple of every base page */

/* A map that starts at a huge page: one that is too long, cut at both ends. */
static void * map_new(size_t size) {
    const size_t length = map_bytes(size);
    char * map = mmap(NULL, length + HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        return NULL;
    }
    char * start = (char *) GGML_PAD((uintptr_t) map, HUGE_PAGE_BYTES);
    if (start > map) {
        munmap(map, (size_t) (start - map));
    }
    munmap(start + length, HUGE_PAGE_BYTES - (size_t) (start - map));
    madvise(start, length, MADV_HUGEPAGE); /* a kernel without them refuses: the memory is as good, only slower */
    return start;
}
#endif

void * cpu_memory_new(size_t size) {
    if (size >= SIZE_MAX / 2) {
        return NULL;
    }
#if HAS_HUGE_PAGES
    if (size >= HUGE_PAGE_BYTES) {
        return map_new(size);
    }
#endif
    return aligned_alloc(GGML_MEM_ALIGN, GGML_PAD(size ? size : 1, GGML_MEM_ALIGN));
}

void cpu_memory_free(void * memory, size_t size) {
#if HAS_HUGE_PAGES
    if (size >= HUGE_PAGE_BYTES) {
        if (memory) {
            munmap(memory, map_bytes(size));
        }
        return;
    }
#endif
    (void) size;
    free(memory);
}
