#define _GNU_SOURCE
#include "bell.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void assay_bell_park(assay_bell *b, uint32_t seen, uint64_t timeout_ns) {
    struct timespec t = {(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
    atomic_fetch_add(&b->sleepers, 1);
    atomic_fetch_add_explicit(&b->parks, 1, memory_order_relaxed);
    /* The kernel compares the word again, so a ring after the caller's check is not missed. */
    (void)syscall(SYS_futex, &b->word, FUTEX_WAIT_PRIVATE, seen, &t, NULL, 0);
    atomic_fetch_sub(&b->sleepers, 1);
}

void assay_bell_wake(assay_bell *b) {
    atomic_fetch_add_explicit(&b->wakes, 1, memory_order_relaxed);
    (void)syscall(SYS_futex, &b->word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
