/* conv_amx_result.c - see conv_amx_result.h. */
#include "conv_amx_result.h"

#if defined(QT_TIER_AMX)

#include "conv.h"

/* The sums of a panel, rows t0 .. t0 + n - 1, to the result, 16 by 16. What is added is read before anything is written: rows of residual and result often lie
 * at the same place of their pages, where a load waits for the stores before it. */
static void store_channels(const struct ggml_tensor * dst, int64_t oc, int cols, int64_t t0, int64_t n, float (*sums)[AMX_BLOCK]) {
    const struct ggml_tensor * bias = dst->src[CONV_SRC_BIAS], * residual = dst->src[CONV_SRC_RESIDUAL];
    for (int c = 0; c < cols; c += AMX_ROWS) {
        const int n_oc = cols - c < AMX_ROWS ? cols - c : AMX_ROWS;
        float b[AMX_ROWS] = { 0 };
        if (bias) {
            memcpy(b, (const float *) bias->data + oc + c, (size_t) n_oc * sizeof b[0]);
        }
        for (int64_t t = 0; t < n; t += AMX_ROWS) {
            const int len = (int) (n - t < AMX_ROWS ? n - t : AMX_ROWS);
            char * out = (char *) dst->data + (size_t) (oc + c) * dst->nb[1] + (size_t) (t0 + t) * sizeof(float);
            __m512i v[AMX_ROWS];
#pragma GCC unroll 16
            for (int i = 0; i < AMX_ROWS; i++) {
                v[i] = _mm512_load_si512(&sums[t + i][c]);
            }
            amx_turn_rows(v);
            vf y[AMX_ROWS];
#pragma GCC unroll 16
            for (int i = 0; i < AMX_ROWS; i++) {
                y[i] = vf_add(_mm512_castsi512_ps(v[i]), vf_set1(b[i]));
            }
            if (residual) {
                const char * more = (const char *) residual->data + (size_t) (oc + c) * residual->nb[1] + (size_t) (t0 + t) * sizeof(float);
#pragma GCC unroll 16
                for (int i = 0; i < AMX_ROWS; i++) {
                    y[i] = i < n_oc ? vf_add(y[i], vf_load_n((const float *) (more + (size_t) i * residual->nb[1]), len)) : y[i];
                }
            }
#pragma GCC unroll 16
            for (int i = 0; i < AMX_ROWS; i++) {
                if (i < n_oc) {
                    vf_store_n((float *) (out + (size_t) i * dst->nb[1]), y[i], len);
                }
            }
        }
    }
}

/* Transposed: a row has the phases of a channel side by side, as the result does. */
static void store_phases(const struct conv_weights * w, const struct ggml_tensor * dst, int64_t panel, int cols, int64_t t0, int64_t n,
                         float (*sums)[AMX_BLOCK]) {
    const float * bias = dst->src[CONV_SRC_BIAS] ? dst->src[CONV_SRC_BIAS]->data : NULL;
    const int64_t phases = w->phases;
    for (int64_t c = 0, len; c < cols; c += len) {
        const int64_t column = panel * w->panel + c, oc = column / phases, phase = column % phases;
        len = phases - phase < cols - c ? phases - phase : cols - c;
        len = len < VF_N ? len : VF_N;
        float * out = (float *) ((char *) dst->data + (size_t) oc * dst->nb[1]) + t0 * phases + phase;
        const vf b = vf_set1(bias ? bias[oc] : 0.0f);
        for (int64_t t = 0; t < n; t++, out += phases) {
            vf_store_n(out, vf_add(vf_load_n(&sums[t][c], (int) len), b), (int) len);
        }
    }
}

void KERNEL(conv_result_store)(const struct conv_weights * w, const struct ggml_tensor * dst, int64_t panel, int64_t t0, int64_t n, float (*sums)[AMX_BLOCK]) {
    const int cols = (int) conv_weights_columns(w, panel);
    if (w->phases == 1) {
        store_channels(dst, panel * w->panel, cols, t0, n, sums);
    } else {
        store_phases(w, dst, panel, cols, t0, n, sums);
    }
}

#endif
