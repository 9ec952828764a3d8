#define _GNU_SOURCE
#include "clock.h"

#include <pthread.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { CALIBRATION_NS = 10 * 1000 * 1000 };

uint32_t assay_clock_cycles;
static assay_clock the_clock;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint32_t counter_is_invariant(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d >> 8 & 1u);
#elif defined(__aarch64__)
    return 1;
#else
    return 0;
#endif
}

/* Both clocks at one instant: the pair with the least time between the two counter reads. */
static void read_pair(uint64_t *ticks, uint64_t *ns) {
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 16; i++) {
        uint64_t before = assay_ticks(), now = assay_monotonic_ns(), after = assay_ticks();
        if (after - before >= best) continue;
        best = after - before;
        *ticks = before + (after - before) / 2;
        *ns = now;
    }
}

static void calibrate(void) {
    assay_clock_cycles = counter_is_invariant();
    the_clock.cycle_counter = assay_clock_cycles;
    the_clock.ns_per_tick = 1;
    read_pair(&the_clock.ticks0, &the_clock.ns0);
    if (!assay_clock_cycles) return;
    while (assay_monotonic_ns() - the_clock.ns0 < CALIBRATION_NS) continue;
    uint64_t ticks = the_clock.ticks0, ns = the_clock.ns0;
    read_pair(&ticks, &ns);
    the_clock.ns_per_tick = (double)(ns - the_clock.ns0) / (double)(ticks - the_clock.ticks0);
}

const assay_clock *assay_clock_of(void) {
    pthread_once(&once, calibrate);
    return &the_clock;
}
