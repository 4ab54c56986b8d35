/* quants.h - the block formats of quantized rows, byte for byte as ggml stores them, and their plain conversions.
 * A row of k elements is k / block size blocks. Elements of a 32-block: j and j + 16 share byte j of qs (low and high nibble). */
#pragma once

#include <assert.h>
#include <stdint.h>

#define QK4_0 32
#define QK4_1 32
#define QK5_0 32
#define QK5_1 32
#define QK8_0 32
#define QK_K 256
#define K_SCALE_SIZE 12

struct block_q4_0 { /* x = d * (q - 8) */
    uint16_t d; /* f16 */
    uint8_t qs[QK4_0 / 2];
};

struct block_q4_1 { /* x = d * q + m */
    uint16_t d, m; /* f16 */
    uint8_t qs[QK4_1 / 2];
};

struct block_q5_0 { /* x = d * (q - 16), q's fifth bit is bit j of qh */
    uint16_t d; /* f16 */
    uint8_t qh[4];
    uint8_t qs[QK5_0 / 2];
};

struct block_q5_1 { /* x = d * q + m */
    uint16_t d, m; /* f16 */
    uint8_t qh[4];
    uint8_t qs[QK5_1 / 2];
};

struct block_q8_0 { /* x = d * q */
    uint16_t d; /* f16 */
    int8_t qs[QK8_0];
};

/* Eight sub-blocks of 32: x = d * scale * q - dmin * min. Sub-blocks 2i and 2i + 1 are the low and high nibbles of qs[32 i ..]. */
struct block_q4_K {
    uint16_t d, dmin; /* f16 */
    uint8_t scales[K_SCALE_SIZE]; /* eight 6-bit scales and eight 6-bit mins: k_scale, k_min */
    uint8_t qs[QK_K / 2];
};

struct block_q5_K { /* as q4_K; the fifth bit of element l in sub-block s is bit s of qh[l] */
    uint16_t d, dmin; /* f16 */
    uint8_t scales[K_SCALE_SIZE];
    uint8_t qh[QK_K / 8];
    uint8_t qs[QK_K / 2];
};

/* Sixteen sub-blocks of 16: x = d * scale * (q - 32). Each half of 128 elements has four groups g of 32: the low nibble of q is in
 * ql[32 (g % 2) + l], low nibbles for g < 2 and high ones after; its upper two bits are bits 2g, 2g + 1 of qh[l]. */
struct block_q6_K {
    uint8_t ql[QK_K / 2];
    uint8_t qh[QK_K / 4];
    int8_t scales[QK_K / 16];
    uint16_t d; /* f16 */
};

struct block_q8_K { /* activations only: x = d * q; bsums are the sums of 16 q each */
    float d;
    int8_t qs[QK_K];
    int16_t bsums[QK_K / 16];
};

static_assert(sizeof(struct block_q4_0) == 18, "q4_0 is 18 bytes");
static_assert(sizeof(struct block_q4_1) == 20, "q4_1 is 20 bytes");
static_assert(sizeof(struct block_q5_0) == 22, "q5_0 is 22 bytes");
static_assert(sizeof(struct block_q5_1) == 24, "q5_1 is 24 bytes");
static_assert(sizeof(struct block_q8_0) == 34, "q8_0 is 34 bytes");
static_assert(sizeof(struct block_q4_K) == 144, "q4_K is 144 bytes");
static_assert(sizeof(struct block_q5_K) == 176, "q5_K is 176 bytes");
static_assert(sizeof(struct block_q6_K) == 210, "q6_K is 210 bytes");
static_assert(sizeof(struct block_q8_K) == 292, "q8_K is 292 bytes");

/* Sub-block j's 6-bit scale. The first four are the low 6 bits of bytes 0-3, the last four a nibble of bytes 8-11 under the top bits of 0-3. */
static inline int k_scale(const uint8_t * scales, int j) {
    return j < 4 ? scales[j] & 63 : (scales[j + 4] & 15) | (scales[j - 4] >> 6) << 4;
}

/* Likewise the 6-bit min: bytes 4-7, then the high nibbles of 8-11 under the top bits of 4-7. */
static inline int k_min(const uint8_t * scales, int j) {
    return j < 4 ? scales[j + 4] & 63 : scales[j + 4] >> 4 | (scales[j] >> 6) << 4;
}

void dequantize_row_q4_0(const void * x, float * y, int64_t k);
void dequantize_row_q4_1(const void * x, float * y, int64_t k);
void dequantize_row_q5_0(const void * x, float * y, int64_t k);
void dequantize_row_q5_1(const void * x, float * y, int64_t k);
void dequantize_row_q8_0(const void * x, float * y, int64_t k);
void dequantize_row_q4_K(const void * x, float * y, int64_t k);
void dequantize_row_q5_K(const void * x, float * y, int64_t k);
void dequantize_row_q6_K(const void * x, float * y, int64_t k);
void dequantize_row_q8_K(const void * x, float * y, int64_t k);

void quantize_row_q4_0_ref(const float * x, void * y, int64_t k);
void quantize_row_q4_1_ref(const float * x, void * y, int64_t k);
void quantize_row_q5_0_ref(const float * x, void * y, int64_t k);
void quantize_row_q5_1_ref(const float * x, void * y, int64_t k);
void quantize_row_q8_0_ref(const float * x, void * y, int64_t k);
void quantize_row_q8_K_ref(const float * x, void * y, int64_t k);
void quantize_row_q4_K_ref(const float * x, void * y, int64_t k);
void quantize_row_q5_K_ref(const float * x, void * y, int64_t k);
void quantize_row_q6_K_ref(const float * x, void * y, int64_t k);

/* With a weight for the squared error of each element of the row; NULL: all the same. Weights are 0 or more. */
void quantize_row_q4_K(const float * x, void * y, int64_t k, const float * weights);
void quantize_row_q5_K(const float * x, void * y, int64_t k, const float * weights);
void quantize_row_q6_K(const float * x, void * y, int64_t k, const float * weights);
