/* See worker.h: one iteration. The other parts are listed in worker_parts.h. */
#include "worker_parts.h"

enum { ORDERS_PER_ITERATION = 256 };

static assay_ref ref_of(const assay_worker *w, uint32_t slot) {
    return (assay_ref){slot, w->lanes[slot].generation};
}

static void mark(assay_worker *w, assay_ref r, enum assay_event event) {
    assay_trace_mark(w->trace, r.slot, r.generation, event);
}

static void list_push(assay_list *l, uint32_t slot) { l->slots[l->n++] = slot; }

static void list_remove(assay_list *l, uint32_t slot) {
    uint32_t i = 0;
    while (i < l->n && l->slots[i] != slot) i++;
    if (i == l->n) return;
    memmove(&l->slots[i], &l->slots[i + 1], (l->n - i - 1) * sizeof *l->slots);
    l->n--;
}

/* Of a rollout that waits or prefills. */
static enum assay_state state_of(const assay_worker *w, uint32_t slot) {
    return w->lanes[slot].retracted ? ASSAY_DECODING : ASSAY_PREFILL_READY;
}

/* ---- endings ---------------------------------------------------------------------------------- */

static void leave(assay_worker *w, uint32_t slot) {
    assay_kv_release(&w->kv, &w->lanes[slot].table);
    w->lanes[slot].phase = ASSAY_PHASE_NONE;
    w->lanes[slot].cancelled = 0;
}

static void end(assay_worker *w, uint32_t slot, enum assay_state from,
                enum assay_outcome outcome) {
    assay_ref r = ref_of(w, slot);
    leave(w, slot);
    if (assay_end(w->region, r, from, outcome, assay_ticks()) != ASSAY_OK) return;
    mark(w, r, ASSAY_EV_TRAJECTORY_DONE);
    w->dones_staged++;
}

/* The last token is generated: release the KV and hand over, or wait for room in the reward stage. */
static bool hand_over(assay_worker *w, uint32_t slot) {
    assay_ref r = ref_of(w, slot);
    bool unscored = assay_row(w->region, slot)->flags & ASSAY_FLAG_NO_REWARD;
    uint64_t now = assay_ticks(); /* before the hand-over: the scorer may be faster than this thread */
    int status = assay_decoded(w->region, r, now);
    if (status == ASSAY_SATURATED) {
        assay_worker_add(&w->stats.blocked, 1);
        return false;
    }
    w->lanes[slot].phase = ASSAY_PHASE_NONE;
    if (status != ASSAY_OK) assay_worker_crash(w, ASSAY_CRASH_BROKEN, 1);
    if (unscored) {
        mark(w, r, ASSAY_EV_TRAJECTORY_DONE);
        w->dones_staged++;
    } else {
        if (assay_trace_is_on(w->trace))
            assay_trace_stamp(w->trace, now, r.slot, r.generation, ASSAY_EV_REWARD_POSTED);
        w->rewards_posted++;
    }
    return true;
}

static void finish_decode(assay_worker *w, uint32_t slot, enum assay_stop why) {
    assay_rollout *row = assay_row(w->region, slot);
    row->stop = (uint8_t)why;
    row->decode_done = assay_ticks();
    mark(w, ref_of(w, slot), ASSAY_EV_DECODE_DONE);
    list_remove(&w->active, slot);
    leave(w, slot);
    w->reordered = true;
    if (hand_over(w, slot)) return;
    w->lanes[slot].phase = ASSAY_PHASE_BLOCKED;
    list_push(&w->blocked, slot);
}

/* ---- orders and cancels ------------------------------------------------------------------------ */

static void take_order(assay_worker *w, const assay_descriptor *d) {
    assay_lane *lane = &w->lanes[d->slot];
    lane->generation = d->generation;
    lane->phase = ASSAY_PHASE_WAITING;
    lane->cancelled = lane->matched = lane->tail_length = lane->retracted = 0;
    lane->positions = lane->regained = 0;
    assay_waiting_add(&w->waiting, d->slot, d->max_tokens, d->prefix);
    mark(w, (assay_ref){d->slot, d->generation}, ASSAY_EV_CONSUMED);
}

