/* See pool.h. */
#define _GNU_SOURCE
#include "pool.h"

#include <limits.h>
#include <sched.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#include "contain.h"
#include "guard.h"
#include "pool_usage.h"

#define GATE_OPEN ((uint64_t)1 << 31)

static void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

static void park(_Atomic uint32_t *word, uint32_t seen) {
#if defined(__linux__)
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
#else
    (void)word;
    (void)seen;
    sched_yield();
#endif
}

static void unpark_all(_Atomic uint32_t *word) {
#if defined(__linux__)
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
#else
    (void)word;
#endif
}

static uint32_t number_of(uint32_t value) {
    return value & ~(uint32_t)ASSAY_TURN_SLEEPS;
}

static uint32_t number_now(assay_turn *turn) {
    return number_of(atomic_load(&turn->value));
}

enum { FETCH_LINE = 64, FETCH_AT_ONCE = 2 };

/* Two lines per look at the word that the thread waits for; 0 when there is nothing left to fetch. */
static int fetch_some(assay_walker *walker) {
    for (int i = 0; i < FETCH_AT_ONCE && walker->fetch < walker->fetch_end; i++) {
        __builtin_prefetch(walker->fetch, 0, 2);
        walker->fetch += FETCH_LINE;
    }
    return walker->fetch < walker->fetch_end;
}

/* 1 as soon as the number differs from `seen`, 0 when it did not change while spinning. Memory is idle
 * meanwhile, so the thread fetches what it will read. */
static int spin_past(assay_walker *walker, assay_turn *turn, uint32_t seen, uint32_t spins) {
    for (uint32_t i = 0; i < spins; i++) {
        if (number_of(atomic_load_explicit(&turn->value, memory_order_acquire)) != seen) {
            return 1;
        }
        if (!fetch_some(walker)) {
            pause_briefly();
        }
    }
    return 0;
}

/* As spin_past, over the pool's limit; says why when it returns 0. */
static int spin_to_limit(assay_walker *walker, assay_turn *turn, uint32_t seen, int in_run,
                         uint32_t *forced) {
    const assay_pool *pool = walker->pool;
    const uint32_t half = pool->spin_max / 2;
    *forced = 1;
    if (spin_past(walker, turn, seen, half)) {
        return 1;
    }
    if (!assay_guard_watches()) {
        return spin_past(walker, turn, seen, pool->spin_max - half);
    }
    const assay_pool_usage before = assay_pool_look(walker, in_run);
    if (spin_past(walker, turn, seen, pool->spin_max - half)) {
        return 1;
    }
    const assay_pool_usage after = assay_pool_look(walker, in_run);
    *forced = (uint32_t)!assay_pool_all_ran(pool, &before, &after);
    return 0;
}

/* The mark is set on the number that is waited for, so the thread that advances the word clears it, and
 * no later turn makes a system call for a thread that is already waking. */
static void park_past(assay_pool *pool, assay_turn *turn, uint32_t seen, uint32_t forced) {
    atomic_fetch_add_explicit(&pool->parks, 1, memory_order_relaxed);
    atomic_store_explicit(&turn->forced, forced, memory_order_relaxed);
    for (;;) {
        uint32_t value = atomic_load(&turn->value);
        if (number_of(value) != seen) {
            return;
        }
        if (value != seen || atomic_compare_exchange_strong(&turn->value, &value,
                                                            seen | ASSAY_TURN_SLEEPS)) {
            park(&turn->value, seen | ASSAY_TURN_SLEEPS);
        }
    }
}

/* Outside a run. */
static void wait_past(assay_walker *walker, assay_turn *turn, uint32_t seen) {
    uint32_t forced;
    if (!spin_to_limit(walker, turn, seen, 0, &forced)) {
        park_past(walker->pool, turn, seen, forced);
    }
}

/* Inside a run: on the step's path, and counted as such. */
static void park_in_run(assay_pool *pool, assay_turn *turn, uint32_t seen, uint32_t forced) {
    assay_guard_hot_end();
    assay_guard_wait(forced);
    park_past(pool, turn, seen, forced);
    assay_guard_hot_begin();
}

/* The next number; 1 when a thread sleeps on the one before. */
static int advance(assay_turn *turn) {
    uint32_t value = atomic_load(&turn->value);
    while (!atomic_compare_exchange_weak(&turn->value, &value,
                                         number_of(value) + ASSAY_TURN_STEP)) {
    }
    return (value & ASSAY_TURN_SLEEPS) != 0;
}

/* On the step's path. */
static void turn_word(assay_turn *turn) {
    if (advance(turn)) {
        assay_guard_hot_end();
        assay_guard_wait(atomic_load_explicit(&turn->forced, memory_order_relaxed));
        unpark_all(&turn->value);
        assay_guard_hot_begin();
    }
}

/* ------------------------------------------------------------------------------------------------
 * The gate: which threads may look at a run. */

static int enter_run(assay_walker *walker, uint32_t run) {
    assay_pool *pool = walker->pool;
    uint64_t gate = atomic_load(&pool->gate);
    do {
        if ((gate & GATE_OPEN) == 0 || (uint32_t)(gate >> 32) != run) {
            return 0;
        }
    } while (!atomic_compare_exchange_weak(&pool->gate, &gate, gate + 1));
    walker->inside = 1;
    return 1;
}

