/* The interface between the control core and a decode engine: the types that both sides use.
 *
 * The core owns KV blocks, block tables and batches; the engine owns the numbers inside a block and
 * the model. Neither includes the other's headers, only this one.
 *
 * Invariants of a step passed to an engine:
 *   - token i of an entry sits at position pos0 + i, in block_table[(pos0 + i) / block_tokens];
 *   - every position below pos0 holds computed K and V;
 *   - no block this entry writes to is reachable from another entry (copy-on-write came before);
 *   - entries that share a prefix are adjacent, with equal leading block ids.
 */
#ifndef ASSAY_SEAM_H
#define ASSAY_SEAM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Plain data of one rollout. The random number for the token at position p is a pure function of
 * (seed, p), so a rollout's tokens do not depend on its neighbours or on chunking. */
typedef struct {
    float temperature; /* <= 0: greedy, and out_logp is log-prob under the untempered distribution */
    float top_p;       /* 1: off */
    float min_p;       /* 0: off */
    uint32_t top_k;    /* 0: off */
    uint64_t seed;
    uint64_t reserved;
} assay_sampler;

/* One rollout's share of one step: one token when decoding, a chunk when prefilling. */
typedef struct {
    const int32_t *tokens;
    uint32_t n_tokens;
    uint32_t pos0; /* position of tokens[0] */
    const uint32_t *block_table;
    uint32_t n_blocks;
    uint32_t shared_blocks; /* leading blocks equal to the neighbours' in this batch; 0: none */
    uint8_t want_logits;    /* sample after the last token */
    assay_sampler *sampler;
    int32_t out_token; /* written when want_logits */
    float out_logp;    /* log-prob of out_token under the distribution it was sampled from */
    uint64_t policy_version; /* written by every step: version of the weights that computed it */
} assay_seq_step;

/* What the core calls. A step returns 0, or an engine error code that ends the worker. */
typedef struct {
    void *self;
    int (*step)(void *self, uint8_t *kv_base, assay_seq_step *steps, uint32_t n_steps);
    void (*kv_copy)(void *self, uint8_t *dst, const uint8_t *src, uint32_t n_positions);
    size_t kv_block_bytes; /* of one block of block_tokens positions, all layers, K and V */
    uint32_t block_tokens;
    uint32_t vocab_size;
    uint32_t seq_len_max;   /* positions the model can address */
    uint32_t batch_max;     /* entries a step may carry */
    uint32_t step_tokens_max; /* tokens a step may carry, over all entries */
    void (*rouse)(void *self); /* steps are about to follow after a pause; NULL: nothing to wake */
} assay_engine_ops;

#ifdef __cplusplus
}
#endif

#endif
