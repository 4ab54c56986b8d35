/* free_list.c - best-fit gaps with coalescing (free_list.h). Gaps are few at any time (tens in a decoder's graph), so a sorted array serves. */
#include "free_list.h"

#include <stdlib.h>
#include <string.h>

void free_list_reset(struct free_list * list) {
    list->n_blocks = 0;
    list->end = 0;
    list->peak = 0;
}

void free_list_release(struct free_list * list) {
    free(list->blocks);
    memset(list, 0, sizeof *list);
}

static void remove_block(struct free_list * list, size_t i) {
    memmove(list->blocks + i, list->blocks + i + 1, (list->n_blocks - i - 1) * sizeof list->blocks[0]);
    list->n_blocks--;
}

size_t free_list_take(struct free_list * list, size_t size) {
    struct free_block * best = NULL;
    for (size_t i = 0; i < list->n_blocks; i++) {
        struct free_block * b = &list->blocks[i];
        if (b->size >= size && (!best || b->size < best->size)) {
            best = b;
        }
    }
    if (best) {
        size_t offset = best->offset;
        best->offset += size;
        best->size -= size;
        if (best->size == 0) {
            remove_block(list, (size_t) (best - list->blocks));
        }
        return offset;
    }
    size_t offset = list->end;
    list->end += size;
    list->peak = list->end > list->peak ? list->end : list->peak;
    return offset;
}

bool free_list_give(struct free_list * list, size_t offset, size_t size) {
    if (size == 0) {
        return true;
    }
    size_t i = 0; /* the first gap behind the block */
    while (i < list->n_blocks && list->blocks[i].offset < offset) {
        i++;
    }
    if (i > 0 && list->blocks[i - 1].offset + list->blocks[i - 1].size == offset) { /* join with the gap before */
        i--;
        offset = list->blocks[i].offset;
        size += list->blocks[i].size;
        remove_block(list, i);
    }
    if (i < list->n_blocks && offset + size == list->blocks[i].offset) { /* and with the gap behind */
        size += list->blocks[i].size;
        remove_block(list, i);
    }
    if (offset + size == list->end) { /* the end moves back, so a larger block can start here */
        list->end = offset;
        return true;
    }
    if (list->n_blocks == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        struct free_block * blocks = realloc(list->blocks, capacity * sizeof blocks[0]);
        if (!blocks) {
            return false;
        }
        list->blocks = blocks;
        list->capacity = capacity;
    }
    memmove(list->blocks + i + 1, list->blocks + i, (list->n_blocks - i) * sizeof list->blocks[0]);
    list->blocks[i].offset = offset;
    list->blocks[i].size = size;
    list->n_blocks++;
    return true;
}
