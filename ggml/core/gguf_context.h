/* gguf_context.h - what gguf_read.c finds in a file and gguf_values.c hands out. Everything here was checked against the file's size. */
#pragma once

#include "internal.h"
#include "mapped_file.h"

struct gguf_kv {
    char * key;
    enum gguf_type type;
    enum gguf_type arr_type; /* of the elements; GGUF_TYPE_COUNT for a scalar */
    uint64_t n;              /* elements; 1 for a scalar */
    const uint8_t * raw;     /* as stored: in values, or in the caller's bytes */
    size_t raw_bytes;
    char * str;              /* copy of a scalar string */
    char ** _Atomic strings; /* copies of an array's strings, made when first asked for */
};

struct gguf_tensor_info {
    char name[GGML_MAX_NAME];
    enum ggml_type type;
    int n_dims;
    int64_t ne[GGML_MAX_DIMS];
    uint64_t offset; /* from data_offset */
    size_t size_bytes;
};

struct gguf_context {
    struct mapped_file file; /* data NULL when the bytes are the caller's */
    const uint8_t * bytes;
    size_t size_bytes;
    uint8_t * values; /* of a file's keys, one after the other; NULL when the bytes are the caller's */
    uint32_t version;
    size_t alignment;
    size_t data_offset;
    size_t n_kv, n_tensors;
    struct gguf_kv * kv;
    struct gguf_tensor_info * tensors;
    size_t * kv_order;     /* indices in order of key */
    size_t * tensor_order; /* indices in order of name */
};

size_t gguf_type_bytes(enum gguf_type type); /* of a number or bool; 0 for strings, arrays and numbers that are no type */
