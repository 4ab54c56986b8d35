/* memory.h - memory of buffers and scratch. */
#pragma once

#include <stddef.h>

/* GGML_MEM_ALIGN-aligned bytes of unspecified value, NULL where there are none; give them back with the size asked for. */
void * cpu_memory_new(size_t size);
void   cpu_memory_free(void * memory, size_t size); /* NULL is legal */
