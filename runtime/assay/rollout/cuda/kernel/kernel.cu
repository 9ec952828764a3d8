/* The persistent kernel: one launch for the life of an engine. Block 0 talks to the host and plans; all
 * blocks run the layers. Steps of many rows have a grid barrier after each product, five per layer and five per step;
 * those of few rows four in all, as their blocks wait for words (`exchange.h`). In each block one warp, the feeder,
 * brings weights; the others, the workers, do all else.
 */
#include "project.h"
#include "sample.h"
#include "spans.h"

/* The word of the host: version, slot of weights, adapter, and above them a number that makes it another word. */
ASSAY_FN void use_weights(assay_kernel_state *s, uint64_t word) {
    s->weights = word;
    s->plan.version = (uint32_t)word;
    s->plan.weights = (uint32_t)(word >> 32) & 1;
    s->plan.adapter = (uint32_t)(word >> 33) & 3;
    store_sys(&s->desk.link->active, word);
}

/* ---- the kernel's own memory --------------------------------------------------------------------- */

ASSAY_FN void *behind(uint8_t **at, uint64_t bytes) {
    void *found = *at;
    *at += (bytes + 63) / 64 * 64;
    return found;
}

/* One thread, once: lists and rows from the limits that the host wrote. `sizes.py` has the same sum. */
ASSAY_COLD void set_up(const assay_params *p) {
    assay_kernel_state *s = p->state;
    static_assert(sizeof(assay_kernel_state) <= A_STATE_BYTES, "sizes.py: STATE_BYTES");
    static_assert(sizeof(assay_run) == 40 && sizeof(assay_prefix) == 24 && sizeof(assay_tail) == 52, "sizes.py: state_bytes");
    const assay_limits limits = p->link->limits;
    uint8_t *at = (uint8_t *)s + A_STATE_BYTES;
    s->table_width = (limits.seq_max + A_BLOCK - 1) / A_BLOCK;
    s->desk.link = p->link;
    s->desk.limits = limits;
    uint8_t *link = (uint8_t *)p->link;
    s->tokens = (int32_t *)(void *)(link + p->link->tokens_at);
    s->logps = (float *)(void *)(link + p->link->logps_at);
    s->versions = (uint32_t *)(void *)(link + p->link->versions_at);
    s->progress = (uint64_t *)(void *)(link + p->link->progress_at);
    s->instants = (assay_instant *)(void *)(link + p->link->trace_at);
    open_rings(&s->desk);
    s->desk.rows = (assay_rollout *)behind(&at, limits.slots * sizeof(assay_rollout));
    s->runs = (assay_run *)behind(&at, limits.slots * sizeof(assay_run));
    s->prefixes = (assay_prefix *)behind(&at, limits.slots * sizeof(assay_prefix));
    s->tails = (assay_tail *)behind(&at, limits.slots * sizeof(assay_tail));
    s->tables = (uint32_t *)behind(&at, 8ull * limits.slots * s->table_width);
    s->free_ids = (uint32_t *)behind(&at, 4ull * limits.kv_blocks);
    s->waiting = (uint32_t *)behind(&at, 4ull * limits.slots);
    s->active = (uint32_t *)behind(&at, 4ull * A_ROWS);
    s->parked = (uint32_t *)behind(&at, 4ull * limits.slots);
    const int64_t credits[] = {limits.decode_credits, limits.reward_credits,
                               limits.trajectory_credits, limits.kv_blocks};
    for (int i = 0; i < ASSAY_CREDITS; i++)
        s->desk.credits[i].available = s->desk.credits[i].limit = credits[i];
    for (uint32_t i = 0; i < limits.slots; i++) {
        s->desk.rows[i].word = word_of(limits.generation_first, ASSAY_FREE);
        s->runs[i].prefix = ASSAY_NONE;
    }
    for (uint32_t i = 0; i < limits.kv_blocks; i++)
        s->free_ids[i] = limits.kv_blocks - 1 - i;
    s->n_free = limits.kv_blocks;
    use_weights(s, load_sys(&p->link->weights));
}

