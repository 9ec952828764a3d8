#define _GNU_SOURCE
#include "runtime.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "arena.h"
#include "guard.h"
#include "mapping.h"

enum { SCORER_SPINS = 2000 };

struct assay_runtime {
    assay_worker worker;
    assay_trace trace;
    assay_engine_ops engine;
    assay_runtime_settings settings;
    assay_mapping region, kv, trace_cells, worker_memory;
    pthread_t thread, scorer;
    bool threads_up, scorer_up;
    int32_t *scorer_tokens;
    _Atomic(uint32_t) scorer_stop;
};

/* ---- life -------------------------------------------------------------------------------------- */

static bool settings_valid(const assay_runtime_settings *s, const assay_engine_ops *e) {
    const assay_shape *h = &s->shape;
    if (!h->slots || h->slots > 1u << 20 || !h->seq_max || !h->kv_blocks || !h->block_tokens)
        return false;
    if (!h->decode_credits || !h->reward_credits || !h->trajectory_credits) return false;
    if (h->decode_credits > h->slots || h->block_tokens != e->block_tokens) return false;
    if (h->seq_max > e->seq_len_max || e->batch_max == 0 || e->vocab_size == 0) return false;
    if (!s->worker.rows_max || s->worker.rows_max > e->batch_max) return false;
    if (e->step_tokens_max <= s->worker.rows_max || !s->worker.prefill_chunk) return false;
    return s->worker.policy <= ASSAY_PREFIX_SHARING && s->worker.aging_max > 0;
}

static bool map_all(assay_runtime *rt) {
    const assay_runtime_settings *s = &rt->settings;
    uint64_t trace = assay_pow2_at_least(s->trace_capacity);
    rt->trace.mask = trace - 1;
    return assay_map(&rt->region, assay_region_bytes(&s->shape), s->huge_pages, -1) &&
           assay_map(&rt->kv, (size_t)s->shape.kv_blocks * rt->engine.kv_block_bytes, s->huge_pages,
               s->numa_node) &&
           assay_map(&rt->trace_cells, trace * sizeof(assay_trace_cell), false, -1) &&
           assay_map(&rt->worker_memory, assay_worker_bytes(&s->shape, &rt->engine), s->huge_pages, -1);
}

static void free_all(assay_runtime *rt) {
    assay_unmap(&rt->region);
    assay_unmap(&rt->kv);
    assay_unmap(&rt->trace_cells);
    assay_unmap(&rt->worker_memory);
    free(rt->scorer_tokens);
    free(rt);
}

assay_runtime *assay_runtime_create(const assay_runtime_settings *settings,
                                    const assay_engine_ops *engine, int *status) {
    *status = ASSAY_INVALID;
    if (!settings_valid(settings, engine)) return NULL;
    *status = ASSAY_SATURATED;
    assay_runtime *rt = aligned_alloc(ASSAY_LINE, assay_round_up(sizeof *rt, ASSAY_LINE));
    if (rt == NULL) return NULL;
    memset(rt, 0, sizeof *rt);
    rt->settings = *settings;
    rt->engine = *engine;
    rt->scorer_tokens = calloc(settings->shape.seq_max, sizeof(int32_t));
    if (rt->scorer_tokens == NULL || !map_all(rt)) {
        free_all(rt);
        return NULL;
    }
    (void)assay_clock_of();
    rt->trace.cells = rt->trace_cells.at;
    assay_region_init(rt->region.at, &settings->shape);
    assay_worker_init(&rt->worker, rt->worker_memory.at, rt->region.at, &rt->trace, &rt->engine,
                      &settings->worker, rt->kv.at);
    rt->worker.token_offsets = settings->token_offsets;
    rt->worker.token_bytes = settings->token_bytes;
    *status = ASSAY_OK;
    return rt;
}

void assay_runtime_destroy(assay_runtime *rt) {
    assay_runtime_stop(rt);
    free_all(rt);
}

assay_region *assay_runtime_region(assay_runtime *rt) { return rt->region.at; }
assay_worker *assay_runtime_worker(assay_runtime *rt) { return &rt->worker; }

/* ---- the native scorer -------------------------------------------------------------------------- */

