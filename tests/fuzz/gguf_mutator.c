/* gguf_mutator.c - libFuzzer's mutator for GGUF files. Bytes changed at random seldom get past the header, so half of the mutations go through the
 * file as a reader would and change what it means: a count, a length, a type, a value, a dimension, an offset, or a run of tensor data. One of them
 * lowers a number everywhere it stands, in keys and shapes: such a file often still loads, as a model of other sizes. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t * data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t * data, size_t size, size_t max_size, unsigned seed);

#define MAX_PLACES 4096

enum kind { NUMBER, TYPE, REAL, NAME, BYTES };

struct place {
    size_t at, width_bytes;
    enum kind kind;
};

/* A walk over the file, forgiving: it stops where it does not understand. */
struct walk {
    const uint8_t * data;
    size_t size, at;
    struct place places[MAX_PLACES];
    int n_places;
    size_t data_at;
};

static uint64_t number_at(const uint8_t * p, size_t width_bytes) {
    uint64_t v = 0;
    memcpy(&v, p, width_bytes < sizeof v ? width_bytes : sizeof v);
    return v;
}

static void take(struct walk * w, enum kind kind, size_t width_bytes) {
    if (w->n_places < MAX_PLACES && width_bytes > 0) {
        w->places[w->n_places++] = (struct place) { w->at, width_bytes, kind };
    }
}

/* false at the end of the file; else the value, and the cursor behind it. */
static int read_number(struct walk * w, enum kind kind, size_t width_bytes, uint64_t * value) {
    if (w->size - w->at < width_bytes) {
        return 0;
    }
    take(w, kind, width_bytes);
    *value = number_at(w->data + w->at, width_bytes);
    w->at += width_bytes;
    return 1;
}

static int read_text(struct walk * w, enum kind kind) {
    uint64_t n;
    if (!read_number(w, NUMBER, 8, &n) || n > w->size - w->at) {
        return 0;
    }
    take(w, kind, (size_t) n);
    w->at += (size_t) n;
    return 1;
}

static int read_value(struct walk * w, uint64_t type, uint64_t n) {
    static const unsigned char width_bytes[13] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    uint64_t ignored;
    if (type > 12 || type == 9) {
        return 0;
    }
    for (uint64_t i = 0; i < n; i++) {
        int ok = type == 8 ? read_text(w, BYTES) : read_number(w, type == 6 || type == 12 ? REAL : NUMBER, width_bytes[type], &ignored);
        if (!ok) {
            return 0;
        }
    }
    return 1;
}

static int read_key(struct walk * w) {
    uint64_t type, n = 1;
    if (!read_text(w, NAME) || !read_number(w, TYPE, 4, &type)) {
        return 0;
    }
    if (type == 9 && (!read_number(w, TYPE, 4, &type) || !read_number(w, NUMBER, 8, &n))) {
        return 0;
    }
    return read_value(w, type, n);
}

static int read_tensor(struct walk * w) {
    uint64_t n_dims, value;
    if (!read_text(w, NAME) || !read_number(w, NUMBER, 4, &n_dims)) {
        return 0;
    }
    for (uint64_t i = 0; i < n_dims && i < 5; i++) {
        if (!read_number(w, NUMBER, 8, &value)) {
            return 0;
        }
    }
    return read_number(w, TYPE, 4, &value) && read_number(w, NUMBER, 8, &value);
}

static void walk_file(struct walk * w) {
    uint64_t version, n_tensors = 0, n_keys = 0;
    w->at = 4;
    int ok = w->size >= 24 && read_number(w, NUMBER, 4, &version) && read_number(w, NUMBER, 8, &n_tensors) && read_number(w, NUMBER, 8, &n_keys);
    for (uint64_t i = 0; ok && i < n_keys; i++) {
        ok = read_key(w);
    }
    for (uint64_t i = 0; ok && i < n_tensors; i++) {
        ok = read_tensor(w);
    }
    w->data_at = ok ? w->at : w->size;
}

static uint64_t random_state;

static uint64_t draw(uint64_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return below ? (random_state >> 33) % below : 0;
}

