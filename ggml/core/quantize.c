/* quantize.c - rows of floats to rows of any type that a file can hold. The search that some types have is in quants_k_pack.c. */
#include "internal.h"

size_t ggml_quantize_chunk(enum ggml_type type, const float * src, void * dst, int64_t start, int64_t nrows, int64_t n_per_row, const float * imatrix) {
    const struct ggml_type_traits * traits = ggml_get_type_traits(type);
    GGML_ASSERT(traits && traits->from_float_ref && start >= 0 && nrows >= 0 && n_per_row > 0 && start % n_per_row == 0);
    (void) imatrix;
    size_t row_bytes = ggml_row_size(type, n_per_row);
    traits->from_float_ref(src + start, (char *) dst + (size_t) (start / n_per_row) * row_bytes, nrows * n_per_row);
    return (size_t) nrows * row_bytes;
}
