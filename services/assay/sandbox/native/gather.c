/* One region of memory in place of the hundred that an interpreter with its modules has.
 *
 * A fork copies the list of regions, and the end of a process takes it apart: for a zygote that is
 * more work than its pages. Each library is five regions, of its file; here those that adjoin, with
 * the anonymous memory between them, become one region with the same content at the same place.
 */
#define _GNU_SOURCE
#include "box.h"
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define REGIONS_MAX 1024
#define MAPS_BYTES_MAX (256 * 1024)
#define PAGE_BYTES 4096
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#define HUGE_BYTES (2 * 1024 * 1024)
#define GAP_BYTES_MAX (64 * 1024) /* between libraries, for their alignment */
#define LARGE_BYTES_SMALL_PAGES (512 * 1024)
#define LARGE_BYTES_HUGE_PAGES (8 * 1024 * 1024)
#define ALL (PROT_READ | PROT_WRITE | PROT_EXEC)

struct region {
    uintptr_t start, end;
    int is_movable, is_file, is_readable;
    const char *path;
};

static int contains(const struct region *region, uintptr_t at) {
    return region->start <= at && at < region->end;
}

/* One line of `/proc/self/maps`, which is cut into its words. */
static int parse(char *line, uintptr_t large_bytes, struct region *region) {
    unsigned long start, end;
    char rights[8] = "";
    int path_at = 0;
    if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %n", &start, &end, rights, &path_at) != 3) {
        return -1;
    }
    const char *path = path_at ? line + path_at : "";
    int is_anonymous = *path == 0 && strcmp(rights, "rw-p") == 0;
    int is_large = end - start > large_bytes && rights[1] != 'w';
    *region = (struct region){.start = start,
                              .end = end,
                              .is_file = *path == '/',
                              .is_readable = rights[0] == 'r',
                              .path = path};
    region->is_movable = rights[3] == 'p' && region->is_readable && !is_large &&
                         (region->is_file || is_anonymous);
    return 0;
}

/* Read the regions of this process into `regions`; `text` holds their paths. Returns their number. */
static int read_regions(char *text, uintptr_t large_bytes, struct region *regions) {
    size_t length = 0;
    ssize_t got;
    int count = 0, file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return 0;
    }
    while (length < MAPS_BYTES_MAX - 1 &&
           (got = read(file, text + length, MAPS_BYTES_MAX - 1 - length)) > 0) {
        length += (size_t)got;
    }
    close(file);
    text[length] = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = 0;
        if (count == REGIONS_MAX || parse(line, large_bytes, &regions[count]) != 0) {
            return 0;
        }
        count++;
    }
    return count;
}

/* Leave out what changes meanwhile, and anonymous memory that is not behind a library. */
static void keep_others(struct region *regions, int count, const void *text) {
    for (int at = 0; at < count; at++) {
        struct region *one = &regions[at];
        if (contains(one, (uintptr_t)text) || contains(one, (uintptr_t)pthread_self())) {
            one->is_movable = 0;
        }
        /* Anonymous memory behind a library is its own. */
        int follows = at > 0 && regions[at - 1].end == one->start && regions[at - 1].is_movable;
        one->is_movable = one->is_movable && (one->is_file || follows);
    }
}

static int is_empty(const char *page) {
    return page[0] == 0 && memcmp(page, page + 1, PAGE_BYTES - 1) == 0;
}

/* Copy what is not empty; memory that was not written to yet stays so. */
static void copy(char *to, const struct region *region) {
    for (uintptr_t at = region->start; at < region->end; at += PAGE_BYTES, to += PAGE_BYTES) {
        if (!is_empty((const char *)at)) {
            memcpy(to, (const char *)at, PAGE_BYTES);
        }
    }
}

/* Replace regions by one with the same content, which fills the gaps between them.
 *
 * The copy takes its place in one system call, so this very code and the C library can be there. */
