/* The hot-path guard over a pool's threads: pool_guard nothing|syscall|malloc|fault|sleep
 *
 * The caller takes no item, so every item is the pool's other thread's, which misbehaves as told in
 * each. The guard is armed and disarmed while that thread sleeps. Prints what the guard saw as JSON.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard.h"
#include "pool.h"

enum { RUNS = 200, WARM_RUNS = 8, FOLLOW_MS_MAX = 10000, PAGE = 4096 };

static const char *misbehaviour;
static char *fresh_pages;
static uint32_t fresh_used;
static void *volatile kept;

static void misbehave(void) {
    if (strcmp(misbehaviour, "syscall") == 0) (void)syscall(SYS_getppid);
    if (strcmp(misbehaviour, "sleep") == 0) (void)usleep(1000);
    if (strcmp(misbehaviour, "malloc") == 0) {
        kept = malloc(64);
        free(kept);
    }
    if (strcmp(misbehaviour, "fault") == 0) fresh_pages[(size_t)PAGE * fresh_used++] = 1;
}

static int body(void *context, assay_walker *walker) {
    uint32_t begin, end;
    (void)context;
    while (walker->index != 0 && assay_claim(walker, 1, 1, &begin, &end)) misbehave();
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

int main(int argc, char **argv) {
    static assay_cursor cursors[2];
    static assay_thread threads[2];
    static assay_pool pool;
    assay_guard_report report;
    if (argc != 2) return 2;
    misbehaviour = argv[1];
    fresh_pages = mmap(NULL, (size_t)PAGE * (RUNS + WARM_RUNS), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pool = (assay_pool){.n_threads = 2,
                        .spin_max = 100,
                        .first_cpu = -1,
                        .body = body,
                        .cursors = cursors,
                        .threads = threads};
    if (fresh_pages == MAP_FAILED || assay_pool_start(&pool) != 0) return 3;
    for (int i = 0; i < WARM_RUNS; i++) assay_pool_run(&pool);
    assay_guard_arm();
    if (!followed()) return 4;
    for (int i = 0; i < RUNS; i++) assay_pool_run(&pool);
    assay_guard_disarm();
    if (!followed()) return 5;
    assay_guard_read(&report);
    assay_pool_stop(&pool);
    printf("{\"threads\": %" PRIu64 ", \"sections\": %" PRIu64 ", \"syscalls\": %" PRIu64
           ", \"allocations\": %" PRIu64 ", \"faults_minor\": %" PRIu64 ", \"traps_syscalls\": %u"
           ", \"counts_allocations\": %u, \"waits\": %" PRIu64 "}\n",
           report.threads, report.sections, report.syscalls, report.allocations,
           report.faults_minor, report.traps_syscalls, report.counts_allocations, report.waits);
    return 0;
}
