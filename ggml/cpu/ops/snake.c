/* snake.c - the codec decoder's activation: y = x + sin^2(a * x) * inv_b, a and inv_b one value a channel.
 * x [T, C, ...] -> [T, C, ...]. Threads share out pieces of rows. */
#include "../vec.h"
#include "../vec_math.h"

#define PIECE 4096 /* samples of a row that a thread takes at a time */

void KERNEL(cpu_op_snake)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * src = dst->src[0];
    const float * a = dst->src[1]->data;
    const float * inv_b = dst->src[2]->data;
    const int64_t T = dst->ne[0], pieces = (T + PIECE - 1) / PIECE;
    int64_t first, last;
    cpu_range(task, ggml_nrows(dst) * pieces, 1, &first, &last);
    for (int64_t unit = first; unit < last; unit++) {
        int64_t row = unit / pieces, t = unit % pieces * PIECE;
        int64_t end = t + PIECE < T ? t + PIECE : T;
        int64_t i1 = row % dst->ne[1], i2 = row / dst->ne[1] % dst->ne[2], i3 = row / (dst->ne[1] * dst->ne[2]);
        const float * x = (const float *) ((const char *) src->data + (size_t) i1 * src->nb[1] + (size_t) i2 * src->nb[2] + (size_t) i3 * src->nb[3]);
        float * y = (float *) ((char *) dst->data + (size_t) i1 * dst->nb[1] + (size_t) i2 * dst->nb[2] + (size_t) i3 * dst->nb[3]);
        vf av = vf_set1(a[i1]), bv = vf_set1(inv_b[i1]);
        for (; t + VF_N <= end; t += VF_N) {
            vf_store(y + t, vf_snake(vf_load(x + t), av, bv));
        }
        if (t < end) {
            int n = (int) (end - t);
            vf_store_n(y + t, vf_snake(vf_load_n(x + t, n), av, bv), n);
        }
    }
}