/* ---- between two steps: block 0 ----------------------------------------------------------------- */

ASSAY_FN bool ends_with(const assay_tail *tail, const uint8_t *bytes, uint32_t n) {
    if (n > tail->n) return false;
    for (uint32_t i = 1; i <= n; i++)
        if (tail->bytes[(tail->n - i) % ASSAY_STOP_BYTES_MAX] != bytes[n - i]) return false;
    return true;
}

/* A stop string may end within the token's bytes, so each of them is looked at. */
ASSAY_COLD bool completes_stop_string(const assay_params *p, const assay_rollout *row, assay_tail *tail,
                                      int32_t token) {
    for (uint32_t at = p->token_offsets[token]; at < p->token_offsets[token + 1]; at++) {
        tail->bytes[tail->n++ % ASSAY_STOP_BYTES_MAX] = p->token_bytes[at];
        for (uint32_t i = 0; i < row->n_stop_strings; i++)
            if (ends_with(tail, row->stop_bytes[i], row->stop_lengths[i])) return true;
    }
    return false;
}

ASSAY_FN uint8_t fate_of(const assay_params *p, uint32_t slot, int32_t token) {
    assay_rollout *row = &p->state->desk.rows[slot];
    for (uint32_t i = 0; i < row->n_stop_ids; i++)
        if (row->stop_ids[i] == token) {
            row->stop = ASSAY_STOP_ID;
            return FATE_STOPS;
        }
    if (row->n_stop_strings && p->token_offsets &&
        completes_stop_string(p, row, &p->state->tails[slot], token)) {
        row->stop = ASSAY_STOP_STRING;
        return FATE_STOPS;
    }
    if (row->n_generated < row->max_tokens) return FATE_GOES_ON;
    row->stop = ASSAY_STOP_LENGTH;
    return FATE_STOPS;
}

/* How far a rollout is: what its word in the link will be, once its token is there. */
typedef struct {
    uint64_t *at; /* NULL: nothing */
    uint64_t value;
} assay_progress;

ASSAY_FN void tell_progress(const assay_progress *progress) {
    if (!progress->at) return;
    fence_sys();
    tell_sys(progress->at, progress->value);
}

/* A thread per sampled token: into the link, and whether its rollout goes on. Returns what is to be told afterwards: that
 * fence takes as long as the bus, so warps other than the first, which decides meanwhile, do this. */
ASSAY_FN assay_progress settle_tokens(const assay_params *p) {
    assay_kernel_state *s = p->state;
    assay_plan *plan = &s->plan;
    const int32_t *tokens = (const int32_t *)(const void *)(p->scratch + A_AT_TOKENS);
    assay_progress progress = {nullptr, 0};
    if (warp_of_block() == 0) return progress;
    for (uint32_t i = thread_of_block() - 32; i < plan->n_logits; i += A_THREADS - 32) {
        tell_progress(&progress); /* of one before, if there are so many */
        const uint32_t slot = plan->slot[plan->logit_row[i]];
        assay_rollout *row = &s->desk.rows[slot];
        assay_run *run = &s->runs[slot];
        run->computed++;
        plan->ended[i] = FATE_NOT_FINITE;
        progress.at = nullptr;
        if (tokens[i] >= 0) {
            const uint64_t at = (uint64_t)slot * s->desk.limits.seq_max + row->prompt_len +
                                row->n_generated;
            s->tokens[at] = tokens[i];
            s->logps[at] = scratch_f(p, A_AT_LOGPS)[i];
            s->versions[at] = plan->version;
            run->last = tokens[i];
            row->n_generated++;
            progress.at = s->progress + slot;
            progress.value = (uint64_t)generation_of(row) << 32 | row->n_generated;
            plan->ended[i] = fate_of(p, slot, tokens[i]);
        }
        if (plan->ended[i] != FATE_GOES_ON) shared()->u.control.any_ended = 1;
    }
    return progress;
}

