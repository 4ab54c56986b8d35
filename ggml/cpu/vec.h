/* vec.h - the vector interface the kernels are written against; vec_<tier>.h implements it as static inline functions.
 *
 *   VF_N                      floats in a vector: 1 scalar, 8 avx2, 16 avx512, 4 neon
 *   vf                        the vector type
 *   vf_zero() vf_set1(f) vf_load(p) vf_store(p, v)               p need not be aligned
 *   vf_load_n(p, n) vf_store_n(p, v, n)                          n in 1..VF_N; lanes past n load as 0 and are not stored
 *   vf_load_f16(p) vf_load_bf16(p) vf_store_f16(p, v) vf_store_bf16(p, v)   p: uint16_t *, nearest even
 *   vf_load_i8(p)             VF_N of int8_t
 *   vf_add vf_sub vf_mul vf_div vf_min vf_max (a, b)  vf_neg vf_abs vf_sqrt vf_round (a)   round: nearest even
 *                             min, max: b where either is NaN
 *   vf_fma(a, b, c)           a * b + c, one rounding where the tier has fused multiply-add
 *   vf_sum(v) vf_hmax(v)      over lanes, in a fixed order
 *   vf_pow2i(v)               2^v for integral v in -126 .. 127
 *   vf_gt(a, b) -> vm, vf_select(m, a, b), vm_any(m)             lanewise a > b; m ? a : b; true if in some lane
 * Here, over those: vf_load_f16_n, vf_load_bf16_n (p, n), vf_store_f16_n, vf_store_bf16_n (p, v, n), like vf_load_n.
 * vec_math.h adds vf_exp, vf_sin, vf_sin_sq, vf_erf, vf_tanh, vf_sigmoid over these.
 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels.h"

#if defined(QT_TIER_AVX512)
#  include "vec_avx512.h"
#elif defined(QT_TIER_AVX2)
#  include "vec_avx2.h"
#elif defined(QT_TIER_NEON)
#  include "vec_neon.h"
#else
#  include "vec_scalar.h"
#endif

static inline vf vf_load_f16_n(const uint16_t * p, int n) {
    uint16_t t[VF_N] = { 0 };
    memcpy(t, p, (size_t) n * sizeof t[0]);
    return vf_load_f16(t);
}
static inline vf vf_load_bf16_n(const uint16_t * p, int n) {
    uint16_t t[VF_N] = { 0 };
    memcpy(t, p, (size_t) n * sizeof t[0]);
    return vf_load_bf16(t);
}
static inline void vf_store_f16_n(uint16_t * p, vf v, int n) {
    uint16_t t[VF_N];
    vf_store_f16(t, v);
    memcpy(p, t, (size_t) n * sizeof t[0]);
}
static inline void vf_store_bf16_n(uint16_t * p, vf v, int n) {
    uint16_t t[VF_N];
    vf_store_bf16(t, v);
    memcpy(p, t, (size_t) n * sizeof t[0]);
}
