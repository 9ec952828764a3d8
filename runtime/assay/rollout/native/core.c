#include "core.h"

#include <sched.h>

/* ---- layout --------------------------------------------------------------------------------- */

uint64_t assay_pow2_at_least(uint64_t n) {
    uint64_t p = 2;
    while (p < n) p *= 2;
    return p;
}

static uint64_t line_up(uint64_t n) { return (n + ASSAY_LINE - 1) / ASSAY_LINE * ASSAY_LINE; }

/* A slot has at most one order and two cancels in the prefill queue: the queue is in order, so an
 * order is consumed only after the cancel of the slot's earlier rollout. */
static uint64_t prefill_capacity(const assay_shape *s) { return assay_pow2_at_least(4u * s->slots); }

static uint64_t place(uint64_t *cursor, uint64_t bytes) {
    uint64_t at = *cursor;
    *cursor = line_up(at + bytes);
    return at;
}

/* Fill the offsets; returns the bytes of the whole region. */
static uint64_t lay_out(const assay_shape *s, assay_region *g) {
    uint64_t all = assay_pow2_at_least(s->slots);
    uint64_t cursor = line_up(sizeof *g);
    g->free_at = place(&cursor, assay_queue_bytes(all));
    g->prefill_at = place(&cursor, assay_queue_bytes(prefill_capacity(s)));
    g->decode_at = place(&cursor, assay_ring_bytes(assay_pow2_at_least(s->decode_credits)));
    g->reward_at = place(&cursor, assay_queue_bytes(assay_pow2_at_least(s->reward_credits)));
    g->trajectory_at = place(&cursor, assay_queue_bytes(assay_pow2_at_least(s->trajectory_credits)));
    g->done_at = place(&cursor, assay_ring_bytes(all));
    g->credits_at = place(&cursor, ASSAY_CREDITS * sizeof(assay_credit));
    g->rollouts_at = place(&cursor, (uint64_t)s->slots * sizeof(assay_rollout));
    uint64_t cells = (uint64_t)s->slots * s->seq_max;
    g->tokens_at = place(&cursor, cells * sizeof(int32_t));
    g->logps_at = place(&cursor, cells * sizeof(float));
    g->versions_at = place(&cursor, cells * sizeof(uint32_t));
    return cursor;
}

uint64_t assay_region_bytes(const assay_shape *shape) {
    assay_region scratch;
    return lay_out(shape, &scratch);
}

static void init_credits(assay_region *g) {
    const assay_shape *s = &g->shape;
    assay_credit_init(assay_credit_of(g, ASSAY_CREDIT_DECODE), s->decode_credits);
    assay_credit_init(assay_credit_of(g, ASSAY_CREDIT_REWARD), s->reward_credits);
    assay_credit_init(assay_credit_of(g, ASSAY_CREDIT_TRAJECTORY), s->trajectory_credits);
    assay_credit_init(assay_credit_of(g, ASSAY_CREDIT_KV), s->kv_blocks);
}

static assay_descriptor describe(const assay_region *g, assay_ref ref, uint16_t kind,
                                 uint64_t ticks) {
    const assay_rollout *row = assay_row(g, ref.slot);
    assay_descriptor d = {
        .slot = ref.slot,
        .generation = ref.generation,
        .kind = kind,
        .flags = row->flags,
        .seq_len = row->prompt_len + atomic_load_explicit(&row->n_generated, memory_order_relaxed),
        .max_tokens = row->max_tokens,
        .kv = row->kv_reserved,
        .prefix = row->prefix,
        .reward_id = row->reward_id,
        .posted = ticks,
    };
    assay_seal(&d);
    return d;
}

static assay_descriptor describe_free(assay_ref ref) {
    assay_descriptor d = {
        .slot = ref.slot, .generation = ref.generation, .kind = ASSAY_KIND_FREE};
    assay_seal(&d);
    return d;
}

/* The region's bytes are zero before. */
void assay_region_init(assay_region *g, const assay_shape *shape) {
    g->magic = ASSAY_MAGIC;
    g->shape = *shape;
    g->bytes = lay_out(shape, g);
    uint64_t all = assay_pow2_at_least(shape->slots), start = shape->index_first;
    assay_queue_init(assay_free_queue(g), all, start);
    assay_queue_init(assay_prefill_queue(g), prefill_capacity(shape), start);
    assay_ring_init(assay_decode_ring(g), assay_pow2_at_least(shape->decode_credits), start);
    assay_queue_init(assay_reward_queue(g), assay_pow2_at_least(shape->reward_credits), start);
    assay_queue_init(assay_trajectory_queue(g), assay_pow2_at_least(shape->trajectory_credits),
                     start);
    assay_ring_init(assay_done_ring(g), all, start);
    init_credits(g);
    for (uint32_t slot = 0; slot < shape->slots; slot++) {
        assay_ref ref = {slot, shape->generation_first};
        atomic_init(&assay_row(g, slot)->word, assay_word(ref.generation, ASSAY_FREE));
        assay_descriptor d = describe_free(ref);
        (void)assay_queue_push(assay_free_queue(g), &d);
    }
}