static void cancel_here(assay_worker *w, uint32_t slot) {
    assay_lane *lane = &w->lanes[slot];
    switch ((enum assay_phase)lane->phase) {
    case ASSAY_PHASE_WAITING:
        assay_waiting_remove(&w->waiting, slot);
        end(w, slot, state_of(w, slot), ASSAY_CANCELLED);
        return;
    case ASSAY_PHASE_PREFILLING:
        lane->cancelled = 1;
        if (assay_kv_awaited(&w->kv, &lane->table)) return; /* others wait for its prefix */
        list_remove(&w->prefilling, slot);
        end(w, slot, state_of(w, slot), ASSAY_CANCELLED);
        return;
    case ASSAY_PHASE_HANDED:
        lane->cancelled = 1;
        return;
    case ASSAY_PHASE_ACTIVE:
        list_remove(&w->active, slot);
        w->reordered = true;
        end(w, slot, ASSAY_DECODING, ASSAY_CANCELLED);
        return;
    case ASSAY_PHASE_BLOCKED:
        list_remove(&w->blocked, slot);
        end(w, slot, ASSAY_DECODING, ASSAY_CANCELLED);
        return;
    case ASSAY_PHASE_NONE:
        end(w, slot, ASSAY_REWARD_PENDING, ASSAY_CANCELLED);
        return;
    }
}

static void take_cancel(assay_worker *w, const assay_descriptor *d) {
    if (w->lanes[d->slot].generation == d->generation) cancel_here(w, d->slot);
}

static bool drain_orders(assay_worker *w) {
    assay_descriptor d;
    int status = ASSAY_EMPTY;
    uint32_t n = 0;
    while (n < ORDERS_PER_ITERATION && (status = assay_order_take(w->region, &d)) == ASSAY_OK) {
        n++;
        if (d.kind == ASSAY_KIND_CANCEL)
            take_cancel(w, &d);
        else
            take_order(w, &d);
    }
    if (status == ASSAY_MISMATCH) assay_worker_crash(w, ASSAY_CRASH_MEMORY, ASSAY_KIND_PREFILL);
    return n > 0;
}

/* ---- scored trajectories ----------------------------------------------------------------------- */

static bool drain_trajectories(assay_worker *w) {
    uint64_t before = w->dones_staged;
    assay_ref r;
    int status;
    while ((status = assay_trajectory_take(w->region, assay_ticks(), &r)) == ASSAY_OK) {
        mark(w, r, ASSAY_EV_TRAJECTORY_TAKEN);
        mark(w, r, ASSAY_EV_TRAJECTORY_DONE);
        w->dones_staged++;
    }
    if (status == ASSAY_MISMATCH) assay_worker_crash(w, ASSAY_CRASH_MEMORY, ASSAY_KIND_TRAJECTORY);
    return w->dones_staged != before;
}

static bool retry_blocked(assay_worker *w) {
    bool any = false;
    while (w->blocked.n && hand_over(w, w->blocked.slots[0])) {
        list_remove(&w->blocked, w->blocked.slots[0]);
        any = true;
    }
    return any;
}

/* ---- admission and prefill --------------------------------------------------------------------- */

static bool admit_one(assay_worker *w, uint32_t slot) {
    assay_credit *decode = assay_credit_of(w->region, ASSAY_CREDIT_DECODE);
    assay_rollout *row = assay_row(w->region, slot);
    assay_lane *lane = &w->lanes[slot];
    if (!assay_credit_take(decode, 1)) return false;
    uint32_t version = atomic_load_explicit(&w->region->policy_version, memory_order_acquire);
    if (!assay_kv_admit(&w->kv, &lane->table, assay_tokens(w->region, slot),
                        assay_worker_prefix_len(w, slot) + 1,
                        row->prompt_len + row->max_tokens - 1, version)) {
        assay_credit_give(decode, 1);
        return false;
    }
    row->holds |= ASSAY_HOLD_DECODE;
    row->kv_reserved = lane->table.reserved;
    row->kv_version = version;
    row->kv_mixed = 0;
    assay_waiting_admit(&w->waiting, slot);
    lane->phase = ASSAY_PHASE_PREFILLING;
    lane->ticket = w->admissions++;
    lane->last_step = w->step_number;
    list_push(&w->prefilling, slot);
    mark(w, ref_of(w, slot), ASSAY_EV_PREFILL_BEGIN);
    return true;
}

