/* The threads of one step: phases of work, each started when the one before is done.
 *
 * The caller is thread 0. Every thread runs the same list of phases; in each, assay_claim returns
 * items (the thread's own share first, then items left by others) and assay_phase_end waits until
 * the phase's *items* are done. It does not wait for threads: one that sleeps, or has not woken yet,
 * delays no other, so a machine with more threads than cores slows down to the speed of the running
 * threads and does not stall at barriers. Waiting spins first, then parks in the kernel.
 *
 * Phases are numbered through all runs, in steps of ASSAY_TURN_STEP. Cursors and the count of done items carry the number of the
 * phase they belong to; a late thread finds a later number and takes nothing. A run ends
 * when its phases are done and every thread inside has left; threads leave before they park.
 *
 * A thread that dies of a signal (contain.h), the caller's included, breaks the pool: the open run ends
 * unfinished, all threads leave it, later runs are refused, and the pool can still be stopped.
 */
#ifndef ASSAY_POOL_H
#define ASSAY_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* phase << 32 | items */
typedef struct {
    _Alignas(64) _Atomic uint64_t value;
} assay_cursor;

/* A word that threads wait on: a number, and a mark that a thread sleeps on this number. The thread that
 * advances it makes a system call only if the mark is set; advancing clears the mark. */
enum { ASSAY_TURN_SLEEPS = 1, ASSAY_TURN_STEP = 2 };

typedef struct {
    _Alignas(64) _Atomic uint32_t value;
    _Atomic uint32_t forced; /* why the last thread parked on it; see assay_guard_wait */
} assay_turn;

/* Bytes of a later phase that one thread fetches while it waits: a part of any second-level cache. */
enum { ASSAY_FETCH_MAX = 128 << 10 };

typedef struct assay_pool assay_pool;

typedef struct {
    assay_pool *pool;
    uint32_t index;
    uint32_t phase;
    uint32_t held; /* items claimed in this phase and not yet reported done */
    uint32_t run;
    uint32_t inside; /* 1: counted by the gate */
    const uint8_t *fetch; /* memory that the thread will read next: fetched while it waits */
    const uint8_t *fetch_end;
} assay_walker;

typedef struct {
    pthread_t handle;
    assay_walker walker;
    _Atomic clockid_t clock; /* its CPU time */
} assay_thread;

struct assay_pool {
    _Alignas(64) _Atomic uint64_t done; /* phase << 32 | items of it that are done */
    assay_turn completed; /* the current phase; phases are numbered like turns */
    _Alignas(64) _Atomic uint64_t gate; /* run << 32 | open << 31 | pool threads inside */
    assay_turn run_turn;
    assay_turn left; /* counts threads that left a closed run */
    _Alignas(64) _Atomic uint64_t parks;
    _Atomic uint32_t stop;
    _Atomic uint32_t broken;
    uint32_t running; /* 1 from the beginning of a run to its end */
    uint32_t first_phase; /* of the open run */
    uint32_t n_threads;
    uint32_t n_started; /* threads besides the caller */
    uint32_t spin_max;
    int32_t first_cpu;
    /* 1 when it ran all phases, 0 when an assay_phase_end returned 0. */
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
 * call for them. Called by the running thread, between runs; it costs one load when none sleeps. */
void assay_pool_rouse(assay_pool *pool);

/* Takes up to grain of a phase's total > 0 items; 0 when none is left. Taken items count as done
 * when the thread's next claim returns 0. */
int assay_claim(assay_walker *walker, uint32_t total, uint32_t grain, uint32_t *begin,
                uint32_t *end);
/* Names what this thread's own share of a later phase reads first: `total` items of `item_bytes` each
 * from `items` on. Waits fetch it into the cache until ASSAY_FETCH_MAX bytes are there; a hint. */
void assay_fetch_later(assay_walker *walker, const uint8_t *items, uint32_t total, size_t item_bytes);
/* Waits for the phase to be done. Returns 0 when the run continued without this thread: the body then
 * returns at once, without reading anything of the run. */
int assay_phase_end(assay_walker *walker);

#endif
