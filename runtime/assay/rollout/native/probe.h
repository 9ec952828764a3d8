/* An engine without a model, for tests and benches of the code around a model.
 *
 * Position p of a rollout stores h(p) = mix(h(p - 1), token(p)), where h(p - 1) is read back from
 * the KV blocks. The next token is a function of that value and of the sampler's seed, so one
 * lost, stale or overwritten KV position changes every later token, and the correct tokens are
 * known without running the runtime.
 */
#ifndef ASSAY_PROBE_H
#define ASSAY_PROBE_H

#include "assay_seam.h"

typedef struct {
    uint32_t vocab_size;
    uint32_t block_tokens;
    uint32_t read_all;    /* 1: a token depends on every position's cell, not only the last */
    uint32_t bytes_a_position; /* multiple of 8, at least 8: how much a copy of a position costs */
    uint64_t spin_ns;     /* work per step, in place of a model; a running step may be shortened */
    uint64_t fail_at_step;/* return an engine error at this step; 0: never */
    uint64_t fault_at_step; /* write to address zero at this step; 0: never */
    uint64_t steps;
    uint64_t misbehave; /* every step: 1 a system call, 2 an allocation, 3 a page fault */
    uint64_t policy_version; /* stamped on every entry */
} assay_probe;

void assay_probe_ops(assay_probe *probe, uint32_t seq_len_max, uint32_t batch_max,
                     uint32_t step_tokens_max, assay_engine_ops *ops);

#endif
