/* gguf_reader.h - a cursor over the bytes of a GGUF file that never passes their end, and the one way a reading step fails. */
#pragma once

#include "gguf_context.h"

struct gguf_reader {
    struct gguf_context * gguf;
    const char * source; /* file name for messages */
    size_t at;           /* bytes read */
    char * error;
    size_t error_size;
};

/* Puts "source: text" into error; always false. */
bool reader_fail(struct gguf_reader * r, const char * fmt, ...) GGML_PRINTF(2, 3);
static inline size_t reader_left(const struct gguf_reader * r) { return r->gguf->size_bytes - r->at; }

/* what names the place in messages. */
bool reader_bytes(struct gguf_reader * r, void * to, size_t n, const char * what);
bool reader_u32(struct gguf_reader * r, uint32_t * to, const char * what);
bool reader_u64(struct gguf_reader * r, uint64_t * to, const char * what);
/* A length and that many bytes, which stay where they are. */
bool reader_string(struct gguf_reader * r, const char ** text, size_t * n, const char * what);

/* qsort has no argument for a table, so the compared entries are pairs of a name and its index. */
struct named {
    const char * name;
    size_t index;
};

/* Fill order with the indices sorted by name; two equal names are refused. names is sorted, too. */
bool reader_sort_names(struct gguf_reader * r, struct named * names, size_t n, size_t * order, const char * kind);

/* gguf_read_tensors.c: the tensor list, from the cursor on; then a record for each of the tensors, without data. */
bool tensor_table_read(struct gguf_reader * r);
bool tensor_records_make(struct gguf_reader * r, struct ggml_context ** out);

char * reader_copy_text(const char * text, size_t n); /* NUL-terminated; NULL when memory cannot be had */
/* A name for a message, cut to to_size - 1 bytes: names from the file may hold anything. */
void reader_printable(char * to, size_t to_size, const char * text, size_t n);
