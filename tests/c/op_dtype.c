/* op_dtype.c - number formats and test data, written from the description of the formats and independent of the library.
 * Loading decodes one element to double; blocks are filled with random bytes and a sane scale, so no quantizer is involved.
 *   Q8_0 d, 32 int8 | Q4_0 d, 16 bytes of nibbles, -8 | Q4_1 d, m | Q5_0 d, 32 high bits, nibbles, -16 | Q5_1 d, m
 *   Q4_K, Q5_K d, dmin, eight 6-bit scales and minima in 12 bytes, (high bits,) nibbles: 256 values
 *   Q6_K low nibbles, high pairs, sixteen int8 scales, d: 256 values */
#include "op_test.h"

#include <math.h>
#include <string.h>

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Counter-based: the value depends on its three arguments only. */
uint64_t op_random(uint64_t seed, uint64_t stream, uint64_t counter) {
    return mix(mix(mix(seed + 0x9e3779b97f4a7c15u) ^ stream) + counter * 0x9e3779b97f4a7c15u);
}

uint64_t op_hash(const char * text) {
    uint64_t h = 1469598103934665603u; /* FNV-1a */
    for (; *text; text++) {
        h = (h ^ (uint8_t) *text) * 1099511628211u;
    }
    return h;
}

static double unit(uint64_t r) { return (double) (r >> 11) * 0x1p-53; }

/* Bits of precision and the exponent of the smallest spacing. */
static void precision_of(enum ggml_type type, int * bits, int * least, double * largest) {
    switch (type) {
        case GGML_TYPE_F16: *bits = 11; *least = -24; *largest = 65504.0; break;
        case GGML_TYPE_BF16: *bits = 8; *least = -133; *largest = 0x1.fep127; break;
        default: *bits = 24; *least = -149; *largest = 0x1.fffffep127; break;
    }
}

double op_dtype_ulp(enum ggml_type type, double x) {
    int bits, least, e = 0;
    double largest;
    precision_of(type, &bits, &least, &largest);
    frexp(x, &e);
    return ldexp(1.0, x == 0 || e - bits < least ? least : e - bits);
}

double op_dtype_round(enum ggml_type type, double x) {
    int bits, least;
    double largest;
    if (!isfinite(x)) {
        return x;
    }
    precision_of(type, &bits, &least, &largest);
    double ulp = op_dtype_ulp(type, x);
    double y = nearbyint(x / ulp) * ulp; /* the default mode: ties to even */
    return fabs(y) > largest ? copysign(INFINITY, x) : copysign(y, x);
}

static double load_f16(const uint8_t * p) {
    unsigned h = (unsigned) p[0] | (unsigned) p[1] << 8;
    int e = (int) (h >> 10 & 31), m = (int) (h & 1023);
    double v = e == 31 ? (m ? (double) NAN : (double) INFINITY) : e == 0 ? ldexp(m, -24) : ldexp(1024 + m, e - 25);
    return h & 0x8000 ? -v : v;
}

static void store_f16(uint8_t * p, double x) {
    unsigned h = signbit(x) ? 0x8000 : 0;
    double v = fabs(op_dtype_round(GGML_TYPE_F16, x));
    int e = 0;
    if (isnan(x)) {
        h |= 0x7e00;
    } else if (isinf(v)) {
        h |= 0x7c00;
    } else if (v < 0x1p-14) {
        h |= (unsigned) ldexp(v, 24);
    } else {
        double m = frexp(v, &e); /* 0.5 .. 1 */
        h |= (unsigned) (e + 14) << 10 | ((unsigned) ldexp(m, 11) & 1023);
    }
    p[0] = (uint8_t) h;
    p[1] = (uint8_t) (h >> 8);
}

/* 6-bit scale and minimum of sub-block j of eight, packed in 12 bytes. */
static void scale_min(const uint8_t * s, int j, int * scale, int * min) {
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        *min = s[j + 4] >> 4 | s[j] >> 6 << 4;
    }
}

