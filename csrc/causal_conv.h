/* causal_conv.h - convolutions that never look ahead, time first: x [T, C_in] -> [T', C_out]. With a carry, what a convolution needs of the
 * frames before comes from the graph that ran before, so that pieces give what one pass over all of them gives. */
#ifndef QT_CAUSAL_CONV_H
#define QT_CAUSAL_CONV_H

#include "weights.h"

#define CONV_MAX_KERNEL 4096 /* taps */

struct conv {
    struct ggml_tensor * weight; /* [K, C_in, C_out]; depthwise [K, 1, C]; transposed [K, C_out, C_in] */
    struct ggml_tensor * bias;   /* [C_out] */
};

/* What convolutions remember between graphs: one tensor each, in the order they are built. The first graph makes the tensors, the caller
 * gives them memory and clears it; later graphs take the same ones. */
struct carry {
    struct ggml_context * tensors;
    struct ggml_cgraph * graph; /* the one being built: it also writes what the next graph reads */
    struct ggml_tensor * taken; /* by the convolution before; NULL: none yet */
    bool made;                  /* tensors is complete */
};

/* name.weight and name.bias, any number of taps. */
struct conv conv_load(struct weights * weights, int64_t n_in, int64_t n_out, const char * name);
/* The same for a transposed convolution: its kernel is at least as long as its stride, and of a type ggml_conv_transpose_1d_causal takes. */
struct conv conv_transposed_load(struct weights * weights, int64_t n_in, int64_t n_out, int stride, const char * name);

/* y = x + sin^2(a x) * inv_b. */
struct snake {
    struct ggml_tensor * a;     /* [C] */
    struct ggml_tensor * inv_b; /* [C] */
};

struct conv_with {
    int dilation;
    const struct snake * act;      /* of the input; NULL: none */
    struct ggml_tensor * residual; /* [T, C_out], added to the result; NULL: none */
    bool rounds;                   /* a backend may leave out 2^-17 of a product (GGML_PREC_DEFAULT) */
    const struct conv * behind;    /* of one tap, over the result, which nothing else reads: what is built gives the result of both; NULL: none */
    const struct conv_with * with_behind;
};

/* carry NULL: x is the beginning, zeros come before it. Else at most one tensor of it is used. */
struct ggml_tensor * conv_build(struct ggml_context * ctx, const struct conv * conv, struct ggml_tensor * x, const struct conv_with * with, struct carry * carry); /* [T, C_out] */
struct ggml_tensor * conv_depthwise_build(struct ggml_context * ctx, const struct conv * conv, struct ggml_tensor * x, struct carry * carry);     /* [T, C] */
/* [T*stride, C_out]; no residual. */
struct ggml_tensor * conv_transposed_build(struct ggml_context * ctx, const struct conv * conv, struct ggml_tensor * x, int stride,
                                           const struct conv_with * with, struct carry * carry);

#endif
