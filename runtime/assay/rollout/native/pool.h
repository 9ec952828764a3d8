/* The threads of one step: phases of work, each begun when the one before is done.
 *
 * The caller is thread 0. Every thread walks the same list of phases; in each, assay_claim hands out
 * items (the thread's own share first, then what others have left) and assay_phase_end waits until
 * the phase's *items* are done. It does not wait for threads: one that sleeps, or has not woken yet,
 * holds no one up, so that a machine with more threads than cores falls back to the speed of the threads
 * that run, and does not stand still at barriers. Waiting spins first, then parks in the kernel.
 *
 * Phases are numbered through all runs, in steps of ASSAY_TURN_STEP. Cursors and the count of done items carry the number of the
 * phase they belong to; a thread that comes late finds a later number and takes nothing. A run ends
 * when its phases are done and every thread inside has left; threads leave before they park.
 *
 * A thread that dies of a signal (contain.h), the caller's included, breaks the pool: the open run ends
 * unfinished, everyone leaves it, later runs are refused, and the pool can still be stopped.
 */
#ifndef ASSAY_POOL_H
#define ASSAY_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* phase << 32 | items */
typedef struct {
    _Alignas(64) _Atomic uint64_t value;
} assay_cursor;

/* A word that threads wait on: a number, and a mark that a thread sleeps on this number. Who turns it to
 * the next number makes a system call only where the mark stands, and the mark goes with the turn. */
enum { ASSAY_TURN_SLEEPS = 1, ASSAY_TURN_STEP = 2 };

typedef struct {
    _Alignas(64) _Atomic uint32_t value;
} assay_turn;

typedef struct assay_pool assay_pool;

typedef struct {
    assay_pool *pool;
    uint32_t index;
    uint32_t phase;
    uint32_t held; /* items claimed in this phase and not yet reported done */
    uint32_t run;
    uint32_t inside; /* 1: counted by the gate */
} assay_walker;

typedef struct {
    pthread_t handle;
    assay_walker walker;
} assay_thread;

struct assay_pool {
    _Alignas(64) _Atomic uint64_t done; /* phase << 32 | items of it that are done */
    assay_turn completed; /* the phase at hand; phases are numbered as turns are */
    _Alignas(64) _Atomic uint64_t gate; /* run << 32 | open << 31 | pool threads inside */
    assay_turn run_turn;
    assay_turn left; /* counts threads that left a closed run */
    _Alignas(64) _Atomic uint64_t parks;
    _Atomic uint32_t stop;
    _Atomic uint32_t broken;
    uint32_t running; /* 1 from the begin of a run to its end */
    uint32_t first_phase; /* of the open run */
    uint32_t n_threads;
    uint32_t n_started; /* threads besides the caller */
    uint32_t spin_max;
    int32_t first_cpu;
    /* 1 when it walked all phases, 0 when an assay_phase_end said so. */
    int (*body)(void *context, assay_walker *walker);
    void *context;
    assay_cursor *cursors; /* [n_threads] */
    assay_thread *threads; /* [n_threads]; entry 0 is the caller's */
};

/* cursors and threads point to room that outlives the pool. Returns 0 or an errno. */
int assay_pool_start(assay_pool *pool);
void assay_pool_stop(assay_pool *pool);

/* Runs body on all threads and returns when its phases are done; 0, or -1 when the pool is broken. */
int assay_pool_run(assay_pool *pool);

/* Wakes threads that sleep between runs, so that the next run finds them spinning and makes no system
 * call for them. By the thread that runs, between runs; it costs one load when none sleeps. */
void assay_pool_rouse(assay_pool *pool);

/* Takes up to grain of a phase's total > 0 items; 0 when none is left. What was taken counts as done
 * when the thread asks in vain. */
int assay_claim(assay_walker *walker, uint32_t total, uint32_t grain, uint32_t *begin,
                uint32_t *end);
/* Waits for the phase to be done. Returns 0 when the run went on without this thread: the body then
 * returns at once, looking at nothing of the run. */
int assay_phase_end(assay_walker *walker);

#endif
