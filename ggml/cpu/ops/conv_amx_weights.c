/* conv_amx_weights.c - see conv_amx_weights.h. F16 and BF16 go from the file's order to tiles in registers: the taps of a channel lie together there, the
 * channels of a tap here. Other types go through F32. */
#include "conv_amx_weights.h"

#if defined(QT_TIER_AMX)

#include "conv.h"

#define GATHER_TAPS 16 /* a kernel with more takes the way through F32 */
#define FEW_TAPS 2     /* transposed ones among them */
#define GROUPS_LEAST 3 /* for each thread */
#define STEPS_AHEAD_BYTES 4096
#define ROWS_AHEAD 6   /* prefetched of a transposed kernel: its rows lie pages apart, often in the same cache sets */

struct conv_weights KERNEL(conv_weights_of)(const struct ggml_tensor * dst, int order, int nth) {
    const struct ggml_tensor * a = dst->src[CONV_SRC_KERNEL];
    const bool transposed = dst->op == GGML_OP_CONV_TRANSPOSE_1D;
    const struct kernel_shape s = kernel_shape_of(a, transposed ? ggml_get_op_params_i32(dst, 0) : 0);
    struct conv_weights w = { .kernel = a, .packed = cpu_is_packed_kernel(a), .phases = s.phases, .taps = s.taps, .IC = s.IC, .OC = s.OC, .panel = s.panel,
                              .n_panels = s.n_panels, .parts = amx_parts(a->type, order) };
    w.group = w.taps <= FEW_TAPS ? 4 : 2;
    w.group = w.n_panels >= w.group * GROUPS_LEAST * nth ? w.group : w.n_panels >= 2 * GROUPS_LEAST * nth ? 2 : 1;
    w.step_bytes = AMX_STEP(w.parts);
    w.values_bytes = (size_t) (AMX_K * (AMX_BLOCK + 2) * w.taps) * sizeof(float);
    return w;
}

/* Two halves a word, F16 or BF16, of 16 columns: their row in the tile of each part. */
AMX_INLINE void store_words(const bool bf16, __m512i words, char * out) {
    if (bf16) {
        _mm512_store_si512(out, words);
    } else {
        amx_pack_row(_mm512_cvtph_ps(_mm512_castsi512_si256(words)), _mm512_cvtph_ps(_mm512_extracti64x4_epi64(words, 1)), 2, out);
    }
}

/* 32 halves at row, of which n are there. */
static inline __m512i load_halves(const uint16_t * row, int64_t n) {
    return n >= AMX_K ? _mm512_loadu_si512(row) : n > 0 ? _mm512_maskz_loadu_epi16((__mmask32) ((1u << n) - 1), row) : _mm512_setzero_si512();
}

/* 32 channels of 16 columns, row_bytes apart in the file, n halves of each: turned[j] has halves 2 j and 2 j + 1 of all columns. */
static void turn_block(const struct conv_weights * w, const char * row, int64_t n_rows, int64_t n, int64_t next, char * turned) {
    for (int64_t j = 0; j < w->taps; j++, row += 64, turned += AMX_TILE, n -= AMX_K) {
        __m512i v[AMX_ROWS];
#pragma GCC unroll 16
        for (int64_t m = 0; m < AMX_ROWS; m++) {
            const char * at = row + (size_t) m * w->kernel->nb[2];
            _mm_prefetch((const char *) ((uintptr_t) at + (uintptr_t) next), _MM_HINT_T1);
            v[m] = load_halves((const uint16_t *) at, m < n_rows ? n : 0);
        }
        amx_turn_rows(v);
#pragma GCC unroll 16
        for (int64_t m = 0; m < AMX_ROWS; m++) {
            _mm512_store_si512(turned + 64 * m, v[m]);
        }
    }
}

/* Channels 2 pair and 2 pair + 1 of a tap side by side. They are halves 2 pair taps + tap and taps more: in two words where taps is odd, one in an upper and
 * one in a lower half, and in two upper or two lower halves where it is even. */
AMX_INLINE __m512i tap_words(const int64_t taps, const char * turned, int64_t pair, int64_t tap) {
    const int64_t even = 2 * pair * taps + tap, odd = even + taps;
    const __m512i a = _mm512_load_si512(turned + even / 2 * 64), b = _mm512_load_si512(turned + odd / 2 * 64);
    const __m512i low = tap % 2 ? _mm512_srli_epi32(a, 16) : a, high = odd % 2 ? b : _mm512_slli_epi32(b, 16);
    return _mm512_mask_blend_epi16(0xaaaaaaaau, low, high);
}