static void leave_run(assay_walker *walker) {
    assay_pool *pool = walker->pool;
    walker->inside = 0;
    const uint64_t before = atomic_fetch_sub(&pool->gate, 1);
    if ((before & GATE_OPEN) == 0) {
        turn_word(&pool->left);
    }
}

static void open_run(assay_pool *pool) {
    const uint32_t run = (uint32_t)(atomic_load(&pool->gate) >> 32) + 1;
    pool->first_phase = number_now(&pool->completed);
    atomic_store(&pool->gate, (uint64_t)run << 32 | GATE_OPEN);
    turn_word(&pool->run_turn);
}

static void close_run(assay_pool *pool) {
    assay_walker *caller = &pool->threads[0].walker;
    uint32_t forced;
    uint32_t seen = number_now(&pool->left);
    uint64_t inside = atomic_fetch_and(&pool->gate, ~GATE_OPEN) & (GATE_OPEN - 1);
    while (inside != 0) {
        if (!spin_to_limit(caller, &pool->left, seen, 1, &forced)) {
            park_in_run(pool, &pool->left, seen, forced);
        }
        seen = number_now(&pool->left);
        inside = atomic_load(&pool->gate) & (GATE_OPEN - 1);
    }
}

/* ------------------------------------------------------------------------------------------------
 * Phases */

static uint32_t phase_of(uint64_t tagged) {
    return (uint32_t)(tagged >> 32);
}

/* Items already counted for `phase`; 0 if the word holds an earlier phase's number. */
static uint32_t count_of(uint64_t tagged, uint32_t phase) {
    return phase_of(tagged) == phase ? (uint32_t)tagged : 0;
}

static int is_later(uint64_t tagged, uint32_t phase) {
    return (int32_t)(phase_of(tagged) - phase) > 0;
}

static void report_done(assay_walker *walker, uint32_t total) {
    assay_pool *pool = walker->pool;
    if (walker->held == 0) {
        return;
    }
    uint64_t before = atomic_load_explicit(&pool->done, memory_order_relaxed);
    uint32_t count;
    do {
        count = count_of(before, walker->phase) + walker->held;
    } while (!atomic_compare_exchange_weak_explicit(
        &pool->done, &before, (uint64_t)walker->phase << 32 | count, memory_order_acq_rel,
        memory_order_relaxed));
    walker->held = 0;
    if (count == total) {
        turn_word(&pool->completed);
    }
}

static int claim_from(assay_walker *walker, uint32_t owner, uint32_t share, uint32_t grain,
                      uint32_t *at) {
    _Atomic uint64_t *cursor = &walker->pool->cursors[owner].value;
    uint64_t before = atomic_load_explicit(cursor, memory_order_relaxed);
    do {
        *at = count_of(before, walker->phase);
        if (is_later(before, walker->phase) || *at >= share) {
            return 0;
        }
        grain = share - *at < grain ? share - *at : grain;
    } while (!atomic_compare_exchange_weak_explicit(
        cursor, &before, (uint64_t)walker->phase << 32 | (*at + grain), memory_order_relaxed,
        memory_order_relaxed));
    walker->held += grain;
    return 1;
}

static uint32_t share_start(uint32_t total, uint32_t n_threads, uint32_t index) {
    return (uint32_t)((uint64_t)total * index / n_threads);
}

int assay_claim(assay_walker *walker, uint32_t total, uint32_t grain, uint32_t *begin,
                uint32_t *end) {
    const uint32_t n = walker->pool->n_threads;
    if (n == 1) {
        *begin = 0;
        *end = total;
        return walker->held++ == 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t owner = (walker->index + i) % n;
        const uint32_t start = share_start(total, n, owner);
        const uint32_t share = share_start(total, n, owner + 1) - start;
        const uint32_t held = walker->held;
        uint32_t at;
        if (claim_from(walker, owner, share, grain, &at)) {
            *begin = start + at;
            *end = *begin + (walker->held - held);
            return 1;
        }
    }
    report_done(walker, total);
    return 0;
}

void assay_fetch_later(assay_walker *walker, const uint8_t *items, uint32_t total,
                       size_t item_bytes) {
    const uint32_t n = walker->pool->n_threads;
    const uint32_t start = share_start(total, n, walker->index);
    const size_t bytes = (share_start(total, n, walker->index + 1) - start) * item_bytes;
    walker->fetch = items + start * item_bytes;
    walker->fetch_end = walker->fetch + (bytes < ASSAY_FETCH_MAX ? bytes : ASSAY_FETCH_MAX);
}

/* Wakes all threads; afterwards no wait for a phase blocks. */
static void break_pool(assay_pool *pool) {
    atomic_store(&pool->broken, 1);
    turn_word(&pool->completed);
}

/* 1 unless the pool broke; then the thread is out of the run. */
static int goes_on(assay_walker *walker) {
    if (atomic_load_explicit(&walker->pool->broken, memory_order_acquire) == 0) {
        return 1;
    }
    if (walker->inside) {
        leave_run(walker);
    }
    return 0;
}

