/* Threads against the core, for the sanitizers: rings, queues, and a whole runtime under submitters,
 * cancellers, two scorers and a collector. Exits non-zero, with a line on stderr, when something was
 * lost, doubled or reordered. Argument: rounds. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "probe.h"
#include "runtime.h"

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
            exit(1); \
        } \
    } while (0)

enum { CAPACITY = 64, SUBMITTERS = 2, SCORERS = 2 };

static uint64_t rounds;

/* ---- one producer, one consumer: everything once, in order ------------------------------------- */

static void *ring_producer(void *arg) {
    assay_ring *r = arg;
    assay_descriptor batch[7];
    for (uint64_t sent = 0; sent < rounds;) {
        uint64_t n = 1 + sent % 7;
        for (uint64_t i = 0; i < n; i++) {
            batch[i] = (assay_descriptor){.reward_id = sent + i};
            assay_seal(&batch[i]);
        }
        uint64_t pushed = assay_ring_push(r, batch, n < rounds - sent ? n : rounds - sent);
        if (!pushed) sched_yield();
        sent += pushed;
    }
    return NULL;
}

static void check_ring(void) {
    assay_ring *r = aligned_alloc(64, assay_ring_bytes(CAPACITY));
    pthread_t producer;
    assay_descriptor got[5];
    assay_ring_init(r, CAPACITY, UINT64_MAX - 100);
    pthread_create(&producer, NULL, ring_producer, r);
    for (uint64_t seen = 0; seen < rounds;) {
        uint64_t n = assay_ring_pop(r, got, 5);
        if (!n) sched_yield();
        for (uint64_t i = 0; i < n; i++) CHECK(assay_intact(&got[i]) && got[i].reward_id == seen++);
    }
    pthread_join(producer, NULL);
    free(r);
}

/* ---- many producers, many consumers: everything once, each producer's in order ------------------ */

typedef struct {
    assay_queue *queue;
    uint64_t id;
    _Atomic(uint64_t) *left;
    _Atomic(uint8_t) *seen;
} party;

static void *queue_producer(void *arg) {
    party *p = arg;
    for (uint64_t i = 0; i < rounds; i++) {
        assay_descriptor d = {.slot = (uint32_t)p->id, .reward_id = i};
        assay_seal(&d);
        while (!assay_queue_push(p->queue, &d)) sched_yield();
    }
    return NULL;
}

static void *queue_consumer(void *arg) {
    party *p = arg;
    uint64_t last[2] = {0, 0};
    assay_descriptor d;
    while (atomic_load(p->left)) {
        if (!assay_queue_pop(p->queue, &d)) {
            sched_yield();
            continue;
        }
        atomic_fetch_sub(p->left, 1);
        CHECK(assay_intact(&d) && d.reward_id + 1 > last[d.slot]);
        last[d.slot] = d.reward_id + 1;
        CHECK(atomic_fetch_add(&p->seen[d.slot * rounds + d.reward_id], 1) == 0);
    }
    return NULL;
}

static void check_queue(void) {
    assay_queue *q = aligned_alloc(64, assay_queue_bytes(CAPACITY));
    _Atomic(uint64_t) left = 2 * rounds;
    _Atomic(uint8_t) *seen = calloc(2 * rounds, 1);
    pthread_t threads[4];
    party parties[2] = {{q, 0, &left, seen}, {q, 1, &left, seen}};
    assay_queue_init(q, CAPACITY, UINT64_MAX - 100);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, i < 2 ? queue_producer : queue_consumer, &parties[i % 2]);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (uint64_t i = 0; i < 2 * rounds; i++) CHECK(atomic_load(&seen[i]) == 1);
    free(seen);
    free(q);
}

/* ---- a runtime --------------------------------------------------------------------------------- */

static assay_runtime *rt;
static _Atomic(uint64_t) accepted, ended;

static void *submitter(void *arg) {
    uint64_t state = (uint64_t)(uintptr_t)arg * 7919 + 1;
    int32_t prompt[24];
    assay_ref refs[4];
    for (uint64_t i = 0; i < rounds / 50; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint32_t k = 1 + (uint32_t)(state >> 60) % 4, length = 1 + (uint32_t)(state >> 50) % 24;
        for (uint32_t at = 0; at < length; at++) prompt[at] = (int32_t)(state >> 40 & 3) + (int32_t)at;
        assay_order order = {.max_tokens = 1 + (uint32_t)(state >> 33) % 9,
                             .flags = (state >> 30 & 7) == 0 ? ASSAY_FLAG_NO_REWARD : 0};
        assay_member members[4] = {{1, i, i}, {2, i, i}, {3, i, i}, {4, i, i}};
        int status;
        while ((status = assay_runtime_submit(rt, &order, prompt, length, members, k, refs)) ==
               ASSAY_SATURATED)
            sched_yield();
        CHECK(status == ASSAY_OK);
        atomic_fetch_add(&accepted, k);
        if ((state >> 20 & 7) == 0) assay_runtime_cancel(rt, refs[0]);
    }
    return NULL;
}

