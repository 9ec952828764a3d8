#define _GNU_SOURCE
#include "worker.h"

#include <pthread.h>
#include <sched.h>

#include "arena.h"
#include "contain.h"
#include "guard.h"

enum { PARK_NS = 100 * 1000 * 1000, ORDERS_PER_ITERATION = 256 };

/* ---- small things ----------------------------------------------------------------------------- */

static void add(_Atomic(uint64_t) *counter, uint64_t n) {
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed) + n;
    atomic_store_explicit(counter, now, memory_order_relaxed);
}

static void crash(assay_worker *w, enum assay_crash why, int32_t detail) {
    if (atomic_load(&w->crash) != ASSAY_CRASH_NONE) return;
    atomic_store(&w->crash_detail, detail);
    atomic_store(&w->crash, why);
}

static bool crashed(const assay_worker *w) {
    return atomic_load_explicit(&w->crash, memory_order_relaxed) != ASSAY_CRASH_NONE;
}

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

/* Positions to prefill: all tokens but the last, which the first decode step is fed. */
static uint32_t prefix_len(const assay_worker *w, uint32_t slot) {
    return assay_row(w->region, slot)->prompt_len + w->lanes[slot].regained - 1;
}

/* Of a rollout that waits or prefills. */
static enum assay_state state_of(const assay_worker *w, uint32_t slot) {
    return w->lanes[slot].retracted ? ASSAY_DECODING : ASSAY_PREFILL_READY;
}

static uint32_t generated(const assay_rollout *row) {
    return atomic_load_explicit(&row->n_generated, memory_order_relaxed);
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
        add(&w->stats.blocked, 1);
        return false;
    }
    w->lanes[slot].phase = ASSAY_PHASE_NONE;
    if (status != ASSAY_OK) crash(w, ASSAY_CRASH_BROKEN, 1);
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
    if (status == ASSAY_MISMATCH) crash(w, ASSAY_CRASH_MEMORY, ASSAY_KIND_PREFILL);
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
    if (status == ASSAY_MISMATCH) crash(w, ASSAY_CRASH_MEMORY, ASSAY_KIND_TRAJECTORY);
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
                        prefix_len(w, slot) + 1, row->prompt_len + row->max_tokens - 1, version)) {
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
    lane->positions = assay_kv_matched_positions(&w->kv, &lane->table, prefix_len(w, slot));
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
    if (assay_prefilled(w->region, r, assay_ticks()) != ASSAY_OK) crash(w, ASSAY_CRASH_BROKEN, 2);
}

/* Move on every rollout whose prefix is complete. */
static bool pass_prefilled(assay_worker *w) {
    uint32_t kept = 0, before = w->prefilling.n;
    for (uint32_t i = 0; i < before; i++) {
        uint32_t slot = w->prefilling.slots[i];
        if (matched_counted(w, slot) && w->lanes[slot].positions == prefix_len(w, slot))
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
            crash(w, ASSAY_CRASH_MEMORY, ASSAY_KIND_DECODE);
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

/* ---- forming a batch --------------------------------------------------------------------------- */

/* The last block that the rollout shares, which stands for the whole prefix before it. */
static uint32_t leaf_of(const assay_worker *w, uint32_t slot) {
    const assay_table *t = &w->lanes[slot].table;
    return t->prefix_blocks ? t->ids[t->prefix_blocks - 1] : ASSAY_NONE;
}

static bool stands_before(const assay_worker *w, uint32_t a, uint32_t b) {
    uint32_t x = leaf_of(w, a), y = leaf_of(w, b);
    return x != y ? x < y : w->lanes[a].ticket < w->lanes[b].ticket;
}

/* Insertion sort: the list changes by a few rollouts from one step to the next. */
static void order_by_prefix(const assay_worker *w, uint32_t *slots, uint32_t n) {
    for (uint32_t i = 1; i < n; i++) {
        uint32_t slot = slots[i], at = i;
        for (; at && stands_before(w, slot, slots[at - 1]); at--) slots[at] = slots[at - 1];
        slots[at] = slot;
    }
}

/* Smallest key first: due rollouts by arrival, then by policy. */
static uint64_t step_key(const assay_worker *w, uint32_t slot) {
    const assay_lane *lane = &w->lanes[slot];
    const assay_rollout *row = assay_row(w->region, slot);
    const uint64_t ticket = lane->ticket & 0xFFFFFFFFu, later = 1ull << 63;
    if (w->step_number - lane->last_step >= w->settings.aging_max) return lane->ticket;
    if (w->settings.policy == ASSAY_SHORTEST_REMAINING)
        return later | (uint64_t)(row->max_tokens - generated(row)) << 32 | ticket;
    if (w->settings.policy == ASSAY_PREFIX_SHARING)
        return later | (uint64_t)(leaf_of(w, slot) != w->last_leaf) << 32 | ticket;
    return later | ticket;
}

/* Inserts a rollout into the n chosen ones, which are ordered by key; beyond `most` the last is dropped.
 * Returns their new number. */
static uint32_t choose(assay_worker *w, uint32_t n, uint32_t most, uint32_t slot, uint64_t key) {
    if (n == most && key >= w->chosen_keys[n - 1]) return n;
    uint32_t at = n == most ? n - 1 : n;
    for (; at && w->chosen_keys[at - 1] > key; at--) {
        w->chosen_keys[at] = w->chosen_keys[at - 1];
        w->chosen[at] = w->chosen[at - 1];
    }
    w->chosen_keys[at] = key;
    w->chosen[at] = slot;
    return n == most ? n : n + 1;
}

/* The `most` active rollouts with the least keys, in prefix order, into w->chosen. */
static uint32_t choose_rows(assay_worker *w, uint32_t most) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->active.n; i++) {
        uint32_t slot = w->active.slots[i];
        n = choose(w, n, most, slot, step_key(w, slot));
    }
    if (n) w->last_leaf = leaf_of(w, w->chosen[0]);
    order_by_prefix(w, w->chosen, n);
    return n;
}