int assay_phase_end(assay_walker *walker) {
    assay_pool *pool = walker->pool;
    const uint32_t phase = walker->phase;
    uint32_t forced;
    walker->phase += ASSAY_TURN_STEP;
    walker->held = 0;
    if (pool->n_threads == 1) {
        return 1;
    }
    if (spin_to_limit(walker, &pool->completed, phase, 1, &forced)) {
        return goes_on(walker);
    }
    if (walker->index == 0) {
        park_in_run(pool, &pool->completed, phase, forced);
        return goes_on(walker);
    }
    leave_run(walker);
    park_in_run(pool, &pool->completed, phase, forced);
    return goes_on(walker) && enter_run(walker, walker->run);
}

/* ------------------------------------------------------------------------------------------------
 * Threads */

static void pin(const assay_pool *pool, uint32_t index) {
#if defined(__linux__)
    if (pool->first_cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((size_t)pool->first_cpu + index, &set);
        /* A refused pin costs speed, not results. */
        (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    }
#else
    (void)pool;
    (void)index;
#endif
}

static void join_run(assay_walker *walker) {
    assay_pool *pool = walker->pool;
    walker->run = (uint32_t)(atomic_load(&pool->gate) >> 32);
    if (enter_run(walker, walker->run)) {
        walker->phase = pool->first_phase;
        walker->held = 0;
        assay_guard_hot_begin();
        if (pool->body(pool->context, walker)) {
            leave_run(walker);
        }
        assay_guard_hot_end();
    }
}

static void join_runs(void *argument) {
    assay_walker *walker = argument;
    assay_pool *pool = walker->pool;
    for (uint32_t seen = 0;;) {
        wait_past(walker, &pool->run_turn, seen);
        seen = number_now(&pool->run_turn);
        if (atomic_load(&pool->stop) != 0) {
            break;
        }
        assay_guard_follow();
        join_run(walker);
    }
}

static void *thread_main(void *argument) {
    assay_walker *walker = argument;
    pin(walker->pool, walker->index);
    assay_name_thread("assay-decode");
    assay_pool_note_clock(&walker->pool->threads[walker->index]);
    (void)assay_pool_read_usage(walker); /* touches its pages before a watched window counts faults */
    assay_guard_thread_enter();
    if (assay_contain(join_runs, walker) != 0) {
        break_pool(walker->pool);
        if (walker->inside) {
            leave_run(walker);
        }
        assay_guard_hot_end();
    }
    assay_guard_thread_leave();
    return NULL;
}

/* A turn without an open run: sleeping threads wake, find no work, and spin for a while before
 * they sleep again. */
static void wake_threads(assay_pool *pool) {
    if (advance(&pool->run_turn)) {
        unpark_all(&pool->run_turn.value);
    }
}

static void wake_for_guard(void *pool) {
    wake_threads(pool);
}

void assay_pool_rouse(assay_pool *pool) {
    const uint32_t value = atomic_load_explicit(&pool->run_turn.value, memory_order_relaxed);
    if ((value & ASSAY_TURN_SLEEPS) != 0 && !pool->running) {
        wake_threads(pool);
    }
}

int assay_pool_start(assay_pool *pool) {
    const uint64_t before_first = (uint64_t)UINT32_MAX << 32;
    atomic_store(&pool->done, before_first);
    for (uint32_t i = 0; i < pool->n_threads; i++) {
        pool->threads[i].walker = (assay_walker){.pool = pool, .index = i};
        atomic_store(&pool->cursors[i].value, before_first);
    }
    if (pool->n_threads > 1) {
        (void)assay_guard_wake_by(wake_for_guard, pool);
    }
    for (uint32_t i = 1; i < pool->n_threads; i++) {
        const int error =
            pthread_create(&pool->threads[i].handle, NULL, thread_main, &pool->threads[i].walker);
        if (error != 0) {
            assay_pool_stop(pool);
            return error;
        }
        pool->n_started++;
    }
    return 0;
}

void assay_pool_stop(assay_pool *pool) {
    assay_guard_forget(pool);
    atomic_store(&pool->stop, 1);
    break_pool(pool);
    turn_word(&pool->run_turn);
    for (uint32_t i = 1; i <= pool->n_started; i++) {
        pthread_join(pool->threads[i].handle, NULL);
    }
    pool->n_started = 0;
}

int assay_pool_run(assay_pool *pool) {
    assay_walker *caller = &pool->threads[0].walker;
    caller->held = 0;
    if (pool->n_threads == 1) {
        pool->body(pool->context, caller);
        return 0;
    }
    /* A run that never ended: its caller died in it. */
    if (pool->running || atomic_load(&pool->broken) != 0) {
        return -1;
    }
    pool->running = 1;
    assay_pool_note_clock(&pool->threads[0]);
    open_run(pool);
    caller->phase = pool->first_phase;
    const int whole = pool->body(pool->context, caller);
    close_run(pool);
    pool->running = 0;
    return whole ? 0 : -1;
}
