/* KV blocks: shared prefixes by reference count, branches by copy-on-write, a prefix cache by token
 * hash that outlives its rollouts, eviction of cold prefixes. One thread (the worker) owns all of it.
 *
 * Invariants:
 *   - blocks == free + cold + in use; a cold block is cached and referenced by no table;
 *   - credit available == blocks - in use - reserved, where reserved is what admitted rollouts may
 *     still allocate: so an admitted rollout never runs out of blocks;
 *   - a block that is cached, or referenced by more than one table, is written only while its owner
 *     prefills it for the first time; every other write goes to a copy;
 *   - a cached, computed block's parent is cached too: cold blocks are evicted from leaf to root;
 *   - a cached, computed block was computed by the weights of its version alone, and so was every
 *     block before it: blocks under which weights changed stay with their rollouts, and later ones
 *     do not find them;
 *   - two prefixes are considered equal only when their tokens are equal, never by hash alone.
 */
#ifndef ASSAY_KV_H
#define ASSAY_KV_H

#include "core.h"

typedef struct {
    uint64_t hash;
    uint32_t refs;    /* tables that contain the block */
    uint32_t parent;  /* block before it in the prefix, or ASSAY_NONE */
    uint32_t filled;  /* positions that the cache entry covers */
    uint32_t version; /* policy version that the keys and values come from */
    uint32_t chain;   /* next in the hash bucket */
    uint32_t older, newer; /* neighbours among the cold */
    uint8_t cached;
    uint8_t computed; /* the first `filled` positions hold keys and values */
} assay_block;

/* The blocks of one rollout. `ids` has room for seq_max positions. */
typedef struct {
    uint32_t *ids;
    uint32_t n_blocks;
    uint32_t reserved;       /* blocks it may still allocate */
    uint32_t matched_blocks; /* leading blocks found in the cache */
    uint32_t prefix_blocks;  /* leading blocks that are in the cache, found or put there */
} assay_table;

typedef struct {
    _Atomic(uint64_t) matched_positions; /* prompt positions found in the cache */
    _Atomic(uint64_t) missed_positions;  /* prompt positions that had to be computed */
    _Atomic(uint64_t) copies;            /* copy-on-write of a block */
    _Atomic(uint64_t) copied_positions;
    _Atomic(uint64_t) evictions;
    _Atomic(uint64_t) in_use; /* blocks with a reference */
    _Atomic(uint64_t) in_use_peak;
    _Atomic(uint64_t) cold;
} assay_kv_stats;

typedef struct {
    uint32_t n_blocks;
    uint32_t block_tokens;
    uint32_t bucket_mask;
    uint32_t n_free;
    uint32_t oldest, newest; /* ends of the cold list */
    bool caching;
    assay_credit *credit;
    assay_block *blocks;
    int32_t *tokens; /* block_tokens per block: the tokens of a cached block */
    uint32_t *buckets;
    uint32_t *free_ids; /* a stack */
    uint8_t *base;      /* the arena */
    const assay_engine_ops *engine;
    assay_kv_stats stats;
} assay_kv;

size_t assay_kv_bytes(uint32_t n_blocks, uint32_t block_tokens);
/* `memory`: assay_kv_bytes of zeroes, 64-byte aligned. */
void assay_kv_init(assay_kv *kv, void *memory, uint32_t n_blocks, assay_credit *credit,
                   uint8_t *base, const assay_engine_ops *engine, bool caching);

/* Find the prompt's prefix (all but its last token) in the cache, reserve the blocks that it may need
 * for `positions` in all, and lay out the prefix. False: not enough blocks; nothing changed. */
bool assay_kv_admit(assay_kv *kv, assay_table *t, const int32_t *prompt, uint32_t prompt_len,
                    uint32_t positions, uint32_t version);

/* Whether the blocks found in the cache hold their keys and values by now. */
bool assay_kv_matched_ready(const assay_kv *kv, const assay_table *t);

/* Positions that the matched blocks cover, of a prefix of `prefix_len`. */
uint32_t assay_kv_matched_positions(const assay_kv *kv, const assay_table *t, uint32_t prefix_len);

/* Weights of `version` computed keys and values of the prefix's positions `from` to `positions`. */
void assay_kv_computed(assay_kv *kv, const assay_table *t, uint32_t from, uint32_t positions,
                       uint32_t prefix_len, uint32_t version);

/* Whether another table waits for blocks that this one has yet to compute. */
bool assay_kv_awaited(const assay_kv *kv, const assay_table *t);

/* Make `position` writable: a new block, or a copy of a shared one. False: invariant broken. */
bool assay_kv_writable(assay_kv *kv, assay_table *t, uint32_t position);

void assay_kv_release(assay_kv *kv, assay_table *t);

/* Check every invariant at rest; 0 when all hold, else the number of the first that does not. */
int assay_kv_audit(const assay_kv *kv);

#endif
