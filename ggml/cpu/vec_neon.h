/* vec_neon.h - the vector interface of vec.h over 4 lanes: AArch64 Advanced SIMD, which every 64-bit Arm has. */
#pragma once

#include <arm_neon.h>

#define VF_N 4

typedef float32x4_t vf;
typedef uint32x4_t vm;

static inline vf vf_zero(void) { return vdupq_n_f32(0.0f); }
static inline vf vf_set1(float f) { return vdupq_n_f32(f); }
static inline vf vf_load(const float * p) { return vld1q_f32(p); }
static inline void vf_store(float * p, vf v) { vst1q_f32(p, v); }
static inline vf vf_load_n(const float * p, int n) {
    float t[VF_N] = { 0.0f, 0.0f, 0.0f, 0.0f };
    memcpy(t, p, (size_t) n * sizeof t[0]);
    return vld1q_f32(t);
}
static inline void vf_store_n(float * p, vf v, int n) {
    float t[VF_N];
    vst1q_f32(t, v);
    memcpy(p, t, (size_t) n * sizeof t[0]);
}

static inline vf vf_add(vf a, vf b) { return vaddq_f32(a, b); }
static inline vf vf_sub(vf a, vf b) { return vsubq_f32(a, b); }
static inline vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
static inline vf vf_div(vf a, vf b) { return vdivq_f32(a, b); }
/* vminq and vmaxq give NaN where either side is one; the interface wants b there. */
static inline vf vf_min(vf a, vf b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
static inline vf vf_max(vf a, vf b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
static inline vf vf_neg(vf a) { return vnegq_f32(a); }
static inline vf vf_abs(vf a) { return vabsq_f32(a); }
static inline vf vf_sqrt(vf a) { return vsqrtq_f32(a); }
static inline vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
static inline vf vf_round(vf a) { return vrndnq_f32(a); }

static inline float vf_sum(vf v) {
    float32x2_t s = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(vpadd_f32(s, s), 0);
}
static inline float vf_hmax(vf v) { return vmaxvq_f32(v); }

static inline vf vf_pow2i(vf v) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(v), vdupq_n_s32(127)), 23));
}

static inline vm vf_gt(vf a, vf b) { return vcgtq_f32(a, b); }
static inline vf vf_select(vm m, vf a, vf b) { return vbslq_f32(m, a, b); }
static inline int vm_any(vm m) { return vmaxvq_u32(m) != 0; }

static inline vf vf_load_f16(const uint16_t * p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
static inline vf vf_load_i8(const int8_t * p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four))))));
}
static inline void vf_store_f16(uint16_t * p, vf v) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v))); }
static inline vf vf_load_bf16(const uint16_t * p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }
static inline void vf_store_bf16(uint16_t * p, vf v) {
    uint32x4_t u = vreinterpretq_u32_f32(v);
    uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    uint32x4_t even = vshrq_n_u32(vaddq_u32(vaddq_u32(u, vdupq_n_u32(0x7fff)), odd), 16);
    uint32x4_t nan = vorrq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(0x40));
    vst1_u16(p, vmovn_u32(vbslq_u32(vceqq_f32(v, v), even, nan)));
}