/* True when something was scored. A score that finds no trajectory credit is kept and tried again. */
static bool score_next(assay_runtime *rt, assay_descriptor *held, bool *holding) {
    assay_region *g = rt->region.at;
    if (!*holding) *holding = assay_reward_take(g, held) == ASSAY_OK;
    if (!*holding) return false;
    assay_ref ref = {held->slot, held->generation};
    int status = assay_copy_sequence(g, ref, ASSAY_REWARD_PENDING, rt->scorer_tokens, held->seq_len);
    if (status == ASSAY_OK) {
        uint64_t hash = assay_prefix_hash(rt->scorer_tokens, held->seq_len);
        status = assay_runtime_score(rt, ref, (double)(hash >> 11) * 0x1p-53);
    }
    *holding = status == ASSAY_SATURATED;
    return !*holding;
}

static void *scorer_run(void *arg) {
    assay_runtime *rt = arg;
    assay_descriptor held;
    bool holding = false;
    uint32_t spins = 0;
    while (!atomic_load_explicit(&rt->scorer_stop, memory_order_relaxed)) {
        uint32_t seen = assay_bell_read(&rt->worker.host);
        if (score_next(rt, &held, &holding)) {
            spins = 0;
        } else if (++spins < SCORER_SPINS && rt->settings.worker.spin_ns) {
            assay_relax();
        } else {
            assay_bell_park(&rt->worker.host, seen, 100 * 1000 * 1000);
            spins = 0;
        }
    }
    return NULL;
}

/* ---- threads ------------------------------------------------------------------------------------ */

static void pin_thread(pthread_t thread, int32_t cpu) {
    cpu_set_t set;
    if (cpu < 0) return;
    CPU_ZERO(&set);
    CPU_SET((unsigned)cpu, &set);
    (void)pthread_setaffinity_np(thread, sizeof set, &set);
}

int assay_runtime_start(assay_runtime *rt) {
    if (rt->threads_up) return ASSAY_INVALID;
    atomic_store(&rt->worker.stop, 0);
    atomic_store(&rt->scorer_stop, 0);
    atomic_store(&rt->worker.state, ASSAY_WORKER_RUNNING);
    if (pthread_create(&rt->thread, NULL, assay_worker_run, &rt->worker)) return ASSAY_SATURATED;
    rt->threads_up = true;
    if (rt->settings.scorer == ASSAY_SCORER_HOST) return ASSAY_OK;
    if (pthread_create(&rt->scorer, NULL, scorer_run, rt)) return ASSAY_SATURATED;
    rt->scorer_up = true;
    pin_thread(rt->scorer, rt->settings.scorer_cpu);
    return ASSAY_OK;
}

static void ask_to_stop(assay_runtime *rt) {
    atomic_store(&rt->worker.stop, 1);
    atomic_store(&rt->scorer_stop, 1);
    assay_bell_ring(&rt->worker.bell);
    assay_bell_ring(&rt->worker.host);
}

void assay_runtime_stop(assay_runtime *rt) {
    ask_to_stop(rt);
    if (rt->threads_up) pthread_join(rt->thread, NULL);
    if (rt->scorer_up) pthread_join(rt->scorer, NULL);
    rt->threads_up = rt->scorer_up = false;
}

/* `until` is on the monotonic clock, joins are timed by the other one. */
static bool join_by(pthread_t thread, uint64_t until) {
    struct timespec t;
    uint64_t now = assay_monotonic_ns(), left = until > now ? until - now : 0;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += (time_t)(left / 1000000000u);
    t.tv_nsec += (long)(left % 1000000000u);
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return pthread_timedjoin_np(thread, NULL, &t) == 0;
}

bool assay_runtime_stop_by(assay_runtime *rt, uint64_t until) {
    ask_to_stop(rt);
    if (rt->threads_up && !join_by(rt->thread, until)) return false;
    rt->threads_up = false;
    if (rt->scorer_up && !join_by(rt->scorer, until)) return false;
    rt->scorer_up = false;
    return true;
}

uint64_t assay_runtime_bury(assay_runtime *rt) {
    assay_runtime_stop(rt);
    return assay_worker_bury(&rt->worker);
}

bool assay_runtime_step(assay_runtime *rt) { return assay_worker_iterate(&rt->worker); }

int assay_runtime_audit(const assay_runtime *rt) { return assay_kv_audit(&rt->worker.kv); }

/* ---- calls of the host --------------------------------------------------------------------------- */

static void stamp(assay_runtime *rt, uint64_t ticks, assay_ref r, enum assay_event event) {
    if (assay_trace_is_on(&rt->trace))
        assay_trace_stamp(&rt->trace, ticks, r.slot, r.generation, event);
}

