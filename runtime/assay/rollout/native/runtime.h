/* The host API of the runtime: memory, the worker thread, an optional native scorer thread, and
 * the host's calls. Everything is allocated and touched in assay_runtime_create.
 *
 * Threads: submit, cancel, reward_take, copy, score and stats from any thread; poll, release and bury
 * from one thread at a time.
 */
#ifndef ASSAY_RUNTIME_H
#define ASSAY_RUNTIME_H

#include "mapping.h"
#include "worker.h"

enum assay_scorer {
    ASSAY_SCORER_HOST = 0,  /* the host takes rewards and posts scores */
    ASSAY_SCORER_CHECKSUM = 1 /* a native thread: reward = hash of the sequence, in [0, 1): no model of
                                 quality, but proof of which tokens the scorer was shown */
};

typedef struct {
    assay_shape shape;
    assay_worker_settings worker;
    uint32_t trace_capacity; /* events kept; rounded up to a power of two */
    uint32_t scorer;         /* enum assay_scorer */
    int32_t scorer_cpu;      /* -1: not pinned */
    int32_t numa_node;       /* of the KV arena; -1: wherever it is first touched */
    uint32_t huge_pages;     /* 1: ask for huge pages */
    uint32_t reserved;
    const uint32_t *token_offsets; /* see assay_worker; kept by the caller for the runtime's life */
    const uint8_t *token_bytes;
} assay_runtime_settings;

/* All counts since create unless said otherwise. */
typedef struct {
    uint64_t submitted, completed, failed, in_flight;
    uint64_t saturated, illegal, stale, corrupt;
    uint64_t slots_free;
    uint64_t credits_available[ASSAY_CREDITS];
    uint64_t credits_refused[ASSAY_CREDITS];
    uint64_t queue_prefill, queue_decode, queue_reward, queue_trajectory, queue_done; /* lengths now */
    uint64_t iterations, steps, decode_tokens, prefill_tokens, shared_rows;
    uint64_t engine_ns, busy_ns;
    uint64_t admitted, aged, blocked, retracted;
    uint64_t prefix_matched_positions, prefix_missed_positions;
    uint64_t kv_copies, kv_copied_positions, kv_evictions, kv_in_use, kv_in_use_peak, kv_cold;
    uint64_t worker_parks, worker_wakes, host_parks, host_wakes;
    uint64_t trace_events;
    uint64_t region_bytes, kv_bytes, kv_block_bytes;
    uint64_t kv_pages;   /* enum assay_pages */
    uint64_t numa_bound; /* 1: the arena is bound to numa_node */
    uint64_t worker_state, crash, policy_version;
    int64_t crash_detail;
} assay_stats;

typedef struct assay_runtime assay_runtime;

/* NULL with ASSAY_INVALID or ASSAY_SATURATED (no memory) in *status. The engine outlives it. */
assay_runtime *assay_runtime_create(const assay_runtime_settings *settings,
                                    const assay_engine_ops *engine, int *status);
typedef struct {
    assay_sampler sampler;
    uint32_t max_tokens;
    uint32_t kv_version; /* see assay_rollout */
    uint32_t kv_mixed;
    uint32_t reserved;
} assay_asked;

int assay_runtime_start(assay_runtime *rt);
/* Stop the threads and wait for them. In-flight rollouts keep their state. */
void assay_runtime_stop(assay_runtime *rt);
/* The same; false when a thread has not ended by `until` (monotonic ns): ask again. */
bool assay_runtime_stop_by(assay_runtime *rt, uint64_t until);
void assay_runtime_destroy(assay_runtime *rt);

assay_region *assay_runtime_region(assay_runtime *rt);
assay_worker *assay_runtime_worker(assay_runtime *rt);

int assay_runtime_submit(assay_runtime *rt, const assay_order *order, const int32_t *prompt,
                         uint32_t prompt_len, const assay_member *members, uint32_t n,
                         assay_ref *out);
int assay_runtime_cancel(assay_runtime *rt, assay_ref ref);
int assay_runtime_limit(const assay_runtime *rt);
uint64_t assay_runtime_reward_take(assay_runtime *rt, assay_descriptor *out, uint64_t n,
                                   int *status);
int assay_runtime_copy(assay_runtime *rt, assay_ref ref, int32_t *tokens, uint32_t n);
/* Copy up to `room` generated tokens of a rollout, from index `from` on, while it decodes or after.
 * STALE: it was released. */
int assay_runtime_peek(assay_runtime *rt, assay_ref ref, uint32_t from, uint32_t room,
                       int32_t *tokens, float *logps, uint32_t *versions, uint32_t *got);
int assay_runtime_score(assay_runtime *rt, assay_ref ref, double reward);
uint64_t assay_runtime_poll(assay_runtime *rt, assay_completion *out, uint64_t n);
/* Copy the content of a collected completion that is not released. STALE: it was released. */
int assay_runtime_contents(const assay_runtime *rt, const assay_completion *done, int32_t *tokens,
                           float *logps, uint32_t *versions);
/* The rollout's request and the weights that computed it; ASSAY_STALE once it was released. */
int assay_runtime_asked(const assay_runtime *rt, const assay_completion *done, assay_asked *out);
uint64_t assay_runtime_release(assay_runtime *rt, const assay_completion *done, uint64_t n);
/* Park until something may have become visible to the host, at most timeout_ns. `seen` is the value
 * of assay_runtime_bell before the host last checked. Returns the nanoseconds it took. */
uint32_t assay_runtime_bell(assay_runtime *rt);
uint64_t assay_runtime_wait(assay_runtime *rt, uint32_t seen, uint64_t timeout_ns);

/* Hold the worker between two steps, from when `assay_runtime_paused` reports it (at most timeout_ns
 * later) until every pause was resumed with the same mode. For weight changes. */
void assay_runtime_pause(assay_runtime *rt, enum assay_pause_mode mode);
bool assay_runtime_paused(assay_runtime *rt, enum assay_pause_mode mode, uint64_t timeout_ns);
void assay_runtime_resume(assay_runtime *rt, enum assay_pause_mode mode);
void assay_runtime_set_policy_version(assay_runtime *rt, uint32_t version);

/* After a crash: join the thread and end its rollouts; returns how many were ended. */
uint64_t assay_runtime_bury(assay_runtime *rt);

/* 0 when the KV invariants hold; the worker must be held or have ended. */
int assay_runtime_audit(const assay_runtime *rt);
bool assay_runtime_step(assay_runtime *rt); /* one iteration by the caller, without a thread */

void assay_runtime_wake_host(assay_runtime *rt); /* threads parked in `wait` check again */
void assay_runtime_nudge(assay_runtime *rt); /* wake the worker for an iteration */

void assay_runtime_trace_on(assay_runtime *rt, uint32_t on);
uint64_t assay_runtime_trace_read(assay_runtime *rt, uint64_t from, assay_trace_record *out,
                                  uint64_t n, uint64_t *next, uint64_t *lost);
void assay_runtime_stats(assay_runtime *rt, assay_stats *out);

#endif
