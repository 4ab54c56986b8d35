/* packed_kernel.h - F16 kernels of convolutions in the order in which tiles take them: columns are output channels, or the phases of them where the
 * convolution is transposed (conv_amx_weights.h), 32 to a panel. For each panel, block of 32 input channels and tap, in this order, a step of 2 KB:
 *   [tile of 16 columns][pair of channels][column][channel of the pair]
 * so that a thread reads its panels as one stream, and converting is all that is left to do. What fills a panel or a block up is zero. */
#pragma once

#include "../core/internal.h"

#define KERNEL_COLUMNS 32
#define KERNEL_CHANNELS 32
#define KERNEL_STEP_BYTES (KERNEL_COLUMNS * KERNEL_CHANNELS * 2)

struct kernel_shape {
    int64_t phases;          /* 1, or the stride of a transposed convolution */
    int64_t taps, IC, OC;    /* taps of a column */
    int64_t panel, n_panels; /* columns of a panel, at most 32: whole output channels, if they fit */
    int64_t n_ic;            /* blocks of input channels */
};

/* stride 0: a [K, IC, OC]; else a [K, OC, IC], transposed. (A stride of 1 is never taken.) */
static inline struct kernel_shape kernel_shape_of(const struct ggml_tensor * a, int64_t stride) {
    struct kernel_shape s = { .phases = stride ? stride : 1, .IC = a->ne[stride ? 2 : 1], .OC = a->ne[stride ? 1 : 2] };
    s.taps = (a->ne[0] + s.phases - 1) / s.phases;
    s.panel = s.phases > KERNEL_COLUMNS ? KERNEL_COLUMNS : KERNEL_COLUMNS / s.phases * s.phases;
    s.n_panels = (s.OC * s.phases + s.panel - 1) / s.panel;
    s.n_ic = (s.IC + KERNEL_CHANNELS - 1) / KERNEL_CHANNELS;
    return s;
}

static inline size_t kernel_packed_bytes(const struct kernel_shape * s) { return (size_t) (s->n_panels * s->n_ic * s->taps) * KERNEL_STEP_BYTES; }

/* Whether the tensor's memory holds a kernel in this order. */
bool cpu_is_packed_kernel(const struct ggml_tensor * tensor);
