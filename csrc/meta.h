/* meta.h - typed reading of a file's keys. A reader keeps its first failure and answers 0 from then on, so a list of reads is checked once
 * at its end. Messages name the file, the key, the value and the valid range. */
#ifndef QT_META_H
#define QT_META_H

#include "file.h"

struct meta {
    const struct qt_file * file;
    enum qt_status status;
};

bool meta_has(const struct meta * meta, const char * key);
/* Elements of an array, of any type; 0 when the key is missing. */
int64_t meta_length(struct meta * meta, const char * key);
/* An integer of any width within [lo, hi]. */
int32_t meta_int(struct meta * meta, const char * key, int32_t lo, int32_t hi);
/* A finite float within [lo, hi]. */
float meta_float(struct meta * meta, const char * key, double lo, double hi);
/* An array of 1 to n_max integers within [lo, hi]; returns their number. values may be NULL. */
int meta_ints(struct meta * meta, const char * key, int32_t * values, int n_max, int32_t lo, int32_t hi);
/* Copies of an array of strings: *strings [n] with its strings in one block; free() it. Returns n. */
int meta_strings(struct meta * meta, const char * key, int n_max, char *** strings);
/* A string that lives as long as the file; "" on failure. */
const char * meta_text(struct meta * meta, const char * key);

#endif