int assay_runtime_submit(assay_runtime *rt, const assay_order *order, const int32_t *prompt,
                         uint32_t prompt_len, const assay_member *members, uint32_t n,
                         assay_ref *out) {
    uint64_t now = assay_ticks();
    int status = assay_submit(rt->region.at, order, prompt, prompt_len, members, n, now, out);
    if (status != ASSAY_OK) return status;
    for (uint32_t i = 0; i < n; i++) stamp(rt, now, out[i], ASSAY_EV_POSTED);
    assay_bell_ring(&rt->worker.bell);
    return ASSAY_OK;
}

int assay_runtime_cancel(assay_runtime *rt, assay_ref ref) {
    int status = assay_cancel(rt->region.at, ref, assay_ticks());
    if (status == ASSAY_OK) assay_bell_ring(&rt->worker.bell);
    return status;
}

int assay_runtime_limit(const assay_runtime *rt) { return assay_limit_now(rt->region.at); }

uint64_t assay_runtime_reward_take(assay_runtime *rt, assay_descriptor *out, uint64_t n,
                                   int *status) {
    uint64_t got = 0;
    *status = ASSAY_OK;
    while (got < n && (*status = assay_reward_take(rt->region.at, &out[got])) == ASSAY_OK) got++;
    return got;
}

int assay_runtime_copy(assay_runtime *rt, assay_ref ref, int32_t *tokens, uint32_t n) {
    return assay_copy_sequence(rt->region.at, ref, ASSAY_REWARD_PENDING, tokens, n);
}

int assay_runtime_score(assay_runtime *rt, assay_ref ref, double reward) {
    uint64_t now = assay_ticks();
    int status = assay_score(rt->region.at, ref, reward, now);
    if (status != ASSAY_OK) return status;
    stamp(rt, now, ref, ASSAY_EV_SCORED);
    assay_bell_ring(&rt->worker.bell);
    return ASSAY_OK;
}

uint64_t assay_runtime_poll(assay_runtime *rt, assay_completion *out, uint64_t n) {
    uint64_t got = assay_collect(rt->region.at, out, n);
    if (got && assay_trace_is_on(&rt->trace)) {
        uint64_t now = assay_ticks();
        for (uint64_t i = 0; i < got; i++)
            stamp(rt, now, (assay_ref){out[i].slot, out[i].generation}, ASSAY_EV_OBSERVED);
    }
    return got;
}

int assay_runtime_contents(const assay_runtime *rt, const assay_completion *done, int32_t *tokens,
                           float *logps, uint32_t *versions) {
    const assay_region *g = rt->region.at;
    if (done->slot >= g->shape.slots) return ASSAY_INVALID;
    uint64_t word = atomic_load_explicit(&assay_row(g, done->slot)->word, memory_order_acquire);
    if (word != assay_word(done->generation, ASSAY_DONE)) return ASSAY_STALE;
    uint32_t prompt = done->prompt_len, n = done->n_generated;
    memcpy(tokens, assay_tokens(g, done->slot), (size_t)(prompt + n) * sizeof *tokens);
    memcpy(logps, assay_logps(g, done->slot) + prompt, n * sizeof *logps);
    memcpy(versions, assay_versions(g, done->slot) + prompt, n * sizeof *versions);
    return ASSAY_OK;
}

/* Tokens below `n_generated` do not change any more while the generation lives. */
int assay_runtime_peek(assay_runtime *rt, assay_ref ref, uint32_t from, uint32_t room,
                       int32_t *tokens, float *logps, uint32_t *versions, uint32_t *got) {
    const assay_region *g = rt->region.at;
    if (ref.slot >= g->shape.slots) return ASSAY_INVALID;
    assay_rollout *row = assay_row(g, ref.slot);
    uint64_t before = atomic_load_explicit(&row->word, memory_order_acquire);
    if (assay_word_generation(before) != ref.generation) return ASSAY_STALE;
    if (assay_word_state(before) == ASSAY_FREE) return ASSAY_STALE;
    uint32_t made = atomic_load_explicit(&row->n_generated, memory_order_acquire);
    uint32_t n = made > from ? made - from : 0, at = row->prompt_len + from;
    if (n > room) n = room;
    if (at + (uint64_t)n > g->shape.seq_max) return ASSAY_STALE;
    memcpy(tokens, assay_tokens(g, ref.slot) + at, n * sizeof *tokens);
    memcpy(logps, assay_logps(g, ref.slot) + at, n * sizeof *logps);
    memcpy(versions, assay_versions(g, ref.slot) + at, n * sizeof *versions);
    /* A read-modify-write that changes nothing: the copies above cannot sink below it. */
    uint64_t after = atomic_fetch_or_explicit(&row->word, 0, memory_order_acq_rel);
    if (assay_word_generation(after) != ref.generation) return ASSAY_STALE;
    *got = n;
    return ASSAY_OK;
}

