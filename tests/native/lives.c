/* Runtimes that live and are closed at a random moment while threads call them: nothing is freed under
 * a call, nothing leaks, every late call learns that the runtime is closed. For the sanitizers.
 *
 * lives SEED LIVES
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "probe.h"

enum { CALLERS = 3, SLOTS = 8, LATER_NS = 300000 };

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #what); \
            abort(); \
        } \
    } while (0)

typedef struct {
    _Atomic(uint64_t) *host;
    uint64_t random;
    uint64_t calls;
} caller;

static uint64_t draw(uint64_t *random) {
    uint64_t x = *random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *random = x;
}

static int submit(assay_host h, uint64_t seed) {
    assay_order order = {.max_tokens = 3 + (uint32_t)(seed % 5), .flags = seed & 1};
    int32_t prompt[3] = {1, 2, (int32_t)(seed % 7)};
    assay_member members[2] = {{.seed = seed}, {.seed = seed + 1}};
    assay_ref refs[2];
    int status = assay_host_submit(h, &order, prompt, 3, members, 2, refs);
    if (status == ASSAY_OK && seed % 3 == 0) (void)assay_host_cancel(h, refs[0]);
    return status;
}

static int score(assay_host h) {
    assay_descriptor d;
    uint64_t got = 0;
    int status = assay_host_reward_take(h, &d, 1, &got);
    if (status == ASSAY_OK && got) (void)assay_host_score(h, (assay_ref){d.slot, d.generation}, 0.5);
    return status;
}

static int hold(assay_host h, uint32_t mode) {
    _Atomic(uint32_t) cell = 0;
    int found, status = assay_host_pause(h, &cell, mode, 1000000000u);
    if (status == ASSAY_OK && assay_host_audit(h, &found) == ASSAY_OK) CHECK(found == 0);
    (void)assay_host_resume(h, &cell);
    return status == ASSAY_STALLED ? ASSAY_OK : status;
}

static int look(assay_host h) {
    assay_stats stats;
    uint32_t seen;
    uint64_t took;
    int status = assay_host_stats(h, &stats);
    if (status == ASSAY_OK) status = assay_host_bell(h, &seen);
    if (status == ASSAY_OK) status = assay_host_wait(h, seen, LATER_NS, &took);
    return status;
}

static int one_call(assay_host h, uint64_t random) {
    switch (random % 5) {
    case 0: return submit(h, random >> 8);
    case 1: return score(h);
    case 2: return hold(h, (random >> 8) % 3);
    case 3: return assay_host_nudge(h);
    default: return look(h);
    }
}

static void *call(void *arg) {
    caller *c = arg;
    for (;;) {
        assay_host h = atomic_load(c->host);
        int status = one_call(h, draw(&c->random));
        if (status == ASSAY_CLOSED) return NULL;
        CHECK(status == ASSAY_OK || status == ASSAY_SATURATED);
        c->calls++;
    }
}

/* One collector: the caller of poll and release. */
static void *collect(void *arg) {
    caller *c = arg;
    assay_completion done[SLOTS];
    int32_t tokens[32];
    float logps[32];
    uint32_t versions[32];
    for (;;) {
        assay_host h = atomic_load(c->host);
        uint64_t got = 0;
        if (assay_host_poll(h, done, SLOTS, &got) == ASSAY_CLOSED) return NULL;
        for (uint64_t i = 0; i < got; i++)
            if (assay_host_contents(h, &done[i], tokens, logps, versions) == ASSAY_CLOSED) return NULL;
        if (assay_host_release(h, done, got) == ASSAY_CLOSED) return NULL;
        c->calls++;
        sched_yield();
    }
}

static uint64_t live(uint64_t *random, const assay_engine_ops *ops) {
    assay_runtime_settings settings = {
        .shape = {.slots = SLOTS, .seq_max = 32, .block_tokens = 4, .kv_blocks = 80,
                  .decode_credits = SLOTS, .reward_credits = SLOTS, .trajectory_credits = SLOTS,
                  .generation_first = 1},
        .worker = {.rows_max = 4, .prefill_chunk = 8, .prefix_cache = 1, .aging_max = 100,
                   .spin_ns = 1000, .cpu = -1},
        .trace_capacity = 16,
        .scorer = draw(random) & 1,
        .scorer_cpu = -1,
        .numa_node = -1,
    };
    int status;
    _Atomic(uint64_t) host;
    atomic_init(&host, assay_host_open(&settings, ops, &status));
    CHECK(atomic_load(&host) != 0);
    CHECK(assay_host_start(atomic_load(&host)) == ASSAY_OK);
    pthread_t threads[CALLERS + 1];
    caller callers[CALLERS + 1];
    for (int i = 0; i <= CALLERS; i++) {
        callers[i] = (caller){&host, draw(random) | 1, 0};
        CHECK(pthread_create(&threads[i], NULL, i == CALLERS ? collect : call, &callers[i]) == 0);
    }
    for (uint64_t n = draw(random) % 2000; n > 0; n--) assay_relax();
    if (draw(random) % 4 == 0) sched_yield();
    do status = assay_host_close(atomic_load(&host), draw(random) % 3 ? 10000000000u : 1000u);
    while (status == ASSAY_STALLED);
    CHECK(status == ASSAY_OK);
    CHECK(assay_host_close(atomic_load(&host), 0) == ASSAY_CLOSED);
    uint64_t calls = 0;
    for (int i = 0; i <= CALLERS; i++) {
        pthread_join(threads[i], NULL);
        calls += callers[i].calls;
    }
    return calls;
}

int main(int argc, char **argv) {
    uint64_t random = argc > 1 ? strtoull(argv[1], NULL, 10) | 1 : 1, calls = 0;
    int lives = argc > 2 ? atoi(argv[2]) : 100;
    assay_probe probe = {.vocab_size = 61, .block_tokens = 4, .bytes_a_position = 8};
    assay_engine_ops ops;
    assay_probe_ops(&probe, 64, 8, 256, &ops);
    for (int i = 0; i < lives; i++) calls += live(&random, &ops);
    CHECK(calls > 0);
    printf("ok\n");
    return 0;
}
