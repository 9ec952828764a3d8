/* A pool of three threads of which one dies of a signal in the middle of a run:
 *     pool_crash thread    one of the pool's own
 *     pool_crash caller    the caller, contained by its own caller
 *
 * Every run has many phases of many items. Prints "contained" when the run ended, later runs are
 * refused, and the pool could be stopped; a hang is the test's timeout.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "contain.h"
#include "pool.h"

enum { THREADS = 3, PHASES = 40, ITEMS = 64, WARM_RUNS = 50, RUNS_MAX = 10000 };

static uint32_t victim; /* index of the thread that dies */
static _Atomic uint32_t armed;
static volatile int *volatile nowhere;
static int outcome;

static int body(void *context, assay_walker *walker) {
    uint32_t begin, end;
    (void)context;
    for (uint32_t phase = 0; phase < PHASES; phase++) {
        while (assay_claim(walker, ITEMS, 4, &begin, &end))
            if (phase == PHASES / 2 && walker->index == victim && atomic_load(&armed)) *nowhere = 1;
        if (!assay_phase_end(walker)) return 0;
    }
    return 1;
}

static void run_once(void *pool) { outcome = assay_pool_run(pool); }

/* 0 when it went as it should, else the number of the line that says otherwise. */
static int check(assay_pool *pool) {
    for (int i = 0; i < WARM_RUNS; i++)
        if (assay_pool_run(pool) != 0) return __LINE__;
    atomic_store(&armed, 1);
    int died = 0;
    outcome = 0;
    /* On a busy machine the victim may come too late for a phase, or for a whole run. */
    for (int i = 0; i < RUNS_MAX && !died && outcome == 0; i++)
        died = assay_contain(run_once, pool);
    if (victim == 0 && died != SIGSEGV) return __LINE__;
    if (victim != 0 && (died != 0 || outcome == 0)) return __LINE__;
    if (assay_pool_run(pool) == 0) return __LINE__;
    return 0;
}

int main(int argc, char **argv) {
    static assay_cursor cursors[THREADS];
    static assay_thread threads[THREADS];
    static assay_pool pool;
    if (argc != 2) return 2;
    victim = strcmp(argv[1], "caller") == 0 ? 0 : 1;
    pool = (assay_pool){.n_threads = THREADS,
                        .spin_max = 50,
                        .first_cpu = -1,
                        .body = body,
                        .cursors = cursors,
                        .threads = threads};
    if (assay_pool_start(&pool) != 0) return 3;
    int line = check(&pool);
    assay_pool_stop(&pool);
    if (line != 0) {
        printf("line %d\n", line);
        return 1;
    }
    puts("contained");
    return 0;
}
