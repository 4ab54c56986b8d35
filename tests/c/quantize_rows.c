/* quantize_rows.c - ggml_quantize_chunk on rows that a program may hand over by mistake or by malice, for the sanitizers, and on one known input whose
 * bytes must be the same on every processor, compiler and optimisation level. Exit code = failures. */
#include <ggml.h>

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define N 512

static int checks, failures;

static void check(bool holds, const char * what, enum ggml_type type) {
    checks++;
    if (!holds) {
        failures++;
        printf("FAIL %s: %s\n", ggml_type_name(type), what);
    }
}

static uint32_t state = 1;

/* Near enough to Gaussian, and exact: a sum of integers divided by a power of two. */
static float draw(void) {
    int sum = 0;
    for (int i = 0; i < 6; i++) {
        state = state * 1664525u + 1013904223u;
        sum += (int) (state >> 16) - 32768;
    }
    return (float) sum / 65536.0f;
}

static uint64_t digest(const unsigned char * bytes, size_t n) {
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < n; i++) {
        h = (h ^ bytes[i]) * 1099511628211u;
    }
    return h;
}

static const struct { enum ggml_type type; uint64_t digest; } types[] = {
    { GGML_TYPE_F16, 0x4046755706be4fd8 },
    { GGML_TYPE_BF16, 0xf86bedd5e5d474b2 },
    { GGML_TYPE_Q4_0, 0x027d2969ca36bf0e },
    { GGML_TYPE_Q4_1, 0x9ac841c43c1e9a9f },
    { GGML_TYPE_Q5_0, 0xa523e3dc7dfad1f4 },
    { GGML_TYPE_Q5_1, 0x5e6efd9136b78fc1 },
    { GGML_TYPE_Q8_0, 0x6d16de5061900b30 },
    { GGML_TYPE_Q4_K, 0x2f686a32ff7d0cb3 },
    { GGML_TYPE_Q5_K, 0xb5a79f1b0cee4bb9 },
    { GGML_TYPE_Q6_K, 0xc98feb24ae315208 },
};

/* Decoded rows of x; weights may be NULL. The blocks end where their memory does. */
static void round_trip(enum ggml_type type, const float * x, int rows, float * decoded, const float * weights, uint64_t * hash) {
    size_t n_bytes = ggml_row_size(type, N) * (size_t) rows;
    unsigned char * blocks = malloc(n_bytes);
    if (!blocks) {
        exit(126);
    }
    size_t written = 0;
    for (int row = 0; row < rows; row++) { /* each row from its own start */
        written += ggml_quantize_chunk(type, x, blocks, (int64_t) row * N, 1, N, weights);
    }
    check(written == n_bytes, "the bytes written are those of the rows", type);
    ggml_get_type_traits(type)->to_float(blocks, decoded, (int64_t) rows * N);
    if (hash) {
        *hash = digest(blocks, n_bytes);
    }
    free(blocks);
}

static void known_bytes(enum ggml_type type, uint64_t want) {
    static float x[4 * N], decoded[4 * N];
    uint64_t got = 0;
    state = 1;
    for (int i = 0; i < 4 * N; i++) {
        x[i] = draw() * (i % 67 == 0 ? 8.0f : 1.0f) * (i / N == 1 ? 0x1p-9f : 1.0f) + (i / N == 2 ? 3.0f : 0.0f);
    }
    round_trip(type, x, 4, decoded, NULL, &got);
    check(got == want, "bytes of the known rows", type);
    if (got != want) {
        printf("     digest 0x%016llx\n", (unsigned long long) got);
    }
}

/* No value is refused here, and none may lead to undefined behaviour: the sanitizers judge. Finite rows give finite values. */
static void hostile_values(enum ggml_type type) {
    const float odd[] = { NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, FLT_MIN, -0x1p-149f, 0x1p-24f, -0.0f, 65520.0f, 1.0f };
    const int n_odd = (int) (sizeof odd / sizeof *odd);
    static float x[N], decoded[N];
    bool is_block = ggml_blck_size(type) > 1;
    for (int first = 0; first < 2 * n_odd; first++) {
        bool finite = true;
        for (int i = 0; i < N; i++) {
            x[i] = first < n_odd ? (i % 5 == 0 ? odd[first] : draw()) : odd[(i * 7 + first + i / 32) % n_odd];
            finite = finite && isfinite(x[i]);
        }
        round_trip(type, x, 1, decoded, NULL, NULL);
        for (int i = 0; i < N && finite && is_block; i++) {
            if (!isfinite(decoded[i])) {
                check(false, "finite rows decode to finite values", type);
                break;
            }
        }
    }
}

/* Columns that weigh more err less, and no weight is one that breaks the search. */
static void weights_matter(enum ggml_type type) {
    static float x[8 * N], plain[8 * N], weighted[8 * N], weights[N];
    double before = 0, after = 0, rest = 0;
    for (int i = 0; i < 8 * N; i++) {
        x[i] = draw();
    }
    for (int i = 0; i < N; i++) {
        weights[i] = i % 4 == 0 ? 50.0f : 0.5f;
    }
    round_trip(type, x, 8, plain, NULL, NULL);
    round_trip(type, x, 8, weighted, weights, NULL);
    for (int i = 0; i < 8 * N; i++) {
        double a = (double) (plain[i] - x[i]), b = (double) (weighted[i] - x[i]);
        if (i % 4 == 0) {
            before += a * a;
            after += b * b;
        } else {
            rest += b * b;
        }
    }
    check(after < 0.8 * before && rest > 0, "weighted columns err less", type);
    const float odd[] = { 0.0f, FLT_MAX, NAN, -1.0f, 0x1p-149f };
    for (int i = 0; i < N; i++) {
        weights[i] = odd[i % 5];
    }
    round_trip(type, x, 8, weighted, weights, NULL);
    for (int i = 0; i < N; i++) {
        weights[i] = 0.0f;
    }
    round_trip(type, x, 8, weighted, weights, NULL);
    bool same = true;
    for (int i = 0; i < 8 * N; i++) {
        same = same && weighted[i] == plain[i];
    }
    check(same, "weights of 0 are none", type);
}

int main(void) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        known_bytes(types[i].type, types[i].digest);
        hostile_values(types[i].type);
    }
    weights_matter(GGML_TYPE_Q4_K);
    weights_matter(GGML_TYPE_Q5_K);
    weights_matter(GGML_TYPE_Q6_K);
    printf("quantize_rows: %d checks, %d failures\n", checks, failures);
    return failures > 125 ? 125 : failures;
}
