/* quants_k.h - what the searches of q4_K, q5_K and q6_K share: four sub-blocks side by side, and scales that f16 can hold.
 * Lane l of a vector belongs to sub-block l of a group, so every sum runs over the elements of one sub-block in their order: no sum is split,
 * and the bytes are the same on every processor and with every compiler that keeps IEEE arithmetic. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "half.h"
#include "quants.h"

#define LANES 4
#define MAX_VECTORS (QK_K / LANES)

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t lane_mask __attribute__((vector_size(LANES * sizeof(float))));

static inline lanes lanes_of(float v) { return (lanes) { v, v, v, v }; }
static inline lanes lanes_pick(lane_mask mask, lanes yes, lanes no) { return (lanes) ((mask & (lane_mask) yes) | (~mask & (lane_mask) no)); }
static inline lanes lanes_min(lanes a, lanes b) { return lanes_pick(a < b, a, b); }
static inline lanes lanes_max(lanes a, lanes b) { return lanes_pick(a > b, a, b); }
static inline float lanes_sum(lanes v) { return v[0] + v[1] + v[2] + v[3]; }

/* a / b, 0 where b is 0. */
static inline lanes lanes_ratio(lanes a, lanes b) {
    lane_mask is_zero = b == lanes_of(0.0f);
    return lanes_pick(is_zero, lanes_of(0.0f), a / lanes_pick(is_zero, lanes_of(1.0f), b));
}

/* To the nearest integer, halves to even, inside lo .. hi (lo for NaN); |lo|, |hi| < 2^22. 1.5 x 2^23 leaves no bits for a fraction. */
static inline lanes lanes_round(lanes v, lanes lo, lanes hi) {
    const lanes whole = lanes_of(0x1.8p+23f);
    return (lanes_min(lanes_max(v, lo), hi) + whole) - whole;
}

/* A super-block of n_sub sub-blocks, lanes by group: element i of sub-block 4 g + l is x[g * n_vectors + i][l]. */
struct k_block {
    lanes x[MAX_VECTORS];
    lanes w[MAX_VECTORS];
    int   n_vectors; /* elements of a sub-block */
    int   n_groups;
    float unit;      /* x times this power of two is the input: x stays where squares neither overflow nor vanish */
};

/* Load QK_K values, and their weights (NULL: all 1), as sub-blocks of n_sub. False: every value is nearer to 0 than to the smallest f16, so the
 * block is zeros. */
static inline bool k_block_load(struct k_block * b, const float * x, const float * weights, int n_sub) {
    float largest = 0.0f, heaviest = 0.0f;
    for (int i = 0; i < QK_K; i++) {
        largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
        heaviest = weights && weights[i] > heaviest ? weights[i] : heaviest;
    }
    if (!(largest > 0x1p-25f)) {
        return false;
    }
    int exponent;
    frexpf(largest, &exponent);
    exponent = exponent > 100 ? 100 : exponent; /* so that the inverse of unit is a normal number */
    b->unit = ldexpf(1.0f, exponent);
    b->n_vectors = n_sub;
    b->n_groups = QK_K / n_sub / LANES;
    float scale = ldexpf(1.0f, -exponent);
    for (int s = 0; s < QK_K / n_sub; s++) {
        for (int i = 0; i < n_sub; i++) {
            int v = s / LANES * n_sub + i;
            b->x[v][s % LANES] = x[s * n_sub + i] * scale;
            /* a weight of 0 would leave a sub-block without any; the floor keeps every sum positive */
            b->w[v][s % LANES] = heaviest > 0.0f ? fmaxf(weights[s * n_sub + i] / heaviest, 1e-6f) : 1.0f;
        }
    }
    return true;
}

/* The f16 next to v, never infinite. Where f16 has few bits it is rounded up: integers of 6 or 8 bits still reach v, and no scale becomes 0. */
static inline uint16_t f16_scale(float v) {
    uint16_t h = half_f32_to_f16(v);
    uint16_t sign = h & 0x8000u, rest = h & 0x7fffu;
    if (rest > 0x7bffu) {
        rest = 0x7bffu;
    } else if (rest < 0x0400u && half_f16_to_f32(rest) < fabsf(v)) {
        rest++;
    }
    return (uint16_t) (sign | rest);
}
