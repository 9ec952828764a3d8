/* The persistent worker: one thread that takes orders from the rings and decodes in batches.
 *
 * One iteration: drain orders and cancels, drain scored trajectories, retry rollouts that the reward
 * stage had no room for, admit by policy, form one batch of decode rows and prefill chunks, run one
 * engine step, settle. Between the begin and end of an iteration the thread makes no allocation, no
 * system call and takes no page fault; waking a host that has parked and parking itself happen
 * outside.
 *
 * Invariants:
 *   - every rollout in PREFILL_READY or DECODING that was consumed is in exactly one of: waiting set,
 *     prefilling, decode ring, active, blocked;
 *   - KV is released when decoding ends, before the reward is known;
 *   - a rollout's generated tokens, log-probs and policy versions are written only here.
 */
#ifndef ASSAY_WORKER_H
#define ASSAY_WORKER_H

#include "bell.h"
#include "core.h"
#include "kv.h"
#include "policy.h"
#include "trace.h"

typedef struct {
    uint32_t policy;         /* enum assay_policy */
    uint32_t rows_max;       /* decode rows of a step */
    uint32_t prefill_chunk;  /* prompt tokens of a step, over all rollouts that prefill */
    uint32_t prefix_cache;   /* 0: every rollout computes its own prompt */
    uint64_t aging_max;      /* admissions, and steps, after which a rollout goes first */
    uint64_t spin_ns;        /* without work, before parking */
    int32_t cpu;             /* to pin to; -1: not pinned */
    uint32_t reserved;
} assay_worker_settings;

enum assay_phase {
    ASSAY_PHASE_NONE = 0,
    ASSAY_PHASE_WAITING = 1,
    ASSAY_PHASE_PREFILLING = 2,
    ASSAY_PHASE_HANDED = 3, /* in the decode ring */
    ASSAY_PHASE_ACTIVE = 4,
    ASSAY_PHASE_BLOCKED = 5 /* decoded; the reward stage has no room */
};

enum assay_worker_state {
    ASSAY_WORKER_NEW = 0,
    ASSAY_WORKER_RUNNING = 1,
    ASSAY_WORKER_STOPPED = 2,
    ASSAY_WORKER_CRASHED = 3
};

enum assay_crash {
    ASSAY_CRASH_NONE = 0,
    ASSAY_CRASH_ENGINE = 1,  /* detail: the engine's status */
    ASSAY_CRASH_SIGNAL = 2,  /* detail: the signal */
    ASSAY_CRASH_MEMORY = 3,  /* a descriptor failed its cookie; detail: the queue's kind */
    ASSAY_CRASH_BROKEN = 4   /* an invariant of the core did not hold; detail: which */
};

/* How a pause leaves the rollouts that run. */
enum assay_pause_mode {
    ASSAY_PAUSE_IN_PLACE = 0, /* held between two steps, KV kept */
    ASSAY_PAUSE_FINISH = 1,   /* nothing is admitted; held when all running rollouts have ended */
    ASSAY_PAUSE_RETRACT = 2   /* held; running rollouts release their KV and are prefilled again later */
};

enum assay_held { ASSAY_HELD_NOT = 0, ASSAY_HELD_RUNNING = 1, ASSAY_HELD_EMPTY = 2 };

/* The worker's own state of one slot, beyond the shared table. */
typedef struct {
    uint32_t generation;
    uint32_t positions; /* computed KV positions */
    uint64_t last_step;
    uint64_t ticket;
    assay_table table;
    uint8_t phase;
    uint8_t cancelled;
    uint8_t matched; /* the positions found in the cache are counted in `positions` */
    uint8_t tail_length;
    uint8_t retracted;  /* its row is DECODING although it waits or prefills */
    uint32_t regained; /* of its generated tokens, those that are prefilled again */
    uint8_t tail[ASSAY_STOP_BYTES_MAX]; /* last bytes generated, for stop strings */
} assay_lane;

/* Bounded list of slots in order. */
typedef struct {
    uint32_t n;
    uint32_t *slots;
} assay_list;

/* Written by the worker only. */
typedef struct {
    _Alignas(64) _Atomic(uint64_t) iterations;
    _Atomic(uint64_t) steps;
    _Atomic(uint64_t) decode_tokens;
    _Atomic(uint64_t) prefill_tokens;
    _Atomic(uint64_t) shared_rows; /* decode rows stepped next to a row with the same prefix */
    _Atomic(uint64_t) engine_ticks;
    _Atomic(uint64_t) busy_ticks; /* iterations that did something, engine included */
    _Atomic(uint64_t) admitted;
    _Atomic(uint64_t) aged;
    _Atomic(uint64_t) blocked; /* refusals by the reward stage */
    _Atomic(uint64_t) retracted; /* rollouts that released their KV before their end */
} assay_worker_stats;

typedef struct {
    assay_region *region;
    assay_trace *trace;
    const assay_engine_ops *engine;
    assay_worker_settings settings;
    const uint32_t *token_offsets; /* vocab_size + 1 of them into token_bytes; NULL: no stop strings */
    const uint8_t *token_bytes;
    assay_kv kv;
    assay_waiting waiting;
    assay_lane *lanes;
    assay_list prefilling, active, blocked;
    assay_seq_step *steps;
    uint32_t *step_slots;
    uint32_t *chosen;
    uint64_t *chosen_keys;
    uint64_t step_number;
    uint64_t admissions;
    uint32_t last_leaf;
    bool reordered;          /* `active` changed and has to be put in prefix order */
    uint64_t rewards_posted, dones_staged; /* in this iteration */
    assay_bell bell;         /* rung for the worker */
    assay_bell host;         /* rung by the worker */
    _Alignas(64) _Atomic(uint32_t) stop;
    _Atomic(uint32_t) pauses; /* pauses that hold the worker */
    _Atomic(uint32_t) finishes; /* pauses that hold it once nothing runs; no admission until then */
    _Atomic(uint32_t) retracts; /* pauses that hold it with the KV of running rollouts released */
    _Atomic(uint32_t) held;   /* enum assay_held */
    _Alignas(64) _Atomic(uint32_t) state; /* enum assay_worker_state */
    _Atomic(uint32_t) crash;              /* enum assay_crash */
    _Atomic(int32_t) crash_detail;
    assay_worker_stats stats;
} assay_worker;

size_t assay_worker_bytes(const assay_shape *shape, const assay_engine_ops *engine);
/* `memory`: assay_worker_bytes of zeroes, 64-byte aligned. `w` is zeroed before. */
void assay_worker_init(assay_worker *w, void *memory, assay_region *region, assay_trace *trace,
                       const assay_engine_ops *engine, const assay_worker_settings *settings,
                       uint8_t *kv_base);

/* Every running rollout releases its KV and waits again, before all others; its tokens are kept.
 * Between iterations, by the worker or for one that is not started. */
void assay_worker_retract(assay_worker *w);
/* Nothing prefills or decodes. */
bool assay_worker_runs_nothing(const assay_worker *w);

/* One iteration; false when there was nothing to do. For the thread, and for single-stepping tests. */
bool assay_worker_iterate(assay_worker *w);

/* The thread's body, to be run until stop or crash. */
void *assay_worker_run(void *worker);

/* After a crash, with the thread gone: move every rollout that is not DONE to DONE, CRASHED, except
 * scored ones, which complete. The caller is the worker now. Returns how many were ended. */
uint64_t assay_worker_bury(assay_worker *w);

#endif
