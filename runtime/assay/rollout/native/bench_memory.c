/* See bench.h: how fast threads can read memory. */
#include <math.h>
#include <string.h>

#include "bench.h"
#include "engine.h"
#include "isa.h"
#include "pool.h"

enum { SWEEP_SPINS = 20000, SWEEP_THREADS_MAX = 256 };

typedef struct {
    const uint8_t *buffer;
    size_t bytes;
    uint32_t into_l2;
    _Atomic uint32_t seen;
} sweep;

static int sweep_body(void *context, assay_walker *walker) {
    enum { PIECE = 1 << 16, GRAIN = 4 };
    sweep *s = context;
    const assay_kernels *kernels = assay_kernels_for(ASSAY_ISA_AUTO);
    uint32_t begin;
    uint32_t end;
    while (assay_claim(walker, (uint32_t)(s->bytes / PIECE), GRAIN, &begin, &end)) {
        const uint32_t seen = kernels->read_all(s->buffer + (size_t)begin * PIECE,
                                                (size_t)(end - begin) * PIECE, s->into_l2);
        atomic_fetch_or_explicit(&s->seen, seen, memory_order_relaxed);
    }
    return assay_phase_end(walker);
}

double assay_read_sweep_seconds(const void *buffer, size_t bytes, uint32_t n_threads,
                                uint32_t n_times) {
    sweep work = {.buffer = buffer, .bytes = bytes};
    assay_cursor cursors[SWEEP_THREADS_MAX];
    assay_thread threads[SWEEP_THREADS_MAX];
    assay_pool pool;
    memset(&pool, 0, sizeof pool);
    if (n_threads == 0 || n_threads > SWEEP_THREADS_MAX) {
        return NAN;
    }
    pool.n_threads = n_threads;
    pool.spin_max = SWEEP_SPINS;
    pool.first_cpu = -1;
    pool.body = sweep_body;
    pool.context = &work;
    pool.cursors = cursors;
    pool.threads = threads;
    if (assay_pool_start(&pool) != 0) {
        return NAN;
    }
    double best = INFINITY;
    for (uint32_t i = 0; i < 2 * n_times; i++) {
        work.into_l2 = i % 2;
        const uint64_t begun = assay_monotonic_ns();
        assay_pool_run(&pool);
        const double took = (double)(assay_monotonic_ns() - begun) * 1e-9;
        best = took < best ? took : best;
    }
    assay_pool_stop(&pool);
    return best;
}
