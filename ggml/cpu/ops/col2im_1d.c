/* col2im_1d.c - overlap-add of a transposed convolution: cols [K*OC, T] (k fastest) -> [T_out, OC], T_out = (T-1)*s0 + K - 2*p0:
 *   out[oc][i] = sum over t of cols[t][oc][i + p0 - t*s0], for taps inside 0 .. K-1.
 * Written as a gather, so threads never add to the same sample: the s0 samples from u = t*s0 on (u = i + p0) take tap j*s0 + r from column t - j.
 * A unit is a few channels by a run of columns: their part of a column is a few cache lines, read whole while the L1 cache holds the run. */
#include "../vec.h"

#define UNIT_COLS 32
#define UNIT_FLOATS 512 /* of a column that a unit reads: 2 KB, long enough for the hardware to prefetch; 512 bytes took 1.3 to 3 times as long */

/* The n samples out[0 ..] that start at tap offset r of slot t: sum over j of cols[t - j][j*s0 + r ..]. */
static void gather(const float * cols, int64_t stride, int64_t T, int64_t K, int64_t s0, int64_t t, int64_t r, int64_t n, float * out) {
    for (int64_t i = 0; i < n; i += VF_N) {
        int width = (int) (n - i < VF_N ? n - i : VF_N);
        vf acc = vf_zero();
        for (int64_t j = 0; j * s0 + r + i < K; j++) {
            if (t - j < 0 || t - j >= T) {
                continue;
            }
            int64_t tap = j * s0 + r + i;
            int64_t have = K - tap < width ? K - tap : width;
            acc = vf_add(acc, vf_load_n(cols + (t - j) * stride + tap, (int) have));
        }
        vf_store_n(out + i, acc, width);
    }
}

void KERNEL(cpu_op_col2im_1d)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * src = dst->src[0];
    const int64_t s0 = ggml_get_op_params_i32(dst, 0), OC = ggml_get_op_params_i32(dst, 1), p0 = ggml_get_op_params_i32(dst, 2);
    const int64_t K = src->ne[0] / OC, T = src->ne[1], T_out = dst->ne[0];
    const int64_t stride = (int64_t) (src->nb[1] / sizeof(float));
    const int64_t n_slots = (T_out + p0 + s0 - 1) / s0; /* slot t holds samples t*s0 - p0 .. + s0 - 1 */
    const int64_t oc_step = UNIT_FLOATS / K > 1 ? UNIT_FLOATS / K : 1;
    const int64_t n_oc = (OC + oc_step - 1) / oc_step, n_t = (n_slots + UNIT_COLS - 1) / UNIT_COLS;
    const bool two = K > s0 && K <= 2 * s0 && s0 <= VF_N; /* two columns a sample and one vector a slot, as in every vocoder */
    int64_t first, last;
    cpu_range(task, n_oc * n_t, 1, &first, &last);
    for (int64_t unit = first; unit < last; unit++) {
        int64_t oc0 = unit % n_oc * oc_step, oc1 = oc0 + oc_step < OC ? oc0 + oc_step : OC;
        int64_t t0 = unit / n_oc * UNIT_COLS, t1 = t0 + UNIT_COLS < n_slots ? t0 + UNIT_COLS : n_slots;
        for (int64_t oc = oc0; oc < oc1; oc++) {
            const float * cols = (const float *) src->data + oc * K;
            float * out = (float *) ((char *) dst->data + (size_t) oc * dst->nb[1]);
            for (int64_t t = t0; t < t1; t++) {
                int64_t i = t * s0 - p0;
                if (two && t > 0 && t < T && i >= 0 && i + s0 <= T_out) {
                    vf now = vf_load_n(cols + t * stride, (int) s0), before = vf_load_n(cols + (t - 1) * stride + s0, (int) (K - s0));
                    vf_store_n(out + i, vf_add(now, before), (int) s0);
                    continue;
                }
                int64_t lo = i < 0 ? -i : 0;                     /* cut by p0 at the front */
                int64_t hi = T_out - i < s0 ? T_out - i : s0; /* and at the end */
                if (lo < hi) {
                    gather(cols, stride, T, K, s0, t, lo, hi - lo, out + (i + lo));
                }
            }
        }
    }
}
