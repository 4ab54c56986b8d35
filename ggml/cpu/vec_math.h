/* vec_math.h - exp, sin, erf, tanh over vec.h; polynomials fitted for this file (weighted minimax, coefficients rounded in turn).
 * Largest error found against double on grids of 2e7 points, all tiers, in units of the last place (ulp):
 *   vf_exp      1.1 for every x; over 88.73 gives inf, under -103.98 gives 0, subnormal results included
 *   vf_sin      2.1 for |x| <= pi, 3.7 for |x| <= 100; up to 12867 1.3e-7 absolute (near a multiple of pi 2e-10); larger lanes go through libm
 *   vf_sin_sq   sin^2: 2.5e-7 absolute, 7.2 ulp for |x| <= 100
 *   vf_expm1_negative  1.0 for every x <= 0
 *   vf_erf 1.3    vf_tanh 1.3    vf_sigmoid 2.4, tails included
 * NaN gives NaN, infinities their limits (sin: NaN). No tables, no branches but the one of large sines. */
#pragma once

#include "vec.h"

/* A polynomial by Horner: vf_poly_step(p, x, c) = p * x + c. */
static inline vf vf_poly_step(vf p, vf x, float c) { return vf_fma(p, x, vf_set1(c)); }

/* x = n ln2 + r, |r| <= ln2 / 2; e^r = 1 + r + r^2 P(r). 2^n is applied in two halves so that both ends of the range come out right. */
static inline vf vf_exp(vf x) {
    x = vf_max(vf_set1(-104.0f), vf_min(vf_set1(89.0f), x));
    vf n = vf_round(vf_mul(x, vf_set1(0x1.715476p+0f)));
    vf r = vf_fma(n, vf_set1(-0x1.62e4p-1f), x); /* 15 bits of ln2: exact for |n| < 2^9 */
    r = vf_fma(n, vf_set1(-0x1.7f7d1cp-20f), r);
    vf p = vf_set1(0x1.6a492cp-10f);
    p = vf_poly_step(p, r, 0x1.12399ep-7f);
    p = vf_poly_step(p, r, 0x1.5558b4p-5f);
    p = vf_poly_step(p, r, 0x1.555492p-3f);
    p = vf_poly_step(p, r, 0x1.fffffcp-2f);
    p = vf_add(vf_fma(vf_mul(r, r), p, r), vf_set1(1.0f));
    vf half = vf_round(vf_mul(n, vf_set1(0.5f)));
    return vf_mul(vf_mul(p, vf_pow2i(half)), vf_pow2i(vf_sub(n, half)));
}

/* e^x - 1 for x <= 0, where e^x = 2^n (1 + p): 2^n p + (2^n - 1) keeps the digits of a small x. Under -80 the result is -1. */
static inline vf vf_expm1_negative(vf x) {
    x = vf_max(vf_set1(-80.0f), x);
    vf n = vf_round(vf_mul(x, vf_set1(0x1.715476p+0f)));
    vf r = vf_fma(n, vf_set1(-0x1.62e4p-1f), x);
    r = vf_fma(n, vf_set1(-0x1.7f7d1cp-20f), r);
    vf p = vf_set1(0x1.6a492cp-10f);
    p = vf_poly_step(p, r, 0x1.12399ep-7f);
    p = vf_poly_step(p, r, 0x1.5558b4p-5f);
    p = vf_poly_step(p, r, 0x1.555492p-3f);
    p = vf_poly_step(p, r, 0x1.fffffcp-2f);
    p = vf_fma(vf_mul(r, r), p, r);
    vf scale = vf_pow2i(n);
    return vf_fma(p, scale, vf_sub(scale, vf_set1(1.0f)));
}

/* sin on [-pi/2, pi/2]. */
static inline vf vf_sin_reduced(vf r) {
    vf u = vf_mul(r, r);
    vf p = vf_set1(0x1.5dc904p-19f);
    p = vf_poly_step(p, u, -0x1.9f70fp-13f);
    p = vf_poly_step(p, u, 0x1.110edap-7f);
    p = vf_poly_step(p, u, -0x1.55554cp-3f);
    return vf_fma(vf_mul(r, u), p, r);
}

/* x - n pi with pi in three parts; the first two have 12 bits, so that their products with n < 4096 are exact without fused multiply-add. */
static inline vf vf_reduce_pi(vf x, vf * n) {
    *n = vf_round(vf_mul(x, vf_set1(0x1.45f306p-2f)));
    vf r = vf_fma(*n, vf_set1(-0x1.92p+1f), x);
    r = vf_fma(*n, vf_set1(-0x1.fb4p-11f), r);
    return vf_fma(*n, vf_set1(-0x1.4442d2p-23f), r);
}

#define VF_SIN_LIMIT 12867.0f /* n < 4096 */

