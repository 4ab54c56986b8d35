/* gguf_malformed.c - the GGUF reader against broken files: each is refused with the message that says what is wrong.
 * A small valid file is made in memory with the place of every field on record; a case overwrites one or two fields. Then every prefix of the
 * file, and files with random bytes changed: refused, or read within bounds (the sanitizer build sees the rest). usage: gguf_malformed [SEED]
 * The exit code is the number of failures (at most 100). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf.h"

enum place {
    MAGIC, VERSION, N_TENSORS, N_KV,
    ARCH_KEY_LEN, ARCH_KEY, ARCH_TYPE, ARCH_LEN,
    ALIGN_KEY, ALIGN_TYPE, ALIGN_VALUE,
    IDS_TYPE, IDS_ELEMENT, IDS_N,
    WORDS_ELEMENT, WORDS_N, WORD_LEN,
    ONE_KEY, FLAG_TYPE, FLAG,
    A_NAME_LEN, A_NAME, A_N_DIMS, A_NE0, A_NE1, A_TYPE, A_OFFSET,
    B_NAME_LEN, B_NAME, B_N_DIMS, B_NE0, B_NE1, B_TYPE, B_OFFSET,
    DATA, END, N_PLACES,
};

struct file {
    uint8_t bytes[1024];
    size_t size;
    size_t at[N_PLACES];
};

static void put(struct file * f, const void * data, size_t n) {
    memcpy(f->bytes + f->size, data, n);
    f->size += n;
}

static void mark(struct file * f, enum place place) { f->at[place] = f->size; }
static void put_u32(struct file * f, uint32_t v) { put(f, &v, sizeof v); }
static void put_u64(struct file * f, uint64_t v) { put(f, &v, sizeof v); }

static void put_string(struct file * f, const char * text) {
    put_u64(f, strlen(text));
    put(f, text, strlen(text));
}

static void put_tensor(struct file * f, enum place first, const char * name, uint64_t ne0, uint64_t ne1, uint32_t type, uint64_t offset) {
    mark(f, first); /* name length, name, n_dims, ne0, ne1, type, offset: the order of enum place */
    put_u64(f, strlen(name));
    mark(f, first + 1);
    put(f, name, strlen(name));
    mark(f, first + 2);
    put_u32(f, 2);
    mark(f, first + 3);
    put_u64(f, ne0);
    mark(f, first + 4);
    put_u64(f, ne1);
    mark(f, first + 5);
    put_u32(f, type);
    mark(f, first + 6);
    put_u64(f, offset);
}

static void make_valid(struct file * f) {
    memset(f, 0, sizeof *f);
    mark(f, MAGIC);
    put(f, "GGUF", 4);
    mark(f, VERSION);
    put_u32(f, 3);
    mark(f, N_TENSORS);
    put_u64(f, 2);
    mark(f, N_KV);
    put_u64(f, 7);

    mark(f, ARCH_KEY_LEN);
    mark(f, ARCH_KEY);
    f->at[ARCH_KEY] += 8;
    put_string(f, "general.architecture");
    mark(f, ARCH_TYPE);
    put_u32(f, GGUF_TYPE_STRING);
    mark(f, ARCH_LEN);
    put_string(f, "test");

    mark(f, ALIGN_KEY);
    f->at[ALIGN_KEY] += 8;
    put_string(f, "general.alignment");
    mark(f, ALIGN_TYPE);
    put_u32(f, GGUF_TYPE_UINT32);
    mark(f, ALIGN_VALUE);
    put_u32(f, 64);

    put_string(f, "test.ids");
    mark(f, IDS_TYPE);
    put_u32(f, GGUF_TYPE_ARRAY);
    mark(f, IDS_ELEMENT);
    put_u32(f, GGUF_TYPE_INT32);
    mark(f, IDS_N);
    put_u64(f, 3);
    put(f, (int32_t[]) { 1, -2, 3 }, 12);

    put_string(f, "test.words");
    put_u32(f, GGUF_TYPE_ARRAY);
    mark(f, WORDS_ELEMENT);
    put_u32(f, GGUF_TYPE_STRING);
    mark(f, WORDS_N);
    put_u64(f, 2);
    put_string(f, "hello");
    mark(f, WORD_LEN);
    put_string(f, "");

    put_string(f, "test.flag");
    mark(f, FLAG_TYPE);
    put_u32(f, GGUF_TYPE_BOOL);
    mark(f, FLAG);
    put(f, "\1", 1);

    mark(f, ONE_KEY);
    f->at[ONE_KEY] += 8;
    put_string(f, "test.one");
    put_u32(f, GGUF_TYPE_UINT64);
    put_u64(f, 1ull << 40);

    put_string(f, "test.two");
    put_u32(f, GGUF_TYPE_FLOAT32);
    put(f, &(float) { 0.5f }, 4);

    put_tensor(f, A_NAME_LEN, "a.weight", 4, 3, GGML_TYPE_F32, 0);    /* 48 bytes */
    put_tensor(f, B_NAME_LEN, "b.weight", 64, 2, GGML_TYPE_Q8_0, 64); /* 136 bytes */
    f->size = GGML_PAD(f->size, 64);
    mark(f, DATA);
    f->size += 64 + 136;
    mark(f, END);
}