ASSAY_FN void end_rollouts(assay_kernel_state *s) {
    for (uint32_t i = 0; i < s->plan.n_logits; i++)
        if (s->plan.ended[i] != FATE_GOES_ON)
            finish(s, s->plan.slot[s->plan.logit_row[i]], s->plan.ended[i]);
    s->dirty = 1;
}

ASSAY_FN void report(assay_kernel_state *s) {
    assay_link *link = s->desk.link;
    const uint64_t counts[] = {s->desk.submitted, s->desk.completed, s->desk.failed,
                               s->desk.stale,     s->desk.illegal,   s->generated,
                               s->n_free,             s->kv_used_max};
    for (int i = 0; i < 8; i++) tell_sys(link->counts + i, counts[i]);
    const uint64_t gauges[] = {(uint64_t)s->desk.credits[ASSAY_CREDIT_DECODE].available,
                               (uint64_t)s->desk.credits[ASSAY_CREDIT_REWARD].available,
                               (uint64_t)s->desk.credits[ASSAY_CREDIT_TRAJECTORY].available,
                               s->n_waiting, s->n_active, s->n_parked};
    for (int i = 0; i < 6; i++) { /* they change with rollouts, not with tokens */
        if (gauges[i] != s->told_gauges[i]) tell_sys(link->gauges + i, gauges[i]);
        s->told_gauges[i] = gauges[i];
    }
    tell_sys(&link->corrupt, s->desk.corrupt);
    tell_sys(&link->steps, s->steps_planned);
    tell_sys(&link->barriers, s->barriers);
    tell_sys(&link->heartbeat, now_ns());
}

/* What the host says, read over the bus at once. */
typedef struct {
    uint64_t stop, hold, weights, echo, tail;
} assay_said;

ASSAY_FN assay_said listen(const assay_kernel_state *s) {
    const assay_link *link = s->desk.link;
    assay_said said;
    uint64_t unused;
    peek_sys(&link->stop, &said.stop, &said.hold);
    peek_sys(&link->weights, &said.weights, &said.echo);
    peek_sys(&s->desk.commands.ring->tail, &said.tail, &unused);
    return said;
}

/* Whether the host holds the kernel between two steps; sets what it asks for. */
ASSAY_FN bool held_by_host(assay_kernel_state *s, const assay_said *said) {
    assay_link *link = s->desk.link;
    const uint64_t hold = said->hold;
    const uint32_t mode = (uint32_t)(hold & 3);
    if (hold != s->hold && mode == ASSAY_HOLD_RETRACT) retract_all(s);
    if (hold != s->hold) s->dirty = 1;
    s->hold = hold;
    const bool held = mode != ASSAY_RUN && (mode != ASSAY_HOLD_FINISH || s->n_active == 0);
    if (held || mode == ASSAY_RUN) {
        if (s->told_held != hold) store_sys(&link->held, hold);
        s->told_held = hold;
    }
    const uint64_t weights = said->weights;
    if (held && weights != s->weights) {
        fence_sys(); /* what the copy engine wrote before the word */
        s->dirty = 1;
        for (uint32_t i = 0; i < s->desk.limits.slots; i++) s->prefixes[i].version = ASSAY_NONE;
        use_weights(s, weights);
    }
    return held;
}

ASSAY_FN void admit_all(assay_kernel_state *s) {
    if ((s->hold & 3) == ASSAY_HOLD_FINISH) return;
    while (s->n_waiting) {
        const uint32_t slot = s->waiting[s->waiting_first];
        const uint32_t after = (s->waiting_first + 1) % s->desk.limits.slots;
        if (!admit(s, slot, s->plan.version)) return;
        s->waiting_first = after;
        s->n_waiting--;
        s->dirty = 1;
    }
}

enum assay_verdict { IDLE = 0, STEP = 1, NEXT = 2, EXIT = 3 };

