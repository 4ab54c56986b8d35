/* mapped_file.h - a whole file as read-only memory, loaded by the system page by page as it is read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct mapped_file {
    const void * data; /* NULL for an empty file */
    size_t size_bytes;
};

/* false with the reason in error; nothing is held then. The file must not be cut while it is mapped. */
bool mapped_file_open(struct mapped_file * file, const char * path, char * error, size_t error_size);
void mapped_file_close(struct mapped_file * file);
