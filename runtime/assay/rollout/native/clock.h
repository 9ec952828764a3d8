/* One clock for every stamp: the invariant cycle counter if the machine has one, CLOCK_MONOTONIC
 * otherwise. Reading it makes no syscall. assay_clock_of converts ticks to nanoseconds. */
#ifndef ASSAY_CLOCK_H
#define ASSAY_CLOCK_H

#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

typedef struct {
    uint64_t ticks0; /* an instant on both clocks */
    uint64_t ns0;    /* CLOCK_MONOTONIC */
    double ns_per_tick;
    uint32_t cycle_counter; /* 0: ticks are nanoseconds of CLOCK_MONOTONIC */
} assay_clock;

extern uint32_t assay_clock_cycles; /* set once by assay_clock_of */

static inline uint64_t assay_monotonic_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t assay_ticks(void) {
#if defined(__x86_64__)
    if (assay_clock_cycles) return __rdtsc();
#elif defined(__aarch64__)
    if (assay_clock_cycles) {
        uint64_t t;
        __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(t));
        return t;
    }
#endif
    return assay_monotonic_ns();
}

/* Calibrated on the first call (about 10 ms of spinning), the same for the whole process. */
const assay_clock *assay_clock_of(void);

static inline uint64_t assay_ticks_to_ns(const assay_clock *c, uint64_t ticks) {
    return c->ns0 + (uint64_t)((double)(int64_t)(ticks - c->ticks0) * c->ns_per_tick);
}

#endif