int assay_runtime_asked(const assay_runtime *rt, const assay_completion *done, assay_asked *out) {
    const assay_region *g = rt->region.at;
    if (done->slot >= g->shape.slots) return ASSAY_INVALID;
    const assay_rollout *row = assay_row(g, done->slot);
    uint64_t word = atomic_load_explicit(&row->word, memory_order_acquire);
    if (word != assay_word(done->generation, ASSAY_DONE)) return ASSAY_STALE;
    *out = (assay_asked){row->sampler, row->max_tokens, row->kv_version, row->kv_mixed, 0};
    return ASSAY_OK;
}

uint64_t assay_runtime_release(assay_runtime *rt, const assay_completion *done, uint64_t n) {
    uint64_t released = assay_release(rt->region.at, done, n);
    if (released == 0) return 0;
    assay_bell_ring(&rt->worker.bell); /* trajectory credits came back */
    assay_bell_ring(&rt->worker.host); /* for a scorer that waits for them */
    return released;
}

uint32_t assay_runtime_bell(assay_runtime *rt) { return assay_bell_read(&rt->worker.host); }

uint64_t assay_runtime_wait(assay_runtime *rt, uint32_t seen, uint64_t timeout_ns) {
    uint64_t begin = assay_monotonic_ns();
    assay_bell_park(&rt->worker.host, seen, timeout_ns);
    return assay_monotonic_ns() - begin;
}

/* ---- weight changes ------------------------------------------------------------------------------ */

static _Atomic(uint32_t) *holders(assay_runtime *rt, enum assay_pause_mode mode) {
    switch (mode) {
    case ASSAY_PAUSE_FINISH: return &rt->worker.finishes;
    case ASSAY_PAUSE_RETRACT: return &rt->worker.retracts;
    default: return &rt->worker.pauses;
    }
}

void assay_runtime_pause(assay_runtime *rt, enum assay_pause_mode mode) {
    atomic_fetch_add(holders(rt, mode), 1);
    assay_bell_ring(&rt->worker.bell);
}

/* Before the thread was started the caller is the worker; when it has ended nothing runs. */
static bool held_without_thread(assay_runtime *rt, enum assay_pause_mode mode) {
    if (atomic_load(&rt->worker.state) != ASSAY_WORKER_NEW) return true;
    if (mode == ASSAY_PAUSE_RETRACT) assay_worker_retract(&rt->worker);
    return mode == ASSAY_PAUSE_IN_PLACE || assay_worker_runs_nothing(&rt->worker);
}

/* The worker sets `held` after it saw a pause, and checks for pauses again after clearing it: a caller
 * that added a pause and then reads `held` never reads the state of an earlier pause. */
static bool held(assay_runtime *rt, enum assay_pause_mode mode) {
    if (atomic_load(&rt->worker.state) != ASSAY_WORKER_RUNNING)
        return held_without_thread(rt, mode);
    uint32_t least = mode == ASSAY_PAUSE_IN_PLACE ? ASSAY_HELD_RUNNING : ASSAY_HELD_EMPTY;
    return atomic_load(&rt->worker.held) >= least;
}

bool assay_runtime_paused(assay_runtime *rt, enum assay_pause_mode mode, uint64_t timeout_ns) {
    uint64_t until = assay_monotonic_ns() + timeout_ns;
    for (;;) {
        uint32_t seen = assay_bell_read(&rt->worker.host);
        if (held(rt, mode)) return true;
        uint64_t now = assay_monotonic_ns();
        if (now >= until) return false;
        assay_bell_park(&rt->worker.host, seen, until - now);
    }
}

void assay_runtime_resume(assay_runtime *rt, enum assay_pause_mode mode) {
    atomic_fetch_sub(holders(rt, mode), 1);
    assay_bell_ring(&rt->worker.bell);
}

void assay_runtime_set_policy_version(assay_runtime *rt, uint32_t version) {
    assay_region *g = rt->region.at;
    atomic_store_explicit(&g->policy_version, version, memory_order_release);
}

