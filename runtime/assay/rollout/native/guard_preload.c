/* libassay_guard.so: counts allocations made in hot sections. Loaded with LD_PRELOAD by the guard's
 * test; the runtime finds its two symbols with dlsym and is otherwise independent of it. */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static _Thread_local volatile int hot __attribute__((tls_model("initial-exec")));
static _Thread_local volatile uint64_t calls __attribute__((tls_model("initial-exec")));

volatile int *assay_preload_hot(void) { return &hot; }
volatile uint64_t *assay_preload_count(void) { return &calls; }

static void note(void) {
    if (hot) calls++;
}

void *malloc(size_t n) {
    note();
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size) {
    note();
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n) {
    note();
    return __libc_realloc(p, n);
}

void free(void *p) {
    note();
    __libc_free(p);
}

void *memalign(size_t alignment, size_t n) {
    note();
    return __libc_memalign(alignment, n);
}

void *aligned_alloc(size_t alignment, size_t n) {
    note();
    return __libc_memalign(alignment, n);
}

int posix_memalign(void **out, size_t alignment, size_t n) {
    note();
    *out = __libc_memalign(alignment, n);
    return *out == NULL ? ENOMEM : 0;
}
