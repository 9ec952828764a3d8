/* What the kernel remembers of its rollouts between steps, and the instants that it notes for a trace. */
#ifndef ASSAY_STATE_H
#define ASSAY_STATE_H

#include "control.h"

#define ASSAY_NONE 0xFFFFFFFFu
#define A_QUERIES (A_HEADS / A_KV_HEADS)
/* Attention takes 16 queries of a key's head at once: those of several rows, or some of one row's. */
#define A_QUERY_PARTS ((A_QUERIES + 15) / 16)
#define A_QUERIES_AT_ONCE (A_QUERIES < 16 ? A_QUERIES : 16)
#define A_ROWS_AT_ONCE (16 / A_QUERIES_AT_ONCE)

enum assay_phase { PHASE_IDLE = 0, PHASE_WAITING = 1, PHASE_ACTIVE = 2, PHASE_PARKED = 3 };

typedef struct {
    uint32_t phase;
    uint32_t prefix;      /* index of its prefix, or ASSAY_NONE */
    uint32_t computed;    /* positions whose keys and values exist */
    uint32_t n_own;       /* blocks beyond the prefix */
    uint32_t leader;      /* the group's first member: slot */
    uint32_t leader_gen;  /* and generation */
    uint32_t owes_score;  /* a score that waits for a trajectory credit */
    int32_t last;         /* the token at position computed */
    double score;
} assay_run;

/* The last bytes that a rollout with stop strings generated: byte i of all at i % ASSAY_STOP_BYTES_MAX. */
typedef struct {
    uint32_t n; /* of all */
    uint8_t bytes[ASSAY_STOP_BYTES_MAX];
} assay_tail;

typedef struct {
    uint32_t refs;
    uint32_t n_blocks;
    uint32_t computed;
    uint32_t version; /* of the weights; ASSAY_NONE once they changed */
    uint32_t leader, leader_gen;
} assay_prefix;

typedef struct {
    uint32_t row0, n_rows;
    uint32_t chunk0; /* first attention chunk of its own; those before belong to its run */
    uint32_t last_chunk;
} assay_entry;

/* One step; every block has a copy in shared memory. */
typedef struct {
    uint32_t n_rows, n_logits, n_entries, n_runs;
    uint32_t chunks_max; /* over entries and runs */
    uint32_t tiles_max;  /* over entries and runs: of A_ROWS_AT_ONCE rows */
    uint32_t prefilling; /* some entry has more than one row */
    uint32_t ready; /* queries are made once for all chunks, with a barrier after it (`heads.h`) */
    uint32_t exit;
    uint32_t flows; /* blocks wait for words, not at barriers (`exchange.h`) */
    uint32_t flow;  /* such steps so far, this one included: which set of words it fills */
    uint32_t step;  /* all steps so far, this one included */
    uint32_t weights; /* 0 or 1 */
    uint32_t adapter; /* 1 or 2: the adapter over them; 0: none */
    uint32_t version;
    uint32_t token[A_ROWS], pos[A_ROWS], table[A_ROWS], slot[A_ROWS];
    uint32_t logit_row[A_ROWS]; /* logit index to row */
    float scale[A_ROWS];        /* of a row's logits: 1 / temperature */
    assay_entry entries[A_ROWS];
    assay_entry runs[A_ROWS];
    uint8_t ended[A_ROWS]; /* by logit index: enum assay_fate */
} assay_plan;

enum assay_fate { FATE_GOES_ON = 0, FATE_STOPS = 1, FATE_NOT_FINITE = 2 };

/* The kernel's own memory; the arrays lie behind it. */
typedef struct {
    assay_desk desk;
    assay_run *runs;
    assay_prefix *prefixes; /* one per slot */
    assay_tail *tails;      /* likewise */
    uint32_t *tables;       /* [2 * slots][table_width]: rollouts, then prefixes */
    uint32_t *free_ids;     /* a stack */
    uint32_t *waiting;      /* a ring of slots, oldest first; capacity slots */
    uint32_t *active;       /* A_ROWS slots, groups together */
    uint32_t *parked;       /* decoded, without a reward or trajectory credit */
    uint32_t table_width, n_free, n_waiting, waiting_first, n_active, n_parked;
    uint32_t dirty;    /* the plan has to be made again from the lists */
    uint32_t steps_planned;
    uint32_t round_counted; /* of the grid barrier, up to which `barriers` counts */
    uint64_t hold, weights;
    uint64_t told_gauges[6];
    uint64_t told_held, told_echo; /* what the link says: reading it back would cross the bus */
    int32_t *tokens;               /* the link's parts, [slots][seq_max] */
    float *logps;
    uint32_t *versions;
    uint64_t *progress; /* per slot */
    uint64_t generated;
    uint64_t barriers;
    uint64_t kv_used_max; /* since no block was in use */
    assay_instant *instants;
    uint64_t traced, tracing;
    assay_plan plan;
} assay_kernel_state;

/* ---- the trace ---------------------------------------------------------------------------------- */

/* Afterwards: what is stamped may be visible to the host already, so its time was taken before. */
ASSAY_FN void stamp(assay_kernel_state *s, uint32_t slot, uint32_t generation, uint32_t what,
                    uint64_t ticks) {
    if (!s->tracing) return;
    assay_instant *to = s->instants + (s->traced & (s->desk.limits.trace_events - 1));
    store_sys(&to->stamp, 0);
    store_sys(&to->ticks, ticks);
    store_sys(&to->who, (uint64_t)slot << 32 | generation);
    store_sys(&to->what, what);
    store_sys(&to->stamp, ++s->traced);
    store_sys(&s->desk.link->traced, s->traced);
}

#endif