/* One or two fields get another value; then the file is cut to size, if that is not 0. */
struct edit {
    enum place place;
    int width_bytes; /* 0: no edit */
    uint64_t value;
};

struct bad_file {
    const char * what;
    struct edit edits[2];
    enum place cut; /* MAGIC: not cut */
    const char * expected;
};

static const struct bad_file bad_files[] = {
    { "foreign magic", { { MAGIC, 4, 0x04034b50 } }, 0, "not a GGUF file: first bytes are 50 4b 03 04, expected 47 47 55 46" },
    { "version 0", { { VERSION, 4, 0 } }, 0, "GGUF version is 0, supported are 2 and 3" },
    { "version 1", { { VERSION, 4, 1 } }, 0, "GGUF version is 1, supported are 2 and 3" },
    { "version 4", { { VERSION, 4, 4 } }, 0, "GGUF version is 4, supported are 2 and 3" },
    { "big-endian", { { VERSION, 4, 0x03000000 } }, 0, "0x03000000: a big-endian file" },
    { "tensor count huge", { { N_TENSORS, 8, UINT64_MAX } }, 0, "tensor count 18446744073709551615 does not fit the" },
    { "tensor count over the bytes", { { N_TENSORS, 8, 1000 } }, 0, "tensor count 1000 does not fit the" },
    { "tensor count negative", { { N_TENSORS, 8, 1ull << 63 } }, 0, "tensor count 9223372036854775808 does not fit the" },
    { "one tensor too many", { { N_TENSORS, 8, 3 } }, 0, "tensor 2 has a name of 0 bytes" },
    { "key count huge", { { N_KV, 8, UINT64_MAX } }, 0, "key count 18446744073709551615 does not fit the" },
    { "key count over the bytes", { { N_KV, 8, 1000 } }, 0, "key count 1000 does not fit the" },
    { "one key too many", { { N_KV, 8, 8 } }, 0, "tensor 0 has length 844424930131968, but only" },
    { "key length huge", { { ARCH_KEY_LEN, 8, UINT64_MAX } }, 0, "key 0 has length 18446744073709551615, but only" },
    { "key length past the end", { { ARCH_KEY_LEN, 8, 4096 } }, 0, "key 0 has length 4096, but only" },
    { "key empty", { { ARCH_KEY_LEN, 8, 0 } }, 0, "key 0 has a name of 0 bytes, valid are 1 to 65535" },
    { "key with a zero byte", { { ARCH_KEY, 1, 0 } }, 0, "key 0 has a zero byte in its name" },
    { "key twice", { { ONE_KEY, 8, 0x6f77742e74736574 /* test.two */ } }, 0, "key \"test.two\" appears twice, as number 5 and 6" },
    { "value type 13", { { ARCH_TYPE, 4, 13 } }, 0, "key \"general.architecture\" has type 13, valid are 0 to 12" },
    { "value type huge", { { FLAG_TYPE, 4, UINT32_MAX } }, 0, "key \"test.flag\" has type 4294967295, valid are 0 to 12" },
    { "string length huge", { { ARCH_LEN, 8, UINT64_MAX } }, 0, "key \"general.architecture\" has length 18446744073709551615, but only" },
    { "string length past the end", { { ARCH_LEN, 8, 2000 } }, 0, "key \"general.architecture\" has length 2000, but only" },
    { "alignment of another type", { { ALIGN_TYPE, 4, GGUF_TYPE_INT32 } }, 0, "key \"general.alignment\" has type i32, expected u32" },
    { "alignment 0", { { ALIGN_VALUE, 4, 0 } }, 0, "key \"general.alignment\" is 0, expected a power of two in 8..65536" },
    { "alignment 3", { { ALIGN_VALUE, 4, 3 } }, 0, "key \"general.alignment\" is 3, expected a power of two in 8..65536" },
    { "alignment 2^30", { { ALIGN_VALUE, 4, 1u << 30 } }, 0, "key \"general.alignment\" is 1073741824, expected a power of two in 8..65536" },
    { "alignment as text", { { ALIGN_TYPE, 4, GGUF_TYPE_STRING } }, 0, "key \"general.alignment\" has length" },
    { "alignment as float", { { ALIGN_TYPE, 4, GGUF_TYPE_FLOAT32 } }, 0, "key \"general.alignment\" has type f32, expected u32" },
    { "bool of 2", { { FLAG, 1, 2 } }, 0, "key \"test.flag\": a bool is 2, valid are 0 and 1" },
    { "bools of 255", { { IDS_ELEMENT, 4, GGUF_TYPE_BOOL }, { IDS_N, 8, 12 } }, 0, "key \"test.ids\": a bool is 254, valid are 0 and 1" },
    { "alignment 4", { { ALIGN_VALUE, 4, 4 } }, 0, "key \"general.alignment\" is 4, expected a power of two in 8..65536" },
    { "alignment 48", { { ALIGN_VALUE, 4, 48 } }, 0, "key \"general.alignment\" is 48, expected a power of two in 8..65536" },
    { "alignment huge", { { ALIGN_VALUE, 4, 1u << 31 } }, 0, "key \"general.alignment\" is 2147483648, expected a power of two in 8..65536" },
    { "alignment past the end", { { ALIGN_VALUE, 4, 65536 } }, 0, "tensor \"b.weight\": offset 64 is no multiple of the alignment 65536" },
    { "padding past the end", { { ALIGN_VALUE, 4, 65536 }, { B_OFFSET, 8, 65536 } }, 0, "before its data, which starts at 65536" },
    { "array of arrays", { { IDS_ELEMENT, 4, GGUF_TYPE_ARRAY } }, 0, "key \"test.ids\" is an array of type 9, valid are 0 to 12 except 9" },
    { "array of type 99", { { IDS_ELEMENT, 4, 99 } }, 0, "key \"test.ids\" is an array of type 99" },
    { "array count huge", { { IDS_N, 8, UINT64_MAX } }, 0, "key \"test.ids\": 18446744073709551615 values of 4 bytes do not fit the" },
    { "array count that overflows to 4 bytes", { { IDS_N, 8, (1ull << 62) + 1 } }, 0, "key \"test.ids\": 4611686018427387905 values of 4 bytes do not fit the" },
    { "array count past the end", { { IDS_N, 8, 5000 } }, 0, "key \"test.ids\": 5000 values of 4 bytes do not fit the" },
    { "string count huge", { { WORDS_N, 8, UINT64_MAX } }, 0, "key \"test.words\": 18446744073709551615 strings do not fit the" },
    { "string count that overflows", { { WORDS_N, 8, 1ull << 61 } }, 0, "key \"test.words\": 2305843009213693952 strings do not fit the" },
    { "string of an array past the end", { { WORD_LEN, 8, 3000 } }, 0, "key \"test.words\" has length 3000, but only" },
    { "tensor name huge", { { A_NAME_LEN, 8, UINT64_MAX } }, 0, "tensor 0 has length 18446744073709551615, but only" },
    { "tensor name empty", { { A_NAME_LEN, 8, 0 } }, 0, "tensor 0 has a name of 0 bytes, valid are 1 to 63" },
    { "tensor name of 64 bytes", { { A_NAME_LEN, 8, 64 } }, 0, "tensor 0 has a name of 64 bytes, valid are 1 to 63" },
    { "tensor name with a zero byte", { { A_NAME, 1, 0 } }, 0, "tensor 0 has a zero byte in its name" },
    { "tensor twice", { { B_NAME, 1, 'a' } }, 0, "tensor \"a.weight\" appears twice, as number 0 and 1" },
    { "control byte in a message", { { A_NAME, 1, '\n' }, { A_N_DIMS, 4, 5 } }, 0, "tensor \"?.weight\" has 5 dimensions, at most 4 are supported" },
    { "dimensions 5", { { A_N_DIMS, 4, 5 } }, 0, "tensor \"a.weight\" has 5 dimensions, at most 4 are supported" },
    { "dimensions huge", { { B_N_DIMS, 4, UINT32_MAX } }, 0, "tensor \"b.weight\" has 4294967295 dimensions" },
    { "dimension 0", { { A_NE1, 8, 0 } }, 0, "tensor \"a.weight\": dimension 1 is 0, valid are 1 to" },
    { "dimension negative", { { A_NE0, 8, 1ull << 63 } }, 0, "tensor \"a.weight\": dimension 0 is 9223372036854775808, valid are 1 to" },
    { "shape larger than the file", { { A_NE1, 8, 4096 } }, 0, "tensor \"a.weight\": shape 4 x 4096 x 1 x 1 of f32 is larger than the file of" },
    { "shape that overflows to 0 bytes", { { A_NE0, 8, 1ull << 31 }, { A_NE1, 8, 1ull << 31 } }, 0, "tensor \"a.weight\": shape 2147483648 x 2147483648 x 1 x 1 of f32" },
    { "shape that overflows in elements", { { A_NE0, 8, INT64_MAX }, { A_NE1, 8, INT64_MAX } }, 0, "of f32 is larger than the file of" },
    { "row that splits a block", { { B_NE0, 8, 63 } }, 0, "tensor \"b.weight\": rows of 63 elements are no multiple of the 32 in a block of q8_0" },
    { "type 4, gone from ggml", { { A_TYPE, 4, 4 } }, 0, "tensor \"a.weight\" has type number 4, which is not a supported tensor type" },
    { "type 31", { { A_TYPE, 4, 31 } }, 0, "tensor \"a.weight\" has type number 31" },
    { "type negative", { { A_TYPE, 4, UINT32_MAX } }, 0, "tensor \"a.weight\" has type number 4294967295" },
    { "type of activations", { { B_TYPE, 4, GGML_TYPE_Q8_K } }, 0, "tensor \"b.weight\" has type number 15" },
    { "offset not aligned", { { B_OFFSET, 8, 65 } }, 0, "tensor \"b.weight\": offset 65 is no multiple of the alignment 64" },
    { "offset past the end", { { B_OFFSET, 8, 128 } }, 0, "tensor \"b.weight\": 136 bytes at offset 128 reach past the 200 bytes of data" },
    { "offset huge", { { B_OFFSET, 8, UINT64_MAX - 63 } }, 0, "tensor \"b.weight\": 136 bytes at offset 18446744073709551552 reach past" },
    { "tensors overlap", { { B_OFFSET, 8, 0 } }, 0, "overlaps tensor" },
    { "tensors overlap in part", { { A_NE1, 8, 5 } }, 0, "tensor \"b.weight\" at offset 64 overlaps tensor \"a.weight\" of 80 bytes at offset 0" },
    { "empty", { { 0 } }, VERSION, "file of 4 bytes is too short for a GGUF header of 24" },
    { "header cut", { { 0 } }, N_KV, "file of 16 bytes is too short for a GGUF header of 24" },
    { "cut before the keys", { { 0 } }, ARCH_KEY_LEN, "key count 7 does not fit the 0 bytes left" },
    { "cut inside a value", { { 0 } }, FLAG_TYPE, "inside key \"test.flag\": 4 bytes wanted, 0 left" },
    { "cut inside a tensor", { { 0 } }, B_NE1, "inside tensor \"b.weight\": 8 bytes wanted, 0 left" },
    { "cut before the data", { { 0 } }, DATA, "reach past the 0 bytes of data: the file is truncated or broken" },
};

