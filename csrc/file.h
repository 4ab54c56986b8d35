/* file.h - a mapped GGUF file: its metadata, its tensor table, and a ggml context with one tensor (no data yet) for each row of it. */
#ifndef QT_FILE_H
#define QT_FILE_H

#include "error.h"

#include <ggml.h>
#include <gguf.h>

struct qt_file {
    char * path;
    struct gguf_context * gguf;
    struct ggml_context * tensors; /* same order as the file */
};

enum qt_status file_open(const char * path, struct qt_file ** file);
void file_free(struct qt_file * file);

/* Fails when the file was cut or written to since it was opened: then its tensors must not be touched. One system call. */
enum qt_status file_check(const struct qt_file * file);
/* Start of a tensor's data in the mapping. */
const void * file_tensor_data(const struct qt_file * file, int64_t index);
/* All n_values elements as float. */
enum qt_status file_tensor_read(const struct qt_file * file, int64_t index, float * values, int64_t n_values);
/* The key as stored; fails by name when the file has none. */
enum qt_status file_value(const struct qt_file * file, const char * key, struct qt_value * value);

#endif
