/* conv_amx_rows.c - see conv_amx_rows.h. Samples lie time first and are turned 16 x 16 on their way; sums of the convolution before have the order of rows
 * already, which saves both turns, a pass over memory and a barrier. */
#include "conv_amx_rows.h"

#if defined(QT_TIER_AMX)

#include "conv.h"

#define READ_ROWS 64 /* read at a time: pairs of them stay in the L1 cache */

/* n columns of two neighbouring channels, after the activation, as a row of pairs in each part. */
AMX_INLINE void pack_pair(const int act, const struct ggml_tensor * dst, int64_t ic, const float * even, const float * odd, int64_t n, char * out) {
    vf a[2] = { vf_zero(), vf_zero() }, inv_b[2] = { vf_zero(), vf_zero() };
    for (int i = 0; i < (act == GGML_CONV_ACT_SNAKE ? odd ? 2 : 1 : 0); i++) {
        a[i] = vf_set1(((const float *) dst->src[CONV_SRC_SNAKE_A]->data)[ic + i]);
        inv_b[i] = vf_set1(((const float *) dst->src[CONV_SRC_SNAKE_INV_B]->data)[ic + i]);
    }
    for (int64_t t = 0; t < n; t += VF_N, out += 64) {
        const int width = n - t < VF_N ? (int) (n - t) : VF_N;
        vf e = vf_load_n(even + t, width), o = odd ? vf_load_n(odd + t, width) : vf_zero();
        if (act == GGML_CONV_ACT_SNAKE) {
            e = vf_snake(e, a[0], inv_b[0]);
            o = vf_snake(o, a[1], inv_b[1]);
        } else if (act == GGML_CONV_ACT_ELU) {
            e = vf_elu(e);
            o = vf_elu(o);
        }
#pragma GCC unroll 3
        for (int part = 0; part < AMX_PARTS; part++) {
            _mm512_store_si512(out + part * AMX_K / 2 * 4 * READ_ROWS, amx_next_pair(false, AMX_PARTS, &e, &o));
        }
    }
}

static void pack_pair_any(int act, const struct ggml_tensor * dst, int64_t ic, const float * even, const float * odd, int64_t n, char * out) {
    switch (act) {
        case GGML_CONV_ACT_NONE: pack_pair(GGML_CONV_ACT_NONE, dst, ic, even, odd, n, out); break;
        case GGML_CONV_ACT_SNAKE: pack_pair(GGML_CONV_ACT_SNAKE, dst, ic, even, odd, n, out); break;
        default: pack_pair(GGML_CONV_ACT_ELU, dst, ic, even, odd, n, out); break;
    }
}

/* What lies inside the input is read where it is, what does not by way of conv_read. */
void KERNEL(conv_rows_pack)(const struct ggml_tensor * dst, int64_t b, int64_t first, int64_t n, int64_t part, char * out) {
    const struct ggml_tensor * x = dst->src[CONV_SRC_DATA];
    const int64_t IC = x->ne[1];
    const int act = ggml_get_op_params_i32(dst, 3);
    float rows[2][READ_ROWS];
    char pairs[AMX_PARTS][AMX_K / 2][4 * READ_ROWS] __attribute__((aligned(64)));
    for (int64_t t = 0; t < n; t += READ_ROWS, out += READ_ROWS * 64) {
        const int64_t len = n - t < READ_ROWS ? n - t : READ_ROWS;
        const bool inside = first + t >= 0 && first + t + len <= x->ne[0];
        for (int64_t i = 0; i < AMX_K; i += 2) {
            const int64_t ic = b * AMX_K + i;
            const float * from[2] = { rows[0], ic + 1 < IC ? rows[1] : NULL };
            if (ic >= IC) {
                for (int p = 0; p < AMX_PARTS; p++) {
                    memset(pairs[p][i / 2], 0, sizeof pairs[0][0]);
                }
                continue;
            }
            for (int64_t j = 0; j < 2 && ic + j < IC; j++) {
                if (inside) {
                    from[j] = (const float *) ((const char *) x->data + (size_t) (ic + j) * x->nb[1]) + first + t;
                    for (int64_t line = 0; line < READ_ROWS && t + READ_ROWS < n; line += VF_N) {
                        _mm_prefetch((const char *) (from[j] + READ_ROWS + line), _MM_HINT_T0);
                    }
                } else {
                    conv_read(dst, ic + j, first + t, 1, len, rows[j]);
                }
            }
            pack_pair_any(inside ? act : GGML_CONV_ACT_NONE, dst, ic, from[0], from[1], len, pairs[0][i / 2]);
        }
        for (int p = 0; p < AMX_PARTS; p++) {
            for (int64_t r = 0; r < len; r += AMX_ROWS) {
                amx_turn(pairs[p][0] + 4 * r, sizeof pairs[0][0], out + p * part + 64 * r, 64);
            }
        }
    }
}

AMX_INLINE void pass_rows(const int act, const vf bias[2], const vf a[2], const vf inv_b[2], const __mmask16 mask[2], int64_t n, float (*sums)[AMX_BLOCK],
                          int64_t part, char * out) {
    for (int64_t t = 0; t < n; t++, out += 64) {
        vf v[2];
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            v[i] = vf_add(_mm512_maskz_loadu_ps(mask[i], &sums[t][i * VF_N]), bias[i]);
            v[i] = act == GGML_CONV_ACT_SNAKE ? vf_snake(v[i], a[i], inv_b[i]) : act == GGML_CONV_ACT_ELU ? vf_elu(v[i]) : v[i];
        }
#pragma GCC unroll 3
        for (int p = 0; p < AMX_PARTS; p++) {
            _mm512_store_si512(out + p * part, amx_next_row(false, AMX_PARTS, &v[0], &v[1]));
        }
    }
}

void KERNEL(conv_rows_pass)(const struct ggml_tensor * before, const struct ggml_tensor * dst, int64_t oc, int cols, int64_t n, float (*sums)[AMX_BLOCK],
                            int64_t part, char * out) {
    const int act = ggml_get_op_params_i32(dst, 3);
    const struct ggml_tensor * const vectors[3] = { before->src[CONV_SRC_BIAS], dst->src[CONV_SRC_SNAKE_A], dst->src[CONV_SRC_SNAKE_INV_B] };
    __mmask16 mask[2];
    vf values[3][2];
    for (int i = 0; i < 2; i++) {
        mask[i] = vf_mask_n(cols < i * VF_N ? 0 : cols < (i + 1) * VF_N ? cols - i * VF_N : VF_N);
        for (int v = 0; v < 3; v++) {
            values[v][i] = vectors[v] ? _mm512_maskz_loadu_ps(mask[i], (const float *) vectors[v]->data + oc + i * VF_N) : vf_zero();
        }
    }
    switch (act) {
        case GGML_CONV_ACT_NONE: pass_rows(GGML_CONV_ACT_NONE, values[0], values[1], values[2], mask, n, sums, part, out); break;
        case GGML_CONV_ACT_SNAKE: pass_rows(GGML_CONV_ACT_SNAKE, values[0], values[1], values[2], mask, n, sums, part, out); break;
        default: pass_rows(GGML_CONV_ACT_ELU, values[0], values[1], values[2], mask, n, sums, part, out); break;
    }
}

#endif
