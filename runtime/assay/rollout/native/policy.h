/* The waiting set: rollouts that have been ordered and not yet admitted, under one of three policies.
 * One thread (the worker) owns it.
 *
 * Invariants:
 *   - every rollout added is picked or removed exactly once: no policy loses work;
 *   - a rollout that has waited through `aging_max` admissions is due, and due rollouts go first,
 *     oldest first: so it is admitted after at most aging_max + (older rollouts waiting when it came)
 *     further admissions, independent of later arrivals.
 */
#ifndef ASSAY_POLICY_H
#define ASSAY_POLICY_H

#include "core.h"

enum assay_policy {
    ASSAY_FIFO = 0,
    ASSAY_SHORTEST_REMAINING = 1, /* fewest tokens still to generate, then arrival */
    ASSAY_PREFIX_SHARING = 2      /* same prefix as the last admitted, then arrival */
};

typedef struct {
    uint64_t arrived_at; /* admissions before it came */
    uint64_t prefix;
    uint64_t ticket; /* arrival number */
    uint32_t remaining;
    uint32_t next, prev;             /* all waiting, by arrival */
    uint32_t same_next, same_prev;   /* the bucket of its prefix, by arrival */
    uint32_t heap_at;
} assay_waiter;

typedef struct {
    uint32_t policy;
    uint32_t n;
    uint32_t head, tail;
    uint32_t bucket_mask;
    uint64_t aging_max;
    uint64_t admitted;
    uint64_t tickets;
    uint64_t last_prefix;
    uint64_t aged; /* picks made because a rollout was due and the policy preferred another */
    assay_waiter *waiters; /* by slot */
    uint32_t *heap;        /* slots, shortest remaining on top */
    uint32_t *bucket_head, *bucket_tail;
} assay_waiting;

size_t assay_waiting_bytes(uint32_t slots);
void assay_waiting_init(assay_waiting *w, void *memory, uint32_t slots, uint32_t policy,
                        uint64_t aging_max);
void assay_waiting_add(assay_waiting *w, uint32_t slot, uint32_t remaining, uint64_t prefix);
/* Before all others, and due: for a rollout that was admitted before and released its KV. */
void assay_waiting_add_first(assay_waiting *w, uint32_t slot, uint32_t remaining,
                             uint64_t prefix);
void assay_waiting_remove(assay_waiting *w, uint32_t slot);
/* The next rollout; ASSAY_NONE when none waits. Changes nothing. */
uint32_t assay_waiting_pick(const assay_waiting *w);
/* The picked one was admitted. */
void assay_waiting_admit(assay_waiting *w, uint32_t slot);

#endif