static int n_failures;

static void failed(const char * what, const char * text) {
    n_failures++;
    printf("FAIL %s: %s\n", what, text);
}

/* From a copy of exactly this size, so that the sanitizer sees any byte read beyond it. */
static bool load(const uint8_t * bytes, size_t size, char * error, size_t error_size) {
    uint8_t * copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    struct ggml_context * tensors = NULL;
    struct gguf_init_params params = { .no_alloc = true, .ctx = &tensors };
    struct gguf_context * gguf = gguf_init_from_buffer_err(copy, size, params, error, error_size);
    if (gguf) { /* accepted: everything it hands out lies inside */
        size_t sum = 0;
        for (int64_t i = 0; i < gguf_get_n_kv(gguf); i++) {
            size_t n = 0;
            const uint8_t * raw = gguf_get_raw(gguf, i, &n);
            for (size_t b = 0; b < n; b++) {
                sum += raw[b];
            }
            bool strings = gguf_get_kv_type(gguf, i) == GGUF_TYPE_ARRAY && gguf_get_arr_type(gguf, i) == GGUF_TYPE_STRING;
            for (size_t s = 0; strings && s < gguf_get_arr_n(gguf, i); s++) {
                sum += strlen(gguf_get_arr_str(gguf, i, s));
            }
        }
        for (int64_t i = 0; i < gguf_get_n_tensors(gguf); i++) {
            size_t first = gguf_get_data_offset(gguf) + gguf_get_tensor_offset(gguf, i);
            struct ggml_tensor * t = ggml_get_tensor(tensors, gguf_get_tensor_name(gguf, i));
            if (first > size || gguf_get_tensor_size(gguf, i) > size - first || !t || ggml_nbytes(t) != gguf_get_tensor_size(gguf, i)) {
                failed("accepted", "a tensor lies outside the file, or its record differs");
            }
        }
        if (sum == SIZE_MAX) {
            failed("accepted", "impossible sum"); /* the sum keeps the reads above from being optimised away */
        }
    } else if (strncmp(error, "buffer: ", 8) != 0 || strlen(error) < 20 || tensors) {
        failed("refused without a proper message", error);
    }
    ggml_free(tensors);
    gguf_free(gguf);
    free(copy);
    return gguf != NULL;
}

