/* Continuous batching inside the kernel: admission, KV blocks, shared prefixes, the plan of a step, and
 * what follows from its tokens. One thread decides; what every token costs is done by a thread per row.
 *
 * Invariants:
 *   - an admitted rollout holds every KV block it can still need, so that no step allocates;
 *   - KV blocks: free + those of prefixes with a reference + those of admitted rollouts == all;
 *   - a shared prefix is whole blocks of one group's prompt, computed once, by weights of one version for
 *     those that join it; its rows are adjacent in the plan;
 *   - the rows of one step are a function of the rollouts alone, never of the host's timing within it.
 */
#ifndef ASSAY_SCHEDULE_H
#define ASSAY_SCHEDULE_H

#include "state.h"

/* ---- lists -------------------------------------------------------------------------------------- */

ASSAY_FN void wait_last(assay_kernel_state *s, uint32_t slot) {
    s->waiting[(s->waiting_first + s->n_waiting++) % s->desk.limits.slots] = slot;
    s->runs[slot].phase = PHASE_WAITING;
}

ASSAY_FN void wait_first(assay_kernel_state *s, uint32_t slot) {
    s->waiting_first = (s->waiting_first + s->desk.limits.slots - 1) % s->desk.limits.slots;
    s->n_waiting++;
    s->waiting[s->waiting_first] = slot;
    s->runs[slot].phase = PHASE_WAITING;
}

ASSAY_FN void leave_waiting(assay_kernel_state *s, uint32_t slot) {
    const uint32_t n = s->desk.limits.slots;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->n_waiting; i++) {
        uint32_t one = s->waiting[(s->waiting_first + i) % n];
        if (one != slot) s->waiting[(s->waiting_first + kept++) % n] = one;
    }
    s->n_waiting = kept;
}

ASSAY_FN void leave_list(uint32_t *list, uint32_t *n, uint32_t slot) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *n; i++)
        if (list[i] != slot) list[kept++] = list[i];
    *n = kept;
}

ASSAY_FN assay_name name_at(const assay_kernel_state *s, uint32_t slot) {
    assay_name name;
    name.slot = slot;
    name.generation = generation_of(&s->desk.rows[slot]);
    return name;
}

ASSAY_FN uint32_t *table_of(const assay_kernel_state *s, uint32_t index) {
    return s->tables + (uint64_t)index * s->table_width;
}

/* ---- KV blocks ---------------------------------------------------------------------------------- */

ASSAY_FN void give_blocks(assay_kernel_state *s, const uint32_t *ids, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) s->free_ids[s->n_free++] = ids[i];
    give_credit(&s->desk, ASSAY_CREDIT_KV, n);
}

ASSAY_FN void take_blocks(assay_kernel_state *s, uint32_t *ids, uint32_t n) {
    const uint64_t all = s->desk.limits.kv_blocks;
    if (s->n_free == all) s->kv_used_max = 0;
    for (uint32_t i = 0; i < n; i++) ids[i] = s->free_ids[--s->n_free];
    s->desk.credits[ASSAY_CREDIT_KV].available -= n;
    if (all - s->n_free > s->kv_used_max) s->kv_used_max = all - s->n_free;
}

ASSAY_FN void release_kv(assay_kernel_state *s, uint32_t slot) {
    assay_run *run = &s->runs[slot];
    uint32_t before = 0;
    if (run->prefix != ASSAY_NONE) {
        assay_prefix *p = &s->prefixes[run->prefix];
        before = p->n_blocks;
        if (--p->refs == 0)
            give_blocks(s, table_of(s, s->desk.limits.slots + run->prefix), p->n_blocks);
    }
    give_blocks(s, table_of(s, slot) + before, run->n_own);
    run->prefix = ASSAY_NONE;
    run->n_own = 0;
    run->computed = 0;
    s->desk.rows[slot].kv_reserved = 0;
}

