/* The hot-path guard: detects system calls, allocations and page faults in a section of a thread.
 *
 * While a thread is between hot_begin and hot_end and the guard is armed,
 *   - a system call is trapped by the kernel (syscall user dispatch) and counted;
 *   - malloc and its kin are counted, when the process runs under libassay_guard.so (LD_PRELOAD);
 *   - page faults are the difference of getrusage(RUSAGE_THREAD) over the armed window, which
 *     counts faults in the cold parts too: an upper bound.
 * Disarmed, begin and end cost one predictable branch.
 */
#ifndef ASSAY_GUARD_H
#define ASSAY_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint64_t threads;      /* that were watched */
    uint64_t unsettled;    /* hot threads that have not yet followed the last arm or disarm */
    uint64_t sections;     /* hot sections run while armed */
    uint64_t syscalls;     /* hot sections in which one was made, and all waits */
    uint64_t last_syscall; /* its number */
    uint64_t allocations;  /* malloc, calloc, realloc, free ... in hot sections */
    uint64_t faults_minor;
    uint64_t faults_major;
    uint32_t traps_syscalls;    /* 1: the kernel can trap them here */
    uint32_t counts_allocations;/* 1: libassay_guard.so is loaded */
    uint64_t waits;        /* system calls of a step to park a thread or to wake one */
    uint64_t waits_unforced; /* waits although the pool's other threads had their cores */
    uint64_t preempted;    /* times the scheduler took a watched thread off its core */
} assay_guard_report;

/* Make this thread a hot thread; without this call, the sections below do nothing. */
void assay_guard_thread_enter(void);
void assay_guard_thread_leave(void);

/* Follow the window now, outside a section: for a hot thread that sleeps between sections and was
 * woken for this. */
void assay_guard_follow(void);

/* Arming and disarming call wake(context), so that hot threads that sleep follow at once. Register
 * before they start; forget before the context is freed, after which wake is not called. False: no
 * room, and the threads follow at their next section. */
bool assay_guard_wake_by(void (*wake)(void *context), void *context);
void assay_guard_forget(const void *context);

/* Start and end a window, for all hot threads, from any thread; arming clears the counters. A hot
 * thread joins when it is woken, at the latest at its next section. */
void assay_guard_arm(void);
void assay_guard_disarm(void);
void assay_guard_read(assay_guard_report *out);

/* The parts behind the branches below. */
extern _Atomic(uint32_t) assay_guard_window; /* odd: armed */
typedef struct assay_guard_thread assay_guard_thread;
extern _Thread_local assay_guard_thread *assay_guard_mine;
void assay_guard_hot_begin_slow(void);
void assay_guard_hot_end_slow(void);
void assay_guard_wait_slow(uint32_t forced);
extern _Thread_local uint32_t assay_guard_seen; /* window this thread last took part in */

static inline void assay_guard_hot_begin(void) {
    uint32_t window = atomic_load_explicit(&assay_guard_window, memory_order_relaxed);
    if (window != assay_guard_seen || (window & 1u)) assay_guard_hot_begin_slow();
}

static inline void assay_guard_hot_end(void) {
    if (assay_guard_seen & 1u) assay_guard_hot_end_slow();
}

/* Whether an armed window watches this thread. */
static inline bool assay_guard_watches(void) {
    return assay_guard_mine && (assay_guard_seen & 1u);
}

/* A system call of a step to park or to wake a thread: made outside the sections, where it is not
 * trapped, and counted here. forced: the thread that parked waited for one that had no core. */
static inline void assay_guard_wait(uint32_t forced) {
    if (assay_guard_seen & 1u) assay_guard_wait_slow(forced);
}

#endif
