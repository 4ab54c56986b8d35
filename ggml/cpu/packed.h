/* packed.h - quantized matrices in the order that products on wide vectors read them.
 * Sixteen rows make a group, so that a vector holds one 32-bit word of four successive k of each row: a product with four activations is one
 * instruction without a horizontal sum, scales are vectors too, and memory is read as one stream. A group is K / block structs, below; words are indexed
 * [.. word][row][k % 4]. The values are those of quants.h, none is rounded again; a matrix takes at most 3 % more bytes than in blocks. Lanes of
 * rows behind the last hold anything. */
#pragma once

#include "../core/internal.h"

#define PACKED_ROWS 16

struct packed_q8_0 { /* 64 k; x = d * (q - 128). The second half of the last one is unused where K / 32 is odd. */
    uint8_t q[2][8][PACKED_ROWS][4];
    uint16_t d[2][PACKED_ROWS]; /* f16 */
};

struct packed_q4_K { /* 256 k; sub-blocks 2i and 2i + 1 are the low and high nibbles of q[i] */
    uint8_t q[4][8][PACKED_ROWS][4];
    uint8_t scale[8][PACKED_ROWS], min[8][PACKED_ROWS];
    uint16_t d[PACKED_ROWS], dmin[PACKED_ROWS]; /* f16 */
};

struct packed_q5_K { /* as q4_K; bit u of high[half][i]: the fifth bit of sub-block 4 half + u in word i, bit 4 + u: in word i + 4 */
    uint8_t q[4][8][PACKED_ROWS][4];
    uint8_t high[2][4][PACKED_ROWS][4];
    uint8_t scale[8][PACKED_ROWS], min[8][PACKED_ROWS];
    uint16_t d[PACKED_ROWS], dmin[PACKED_ROWS]; /* f16 */
};

struct packed_q6_K { /* 256 k; low and high as in block_q6_K */
    uint8_t low[2][2][8][PACKED_ROWS][4];
    uint8_t high[2][8][PACKED_ROWS][4];
    int8_t scale[16][PACKED_ROWS];
    uint16_t d[PACKED_ROWS]; /* f16 */
    uint8_t unused[32];
};

static inline int64_t packed_block_k(enum ggml_type type) { return type == GGML_TYPE_Q8_0 ? 64 : 256; }

static inline size_t packed_block_bytes(enum ggml_type type) {
    switch (type) {
        case GGML_TYPE_Q8_0: return sizeof(struct packed_q8_0);
        case GGML_TYPE_Q4_K: return sizeof(struct packed_q4_K);
        case GGML_TYPE_Q5_K: return sizeof(struct packed_q5_K);
        case GGML_TYPE_Q6_K: return sizeof(struct packed_q6_K);
        default: return 0;
    }
}

static inline size_t packed_group_bytes(enum ggml_type type, int64_t K) {
    return (size_t) ((K + packed_block_k(type) - 1) / packed_block_k(type)) * packed_block_bytes(type);
}

/* Rows first .. first + n - 1 of width K, from and to blocks as files hold them. Rows of one group may be packed by several threads. */
void packed_set_rows(enum ggml_type type, int64_t K, void * packed, int64_t first, int64_t n, const void * blocks);
void packed_get_rows(enum ggml_type type, int64_t K, const void * packed, int64_t first, int64_t n, void * blocks);

/* A buffer of the CPU but for what its tensors are set from and read to. */
typedef void (*cpu_packed_set)(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor, const void * data, size_t offset, size_t size);
typedef void (*cpu_packed_get)(ggml_backend_buffer_t buffer, const struct ggml_tensor * tensor, void * data, size_t offset, size_t size);
ggml_backend_buffer_t cpu_packed_buffer_new(ggml_backend_buffer_type_t buft, size_t size, cpu_packed_set set, cpu_packed_get get);
size_t cpu_packed_alignment(ggml_backend_buffer_type_t buft);

/* Whether the tensor's memory holds a packed matrix. */
bool cpu_is_packed(const struct ggml_tensor * tensor);