ASSAY_FN uint32_t find_prefix(const assay_kernel_state *s, const assay_run *run,
                              uint32_t version) {
    for (uint32_t i = 0; i < s->n_active; i++) {
        uint32_t at = s->runs[s->active[i]].prefix;
        if (at == ASSAY_NONE) continue;
        const assay_prefix *p = &s->prefixes[at];
        if (p->leader == run->leader && p->leader_gen == run->leader_gen && p->version == version)
            return at;
    }
    return ASSAY_NONE;
}

ASSAY_FN uint32_t unused_prefix(const assay_kernel_state *s) {
    uint32_t at = 0;
    while (s->prefixes[at].refs) at++; /* one per slot, so there is one */
    return at;
}

/* Beside its siblings, so that their rows are adjacent. */
ASSAY_FN void enter_active(assay_kernel_state *s, uint32_t slot) {
    const uint32_t prefix = s->runs[slot].prefix;
    uint32_t at = s->n_active;
    for (uint32_t i = 0; prefix != ASSAY_NONE && i < s->n_active; i++)
        if (s->runs[s->active[i]].prefix == prefix) at = i + 1;
    for (uint32_t i = s->n_active; i > at; i--) s->active[i] = s->active[i - 1];
    s->active[at] = slot;
    s->n_active++;
    s->runs[slot].phase = PHASE_ACTIVE;
}

/* Decode credit and all blocks, or nothing. */
ASSAY_FN bool admit(assay_kernel_state *s, uint32_t slot, uint32_t version) {
    assay_rollout *row = &s->desk.rows[slot];
    assay_run *run = &s->runs[slot];
    const uint32_t shared = (row->prompt_len - 1) / A_BLOCK;
    const uint32_t all = (row->prompt_len + row->max_tokens - 1 + A_BLOCK - 1) / A_BLOCK;
    uint32_t prefix = shared ? find_prefix(s, run, version) : ASSAY_NONE;
    const uint32_t needed = prefix == ASSAY_NONE ? all : all - shared;
    if (needed > s->n_free || s->n_active == A_ROWS) return false;
    if (!(row->holds & ASSAY_HOLD_DECODE)) {
        if (!take_credit(&s->desk, ASSAY_CREDIT_DECODE, 1)) return false;
        row->holds |= ASSAY_HOLD_DECODE;
    }
    if (shared && prefix == ASSAY_NONE) {
        prefix = unused_prefix(s);
        assay_prefix *p = &s->prefixes[prefix];
        p->refs = 0;
        p->n_blocks = shared;
        p->computed = 0;
        p->version = version;
        p->leader = run->leader;
        p->leader_gen = run->leader_gen;
        take_blocks(s, table_of(s, s->desk.limits.slots + prefix), shared);
    }
    uint32_t *table = table_of(s, slot);
    if (shared) {
        s->prefixes[prefix].refs++;
        const uint32_t *ids = table_of(s, s->desk.limits.slots + prefix);
        for (uint32_t i = 0; i < shared; i++) table[i] = ids[i];
    }
    run->prefix = prefix;
    run->n_own = all - shared;
    run->computed = shared * A_BLOCK;
    take_blocks(s, table + shared, run->n_own);
    row->kv_reserved = all;
    stamp(s, slot, generation_of(row), INSTANT_PREFILL_BEGIN, now_ns());
    enter_active(s, slot);
    return true;
}

/* ---- stage operations that are traced ----------------------------------------------------------- */

ASSAY_FN void stamp_end(assay_kernel_state *s, assay_name name, uint64_t ticks) {
    stamp(s, name.slot, name.generation, INSTANT_TRAJECTORY_DONE, ticks);
    stamp(s, name.slot, name.generation, INSTANT_COMPLETION_VISIBLE, ticks);
}

ASSAY_FN int attach_score(assay_kernel_state *s, assay_name name, double score, uint64_t ticks) {
    const int status = stage_score(&s->desk, name, score, ticks);
    if (status == ASSAY_OK) stamp_end(s, name, ticks);
    return status;
}

