/* Wake-ups for threads that spin first and then park.
 *
 * A waiter reads `word`, looks for work, and sleeps only while `word` is unchanged; a ringer
 * publishes work, then changes `word`, then wakes if a waiter sleeps. So no wake-up is lost, and a
 * ringer makes a syscall only for a waiter that has parked.
 */
#ifndef ASSAY_BELL_H
#define ASSAY_BELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    _Alignas(64) _Atomic(uint32_t) word;
    _Atomic(uint32_t) sleepers;
    _Atomic(uint64_t) wakes; /* syscalls spent on waking */
    _Atomic(uint64_t) parks; /* syscalls spent on parking */
} assay_bell;

static inline uint32_t assay_bell_read(assay_bell *b) { return atomic_load(&b->word); }

/* Sleep until the word differs from `seen`, or timeout_ns passed. */
void assay_bell_park(assay_bell *b, uint32_t seen, uint64_t timeout_ns);
void assay_bell_wake(assay_bell *b);

/* Work was published. True when a sleeper had to be woken. */
static inline bool assay_bell_ring(assay_bell *b) {
    atomic_fetch_add(&b->word, 1);
    if (atomic_load(&b->sleepers) == 0) return false;
    assay_bell_wake(b);
    return true;
}

#endif
