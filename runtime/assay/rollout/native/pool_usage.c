/* See pool_usage.h. */
#define _GNU_SOURCE
#include "pool_usage.h"

#include <time.h>

#include "guard.h"

enum { LOOK_NS_MAX = 5000, LOST_NS_MAX = 20000 }; /* per thread looked at */

/* 0 for a thread that has ended. */
static uint64_t read_clock(clockid_t clock) {
    struct timespec t;
    return clock_gettime(clock, &t) != 0 ? 0 : (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

assay_pool_usage assay_pool_read_usage(const assay_walker *walker) {
    const assay_pool *pool = walker->pool;
    assay_pool_usage seen = {.now_ns = read_clock(CLOCK_MONOTONIC), .sound = 1};
    for (uint32_t i = 0; i < pool->n_threads; i++) {
        if (i != walker->index) {
            const uint64_t ns = read_clock(atomic_load(&pool->threads[i].clock));
            seen.others_ns += ns;
            seen.sound &= ns != 0;
        }
    }
    seen.sound &= read_clock(CLOCK_MONOTONIC) - seen.now_ns <
                  (uint64_t)LOOK_NS_MAX * (pool->n_threads - 1);
    return seen;
}

assay_pool_usage assay_pool_look(const assay_walker *walker, int in_run) {
    if (!in_run) {
        return assay_pool_read_usage(walker);
    }
    assay_guard_hot_end();
    const assay_pool_usage seen = assay_pool_read_usage(walker);
    assay_guard_hot_begin();
    return seen;
}

int assay_pool_all_ran(const assay_pool *pool, const assay_pool_usage *from, const assay_pool_usage *to) {
    const uint64_t others = pool->n_threads - 1;
    const uint64_t could_ns = (to->now_ns - from->now_ns) * others;
    return from->sound && to->sound &&
           to->others_ns - from->others_ns + LOST_NS_MAX * others > could_ns;
}

void assay_pool_note_clock(assay_thread *thread) {
    clockid_t clock;
    if (pthread_getcpuclockid(pthread_self(), &clock) == 0) {
        atomic_store(&thread->clock, clock);
    }
}
