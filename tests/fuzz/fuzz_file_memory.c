/* fuzz_file_memory.c - fuzz_file.h without a file system: linked in place of ggml/core/mapped_file.c, it maps a file in memory, and the address
 * sanitizer is told where the file ends inside its last page. A map it is, not a heap block: the library gives pages of it back. */
#define _GNU_SOURCE
#include "fuzz_file.h"

#include "../../ggml/core/mapped_file.h"

#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096

static size_t n_bytes;
static int memory = -1;

static size_t mapped_bytes(size_t size) { return (size + PAGE - 1) / PAGE * PAGE; }

const char * fuzz_file_put(struct fuzz_file * file, const uint8_t * data, size_t size) {
    n_bytes = size;
    memory = memfd_create("fuzz", MFD_CLOEXEC);
    if (memory < 0 || ftruncate(memory, (off_t) mapped_bytes(size)) != 0 || write(memory, data, size) != (ssize_t) size) {
        perror("memfd");
        exit(2);
    }
    snprintf(file->path, sizeof file->path, "input.gguf");
    return file->path;
}

void fuzz_file_drop(struct fuzz_file * file) {
    (void) file;
    close(memory);
    memory = -1;
}

bool mapped_file_open(struct mapped_file * file, const char * path, char * error, size_t error_size) {
    *file = (struct mapped_file) { .size_bytes = n_bytes };
    if (n_bytes == 0) {
        return true;
    }
    void * data = mmap(NULL, mapped_bytes(n_bytes), PROT_READ, MAP_PRIVATE, memory, 0);
    if (data == MAP_FAILED) {
        snprintf(error, error_size, "%s: no memory", path);
        return false;
    }
    __asan_poison_memory_region((char *) data + n_bytes, mapped_bytes(n_bytes) - n_bytes);
    file->data = data;
    return true;
}

bool mapped_file_check(const struct mapped_file * file, char * error, size_t error_size) {
    (void) file, (void) error, (void) error_size;
    return true;
}

void mapped_file_close(struct mapped_file * file) {
    if (file->data) {
        __asan_unpoison_memory_region(file->data, mapped_bytes(file->size_bytes));
        munmap((void *) (uintptr_t) file->data, mapped_bytes(file->size_bytes));
    }
    *file = (struct mapped_file) { 0 };
}