/* ---- shared pieces -------------------------------------------------------------------------- */

enum { SPINS_BEFORE_YIELD = 4096 };

/* Push where the number of entries is bounded below the capacity by construction: a refusal can only
 * mean that a consumer has claimed the cell and not yet copied it, so wait for that consumer. */
static void push_owed(assay_queue *q, const assay_descriptor *d) {
    for (uint32_t spins = 0; !assay_queue_push(q, d); spins++) {
        if (spins < SPINS_BEFORE_YIELD)
            assay_relax();
        else
            (void)sched_yield();
    }
}

static void count(_Atomic(uint64_t) *counter) {
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

uint64_t assay_prefix_hash(const int32_t *tokens, uint32_t n) {
    uint64_t h = 0xCBF29CE484222325u ^ n;
    for (uint32_t i = 0; i < n; i++) {
        h = (h ^ (uint32_t)tokens[i]) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    return h;
}

uint32_t assay_blocks_needed(const assay_shape *shape, uint32_t prompt_len, uint32_t max_tokens) {
    return (prompt_len + max_tokens - 1 + shape->block_tokens - 1) / shape->block_tokens;
}

/* Counted refusal when the pair is illegal; stale when the word moved on. */
static int advance(assay_region *g, assay_ref ref, enum assay_state from, enum assay_state to) {
    if (!assay_transition_legal(from, to)) {
        count(&g->illegal);
        return ASSAY_INVALID;
    }
    if (ref.slot < g->shape.slots &&
        assay_transition(assay_row(g, ref.slot), ref.generation, from, to))
        return ASSAY_OK;
    count(&g->stale);
    return ASSAY_STALE;
}

static bool checked(assay_region *g, const assay_descriptor *d) {
    if (assay_intact(d)) return true;
    count(&g->corrupt);
    return false;
}

static void give_holds(assay_region *g, assay_rollout *row, uint8_t holds) {
    holds &= row->holds;
    row->holds &= (uint8_t)~holds;
    if (holds & ASSAY_HOLD_DECODE) assay_credit_give(assay_credit_of(g, ASSAY_CREDIT_DECODE), 1);
    if (holds & ASSAY_HOLD_REWARD) assay_credit_give(assay_credit_of(g, ASSAY_CREDIT_REWARD), 1);
    if (holds & ASSAY_HOLD_TRAJECTORY)
        assay_credit_give(assay_credit_of(g, ASSAY_CREDIT_TRAJECTORY), 1);
}

/* ---- submitters ----------------------------------------------------------------------------- */

static bool order_valid(const assay_region *g, const assay_order *o, uint32_t prompt_len,
                        uint32_t n) {
    const assay_shape *s = &g->shape;
    if (n == 0 || n > s->slots || prompt_len == 0 || o->max_tokens == 0) return false;
    if (prompt_len > s->seq_max || o->max_tokens > s->seq_max - prompt_len) return false;
    if (o->n_stop_ids > ASSAY_STOP_IDS_MAX || o->n_stop_strings > ASSAY_STOP_STRINGS_MAX)
        return false;
    for (uint32_t i = 0; i < o->n_stop_strings; i++)
        if (o->stop_lengths[i] == 0 || o->stop_lengths[i] > ASSAY_STOP_BYTES_MAX) return false;
    /* One block more: the owner of a cached partial block leaves it and writes to a copy. */
    return assay_blocks_needed(s, prompt_len, o->max_tokens) + 1 <= s->kv_blocks;
}

static uint32_t take_slots(assay_region *g, assay_ref *out, uint32_t n) {
    uint32_t got = 0;
    assay_descriptor d;
    while (got < n && assay_queue_pop(assay_free_queue(g), &d))
        if (checked(g, &d)) out[got++] = (assay_ref){d.slot, d.generation};
    return got;
}

static void return_slots(assay_region *g, const assay_ref *refs, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        assay_descriptor d = describe_free(refs[i]);
        push_owed(assay_free_queue(g), &d);
    }
}

static void fill_row(assay_region *g, uint32_t slot, const assay_order *o, const int32_t *prompt,
                     uint32_t prompt_len, uint64_t prefix, const assay_member *m) {
    assay_rollout *row = assay_row(g, slot);
    row->user_data = m->user_data;
    row->group = o->group;
    row->prefix = prefix;
    row->reward_id = m->reward_id;
    row->reward = 0;
    row->prompt_len = prompt_len;
    row->max_tokens = o->max_tokens;
    atomic_store_explicit(&row->n_generated, 0, memory_order_relaxed);
    row->outcome = ASSAY_OUTCOME_NONE;
    row->stop = ASSAY_STOP_NONE;
    row->holds = 0;
    row->flags = (uint8_t)o->flags;
    row->sampler = o->sampler;
    row->sampler.seed = m->seed;
    row->kv_reserved = 0;
    row->scored = 0;
    row->decode_done = 0;
    row->n_stop_ids = o->n_stop_ids;
    row->n_stop_strings = o->n_stop_strings;
    memcpy(row->stop_ids, o->stop_ids, sizeof row->stop_ids);
    memcpy(row->stop_lengths, o->stop_lengths, sizeof row->stop_lengths);
    memcpy(row->stop_bytes, o->stop_bytes, sizeof row->stop_bytes);
    memcpy(assay_tokens(g, slot), prompt, prompt_len * sizeof *prompt);
}

int assay_submit(assay_region *g, const assay_order *order, const int32_t *prompt,
                 uint32_t prompt_len, const assay_member *members, uint32_t n, uint64_t ticks,
                 assay_ref *out) {
    if (!order_valid(g, order, prompt_len, n)) return ASSAY_INVALID;
    uint32_t got = take_slots(g, out, n);
    if (got < n) {
        return_slots(g, out, got);
        count(&g->saturated);
        return ASSAY_SATURATED;
    }
    uint64_t prefix = assay_prefix_hash(prompt, prompt_len - 1);
    atomic_fetch_add_explicit(&g->submitted, n, memory_order_acq_rel);
    for (uint32_t i = 0; i < n; i++) {
        fill_row(g, out[i].slot, order, prompt, prompt_len, prefix, &members[i]);
        (void)advance(g, out[i], ASSAY_FREE, ASSAY_PREFILL_READY);
        assay_descriptor d = describe(g, out[i], ASSAY_KIND_PREFILL, ticks);
        push_owed(assay_prefill_queue(g), &d);
    }
    return ASSAY_OK;
}

int assay_cancel(assay_region *g, assay_ref ref, uint64_t ticks) {
    if (ref.slot >= g->shape.slots) return ASSAY_INVALID;
    assay_rollout *row = assay_row(g, ref.slot);
    uint64_t word = atomic_load_explicit(&row->word, memory_order_acquire);
    enum assay_state state = assay_word_state(word);
    if (assay_word_generation(word) != ref.generation || state == ASSAY_FREE ||
        state == ASSAY_DONE) {
        count(&g->stale);
        return ASSAY_STALE;
    }
    uint64_t asked = (uint64_t)ref.generation + 1;
    uint64_t before = atomic_exchange_explicit(&row->cancel, asked, memory_order_acq_rel);
    if (before == asked) return ASSAY_EMPTY;
    assay_descriptor d = {.slot = ref.slot,
                          .generation = ref.generation,
                          .kind = ASSAY_KIND_CANCEL,
                          .posted = ticks};
    assay_seal(&d);
    push_owed(assay_prefill_queue(g), &d);
    return ASSAY_OK;
}

static bool exhausted(const assay_region *g, enum assay_credit_kind kind) {
    return atomic_load_explicit(&assay_credit_of(g, kind)->available, memory_order_relaxed) <= 0;
}

int assay_limit_now(const assay_region *g) {
    if (exhausted(g, ASSAY_CREDIT_TRAJECTORY)) return ASSAY_LIMIT_TRAJECTORY;
    if (exhausted(g, ASSAY_CREDIT_REWARD)) return ASSAY_LIMIT_REWARD;
    if (exhausted(g, ASSAY_CREDIT_KV)) return ASSAY_LIMIT_KV;
    if (exhausted(g, ASSAY_CREDIT_DECODE)) return ASSAY_LIMIT_DECODE;
    return assay_queue_length(assay_free_queue(g)) == 0 ? ASSAY_LIMIT_SLOTS : ASSAY_LIMIT_NONE;
}

/* ---- scorers -------------------------------------------------------------------------------- */

int assay_reward_take(assay_region *g, assay_descriptor *out) {
    while (assay_queue_pop(assay_reward_queue(g), out)) {
        if (!checked(g, out)) return ASSAY_MISMATCH;
        uint64_t word = atomic_load_explicit(&assay_row(g, out->slot)->word, memory_order_acquire);
        if (word == assay_word(out->generation, ASSAY_REWARD_PENDING)) return ASSAY_OK;
        count(&g->stale);
    }
    return ASSAY_EMPTY;
}

/* The thread that wins the exchange owns the row until it pushes the worker's descriptor. */
static int pass_score(assay_region *g, assay_ref ref, double reward, uint32_t scored) {
    assay_credit *trajectory = assay_credit_of(g, ASSAY_CREDIT_TRAJECTORY);
    if (!assay_credit_take(trajectory, 1)) return ASSAY_SATURATED;
    int status = advance(g, ref, ASSAY_REWARD_PENDING, ASSAY_TRAJECTORY_READY);
    if (status != ASSAY_OK) {
        assay_credit_give(trajectory, 1);
        return status;
    }
    assay_rollout *row = assay_row(g, ref.slot);
    row->reward = reward;
    row->scored = scored;
    row->holds |= ASSAY_HOLD_TRAJECTORY;
    give_holds(g, row, ASSAY_HOLD_REWARD);
    return ASSAY_OK;
}

int assay_copy_sequence(const assay_region *g, assay_ref ref, enum assay_state state,
                        int32_t *tokens, uint32_t n) {
    assay_rollout *row = assay_row(g, ref.slot);
    uint64_t expected = assay_word(ref.generation, state);
    if (atomic_load_explicit(&row->word, memory_order_acquire) != expected) return ASSAY_STALE;
    memcpy(tokens, assay_tokens(g, ref.slot), n * sizeof *tokens);
    /* A read-modify-write that changes nothing: the copy above cannot sink below it. */
    uint64_t after = atomic_fetch_or_explicit(&row->word, 0, memory_order_acq_rel);
    return after == expected ? ASSAY_OK : ASSAY_STALE;
}

int assay_score(assay_region *g, assay_ref ref, double reward, uint64_t ticks) {
    int status = pass_score(g, ref, reward, 1);
    if (status != ASSAY_OK) return status;
    assay_descriptor d = describe(g, ref, ASSAY_KIND_TRAJECTORY, ticks);
    push_owed(assay_trajectory_queue(g), &d);
    return ASSAY_OK;
}

/* ---- the worker ----------------------------------------------------------------------------- */

int assay_order_take(assay_region *g, assay_descriptor *out) {
    if (!assay_queue_pop(assay_prefill_queue(g), out)) return ASSAY_EMPTY;
    return checked(g, out) ? ASSAY_OK : ASSAY_MISMATCH;
}

int assay_prefilled(assay_region *g, assay_ref ref, uint64_t ticks) {
    int status = advance(g, ref, ASSAY_PREFILL_READY, ASSAY_DECODING);
    if (status != ASSAY_OK) return status;
    assay_descriptor *cell = assay_ring_stage(assay_decode_ring(g));
    if (cell == NULL) return ASSAY_SATURATED;
    *cell = describe(g, ref, ASSAY_KIND_DECODE, ticks);
    return ASSAY_OK;
}

static void stage_completion(assay_region *g, assay_ref ref, uint64_t ticks) {
    const assay_rollout *row = assay_row(g, ref.slot);
    assay_completion c = {
        .slot = ref.slot,
        .generation = ref.generation,
        .kind = ASSAY_KIND_DONE,
        .outcome = row->outcome,
        .stop = row->stop,
        .prompt_len = row->prompt_len,
        .n_generated = atomic_load_explicit(&row->n_generated, memory_order_relaxed),
        .scored = row->scored,
        .user_data = row->user_data,
        .reward_id = row->reward_id,
        .posted = ticks,
        .reward = row->reward,
    };
    assay_seal(&c);
    assay_descriptor *cell = assay_ring_stage(assay_done_ring(g));
    if (cell != NULL) memcpy(cell, &c, sizeof c);
}

int assay_end(assay_region *g, assay_ref ref, enum assay_state from, enum assay_outcome outcome,
              uint64_t ticks) {
    int status = advance(g, ref, from, ASSAY_DONE);
    if (status != ASSAY_OK) return status;
    assay_rollout *row = assay_row(g, ref.slot);
    row->outcome = (uint8_t)outcome;
    give_holds(g, row, ASSAY_HOLD_DECODE | ASSAY_HOLD_REWARD);
    count(outcome == ASSAY_COMPLETED ? &g->completed : &g->failed);
    stage_completion(g, ref, ticks);
    return ASSAY_OK;
}

/* Skips the reward stage: the same states, without a scorer. */
static int pass_unscored(assay_region *g, assay_ref ref, uint64_t ticks) {
    assay_credit *trajectory = assay_credit_of(g, ASSAY_CREDIT_TRAJECTORY);
    if (!assay_credit_take(trajectory, 1)) return ASSAY_SATURATED;
    assay_rollout *row = assay_row(g, ref.slot);
    int status = advance(g, ref, ASSAY_DECODING, ASSAY_REWARD_PENDING);
    if (status == ASSAY_OK) status = advance(g, ref, ASSAY_REWARD_PENDING, ASSAY_TRAJECTORY_READY);
    if (status != ASSAY_OK) {
        assay_credit_give(trajectory, 1);
        return status;
    }
    row->holds |= ASSAY_HOLD_TRAJECTORY;
    return assay_end(g, ref, ASSAY_TRAJECTORY_READY, ASSAY_COMPLETED, ticks);
}

int assay_decoded(assay_region *g, assay_ref ref, uint64_t ticks) {
    assay_rollout *row = assay_row(g, ref.slot);
    if (row->flags & ASSAY_FLAG_NO_REWARD) return pass_unscored(g, ref, ticks);
    assay_credit *reward = assay_credit_of(g, ASSAY_CREDIT_REWARD);
    if (!assay_queue_writable(assay_reward_queue(g)))
        return ASSAY_SATURATED; /* still full of descriptors whose rollouts were cancelled */
    if (!assay_credit_take(reward, 1)) return ASSAY_SATURATED;
    row->holds |= ASSAY_HOLD_REWARD;
    give_holds(g, row, ASSAY_HOLD_DECODE);
    assay_descriptor d = describe(g, ref, ASSAY_KIND_REWARD, ticks);
    int status = advance(g, ref, ASSAY_DECODING, ASSAY_REWARD_PENDING);
    if (status == ASSAY_OK) (void)assay_queue_push(assay_reward_queue(g), &d);
    return status;
}

int assay_trajectory_take(assay_region *g, uint64_t ticks, assay_ref *out) {
    assay_descriptor d;
    while (assay_queue_pop(assay_trajectory_queue(g), &d)) {
        if (!checked(g, &d)) return ASSAY_MISMATCH;
        *out = (assay_ref){d.slot, d.generation};
        if (assay_end(g, *out, ASSAY_TRAJECTORY_READY, ASSAY_COMPLETED, ticks) == ASSAY_OK)
            return ASSAY_OK;
    }
    return ASSAY_EMPTY;
}

/* ---- the collector -------------------------------------------------------------------------- */

uint64_t assay_collect(assay_region *g, assay_completion *out, uint64_t n) {
    uint64_t got = 0;
    while (got < n && assay_ring_pop(assay_done_ring(g), (assay_descriptor *)(void *)&out[got], 1))
        if (assay_intact(&out[got])) got++;
        else count(&g->corrupt);
    return got;
}

uint64_t assay_release(assay_region *g, const assay_completion *done, uint64_t n) {
    uint64_t released = 0;
    for (uint64_t i = 0; i < n; i++) {
        assay_ref ref = {done[i].slot, done[i].generation};
        if (ref.slot >= g->shape.slots) continue;
        assay_rollout *row = assay_row(g, ref.slot);
        uint64_t word = atomic_load_explicit(&row->word, memory_order_acquire);
        if (word != assay_word(ref.generation, ASSAY_DONE)) {
            count(&g->stale);
            continue;
        }
        give_holds(g, row, ASSAY_HOLD_TRAJECTORY);
        if (advance(g, ref, ASSAY_DONE, ASSAY_FREE) != ASSAY_OK) continue;
        assay_descriptor d = describe_free((assay_ref){ref.slot, ref.generation + 1});
        push_owed(assay_free_queue(g), &d);
        released++;
    }
    return released;
}

void assay_census(const assay_region *g, uint64_t *out) {
    memset(out, 0, ASSAY_STATES * sizeof *out);
    for (uint32_t slot = 0; slot < g->shape.slots; slot++) {
        uint64_t word = atomic_load_explicit(&assay_row(g, slot)->word, memory_order_acquire);
        out[assay_word_state(word)]++;
    }
}
