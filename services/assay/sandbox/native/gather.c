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
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#define REGIONS_MAX 1024
#define MAPS_BYTES_MAX (256 * 1024)
#define PAGE_BYTES 4096
#define LARGE_BYTES (512 * 1024)
#define ALL (PROT_READ | PROT_WRITE | PROT_EXEC)

struct region {
    uintptr_t start, end;
    int is_movable, is_file, is_readable;
    const char *path;
};

/* What runs while regions are replaced, and what it uses: this library, the C library, the linker. */
struct needed {
    uintptr_t at[4];
    const char *paths[4];
};

static int contains(const struct region *region, uintptr_t at) {
    return region->start <= at && at < region->end;
}

/* One line of `/proc/self/maps`, which is cut into its words. */
static int parse(char *line, struct region *region) {
    unsigned long start, end;
    char rights[8] = "";
    int path_at = 0;
    if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %n", &start, &end, rights, &path_at) != 3) {
        return -1;
    }
    const char *path = path_at ? line + path_at : "";
    int is_anonymous = *path == 0 && strcmp(rights, "rw-p") == 0;
    int is_large = end - start > LARGE_BYTES && rights[1] != 'w';
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
static int read_regions(char *text, struct region *regions) {
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
        if (count == REGIONS_MAX || parse(line, &regions[count]) != 0) {
            return 0;
        }
        count++;
    }
    return count;
}

static void keep_needed(struct region *regions, int count, struct needed *needed) {
    for (int which = 0; which < 4; which++) {
        for (int at = 0; at < count; at++) {
            if (contains(&regions[at], needed->at[which])) {
                regions[at].is_movable = 0;
                needed->paths[which] = regions[at].is_file ? regions[at].path : NULL;
            }
        }
    }
    for (int at = 0; at < count; at++) {
        struct region *one = &regions[at];
        for (int which = 0; which < 4; which++) {
            const char *path = needed->paths[which];
            one->is_movable = one->is_movable && !(path && strcmp(one->path, path) == 0);
        }
        /* Anonymous memory behind a library is its own. */
        int follows = at > 0 && regions[at - 1].end == one->start && regions[at - 1].is_movable;
        one->is_movable = one->is_movable && (one->is_file || follows);
    }
}

static int is_empty(const char *page) {
    return page[0] == 0 && memcmp(page, page + 1, PAGE_BYTES - 1) == 0;
}

/* Replace what is between two addresses by one region with the same content. */
static int replace(uintptr_t start, uintptr_t end) {
    size_t size = end - start;
    char *there = (char *)start;
    char *kept = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (kept == MAP_FAILED) {
        return -1;
    }
    memcpy(kept, there, size);
    if (mmap(there, size, ALL, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
        abort(); /* what was there may be gone */
    }
    /* Of a huge page a fork copies one entry, and pid 1 of a box writes to few. */
    madvise(there, size, MADV_HUGEPAGE);
    for (size_t at = 0; at < size; at += PAGE_BYTES) {
        if (!is_empty(kept + at)) {
            memcpy(there + at, kept + at, PAGE_BYTES);
        }
    }
    madvise(there, size, MADV_NOHUGEPAGE); /* what a box writes is charged by small pages */
    __builtin___clear_cache(there, there + size); /* some processors fetch code by another way */
    munmap(kept, size);
    return 0;
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
    struct needed needed = {.at = {(uintptr_t)assay_box_gather, (uintptr_t)memcpy,
                                   (uintptr_t)getauxval(AT_BASE), (uintptr_t)pthread_self()}};
    int count = read_regions(text, regions), fewer = 0;
    for (int at = 0; at < count; at++) {
        if (contains(&regions[at], (uintptr_t)text)) {
            regions[at].is_movable = 0;
        }
    }
    keep_needed(regions, count, &needed);
    for (int first = 0, last; first < count; first = last + 1) {
        last = first;
        while (regions[last].is_movable && last + 1 < count && regions[last + 1].is_movable &&
               regions[last + 1].start == regions[last].end) {
            last++;
        }
        if (last > first && replace(regions[first].start, regions[last].end) == 0) {
            fewer += last - first;
        }
    }
    munmap(text, size);
    return fewer;
}