/* One thread: everything that is decided between two steps. NEXT: the same rollouts, one token on. */
ASSAY_COLD uint32_t decide(assay_kernel_state *s, const assay_said *said) {
    assay_link *link = s->desk.link;
    if (said->echo != s->told_echo) {
        tell_sys(&link->echoed_at, now_ns());
        store_sys(&link->echoed, said->echo);
    }
    s->told_echo = said->echo;
    s->tracing = said->stop & 2;
    const bool whole = drain(s, said->tail);
    if (!whole || (said->stop & 1)) {
        report(s);
        s->plan.exit = 1;
        return EXIT;
    }
    if (s->n_parked) retry_parked(s);
    const bool held = held_by_host(s, said);
    if (!held && s->n_waiting) admit_all(s);
    const bool same = !s->dirty;
    if (!held && s->dirty) make_plan(s);
    s->plan.flows = s->plan.n_rows <= A_DATAFLOW_ROWS && !s->plan.prefilling;
    s->plan.ready = !s->plan.flows && (s->plan.prefilling || s->plan.n_runs);
    report(s);
    if (held || s->plan.n_rows == 0) {
        s->dirty = 1; /* what ran before must be planned again */
        s->plan.n_rows = s->plan.n_logits = s->plan.n_entries = s->plan.n_runs = 0;
        return IDLE;
    }
    s->steps_planned++;
    s->plan.step = s->steps_planned;
    s->plan.flow += s->plan.flows;
    stamp(s, s->steps_planned, s->plan.n_rows, INSTANT_STEP_BEGIN, now_ns());
    return same ? NEXT : STEP;
}

/* A thread per row: its token, and with NEXT its position. */
ASSAY_FN void fill_rows(const assay_params *p, bool next) {
    assay_kernel_state *s = p->state;
    assay_plan *plan = &s->plan;
    const uint32_t chunks = shared()->u.control.chunks;
    for (uint32_t r = thread_of_block(); r < plan->n_rows; r += A_THREADS) {
        const uint32_t slot = plan->slot[r];
        const assay_rollout *row = &s->desk.rows[slot];
        if (!next) plan->scale[r] = scale_of(&row->sampler);
        if (next) {
            plan->pos[r]++;
            plan->entries[r].last_chunk = plan->pos[r] / A_CHUNK;
            if (plan->entries[r].last_chunk >= chunks) plan->chunks_max = chunks + 1;
        }
        const uint32_t pos = plan->pos[r];
        plan->token[r] =
            row->n_generated && pos + 1 == row->prompt_len + row->n_generated && s->runs[slot].last >= 0
                ? (uint32_t)s->runs[slot].last
                : (uint32_t)s->tokens[(uint64_t)slot * s->desk.limits.seq_max + pos];
    }
}

/* Block 0: the tokens of the step before, then the plan of the next one. */
ASSAY_COLD void between_steps(const assay_params *p) {
    assay_kernel_state *s = p->state;
    assay_said said = {0, 0, 0, 0, 0};
    sync_block(); /* what is in shared memory from before is no longer read */
    if (thread_of_block() == 0) {
        said = listen(s); /* on its way while tokens are settled */
        shared()->u.control.any_ended = 0;
    }
    sync_block();
    const assay_progress progress = settle_tokens(p);
    sync_block();
    tell_progress(&progress);
    if (thread_of_block() == 0) {
        if (s->plan.n_rows)
            stamp(s, s->steps_planned, s->plan.n_rows, INSTANT_STEP_END, now_ns());
        s->generated += s->plan.n_logits;
        note_prefilled(s);
        if (shared()->u.control.any_ended) end_rollouts(s);
    }
    for (;;) {
        if (thread_of_block() == 0) {
            shared()->u.control.verdict = decide(s, &said);
            shared()->u.control.chunks = s->plan.chunks_max;
        }
        sync_block();
        const uint32_t verdict = shared()->u.control.verdict;
        if (verdict == EXIT) return;
        if (verdict != IDLE) {
            fill_rows(p, verdict == NEXT);
            return;
        }
        doze_long();
        if (thread_of_block() == 0) said = listen(s);
        sync_block();
    }
}

