/* See worker.h: the thread that iterates. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>

#include "contain.h"
#include "guard.h"
#include "worker_parts.h"

enum { PARK_NS = 100 * 1000 * 1000 };

/* Makes a system call only for a host that has parked. */
static void tell_host(assay_worker *w) {
    if (w->dones_staged || w->rewards_posted) assay_bell_ring(&w->host);
    w->dones_staged = w->rewards_posted = 0;
}

bool assay_worker_iterate(assay_worker *w) {
    assay_guard_hot_begin();
    bool any = assay_worker_pass(w);
    assay_guard_hot_end();
    tell_host(w);
    return any;
}

bool assay_worker_runs_nothing(const assay_worker *w) {
    return w->prefilling.n == 0 && w->active.n == 0 &&
           assay_ring_length(assay_decode_ring(w->region)) == 0;
}

static bool wants_hold(assay_worker *w) {
    if (atomic_load(&w->stop)) return false;
    return atomic_load(&w->pauses) || atomic_load(&w->retracts) ||
           (atomic_load(&w->finishes) && assay_worker_runs_nothing(w));
}

static bool asked(assay_worker *w) {
    return atomic_load_explicit(&w->stop, memory_order_relaxed) || wants_hold(w);
}

/* Sleeping threads of the engine are woken here, outside the guarded iteration, and are spinning when
 * the step starts. */
static void rouse_engine(const assay_worker *w) {
    if (w->engine->rouse != NULL) w->engine->rouse(w->engine->self);
}

static bool has_orders(const assay_worker *w) {
    return assay_queue_length(assay_prefill_queue(w->region)) != 0;
}

/* Look for work for spin_ns, then park until rung. A timeout bounds the cost of a lost wake-up. */
static void idle(assay_worker *w) {
    uint64_t limit = (uint64_t)((double)w->settings.spin_ns / assay_clock_of()->ns_per_tick);
    uint64_t begin = assay_ticks();
    uint32_t seen = assay_bell_read(&w->bell);
    do {
        if (asked(w)) return;
        if (has_orders(w)) rouse_engine(w);
        if (assay_worker_iterate(w)) return;
        assay_relax();
    } while (assay_ticks() - begin < limit);
    if (assay_bell_read(&w->bell) == seen) assay_bell_park(&w->bell, seen, PARK_NS);
    if (has_orders(w)) rouse_engine(w);
}

/* A caller that knows the worker is held must not see KV move: while rollouts run, a retraction waits
 * until those callers have resumed, and `held` stays unset until it is done. */
static bool must_let_go(assay_worker *w, enum assay_held level) {
    return level == ASSAY_HELD_RUNNING && atomic_load(&w->pauses) == 0;
}

static void hold(assay_worker *w) {
    if (atomic_load(&w->retracts) && atomic_load(&w->pauses) == 0) assay_worker_retract(w);
    enum assay_held level = assay_worker_runs_nothing(w) ? ASSAY_HELD_EMPTY : ASSAY_HELD_RUNNING;
    atomic_store(&w->held, level);
    assay_bell_ring(&w->host);
    while (wants_hold(w) && !must_let_go(w, level)) {
        uint32_t seen = assay_bell_read(&w->bell);
        if (wants_hold(w) && !must_let_go(w, level)) assay_bell_park(&w->bell, seen, PARK_NS);
    }
    atomic_store(&w->held, ASSAY_HELD_NOT);
    if (!assay_worker_runs_nothing(w)) rouse_engine(w);
}

/* ---- the thread ---------------------------------------------------------------------------------- */

static void pin(int32_t cpu) {
    cpu_set_t set;
    if (cpu < 0) return;
    CPU_ZERO(&set);
    CPU_SET((unsigned)cpu, &set);
    (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void work(void *worker) {
    assay_worker *w = worker;
    while (!atomic_load_explicit(&w->stop, memory_order_relaxed) && !assay_worker_crashed(w)) {
        while (wants_hold(w)) hold(w);
        if (!assay_worker_iterate(w)) idle(w);
    }
}

void *assay_worker_run(void *worker) {
    assay_worker *w = worker;
    pin(w->settings.cpu);
    assay_name_thread("assay-decode");
    assay_guard_thread_enter();
    int number = assay_contain(work, w);
    if (number != 0) {
        assay_guard_hot_end();
        assay_worker_crash(w, ASSAY_CRASH_SIGNAL, number);
    }
    assay_guard_thread_leave();
    atomic_store(&w->state, assay_worker_crashed(w) ? ASSAY_WORKER_CRASHED : ASSAY_WORKER_STOPPED);
    assay_bell_ring(&w->host);
    return NULL;
}