static void check_bad_files(const struct file * valid) {
    for (size_t i = 0; i < sizeof bad_files / sizeof bad_files[0]; i++) {
        const struct bad_file * bad = &bad_files[i];
        struct file f = *valid;
        char error[512];
        for (int e = 0; e < 2; e++) {
            memcpy(f.bytes + f.at[bad->edits[e].place], &bad->edits[e].value, (size_t) bad->edits[e].width_bytes);
        }
        if (load(f.bytes, bad->cut ? f.at[bad->cut] : f.size, error, sizeof error)) {
            failed(bad->what, "was accepted");
        } else if (!strstr(error, bad->expected)) {
            failed(bad->what, error);
            printf("     expected: %s\n", bad->expected);
        }
    }
}

static void check_prefixes(const struct file * valid) {
    char error[512];
    for (size_t size = 0; size < valid->size; size++) {
        if (load(valid->bytes, size, error, sizeof error)) {
            failed("prefix", "was accepted, though the last tensor ends at the last byte");
        }
    }
    for (size_t error_size = 0; error_size < 40; error_size++) { /* a short buffer for the message is filled and terminated */
        char text[40];
        memset(text, 'x', sizeof text);
        struct gguf_init_params params = { .no_alloc = true };
        if (gguf_init_from_buffer_err("GGUF", 4, params, text, error_size) || (error_size > 0 && !memchr(text, 0, error_size)) || text[error_size] != 'x') {
            failed("short message buffer", "was overrun or not terminated");
        }
    }
}