static bool admit(assay_worker *w) {
    bool any = false;
    uint32_t slot;
    if (atomic_load_explicit(&w->finishes, memory_order_relaxed)) return false;
    while ((slot = assay_waiting_pick(&w->waiting)) != ASSAY_NONE && admit_one(w, slot)) any = true;
    atomic_store_explicit(&w->stats.admitted, w->waiting.admitted, memory_order_relaxed);
    atomic_store_explicit(&w->stats.aged, w->waiting.aged, memory_order_relaxed);
    return any;
}

/* Count the positions found in the cache, once they are computed. False: not yet computed. */
static bool matched_counted(assay_worker *w, uint32_t slot) {
    assay_lane *lane = &w->lanes[slot];
    if (lane->matched) return true;
    if (!assay_kv_matched_ready(&w->kv, &lane->table)) return false;
    lane->positions = assay_kv_matched_positions(&w->kv, &lane->table, assay_worker_prefix_len(w, slot));
    lane->matched = 1;
    return true;
}

static void end_prefill(assay_worker *w, uint32_t slot) {
    assay_lane *lane = &w->lanes[slot];
    assay_ref r = ref_of(w, slot);
    if (lane->cancelled) {
        end(w, slot, state_of(w, slot), ASSAY_CANCELLED);
        return;
    }
    mark(w, r, ASSAY_EV_PREFILL_END);
    if (lane->retracted) {
        lane->retracted = 0;
        lane->phase = ASSAY_PHASE_ACTIVE;
        w->reordered = true;
        list_push(&w->active, slot);
        return;
    }
    lane->phase = ASSAY_PHASE_HANDED;
    if (assay_prefilled(w->region, r, assay_ticks()) != ASSAY_OK)
        assay_worker_crash(w, ASSAY_CRASH_BROKEN, 2);
}

/* Move on every rollout whose prefix is complete. */
static bool pass_prefilled(assay_worker *w) {
    uint32_t kept = 0, before = w->prefilling.n;
    for (uint32_t i = 0; i < before; i++) {
        uint32_t slot = w->prefilling.slots[i];
        if (matched_counted(w, slot) && w->lanes[slot].positions == assay_worker_prefix_len(w, slot))
            end_prefill(w, slot);
        else
            w->prefilling.slots[kept++] = slot;
    }
    w->prefilling.n = kept;
    if (kept != before) assay_ring_publish(assay_decode_ring(w->region));
    return kept != before;
}

static void drain_decode_ring(assay_worker *w) {
    assay_descriptor d;
    while (assay_ring_pop(assay_decode_ring(w->region), &d, 1)) {
        if (!assay_intact(&d)) {
            assay_worker_crash(w, ASSAY_CRASH_MEMORY, ASSAY_KIND_DECODE);
            return;
        }
        assay_lane *lane = &w->lanes[d.slot];
        w->reordered = true;
        if (lane->cancelled) {
            end(w, d.slot, ASSAY_DECODING, ASSAY_CANCELLED);
            continue;
        }
        lane->phase = ASSAY_PHASE_ACTIVE;
        list_push(&w->active, d.slot);
    }
}

/* ---- stop conditions ---------------------------------------------------------------------------- */

static bool is_stop_id(const assay_rollout *row, int32_t token) {
    for (uint32_t i = 0; i < row->n_stop_ids; i++)
        if (row->stop_ids[i] == token) return true;
    return false;
}

static void tail_push(assay_lane *lane, uint8_t byte) {
    if (lane->tail_length == ASSAY_STOP_BYTES_MAX)
        memmove(lane->tail, lane->tail + 1, --lane->tail_length);
    lane->tail[lane->tail_length++] = byte;
}

static bool tail_ends_with(const assay_lane *lane, const uint8_t *bytes, uint32_t n) {
    return n <= lane->tail_length && memcmp(lane->tail + lane->tail_length - n, bytes, n) == 0;
}