AMX_INLINE void store_taps(const bool bf16, const int64_t taps, const struct conv_weights * w, const char * turned, char * out) {
    for (int64_t tap = 0; tap < taps; tap++, out += w->step_bytes) {
        for (int64_t pair = 0; pair < AMX_K / 2; pair++) {
            store_words(bf16, tap_words(taps, turned, pair, tap), out + 64 * pair);
        }
    }
}

static void pack_halves(const struct conv_weights * w, int64_t panel, int64_t b0, int64_t n, char * out) {
    char turned[GATHER_TAPS * AMX_TILE] __attribute__((aligned(64)));
    const int64_t cols = conv_weights_columns(w, panel), row_bytes = (int64_t) w->kernel->nb[2], block_bytes = AMX_K * (int64_t) w->kernel->nb[1];
    const bool bf16 = w->kernel->type == GGML_TYPE_BF16, is_last = (b0 + n) * AMX_K >= w->IC;
    /* what is read next is the same rows' next n blocks, or the first of the rows of the next panel */
    const int64_t next = is_last ? w->panel * row_bytes - b0 * block_bytes : n * block_bytes;
    for (int64_t b = b0; b < b0 + n; b++, out += w->step_bytes * (size_t) w->taps) {
        const int64_t ic = b * AMX_K, halves = (w->IC - ic < AMX_K ? w->IC - ic : AMX_K) * w->taps;
        for (int64_t c = 0; c < cols; c += AMX_ROWS) {
            const char * row = (const char *) w->kernel->data + (size_t) (panel * w->panel + c) * w->kernel->nb[2] + (size_t) (b * block_bytes);
            turn_block(w, row, cols - c < AMX_ROWS ? cols - c : AMX_ROWS, halves, next, turned);
            char * to = out + (size_t) (c / AMX_ROWS) * AMX_TILE;
            if (bf16) {
                store_taps(true, w->taps, w, turned, to);
            } else if (w->taps == 7) {
                store_taps(false, 7, w, turned, to);
            } else {
                store_taps(false, w->taps, w, turned, to);
            }
        }
    }
}

/* Transposed: a panel's halves of one input channel are at most two vectors; from those of two channels come the words of two rows of 16 columns a tap. */
struct phases {
    __m512i column[GATHER_TAPS]; /* where in a channel's two vectors the columns of a tap are */
};

static void phases_init(struct phases * p, const struct conv_weights * w) {
    for (int64_t k = 0; k < w->taps; k++) {
        uint16_t index[AMX_BLOCK] = { 0 };
        for (int64_t c = 0; c < w->panel; c++) {
            index[c] = (uint16_t) (c / w->phases * w->taps * w->phases + (w->taps - 1 - k) * w->phases + c % w->phases);
        }
        p->column[k] = _mm512_loadu_si512(index);
    }
}

/* n halves of two channels of a panel, to a pair's row in both tiles of each tap. */
AMX_INLINE void pack_pair(const bool bf16, const struct conv_weights * w, const struct phases * p, const uint16_t * even_row, const uint16_t * odd_row,
                          int64_t n, int64_t n_odd, char * out) {
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    const __m512i even0 = load_halves(even_row, n), even1 = load_halves(even_row + AMX_K, n - AMX_K);
    const __m512i odd0 = load_halves(odd_row, n_odd), odd1 = load_halves(odd_row + AMX_K, n_odd - AMX_K);
    for (int64_t k = 0; k < w->taps; k++, out += w->step_bytes) {
        const __m512i even = _mm512_permutex2var_epi16(even0, p->column[k], even1), odd = _mm512_permutex2var_epi16(odd0, p->column[k], odd1);
        const __m512i words[2] = { _mm512_permutex2var_epi16(even, low, odd), _mm512_permutex2var_epi16(even, high, odd) };
#pragma GCC unroll 2
        for (int64_t tile = 0; tile < 2; tile++) {
            store_words(bf16, words[tile], out + tile * AMX_TILE);
        }
    }
}

