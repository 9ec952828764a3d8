/* Sampling one token from one row of logits.
 *
 * The distribution: softmax(logits / temperature), temperature applied once; then only tokens stay
 * that pass every filter (top_k largest; smallest set of the largest whose share reaches top_p of
 * what top_k left; at least min_p of the largest), renormalised. The log-prob returned is under
 * the distribution that the token was drawn from. temperature <= 0 takes the first largest logit and
 * reports its log-prob under softmax(logits).
 *
 * The random number is Philox4x32-10 of (seed, position): no state, no order, no neighbours.
 */
#ifndef ASSAY_SAMPLER_H
#define ASSAY_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "assay_seam.h"
#include "kernels.h"

/* Buffers for one row; allocated once per thread. */
typedef struct {
    float *probs;      /* vocab_size rounded up to ASSAY_SUM_BLOCK */
    double *sums;      /* one per ASSAY_SUM_BLOCK */
    float *kept;       /* vocab_size */
    uint32_t *kept_id; /* vocab_size */
} assay_sample_scratch;

size_t assay_sample_scratch_bytes(uint32_t vocab_size);
/* Lays scratch out over memory of assay_sample_scratch_bytes, 64-byte aligned. */
void assay_sample_scratch_init(assay_sample_scratch *scratch, void *memory, uint32_t vocab_size);

/* Uniform in (0, 1), 53 bits. */
double assay_uniform(uint64_t seed, uint64_t position);

/* token -1 and logp NaN when a logit is NaN, the largest is infinite, or all are -inf. */
void assay_sample(const assay_kernels *kernels, const float *logits, uint32_t vocab_size,
                  const assay_sampler *sampler, uint64_t position, assay_sample_scratch *scratch,
                  int32_t *token, float *logp);

/* Draws n tokens from one row at positions position, position + 1, ... Returns 0, or -1 when out of
 * memory. For tests and offline use: it allocates its own buffers. */
int assay_sample_many(const float *logits, uint32_t vocab_size, const assay_sampler *sampler,
                      uint64_t position, uint32_t n, uint32_t isa, int32_t *tokens, float *logps);

#endif
