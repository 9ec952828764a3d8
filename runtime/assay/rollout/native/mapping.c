/* See mapping.h. */
#define _GNU_SOURCE
#include "mapping.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MPOL_BIND
#define MPOL_BIND 2
#endif

enum { HUGE_PAGE = 2 * 1024 * 1024 };

static size_t round_to(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

static void *map_pages(size_t bytes, int flags) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static uint32_t bind_to_node(void *at, size_t bytes, int32_t node) {
#ifdef SYS_mbind
    unsigned long mask[2] = {0, 0};
    if (node < 0 || node >= 64) return 0;
    mask[0] = 1ul << node;
    return syscall(SYS_mbind, at, bytes, MPOL_BIND, mask, 65ul, 0u) == 0;
#else
    (void)at;
    (void)bytes;
    (void)node;
    return 0;
#endif
}

bool assay_map(assay_mapping *m, size_t bytes, bool huge, int32_t node) {
    m->bytes = round_to(bytes ? bytes : 1, HUGE_PAGE);
    m->at = huge ? map_pages(m->bytes, MAP_HUGETLB) : NULL;
    m->pages = m->at != NULL ? ASSAY_PAGES_HUGE : ASSAY_PAGES_BASE;
    if (m->at == NULL) m->at = map_pages(m->bytes, 0);
    if (m->at == NULL) return false;
    m->bound = bind_to_node(m->at, m->bytes, node);
    if (huge && m->pages == ASSAY_PAGES_BASE && madvise(m->at, m->bytes, MADV_HUGEPAGE) == 0)
        m->pages = ASSAY_PAGES_ADVISED;
    for (size_t at = 0; at < m->bytes; at += 4096) ((volatile uint8_t *)m->at)[at] = 0;
    return true;
}

void assay_unmap(assay_mapping *m) {
    if (m->at != NULL) munmap(m->at, m->bytes);
}