static uint32_t pick_rows(assay_worker *w, const uint32_t **rows) {
    uint32_t most = w->settings.rows_max;
    /* A full batch of decode rows would leave no room for prefill in the step. */
    if (w->prefilling.n && most == w->engine->batch_max && most > 1) most--;
    if (w->active.n > most) {
        *rows = w->chosen;
        return choose_rows(w, most);
    }
    if (w->reordered) order_by_prefix(w, w->active.slots, w->active.n);
    w->reordered = false;
    *rows = w->active.slots;
    return w->active.n;
}

static bool add_decode_row(assay_worker *w, uint32_t slot, uint32_t n) {
    assay_lane *lane = &w->lanes[slot];
    if (!assay_kv_writable(&w->kv, &lane->table, lane->positions)) {
        crash(w, ASSAY_CRASH_BROKEN, 3);
        return false;
    }
    lane->last_step = w->step_number;
    w->step_slots[n] = slot;
    w->steps[n] = (assay_seq_step){
        .tokens = assay_tokens(w->region, slot) + lane->positions,
        .n_tokens = 1,
        .pos0 = lane->positions,
        .block_table = lane->table.ids,
        .n_blocks = lane->table.n_blocks,
        .want_logits = 1,
        .sampler = &assay_row(w->region, slot)->sampler,
    };
    return true;
}

/* Neighbours with the same shared leaf share every block before it. */
static void note_sharing(assay_worker *w, uint32_t n) {
    uint64_t shared = 0;
    for (uint32_t i = 0; i + 1 < n; i++) {
        uint32_t a = w->step_slots[i], b = w->step_slots[i + 1], leaf = leaf_of(w, a);
        if (leaf == ASSAY_NONE || leaf != leaf_of(w, b)) continue;
        shared += w->steps[i].shared_blocks == 0 ? 2 : 1;
        w->steps[i].shared_blocks = w->lanes[a].table.prefix_blocks;
        w->steps[i + 1].shared_blocks = w->lanes[b].table.prefix_blocks;
    }
    add(&w->stats.shared_rows, shared);
}

static uint32_t add_decode_rows(assay_worker *w) {
    const uint32_t *rows;
    uint32_t n_rows = pick_rows(w, &rows), n = 0;
    while (n < n_rows && add_decode_row(w, rows[n], n)) n++;
    note_sharing(w, n);
    return n;
}