ASSAY_FN int post_response(assay_kernel_state *s, assay_name name, uint64_t ticks) {
    const int status = stage_decoded(&s->desk, name, ticks);
    if (status != ASSAY_OK) return status;
    if (state_of(&s->desk.rows[name.slot]) == ASSAY_REWARD_PENDING)
        stamp(s, name.slot, name.generation, INSTANT_REWARD_POSTED, ticks);
    else
        stamp_end(s, name, ticks);
    return status;
}

/* ---- the host's commands ------------------------------------------------------------------------ */

ASSAY_FN void command_cancel(assay_kernel_state *s, assay_name name, uint64_t ticks) {
    assay_rollout *row = &s->desk.rows[name.slot];
    if (generation_of(row) != name.generation || state_of(row) == ASSAY_FREE ||
        state_of(row) == ASSAY_DONE) {
        s->desk.stale++;
        return;
    }
    row->cancel = (uint64_t)name.generation + 1;
    assay_run *run = &s->runs[name.slot];
    if (run->phase == PHASE_WAITING) leave_waiting(s, name.slot);
    if (run->phase == PHASE_PARKED) leave_list(s->parked, &s->n_parked, name.slot);
    if (run->phase == PHASE_ACTIVE) {
        leave_list(s->active, &s->n_active, name.slot);
        release_kv(s, name.slot);
    }
    run->phase = PHASE_IDLE;
    run->owes_score = 0;
    (void)stage_end(&s->desk, name, state_of(row), ASSAY_CANCELLED, ticks);
}

ASSAY_FN void command_order(assay_kernel_state *s, const assay_descriptor *d, assay_name name) {
    if (stage_order(&s->desk, name) != ASSAY_OK) return;
    stamp(s, name.slot, name.generation, INSTANT_CONSUMED, now_ns());
    assay_run *run = &s->runs[name.slot];
    run->prefix = ASSAY_NONE;
    run->computed = run->n_own = run->owes_score = 0;
    run->leader = (uint32_t)d->aux;
    run->leader_gen = (uint32_t)(d->aux >> 32);
    s->tails[name.slot].n = 0;
    wait_last(s, name.slot);
}

ASSAY_FN void obey(assay_kernel_state *s, const assay_descriptor *d, uint64_t ticks) {
    assay_name name;
    name.slot = d->slot;
    name.generation = d->generation;
    if (d->slot >= s->desk.limits.slots) {
        s->desk.stale++;
        return;
    }
    if (d->kind == ASSAY_KIND_PREFILL) {
        command_order(s, d, name);
    } else if (d->kind == ASSAY_KIND_CANCEL) {
        command_cancel(s, name, ticks);
    } else if (d->kind == ASSAY_KIND_TRAJECTORY) {
        double reward;
        memcpy(&reward, &d->aux, sizeof reward);
        stamp(s, name.slot, name.generation, INSTANT_TRAJECTORY_TAKEN, ticks);
        if (attach_score(s, name, reward, ticks) == ASSAY_SATURATED) {
            s->runs[name.slot].owes_score = 1;
            s->runs[name.slot].score = reward;
            s->parked[s->n_parked++] = name.slot;
            s->runs[name.slot].phase = PHASE_PARKED;
        }
    } else if (d->kind == ASSAY_KIND_FREE) {
        (void)stage_release(&s->desk, name);
    } else {
        s->desk.illegal++;
    }
}

/* Take every published command; false: a line was damaged. `tail` of their ring as just read. */
ASSAY_FN bool drain(assay_kernel_state *s, uint64_t tail) {
    assay_descriptor d;
    if (tail == s->desk.commands.at) return true;
    for (;;) {
        int status = ring_get(&s->desk.commands, &d);
        if (status == ASSAY_EMPTY) return true;
        s->dirty = 1;
        if (status == ASSAY_MISMATCH) {
            s->desk.corrupt++;
            return false;
        }
        obey(s, &d, now_ns());
    }
}

