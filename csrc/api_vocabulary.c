/* api_vocabulary.c - vocabulary entries of qwentts.h: check the arguments, call. */
#include "vocabulary.h"

#define TYPE_STRING 8          /* gguf_type */
#define MOST_BYTES (1 << 28)   /* of a word: its pieces are counted in 32 bits */

static enum qt_status check_strings(const char * who, const char * name, const struct qt_value * value) {
    if (!value->is_array || value->type != TYPE_STRING || value->n < 0 || value->n_bytes < 0 || (value->n_bytes > 0 && !value->data)) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: %s is of type %d, expected an array of strings (%d)", who, name, (int) value->type, TYPE_STRING);
    }
    return QT_STATUS_OK;
}

enum qt_status qt_vocabulary_new(const struct qt_value * tokens, const struct qt_value * merges, const uint8_t * is_added, int64_t n_tokens,
                                 struct qt_vocabulary ** vocabulary) {
    QT_REQUIRE(vocabulary);
    *vocabulary = NULL;
    QT_REQUIRE(tokens);
    QT_REQUIRE(merges);
    QT_REQUIRE(is_added);
    QT_TRY(check_strings(__func__, "tokens", tokens));
    QT_TRY(check_strings(__func__, "merges", merges));
    if (n_tokens != tokens->n) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: n_tokens is %lld, there are %lld tokens", __func__, (long long) n_tokens, (long long) tokens->n);
    }
    return vocabulary_new(tokens, merges, is_added, vocabulary);
}

void qt_vocabulary_free(struct qt_vocabulary * vocabulary) {
    vocabulary_free(vocabulary);
}

int64_t qt_vocabulary_n_derived(const struct qt_vocabulary * vocabulary) {
    return vocabulary ? vocabulary_n_derived(vocabulary) : 0;
}

int64_t qt_vocabulary_find(const struct qt_vocabulary * vocabulary, const char * text, int64_t n_bytes) {
    return vocabulary && text && n_bytes >= 0 ? vocabulary_find(vocabulary, text, n_bytes) : -1;
}

const char * qt_vocabulary_token(const struct qt_vocabulary * vocabulary, int64_t id, int64_t * n_bytes) {
    if (n_bytes) {
        *n_bytes = 0;
    }
    return vocabulary && n_bytes ? vocabulary_token(vocabulary, id, n_bytes) : NULL;
}

enum qt_status qt_vocabulary_encode(const struct qt_vocabulary * vocabulary, const char * word, int64_t n_bytes, int32_t * ids, int64_t * n_ids) {
    QT_REQUIRE(vocabulary);
    QT_REQUIRE(word);
    QT_REQUIRE(ids);
    QT_REQUIRE(n_ids);
    if (n_bytes < 0 || n_bytes > MOST_BYTES) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%s: n_bytes is %lld, valid: 0 to %d", __func__, (long long) n_bytes, MOST_BYTES);
    }
    return vocabulary_encode(vocabulary, word, n_bytes, ids, n_ids);
}
