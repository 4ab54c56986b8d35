/* fuzz_file_memory.c - fuzz_file.h without a file: linked in place of ggml/core/mapped_file.c, it "maps" a copy of exactly the file's size, whose
 * bounds the address sanitizer watches. */
#include "fuzz_file.h"

#include "../../ggml/core/mapped_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t * bytes;
static size_t n_bytes;

const char * fuzz_file_put(struct fuzz_file * file, const uint8_t * data, size_t size) {
    bytes = data;
    n_bytes = size;
    snprintf(file->path, sizeof file->path, "input.gguf");
    return file->path;
}

void fuzz_file_drop(struct fuzz_file * file) {
    (void) file;
    bytes = NULL;
    n_bytes = 0;
}

bool mapped_file_open(struct mapped_file * file, const char * path, char * error, size_t error_size) {
    void * copy = NULL;
    *file = (struct mapped_file) { .size_bytes = n_bytes };
    if (n_bytes > 0 && posix_memalign(&copy, 4096, n_bytes) != 0) {
        snprintf(error, error_size, "%s: no memory", path);
        return false;
    }
    if (copy) {
        memcpy(copy, bytes, n_bytes);
    }
    file->data = copy;
    return true;
}

bool mapped_file_check(const struct mapped_file * file, char * error, size_t error_size) {
    (void) file, (void) error, (void) error_size;
    return true;
}

void mapped_file_close(struct mapped_file * file) {
    free((void *) (uintptr_t) file->data);
    *file = (struct mapped_file) { 0 };
}
