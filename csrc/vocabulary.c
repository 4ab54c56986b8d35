/* vocabulary.c - see vocabulary.h. Two hash tables, built in one walk over the file's own strings: token -> id, and (left, right) -> rank.
 *
 *   word -> characters that are tokens -> while some neighbours have a rank: join those of the least, the leftmost first -> ids
 *
 * The library `tokenizers`, which the rest of the tokenizer comes from, needs 0.2 to 0.35 s and 22 MB to build the same from Python's lists.
 * Trap: published files lack the merges whose line starts with `#` (their writer took them for comments). Ids are in merge order, so such a merge is the
 * join of the two pieces that a `#` token's characters come to by merges of smaller products; its rank is where its product's id would stand. */
#include "vocabulary.h"

#include <stdlib.h>
#include <string.h>

#define RANK_STEP ((int64_t) 1 << 20) /* between two merges of the file: room for derived ones */
#define MOST_STRINGS (1 << 28)
#define MOST_DERIVED (1 << 16) /* bytes of a token whose merge is derived; the longest of Qwen's has 128 */

struct text {
    const char * data;
    size_t n;
};

struct merge {
    int32_t left, right;
    int64_t rank; /* 0: free place */
};

struct qt_vocabulary {
    char * memory; /* the strings of the tokens, so that the file and its merges need not stay */
    struct text * tokens; /* in memory */
    int64_t n_tokens;
    int32_t * ids; /* hash table of n_slots, -1 free */
    size_t n_slots;
    struct merge * merges; /* hash table of n_merge_slots */
    size_t n_merge_slots;
    int64_t n_derived;
};

/* FNV-1a, its bits mixed once more at the end; a second call goes on where the first ended. */
static uint64_t hash_more(uint64_t hash, const char * data, size_t n) {
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ (uint8_t) data[i]) * 0x100000001b3u;
    }
    return hash;
}

static size_t slot_of(uint64_t hash, size_t n_slots) { return (size_t) (hash * 0x9e3779b97f4a7c15u >> 20) & (n_slots - 1); }

static size_t slots_for(int64_t n) {
    size_t n_slots = 16;
    while (n_slots < (size_t) n + (size_t) n / 2) {
        n_slots *= 2;
    }
    return n_slots;
}

/* The place of the token a followed by b, or the free one where it would be. */
static size_t token_slot(const struct qt_vocabulary * v, struct text a, struct text b) {
    size_t i = slot_of(hash_more(hash_more(0xcbf29ce484222325u, a.data, a.n), b.data, b.n), v->n_slots);
    for (; v->ids[i] >= 0; i = (i + 1) & (v->n_slots - 1)) {
        const struct text * t = &v->tokens[v->ids[i]];
        if (t->n == a.n + b.n && memcmp(t->data, a.data, a.n) == 0 && (b.n == 0 || memcmp(t->data + a.n, b.data, b.n) == 0)) {
            break;
        }
    }
    return i;
}

static int32_t find(const struct qt_vocabulary * v, struct text a, struct text b) { return v->ids[token_slot(v, a, b)]; }

static struct merge * merge_slot(const struct qt_vocabulary * v, int32_t left, int32_t right) {
    size_t i = slot_of((uint64_t) (uint32_t) left << 32 | (uint32_t) right, v->n_merge_slots);
    while (v->merges[i].rank && (v->merges[i].left != left || v->merges[i].right != right)) {
        i = (i + 1) & (v->n_merge_slots - 1);
    }
    return &v->merges[i];
}

/* --- building --- */

/* The next string of an array in a file; false where the array ends too soon. */
static bool next_text(const struct qt_value * array, size_t * at, struct text * text) {
    size_t left = (size_t) array->n_bytes - *at;
    uint64_t n;
    if (left < sizeof n) {
        return false;
    }
    memcpy(&n, (const char *) array->data + *at, sizeof n); /* little-endian, as every file and machine here */
    if (n > left - sizeof n) {
        return false;
    }
    *text = (struct text) { (const char *) array->data + *at + sizeof n, (size_t) n };
    *at += sizeof n + (size_t) n;
    return true;
}

