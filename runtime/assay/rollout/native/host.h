/* Runtimes for a host process, identified by number, never by address.
 *
 * Invariants:
 *   - a call holds the runtime until it returns, so nothing is freed during it; a call made
 *     after `close` began, or in a forked child, gets ASSAY_CLOSED and touches nothing;
 *   - close frees only when no call is inside and the threads have ended; if it times out before, it
 *     frees nothing, returns ASSAY_STALLED and may be called again;
 *   - a pause belongs to the cell that was given to it: it is resumed once, however often resume is called.
 */
#ifndef ASSAY_HOST_H
#define ASSAY_HOST_H

#include "runtime.h"

enum {
    ASSAY_CLOSED = 6,  /* the runtime is closed, or belongs to the process that forked this one */
    ASSAY_STALLED = 7, /* not done within the caller's time-out */
    ASSAY_HOSTS_MAX = 1024 /* runtimes of one process */
};

typedef uint64_t assay_host; /* index | generation << 32; 0 names none */

/* 0 with ASSAY_INVALID, or ASSAY_SATURATED (no memory, or ASSAY_HOSTS_MAX are open), in *status. */
assay_host assay_host_open(const assay_runtime_settings *settings, const assay_engine_ops *engine,
                           int *status);
/* ASSAY_OK, ASSAY_CLOSED (it was before) or ASSAY_STALLED. */
int assay_host_close(assay_host h, uint64_t timeout_ns);

/* For native callers: the runtime, held until `leave`; NULL: closed. */
assay_runtime *assay_host_enter(assay_host h);
void assay_host_leave(assay_host h);

int assay_host_start(assay_host h);
int assay_host_submit(assay_host h, const assay_order *order, const int32_t *prompt,
                      uint32_t prompt_len, const assay_member *members, uint32_t n, assay_ref *out);
int assay_host_cancel(assay_host h, assay_ref ref);
int assay_host_limit(assay_host h, int *limit);
int assay_host_score(assay_host h, assay_ref ref, double reward);

/* New entries, at most n, are written with their count in one call: a host that is interrupted between
 * this call and its own bookkeeping finds everything in `out` and `*got`. */
int assay_host_poll(assay_host h, assay_completion *out, uint64_t n, uint64_t *got);
int assay_host_reward_take(assay_host h, assay_descriptor *out, uint64_t n, uint64_t *got);

/* Copy the content of a collected, unreleased completion: prompt_len + n_generated tokens, and
 * n_generated log-probs and versions. */
int assay_host_contents(assay_host h, const assay_completion *done, int32_t *tokens, float *logps,
                        uint32_t *versions);
int assay_host_asked(assay_host h, const assay_completion *done, assay_asked *out);
int assay_host_release(assay_host h, const assay_completion *done, uint64_t n);
int assay_host_copy(assay_host h, assay_ref ref, int32_t *tokens, uint32_t n);
int assay_host_peek(assay_host h, assay_ref ref, uint32_t from, uint32_t room, int32_t *tokens,
                    float *logps, uint32_t *versions, uint32_t *got);

int assay_host_bell(assay_host h, uint32_t *seen);
int assay_host_wait(assay_host h, uint32_t seen, uint64_t timeout_ns, uint64_t *took_ns);

/* `cell` is 0 and becomes 1 with the pause; the worker is held once ASSAY_OK was returned. */
int assay_host_pause(assay_host h, _Atomic(uint32_t) *cell, uint32_t mode, uint64_t timeout_ns);
int assay_host_resume(assay_host h, _Atomic(uint32_t) *cell);
int assay_host_set_policy_version(assay_host h, uint32_t version);

int assay_host_bury(assay_host h);
int assay_host_audit(assay_host h, int *found);
int assay_host_step(assay_host h, int *did);
int assay_host_nudge(assay_host h);
int assay_host_trace_on(assay_host h, uint32_t on);
int assay_host_trace_read(assay_host h, uint64_t from, assay_trace_record *out, uint64_t n,
                          uint64_t *got, uint64_t *next, uint64_t *lost);
int assay_host_stats(assay_host h, assay_stats *out);

#endif