/* s with sinf(x) in the lanes where |x| is over the limit, and only there: a lane's result never depends on its neighbours. */
static inline vf vf_sin_large(vf x, vf s) {
    float xs[VF_N], ss[VF_N];
    vf_store(xs, x);
    vf_store(ss, s);
    for (int i = 0; i < VF_N; i++) {
        if (fabsf(xs[i]) > VF_SIN_LIMIT) {
            ss[i] = sinf(xs[i]);
        }
    }
    return vf_load(ss);
}

static inline vf vf_sin(vf x) {
    vf n;
    vf s = vf_sin_reduced(vf_reduce_pi(x, &n));
    vf odd = vf_sub(n, vf_mul(vf_set1(2.0f), vf_round(vf_mul(n, vf_set1(0.5f))))); /* -1, 0 or 1 */
    s = vf_mul(s, vf_fma(vf_mul(odd, odd), vf_set1(-2.0f), vf_set1(1.0f)));
    return vm_any(vf_gt(vf_abs(x), vf_set1(VF_SIN_LIMIT))) ? vf_sin_large(x, s) : s;
}

/* sin^2 needs no sign. */
static inline vf vf_sin_sq(vf x) {
    vf n;
    vf s = vf_sin_reduced(vf_reduce_pi(x, &n));
    s = vm_any(vf_gt(vf_abs(x), vf_set1(VF_SIN_LIMIT))) ? vf_sin_large(x, s) : s;
    return vf_mul(s, s);
}

/* 1 / (1 + e^-x). For x < 0 as e^x / (1 + e^x), which keeps the small values' last places and never overflows. */
static inline vf vf_sigmoid(vf x) {
    vf one = vf_set1(1.0f);
    vf e = vf_exp(vf_neg(vf_abs(x)));
    vf num = vf_select(vf_gt(vf_zero(), x), e, one);
    return vf_div(num, vf_add(one, e));
}

/* |x| < 0.65: x + x^3 P(x^2); else 1 - 2 / (e^2|x| + 1) with x's sign. */
static inline vf vf_tanh(vf x) {
    vf a = vf_abs(x), u = vf_mul(x, x);
    vf p = vf_set1(-0x1.696a9ap-8f);
    p = vf_poly_step(p, u, 0x1.4f5d72p-6f);
    p = vf_poly_step(p, u, -0x1.b7cfb6p-5f);
    p = vf_poly_step(p, u, 0x1.1103fp-3f);
    p = vf_poly_step(p, u, -0x1.555524p-2f);
    vf small = vf_fma(vf_mul(x, u), p, x);
    vf e = vf_exp(vf_add(a, a));
    vf big = vf_sub(vf_set1(1.0f), vf_div(vf_set1(2.0f), vf_add(e, vf_set1(1.0f))));
    big = vf_select(vf_gt(vf_zero(), x), vf_neg(big), big);
    return vf_select(vf_gt(a, vf_set1(0.65f)), big, small);
}

/* |x| <= 1: x + x P(x^2); else 1 - e^Q(|x|) with x's sign, Q = log erfc on [1, 4]; erf(4) is 1 in single precision. */
static inline vf vf_erf(vf x) {
    vf u = vf_mul(x, x), one = vf_set1(1.0f);
    vf p = vf_set1(0x1.4771fcp-14f);
    p = vf_poly_step(p, u, -0x1.a3515ep-11f);
    p = vf_poly_step(p, u, 0x1.53f224p-8f);
    p = vf_poly_step(p, u, -0x1.b7f71ap-6f);
    p = vf_poly_step(p, u, 0x1.ce2ce6p-4f);
    p = vf_poly_step(p, u, -0x1.81273ep-2f);
    p = vf_poly_step(p, u, 0x1.06eba8p-3f);
    vf small = vf_fma(x, p, x);
    vf a = vf_min(vf_set1(4.0f), vf_abs(x));
    vf q = vf_set1(-0x1.6bced8p-16f);
    q = vf_poly_step(q, a, 0x1.cebf66p-12f);
    q = vf_poly_step(q, a, -0x1.138adap-8f);
    q = vf_poly_step(q, a, 0x1.9d01ecp-6f);
    q = vf_poly_step(q, a, -0x1.bc14bep-4f);
    q = vf_poly_step(q, a, -0x1.44356ep-1f);
    q = vf_poly_step(q, a, -0x1.212c0cp+0f);
    q = vf_poly_step(q, a, 0x1.8a5746p-13f);
    vf big = vf_sub(one, vf_exp(q));
    big = vf_select(vf_gt(vf_zero(), x), vf_neg(big), big);
    return vf_select(vf_gt(a, one), big, small);
}

/* x, or e^x - 1 where x is negative. */
static inline vf vf_elu(vf x) { return vf_select(vf_gt(x, vf_zero()), x, vf_expm1_negative(vf_min(vf_zero(), x))); }

/* x + sin^2(a x) inv_b. */
static inline vf vf_snake(vf x, vf a, vf inv_b) { return vf_fma(vf_sin_sq(vf_mul(a, x)), inv_b, x); }
