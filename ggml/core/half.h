/* half.h - f16 and bf16 to and from f32, portable and header-only; both roundings are to nearest even.
 * f16: 1 sign, 5 exponent (bias 15), 10 mantissa bits. bf16: the upper half of an f32. NaN stays NaN, and becomes quiet when narrowed. */
#pragma once

#include <stdint.h>
#include <string.h>

static inline uint32_t half_bits_of_f32(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float half_f32_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float half_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t) (h & 0x8000u) << 16;
    uint32_t rest = h & 0x7fffu;
    if (rest >= 0x7c00u) { /* inf and NaN: the exponent becomes all ones */
        return half_f32_of_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    }
    if (rest < 0x0400u) { /* zero and subnormals: an integer count of 2^-24 */
        return half_f32_of_bits(sign | half_bits_of_f32((float) rest * 0x1p-24f));
    }
    return half_f32_of_bits(sign | ((rest << 13) + ((127u - 15u) << 23)));
}

static inline uint16_t half_f32_to_f16(float x) {
    uint32_t bits = half_bits_of_f32(x);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) { /* NaN: keep the upper payload bits, set the quiet bit */
        return (uint16_t) (sign | 0x7e00u | (rest >> 13 & 0x1ffu));
    }
    if (rest >= 0x477ff000u) { /* 65520 and above rounds to infinity */
        return (uint16_t) (sign | 0x7c00u);
    }
    if (rest < 0x38800000u) { /* under 2^-14: adding 0.5 puts units of 2^-24 into the low mantissa bits, rounded to even by the adder */
        return (uint16_t) (sign | (half_bits_of_f32(half_f32_of_bits(rest) + 0.5f) - 0x3f000000u));
    }
    rest -= (127u - 15u) << 23;
    return (uint16_t) (sign | ((rest + 0xfffu + (rest >> 13 & 1u)) >> 13));
}

static inline float half_bf16_to_f32(uint16_t h) {
    return half_f32_of_bits((uint32_t) h << 16);
}

static inline uint16_t half_f32_to_bf16(float x) {
    uint32_t bits = half_bits_of_f32(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t) (bits >> 16 | 0x40u);
    }
    return (uint16_t) ((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
