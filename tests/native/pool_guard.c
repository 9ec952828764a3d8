/* The hot-path guard over a pool's threads:
 * pool_guard nothing|syscall|malloc|fault|sleep|compute|idle|roused
 *
 * The caller takes no item, so every item is the pool's other thread's, which misbehaves in each of them
 * as its argument says. The guard is armed and disarmed while that thread sleeps. With `idle` and
 * `roused` both threads take items, and the other thread has parked before each run;
 * `roused` wakes it before the run. With `compute` an item takes longer than a wait
 * spins. With these three the caller is watched too. Prints what the guard saw as JSON.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "guard.h"
#include "pool.h"

enum {
    RUNS = 200,
    IDLE_RUNS = 20,
    SPINS_LONG = 20000,
    WARM_RUNS = 8,
    FOLLOW_MS_MAX = 10000,
    PAGE = 4096,
    COMPUTE_NS = 5000000
};

static const char *misbehaviour;
static char *fresh_pages;
static uint32_t fresh_used;
static void *volatile kept;
static bool between_idle, both_watched;

/* For several times as long as the caller spins, on the CPU throughout. */
static void compute(void) {
    struct timespec now, begun;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
    do {
        for (volatile int i = 0; i < 10000; i++) continue;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while ((now.tv_sec - begun.tv_sec) * 1000000000 + now.tv_nsec - begun.tv_nsec < COMPUTE_NS);
}

static void misbehave(void) {
    if (strcmp(misbehaviour, "syscall") == 0) (void)syscall(SYS_getppid);
    if (strcmp(misbehaviour, "sleep") == 0) (void)usleep(1000);
    if (strcmp(misbehaviour, "compute") == 0) compute();
    if (strcmp(misbehaviour, "malloc") == 0) {
        kept = malloc(64);
        free(kept);
    }
    if (strcmp(misbehaviour, "fault") == 0) fresh_pages[(size_t)PAGE * fresh_used++] = 1;
}

static int body(void *context, assay_walker *walker) {
    uint32_t begin, end;
    (void)context;
    while ((between_idle || walker->index != 0) && assay_claim(walker, 1, 1, &begin, &end)) misbehave();
    return assay_phase_end(walker);
}

/* 1 once every hot thread has followed the last arm or disarm. */
static int followed(void) {
    assay_guard_report report;
    for (int ms = 0; ms < FOLLOW_MS_MAX; ms++) {
        assay_guard_read(&report);
        if (report.unsettled == 0) return 1;
        usleep(1000);
    }
    return 0;
}

/* 1 once a thread has parked since `parks` was read, and has had time to sleep. */
static int has_parked(assay_pool *pool, uint64_t parks) {
    for (int ms = 0; ms < FOLLOW_MS_MAX; ms++) {
        usleep(1000);
        if (atomic_load(&pool->parks) != parks) return usleep(1000) == 0;
        if (ms % 100 == 99) assay_pool_rouse(pool); /* it slept when `parks` was read */
    }
    return 0;
}

static void run_watched(assay_pool *pool) {
    assay_guard_hot_begin();
    assay_pool_run(pool);
    assay_guard_hot_end();
}

static int run_after_idling(assay_pool *pool, bool roused) {
    uint64_t parks = atomic_load(&pool->parks);
    assay_pool_rouse(pool); /* so that it has to park again */
    for (int i = 0; i < IDLE_RUNS; i++) {
        if (!has_parked(pool, parks)) return 0;
        if (roused) assay_pool_rouse(pool);
        parks = atomic_load(&pool->parks);
        run_watched(pool);
    }
    return 1;
}

int main(int argc, char **argv) {
    static assay_cursor cursors[2];
    static assay_thread threads[2];
    static assay_pool pool;
    assay_guard_report report;
    if (argc != 2) return 2;
    misbehaviour = argv[1];
    const bool roused = strcmp(misbehaviour, "roused") == 0;
    between_idle = roused || strcmp(misbehaviour, "idle") == 0;
    both_watched = between_idle || strcmp(misbehaviour, "compute") == 0;
    fresh_pages = mmap(NULL, (size_t)PAGE * (RUNS + WARM_RUNS), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pool = (assay_pool){.n_threads = 2,
                        .spin_max = both_watched ? SPINS_LONG : 100,
                        .first_cpu = -1,
                        .body = body,
                        .cursors = cursors,
                        .threads = threads};
    if (fresh_pages == MAP_FAILED || assay_pool_start(&pool) != 0) return 3;
    if (both_watched) assay_guard_thread_enter();
    for (int i = 0; i < WARM_RUNS; i++) assay_pool_run(&pool);
    assay_guard_arm();
    if (both_watched) assay_guard_follow();
    if (!followed()) return 4;
    if (between_idle && !run_after_idling(&pool, roused)) return 6;
    for (int i = 0; i < RUNS && !between_idle; i++) run_watched(&pool);
    assay_guard_disarm();
    if (both_watched) assay_guard_follow();
    if (!followed()) return 5;
    assay_guard_read(&report);
    assay_pool_stop(&pool);
    printf("{\"threads\": %" PRIu64 ", \"sections\": %" PRIu64 ", \"syscalls\": %" PRIu64
           ", \"allocations\": %" PRIu64 ", \"faults_minor\": %" PRIu64 ", \"traps_syscalls\": %u"
           ", \"counts_allocations\": %u, \"waits\": %" PRIu64
           ", \"waits_unforced\": %" PRIu64 ", \"preempted\": %" PRIu64 "}\n",
           report.threads, report.sections, report.syscalls, report.allocations,
           report.faults_minor, report.traps_syscalls, report.counts_allocations, report.waits,
           report.waits_unforced, report.preempted);
    return 0;
}
