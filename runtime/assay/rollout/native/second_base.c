/* See second_base.h. */
#define _GNU_SOURCE
#include "second_base.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { AT_ONCE = 1 << 16 };

static void *map_file(int file, size_t bytes) {
    if (posix_fallocate(file, 0, (off_t)bytes) != 0) {
        return NULL;
    }
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return at == MAP_FAILED ? NULL : at;
}

int assay_base_take(const assay_model_shape *shape, const assay_kernels *kernels, assay_base *base,
                    int file, uint32_t *huge) {
    assay_arena count = {NULL, 0};
    assay_weights_layout(&base->weights, shape, kernels, &count);
    base->in_file = file >= 0;
    base->bytes = count.used;
    base->pages = base->in_file ? map_file(file, count.used) : assay_pages_map(count.used, huge);
    if (base->pages == NULL) {
        return ASSAY_ENGINE_NO_MEMORY;
    }
    assay_arena arena = {base->pages, 0};
    assay_weights_layout(&base->weights, shape, kernels, &arena);
    return ASSAY_ENGINE_OK;
}

void assay_base_drop(assay_base *base) {
    if (base->pages != NULL && base->in_file) {
        munmap(base->pages, base->bytes);
    } else {
        assay_pages_unmap(base->pages, base->bytes);
    }
    base->pages = NULL;
}

static void exchange(uint8_t *one, uint8_t *other, size_t bytes) {
    static _Thread_local uint8_t kept[AT_ONCE];
    for (size_t at = 0; at < bytes; at += AT_ONCE) {
        const size_t n = bytes - at < AT_ONCE ? bytes - at : AT_ONCE;
        memcpy(kept, one + at, n);
        memcpy(one + at, other + at, n);
        memcpy(other + at, kept, n);
    }
}

/* All but the table of the layers, which lies between the tensors and has addresses of its own set. */
void assay_base_exchange(assay_base *a, assay_base *b) {
    uint8_t *one = a->pages;
    uint8_t *other = b->pages;
    const size_t table = (size_t)((uint8_t *)a->weights.layers - one);
    const size_t after = table + a->weights.shape.n_layers * sizeof *a->weights.layers;
    exchange(one, other, table);
    exchange(one + after, other + after, a->bytes - after);
}

void assay_base_put_away(assay_base *base) {
    if (base->pages != NULL && base->in_file) {
        (void)madvise(base->pages, base->bytes, MADV_DONTNEED);
    }
}
