#define _GNU_SOURCE
#include "host.h"

#include <pthread.h>
#include <time.h>

/* word: calls inside (31 bits) | CLOSING | generation << 32. Generation 0 names no runtime. */
#define CLOSING ((uint64_t)1 << 31)
#define CALLS (CLOSING - 1)

typedef struct {
    _Alignas(64) _Atomic(uint64_t) word;
    _Atomic(uint32_t) taken;  /* a runtime lives here, or is being made or freed */
    _Atomic(uint32_t) closer; /* a thread is in close */
    assay_runtime *runtime;
    assay_bell left; /* rung when the last call leaves a closing runtime */
} place;

static place places[ASSAY_HOSTS_MAX];
static pthread_once_t prepared = PTHREAD_ONCE_INIT;

static uint64_t generation_of(uint64_t word) { return word >> 32; }
static place *place_of(assay_host h) { return &places[(uint32_t)h % ASSAY_HOSTS_MAX]; }

/* A forked child has none of the threads: runtimes that its parent opened are closed in the child. */
static void disown_all(void) {
    for (uint32_t i = 0; i < ASSAY_HOSTS_MAX; i++) {
        uint64_t word = atomic_load(&places[i].word);
        atomic_store(&places[i].word, (generation_of(word) + 1) << 32 | CLOSING);
        places[i].runtime = NULL;
        atomic_store(&places[i].closer, 0);
        atomic_store(&places[i].taken, 0);
    }
}

static void prepare(void) { (void)pthread_atfork(NULL, NULL, disown_all); }

/* ---- holding ------------------------------------------------------------------------------------ */

assay_runtime *assay_host_enter(assay_host h) {
    place *p = place_of(h);
    uint64_t word = atomic_load(&p->word);
    do {
        if (h == 0 || generation_of(word) != generation_of(h) || (word & CLOSING)) return NULL;
    } while (!atomic_compare_exchange_weak(&p->word, &word, word + 1));
    return p->runtime;
}

void assay_host_leave(assay_host h) {
    place *p = place_of(h);
    uint64_t before = atomic_fetch_sub(&p->word, 1);
    if ((before & CLOSING) && (before & CALLS) == 1) (void)assay_bell_ring(&p->left);
}

/* Evaluates `call` with `rt` held and returns its status. */
#define HELD(h, call) \
    do { \
        assay_runtime *rt = assay_host_enter(h); \
        if (rt == NULL) return ASSAY_CLOSED; \
        int status_ = (call); \
        assay_host_leave(h); \
        return status_; \
    } while (0)

/* ---- life --------------------------------------------------------------------------------------- */

static place *take_place(uint32_t *index) {
    for (*index = 0; *index < ASSAY_HOSTS_MAX; (*index)++) {
        uint32_t free = 0;
        if (atomic_compare_exchange_strong(&places[*index].taken, &free, 1)) return &places[*index];
    }
    return NULL;
}

assay_host assay_host_open(const assay_runtime_settings *settings, const assay_engine_ops *engine,
                           int *status) {
    uint32_t index;
    (void)pthread_once(&prepared, prepare);
    *status = ASSAY_SATURATED;
    place *p = take_place(&index);
    if (p == NULL) return 0;
    p->runtime = assay_runtime_create(settings, engine, status);
    if (p->runtime == NULL) {
        atomic_store(&p->taken, 0);
        return 0;
    }
    uint64_t generation = (generation_of(atomic_load(&p->word)) + 1) & UINT32_MAX;
    if (generation == 0) generation = 1;
    atomic_store(&p->word, generation << 32);
    return generation << 32 | index;
}

static uint64_t left_ns(uint64_t until) {
    uint64_t now = assay_monotonic_ns();
    return now < until ? until - now : 0;
}

/* Refuse new calls; true once no call is inside. Parked hosts are woken to leave. */
static bool empty(place *p, uint64_t until) {
    atomic_fetch_or(&p->word, CLOSING);
    assay_runtime_wake_host(p->runtime);
    for (;;) {
        uint32_t seen = assay_bell_read(&p->left);
        if ((atomic_load(&p->word) & CALLS) == 0) return true;
        if (left_ns(until) == 0) return false;
        assay_bell_park(&p->left, seen, left_ns(until));
    }
}

static int close_held(place *p, uint64_t until) {
    if (!empty(p, until)) return ASSAY_STALLED;
    if (!assay_runtime_stop_by(p->runtime, until)) return ASSAY_STALLED;
    assay_runtime_destroy(p->runtime);
    p->runtime = NULL;
    /* Another runtime may be opened in this cell: from now on this one's number is stale. */
    atomic_store(&p->word, (generation_of(atomic_load(&p->word)) << 32) | CLOSING);
    return ASSAY_OK;
}

int assay_host_close(assay_host h, uint64_t timeout_ns) {
    place *p = place_of(h);
    uint32_t nobody = 0;
    if (h == 0 || !atomic_compare_exchange_strong(&p->closer, &nobody, 1)) return ASSAY_CLOSED;
    int status = ASSAY_CLOSED;
    if (generation_of(atomic_load(&p->word)) == generation_of(h) && p->runtime != NULL)
        status = close_held(p, assay_monotonic_ns() + timeout_ns);
    atomic_store(&p->closer, 0);
    if (status == ASSAY_OK) atomic_store(&p->taken, 0);
    return status;
}

/* ---- calls -------------------------------------------------------------------------------------- */

int assay_host_start(assay_host h) { HELD(h, assay_runtime_start(rt)); }

