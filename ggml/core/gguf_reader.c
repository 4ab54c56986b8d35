/* gguf_reader.c - gguf_reader.h: checked reads and the text of a refusal. */
#include "gguf_reader.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool reader_fail(struct gguf_reader * r, const char * fmt, ...) {
    int n = snprintf(r->error, r->error_size, "%s: ", r->source);
    if (n > 0 && (size_t) n < r->error_size) {
        va_list args;
        va_start(args, fmt);
        vsnprintf(r->error + n, r->error_size - (size_t) n, fmt, args);
        va_end(args);
    }
    return false;
}

bool reader_bytes(struct gguf_reader * r, void * to, size_t n, const char * what) {
    if (reader_left(r) < n) {
        return reader_fail(r, "file ends at byte %zu inside %s: %zu bytes wanted, %zu left", r->gguf->size_bytes, what, n, reader_left(r));
    }
    memcpy(to, r->gguf->bytes + r->at, n);
    r->at += n;
    return true;
}

bool reader_u32(struct gguf_reader * r, uint32_t * to, const char * what) { return reader_bytes(r, to, sizeof *to, what); }
bool reader_u64(struct gguf_reader * r, uint64_t * to, const char * what) { return reader_bytes(r, to, sizeof *to, what); }

bool reader_string(struct gguf_reader * r, const char ** text, size_t * n, const char * what) {
    uint64_t length = 0;
    if (!reader_u64(r, &length, what)) {
        return false;
    }
    if (length > reader_left(r)) {
        return reader_fail(r, "%s has length %" PRIu64 ", but only %zu bytes are left", what, length, reader_left(r));
    }
    *text = (const char *) r->gguf->bytes + r->at;
    *n = (size_t) length;
    r->at += *n;
    return true;
}

char * reader_copy_text(const char * text, size_t n) {
    char * copy = malloc(n + 1);
    if (copy) {
        memcpy(copy, text, n);
        copy[n] = 0;
    }
    return copy;
}

void reader_printable(char * to, size_t to_size, const char * text, size_t n) {
    n = n < to_size - 1 ? n : to_size - 1;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char) text[i];
        to[i] = c < 32 || c > 126 ? '?' : (char) c;
    }
    to[n] = 0;
}

static int compare_named(const void * a, const void * b) {
    const struct named * x = a;
    const struct named * y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

bool reader_sort_names(struct gguf_reader * r, struct named * names, size_t n, size_t * order, const char * kind) {
    qsort(names, n, sizeof names[0], compare_named);
    for (size_t i = 0; i < n; i++) {
        order[i] = names[i].index;
        if (i > 0 && strcmp(names[i - 1].name, names[i].name) == 0) {
            char name[96];
            reader_printable(name, sizeof name, names[i].name, strlen(names[i].name));
            return reader_fail(r, "%s \"%s\" appears twice, as number %zu and %zu", kind, name, names[i - 1].index, names[i].index);
        }
    }
    return true;
}