static uint64_t interesting(uint64_t old) {
    static const uint64_t values[] = { 0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 33, 63, 64, 127, 128, 255, 256, 257, 512, 1000, 1024, 4095, 4096, 4097, 32767, 65535,
                                       65536, 1u << 20, 1u << 24, 1u << 30, INT32_MAX, 1u << 31, UINT32_MAX, 1ull << 32, 1ull << 53, 1ull << 62, INT64_MAX,
                                       1ull << 63, UINT64_MAX };
    switch (draw(8)) {
        case 0: return old + 1;
        case 1: return old - 1;
        case 2: return old * 2;
        case 3: return old / 2;
        case 4: return old ^ 1ull << draw(64);
        case 5: return draw(16);
        default: return values[draw(sizeof values / sizeof *values)];
    }
}

static void put_real(uint8_t * to, size_t width_bytes) {
    static const double values[] = { 0, -0.0, 1, -1, NAN, INFINITY, -INFINITY, 1e-30, 1e30, 1e-6, 1e4, 3e38, 88, 89, -104 };
    double d = values[draw(sizeof values / sizeof *values)];
    float f = (float) d;
    memcpy(to, width_bytes == 8 ? (const void *) &d : (const void *) &f, width_bytes);
}

/* The number of one place gets lower, there and wherever else a place of 4 or 8 bytes holds the same. */
static void lower_everywhere(uint8_t * data, const struct walk * w) {
    const struct place * p = &w->places[draw((uint64_t) w->n_places)];
    uint64_t old = p->width_bytes >= 4 ? number_at(data + p->at, p->width_bytes) : 0;
    if (p->kind != NUMBER || old < 2 || old > 1 << 20) {
        return;
    }
    uint64_t low = 1 + draw(old - 1);
    for (int i = 0; i < w->n_places; i++) {
        const struct place * q = &w->places[i];
        if (q->kind == NUMBER && q->width_bytes >= 4 && number_at(data + q->at, q->width_bytes) == old) {
            memcpy(data + q->at, &low, q->width_bytes);
        }
    }
}

static void change_place(uint8_t * data, const struct walk * w) {
    const struct place * p = &w->places[draw((uint64_t) w->n_places)], * q = &w->places[draw((uint64_t) w->n_places)];
    uint64_t value = interesting(number_at(data + p->at, p->width_bytes));
    switch (p->kind) {
        case NUMBER: memcpy(data + p->at, &value, p->width_bytes); break;
        case TYPE: value = draw(40); memcpy(data + p->at, &value, p->width_bytes); break;
        case REAL: put_real(data + p->at, p->width_bytes); break;
        case NAME:
        case BYTES: data[p->at + draw(p->width_bytes)] = (uint8_t) draw(256); break;
    }
    if (draw(4) == 0 && q->kind == p->kind && q->width_bytes == p->width_bytes) { /* names, dimensions, values of two places change places */
        memcpy(data + p->at, w->data + q->at, p->width_bytes);
    }
}

static void change_data(uint8_t * data, size_t size, const struct walk * w) {
    size_t n = size - w->data_at;
    if (n < 8) {
        return;
    }
    size_t first = w->data_at + draw(n / 4) * 4, run = 4 * (1 + draw(64));
    for (size_t at = first; at + 4 <= size && at < first + run; at += 4) {
        put_real(data + at, 4);
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t * data, size_t size, size_t max_size, unsigned seed) {
    static struct walk w;
    random_state = seed * 0x9e3779b97f4a7c15u + 1;
    if (draw(2) == 0) {
        return LLVMFuzzerMutate(data, size, max_size);
    }
    w = (struct walk) { .data = data, .size = size };
    walk_file(&w);
    if (w.n_places == 0) {
        return LLVMFuzzerMutate(data, size, max_size);
    }
    for (uint64_t n = 1 + draw(3); n > 0; n--) {
        switch (draw(4)) {
            case 0: lower_everywhere(data, &w); break;
            case 1: change_data(data, size, &w); break;
            default: change_place(data, &w); break;
        }
    }
    return size;
}
