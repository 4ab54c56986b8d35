/* rope.c - rotary position: a [hd, H, T], positions I32 [T] -> F32 [hd, H, T]; the first n_dims of each head turn in pairs, the rest is copied.
 * NEOX pairs i with i + n_dims/2, NORMAL 2i with 2i + 1. Angles are computed as PyTorch's models do: inv_freq = 1 / base^(2i/n_dims) rounded to
 * F32, times the position in F32, then sine and cosine of that. Carrying the angle in double instead moves it by 1e-4 at position 3000. */
#include "../row.h"
#include "../vec.h"

#define MAX_PAIRS 256 /* n_dims <= 512, see supports_op.c */

/* The last table a thread used: all layers of a model ask for the same one, and its powers cost more than a small rotation. */
struct freq_table {
    int n_dims;
    float base;
    float inv[MAX_PAIRS];
};
static _Thread_local struct freq_table last_table;

static const float * inverse_frequencies(int n_dims, float base) {
    struct freq_table * table = &last_table;
    if (table->n_dims != n_dims || table->base != base) {
        for (int i = 0; i < n_dims / 2; i++) {
            float power = (float) pow((double) base, (double) ((float) (2 * i) / (float) n_dims));
            table->inv[i] = 1.0f / power;
        }
        table->n_dims = n_dims;
        table->base = base;
    }
    return table->inv;
}

static void rotate_neox(const float * x, float * y, const float * cosines, const float * sines, int half) {
    int i = 0;
    for (; i + VF_N <= half; i += VF_N) {
        vf c = vf_load(cosines + i), s = vf_load(sines + i), x0 = vf_load(x + i), x1 = vf_load(x + half + i);
        vf_store(y + i, vf_sub(vf_mul(x0, c), vf_mul(x1, s)));
        vf_store(y + half + i, vf_add(vf_mul(x1, c), vf_mul(x0, s)));
    }
    for (; i < half; i++) {
        float c = cosines[i], s = sines[i], x0 = x[i], x1 = x[half + i];
        y[i] = x0 * c - x1 * s;
        y[half + i] = x1 * c + x0 * s;
    }
}

static void rotate_normal(const float * x, float * y, const float * cosines, const float * sines, int half) {
    for (int i = 0; i < half; i++) {
        float c = cosines[i], s = sines[i], x0 = x[2 * i], x1 = x[2 * i + 1];
        y[2 * i] = x0 * c - x1 * s;
        y[2 * i + 1] = x1 * c + x0 * s;
    }
}

void KERNEL(cpu_op_rope)(const struct cpu_task * task, struct ggml_tensor * dst) {
    const struct ggml_tensor * a = dst->src[0];
    const struct ggml_tensor * positions = dst->src[1];
    const int n_dims = ggml_get_op_params_i32(dst, 0), mode = ggml_get_op_params_i32(dst, 1), half = n_dims / 2;
    const float freq_scale = ggml_get_op_params_f32(dst, 3), factor = ggml_get_op_params_f32(dst, 4);
    const float * inv = inverse_frequencies(n_dims, ggml_get_op_params_f32(dst, 2));
    float cosines[MAX_PAIRS], sines[MAX_PAIRS];
    int64_t angles_of = -1; /* the i2 that cosines and sines hold */
    int64_t first, last;
    cpu_range(task, ggml_nrows(dst), 1, &first, &last);
    for (int64_t r = first; r < last; r++) {
        struct row at = row_of(dst, r);
        if (at.i2 != angles_of) {
            angles_of = at.i2;
            float position = (float) *(const int32_t *) ((const char *) positions->data + (size_t) at.i2 * positions->nb[0]);
            for (int i = 0; i < half; i++) {
                float angle = position * inv[i] * freq_scale;
                cosines[i] = cosf(angle) * factor;
                sines[i] = sinf(angle) * factor;
            }
        }
        const float * x = (const float *) row_data(a, at);
        float * y = (float *) row_data(dst, at);
        if (mode == GGML_ROPE_TYPE_NEOX) {
            rotate_neox(x, y, cosines, sines, half);
        } else {
            rotate_normal(x, y, cosines, sines, half);
        }
        if (x != y && dst->ne[0] > n_dims) {
            memcpy(y + n_dims, x + n_dims, (size_t) (dst->ne[0] - n_dims) * sizeof(float));
        }
    }
}