static double load_k(enum ggml_type type, const uint8_t * b, int j) {
    if (type == GGML_TYPE_Q6_K) {
        int half = j / 128, r = j % 128, quarter = r / 32, l = r % 32;
        int low = b[64 * half + 32 * (quarter % 2) + l] >> (quarter / 2 * 4) & 15;
        int high = b[128 + 32 * half + l] >> (2 * quarter) & 3;
        int scale = (int8_t) b[192 + 8 * half + 2 * quarter + l / 16];
        return load_f16(b + 208) * scale * ((low | high << 4) - 32);
    }
    int sub = j / 32, l = j % 32, scale, min;
    const uint8_t * quants = b + (type == GGML_TYPE_Q5_K ? 48 : 16);
    scale_min(b + 4, sub, &scale, &min);
    int q = quants[32 * (sub / 2) + l] >> (sub % 2 * 4) & 15;
    if (type == GGML_TYPE_Q5_K) {
        q |= (b[16 + l] >> sub & 1) << 4;
    }
    return load_f16(b) * scale * q - load_f16(b + 2) * min;
}

double op_dtype_load(enum ggml_type type, const void * row, int64_t i) {
    const uint8_t * p = row;
    union { uint32_t u; float f; } v;
    int j = (int) (i % 32), nibble;
    switch (type) {
        case GGML_TYPE_F32: return ((const float *) row)[i];
        case GGML_TYPE_F16: return load_f16(p + 2 * i);
        case GGML_TYPE_BF16: v.u = ((uint32_t) p[2 * i] | (uint32_t) p[2 * i + 1] << 8) << 16; return v.f;
        case GGML_TYPE_I32: return ((const int32_t *) row)[i];
        case GGML_TYPE_I64: return (double) ((const int64_t *) row)[i];
        case GGML_TYPE_Q8_0: p += i / 32 * 34; return load_f16(p) * (int8_t) p[2 + j];
        case GGML_TYPE_Q4_0: p += i / 32 * 18; nibble = p[2 + j % 16] >> (j / 16 * 4) & 15; return load_f16(p) * (nibble - 8);
        case GGML_TYPE_Q4_1: p += i / 32 * 20; nibble = p[4 + j % 16] >> (j / 16 * 4) & 15; return load_f16(p) * nibble + load_f16(p + 2);
        case GGML_TYPE_Q5_0:
            p += i / 32 * 22;
            nibble = (p[6 + j % 16] >> (j / 16 * 4) & 15) | (p[2 + j / 8] >> (j % 8) & 1) << 4;
            return load_f16(p) * (nibble - 16);
        case GGML_TYPE_Q5_1:
            p += i / 32 * 24;
            nibble = (p[8 + j % 16] >> (j / 16 * 4) & 15) | (p[4 + j / 8] >> (j % 8) & 1) << 4;
            return load_f16(p) * nibble + load_f16(p + 2);
        case GGML_TYPE_Q4_K: return load_k(type, p + i / 256 * 144, (int) (i % 256));
        case GGML_TYPE_Q5_K: return load_k(type, p + i / 256 * 176, (int) (i % 256));
        case GGML_TYPE_Q6_K: return load_k(type, p + i / 256 * 210, (int) (i % 256));
        default: return NAN;
    }
}

void op_dtype_store(enum ggml_type type, void * row, int64_t i, double x) {
    uint8_t * p = row;
    union { float f; uint32_t u; } v;
    switch (type) {
        case GGML_TYPE_F32: ((float *) row)[i] = (float) x; break;
        case GGML_TYPE_F16: store_f16(p + 2 * i, x); break;
        case GGML_TYPE_BF16:
            v.f = isnan(x) ? NAN : (float) op_dtype_round(type, x);
            p[2 * i] = (uint8_t) (v.u >> 16);
            p[2 * i + 1] = (uint8_t) (v.u >> 24);
            break;
        case GGML_TYPE_I32: ((int32_t *) row)[i] = (int32_t) x; break;
        case GGML_TYPE_I64: ((int64_t *) row)[i] = (int64_t) x; break;
        default: break;
    }
}

