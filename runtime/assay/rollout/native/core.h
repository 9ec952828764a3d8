/* The region: all shared memory of one runtime, and the stage operations over it.
 *
 * No allocation, no syscall, no clock (ticks are arguments), no thread. The Python interpreter
 * (tests/rollout/interpreter.py) executes the same operations over the same bytes and is compared
 * with this file byte for byte.
 *
 * Invariants:
 *   - submitted == completed + failed + in flight, where in flight counts the slots in
 *     PREFILL_READY, DECODING, REWARD_PENDING and TRAJECTORY_READY;
 *   - a credit is held by exactly the rollouts whose `holds` says so;
 *   - a slot is in the free queue exactly when its state is FREE and no submitter is filling it.
 */
#ifndef ASSAY_CORE_H
#define ASSAY_CORE_H

#include "assay_ring.h"

#define ASSAY_MAGIC 0x59415353410001u
#define ASSAY_NONE UINT32_MAX

enum assay_status {
    ASSAY_OK = 0,
    ASSAY_EMPTY = 1,      /* nothing there right now */
    ASSAY_SATURATED = 2,  /* retry later; nothing changed */
    ASSAY_STALE = 3,      /* (slot, generation) is no longer, or not in this state */
    ASSAY_INVALID = 4,    /* the arguments can never succeed */
    ASSAY_MISMATCH = 5    /* a descriptor failed its cookie: the memory cannot be trusted */
};

/* The limit that refused a submission, deepest stage first. */
enum assay_limit {
    ASSAY_LIMIT_NONE = 0,
    ASSAY_LIMIT_TRAJECTORY = 1,
    ASSAY_LIMIT_REWARD = 2,
    ASSAY_LIMIT_KV = 3,
    ASSAY_LIMIT_DECODE = 4,
    ASSAY_LIMIT_SLOTS = 5
};

typedef struct {
    uint32_t slots;             /* rollouts alive at once */
    uint32_t seq_max;           /* tokens of prompt and response together, per slot */
    uint32_t block_tokens;      /* positions of a KV block */
    uint32_t kv_blocks;         /* blocks of the arena */
    uint32_t decode_credits;    /* rollouts between admission and the reward stage */
    uint32_t reward_credits;    /* rollouts waiting for their score */
    uint32_t trajectory_credits;/* scored rollouts not yet collected */
    uint32_t generation_first;  /* of every slot; tests start near the wrap */
    uint64_t index_first;       /* of every ring and queue; tests start near the wrap */
} assay_shape;

typedef struct {
    uint64_t magic;
    uint64_t bytes;
    assay_shape shape;
    /* Byte offsets from the region's start. */
    uint64_t free_at, prefill_at, decode_at, reward_at, trajectory_at, done_at;
    uint64_t credits_at, rollouts_at, tokens_at, logps_at, versions_at;
    /* Written by submitters. */
    ASSAY_ALIGNED ASSAY_ATOMIC(uint64_t) submitted;
    ASSAY_ATOMIC(uint64_t) saturated;
    /* Written by the thread that moves a rollout to DONE. */
    ASSAY_ALIGNED ASSAY_ATOMIC(uint64_t) completed;
    ASSAY_ATOMIC(uint64_t) failed;
    /* Refusals, counted. */
    ASSAY_ALIGNED ASSAY_ATOMIC(uint64_t) illegal; /* pairs outside the transition table */
    ASSAY_ATOMIC(uint64_t) stale;                 /* descriptors of an earlier rollout or state */
    ASSAY_ATOMIC(uint64_t) corrupt;               /* descriptors that failed their cookie */
    /* Written by the weight pusher, read once per step by the worker. */
    ASSAY_ALIGNED ASSAY_ATOMIC(uint32_t) policy_version;
    ASSAY_ALIGNED uint8_t end[];
} assay_region;

/* Parameters shared by the K rollouts of one group. */
typedef struct {
    uint64_t group;
    assay_sampler sampler; /* the seed is replaced per rollout */
    uint32_t max_tokens;
    uint32_t flags;
    uint32_t n_stop_ids;
    uint32_t n_stop_strings;
    int32_t stop_ids[ASSAY_STOP_IDS_MAX];
    uint8_t stop_lengths[ASSAY_STOP_STRINGS_MAX];
    uint8_t stop_bytes[ASSAY_STOP_STRINGS_MAX][ASSAY_STOP_BYTES_MAX];
} assay_order;

typedef struct {
    uint32_t slot;
    uint32_t generation;
} assay_ref;

/* One rollout of a group: what differs from its siblings. */
typedef struct {
    uint64_t seed;
    uint64_t user_data;
    uint64_t reward_id;
} assay_member;

/* ---- layout --------------------------------------------------------------------------------- */