int assay_host_submit(assay_host h, const assay_order *order, const int32_t *prompt,
                      uint32_t prompt_len, const assay_member *members, uint32_t n,
                      assay_ref *out) {
    HELD(h, assay_runtime_submit(rt, order, prompt, prompt_len, members, n, out));
}

int assay_host_cancel(assay_host h, assay_ref ref) { HELD(h, assay_runtime_cancel(rt, ref)); }

int assay_host_limit(assay_host h, int *limit) {
    HELD(h, (*limit = assay_runtime_limit(rt), ASSAY_OK));
}

int assay_host_score(assay_host h, assay_ref ref, double reward) {
    HELD(h, assay_runtime_score(rt, ref, reward));
}

int assay_host_poll(assay_host h, assay_completion *out, uint64_t n, uint64_t *got) {
    HELD(h, (*got = assay_runtime_poll(rt, out, n), ASSAY_OK));
}

static int take_rewards(assay_runtime *rt, assay_descriptor *out, uint64_t n, uint64_t *got) {
    int status;
    *got = assay_runtime_reward_take(rt, out, n, &status);
    return ASSAY_OK;
}

int assay_host_reward_take(assay_host h, assay_descriptor *out, uint64_t n, uint64_t *got) {
    HELD(h, take_rewards(rt, out, n, got));
}

int assay_host_contents(assay_host h, const assay_completion *done, int32_t *tokens, float *logps,
                        uint32_t *versions) {
    HELD(h, assay_runtime_contents(rt, done, tokens, logps, versions));
}

int assay_host_asked(assay_host h, const assay_completion *done, assay_asked *out) {
    HELD(h, assay_runtime_asked(rt, done, out));
}

int assay_host_release(assay_host h, const assay_completion *done, uint64_t n) {
    HELD(h, (assay_runtime_release(rt, done, n), ASSAY_OK));
}

int assay_host_copy(assay_host h, assay_ref ref, int32_t *tokens, uint32_t n) {
    HELD(h, assay_runtime_copy(rt, ref, tokens, n));
}

int assay_host_peek(assay_host h, assay_ref ref, uint32_t from, uint32_t room, int32_t *tokens,
                    float *logps, uint32_t *versions, uint32_t *got) {
    HELD(h, assay_runtime_peek(rt, ref, from, room, tokens, logps, versions, got));
}

int assay_host_bell(assay_host h, uint32_t *seen) {
    HELD(h, (*seen = assay_runtime_bell(rt), ASSAY_OK));
}

int assay_host_wait(assay_host h, uint32_t seen, uint64_t timeout_ns, uint64_t *took_ns) {
    HELD(h, (*took_ns = assay_runtime_wait(rt, seen, timeout_ns), ASSAY_OK));
}

static bool closing(assay_host h) { return (atomic_load(&place_of(h)->word) & CLOSING) != 0; }

/* In slices, so that a step that does not end cannot block close. */
static int pause_held(assay_host h, assay_runtime *rt, _Atomic(uint32_t) *cell,
                      enum assay_pause_mode mode, uint64_t timeout_ns) {
    uint64_t until = assay_monotonic_ns() + timeout_ns, slice = 10 * 1000 * 1000;
    assay_runtime_pause(rt, mode);
    atomic_store(cell, 1 + mode);
    do {
        uint64_t left = left_ns(until);
        if (assay_runtime_paused(rt, mode, left < slice ? left : slice)) return ASSAY_OK;
    } while (left_ns(until) > 0 && !closing(h));
    atomic_store(cell, 0);
    assay_runtime_resume(rt, mode);
    return closing(h) ? ASSAY_CLOSED : ASSAY_STALLED;
}

int assay_host_pause(assay_host h, _Atomic(uint32_t) *cell, uint32_t mode, uint64_t timeout_ns) {
    if (mode > ASSAY_PAUSE_RETRACT) return ASSAY_INVALID;
    HELD(h, pause_held(h, rt, cell, (enum assay_pause_mode)mode, timeout_ns));
}

static int resume_once(assay_runtime *rt, _Atomic(uint32_t) *cell) {
    uint32_t mode = atomic_exchange(cell, 0);
    if (mode) assay_runtime_resume(rt, (enum assay_pause_mode)(mode - 1));
    return ASSAY_OK;
}

int assay_host_resume(assay_host h, _Atomic(uint32_t) *cell) { HELD(h, resume_once(rt, cell)); }

int assay_host_set_policy_version(assay_host h, uint32_t version) {
    HELD(h, (assay_runtime_set_policy_version(rt, version), ASSAY_OK));
}

int assay_host_bury(assay_host h) { HELD(h, (assay_runtime_bury(rt), ASSAY_OK)); }

int assay_host_audit(assay_host h, int *found) {
    HELD(h, (*found = assay_runtime_audit(rt), ASSAY_OK));
}

int assay_host_step(assay_host h, int *did) { HELD(h, (*did = assay_runtime_step(rt), ASSAY_OK)); }

int assay_host_nudge(assay_host h) { HELD(h, (assay_runtime_nudge(rt), ASSAY_OK)); }

int assay_host_trace_on(assay_host h, uint32_t on) {
    HELD(h, (assay_runtime_trace_on(rt, on), ASSAY_OK));
}

int assay_host_trace_read(assay_host h, uint64_t from, assay_trace_record *out, uint64_t n,
                          uint64_t *got, uint64_t *next, uint64_t *lost) {
    HELD(h, (*got = assay_runtime_trace_read(rt, from, out, n, next, lost), ASSAY_OK));
}

int assay_host_stats(assay_host h, assay_stats *out) {
    HELD(h, (assay_runtime_stats(rt, out), ASSAY_OK));
}