/* Random quants with scales such that values are of the order of 1. */
static void fill_block(enum ggml_type type, uint8_t * block, uint64_t seed, uint64_t stream, uint64_t index) {
    size_t bytes = ggml_type_size(type);
    for (size_t i = 0; i < bytes; i++) {
        block[i] = (uint8_t) (op_random(seed, stream, index * 1024 + i) >> 24);
    }
    double u = 0.5 + unit(op_random(seed, stream ^ 1, index)), w = unit(op_random(seed, stream ^ 2, index)) - 0.5;
    switch (type) {
        case GGML_TYPE_Q8_0: store_f16(block, u / 127); break;
        case GGML_TYPE_Q4_0: store_f16(block, -u / 8); break; /* a negative scale is legal */
        case GGML_TYPE_Q5_0: store_f16(block, u / 16); break;
        case GGML_TYPE_Q4_1: store_f16(block, u / 8); store_f16(block + 2, -u + w); break;
        case GGML_TYPE_Q5_1: store_f16(block, u / 16); store_f16(block + 2, -u + w); break;
        case GGML_TYPE_Q4_K: store_f16(block, u / 400); store_f16(block + 2, u / 60); break;
        case GGML_TYPE_Q5_K: store_f16(block, u / 900); store_f16(block + 2, u / 60); break;
        case GGML_TYPE_Q6_K: store_f16(block + 208, u / 2500); break;
        default: break;
    }
}

static double special_value(uint64_t r) {
    static const double values[] = { NAN, INFINITY, 0.0, -0.0, 1e-41, -1e-41, 88.0, -88.0, -104.5, 3e4, -3e4, 1e30, -1e30, 1.0, -1.0, 0x1p-126 };
    return values[r % (sizeof values / sizeof values[0])];
}

static double value_at(const struct op_input * in, uint64_t seed, uint64_t stream, uint64_t n, const int64_t i[4]) {
    uint64_t r = op_random(seed, stream, n);
    uint64_t whole_peak = op_random(seed, stream ^ 7, n / 32) % 32;
    int64_t limit = in->limit > 0 ? in->limit : 1;
    switch (in->fill) {
        case FILL_SPECIAL:
            return r % 5 == 0 ? special_value(r >> 8) : in->lo + (in->hi - in->lo) * unit(r);
        case FILL_ONE_NAN:
            if (i[0] == (i[1] * 29 + 5) % in->view->ne[0]) {
                return NAN;
            }
            break;
        case FILL_WHOLE:
            return (uint64_t) (i[0] % 32) == whole_peak % 32 ? (r & 1 ? 127 : -127) : (double) ((int64_t) (r % 255) - 127);
        case FILL_INDEX: return (double) (r % (uint64_t) limit);
        case FILL_DISTINCT: return (double) ((int64_t) (op_random(seed, stream, 0) % (uint64_t) limit + n * 4) % limit); /* limit is odd */
        case FILL_POSITION: return (double) ((int64_t) (op_random(seed, stream, 0) % (uint64_t) limit) + (int64_t) n);
        case FILL_MASK: return i[0] == 0 || r % 3 == 0 ? 0.0 : r % 3 == 1 ? -INFINITY : -2.0 * unit(r >> 8);
        case FILL_GARBAGE:
            if (i[1] >= in->view->ne[1] / 2) {
                return NAN;
            }
            break;
        case FILL_BEFORE: return i[0] >= in->view->ne[0] / 2 ? -INFINITY : 0.0;
        case FILL_UNIFORM: break;
    }
    return in->lo + (in->hi - in->lo) * unit(r);
}

void op_fill_input(const struct op_input * in, uint64_t seed, uint64_t stream, uint8_t * image, const uint8_t * base) {
    const struct ggml_tensor * t = in->view;
    uint64_t n = 0;
    int64_t step = ggml_blck_size(t->type), i[4];
    for (i[3] = 0; i[3] < t->ne[3]; i[3]++) {
        for (i[2] = 0; i[2] < t->ne[2]; i[2]++) {
            for (i[1] = 0; i[1] < t->ne[1]; i[1]++) {
                uint8_t * row = image + ((const uint8_t *) t->data - base) + i[1] * (int64_t) t->nb[1] + i[2] * (int64_t) t->nb[2] + i[3] * (int64_t) t->nb[3];
                for (i[0] = 0; i[0] < t->ne[0]; i[0] += step, n++) {
                    uint8_t * at = row + i[0] / step * (int64_t) t->nb[0];
                    if (step > 1) {
                        fill_block(t->type, at, seed, stream, n);
                    } else {
                        op_dtype_store(t->type, at, 0, value_at(in, seed, stream, n, i));
                    }
                }
            }
        }
    }
}
