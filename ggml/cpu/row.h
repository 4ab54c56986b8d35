/* row.h - walking a tensor by rows: where row r of an op's result lies, and the same row of a source. */
#pragma once

#include "kernels.h"

struct row {
    int64_t i1, i2, i3;
};

/* Row r of t, counted in memory order of a packed tensor. */
static inline struct row row_of(const struct ggml_tensor * t, int64_t r) {
    int64_t q = r / t->ne[1];
    return (struct row) { .i1 = r - q * t->ne[1], .i2 = q % t->ne[2], .i3 = q / t->ne[2] };
}

static inline char * row_data(const struct ggml_tensor * t, struct row at) {
    return (char *) t->data + (size_t) at.i1 * t->nb[1] + (size_t) at.i2 * t->nb[2] + (size_t) at.i3 * t->nb[3];
}

/* The row of a smaller t that tiles to at. */
static inline char * row_data_tiled(const struct ggml_tensor * t, struct row at) {
    return row_data(t, (struct row) { .i1 = at.i1 % t->ne[1], .i2 = at.i2 % t->ne[2], .i3 = at.i3 % t->ne[3] });
}
