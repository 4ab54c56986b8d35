/* soft_max.c - softmax(a * scale + mask) over each row: a [n_kv, T, H] F32, mask F32 or F16 [n_kv, >= T, ...] or none -> [n_kv, T, H] F32.
 * The row's largest value is taken off first; the sum runs over vectors in row order. A row that is masked from end to end gives zeros. */
#include "../row.h"
#include "../vec_math.h"

static inline vf load_part(const void * p, enum ggml_type type, int64_t i, int n) {
    if (type == GGML_TYPE_F32) {
        const float * f = (const float *) p + i;
        return n == VF_N ? vf_load(f) : vf_load_n(f, n);
    }
    const uint16_t * h = (const uint16_t *) p + i;
    return n == VF_N ? vf_load_f16(h) : vf_load_f16_n(h, n);
}

/* y = x * scale + mask; returns the largest. */
static float scaled(const float * x, const void * mask, enum ggml_type mask_type, float scale, float * y, int64_t n) {
    const vf s = vf_set1(scale);
    vf most = vf_set1(-INFINITY);
    float rest_most = -INFINITY;
    for (int64_t i = 0; i < n; i += VF_N) {
        int part = n - i < VF_N ? (int) (n - i) : VF_N;
        vf v = vf_mul(load_part(x, GGML_TYPE_F32, i, part), s);
        if (mask) {
            v = vf_add(v, load_part(mask, mask_type, i, part));
        }
        if (part == VF_N) {
            most = vf_max(most, v);
            vf_store(y + i, v);
        } else {
            vf_store_n(y + i, v, part);
            for (int64_t j = i; j < n; j++) {
                rest_most = y[j] > rest_most ? y[j] : rest_most;
            }
        }
    }
    float all = vf_hmax(most);
    return all > rest_most ? all : rest_most;
}

/* y = e^(y - most); returns the sum. */
static float exponentials(float * y, int64_t n, float most) {
    const vf m = vf_set1(most);
    vf sum = vf_zero();
    float rest_sum = 0.0f;
    int64_t i = 0;
    for (; i + VF_N <= n; i += VF_N) {
        vf e = vf_exp(vf_sub(vf_load(y + i), m));
        vf_store(y + i, e);
        sum = vf_add(sum, e);
    }
    if (i < n) {
        vf_store_n(y + i, vf_exp(vf_sub(vf_load_n(y + i, (int) (n - i)), m)), (int) (n - i));
        for (; i < n; i++) {
            rest_sum += y[i];
        }
    }
    return vf_sum(sum) + rest_sum;
}

static void multiply(float * y, int64_t n, float factor) {
    const vf f = vf_set1(factor);
    int64_t i = 0;
    for (; i + VF_N <= n; i += VF_N) {
        vf_store(y + i, vf_mul(vf_load(y + i), f));
    }
    for (; i < n; i++) {
        y[i] *= factor;
    }
}

void KERNEL(cpu_op_soft_max)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[0];
    const struct ggml_tensor * mask = dst->src[1];
    const float scale = ggml_get_op_params_f32(dst, 0);
    const int64_t n = dst->ne[0];
    int64_t first, last;
    cpu_range(task, ggml_nrows(dst), 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        struct row at = row_of(dst, r);
        float * y = (float *) row_data(dst, at);
        const void * m = mask ? row_data_tiled(mask, at) : NULL;
        float most = scaled((const float *) row_data(a, at), m, mask ? mask->type : GGML_TYPE_F32, scale, y, n);
        if (most == -INFINITY) {
            memset(y, 0, (size_t) n * sizeof(float));
        } else {
            multiply(y, n, 1.0f / exponentials(y, n, most));
        }
    }
}
