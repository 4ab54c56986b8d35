/* reduce.c - one value of each row x [n]: sum_rows, mean -> [1], F32; argmax -> the index of the largest value, I32, the first of equal ones.
 * Sums are taken in double over LANES interleaved partial sums, added up in a fixed order and rounded once: the same on every tier. */
#include "../row.h"

#include <math.h>

#define LANES 16

static double sum_of(const float * x, int64_t n) {
    double lanes[LANES] = { 0.0 }, sum = 0.0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            lanes[j] += (double) x[i + j];
        }
    }
    for (int j = 0; i < n; i++, j++) {
        lanes[j] += (double) x[i];
    }
    for (int j = 0; j < LANES; j++) {
        sum += lanes[j];
    }
    return sum;
}

static void sums(const struct cpu_task * task, struct ggml_tensor * dst, double divisor) {
    const struct ggml_tensor * a = dst->src[0];
    int64_t first, last;
    cpu_range(task, ggml_nrows(dst), 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        struct row at = row_of(dst, r);
        *(float *) row_data(dst, at) = (float) (sum_of((const float *) row_data(a, at), a->ne[0]) / divisor);
    }
}

void KERNEL(cpu_op_sum_rows)(const struct cpu_task * task, struct ggml_tensor * dst) { sums(task, dst, 1.0); }
void KERNEL(cpu_op_mean)(const struct cpu_task * task, struct ggml_tensor * dst) { sums(task, dst, (double) dst->src[0]->ne[0]); }

/* Blocks whose largest value is no improvement are passed over with comparisons alone. NaN is never the largest; a row of NaN gives 0. */
static int32_t argmax_of(const float * x, int64_t n) {
    int64_t best = 0;
    float most = x[0] == x[0] ? x[0] : -INFINITY;
    for (int64_t i = 0; i < n; i += LANES) {
        int64_t end = i + LANES < n ? i + LANES : n;
        int better = 0;
        for (int64_t j = i; j < end; j++) {
            better |= x[j] > most;
        }
        for (int64_t j = i; better && j < end; j++) {
            if (x[j] > most) {
                most = x[j];
                best = j;
            }
        }
    }
    return (int32_t) best;
}

void KERNEL(cpu_op_argmax)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[0];
    int64_t first, last;
    cpu_range(task, a->ne[1], 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        ((int32_t *) dst->data)[r] = argmax_of((const float *) ((const char *) a->data + (size_t) r * a->nb[1]), a->ne[0]);
    }
}
