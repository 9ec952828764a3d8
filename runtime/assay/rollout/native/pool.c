/* See pool.h. */
#define _GNU_SOURCE
#include "pool.h"

#include <limits.h>
#include <sched.h>
#include <stddef.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

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

static void wait_past(assay_pool *pool, _Atomic uint32_t *word, uint32_t seen) {
    for (uint32_t i = 0; i < pool->spin_max; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != seen) {
            return;
        }
        pause_briefly();
    }
    atomic_fetch_add(&pool->parked, 1);
    atomic_fetch_add_explicit(&pool->parks, 1, memory_order_relaxed);
    while (atomic_load(word) == seen) {
        park(word, seen);
    }
    atomic_fetch_sub(&pool->parked, 1);
}

/* The store and the look at `parked` are sequentially consistent, as are their counterparts in
 * wait_past: either the waiter sees the new turn or we see the waiter. */
static void turn(assay_pool *pool, _Atomic uint32_t *word) {
    atomic_fetch_add(word, 1);
    if (atomic_load(&pool->parked) != 0) {
        unpark_all(word);
    }
}

static void reset_cursors(assay_pool *pool, uint32_t set) {
    for (uint32_t i = 0; i < pool->n_threads; i++) {
        atomic_store_explicit(&pool->cursors[set * pool->n_threads + i].next, 0,
                              memory_order_relaxed);
    }
}

/* Phase i uses cursor set i % 3. When the last thread arrives here, set i is used up, set i + 1 is
 * clean, and nobody can look at set i + 2 yet. */
void assay_barrier(assay_worker *worker) {
    assay_pool *pool = worker->pool;
    worker->phase++;
    worker->claimed = 0;
    if (pool->n_threads == 1) {
        return;
    }
    const uint32_t seen = atomic_load_explicit(&pool->barrier_turn, memory_order_acquire);
    if (atomic_fetch_add_explicit(&pool->arrived, 1, memory_order_acq_rel) + 1 ==
        pool->n_threads) {
        atomic_store_explicit(&pool->arrived, 0, memory_order_relaxed);
        reset_cursors(pool, (worker->phase + 1) % 3);
        turn(pool, &pool->barrier_turn);
    } else {
        wait_past(pool, &pool->barrier_turn, seen);
    }
}

static uint32_t share_start(uint32_t total, uint32_t n_threads, uint32_t index) {
    return (uint32_t)((uint64_t)total * index / n_threads);
}

int assay_claim(assay_worker *worker, uint32_t total, uint32_t grain, uint32_t *begin,
                uint32_t *end) {
    assay_pool *pool = worker->pool;
    const uint32_t n = pool->n_threads;
    if (n == 1) {
        *begin = 0;
        *end = total;
        return total != 0 && worker->claimed++ == 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t owner = (worker->index + i) % n;
        const uint32_t start = share_start(total, n, owner);
        const uint32_t stop = share_start(total, n, owner + 1);
        _Atomic uint32_t *next = &pool->cursors[worker->phase % 3 * n + owner].next;
        if (atomic_load_explicit(next, memory_order_relaxed) >= stop - start) {
            continue;
        }
        const uint32_t at = atomic_fetch_add_explicit(next, grain, memory_order_relaxed);
        if (at < stop - start) {
            *begin = start + at;
            *end = stop - start - at < grain ? stop : start + at + grain;
            return 1;
        }
    }
    return 0;
}

static void run_as(assay_worker *worker) {
    worker->phase = 0;
    worker->claimed = 0;
    worker->pool->body(worker->pool->context, worker);
    assay_barrier(worker);
}

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

static void *thread_main(void *argument) {
    assay_worker *worker = argument;
    assay_pool *pool = worker->pool;
    pin(pool, worker->index);
    for (uint32_t seen = 0;; seen++) {
        wait_past(pool, &pool->run_turn, seen);
        if (atomic_load(&pool->stop) != 0) {
            return NULL;
        }
        run_as(worker);
    }
}

int assay_pool_start(assay_pool *pool) {
    for (uint32_t i = 0; i < pool->n_threads; i++) {
        pool->threads[i].worker = (assay_worker){.pool = pool, .index = i};
    }
    for (uint32_t i = 1; i < pool->n_threads; i++) {
        const int error =
            pthread_create(&pool->threads[i].handle, NULL, thread_main, &pool->threads[i].worker);
        if (error != 0) {
            assay_pool_stop(pool);
            return error;
        }
        pool->n_started++;
    }
    return 0;
}

void assay_pool_stop(assay_pool *pool) {
    atomic_store(&pool->stop, 1);
    turn(pool, &pool->run_turn);
    for (uint32_t i = 1; i <= pool->n_started; i++) {
        pthread_join(pool->threads[i].handle, NULL);
    }
    pool->n_started = 0;
}

void assay_pool_run(assay_pool *pool) {
    if (pool->n_threads > 1) {
        for (uint32_t set = 0; set < 3; set++) {
            reset_cursors(pool, set);
        }
        turn(pool, &pool->run_turn);
    }
    run_as(&pool->threads[0].worker);
}
