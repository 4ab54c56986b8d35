/* fuzz_file.h - bytes of the fuzzer as a file that the library opens by its path. Two ways to do it: fuzz_file_disk.c makes a file,
 * fuzz_file_memory.c takes the place of mapped_file.c, so that the address sanitizer knows where the file ends. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct fuzz_file {
    char path[64];
    int fd;
};

/* The path; lives until the drop. */
const char * fuzz_file_put(struct fuzz_file * file, const uint8_t * data, size_t size);
void fuzz_file_drop(struct fuzz_file * file);
