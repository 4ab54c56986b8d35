/* free_list.h - offsets into memory of unlimited length: take the best fitting gap, give it back, know how far it ever reached.
 * Sizes and offsets are multiples of the alignment that the caller keeps. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct free_block {
    size_t offset, size; /* bytes */
};

/* Gaps in order of offset, never touching each other; everything from end on is free too. */
struct free_list {
    struct free_block * blocks;
    size_t n_blocks, capacity;
    size_t end;  /* bytes: the last taken byte ends here */
    size_t peak; /* bytes: the furthest end ever was */
};

void free_list_reset(struct free_list * list); /* all is free, peak 0 */
void free_list_release(struct free_list * list);
size_t free_list_take(struct free_list * list, size_t size);
bool free_list_give(struct free_list * list, size_t offset, size_t size); /* false when memory for the list cannot be had */