/* A stop string may end inside the token's bytes, so check after each byte. */
static bool completes_stop_string(const assay_worker *w, uint32_t slot, int32_t token) {
    const assay_rollout *row = assay_row(w->region, slot);
    assay_lane *lane = &w->lanes[slot];
    if (row->n_stop_strings == 0 || w->token_offsets == NULL) return false;
    for (uint32_t at = w->token_offsets[token]; at < w->token_offsets[token + 1]; at++) {
        tail_push(lane, w->token_bytes[at]);
        for (uint32_t i = 0; i < row->n_stop_strings; i++)
            if (tail_ends_with(lane, row->stop_bytes[i], row->stop_lengths[i])) return true;
    }
    return false;
}

/* ---- settling a step ---------------------------------------------------------------------------- */

static enum assay_stop append(assay_worker *w, uint32_t slot, const assay_seq_step *s) {
    assay_rollout *row = assay_row(w->region, slot);
    uint32_t at = ++w->lanes[slot].positions, n = assay_worker_generated(row) + 1;
    assay_tokens(w->region, slot)[at] = s->out_token;
    assay_logps(w->region, slot)[at] = s->out_logp;
    assay_versions(w->region, slot)[at] = (uint32_t)s->policy_version;
    atomic_store_explicit(&row->n_generated, n, memory_order_release);
    if (is_stop_id(row, s->out_token)) return ASSAY_STOP_ID;
    if (completes_stop_string(w, slot, s->out_token)) return ASSAY_STOP_STRING;
    return n == row->max_tokens ? ASSAY_STOP_LENGTH : ASSAY_STOP_NONE;
}

static void settle_decode(assay_worker *w, uint32_t slot, const assay_seq_step *s) {
    if (s->out_token < 0 || (uint32_t)s->out_token >= w->engine->vocab_size) {
        list_remove(&w->active, slot);
        w->reordered = true;
        end(w, slot, ASSAY_DECODING, ASSAY_NOT_FINITE);
        return;
    }
    enum assay_stop why = append(w, slot, s);
    if (why != ASSAY_STOP_NONE) finish_decode(w, slot, why);
}

static void settle(assay_worker *w, uint32_t n_decode, uint32_t n) {
    uint64_t prefilled = 0;
    for (uint32_t i = 0; i < n_decode; i++) settle_decode(w, w->step_slots[i], &w->steps[i]);
    for (uint32_t i = n_decode; i < n; i++) {
        assay_lane *lane = &w->lanes[w->step_slots[i]];
        const assay_seq_step *s = &w->steps[i];
        assay_rollout *row = assay_row(w->region, w->step_slots[i]);
        lane->positions += s->n_tokens;
        prefilled += s->n_tokens;
        row->kv_mixed |= (uint32_t)s->policy_version != row->kv_version;
        assay_kv_computed(&w->kv, &lane->table, s->pos0, lane->positions,
                          assay_worker_prefix_len(w, w->step_slots[i]), (uint32_t)s->policy_version);
    }
    assay_worker_add(&w->stats.steps, 1);
    assay_worker_add(&w->stats.decode_tokens, n_decode);
    assay_worker_add(&w->stats.prefill_tokens, prefilled);
}

/* A cancelled rollout continues its prefill only while others wait for its prefix. */
static void drop_unawaited(assay_worker *w) {
    for (uint32_t i = 0; i < w->prefilling.n;) {
        uint32_t slot = w->prefilling.slots[i];
        if (!w->lanes[slot].cancelled || assay_kv_awaited(&w->kv, &w->lanes[slot].table)) {
            i++;
            continue;
        }
        list_remove(&w->prefilling, slot);
        end(w, slot, state_of(w, slot), ASSAY_CANCELLED);
    }
}

/* ---- retraction --------------------------------------------------------------------------------- */

