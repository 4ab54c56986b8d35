/* vec_scalar.h - the vector interface of vec.h with one lane: the reference tier, and what any processor can run.
 * Baseline SSE2 on x86-64 has neither fused multiply-add nor half precision, so both are written out with integers here. */
#pragma once

#define VF_N 1

typedef float vf;
typedef int vm;

static inline uint32_t vf_bits(float v) {
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}
static inline float vf_from_bits(uint32_t u) {
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

static inline vf vf_zero(void) { return 0.0f; }
static inline vf vf_set1(float f) { return f; }
static inline vf vf_load(const float * p) { return *p; }
static inline void vf_store(float * p, vf v) { *p = v; }
static inline vf vf_load_n(const float * p, int n) { (void) n; return *p; }
static inline void vf_store_n(float * p, vf v, int n) { (void) n; *p = v; }

static inline vf vf_add(vf a, vf b) { return a + b; }
static inline vf vf_sub(vf a, vf b) { return a - b; }
static inline vf vf_mul(vf a, vf b) { return a * b; }
static inline vf vf_div(vf a, vf b) { return a / b; }
static inline vf vf_min(vf a, vf b) { return a < b ? a : b; }
static inline vf vf_max(vf a, vf b) { return a > b ? a : b; }
static inline vf vf_neg(vf a) { return -a; }
static inline vf vf_abs(vf a) { return fabsf(a); }
static inline vf vf_sqrt(vf a) { return sqrtf(a); }
static inline vf vf_fma(vf a, vf b, vf c) { return a * b + c; }
/* Adding 1.5 * 2^23 leaves no fraction bits: no call into libm, which SSE2 would need. */
static inline vf vf_round(vf a) { return fabsf(a) < 4194304.0f ? (a + 12582912.0f) - 12582912.0f : a; }

static inline float vf_sum(vf v) { return v; }
static inline float vf_hmax(vf v) { return v; }

static inline vf vf_pow2i(vf v) { return vf_from_bits((vf_bits(v + 12582912.0f) << 23) + (127u << 23)); }

static inline vm vf_gt(vf a, vf b) { return a > b; }
static inline vf vf_select(vm m, vf a, vf b) { return m ? a : b; }
static inline int vm_any(vm m) { return m; }

/* Half to single: shift exponent and mantissa into place, then multiply by 2^112, which also makes subnormals right. */
static inline vf vf_load_i8(const int8_t * p) { return (float) *p; }
static inline vf vf_load_f16(const uint16_t * p) {
    uint32_t h = *p, sign = (h & 0x8000u) << 16, rest = (h & 0x7fffu) << 13;
    float v = rest >= 0x0f800000u ? vf_from_bits(rest | 0x7f800000u) : vf_from_bits(rest) * 0x1p112f;
    return vf_from_bits(vf_bits(v) | sign);
}
static inline void vf_store_f16(uint16_t * p, vf v) {
    uint32_t u = vf_bits(v), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) {
        *p = (uint16_t) (sign | 0x7e00u | (a >> 13 & 0x3ffu));
    } else if (a >= 0x477ff000u) { /* 65520 and more round to infinity */
        *p = (uint16_t) (sign | 0x7c00u);
    } else if (a < 0x38800000u) { /* under 2^-14: adding 0.5 puts the last half-precision bit at the last single one */
        *p = (uint16_t) (sign | (vf_bits(vf_from_bits(a) + 0.5f) - 0x3f000000u));
    } else {
        *p = (uint16_t) (sign | ((a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13));
    }
}
static inline vf vf_load_bf16(const uint16_t * p) { return vf_from_bits((uint32_t) *p << 16); }
static inline void vf_store_bf16(uint16_t * p, vf v) {
    uint32_t u = vf_bits(v);
    *p = (uint16_t) ((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16 | 0x40u) : (u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}