static int replace(const struct region *first, const struct region *last) {
    uintptr_t start = first->start, end = last->end;
    size_t size = end - start, room = size + HUGE_BYTES;
    char *taken = mmap(NULL, room, ALL, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (taken == MAP_FAILED) {
        return -1;
    }
    /* As far from a whole huge page as the original: a huge page moves as such only then. */
    char *kept = taken + ((start - (uintptr_t)taken) & (HUGE_BYTES - 1));
    /* Of a huge page a fork copies one entry, and pid 1 of a box writes to few. */
    madvise(kept, size, MADV_HUGEPAGE);
    for (const struct region *one = first; one <= last; one++) {
        copy(kept + (one->start - start), one);
    }
    madvise(kept, size, MADV_NOHUGEPAGE); /* what a box writes is charged by small pages */
    __builtin___clear_cache(kept, kept + size); /* some processors fetch code by another way */
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    int is_placed = mremap(kept, size, size, flags, (void *)start) != MAP_FAILED;
    __builtin___clear_cache((char *)start, (char *)end);
    munmap(taken, room); /* what did not move */
    return is_placed ? 0 : -1;
}

/* The largest region of code or constants that is worth a copy of its own.
 *
 * In huge pages a fork copies one entry per 2 MiB, and no box has a fault for what it runs or reads
 * there. In small pages it would copy every one of them. */
static uintptr_t large_bytes(void) {
    unsigned char is_there = 0;
    char *trial = mmap(NULL, 2 * HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (trial == MAP_FAILED) {
        return LARGE_BYTES_SMALL_PAGES;
    }
    char *first = (char *)(((uintptr_t)trial + HUGE_BYTES - 1) & ~(uintptr_t)(HUGE_BYTES - 1));
    madvise(trial, 2 * HUGE_BYTES, MADV_HUGEPAGE);
    *(volatile char *)first = 1;
    if (mincore(first + HUGE_BYTES - PAGE_BYTES, PAGE_BYTES, &is_there) != 0) {
        is_there = 0;
    }
    munmap(trial, 2 * HUGE_BYTES);
    return is_there & 1 ? LARGE_BYTES_HUGE_PAGES : LARGE_BYTES_SMALL_PAGES;
}

/* Put the C library's heap into huge pages, the last of them whole; older kernels refuse. */
static void collapse_heap(const struct region *regions, int count) {
    for (int at = 0; at < count; at++) {
        if (strcmp(regions[at].path, "[heap]") == 0) {
            uintptr_t end = regions[at].end + (-regions[at].end & (HUGE_BYTES - 1));
            if (brk((void *)end) == 0) {
                madvise((void *)regions[at].start, end - regions[at].start, MADV_COLLAPSE);
            }
        }
    }
}

/* Some hosts forbid memory that can be both written and executed. */
static int is_allowed(void) {
    void *trial = mmap(NULL, PAGE_BYTES, ALL, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return trial != MAP_FAILED && munmap(trial, PAGE_BYTES) == 0;
}

int assay_box_gather(void) {
    size_t size = MAPS_BYTES_MAX + REGIONS_MAX * sizeof(struct region);
    char *text = is_allowed() ? mmap(NULL, size, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    if (text == MAP_FAILED) {
        return 0;
    }
    struct region *regions = (struct region *)(text + MAPS_BYTES_MAX);
    uintptr_t large = large_bytes();
    int count = read_regions(text, large, regions), fewer = 0;
    if (large == LARGE_BYTES_HUGE_PAGES) {
        collapse_heap(regions, count);
    }
    keep_others(regions, count, text);
    for (int first = 0, last; first < count; first = last + 1) {
        last = first;
        while (regions[last].is_movable && last + 1 < count && regions[last + 1].is_movable &&
               regions[last + 1].start - regions[last].end <= GAP_BYTES_MAX) {
            last++;
        }
        if (last > first && replace(&regions[first], &regions[last]) == 0) {
            fewer += last - first;
        }
    }
    munmap(text, size);
    return fewer;
}
