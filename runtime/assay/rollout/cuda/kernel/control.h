/* The stage operations of `native/core.c` for a kernel: one thread owns every row and credit, the host
 * is reached through three SPSC rings. Rows, credits and lines are, byte for byte, those of the
 * reference interpreter (`tests/rollout/interpreter.py`). Compiles as C++ on the device and on the host.
 */
#ifndef ASSAY_CONTROL_H
#define ASSAY_CONTROL_H

#include "link.h"
#include "portable.h"

enum assay_code {
    ASSAY_OK = 0,
    ASSAY_EMPTY = 1,
    ASSAY_SATURATED = 2,
    ASSAY_STALE = 3,
    ASSAY_INVALID = 4,
    ASSAY_MISMATCH = 5
};

typedef struct {
    uint32_t slot;
    uint32_t generation;
} assay_name;

/* The kernel's end of a ring. What only the kernel needs of it stays out of the ring, which lies beyond the
 * bus: `at` is the next line, `shadow` the other end as last seen. */
typedef struct {
    assay_ring *ring;
    uint64_t at, shadow, mask;
} assay_side;

/* The part of the kernel's own memory that the stage operations use. */
typedef struct {
    assay_link *link;
    assay_side commands, scores, done;
    assay_rollout *rows;
    assay_credit credits[ASSAY_CREDITS];
    assay_limits limits;
    uint64_t submitted, completed, failed, illegal, stale, corrupt;
} assay_desk;

/* ---- lines -------------------------------------------------------------------------------------- */

ASSAY_FN uint64_t cookie_of(const uint64_t *w) {
    uint64_t sum = w[0] * 0x9E3779B97F4A7C15ull + w[1] * 0xC2B2AE3D27D4EB4Full +
                   w[2] * 0x165667B19E3779F9ull + w[3] * 0x27D4EB2F165667C5ull +
                   w[4] * 0x85EBCA77C2B2AE63ull + w[5] * 0xFF51AFD7ED558CCDull +
                   w[6] * 0xC4CEB9FE1A85EC53ull;
    return sum ^ sum >> 32;
}

ASSAY_FN void copy_line(void *to, const void *from) {
    uint64_t *t = (uint64_t *)to;
    const uint64_t *f = (const uint64_t *)from;
    for (int i = 0; i < 8; i++) t[i] = f[i];
}

/* ---- rings: this side's end --------------------------------------------------------------------- */

ASSAY_FN assay_side side_of(assay_link *link, uint64_t at) {
    assay_side side;
    side.ring = (assay_ring *)((uint8_t *)link + at);
    side.at = side.shadow = load_sys(&side.ring->head); /* both ends of a fresh ring */
    side.mask = side.ring->mask;
    return side;
}

ASSAY_FN void open_rings(assay_desk *k) {
    k->commands = side_of(k->link, k->link->commands_at);
    k->scores = side_of(k->link, k->link->rewards_at);
    k->done = side_of(k->link, k->link->done_at);
}

ASSAY_FN assay_descriptor *cell_of(const assay_side *side, uint64_t at) {
    return (assay_descriptor *)(void *)(side->ring + 1) + (at & side->mask);
}

ASSAY_FN bool ring_has_room(assay_side *side) {
    if (side->at - side->shadow > side->mask) side->shadow = load_sys(&side->ring->head);
    return side->at - side->shadow <= side->mask;
}

ASSAY_FN bool ring_put(assay_side *side, void *line) {
    if (!ring_has_room(side)) return false;
    uint64_t *words = (uint64_t *)line;
    words[7] = cookie_of(words);
    copy_line(cell_of(side, side->at++), line);
    store_sys(&side->ring->tail, side->at);
    return true;
}

ASSAY_FN int ring_get(assay_side *side, assay_descriptor *out) {
    if (side->shadow == side->at) side->shadow = load_sys(&side->ring->tail);
    if (side->shadow == side->at) return ASSAY_EMPTY;
    copy_line(out, cell_of(side, side->at++));
    store_sys(&side->ring->head, side->at);
    return out->cookie == cookie_of((const uint64_t *)out) ? ASSAY_OK : ASSAY_MISMATCH;
}