static void check_random(const struct file * valid, uint32_t seed) {
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    int n_accepted = 0;
    for (int i = 0; i < 30000; i++) {
        struct file f = *valid;
        char error[512];
        for (int n = 1 + i % 3; n > 0; n--) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            size_t at = (size_t) (state >> 33) % f.at[DATA];
            f.bytes[at] = (uint8_t) (state >> 24 & 1 ? state >> 56 : f.bytes[at] ^ 1u << (state >> 57 & 7));
        }
        n_accepted += load(f.bytes, f.size, error, sizeof error);
    }
    printf("gguf_malformed: seed %u, 30000 random files, %d of them acceptable\n", seed, n_accepted);
}

static void check_valid(const struct file * valid) {
    char error[512];
    struct ggml_context * tensors = NULL;
    struct gguf_init_params params = { .no_alloc = true, .ctx = &tensors };
    struct gguf_context * gguf = gguf_init_from_buffer_err(valid->bytes, valid->size, params, error, sizeof error);
    if (!gguf) {
        failed("the valid file", error);
        return;
    }
    struct ggml_tensor * b = ggml_get_tensor(tensors, "b.weight");
    int64_t words = gguf_find_key(gguf, "test.words");
    int64_t ids = gguf_find_key(gguf, "test.ids");
    size_t n = 0;
    bool ok = gguf_get_version(gguf) == 3 && gguf_get_alignment(gguf) == 64 && gguf_get_data_offset(gguf) == valid->at[DATA];
    ok = ok && strcmp(gguf_get_val_str(gguf, gguf_find_key(gguf, "general.architecture")), "test") == 0;
    ok = ok && gguf_get_val_u32(gguf, gguf_find_key(gguf, "general.alignment")) == 64 && gguf_get_val_bool(gguf, gguf_find_key(gguf, "test.flag"));
    ok = ok && gguf_get_val_u64(gguf, gguf_find_key(gguf, "test.one")) == 1ull << 40 && gguf_get_val_f32(gguf, gguf_find_key(gguf, "test.two")) == 0.5f;
    ok = ok && gguf_get_arr_n(gguf, words) == 2 && strcmp(gguf_get_arr_str(gguf, words, 0), "hello") == 0 && gguf_get_arr_str(gguf, words, 1)[0] == 0;
    ok = ok && gguf_get_arr_n(gguf, ids) == 3 && memcmp(gguf_get_raw(gguf, ids, &n), (int32_t[]) { 1, -2, 3 }, 12) == 0 && n == 12;
    ok = ok && gguf_find_key(gguf, "test.three") == -1 && gguf_find_tensor(gguf, "c.weight") == -1 && gguf_find_tensor(gguf, "b.weight") == 1;
    ok = ok && gguf_get_tensor_offset(gguf, 1) == 64 && gguf_get_tensor_size(gguf, 1) == 136 && gguf_get_tensor_n_dims(gguf, 1) == 2;
    ok = ok && b && b->type == GGML_TYPE_Q8_0 && b->ne[0] == 64 && b->ne[1] == 2 && b->ne[2] == 1 && !b->data;
    if (!ok) {
        failed("the valid file", "a value read back differs");
    }
    ggml_free(tensors);
    gguf_free(gguf);
}

