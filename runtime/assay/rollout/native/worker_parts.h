/* What the files of the worker share.
 *
 *   worker.c         one iteration: drain, admit, step, settle; endings, retraction
 *   worker_batch.c   forms the batch of one step
 *   worker_thread.c  the thread: idle, held, stopped, crashed
 *   worker_memory.c  lays out the worker's memory
 */
#ifndef ASSAY_WORKER_PARTS_H
#define ASSAY_WORKER_PARTS_H

#include "worker.h"

static inline void assay_worker_add(_Atomic(uint64_t) *counter, uint64_t n) {
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed) + n;
    atomic_store_explicit(counter, now, memory_order_relaxed);
}

static inline void assay_worker_crash(assay_worker *w, enum assay_crash why, int32_t detail) {
    if (atomic_load(&w->crash) != ASSAY_CRASH_NONE) return;
    atomic_store(&w->crash_detail, detail);
    atomic_store(&w->crash, why);
}

static inline bool assay_worker_crashed(const assay_worker *w) {
    return atomic_load_explicit(&w->crash, memory_order_relaxed) != ASSAY_CRASH_NONE;
}

/* Positions to prefill: all tokens but the last, which the first decode step is fed. */
static inline uint32_t assay_worker_prefix_len(const assay_worker *w, uint32_t slot) {
    return assay_row(w->region, slot)->prompt_len + w->lanes[slot].regained - 1;
}

static inline uint32_t assay_worker_generated(const assay_rollout *row) {
    return atomic_load_explicit(&row->n_generated, memory_order_relaxed);
}

/* One iteration without its wake-ups: no system call, no allocation. False: nothing to do. */
bool assay_worker_pass(assay_worker *w);
/* The next step's decode rows, in w->steps and w->step_slots; returns their number. */
uint32_t assay_worker_add_decode_rows(assay_worker *w);
/* Chunks of prompts after the `n` decode rows; returns the number of all entries. */
uint32_t assay_worker_add_prefill_chunks(assay_worker *w, uint32_t n);

#endif
