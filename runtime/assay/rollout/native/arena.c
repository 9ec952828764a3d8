/* See arena.h. */
#define _GNU_SOURCE
#include "arena.h"

#include <string.h>
#include <sys/mman.h>

enum { LINE = 64, HUGE_PAGE = 2 << 20 };

static size_t whole_lines(size_t bytes) {
    return (bytes + LINE - 1) / LINE * LINE;
}

void *assay_arena_take(assay_arena *arena, size_t bytes) {
    uint8_t *at = arena->base == NULL ? NULL : arena->base + arena->used;
    arena->used += whole_lines(bytes);
    return at;
}

size_t assay_parts_bytes(const assay_part *parts, uint32_t n) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        bytes += whole_lines(parts[i].bytes);
    }
    return bytes;
}

void assay_parts_place(const assay_part *parts, uint32_t n, void *base) {
    uint8_t *at = base;
    for (uint32_t i = 0; i < n; i++) {
        memcpy(parts[i].pointer, &at, sizeof at);
        at += whole_lines(parts[i].bytes);
    }
}

static size_t map_length(size_t bytes) {
    return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE + HUGE_PAGE;
}

/* The mapping begins one cache line before a huge page boundary, so its start is stored in the word
 * before the returned address. */
void *assay_pages_map(size_t bytes, uint32_t *huge) {
    const size_t length = map_length(bytes);
    uint8_t *start =
        mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) {
        return NULL;
    }
    uint8_t *at = (uint8_t *)(((uintptr_t)start + HUGE_PAGE) & ~(uintptr_t)(HUGE_PAGE - 1));
    *huge = 0;
#if defined(MADV_HUGEPAGE)
    *huge = madvise(at, length - (size_t)(at - start), MADV_HUGEPAGE) == 0;
#endif
    memset(at, 0, bytes);
    memcpy(at - sizeof start, &start, sizeof start);
    return at;
}

void assay_pages_unmap(void *pages, size_t bytes) {
    if (pages != NULL) {
        uint8_t *start;
        memcpy(&start, (uint8_t *)pages - sizeof start, sizeof start);
        munmap(start, map_length(bytes));
    }
}
