/* The memory between host and kernel. Every word has one writer, so no read-modify-write crosses the bus
 * (over PCIe such an operation is not atomic). The same layout lies in mapped memory or, on machines
 * with a coherent bus, in coherent memory.
 */
#ifndef ASSAY_LINK_H
#define ASSAY_LINK_H

#include "assay_ring.h"

#define ASSAY_LINK_MAGIC 0x43554441000001ull

typedef struct {
    uint32_t slots;
    uint32_t seq_max;
    uint32_t kv_blocks;
    uint32_t decode_credits;
    uint32_t reward_credits;
    uint32_t trajectory_credits;
    uint32_t generation_first;
    uint32_t prefill_chunk; /* tokens of prompts that one step may carry */
    uint64_t index_first;
    uint64_t trace_events; /* kept by the trace; a power of two, 0: none */
} assay_limits;

/* One instant, as `assay_trace_cell` (trace.h): `stamp` is its position + 1, 0 while it is written. */
typedef struct {
    uint64_t stamp;
    uint64_t ticks; /* of the device's clock, ns */
    uint64_t who;   /* slot << 32 | generation */
    uint64_t what;  /* enum assay_event */
} assay_instant;

enum assay_instant_of {
    INSTANT_CONSUMED = 2,
    INSTANT_PREFILL_BEGIN = 3,
    INSTANT_PREFILL_END = 4,
    INSTANT_STEP_BEGIN = 5, /* slot: step number, generation: rows */
    INSTANT_STEP_END = 6,
    INSTANT_DECODE_DONE = 7,
    INSTANT_REWARD_POSTED = 8,
    INSTANT_TRAJECTORY_TAKEN = 10,
    INSTANT_TRAJECTORY_DONE = 11,
    INSTANT_COMPLETION_VISIBLE = 12
};

enum assay_hold_mode {
    ASSAY_RUN = 0,
    ASSAY_HOLD_IN_PLACE = 1,
    ASSAY_HOLD_FINISH = 2,
    ASSAY_HOLD_RETRACT = 3
};

/* Byte offsets from the link's start. */
typedef struct {
    uint64_t magic;
    uint64_t bytes;
    assay_limits limits;
    uint64_t commands_at, rewards_at, done_at; /* rings of 64-byte lines */
    uint64_t rows_at;     /* assay_rollout per slot: written before its order is published */
    uint64_t tokens_at;   /* int32 [slots][seq_max]: prompt by the host, then tokens by the kernel */
    uint64_t logps_at;    /* float [slots][seq_max] */
    uint64_t versions_at; /* uint32 [slots][seq_max] */
    uint64_t progress_at; /* uint64 per slot: generation << 32 | generated tokens */
    uint64_t trace_at;    /* assay_instant [trace_events] */
    /* Written by the host. */
    ASSAY_ALIGNED uint64_t stop; /* bit 0: end, bit 1: record instants; one read over the bus */
    uint64_t hold;    /* number << 2 | enum assay_hold_mode */
    uint64_t weights; /* number << 35 | adapter << 33 | slot << 32 | policy version; adapter 0: none */
    uint64_t echo;    /* answered at once by `echoed`, for measuring the round trip */
    /* Written by the kernel. */
    ASSAY_ALIGNED uint64_t heartbeat; /* the device's clock, ns */
    uint64_t held;                    /* `hold` as last obeyed */
    uint64_t active;                  /* `weights` as last obeyed */
    uint64_t echoed;
    uint64_t steps;
    uint64_t corrupt; /* lines that failed their cookie: the kernel ends */
    uint64_t ended;   /* 1: the kernel has returned */
    uint64_t barriers;
    ASSAY_ALIGNED uint64_t counts[8]; /* submitted, completed, failed, stale, illegal, generated,
                                         KV blocks free, most in use */
    ASSAY_ALIGNED uint64_t traced; /* instants recorded */
    uint64_t echoed_at;            /* the device's clock when it answered `echoed` */
    uint64_t gauges[6];            /* enum assay_gauge */
} assay_link;

enum assay_gauge {
    ASSAY_G_DECODE = 0, /* free credits */
    ASSAY_G_REWARD = 1,
    ASSAY_G_TRAJECTORY = 2,
    ASSAY_G_WAITING = 3, /* rollouts without a place among those that decode */
    ASSAY_G_ACTIVE = 4,
    ASSAY_G_PARKED = 5 /* decoded, without a credit to go on */
};

enum assay_count {
    ASSAY_N_SUBMITTED = 0,
    ASSAY_N_COMPLETED = 1,
    ASSAY_N_FAILED = 2,
    ASSAY_N_STALE = 3,
    ASSAY_N_ILLEGAL = 4,
    ASSAY_N_GENERATED = 5,
    ASSAY_N_BLOCKS_FREE = 6,
    ASSAY_N_BLOCKS_USED_MAX = 7 /* since no block was in use */
};

#endif