/* ---- what a step's tokens lead to --------------------------------------------------------------- */

ASSAY_FN void retry_parked(assay_kernel_state *s) {
    uint32_t kept = 0, n = s->n_parked;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot = s->parked[i];
        assay_run *run = &s->runs[slot];
        int status = run->owes_score ? attach_score(s, name_at(s, slot), run->score, now_ns())
                                     : post_response(s, name_at(s, slot), now_ns());
        if (status == ASSAY_SATURATED) {
            s->parked[kept++] = slot;
        } else {
            run->phase = PHASE_IDLE;
            run->owes_score = 0;
        }
    }
    s->n_parked = kept;
}

ASSAY_FN void finish(assay_kernel_state *s, uint32_t slot, uint32_t fate) {
    leave_list(s->active, &s->n_active, slot);
    release_kv(s, slot);
    s->runs[slot].phase = PHASE_IDLE;
    const uint64_t ticks = now_ns();
    s->desk.rows[slot].decode_done = ticks;
    stamp(s, slot, generation_of(&s->desk.rows[slot]), INSTANT_DECODE_DONE, ticks);
    if (fate == FATE_NOT_FINITE) {
        (void)stage_end(&s->desk, name_at(s, slot), ASSAY_DECODING, ASSAY_NOT_FINITE, ticks);
    } else if (post_response(s, name_at(s, slot), ticks) == ASSAY_SATURATED) {
        s->parked[s->n_parked++] = slot;
        s->runs[slot].phase = PHASE_PARKED;
    }
}

ASSAY_FN void retract_all(assay_kernel_state *s) {
    while (s->n_active) {
        uint32_t slot = s->active[--s->n_active];
        release_kv(s, slot);
        wait_first(s, slot);
    }
    s->dirty = 1;
}

/* ---- the plan ----------------------------------------------------------------------------------- */

ASSAY_FN uint32_t length_of(const assay_kernel_state *s, uint32_t slot) {
    return s->desk.rows[slot].prompt_len + s->desk.rows[slot].n_generated;
}

ASSAY_FN uint32_t shared_positions(const assay_kernel_state *s, uint32_t slot) {
    uint32_t prefix = s->runs[slot].prefix;
    return prefix == ASSAY_NONE ? 0 : s->prefixes[prefix].n_blocks * A_BLOCK;
}

ASSAY_FN bool prefix_is_there(const assay_kernel_state *s, uint32_t slot) {
    uint32_t prefix = s->runs[slot].prefix;
    if (prefix == ASSAY_NONE) return true;
    return s->prefixes[prefix].computed == s->prefixes[prefix].n_blocks * A_BLOCK;
}

ASSAY_FN void count_tiles(assay_plan *plan, uint32_t rows) {
    const uint32_t tiles = (rows + A_ROWS_AT_ONCE - 1) / A_ROWS_AT_ONCE;
    if (tiles > plan->tiles_max) plan->tiles_max = tiles;
}

ASSAY_FN void add_entry(assay_plan *plan, uint32_t slot, uint32_t table, uint32_t pos,
                        uint32_t n) {
    assay_entry *e = &plan->entries[plan->n_entries++];
    e->row0 = plan->n_rows;
    e->n_rows = n;
    e->chunk0 = 0;
    e->last_chunk = (pos + n - 1) / A_CHUNK;
    if (e->last_chunk + 1 > plan->chunks_max) plan->chunks_max = e->last_chunk + 1;
    count_tiles(plan, n);
    if (n > 1) plan->prefilling = 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t r = plan->n_rows++;
        plan->slot[r] = slot;
        plan->pos[r] = pos + i;
        plan->table[r] = table;
        plan->token[r] = ASSAY_NONE; /* read by a thread per row */
    }
}