static enum qt_status read_tokens(struct qt_vocabulary * v, const struct qt_value * tokens) {
    size_t at = 0;
    struct qt_value kept = *tokens;
    if (tokens->n_bytes > 0) {
        memcpy(v->memory, tokens->data, (size_t) tokens->n_bytes);
    }
    kept.data = v->memory;
    memset(v->ids, 0xff, v->n_slots * sizeof *v->ids);
    for (int64_t i = 0; i < v->n_tokens; i++) {
        if (!next_text(&kept, &at, &v->tokens[i])) {
            return QT_FAIL(QT_STATUS_INVALID_PARAMS, "the tokens end before number %lld of %lld", (long long) i, (long long) v->n_tokens);
        }
        v->ids[token_slot(v, v->tokens[i], (struct text) { NULL, 0 })] = (int32_t) i;
    }
    return QT_STATUS_OK;
}

/* Room for the file's merges and one of each `#` token. */
static enum qt_status make_merges(struct qt_vocabulary * v, int64_t n) {
    for (int64_t i = 0; i < v->n_tokens; i++) {
        n += v->tokens[i].n > 0 && v->tokens[i].data[0] == '#';
    }
    v->n_merge_slots = slots_for(n);
    v->merges = calloc(v->n_merge_slots, sizeof *v->merges);
    return v->merges ? QT_STATUS_OK : QT_FAIL(QT_STATUS_OOM, "no memory for %lld merges", (long long) n);
}

/* product[i]: the id of what merge i makes. */
static enum qt_status read_merges(struct qt_vocabulary * v, const struct qt_value * merges, int32_t * product) {
    size_t at = 0;
    QT_TRY(make_merges(v, merges->n));
    for (int64_t i = 0; i < merges->n; i++) {
        struct text line;
        if (!next_text(merges, &at, &line)) {
            return QT_FAIL(QT_STATUS_INVALID_PARAMS, "the merges end before number %lld of %lld", (long long) i, (long long) merges->n);
        }
        const char * space = memchr(line.data, ' ', line.n);
        size_t n_left = space ? (size_t) (space - line.data) : line.n;
        struct text left = { line.data, n_left }, right = { space ? space + 1 : line.data + line.n, space ? line.n - n_left - 1 : 0 }, none = { NULL, 0 };
        int32_t a = find(v, left, none), b = find(v, right, none);
        product[i] = find(v, left, right);
        if (a < 0 || b < 0 || product[i] < 0) {
            return QT_FAIL(QT_STATUS_INVALID_PARAMS, "merge %lld is '%.*s', but %s", (long long) i, line.n < 64 ? (int) line.n : 64, line.data,
                           a < 0 ? "its left part is no token" : b < 0 ? "its right part is no token" : "what it makes is no token");
        }
        *merge_slot(v, a, b) = (struct merge) { a, b, (i + 1) * RANK_STEP }; /* of equal merges the last one counts */
    }
    return QT_STATUS_OK;
}

/* --- joining --- */

struct piece {
    int32_t start, end; /* bytes of the word; end 0: joined to the one before */
    int32_t id, next, before; /* -1: none */
};

struct join {
    int64_t rank;
    int32_t at, left, right; /* the piece and the two ids, to see whether it still stands */
};

/* The word's pieces and a heap of joins, the least rank first, of equal ranks the leftmost. */
struct joining {
    const struct qt_vocabulary * v;
    const char * word;
    struct piece * pieces;
    int32_t n_pieces;
    struct join * heap;
    int32_t n_heap;
    int32_t below; /* only merges whose product has a smaller id, by that id; 0: all, by rank */
};

static bool is_before(const struct join * a, const struct join * b) { return a->rank != b->rank ? a->rank < b->rank : a->at < b->at; }