/* ---- a step: all blocks ------------------------------------------------------------------------- */

ASSAY_FN const float *next_gain(const uint8_t *weights, const uint8_t *w, uint32_t layer) {
    return layer + 1 == A_LAYERS ? vector_at(weights, A_AT_FINAL_NORM)
                                 : vector_at(w + A_LAYER_BYTES, A_AT_ATTN_NORM);
}

/* The feeder's one thread: a step's weights, in the order in which `step` uses them. */
ASSAY_FN void feed_step(const assay_params *p, assay_ring_end *end) {
    const assay_plan *plan = &p->state->plan;
    const uint8_t *weights = p->weights[plan->weights];
    const uint64_t policy = read_once();
#pragma unroll 1
    for (uint32_t product = 0; product <= 4 * A_LAYERS; product++) {
        const uint8_t *w = weights + A_AT_LAYERS + (uint64_t)(product / 4) * A_LAYER_BYTES;
        const uint32_t which = product == 4 * A_LAYERS ? (uint32_t)OF_LOGITS : product % 4;
        assay_job job = product_of(p, plan, w, weights, which);
        if (A_RANK && plan->adapter && which != OF_LOGITS) {
            const assay_job low = below(p, plan, &job, which, product / 4);
            feed(&low, end, policy);
            add_above(p, plan, &job, which, product / 4);
        }
        if (job.n_rows) feed(&job, end, policy);
    }
}

/* What a product leaves is there: now, or, where the step flows, when its words are read. */
ASSAY_FN void after_product(const assay_params *p, uint32_t *round) {
    if (!the_plan()->flows) grid_barrier(p, round);
}

/* With an adapter: A x before the product of W, which then goes on over B. */
ASSAY_FN void adapt(const assay_params *p, assay_job *job, uint32_t product, uint32_t layer,
                    assay_ring_end *end, uint32_t *round) {
    if (!A_RANK || !the_plan()->adapter) return;
    const assay_job low = below(p, the_plan(), job, product, layer);
    project<TO_LOW>(p, &low, A_OF_MODEL + product, end);
    after_product(p, round);
    add_above(p, the_plan(), job, product, layer);
}

ASSAY_FN void attention_of(const assay_params *p, const uint8_t *w, uint32_t layer,
                           assay_ring_end *end, uint32_t *round) {
    expect_attention(p, layer);
    assay_job job = qkv_of(p, the_plan(), layer, w);
    adapt(p, &job, OF_QKV, layer, end, round);
    project<TO_QKV>(p, &job, OF_QKV, end);
    after_product(p, round);
    if (the_plan()->flows) make_absent(p, ~the_plan()->flow & 1, layer);
    const float *q_gain = A_QK_NORM ? vector_at(w, A_AT_Q_NORM) : nullptr;
    const float *k_gain = A_QK_NORM ? vector_at(w, A_AT_K_NORM) : nullptr;
    if (the_plan()->ready) {
        append_all(p, k_gain, layer);
        turn_all(p, q_gain, layer);
        grid_barrier(p, round);
    }
    attend(p, q_gain, k_gain, layer);
    /* Where the step flows, a warp multiplies its share of the inputs as soon as these are there, and leaves its sums where
     * another may still have the queries of a head that this share does not hold. */
    sync_block();
}