ASSAY_FN void plan_decodes(assay_kernel_state *s, uint32_t rows_max) {
    assay_plan *plan = &s->plan;
    uint32_t run_prefix = ASSAY_NONE;
    for (uint32_t i = 0; i < s->n_active && plan->n_rows < rows_max; i++) {
        const uint32_t slot = s->active[i];
        assay_run *run = &s->runs[slot];
        if (!prefix_is_there(s, slot) || run->computed + 1 != length_of(s, slot)) continue;
        const uint32_t chunks = shared_positions(s, slot) / A_CHUNK;
        if (chunks) {
            if (run->prefix != run_prefix) {
                assay_entry *g = &plan->runs[plan->n_runs++];
                g->row0 = plan->n_rows;
                g->n_rows = 0;
                g->chunk0 = 0;
                g->last_chunk = chunks - 1;
            }
            count_tiles(plan, ++plan->runs[plan->n_runs - 1].n_rows);
        }
        run_prefix = chunks ? run->prefix : ASSAY_NONE;
        plan->logit_row[plan->n_logits++] = plan->n_rows;
        add_entry(plan, slot, slot, run->computed, 1);
        plan->entries[plan->n_entries - 1].chunk0 = chunks;
    }
}

/* Prompt positions that have no keys and values yet: prefixes before their rollouts. */
ASSAY_FN void plan_prefills(assay_kernel_state *s) {
    assay_plan *plan = &s->plan;
    uint32_t left = A_ROWS - plan->n_rows;
    if (left > s->desk.limits.prefill_chunk) left = s->desk.limits.prefill_chunk;
    uint32_t done_prefix = ASSAY_NONE;
    for (uint32_t i = 0; i < s->n_active && left; i++) {
        const uint32_t slot = s->active[i];
        assay_run *run = &s->runs[slot];
        uint32_t table = slot, from = run->computed, to = length_of(s, slot) - 1;
        if (!prefix_is_there(s, slot)) {
            if (run->prefix == done_prefix) continue;
            done_prefix = run->prefix;
            table = s->desk.limits.slots + run->prefix;
            from = s->prefixes[run->prefix].computed;
            to = s->prefixes[run->prefix].n_blocks * A_BLOCK;
        }
        if (from >= to) continue;
        const uint32_t n = to - from < left ? to - from : left;
        add_entry(plan, slot, table, from, n);
        left -= n;
    }
}

/* Prompt positions of this step count as computed once it has run: the next plan is made after it. */
ASSAY_FN void note_prefilled(assay_kernel_state *s) {
    for (uint32_t i = 0; i < s->plan.n_entries; i++) {
        const assay_entry *e = &s->plan.entries[i];
        const uint32_t table = s->plan.table[e->row0], n = s->desk.limits.slots;
        if (i < s->plan.n_logits) continue; /* decode entries come first; their threads count */
        if (table < n)
            s->runs[table].computed += e->n_rows;
        else
            s->prefixes[table - n].computed += e->n_rows;
    }
}

ASSAY_FN void begin_decoding(assay_kernel_state *s) {
    for (uint32_t i = 0; i < s->n_active; i++) {
        const uint32_t slot = s->active[i];
        if (state_of(&s->desk.rows[slot]) != ASSAY_PREFILL_READY) continue;
        if (prefix_is_there(s, slot) && s->runs[slot].computed + 1 >= length_of(s, slot))
            if (stage_prefilled(&s->desk, name_at(s, slot)) == ASSAY_OK)
                stamp(s, slot, generation_of(&s->desk.rows[slot]), INSTANT_PREFILL_END, now_ns());
    }
}

ASSAY_FN void make_plan(assay_kernel_state *s) {
    assay_plan *plan = &s->plan;
    plan->n_rows = plan->n_logits = plan->n_entries = plan->n_runs = 0;
    plan->chunks_max = plan->tiles_max = plan->prefilling = 0;
    begin_decoding(s);
    plan_decodes(s, A_ROWS);
    plan_prefills(s);
    s->dirty = plan->n_entries != plan->n_logits; /* prefilling: the next plan differs */
}

#endif
