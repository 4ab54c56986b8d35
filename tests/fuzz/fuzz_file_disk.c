/* fuzz_file_disk.c - fuzz_file.h over a temporary file. */
#include "fuzz_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char * fuzz_file_put(struct fuzz_file * file, const uint8_t * data, size_t size) {
    snprintf(file->path, sizeof file->path, "/tmp/qwentts-fuzz-XXXXXX");
    file->fd = mkstemp(file->path);
    for (size_t at = 0; at < size;) {
        ssize_t n = file->fd < 0 ? -1 : write(file->fd, data + at, size - at);
        if (n <= 0) {
            perror(file->path);
            exit(2);
        }
        at += (size_t) n;
    }
    return file->path;
}

void fuzz_file_drop(struct fuzz_file * file) {
    close(file->fd);
    unlink(file->path);
}