/* Attention and its projection, then the gated network and its: one code for what both add to the residual. */
ASSAY_FN void layer_of(const assay_params *p, const uint8_t *weights, uint32_t layer,
                       assay_ring_end *end, uint32_t *round) {
    const uint8_t *w = weights + A_AT_LAYERS + (uint64_t)layer * A_LAYER_BYTES;
#pragma unroll 1
    for (uint32_t second = 0; second < 2; second++) {
        assay_job job;
        if (!second) {
            attention_of(p, w, layer, end, round);
            job = out_of(p, the_plan(), layer, w);
        } else {
            job = gate_up_of(p, the_plan(), layer, w);
            adapt(p, &job, OF_GATE_UP, layer, end, round);
            project<TO_GATED>(p, &job, OF_GATE_UP, end);
            job = down_of(p, the_plan(), layer, w, next_gain(weights, w, layer));
        }
        after_product(p, round);
        const uint32_t product = second ? OF_DOWN : OF_OUT;
        adapt(p, &job, product, layer, end, round);
        project<TO_RESIDUAL>(p, &job, product, end);
        after_product(p, round);
    }
}

ASSAY_FN void step(const assay_params *p, assay_ring_end *end, uint32_t *round) {
    const uint8_t *weights = p->weights[the_plan()->weights];
    plan_visits(p, weights);
    embed(p, weights, vector_at(weights + A_AT_LAYERS, A_AT_ATTN_NORM));
    if (warp_of_block() == 0) divide_step();
    sync_block();
    plan_spans();
    sync_block(); /* visits and spans are there */
    after_product(p, round);
#pragma unroll 1
    for (uint32_t layer = 0; layer < A_LAYERS; layer++) layer_of(p, weights, layer, end, round);
    if (the_plan()->flows) make_absent(p, ~the_plan()->flow & 1, A_LAYERS);
    if (the_plan()->n_logits) {
        const assay_job job = logits_of(p, the_plan(), A_LAYERS, weights);
        project<TO_LOGITS>(p, &job, OF_LOGITS, end);
        grid_barrier(p, round);
        slice_all(p);
        grid_barrier(p, round);
        draw_all(p);
    }
    grid_barrier(p, round);
}

/* `round` overflows, its differences do not. */
ASSAY_FN void count_barriers(assay_kernel_state *s, uint32_t round) {
    s->barriers += (round - s->round_counted) / blocks_of_grid();
    s->round_counted = round;
}

/* ---- the two roles of a block's warps ------------------------------------------------------------ */

/* The warp behind the workers keeps the ring of weights full. */
ASSAY_FN void run_feeder(const assay_params *p) {
    assay_ring_end end = {0};
    for (;;) {
        sync_all();
        if (p->state->plan.exit) return;
        if (A_FILLERS > 1 || thread_of_block() == A_THREADS) feed_step(p, &end);
        sync_warp();
    }
}

ASSAY_FN void run_workers(const assay_params *p) {
    assay_ring_end end = {0};
    uint32_t round = 0;
    const bool counts = block_of_grid() == 0 && thread_of_block() == 0;
    if (counts) set_up(p);
    for (uint32_t layer = 0; layer <= A_LAYERS; layer++)
        for (uint32_t set = 0; set < 2; set++) make_absent(p, set, layer);
    for (;;) {
        if (counts) count_barriers(p->state, round);
        if (block_of_grid() == 0) between_steps(p);
        grid_barrier(p, &round);
        sync_all(); /* the plan is there */
        copy_plan(p);
        if (thread_of_block() == 0) place_words(the_plan());
        sync_block();
        if (the_plan()->exit) break;
        step(p, &end, &round);
    }
    if (counts) store_sys(&p->state->desk.link->ended, 1);
}

#if defined(__CUDACC_RTC__)
extern "C" __global__ __launch_bounds__(A_ALL_THREADS, 1) void assay_decode(const __grid_constant__ assay_params params)
#else
extern "C" void assay_decode(const assay_params params)
#endif
{
    if (thread_of_block() == 0) {
        for (uint32_t i = 0; i < A_STAGES; i++) {
            gate_init(shared()->full + i, A_FILLERS);
            gate_init(shared()->empty + i, A_WARPS);
        }
        gates_are_there();
    }
    sync_all();
    if (warp_of_block() < A_WARPS) {
        need_many_registers();
        run_workers(&params);
    } else {
        need_few_registers();
        run_feeder(&params);
    }
}