/* ---- credits and states ------------------------------------------------------------------------- */

ASSAY_FN bool take_credit(assay_desk *k, uint32_t kind, int64_t n) {
    if (k->credits[kind].available < n) {
        k->credits[kind].refused++;
        return false;
    }
    k->credits[kind].available -= n;
    return true;
}

ASSAY_FN void give_credit(assay_desk *k, uint32_t kind, int64_t n) {
    k->credits[kind].available += n;
}

ASSAY_FN void give_holds(assay_desk *k, assay_rollout *row, uint32_t holds) {
    holds &= row->holds;
    row->holds = (uint8_t)(row->holds & ~holds);
    if (holds & ASSAY_HOLD_DECODE) give_credit(k, ASSAY_CREDIT_DECODE, 1);
    if (holds & ASSAY_HOLD_REWARD) give_credit(k, ASSAY_CREDIT_REWARD, 1);
    if (holds & ASSAY_HOLD_TRAJECTORY) give_credit(k, ASSAY_CREDIT_TRAJECTORY, 1);
}

ASSAY_FN uint64_t word_of(uint32_t generation, uint32_t state) {
    return (uint64_t)generation << 8 | state;
}

ASSAY_FN uint32_t state_of(const assay_rollout *row) { return (uint32_t)(row->word & 0xFF); }

ASSAY_FN uint32_t generation_of(const assay_rollout *row) { return (uint32_t)(row->word >> 8); }

ASSAY_FN bool may_follow(uint32_t from, uint32_t to) {
    return from < ASSAY_STATES && (ASSAY_TRANSITIONS[from] >> to & 1u) != 0;
}

ASSAY_FN int move_on(assay_desk *k, assay_name name, uint32_t from, uint32_t to) {
    if (!may_follow(from, to)) {
        k->illegal++;
        return ASSAY_INVALID;
    }
    if (name.slot >= k->limits.slots ||
        k->rows[name.slot].word != word_of(name.generation, from)) {
        k->stale++;
        return ASSAY_STALE;
    }
    k->rows[name.slot].word = word_of(name.generation + (to == ASSAY_FREE), to);
    return ASSAY_OK;
}

/* ---- stage operations --------------------------------------------------------------------------- */

/* An order of the host: the slot's row is in the link. FREE to PREFILL_READY. */
ASSAY_FN int stage_order(assay_desk *k, assay_name name) {
    int status = move_on(k, name, ASSAY_FREE, ASSAY_PREFILL_READY);
    if (status != ASSAY_OK) return status;
    assay_rollout *row = &k->rows[name.slot];
    const uint64_t *from =
        (const uint64_t *)((uint8_t *)k->link + k->link->rows_at) + name.slot * 48ull;
    uint64_t *to = (uint64_t *)row;
    const uint64_t cancel = row->cancel;
    for (int i = 1; i < 48; i++) to[i] = from[i];
    row->cancel = cancel;
    k->submitted++;
    return ASSAY_OK;
}

ASSAY_FN int stage_prefilled(assay_desk *k, assay_name name) {
    return move_on(k, name, ASSAY_PREFILL_READY, ASSAY_DECODING);
}

/* From `from` to DONE, with its completion on the done ring, which has a place for every slot. */
ASSAY_FN int stage_end(assay_desk *k, assay_name name, uint32_t from, uint8_t outcome,
                       uint64_t ticks) {
    int status = move_on(k, name, from, ASSAY_DONE);
    if (status != ASSAY_OK) return status;
    assay_rollout *row = &k->rows[name.slot];
    row->outcome = outcome;
    give_holds(k, row, ASSAY_HOLD_DECODE | ASSAY_HOLD_REWARD);
    if (outcome == ASSAY_COMPLETED)
        k->completed++;
    else
        k->failed++;
    assay_completion c;
    c.slot = name.slot;
    c.generation = name.generation;
    c.kind = ASSAY_KIND_DONE;
    c.outcome = row->outcome;
    c.stop = row->stop;
    c.prompt_len = row->prompt_len;
    c.n_generated = row->n_generated;
    c.scored = row->scored;
    c.user_data = row->user_data;
    c.reward_id = row->reward_id;
    c.posted = ticks;
    c.reward = row->reward;
    return ring_put(&k->done, &c) ? ASSAY_OK : ASSAY_SATURATED;
}

