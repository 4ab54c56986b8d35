/* norm.c - over each row x [n]: norm (x - mean) / sqrt(var + eps) and rms_norm x / sqrt(mean(x^2) + eps), F32 -> F32.
 * Sums are taken in double over LANES interleaved partial sums, added up in a fixed order: the same on every tier and for any number of threads. */
#include "../row.h"
#include "../vec.h"

#define LANES 16

static double sum_lanes(const double * lanes) {
    double sum = 0.0;
    for (int j = 0; j < LANES; j++) {
        sum += lanes[j];
    }
    return sum;
}

/* Sum of x - mean over n (power 1), or of its square (power 2). */
static inline double sum_of(const float * x, int64_t n, double mean, const int power) {
    double lanes[LANES] = { 0.0 };
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            double v = (double) x[i + j] - mean;
            lanes[j] += power == 2 ? v * v : v;
        }
    }
    for (int j = 0; i < n; i++, j++) {
        double v = (double) x[i] - mean;
        lanes[j] += power == 2 ? v * v : v;
    }
    return sum_lanes(lanes);
}

static void normalize(const float * x, float * y, int64_t n, float mean, float scale) {
    const vf m = vf_set1(mean), s = vf_set1(scale);
    int64_t i = 0;
    for (; i + VF_N <= n; i += VF_N) {
        vf_store(y + i, vf_mul(vf_sub(vf_load(x + i), m), s));
    }
    if (i < n) {
        int rest = (int) (n - i);
        vf_store_n(y + i, vf_mul(vf_sub(vf_load_n(x + i, rest), m), s), rest);
    }
}

static void norm_rows(const struct cpu_task * task, struct ggml_tensor * dst, bool centred) {
    const int64_t n = dst->ne[0];
    const double eps = (double) ggml_get_op_params_f32(dst, 0);
    int64_t first, last;
    cpu_range(task, ggml_nrows(dst), 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        struct row at = row_of(dst, r);
        const float * x = (const float *) row_data(dst->src[0], at);
        double mean = centred ? sum_of(x, n, 0.0, 1) / (double) n : 0.0;
        double var = sum_of(x, n, mean, 2) / (double) n;
        normalize(x, (float *) row_data(dst, at), n, (float) mean, (float) (1.0 / sqrt(var + eps)));
    }
}

void KERNEL(cpu_op_norm)(const struct cpu_task * task, struct ggml_tensor * dst) { norm_rows(task, dst, true); }
void KERNEL(cpu_op_rms_norm)(const struct cpu_task * task, struct ggml_tensor * dst) { norm_rows(task, dst, false); }
