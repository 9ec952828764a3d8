/* Memory that is mapped and touched before use. */
#ifndef ASSAY_MAPPING_H
#define ASSAY_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum assay_pages { ASSAY_PAGES_BASE = 0, ASSAY_PAGES_ADVISED = 1, ASSAY_PAGES_HUGE = 2 };

typedef struct {
    void *at;
    size_t bytes;
    uint32_t pages; /* enum assay_pages */
    uint32_t bound; /* 1: bound to the NUMA node asked for */
} assay_mapping;

/* Explicit huge pages, else advised ones, else base pages; every page is touched, so that the first
 * use of it later is not a page fault. `node`: -1 where it is first touched. False: no memory. */
bool assay_map(assay_mapping *m, size_t bytes, bool huge, int32_t node);
void assay_unmap(assay_mapping *m);

#endif