static void pack_phases(const struct conv_weights * w, int64_t panel, int64_t b0, int64_t n, char * out, size_t panel_bytes) {
    const int64_t group = w->n_panels - panel < w->group ? w->n_panels - panel : w->group, halves = w->panel * w->taps; /* of a panel */
    const int64_t row_halves = (w->OC * w->phases - panel * w->panel) * w->taps, group_halves = row_halves < group * halves ? row_halves : group * halves;
    const bool bf16 = w->kernel->type == GGML_TYPE_BF16;
    struct phases p;
    phases_init(&p, w);
    for (int64_t pair = b0 * AMX_K / 2; pair < (b0 + n) * AMX_K / 2; pair++) {
        const int64_t ic = 2 * pair, left = w->IC - ic;
        const char * row = (const char *) w->kernel->data + (size_t) ic * w->kernel->nb[2] + (size_t) (panel * w->panel / w->phases) * w->kernel->nb[1];
        for (int64_t i = 0; i < 2 && ic + ROWS_AHEAD + i < w->IC; i++) {
            for (int64_t at = 0; at < 2 * group_halves; at += 64) {
                _mm_prefetch(row + (ROWS_AHEAD + i) * (int64_t) w->kernel->nb[2] + at, _MM_HINT_T0);
            }
        }
        for (int64_t g = 0; g < group; g++) {
            const int64_t len = group_halves - g * halves < halves ? group_halves - g * halves : halves;
            const uint16_t * even = (const uint16_t *) row + g * halves, * odd = (const uint16_t *) (row + w->kernel->nb[2]) + g * halves;
            const int64_t steps = (pair / (AMX_K / 2) - b0) * w->taps;
            char * to = out + (size_t) g * panel_bytes + (size_t) steps * w->step_bytes + 64 * (size_t) (pair % (AMX_K / 2));
            if (bf16) {
                pack_pair(true, w, &p, even, odd, left > 0 ? len : 0, left > 1 ? len : 0, to);
            } else {
                pack_pair(false, w, &p, even, odd, left > 0 ? len : 0, left > 1 ? len : 0, to);
            }
        }
    }
}

/* Any type and number of taps, by way of F32: parts of what is exact in fewer are zero and left out. values: tiles of rows [tap][part], then a row. */
static void pack_any(const struct conv_weights * w, int64_t panel, int64_t b0, int64_t n, float * values, char * out) {
    const int64_t cols = conv_weights_columns(w, panel), taps = w->taps;
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i channels = _mm512_mullo_epi32(lanes, _mm512_set1_epi32((int) taps));
    char * tiles = (char *) values;
    float * row = values + taps * AMX_K * AMX_BLOCK;
    for (int64_t b = b0; b < b0 + n; b++, out += w->step_bytes * (size_t) taps) {
        const int64_t ic = b * AMX_K, n_ic = w->IC - ic < AMX_K ? w->IC - ic : AMX_K;
        memset(row, 0, (size_t) (AMX_K * taps) * sizeof(float)); /* channels past the last */
        for (int64_t c = 0; c < cols; c += AMX_ROWS) {
            for (int64_t m = 0; m < AMX_ROWS; m++) {
                if (c + m < cols) {
                    conv_row_f32(w->kernel, panel * w->panel + c + m, ic, n_ic, row);
                } else {
                    memset(row, 0, (size_t) (AMX_K * taps) * sizeof(float));
                }
                for (int64_t k = 0; k < taps; k++) {
                    const float * upper = row + AMX_K / 2 * taps + k;
                    __m512 lo = taps == 1 ? vf_load(row) : _mm512_i32gather_ps(channels, row + k, 4);
                    __m512 hi = taps == 1 ? vf_load(upper) : _mm512_i32gather_ps(channels, upper, 4);
                    for (int part = 0; part < w->parts; part++) {
                        const __m512i next = w->parts < 3 ? amx_next_row(false, 2, &lo, &hi) : amx_next_row(false, 3, &lo, &hi);
                        _mm512_store_si512(tiles + (k * w->parts + part) * AMX_TILE + 64 * m, next);
                    }
                }
            }
            for (int64_t k = 0; k < taps; k++) {
                for (int part = 0; part < w->parts; part++) {
                    char * to = out + (size_t) k * w->step_bytes + (size_t) ((2 * part + c / AMX_ROWS) * AMX_TILE);
                    amx_turn(tiles + (k * w->parts + part) * AMX_TILE, 64, to, 64);
                }
            }
        }
    }
}

/* The same for phases. values: [tap][channel of 32][column of 32]. */
static void pack_any_phases(const struct conv_weights * w, int64_t panel, int64_t b0, int64_t n, float * values, char * out) {
    const int64_t cols = conv_weights_columns(w, panel), c0 = panel * w->panel, K = w->kernel->ne[0];
    for (int64_t b = b0; b < b0 + n; b++) {
        const int64_t ic = b * AMX_K, n_ic = w->IC - ic < AMX_K ? w->IC - ic : AMX_K;
        memset(values, 0, (size_t) (w->taps * AMX_K * AMX_BLOCK) * sizeof(float));
        for (int64_t c = 0; c < cols; c++) {
            const int64_t oc = (c0 + c) / w->phases, phase = (c0 + c) % w->phases;
            for (int64_t i = 0; i < n_ic; i++) {
                const char * from = (const char *) w->kernel->data + (size_t) (ic + i) * w->kernel->nb[2] + (size_t) oc * w->kernel->nb[1];
                for (int64_t j = 0; j * w->phases + phase < K; j++) {
                    float * to = &values[((w->taps - 1 - j) * AMX_K + i) * AMX_BLOCK + c];
                    rows_f32(w->kernel->type, from + (size_t) (j * w->phases + phase) * w->kernel->nb[0], to, 1);
                }
            }
        }
        for (int64_t k = 0; k < w->taps; k++, out += w->step_bytes) {
            for (int64_t i = 0; i < AMX_K; i += 2) {
                const float * even = values + (k * AMX_K + i) * AMX_BLOCK;
                for (int64_t tile = 0; tile < 2; tile++) {
                    amx_pack_pair(even + tile * AMX_ROWS, even + AMX_BLOCK + tile * AMX_ROWS, AMX_ROWS, w->parts, out + tile * AMX_TILE + 32 * i, 2 * AMX_TILE);
                }
            }
        }
    }
}

