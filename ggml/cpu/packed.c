/* packed.c - blocks to packed groups and back; see packed.h. Words move as they are, so one row costs about as much as copying it. */
#include "packed.h"

#include <string.h>

#include "../core/quants.h"

enum { PACK, UNPACK };

/* n words of a row's bytes at the same place of successive lanes [word][PACKED_ROWS][4]. */
static inline void words_move(const int way, uint8_t * packed, uint8_t * row, int n, uint32_t flip) {
    for (int i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, way == PACK ? row + 4 * i : packed + 4 * PACKED_ROWS * i, 4);
        word ^= flip;
        memcpy(way == PACK ? packed + 4 * PACKED_ROWS * i : row + 4 * i, &word, 4);
    }
}

/* The fifth bits of a row: bit s of of_block[l] for sub-block s, halves of four sub-blocks apart in the group. */
static inline void fifth_bits_move(const int way, uint8_t (*high)[4][PACKED_ROWS][4], int lane, uint8_t * of_block) {
    const uint32_t low = 0x0f0f0f0fu, top = 0xf0f0f0f0u;
    for (int i = 0; i < 4; i++) {
        uint32_t a, b; /* words i and i + 4, or the halves of both */
        memcpy(&a, way == PACK ? of_block + 4 * i : high[0][i][lane], 4);
        memcpy(&b, way == PACK ? of_block + 4 * (i + 4) : high[1][i][lane], 4);
        const uint32_t first = (a & low) | (b & low) << 4, second = (a >> 4 & low) | (b & top);
        memcpy(way == PACK ? high[0][i][lane] : of_block + 4 * i, &first, 4);
        memcpy(way == PACK ? high[1][i][lane] : of_block + 4 * (i + 4), &second, 4);
    }
}

static inline void f16_move(const int way, uint16_t * packed, uint16_t * of_block) { *(way == PACK ? packed : of_block) = *(way == PACK ? of_block : packed); }

/* Eight 6-bit scales and mins: the reverse of k_scale and k_min. */
static void scales_join(const uint8_t (*scale)[PACKED_ROWS], const uint8_t (*min)[PACKED_ROWS], int lane, uint8_t * out) {
    for (int j = 0; j < 4; j++) {
        out[j] = (uint8_t) (scale[j][lane] | scale[j + 4][lane] >> 4 << 6);
        out[j + 4] = (uint8_t) (min[j][lane] | min[j + 4][lane] >> 4 << 6);
        out[j + 8] = (uint8_t) ((scale[j + 4][lane] & 15) | min[j + 4][lane] << 4);
    }
}

static inline void scales_move(const int way, uint8_t (*scale)[PACKED_ROWS], uint8_t (*min)[PACKED_ROWS], int lane, uint8_t * of_block) {
    if (way == UNPACK) {
        scales_join(scale, min, lane, of_block);
        return;
    }
    for (int j = 0; j < 8; j++) {
        scale[j][lane] = (uint8_t) k_scale(of_block, j);
        min[j][lane] = (uint8_t) k_min(of_block, j);
    }
}

/* Block i of a row and its lane of the group. */
static inline void block_move(const int way, enum ggml_type type, void * group, int lane, int64_t i, char * row) {
    switch (type) {
        case GGML_TYPE_Q8_0: {
            struct packed_q8_0 * p = (struct packed_q8_0 *) group + i / 2;
            struct block_q8_0 * b = (struct block_q8_0 *) row + i;
            words_move(way, p->q[i % 2][0][lane], (uint8_t *) b->qs, 8, 0x80808080u);
            f16_move(way, &p->d[i % 2][lane], &b->d);
            break;
        }
        case GGML_TYPE_Q4_K: {
            struct packed_q4_K * p = (struct packed_q4_K *) group + i;
            struct block_q4_K * b = (struct block_q4_K *) row + i;
            words_move(way, p->q[0][0][lane], b->qs, 32, 0);
            scales_move(way, p->scale, p->min, lane, b->scales);
            f16_move(way, &p->d[lane], &b->d);
            f16_move(way, &p->dmin[lane], &b->dmin);
            break;
        }
        case GGML_TYPE_Q5_K: {
            struct packed_q5_K * p = (struct packed_q5_K *) group + i;
            struct block_q5_K * b = (struct block_q5_K *) row + i;
            words_move(way, p->q[0][0][lane], b->qs, 32, 0);
            fifth_bits_move(way, p->high, lane, b->qh);
            scales_move(way, p->scale, p->min, lane, b->scales);
            f16_move(way, &p->d[lane], &b->d);
            f16_move(way, &p->dmin[lane], &b->dmin);
            break;
        }
        default: {
            struct packed_q6_K * p = (struct packed_q6_K *) group + i;
            struct block_q6_K * b = (struct block_q6_K *) row + i;
            words_move(way, p->low[0][0][0][lane], b->ql, 32, 0);
            words_move(way, p->high[0][0][lane], b->qh, 16, 0);
            for (int j = 0; j < 16; j++) {
                *(way == PACK ? &p->scale[j][lane] : &b->scales[j]) = way == PACK ? b->scales[j] : p->scale[j][lane];
            }
            f16_move(way, &p->d[lane], &b->d);
        }
    }
}

/* Blocks outermost: the sixteen rows of a group then write the same cache lines one after the other. */
static void rows_move(const int way, enum ggml_type type, int64_t K, char * packed, int64_t first, int64_t n, char * rows) {
    const int64_t n_blocks = K / ggml_blck_size(type);
    const size_t row_bytes = ggml_row_size(type, K);
    for (int64_t r0 = first, r1; r0 < first + n; r0 = r1) {
        char * group = packed + (size_t) (r0 / PACKED_ROWS) * packed_group_bytes(type, K);
        r1 = (r0 / PACKED_ROWS + 1) * PACKED_ROWS;
        r1 = r1 < first + n ? r1 : first + n;
        for (int64_t i = 0; i < n_blocks; i++) {
            for (int64_t r = r0; r < r1; r++) {
                block_move(way, type, group, (int) (r % PACKED_ROWS), i, rows + (size_t) (r - first) * row_bytes);
            }
        }
    }
}

void packed_set_rows(enum ggml_type type, int64_t K, void * packed, int64_t first, int64_t n, const void * blocks) {
    rows_move(PACK, type, K, packed, first, n, (char *) (uintptr_t) blocks);
}

void packed_get_rows(enum ggml_type type, int64_t K, const void * packed, int64_t first, int64_t n, void * blocks) {
    rows_move(UNPACK, type, K, (char *) (uintptr_t) packed, first, n, blocks);
}