static void *scorer(void *arg) {
    _Atomic(uint32_t) *stop = arg;
    assay_descriptor d;
    int32_t tokens[64];
    int status;
    while (!atomic_load(stop)) {
        if (!assay_runtime_reward_take(rt, &d, 1, &status)) {
            sched_yield();
            continue;
        }
        assay_ref ref = {d.slot, d.generation};
        (void)assay_runtime_copy(rt, ref, tokens, 1);
        while (assay_runtime_score(rt, ref, 0.5) == ASSAY_SATURATED && !atomic_load(stop))
            sched_yield();
    }
    return NULL;
}

static void *collector(void *arg) {
    _Atomic(uint32_t) *stop = arg;
    assay_completion done[16];
    while (!atomic_load(stop)) {
        uint64_t n = assay_runtime_poll(rt, done, 16);
        CHECK(assay_runtime_release(rt, done, n) == n);
        atomic_fetch_add(&ended, n);
        if (!n) sched_yield();
    }
    return NULL;
}

static void check_balance(void) {
    assay_stats s;
    assay_runtime_stats(rt, &s);
    CHECK(s.submitted == atomic_load(&accepted) && s.submitted == s.completed + s.failed);
    CHECK(s.slots_free == 16 && s.kv_in_use == 0 && s.illegal == 0 && s.corrupt == 0);
    CHECK(s.credits_available[ASSAY_CREDIT_KV] == 48 && assay_runtime_audit(rt) == 0);
    CHECK(s.credits_available[ASSAY_CREDIT_REWARD] == 3);
    CHECK(s.credits_available[ASSAY_CREDIT_TRAJECTORY] == 3);
}

static void check_runtime(uint32_t policy) {
    assay_probe probe = {.vocab_size = 50, .block_tokens = 4, .bytes_a_position = 8};
    assay_engine_ops ops;
    assay_probe_ops(&probe, 64, 8, 64, &ops);
    assay_runtime_settings s = {
        .shape = {.slots = 16, .seq_max = 40, .block_tokens = 4, .kv_blocks = 48,
                  .decode_credits = 8, .reward_credits = 3, .trajectory_credits = 3,
                  .generation_first = UINT32_MAX - 2, .index_first = UINT64_MAX - 9},
        .worker = {.policy = policy, .rows_max = 6, .prefill_chunk = 8, .prefix_cache = 1,
                   .aging_max = 16, .spin_ns = 1000, .cpu = -1},
        .trace_capacity = 256, .scorer_cpu = -1, .numa_node = -1};
    int status;
    pthread_t threads[SUBMITTERS + SCORERS + 1];
    _Atomic(uint32_t) stop = 0;
    atomic_store(&accepted, 0);
    atomic_store(&ended, 0);
    rt = assay_runtime_create(&s, &ops, &status);
    CHECK(rt != NULL && assay_runtime_start(rt) == ASSAY_OK);
    assay_runtime_trace_on(rt, 1);
    for (uintptr_t i = 0; i < SUBMITTERS; i++)
        pthread_create(&threads[i], NULL, submitter, (void *)(i + 1));
    for (int i = 0; i < SCORERS; i++) pthread_create(&threads[SUBMITTERS + i], NULL, scorer, &stop);
    pthread_create(&threads[SUBMITTERS + SCORERS], NULL, collector, &stop);
    for (int i = 0; i < SUBMITTERS; i++) pthread_join(threads[i], NULL);
    while (atomic_load(&ended) < atomic_load(&accepted)) sched_yield();
    atomic_store(&stop, 1);
    for (int i = SUBMITTERS; i < SUBMITTERS + SCORERS + 1; i++) pthread_join(threads[i], NULL);
    assay_runtime_pause(rt, ASSAY_PAUSE_IN_PLACE);
    CHECK(assay_runtime_paused(rt, ASSAY_PAUSE_IN_PLACE, 10000000000u));
    check_balance();
    assay_runtime_resume(rt, ASSAY_PAUSE_IN_PLACE);
    assay_trace_record records[64];
    uint64_t next, lost;
    CHECK(assay_runtime_trace_read(rt, 0, records, 64, &next, &lost) > 0);
    assay_runtime_destroy(rt);
}

int main(int argc, char **argv) {
    rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 20000;
    check_ring();
    check_queue();
    for (uint32_t policy = ASSAY_FIFO; policy <= ASSAY_PREFIX_SHARING; policy++)
        check_runtime(policy);
    puts("ok");
    return 0;
}
