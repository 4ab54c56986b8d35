/* mapped_file.h - a whole file as read-only memory, loaded by the system page by page as it is read.
 *
 * Trap: a page that lay in a part of the file that was cut off ends the process with SIGBUS when it is touched. A file that is deleted, or replaced
 * by another under its name, stays whole while it is mapped. A library may not catch SIGBUS for its process, so callers ask mapped_file_check
 * before they compute: what remains is a cut during a call. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mapped_file {
    const void * data; /* NULL for an empty file */
    size_t size_bytes;
    int fd;            /* open as long as data is mapped */
    int64_t changed_s, changed_ns; /* the file's last change of content, when it was opened */
};

/* false with the reason in error; nothing is held then. */
bool mapped_file_open(struct mapped_file * file, const char * path, char * error, size_t error_size);
/* The file has the size and the content it was opened with, as far as the file system says; else false with the reason in error. */
bool mapped_file_check(const struct mapped_file * file, char * error, size_t error_size);
void mapped_file_close(struct mapped_file * file);