static void wait_again(assay_worker *w, uint32_t slot) {
    assay_lane *lane = &w->lanes[slot];
    assay_rollout *row = assay_row(w->region, slot);
    enum assay_state state = lane->phase == ASSAY_PHASE_ACTIVE ? ASSAY_DECODING : state_of(w, slot);
    if (lane->cancelled) { /* it continued its prefill for others, which start again too */
        end(w, slot, state, ASSAY_CANCELLED);
        return;
    }
    assay_kv_release(&w->kv, &lane->table);
    row->holds &= (uint8_t)~ASSAY_HOLD_DECODE;
    assay_credit_give(assay_credit_of(w->region, ASSAY_CREDIT_DECODE), 1);
    lane->phase = ASSAY_PHASE_WAITING;
    lane->retracted = state == ASSAY_DECODING;
    lane->regained = assay_worker_generated(row);
    lane->positions = lane->matched = 0;
    assay_waiting_add_first(&w->waiting, slot, row->max_tokens - assay_worker_generated(row), row->prefix);
    assay_worker_add(&w->stats.retracted, 1);
}

static void wait_again_all(assay_worker *w, assay_list *running) {
    while (running->n) wait_again(w, running->slots[--running->n]);
}

void assay_worker_retract(assay_worker *w) {
    wait_again_all(w, &w->prefilling);
    wait_again_all(w, &w->active);
    w->reordered = true;
}

static bool step(assay_worker *w) {
    uint32_t n_decode = assay_worker_add_decode_rows(w);
    uint32_t n = assay_worker_add_prefill_chunks(w, n_decode);
    if (n == 0 || assay_worker_crashed(w)) return false;
    uint32_t number = (uint32_t)w->step_number++;
    assay_trace_mark(w->trace, number, n, ASSAY_EV_STEP_BEGIN);
    uint64_t begin = assay_ticks();
    int status = w->engine->step(w->engine->self, w->kv.base, w->steps, n);
    assay_worker_add(&w->stats.engine_ticks, assay_ticks() - begin);
    assay_trace_mark(w->trace, number, n, ASSAY_EV_STEP_END);
    if (status != 0) {
        assay_worker_crash(w, ASSAY_CRASH_ENGINE, status);
        return false;
    }
    settle(w, n_decode, n);
    drop_unawaited(w);
    return true;
}

/* ---- the loop ----------------------------------------------------------------------------------- */

/* Publish what this iteration staged, then stamp: the completions are visible from here on. */
static void publish_dones(assay_worker *w) {
    assay_ring *done = assay_done_ring(w->region);
    uint64_t from = atomic_load_explicit(&done->tail, memory_order_relaxed), to = done->staged;
    if (from == to) return;
    if (assay_trace_is_on(w->trace)) {
        uint64_t now = assay_ticks();
        for (uint64_t at = from; at != to; at++) {
            const assay_descriptor *c = &done->cells[at & done->mask];
            assay_trace_stamp(w->trace, now, c->slot, c->generation, ASSAY_EV_COMPLETION_VISIBLE);
        }
    }
    assay_ring_publish(done);
}

bool assay_worker_pass(assay_worker *w) {
    uint64_t begin = assay_ticks();
    bool any = drain_orders(w);
    any |= drain_trajectories(w);
    any |= retry_blocked(w);
    any |= admit(w);
    any |= pass_prefilled(w);
    drain_decode_ring(w);
    if (!assay_worker_crashed(w)) any |= step(w);
    publish_dones(w);
    assay_worker_add(&w->stats.iterations, 1);
    if (any) assay_worker_add(&w->stats.busy_ticks, assay_ticks() - begin);
    return any;
}

/* ---- after a crash ------------------------------------------------------------------------------ */

uint64_t assay_worker_bury(assay_worker *w) {
    uint64_t taken_down = 0;
    assay_descriptor d;
    assay_ref r;
    int status;
    do status = assay_trajectory_take(w->region, assay_ticks(), &r);
    while (status == ASSAY_OK || status == ASSAY_MISMATCH);
    while (assay_queue_pop(assay_prefill_queue(w->region), &d)) continue;
    for (uint32_t slot = 0; slot < w->region->shape.slots; slot++) {
        uint64_t word = atomic_load_explicit(&assay_row(w->region, slot)->word,
                                             memory_order_acquire);
        enum assay_state state = assay_word_state(word);
        if (state == ASSAY_FREE || state == ASSAY_DONE || state == ASSAY_TRAJECTORY_READY) continue;
        r = (assay_ref){slot, assay_word_generation(word)};
        taken_down += assay_end(w->region, r, state, ASSAY_CRASHED, assay_ticks()) == ASSAY_OK;
    }
    publish_dones(w);
    return taken_down;
}