static void heap_add(struct joining * j, struct join added) {
    int32_t i = j->n_heap++;
    for (; i > 0 && is_before(&added, &j->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        j->heap[i] = j->heap[(i - 1) / 2];
    }
    j->heap[i] = added;
}

static struct join heap_take(struct joining * j) {
    struct join first = j->heap[0], last = j->heap[--j->n_heap];
    int32_t i = 0;
    for (int32_t child; (child = 2 * i + 1) < j->n_heap; i = child) {
        child += child + 1 < j->n_heap && is_before(&j->heap[child + 1], &j->heap[child]);
        if (!is_before(&j->heap[child], &last)) {
            break;
        }
        j->heap[i] = j->heap[child];
    }
    j->heap[i] = last;
    return first;
}

static struct text piece_text(const struct joining * j, const struct piece * p) {
    return (struct text) { j->word + p->start, (size_t) (p->end - p->start) };
}

/* The join of piece at with the next one, if there is a merge of them. */
static void consider(struct joining * j, int32_t at) {
    if (at < 0 || j->pieces[at].next < 0) {
        return;
    }
    const struct piece * p = &j->pieces[at];
    const struct piece * q = &j->pieces[p->next];
    int64_t rank = merge_slot(j->v, p->id, q->id)->rank;
    if (rank && j->below) {
        rank = find(j->v, piece_text(j, p), piece_text(j, q));
        rank = rank < j->below ? rank + 1 : 0;
    }
    if (rank) {
        heap_add(j, (struct join) { rank, at, p->id, q->id });
    }
}

static void join_all(struct joining * j) {
    for (int32_t i = 0; i < j->n_pieces; i++) {
        consider(j, i);
    }
    while (j->n_heap > 0) {
        struct join join = heap_take(j);
        struct piece * p = &j->pieces[join.at];
        if (!p->end || p->next < 0 || p->id != join.left || j->pieces[p->next].id != join.right) {
            continue;
        }
        struct piece * q = &j->pieces[p->next];
        p->id = find(j->v, piece_text(j, p), piece_text(j, q));
        p->end = q->end;
        p->next = q->next;
        q->end = 0;
        if (p->next >= 0) {
            j->pieces[p->next].before = join.at;
        }
        consider(j, p->before);
        consider(j, join.at);
    }
}

static size_t char_bytes(char lead) {
    uint8_t c = (uint8_t) lead;
    return c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

static void joining_free(struct joining * j) {
    free((char *) (uintptr_t) j->word);
    free(j->pieces);
    free(j->heap);
}

/* The pieces a word starts as: its characters that are tokens. */
static enum qt_status joining_begin(struct joining * j, const struct qt_vocabulary * v, struct text word, int32_t below) {
    *j = (struct joining) { .v = v, .below = below };
    char * kept = malloc(word.n + 1);
    j->word = kept;
    j->pieces = malloc((word.n + 1) * sizeof *j->pieces);
    j->heap = malloc((3 * word.n + 1) * sizeof *j->heap); /* n - 1 at first, two more a join */
    if (!kept || !j->pieces || !j->heap) {
        joining_free(j);
        return QT_FAIL(QT_STATUS_OOM, "no memory for a word of %zu bytes", word.n);
    }
    int32_t end = 0;
    for (size_t at = 0, n; at < word.n; at += n) {
        n = char_bytes(word.data[at]);
        n = n < word.n - at ? n : word.n - at;
        int32_t id = find(v, (struct text) { word.data + at, n }, (struct text) { NULL, 0 });
        if (id >= 0) {
            memcpy(kept + end, word.data + at, n);
            int32_t i = j->n_pieces++;
            j->pieces[i] = (struct piece) { end, end + (int32_t) n, id, -1, i - 1 };
            if (i > 0) {
                j->pieces[i - 1].next = i;
            }
            end += (int32_t) n;
        }
    }
    return QT_STATUS_OK;
}

/* --- merges that are not in the file --- */

/* The first place in product[first..n) whose product is not below id, by halves; -1 stands before all ids. */
static int64_t place_of(const int32_t * product, int64_t first, int64_t n, int32_t id) {
    while (first < n) {
        int64_t middle = first + (n - first) / 2;
        if (product[middle] < id) {
            first = middle + 1;
        } else {
            n = middle;
        }
    }
    return first;
}

/* The merge that makes token id, if its characters come to two pieces; *place goes on from the one before. */
static enum qt_status derive_one(struct qt_vocabulary * v, int32_t id, const int32_t * product, int64_t n_merges, int64_t * place) {
    struct joining j;
    QT_TRY(joining_begin(&j, v, v->tokens[id], id));
    size_t n_characters = 0;
    for (size_t at = 0; at < v->tokens[id].n; at += char_bytes(v->tokens[id].data[at])) {
        n_characters++;
    }
    if (n_characters == (size_t) j.n_pieces && n_characters > 1) {
        join_all(&j);
        const struct piece * left = &j.pieces[0], * right = left->next < 0 ? NULL : &j.pieces[left->next];
        if (right && right->next < 0) {
            struct merge * merge = merge_slot(v, left->id, right->id);
            *place = place_of(product, *place, n_merges, id);
            *merge = (struct merge) { left->id, right->id, *place * RANK_STEP + ++v->n_derived };
        }
    }
    joining_free(&j);
    return QT_STATUS_OK;
}

static bool is_candidate(const struct qt_vocabulary * v, int32_t id, const uint8_t * is_added) {
    const struct text * t = &v->tokens[id];
    return t->n > 1 && t->n <= MOST_DERIVED && t->data[0] == '#' && !is_added[id] && find(v, *t, (struct text) { NULL, 0 }) == id;
}

/* In the order of ids; merges of the file that make a `#` token say that it is not missing. */
static enum qt_status derive(struct qt_vocabulary * v, const uint8_t * is_added, const int32_t * product, int64_t n_merges) {
    uint8_t * made = calloc((size_t) v->n_tokens + 1, 1);
    enum qt_status status = made ? QT_STATUS_OK : QT_FAIL(QT_STATUS_OOM, "no memory for a list of %lld tokens", (long long) v->n_tokens);
    for (int64_t i = 0; made && i < n_merges; i++) {
        made[product[i]] = 1;
    }
    int64_t place = 0;
    for (int32_t id = 0; status == QT_STATUS_OK && id < v->n_tokens; id++) {
        if (!made[id] && is_candidate(v, id, is_added) && v->n_derived < RANK_STEP - 1) {
            status = derive_one(v, id, product, n_merges, &place);
        }
    }
    free(made);
    return status;
}

/* --- the entries --- */

enum qt_status vocabulary_new(const struct qt_value * tokens, const struct qt_value * merges, const uint8_t * is_added, struct qt_vocabulary ** vocabulary) {
    *vocabulary = NULL;
    if (tokens->n < 0 || tokens->n > MOST_STRINGS || merges->n < 0 || merges->n > MOST_STRINGS || tokens->n_bytes < 0 || merges->n_bytes < 0) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "%lld tokens and %lld merges, valid: up to %d", (long long) tokens->n, (long long) merges->n, MOST_STRINGS);
    }
    struct qt_vocabulary * v = calloc(1, sizeof *v);
    int32_t * product = malloc(((size_t) merges->n + 1) * sizeof *product);
    enum qt_status status = QT_STATUS_OK;
    if (v) {
        v->n_tokens = tokens->n;
        v->n_slots = slots_for(tokens->n);
        v->memory = malloc((size_t) tokens->n_bytes + 1);
        v->tokens = malloc(((size_t) tokens->n + 1) * sizeof *v->tokens);
        v->ids = malloc(v->n_slots * sizeof *v->ids);
    }
    if (!v || !product || !v->memory || !v->tokens || !v->ids) {
        status = QT_FAIL(QT_STATUS_OOM, "no memory for %lld tokens and %lld merges", (long long) tokens->n, (long long) merges->n);
    }
    status = status == QT_STATUS_OK ? read_tokens(v, tokens) : status;
    status = status == QT_STATUS_OK ? read_merges(v, merges, product) : status;
    status = status == QT_STATUS_OK ? derive(v, is_added, product, merges->n) : status;
    free(product);
    if (status != QT_STATUS_OK) {
        vocabulary_free(v);
        return status;
    }
    *vocabulary = v;
    return QT_STATUS_OK;
}

