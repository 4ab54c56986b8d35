/* tensor_policy.c - the rules of tensor_policy.h, first match wins:
 *   vectors, codebooks, vq_* projections, spk_enc.*      F32 in every variant: searched, or read as raw floats
 *   convolution kernels of block variants                F16: their rows are the K taps, no multiple of any block
 *   embeddings, codebook-0 head, deciding layers, rest   the columns of the variant's row below
 *   a row that is no multiple of the type's block        F16
 * The code predictor has a row of its own: it runs fifteen times a frame on its own output, so the 4- and 5-bit variants keep it at Q8_0. */
#include "tensor_policy.h"

#include <ggml.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct variant {
    const char *   name;
    enum ggml_type matrix;    /* what has no column of its own */
    enum ggml_type embedding;
    enum ggml_type head;      /* of logits */
    enum ggml_type deciding;  /* attn_v and ffn_down of the deciding layers */
    const char *   predictor; /* the row for code_pred.*; NULL: this one */
    bool           is_file;   /* a variant of files; else only a predictor type */
};

#define F32 GGML_TYPE_F32
#define F16 GGML_TYPE_F16
#define BF16 GGML_TYPE_BF16
#define Q8_0 GGML_TYPE_Q8_0
#define Q6_K GGML_TYPE_Q6_K
#define Q5_K GGML_TYPE_Q5_K
#define Q4_K GGML_TYPE_Q4_K

static const struct variant variants[] = {
    { "F32",    F32,  F32,  F32,  F32,  NULL,   true },
    { "F16",    F16,  F16,  F16,  F16,  NULL,   true },
    { "BF16",   BF16, BF16, BF16, BF16, NULL,   true },
    { "Q8_0",   Q8_0, Q8_0, Q8_0, Q8_0, NULL,   true },
    { "Q6_K",   Q6_K, Q6_K, Q6_K, Q6_K, NULL,   true },
    { "Q5_K_M", Q5_K, Q6_K, Q6_K, Q6_K, "Q8_0", true },
    { "Q4_K_M", Q4_K, Q6_K, Q6_K, Q6_K, "Q8_0", true },
    { "Q4_K_S", Q4_K, Q4_K, Q6_K, Q4_K, "Q8_0", true },
    { "Q5_K",   Q5_K, Q5_K, Q5_K, Q5_K, NULL,   false },
    { "Q4_K",   Q4_K, Q4_K, Q4_K, Q4_K, NULL,   false },
};

#define N_VARIANTS (sizeof variants / sizeof *variants)

const char * policy_variant_name(int32_t index) {
    for (size_t i = 0; i < N_VARIANTS; i++) {
        if (variants[i].is_file && index-- == 0) {
            return variants[i].name;
        }
    }
    return NULL;
}

static char upper(char c) { return c >= 'a' && c <= 'z' ? (char) (c - 'a' + 'A') : c; }

static bool equal_ignoring_case(const char * a, const char * b) {
    while (*a && upper(*a) == upper(*b)) {
        a++, b++;
    }
    return upper(*a) == upper(*b);
}

static const struct variant * find_variant(const char * name, bool files_only) {
    for (size_t i = 0; i < N_VARIANTS; i++) {
        if ((variants[i].is_file || !files_only) && equal_ignoring_case(name, variants[i].name)) {
            return &variants[i];
        }
    }
    return NULL;
}

/* "F32, F16, ...": the legal names. */
static enum qt_status refuse_name(const char * argument, const char * given, bool files_only) {
    char names[N_VARIANTS * 8];
    size_t n = 0;
    for (size_t i = 0; i < N_VARIANTS; i++) {
        if (variants[i].is_file || !files_only) {
            n += (size_t) snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", variants[i].name);
        }
    }
    return QT_FAIL(QT_STATUS_INVALID_PARAMS, "qt_policy_type: %s is \"%s\", valid: %s", argument, given, names);
}

static bool starts_with(const char * text, const char * start) { return strncmp(text, start, strlen(start)) == 0; }

