/* vocabulary.h - byte-level BPE: a word to token ids by the tokens and merges of a file. What comes before (added tokens, normal form, words, bytes as
 * printable characters) is the caller's. */
#ifndef QT_VOCABULARY_H
#define QT_VOCABULARY_H

#include "error.h"

struct qt_vocabulary;

/* tokens and merges are arrays of strings as qt_file_value gives them, read only here. is_added [tokens->n]: tokens that no merge makes. */
enum qt_status vocabulary_new(const struct qt_value * tokens, const struct qt_value * merges, const uint8_t * is_added, struct qt_vocabulary ** vocabulary);
void vocabulary_free(struct qt_vocabulary * vocabulary); /* NULL is legal */
/* The id of the token of these bytes; -1: none. Of equal tokens the last one's. */
int64_t vocabulary_find(const struct qt_vocabulary * vocabulary, const char * text, int64_t n_bytes);
/* The n_bytes of a token, which live as long as the vocabulary; NULL out of range. */
const char * vocabulary_token(const struct qt_vocabulary * vocabulary, int64_t id, int64_t * n_bytes);
/* Merges that begin with # and were made from the tokens. */
int64_t vocabulary_n_derived(const struct qt_vocabulary * vocabulary);
/* ids [n_bytes] gets *n_ids of them. Characters that are no token are left out. */
enum qt_status vocabulary_encode(const struct qt_vocabulary * vocabulary, const char * word, int64_t n_bytes, int32_t * ids, int64_t * n_ids);

#endif
