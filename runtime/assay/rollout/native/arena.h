/* Memory for an engine: resident pages, handed out in 64-byte aligned parts. */
#ifndef ASSAY_ARENA_H
#define ASSAY_ARENA_H

#include <stddef.h>
#include <stdint.h>

/* A region that is allocated from in order. With base NULL it returns NULL and counts: a layout runs
 * once to compute its size and once to place it. */
typedef struct {
    uint8_t *base;
    size_t used;
} assay_arena;

void *assay_arena_take(assay_arena *arena, size_t bytes);

/* A pointer that will be set to `bytes` bytes of a region. */
typedef struct {
    void *pointer; /* the address of the pointer */
    size_t bytes;
} assay_part;

/* Total bytes of the parts, and setting their pointers in a region of that size. */
size_t assay_parts_bytes(const assay_part *parts, uint32_t n);
void assay_parts_place(const assay_part *parts, uint32_t n, void *base);

/* Zeroed, resident pages, huge if the system provides them. NULL when out of memory. */
void *assay_pages_map(size_t bytes, uint32_t *huge);
void assay_pages_unmap(void *pages, size_t bytes);

static inline uint32_t assay_round_up(uint32_t n, uint32_t to) {
    return (n + to - 1) / to * to;
}

#endif