static uint32_t add_prefill_chunks(assay_worker *w, uint32_t n) {
    uint32_t left = w->engine->step_tokens_max - n;
    if (left > w->settings.prefill_chunk) left = w->settings.prefill_chunk;
    for (uint32_t i = 0; i < w->prefilling.n && left && n < w->engine->batch_max; i++) {
        uint32_t slot = w->prefilling.slots[i];
        assay_lane *lane = &w->lanes[slot];
        if (!lane->matched) continue; /* another rollout computes its prefix */
        uint32_t todo = prefix_len(w, slot) - lane->positions;
        uint32_t take = todo < left ? todo : left;
        w->step_slots[n] = slot;
        w->steps[n++] = (assay_seq_step){
            .tokens = assay_tokens(w->region, slot) + lane->positions,
            .n_tokens = take,
            .pos0 = lane->positions,
            .block_table = lane->table.ids,
            .n_blocks = lane->table.n_blocks,
            .sampler = &assay_row(w->region, slot)->sampler,
        };
        left -= take;
    }
    return n;
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
    uint32_t at = ++w->lanes[slot].positions, n = generated(row) + 1;
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
                          prefix_len(w, w->step_slots[i]), (uint32_t)s->policy_version);
    }
    add(&w->stats.steps, 1);
    add(&w->stats.decode_tokens, n_decode);
    add(&w->stats.prefill_tokens, prefilled);
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
    lane->regained = generated(row);
    lane->positions = lane->matched = 0;
    assay_waiting_add_first(&w->waiting, slot, row->max_tokens - generated(row), row->prefix);
    add(&w->stats.retracted, 1);
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
    uint32_t n_decode = add_decode_rows(w);
    uint32_t n = add_prefill_chunks(w, n_decode);
    if (n == 0 || crashed(w)) return false;
    uint32_t number = (uint32_t)w->step_number++;
    assay_trace_mark(w->trace, number, n, ASSAY_EV_STEP_BEGIN);
    uint64_t begin = assay_ticks();
    int status = w->engine->step(w->engine->self, w->kv.base, w->steps, n);
    add(&w->stats.engine_ticks, assay_ticks() - begin);
    assay_trace_mark(w->trace, number, n, ASSAY_EV_STEP_END);
    if (status != 0) {
        crash(w, ASSAY_CRASH_ENGINE, status);
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

static bool iterate(assay_worker *w) {
    uint64_t begin = assay_ticks();
    bool any = drain_orders(w);
    any |= drain_trajectories(w);
    any |= retry_blocked(w);
    any |= admit(w);
    any |= pass_prefilled(w);
    drain_decode_ring(w);
    if (!crashed(w)) any |= step(w);
    publish_dones(w);
    add(&w->stats.iterations, 1);
    if (any) add(&w->stats.busy_ticks, assay_ticks() - begin);
    return any;
}

/* Makes a system call only for a host that has parked. */
static void tell_host(assay_worker *w) {
    if (w->dones_staged || w->rewards_posted) assay_bell_ring(&w->host);
    w->dones_staged = w->rewards_posted = 0;
}

bool assay_worker_iterate(assay_worker *w) {
    assay_guard_hot_begin();
    bool any = iterate(w);
    assay_guard_hot_end();
    tell_host(w);
    return any;
}

bool assay_worker_runs_nothing(const assay_worker *w) {
    return w->prefilling.n == 0 && w->active.n == 0 &&
           assay_ring_length(assay_decode_ring(w->region)) == 0;
}

static bool wants_hold(assay_worker *w) {
    if (atomic_load(&w->stop)) return false;
    return atomic_load(&w->pauses) || atomic_load(&w->retracts) ||
           (atomic_load(&w->finishes) && assay_worker_runs_nothing(w));
}

static bool asked(assay_worker *w) {
    return atomic_load_explicit(&w->stop, memory_order_relaxed) || wants_hold(w);
}

/* Sleeping threads of the engine are woken here, outside the guarded iteration, and are spinning when
 * the step starts. */
static void rouse_engine(const assay_worker *w) {
    if (w->engine->rouse != NULL) w->engine->rouse(w->engine->self);
}

static bool has_orders(const assay_worker *w) {
    return assay_queue_length(assay_prefill_queue(w->region)) != 0;
}

/* Look for work for spin_ns, then park until rung. A timeout bounds the cost of a lost wake-up. */
static void idle(assay_worker *w) {
    uint64_t limit = (uint64_t)((double)w->settings.spin_ns / assay_clock_of()->ns_per_tick);
    uint64_t begin = assay_ticks();
    uint32_t seen = assay_bell_read(&w->bell);
    do {
        if (asked(w)) return;
        if (has_orders(w)) rouse_engine(w);
        if (assay_worker_iterate(w)) return;
        assay_relax();
    } while (assay_ticks() - begin < limit);
    if (assay_bell_read(&w->bell) == seen) assay_bell_park(&w->bell, seen, PARK_NS);
    if (has_orders(w)) rouse_engine(w);
}

/* A caller that knows the worker is held must not see KV move: while rollouts run, a retraction waits
 * until those callers have resumed, and `held` stays unset until it is done. */
static bool must_let_go(assay_worker *w, enum assay_held level) {
    return level == ASSAY_HELD_RUNNING && atomic_load(&w->pauses) == 0;
}

static void hold(assay_worker *w) {
    if (atomic_load(&w->retracts) && atomic_load(&w->pauses) == 0) assay_worker_retract(w);
    enum assay_held level = assay_worker_runs_nothing(w) ? ASSAY_HELD_EMPTY : ASSAY_HELD_RUNNING;
    atomic_store(&w->held, level);
    assay_bell_ring(&w->host);
    while (wants_hold(w) && !must_let_go(w, level)) {
        uint32_t seen = assay_bell_read(&w->bell);
        if (wants_hold(w) && !must_let_go(w, level)) assay_bell_park(&w->bell, seen, PARK_NS);
    }
    atomic_store(&w->held, ASSAY_HELD_NOT);
    if (!assay_worker_runs_nothing(w)) rouse_engine(w);
}

/* ---- the thread ---------------------------------------------------------------------------------- */

static void pin(int32_t cpu) {
    cpu_set_t set;
    if (cpu < 0) return;
    CPU_ZERO(&set);
    CPU_SET((unsigned)cpu, &set);
    (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

static void work(void *worker) {
    assay_worker *w = worker;
    while (!atomic_load_explicit(&w->stop, memory_order_relaxed) && !crashed(w)) {
        while (wants_hold(w)) hold(w);
        if (!assay_worker_iterate(w)) idle(w);
    }
}

void *assay_worker_run(void *worker) {
    assay_worker *w = worker;
    pin(w->settings.cpu);
    assay_name_thread("assay-decode");
    assay_guard_thread_enter();
    int number = assay_contain(work, w);
    if (number != 0) {
        assay_guard_hot_end();
        crash(w, ASSAY_CRASH_SIGNAL, number);
    }
    assay_guard_thread_leave();
    atomic_store(&w->state, crashed(w) ? ASSAY_WORKER_CRASHED : ASSAY_WORKER_STOPPED);
    assay_bell_ring(&w->host);
    return NULL;
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

/* ---- memory ------------------------------------------------------------------------------------- */

static uint32_t table_length(const assay_shape *s) {
    return (s->seq_max + s->block_tokens - 1) / s->block_tokens + 1;
}

/* Parts of the worker's memory that other modules lay out. */
typedef struct {
    uint32_t *tables;
    void *kv, *waiting;
} side_parts;

enum { PARTS = 11 };

static void list_parts(assay_worker *w, side_parts *side, const assay_shape *s,
                       const assay_engine_ops *e, assay_part parts[PARTS]) {
    const assay_part all[PARTS] = {
        {&w->lanes, s->slots * sizeof *w->lanes},
        {&side->tables, (size_t)s->slots * table_length(s) * sizeof *side->tables},
        {&w->prefilling.slots, s->decode_credits * sizeof *w->prefilling.slots},
        {&w->active.slots, s->decode_credits * sizeof *w->active.slots},
        {&w->blocked.slots, s->decode_credits * sizeof *w->blocked.slots},
        {&w->steps, e->batch_max * sizeof *w->steps},
        {&w->step_slots, e->batch_max * sizeof *w->step_slots},
        {&w->chosen, e->batch_max * sizeof *w->chosen},
        {&w->chosen_keys, e->batch_max * sizeof *w->chosen_keys},
        {&side->kv, assay_kv_bytes(s->kv_blocks, s->block_tokens)},
        {&side->waiting, assay_waiting_bytes(s->slots)},
    };
    memcpy(parts, all, sizeof all);
}

size_t assay_worker_bytes(const assay_shape *shape, const assay_engine_ops *engine) {
    assay_worker unused;
    side_parts side;
    assay_part parts[PARTS];
    list_parts(&unused, &side, shape, engine, parts);
    return assay_parts_bytes(parts, PARTS);
}

void assay_worker_init(assay_worker *w, void *memory, assay_region *region, assay_trace *trace,
                       const assay_engine_ops *engine, const assay_worker_settings *settings,
                       uint8_t *kv_base) {
    const assay_shape *s = &region->shape;
    side_parts side;
    assay_part parts[PARTS];
    list_parts(w, &side, s, engine, parts);
    assay_parts_place(parts, PARTS, memory);
    w->region = region;
    w->trace = trace;
    w->engine = engine;
    w->settings = *settings;
    w->last_leaf = ASSAY_NONE;
    for (uint32_t slot = 0; slot < s->slots; slot++) {
        w->lanes[slot].table.ids = side.tables + (size_t)slot * table_length(s);
        w->lanes[slot].generation = s->generation_first - 1;
    }
    assay_kv_init(&w->kv, side.kv, s->kv_blocks, assay_credit_of(region, ASSAY_CREDIT_KV), kv_base,
                  engine, settings->prefix_cache != 0);
    assay_waiting_init(&w->waiting, side.waiting, s->slots, settings->policy, settings->aging_max);
}
