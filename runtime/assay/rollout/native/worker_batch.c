/* See worker.h: which rollouts the next step computes. */
#include "worker_parts.h"

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
        return later | (uint64_t)(row->max_tokens - assay_worker_generated(row)) << 32 | ticket;
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
        assay_worker_crash(w, ASSAY_CRASH_BROKEN, 3);
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
    assay_worker_add(&w->stats.shared_rows, shared);
}

uint32_t assay_worker_add_decode_rows(assay_worker *w) {
    const uint32_t *rows;
    uint32_t n_rows = pick_rows(w, &rows), n = 0;
    while (n < n_rows && add_decode_row(w, rows[n], n)) n++;
    note_sharing(w, n);
    return n;
}

uint32_t assay_worker_add_prefill_chunks(assay_worker *w, uint32_t n) {
    uint32_t left = w->engine->step_tokens_max - n;
    if (left > w->settings.prefill_chunk) left = w->settings.prefill_chunk;
    for (uint32_t i = 0; i < w->prefilling.n && left && n < w->engine->batch_max; i++) {
        uint32_t slot = w->prefilling.slots[i];
        assay_lane *lane = &w->lanes[slot];
        if (!lane->matched) continue; /* another rollout computes its prefix */
        uint32_t todo = assay_worker_prefix_len(w, slot) - lane->positions;
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
