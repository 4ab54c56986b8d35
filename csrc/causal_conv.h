/* causal_conv.h - convolutions that never look ahead, time first: x [T, C_in] -> [T', C_out]. */
#ifndef QT_CAUSAL_CONV_H
#define QT_CAUSAL_CONV_H

#include "weights.h"

#define CONV_MAX_KERNEL 4096 /* taps */

struct conv {
    struct ggml_tensor * weight; /* [K, C_in, C_out]; depthwise [K, 1, C]; transposed [K, C_out, C_in] */
    struct ggml_tensor * bias;   /* [C_out] */
};

/* name.weight and name.bias, any number of taps. */
struct conv conv_load(struct weights * weights, int64_t n_in, int64_t n_out, const char * name);
/* The same for a transposed convolution: its kernel is at least as long as its stride, and of a type ggml_out_prod takes. */
struct conv conv_transposed_load(struct weights * weights, int64_t n_in, int64_t n_out, int stride, const char * name);

struct ggml_tensor * conv_build(struct ggml_context * ctx, const struct conv * conv, struct ggml_tensor * x, int dilation);  /* [T, C_out] */
struct ggml_tensor * conv_depthwise_build(struct ggml_context * ctx, const struct conv * conv, struct ggml_tensor * x);      /* [T, C] */
struct ggml_tensor * conv_transposed_build(struct ggml_context * ctx, const struct conv * conv, struct ggml_tensor * x, int stride); /* [T*stride, C_out] */

#endif
