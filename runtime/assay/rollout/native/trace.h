/* The trace ring: timestamped events, separate from the data path. Any thread writes, the newest
 * `capacity` events are kept, the oldest are overwritten (and counted as such by the reader).
 *
 * Invariants: a cell is read completely or not at all (its stamp is its position + 1, zero while it
 * is being written); the reader reads positions in order, also across the wrap.
 */
#ifndef ASSAY_TRACE_H
#define ASSAY_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

enum assay_event {
    ASSAY_EV_POSTED = 1,             /* order visible to the worker */
    ASSAY_EV_CONSUMED = 2,           /* order taken by the worker */
    ASSAY_EV_PREFILL_BEGIN = 3,      /* admitted: KV laid out */
    ASSAY_EV_PREFILL_END = 4,        /* the prefix's KV is complete */
    ASSAY_EV_STEP_BEGIN = 5,         /* slot: step number, generation: rows */
    ASSAY_EV_STEP_END = 6,
    ASSAY_EV_DECODE_DONE = 7,        /* last token sampled */
    ASSAY_EV_REWARD_POSTED = 8,      /* visible to scorers */
    ASSAY_EV_SCORED = 9,             /* score attached, visible to the trajectory stage */
    ASSAY_EV_TRAJECTORY_TAKEN = 10,  /* taken by the trajectory stage */
    ASSAY_EV_TRAJECTORY_DONE = 11,   /* DONE */
    ASSAY_EV_COMPLETION_VISIBLE = 12,/* done ring published */
    ASSAY_EV_OBSERVED = 13           /* host copied the completion out */
};

typedef struct {
    _Atomic(uint64_t) stamp;
    _Atomic(uint64_t) ticks;
    _Atomic(uint64_t) who;  /* slot << 32 | generation */
    _Atomic(uint64_t) what; /* enum assay_event */
} assay_trace_cell;

typedef struct {
    uint64_t ticks;
    uint32_t slot;
    uint32_t generation;
    uint64_t event;
} assay_trace_record;

typedef struct {
    _Alignas(64) _Atomic(uint64_t) head;
    _Alignas(64) _Atomic(uint32_t) on;
    uint64_t mask;
    assay_trace_cell *cells;
} assay_trace;

static inline void assay_trace_stamp(assay_trace *t, uint64_t ticks, uint32_t slot,
                                     uint32_t generation, enum assay_event event) {
    uint64_t at = atomic_fetch_add_explicit(&t->head, 1, memory_order_relaxed);
    assay_trace_cell *c = &t->cells[at & t->mask];
    atomic_store_explicit(&c->stamp, 0, memory_order_release);
    atomic_store_explicit(&c->ticks, ticks, memory_order_release);
    atomic_store_explicit(&c->who, (uint64_t)slot << 32 | generation, memory_order_release);
    atomic_store_explicit(&c->what, event, memory_order_release);
    atomic_store_explicit(&c->stamp, at + 1, memory_order_release);
}

static inline bool assay_trace_is_on(const assay_trace *t) {
    return atomic_load_explicit(&t->on, memory_order_relaxed) != 0;
}

static inline void assay_trace_mark(assay_trace *t, uint32_t slot, uint32_t generation,
                                    enum assay_event event) {
    if (assay_trace_is_on(t)) assay_trace_stamp(t, assay_ticks(), slot, generation, event);
}

/* Copies records of positions [from, head), oldest first, at most n. Returns how many; *next is
 * where to continue, *lost how many positions were overwritten before they could be read. */
static inline uint64_t assay_trace_read(const assay_trace *t, uint64_t from,
                                        assay_trace_record *out, uint64_t n, uint64_t *next,
                                        uint64_t *lost) {
    uint64_t head = atomic_load_explicit(&t->head, memory_order_acquire), got = 0;
    uint64_t oldest = head > t->mask + 1 ? head - (t->mask + 1) : 0;
    *lost = from < oldest ? oldest - from : 0;
    if (from < oldest) from = oldest;
    for (; from < head && got < n; from++) {
        const assay_trace_cell *c = &t->cells[from & t->mask];
        uint64_t stamp = atomic_load_explicit(&c->stamp, memory_order_acquire);
        uint64_t ticks = atomic_load_explicit(&c->ticks, memory_order_acquire);
        uint64_t who = atomic_load_explicit(&c->who, memory_order_acquire);
        uint64_t what = atomic_load_explicit(&c->what, memory_order_acquire);
        if (stamp == from + 1 && atomic_load_explicit(&c->stamp, memory_order_relaxed) == stamp)
            out[got++] = (assay_trace_record){ticks, (uint32_t)(who >> 32), (uint32_t)who, what};
        else
            ++*lost;
    }
    *next = from;
    return got;
}

#endif
