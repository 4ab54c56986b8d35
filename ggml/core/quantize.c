/* quantize.c - rows of floats to rows of any type that a file can hold. The searches are in quants_k_affine.c and quants_k_symmetric.c. */
#include "internal.h"
#include "quants.h"

typedef void (*weighted_fn)(const float * x, void * y, int64_t k, const float * weights);

static weighted_fn weighted_of(enum ggml_type type) {
    switch (type) {
        case GGML_TYPE_Q4_K: return quantize_row_q4_K;
        case GGML_TYPE_Q5_K: return quantize_row_q5_K;
        case GGML_TYPE_Q6_K: return quantize_row_q6_K;
        default: return NULL;
    }
}

size_t ggml_quantize_chunk(enum ggml_type type, const float * src, void * dst, int64_t start, int64_t nrows, int64_t n_per_row, const float * imatrix) {
    const struct ggml_type_traits * traits = ggml_get_type_traits(type);
    GGML_ASSERT(traits && traits->from_float_ref && start >= 0 && nrows >= 0 && n_per_row > 0 && start % n_per_row == 0);
    size_t row_bytes = ggml_row_size(type, n_per_row);
    char * out = (char *) dst + (size_t) (start / n_per_row) * row_bytes;
    weighted_fn weighted = imatrix ? weighted_of(type) : NULL;
    for (int64_t row = 0; row < nrows; row++) {
        const float * x = src + start + row * n_per_row;
        if (weighted) {
            weighted(x, out + (size_t) row * row_bytes, n_per_row, imatrix);
        } else {
            traits->from_float_ref(x, out + (size_t) row * row_bytes, n_per_row);
        }
    }
    return (size_t) nrows * row_bytes;
}