void assay_runtime_wake_host(assay_runtime *rt) { assay_bell_ring(&rt->worker.host); }

void assay_runtime_nudge(assay_runtime *rt) { assay_bell_ring(&rt->worker.bell); }

/* ---- looking in ----------------------------------------------------------------------------------- */

void assay_runtime_trace_on(assay_runtime *rt, uint32_t on) { atomic_store(&rt->trace.on, on); }

uint64_t assay_runtime_trace_read(assay_runtime *rt, uint64_t from, assay_trace_record *out,
                                  uint64_t n, uint64_t *next, uint64_t *lost) {
    uint64_t got = assay_trace_read(&rt->trace, from, out, n, next, lost);
    for (uint64_t i = 0; i < got; i++)
        out[i].ticks = assay_ticks_to_ns(assay_clock_of(), out[i].ticks);
    return got;
}

#define READ(counter) atomic_load_explicit(&(counter), memory_order_relaxed)

static void read_region(const assay_region *g, assay_stats *out) {
    /* Ends before submissions, so that ended never exceeds submitted in what we report. */
    out->completed = atomic_load_explicit(&g->completed, memory_order_acquire);
    out->failed = atomic_load_explicit(&g->failed, memory_order_acquire);
    out->submitted = atomic_load_explicit(&g->submitted, memory_order_acquire);
    out->in_flight = out->submitted - out->completed - out->failed;
    out->saturated = READ(g->saturated);
    out->illegal = READ(g->illegal);
    out->stale = READ(g->stale);
    out->corrupt = READ(g->corrupt);
    out->policy_version = READ(g->policy_version);
    for (int i = 0; i < ASSAY_CREDITS; i++) {
        const assay_credit *c = assay_credit_of(g, (enum assay_credit_kind)i);
        out->credits_available[i] = (uint64_t)READ(c->available);
        out->credits_refused[i] = READ(c->refused);
    }
    out->slots_free = assay_queue_length(assay_free_queue(g));
    out->queue_prefill = assay_queue_length(assay_prefill_queue(g));
    out->queue_decode = assay_ring_length(assay_decode_ring(g));
    out->queue_reward = assay_queue_length(assay_reward_queue(g));
    out->queue_trajectory = assay_queue_length(assay_trajectory_queue(g));
    out->queue_done = assay_ring_length(assay_done_ring(g));
}

static void read_worker(const assay_worker *w, assay_stats *out) {
    const assay_worker_stats *s = &w->stats;
    const assay_kv_stats *k = &w->kv.stats;
    double ns = assay_clock_of()->ns_per_tick;
    out->iterations = READ(s->iterations);
    out->steps = READ(s->steps);
    out->decode_tokens = READ(s->decode_tokens);
    out->prefill_tokens = READ(s->prefill_tokens);
    out->shared_rows = READ(s->shared_rows);
    out->engine_ns = (uint64_t)((double)READ(s->engine_ticks) * ns);
    out->busy_ns = (uint64_t)((double)READ(s->busy_ticks) * ns);
    out->admitted = READ(s->admitted);
    out->aged = READ(s->aged);
    out->blocked = READ(s->blocked);
    out->retracted = READ(s->retracted);
    out->prefix_matched_positions = READ(k->matched_positions);
    out->prefix_missed_positions = READ(k->missed_positions);
    out->kv_copies = READ(k->copies);
    out->kv_copied_positions = READ(k->copied_positions);
    out->kv_evictions = READ(k->evictions);
    out->kv_in_use = READ(k->in_use);
    out->kv_in_use_peak = READ(k->in_use_peak);
    out->kv_cold = READ(k->cold);
    out->worker_parks = READ(w->bell.parks);
    out->worker_wakes = READ(w->bell.wakes);
    out->host_parks = READ(w->host.parks);
    out->host_wakes = READ(w->host.wakes);
    out->worker_state = READ(w->state);
    out->crash = READ(w->crash);
    out->crash_detail = READ(w->crash_detail);
}

void assay_runtime_stats(assay_runtime *rt, assay_stats *out) {
    memset(out, 0, sizeof *out);
    read_region(rt->region.at, out);
    read_worker(&rt->worker, out);
    out->trace_events = READ(rt->trace.head);
    out->region_bytes = rt->region.bytes;
    out->kv_bytes = rt->kv.bytes;
    out->kv_block_bytes = rt->engine.kv_block_bytes;
    out->kv_pages = rt->kv.pages;
    out->numa_bound = rt->kv.bound;
}