void vocabulary_free(struct qt_vocabulary * v) {
    if (v) {
        free(v->memory);
        free(v->tokens);
        free(v->ids);
        free(v->merges);
        free(v);
    }
}

int64_t vocabulary_find(const struct qt_vocabulary * v, const char * text, int64_t n_bytes) {
    return find(v, (struct text) { text, (size_t) n_bytes }, (struct text) { NULL, 0 });
}

const char * vocabulary_token(const struct qt_vocabulary * v, int64_t id, int64_t * n_bytes) {
    if (id < 0 || id >= v->n_tokens) {
        return NULL;
    }
    *n_bytes = (int64_t) v->tokens[id].n;
    return v->tokens[id].data;
}

int64_t vocabulary_n_derived(const struct qt_vocabulary * v) { return v->n_derived; }

enum qt_status vocabulary_encode(const struct qt_vocabulary * v, const char * word, int64_t n_bytes, int32_t * ids, int64_t * n_ids) {
    struct joining j;
    *n_ids = 0;
    QT_TRY(joining_begin(&j, v, (struct text) { word, (size_t) n_bytes }, 0));
    join_all(&j);
    for (int32_t i = j.n_pieces > 0 ? 0 : -1; i >= 0; i = j.pieces[i].next) {
        ids[(*n_ids)++] = j.pieces[i].id;
    }
    joining_free(&j);
    return QT_STATUS_OK;
}