uint64_t assay_pow2_at_least(uint64_t n);
uint64_t assay_region_bytes(const assay_shape *shape);
void assay_region_init(assay_region *g, const assay_shape *shape);

static inline void *assay_at(const assay_region *g, uint64_t offset) {
    return (uint8_t *)(uintptr_t)g + offset;
}
static inline assay_queue *assay_free_queue(const assay_region *g) { return assay_at(g, g->free_at); }
static inline assay_queue *assay_prefill_queue(const assay_region *g) {
    return assay_at(g, g->prefill_at);
}
static inline assay_ring *assay_decode_ring(const assay_region *g) {
    return assay_at(g, g->decode_at);
}
static inline assay_queue *assay_reward_queue(const assay_region *g) {
    return assay_at(g, g->reward_at);
}
static inline assay_queue *assay_trajectory_queue(const assay_region *g) {
    return assay_at(g, g->trajectory_at);
}
static inline assay_ring *assay_done_ring(const assay_region *g) { return assay_at(g, g->done_at); }
static inline assay_credit *assay_credit_of(const assay_region *g, enum assay_credit_kind kind) {
    return (assay_credit *)assay_at(g, g->credits_at) + kind;
}
static inline assay_rollout *assay_row(const assay_region *g, uint32_t slot) {
    return (assay_rollout *)assay_at(g, g->rollouts_at) + slot;
}
static inline int32_t *assay_tokens(const assay_region *g, uint32_t slot) {
    return (int32_t *)assay_at(g, g->tokens_at) + (size_t)slot * g->shape.seq_max;
}
static inline float *assay_logps(const assay_region *g, uint32_t slot) {
    return (float *)assay_at(g, g->logps_at) + (size_t)slot * g->shape.seq_max;
}
static inline uint32_t *assay_versions(const assay_region *g, uint32_t slot) {
    return (uint32_t *)assay_at(g, g->versions_at) + (size_t)slot * g->shape.seq_max;
}

/* ---- stage operations ----------------------------------------------------------------------- */

/* Hash of a token sequence; equal prompts give equal values. */
uint64_t assay_prefix_hash(const int32_t *tokens, uint32_t n);

/* KV blocks that a rollout can need without sharing: its last generated token is never fed back. */
uint32_t assay_blocks_needed(const assay_shape *shape, uint32_t prompt_len, uint32_t max_tokens);

/* Any thread. All n members or none; out[i] names member i. */
int assay_submit(assay_region *g, const assay_order *order, const int32_t *prompt,
                 uint32_t prompt_len, const assay_member *members, uint32_t n, uint64_t ticks,
                 assay_ref *out);

/* Any thread. Requests the rollout's end from the worker; ASSAY_OK for the first request. */
int assay_cancel(assay_region *g, assay_ref ref, uint64_t ticks);

/* The limit that currently blocks new work (enum assay_limit). */
int assay_limit_now(const assay_region *g);

/* Any thread: the next rollout to score. Descriptors of rollouts that have ended are skipped
 * and counted as stale. */
int assay_reward_take(assay_region *g, assay_descriptor *out);

/* Any thread: copy the first n tokens of a rollout that is in `state`. STALE: it left that state
 * during the copy (it was cancelled), and the copy is invalid. */
int assay_copy_sequence(const assay_region *g, assay_ref ref, enum assay_state state,
                        int32_t *tokens, uint32_t n);

/* Any thread: attach a score. SATURATED: no trajectory credit; the rollout stays REWARD_PENDING. */
int assay_score(assay_region *g, assay_ref ref, double reward, uint64_t ticks);

/* Worker: next order or cancel. */
int assay_order_take(assay_region *g, assay_descriptor *out);

/* Worker: the prompt's KV is complete; put the rollout on the decode ring (not yet published). */
int assay_prefilled(assay_region *g, assay_ref ref, uint64_t ticks);

/* Worker: decoding ended; move to the reward stage, or past it. SATURATED: try again. */
int assay_decoded(assay_region *g, assay_ref ref, uint64_t ticks);

/* Worker: next scored rollout, moved to DONE and staged on the done ring. */
int assay_trajectory_take(assay_region *g, uint64_t ticks, assay_ref *out);

/* Worker: end a rollout that is in `from` without a reward. Staged on the done ring. */
int assay_end(assay_region *g, assay_ref ref, enum assay_state from, enum assay_outcome outcome,
              uint64_t ticks);

/* One collector: copy out up to n completions. Their slots stay DONE until assay_release. */
uint64_t assay_collect(assay_region *g, assay_completion *out, uint64_t n);

/* The collector: the slots' contents are no longer needed. Returns how many were released. */
uint64_t assay_release(assay_region *g, const assay_completion *done, uint64_t n);

/* Slots in each state, by scanning the table; out has ASSAY_STATES entries. */
void assay_census(const assay_region *g, uint64_t *out);

#endif
