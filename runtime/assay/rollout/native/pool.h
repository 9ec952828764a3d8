/* The threads of one step: phases with barriers between them, work handed out by cursors.
 *
 * The caller is thread 0. Every thread runs the same body; inside it, assay_claim hands out the work
 * of a phase (own share first, then what slower threads have left) and assay_barrier ends it. Waiting
 * spins first and then parks in the kernel, so that a box with more threads than cores does not
 * burn its time in spinning.
 */
#ifndef ASSAY_POOL_H
#define ASSAY_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

typedef struct {
    _Alignas(64) _Atomic uint32_t next;
} assay_cursor;

typedef struct assay_pool assay_pool;

typedef struct {
    assay_pool *pool;
    uint32_t index;
    uint32_t phase;
    uint32_t claimed; /* alone: the one claim of this phase is taken */
} assay_worker;

typedef struct {
    pthread_t handle;
    assay_worker worker;
} assay_thread;

struct assay_pool {
    _Alignas(64) _Atomic uint32_t arrived;
    _Alignas(64) _Atomic uint32_t barrier_turn;
    _Alignas(64) _Atomic uint32_t run_turn;
    _Alignas(64) _Atomic uint32_t parked;
    _Atomic uint64_t parks;
    _Atomic uint32_t stop;
    uint32_t n_threads;
    uint32_t n_started; /* threads besides the caller */
    uint32_t spin_max;
    int32_t first_cpu;
    void (*body)(void *context, assay_worker *worker);
    void *context;
    assay_cursor *cursors; /* [3][n_threads]: of the phase before, this one, and the next */
    assay_thread *threads; /* [n_threads]; entry 0 is the caller's */
};

/* cursors and threads point to room that outlives the pool. Returns 0 or an errno. */
int assay_pool_start(assay_pool *pool);
void assay_pool_stop(assay_pool *pool);

/* Runs body on all threads and returns when the last is through. */
void assay_pool_run(assay_pool *pool);

void assay_barrier(assay_worker *worker);
/* Takes up to grain of total items; 0 when none is left. */
int assay_claim(assay_worker *worker, uint32_t total, uint32_t grain, uint32_t *begin,
                uint32_t *end);

#endif