static void check_paths(void) {
    static const char * const cases[][2] = { { "/nonexistent/talker.gguf", "/nonexistent/talker.gguf: cannot be opened: No such file" },
                                             { ".", ".: is a directory, expected a file" },
                                             { "/dev/null", "/dev/null: is not a regular file" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char error[512];
        struct gguf_init_params params = { .no_alloc = true };
        if (gguf_init_from_file_err(cases[i][0], params, error, sizeof error) || !strstr(error, cases[i][1])) {
            failed(cases[i][0], error);
        }
    }
}

int main(int argc, char ** argv) {
    uint32_t seed = argc > 1 ? (uint32_t) strtoul(argv[1], NULL, 10) : 1;
    static struct file valid;
    make_valid(&valid);
    check_valid(&valid);
    check_bad_files(&valid);
    check_prefixes(&valid);
    check_random(&valid, seed);
    check_paths();
    struct file version2 = valid;
    memcpy(version2.bytes + valid.at[VERSION], &(uint32_t) { 2 }, 4);
    char error[512];
    if (!load(version2.bytes, version2.size, error, sizeof error)) {
        failed("version 2", error);
    }
    printf("gguf_malformed: %zu broken files, %zu prefixes, %d failures\n", sizeof bad_files / sizeof bad_files[0], valid.size, n_failures);
    return n_failures < 100 ? n_failures : 100;
}