static bool ends_with(const char * text, const char * end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

const char * policy_f32_reason(const char * name, int32_t n_dims, const int64_t * ne) {
    bool is_vector = true;
    for (int32_t d = 1; d < n_dims; d++) {
        is_vector = is_vector && ne[d] == 1;
    }
    if (starts_with(name, "spk_enc.")) {
        return "speaker encoder";
    }
    if (ends_with(name, ".codebook")) {
        return "codebook";
    }
    if (strstr(name, ".vq_")) {
        return "codebook projection";
    }
    return is_vector ? "vector" : NULL;
}

/* llama.cpp's choice of layers worth more bits: the first eighth, the last eighth, and every third in between. */
static bool is_deciding(int64_t layer, int64_t n_layers) {
    return layer < n_layers / 8 || layer >= 7 * n_layers / 8 || (layer - n_layers / 8) % 3 == 2;
}

/* The layer of "<stack>.blk.<layer>.<rest>", -1 for other names; rest starts after it. */
static int32_t layer_of(const char * name, const char ** rest) {
    const char * at = strstr(name, ".blk.");
    if (!at || at[5] < '0' || at[5] > '9') {
        return -1;
    }
    char * end;
    long layer = strtol(at + 5, &end, 10);
    *rest = end;
    return *end == '.' && layer <= INT32_MAX ? (int32_t) layer : -1;
}

static bool is_embedding(const char * name) {
    return strcmp(name, "talker.text_embd.weight") == 0 || strcmp(name, "talker.codec_embd.weight") == 0 || starts_with(name, "code_pred.codec_embd.");
}

static bool is_head(const char * name) {
    return strcmp(name, "talker.codec_head.weight") == 0 || starts_with(name, "code_pred.lm_head.");
}

static enum qt_status matrix_type(const struct variant * v, const char * name, int32_t n_layers, enum ggml_type * type, const char ** reason) {
    if (is_embedding(name)) {
        *type = v->embedding;
        *reason = "embedding";
        return QT_STATUS_OK;
    }
    if (is_head(name)) {
        *type = v->head;
        *reason = "head";
        return QT_STATUS_OK;
    }
    *type = v->matrix;
    *reason = "matrix";
    const char * rest = "";
    int32_t layer = v->deciding == v->matrix ? -1 : layer_of(name, &rest);
    if (layer >= 0 && (strcmp(rest, ".attn_v.weight") == 0 || strcmp(rest, ".ffn_down.weight") == 0)) {
        if (layer >= n_layers) {
            return QT_FAIL(QT_STATUS_INVALID_PARAMS, "qt_policy_type: tensor %s is of block %d, n_layers is %d", name, (int) layer, (int) n_layers);
        }
        if (is_deciding(layer, n_layers)) {
            *type = v->deciding;
            *reason = "deciding layer";
        }
    }
    return QT_STATUS_OK;
}

enum qt_status policy_type(const char * variant, const char * predictor_type, const char * name, int32_t n_dims, const int64_t * ne, int32_t n_layers,
                           int32_t * type, const char ** reason) {
    const struct variant * v = find_variant(variant, true);
    if (!v) {
        return refuse_name("variant", variant, true);
    }
    const struct variant * asked = predictor_type ? find_variant(predictor_type, false) : NULL;
    if (predictor_type && !asked) {
        return refuse_name("predictor_type", predictor_type, false);
    }
    if (n_dims < 1 || n_dims > GGML_MAX_DIMS) {
        return QT_FAIL(QT_STATUS_INVALID_PARAMS, "qt_policy_type: n_dims of tensor %s is %d, valid: 1 to %d", name, (int) n_dims, GGML_MAX_DIMS);
    }
    for (int32_t d = 0; d < n_dims; d++) {
        if (ne[d] < 1) {
            return QT_FAIL(QT_STATUS_INVALID_PARAMS, "qt_policy_type: ne[%d] of tensor %s is %lld, valid: 1 or more", (int) d, name, (long long) ne[d]);
        }
    }
    enum ggml_type chosen = F32;
    const char * why = policy_f32_reason(name, n_dims, ne);
    if (!why) {
        const char * kept = NULL;
        if (starts_with(name, "code_pred.")) {
            kept = asked ? "predictor as asked" : v->predictor ? "predictor kept better" : NULL;
            v = asked ? asked : v->predictor ? find_variant(v->predictor, false) : v;
        }
        QT_TRY(matrix_type(v, name, n_layers, &chosen, &why));
        why = kept ? kept : why;
        int64_t block = ggml_blck_size(chosen);
        if (block > 1 && n_dims > 2) {
            chosen = F16;
            why = "convolution kernel";
        } else if (ne[0] % block != 0) {
            chosen = F16;
            why = block == 32 ? "row fits no block of 32" : "row fits no block of 256";
        }
    }
    *type = (int32_t) chosen;
    *reason = why;
    return QT_STATUS_OK;
}