/* What pack_halves takes, and pack_phases where is_short is true too. */
static bool is_halves(const struct conv_weights * w) {
    const struct ggml_tensor * a = w->kernel;
    return (a->type == GGML_TYPE_F16 || a->type == GGML_TYPE_BF16) && a->nb[1] == (size_t) a->ne[0] * a->nb[0] && w->taps <= GATHER_TAPS;
}

static bool is_short(const struct conv_weights * w) {
    return w->panel % w->phases == 0 && w->kernel->ne[0] == w->taps * w->phases && w->panel * w->taps <= 2 * AMX_K;
}

/* As BF16, of which one part is all: its steps hold the halves as they are. */
bool KERNEL(conv_weights_order)(const struct ggml_tensor * kernel, int64_t stride, char * out) {
    const struct kernel_shape s = kernel_shape_of(kernel, stride);
    struct ggml_tensor halves = *kernel;
    halves.type = GGML_TYPE_BF16;
    const struct conv_weights w = { .kernel = &halves, .phases = s.phases, .taps = s.taps, .IC = s.IC, .OC = s.OC, .panel = s.panel, .n_panels = s.n_panels,
                                    .group = s.phases > 1 ? 4 : 1, .parts = 1, .step_bytes = AMX_STEP(1) };
    if (!is_halves(&w) || (s.phases > 1 && !is_short(&w))) {
        return false;
    }
    const size_t panel_bytes = w.step_bytes * (size_t) (s.taps * s.n_ic);
    for (int64_t panel = 0; panel < s.n_panels; panel += w.group, out += (size_t) w.group * panel_bytes) {
        if (s.phases > 1) {
            pack_phases(&w, panel, 0, s.n_ic, out, panel_bytes);
            continue;
        }
        if (conv_weights_columns(&w, panel) <= AMX_ROWS) {
            memset(out, 0, panel_bytes); /* the second tile is not written */
        }
        pack_halves(&w, panel, 0, s.n_ic, out);
    }
    return true;
}

/* Steps of a kernel that is in their order: only parts are left to make. */
static void pack_steps(const struct conv_weights * w, int64_t panel, int64_t b0, int64_t n, char * out) {
    const char * in = (const char *) w->kernel->data + (size_t) ((panel * conv_ceil_div(w->IC, AMX_K) + b0) * w->taps) * KERNEL_STEP_BYTES;
    for (int64_t step = 0; step < n * w->taps; step++, in += KERNEL_STEP_BYTES, out += w->step_bytes) {
        for (int64_t row = 0; row < KERNEL_STEP_BYTES; row += 64) {
            _mm_prefetch((const char *) ((uintptr_t) in + (uintptr_t) row + STEPS_AHEAD_BYTES), _MM_HINT_T0);
            store_words(false, _mm512_load_si512(in + row), out + row);
        }
    }
}

void KERNEL(conv_weights_pack)(const struct conv_weights * w, int64_t panel, int64_t b0, int64_t n, float * values, char * out, size_t panel_bytes) {
    const struct ggml_tensor * a = w->kernel;
    if (w->packed) {
        for (int64_t last = panel + w->group < w->n_panels ? panel + w->group : w->n_panels; panel < last; panel++, out += panel_bytes) {
            pack_steps(w, panel, b0, n, out);
        }
        return;
    }
    const bool halves = is_halves(w) && (a->type == GGML_TYPE_F16 ? w->parts == 2 : w->parts == 1);
    if (halves && w->phases > 1 && is_short(w)) {
        pack_phases(w, panel, b0, n, out, panel_bytes);
        return;
    }
    for (int64_t last = panel + w->group < w->n_panels ? panel + w->group : w->n_panels; panel < last; panel++, out += panel_bytes) {
        if (w->phases > 1) {
            pack_any_phases(w, panel, b0, n, values, out);
        } else if (halves) {
            pack_halves(w, panel, b0, n, out);
        } else {
            pack_any(w, panel, b0, n, values, out);
        }
    }
}

#endif
