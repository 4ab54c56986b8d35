/* conv_amx_weights.h - a convolution's weights as columns of AMX tiles: for each block of 32 input channels and each tap a step (amx.h) of up to 32 columns.
 * A column is an output channel, or one of the s0 phases of one where the convolution is transposed: its taps are then those s0 apart,
 *   out[oc][t * s0 + r] = sum over ic, j of w[ic][oc][j * s0 + r] * x[ic][t - j],   taps in the order of time: j = taps - 1 first. */
#pragma once

#include "../packed_kernel.h"
#include "amx.h"

#if defined(QT_TIER_AMX)

struct conv_weights {
    const struct ggml_tensor * kernel; /* [K, IC, OC], transposed [K, OC, IC] */
    bool packed;                       /* the kernel is one of packed_kernel.h */
    int64_t phases;                    /* 1, or s0 of a transposed convolution */
    int64_t taps, IC, OC;
    int64_t panel, n_panels;           /* columns of a panel, at most 32: whole output channels, if they fit; panels */
    int64_t group;                     /* panels that one thread packs and multiplies together */
    int parts;
    size_t step_bytes, values_bytes;   /* of a packed step; of room for pack */
};

struct conv_weights KERNEL(conv_weights_of)(const struct ggml_tensor * dst, int order, int nth);

static inline int64_t conv_weights_columns(const struct conv_weights * w, int64_t panel) {
    int64_t left = w->OC * w->phases - panel * w->panel;
    return left < w->panel ? left : w->panel;
}

/* Blocks b0 .. b0 + n - 1 of a group of panels from panel on, panel_bytes from one to the next: of a transposed kernel's rows a panel is a cache line or two. */
void KERNEL(conv_weights_pack)(const struct conv_weights * w, int64_t panel, int64_t b0, int64_t n, float * values, char * out, size_t panel_bytes);

/* All of an F16 kernel to the order of packed_kernel.h; false: not one that is quickly turned. */
bool KERNEL(conv_weights_order)(const struct ggml_tensor * kernel, int64_t stride, char * out);

#endif
