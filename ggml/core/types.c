/* types.c - the table of element types: block size, bytes of a block, and rows to and from floats.
 * ggml_get_type_traits hands out its rows; every size of a type in this library comes from here. */
#include <string.h>

#include "half.h"
#include "internal.h"
#include "quants.h"

static void f32_to_float(const void * x, float * y, int64_t k) { memcpy(y, x, (size_t) k * sizeof(float)); }
static void f32_from_float(const float * x, void * y, int64_t k) { memcpy(y, x, (size_t) k * sizeof(float)); }

static void f16_to_float(const void * x, float * y, int64_t k) {
    const uint16_t * h = x;
    for (int64_t i = 0; i < k; i++) {
        y[i] = half_f16_to_f32(h[i]);
    }
}

static void f16_from_float(const float * x, void * y, int64_t k) {
    uint16_t * h = y;
    for (int64_t i = 0; i < k; i++) {
        h[i] = half_f32_to_f16(x[i]);
    }
}

static void bf16_to_float(const void * x, float * y, int64_t k) {
    const uint16_t * h = x;
    for (int64_t i = 0; i < k; i++) {
        y[i] = half_bf16_to_f32(h[i]);
    }
}

static void bf16_from_float(const float * x, void * y, int64_t k) {
    uint16_t * h = y;
    for (int64_t i = 0; i < k; i++) {
        h[i] = half_f32_to_bf16(x[i]);
    }
}

/* Numbers without a row here (4, 5, 9, ...) are types of ggml that this library does not know. */
static const struct ggml_type_traits traits[GGML_TYPE_COUNT] = {
    [GGML_TYPE_F32] = { "f32", 1, sizeof(float), false, f32_to_float, f32_from_float },
    [GGML_TYPE_F16] = { "f16", 1, sizeof(uint16_t), false, f16_to_float, f16_from_float },
    [GGML_TYPE_BF16] = { "bf16", 1, sizeof(uint16_t), false, bf16_to_float, bf16_from_float },
    [GGML_TYPE_Q4_0] = { "q4_0", QK4_0, sizeof(struct block_q4_0), true, dequantize_row_q4_0, quantize_row_q4_0_ref },
    [GGML_TYPE_Q4_1] = { "q4_1", QK4_1, sizeof(struct block_q4_1), true, dequantize_row_q4_1, quantize_row_q4_1_ref },
    [GGML_TYPE_Q5_0] = { "q5_0", QK5_0, sizeof(struct block_q5_0), true, dequantize_row_q5_0, quantize_row_q5_0_ref },
    [GGML_TYPE_Q5_1] = { "q5_1", QK5_1, sizeof(struct block_q5_1), true, dequantize_row_q5_1, quantize_row_q5_1_ref },
    [GGML_TYPE_Q8_0] = { "q8_0", QK8_0, sizeof(struct block_q8_0), true, dequantize_row_q8_0, quantize_row_q8_0_ref },
    [GGML_TYPE_Q4_K] = { "q4_K", QK_K, sizeof(struct block_q4_K), true, dequantize_row_q4_K, quantize_row_q4_K_ref },
    [GGML_TYPE_Q5_K] = { "q5_K", QK_K, sizeof(struct block_q5_K), true, dequantize_row_q5_K, quantize_row_q5_K_ref },
    [GGML_TYPE_Q6_K] = { "q6_K", QK_K, sizeof(struct block_q6_K), true, dequantize_row_q6_K, quantize_row_q6_K_ref },
    [GGML_TYPE_Q8_K] = { "q8_K", QK_K, sizeof(struct block_q8_K), true, dequantize_row_q8_K, quantize_row_q8_K_ref },
    [GGML_TYPE_I8] = { "i8", 1, sizeof(int8_t), false, NULL, NULL },
    [GGML_TYPE_I16] = { "i16", 1, sizeof(int16_t), false, NULL, NULL },
    [GGML_TYPE_I32] = { "i32", 1, sizeof(int32_t), false, NULL, NULL },
    [GGML_TYPE_I64] = { "i64", 1, sizeof(int64_t), false, NULL, NULL },
    [GGML_TYPE_F64] = { "f64", 1, sizeof(double), false, NULL, NULL },
};

const struct ggml_type_traits * ggml_get_type_traits(enum ggml_type type) {
    /* the cast also refuses negative numbers read from a file */
    return (unsigned) type < GGML_TYPE_COUNT && traits[type].type_name ? &traits[type] : NULL;
}

int64_t ggml_blck_size(enum ggml_type type) {
    const struct ggml_type_traits * t = ggml_get_type_traits(type);
    return t ? t->blck_size : 0;
}

size_t ggml_type_size(enum ggml_type type) {
    const struct ggml_type_traits * t = ggml_get_type_traits(type);
    return t ? t->type_size : 0;
}

const char * ggml_type_name(enum ggml_type type) {
    const struct ggml_type_traits * t = ggml_get_type_traits(type);
    return t ? t->type_name : "none";
}

bool ggml_is_quantized(enum ggml_type type) {
    const struct ggml_type_traits * t = ggml_get_type_traits(type);
    return t && t->is_quantized;
}

size_t ggml_row_size(enum ggml_type type, int64_t ne) {
    const struct ggml_type_traits * t = ggml_get_type_traits(type);
    GGML_ASSERT(t && ne >= 0 && ne % t->blck_size == 0);
    return (size_t) (ne / t->blck_size) * t->type_size;
}

float ggml_fp16_to_fp32(ggml_fp16_t x) { return half_f16_to_f32(x); }
ggml_fp16_t ggml_fp32_to_fp16(float x) { return half_f32_to_f16(x); }
float ggml_bf16_to_fp32(ggml_bf16_t x) { return half_bf16_to_f32(x.bits); }

ggml_bf16_t ggml_fp32_to_bf16(float x) {
    ggml_bf16_t h = { half_f32_to_bf16(x) };
    return h;
}