ASSAY_FN int pass_unscored(assay_desk *k, assay_name name, uint64_t ticks) {
    if (!take_credit(k, ASSAY_CREDIT_TRAJECTORY, 1)) return ASSAY_SATURATED;
    int status = move_on(k, name, ASSAY_DECODING, ASSAY_REWARD_PENDING);
    if (status == ASSAY_OK)
        status = move_on(k, name, ASSAY_REWARD_PENDING, ASSAY_TRAJECTORY_READY);
    if (status != ASSAY_OK) {
        give_credit(k, ASSAY_CREDIT_TRAJECTORY, 1);
        return status;
    }
    k->rows[name.slot].holds |= ASSAY_HOLD_TRAJECTORY;
    return stage_end(k, name, ASSAY_TRAJECTORY_READY, ASSAY_COMPLETED, ticks);
}

/* Decoding ended: the response is put on the reward ring. SATURATED: try again. */
ASSAY_FN int stage_decoded(assay_desk *k, assay_name name, uint64_t ticks) {
    assay_rollout *row = &k->rows[name.slot];
    if (row->flags & ASSAY_FLAG_NO_REWARD) return pass_unscored(k, name, ticks);
    if (!ring_has_room(&k->scores) || !take_credit(k, ASSAY_CREDIT_REWARD, 1)) return ASSAY_SATURATED;
    row->holds |= ASSAY_HOLD_REWARD;
    give_holds(k, row, ASSAY_HOLD_DECODE);
    assay_descriptor d;
    d.slot = name.slot;
    d.generation = name.generation;
    d.kind = ASSAY_KIND_REWARD;
    d.flags = row->flags;
    d.seq_len = row->prompt_len + row->n_generated;
    d.max_tokens = row->max_tokens;
    d.kv = row->kv_reserved;
    d.prefix = row->prefix;
    d.reward_id = row->reward_id;
    d.posted = ticks;
    d.aux = 0;
    int status = move_on(k, name, ASSAY_DECODING, ASSAY_REWARD_PENDING);
    if (status == ASSAY_OK) (void)ring_put(&k->scores, &d);
    return status;
}

/* A score of the host; the rollout is then DONE. SATURATED: no trajectory credit, try again. */
ASSAY_FN int stage_score(assay_desk *k, assay_name name, double reward, uint64_t ticks) {
    if (!take_credit(k, ASSAY_CREDIT_TRAJECTORY, 1)) return ASSAY_SATURATED;
    int status = move_on(k, name, ASSAY_REWARD_PENDING, ASSAY_TRAJECTORY_READY);
    if (status != ASSAY_OK) {
        give_credit(k, ASSAY_CREDIT_TRAJECTORY, 1);
        return status;
    }
    assay_rollout *row = &k->rows[name.slot];
    row->reward = reward;
    row->scored = 1;
    row->holds |= ASSAY_HOLD_TRAJECTORY;
    give_holds(k, row, ASSAY_HOLD_REWARD);
    return stage_end(k, name, ASSAY_TRAJECTORY_READY, ASSAY_COMPLETED, ticks);
}

/* The host has copied the result out: the slot's next generation begins. */
ASSAY_FN int stage_release(assay_desk *k, assay_name name) {
    if (name.slot >= k->limits.slots ||
        k->rows[name.slot].word != word_of(name.generation, ASSAY_DONE)) {
        k->stale++;
        return ASSAY_STALE;
    }
    give_holds(k, &k->rows[name.slot], ASSAY_HOLD_TRAJECTORY);
    return move_on(k, name, ASSAY_DONE, ASSAY_FREE);
}

#endif
