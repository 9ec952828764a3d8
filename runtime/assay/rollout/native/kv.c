#include "kv.h"

/* ---- memory --------------------------------------------------------------------------------- */

static size_t line_up(size_t n) { return (n + ASSAY_LINE - 1) / ASSAY_LINE * ASSAY_LINE; }

static uint32_t bucket_count(uint32_t n_blocks) {
    return (uint32_t)assay_pow2_at_least((uint64_t)n_blocks * 2);
}

size_t assay_kv_bytes(uint32_t n_blocks, uint32_t block_tokens) {
    return line_up(n_blocks * sizeof(assay_block)) +
           line_up((size_t)n_blocks * block_tokens * sizeof(int32_t)) +
           line_up(bucket_count(n_blocks) * sizeof(uint32_t)) +
           line_up(n_blocks * sizeof(uint32_t));
}

static void *carve(uint8_t **cursor, size_t bytes) {
    void *at = *cursor;
    *cursor += line_up(bytes);
    return at;
}

void assay_kv_init(assay_kv *kv, void *memory, uint32_t n_blocks, assay_credit *credit,
                   uint8_t *base, const assay_engine_ops *engine, bool caching) {
    uint8_t *cursor = memory;
    kv->n_blocks = n_blocks;
    kv->block_tokens = engine->block_tokens;
    kv->bucket_mask = bucket_count(n_blocks) - 1;
    kv->blocks = carve(&cursor, n_blocks * sizeof *kv->blocks);
    kv->tokens = carve(&cursor, (size_t)n_blocks * kv->block_tokens * sizeof *kv->tokens);
    kv->buckets = carve(&cursor, bucket_count(n_blocks) * sizeof *kv->buckets);
    kv->free_ids = carve(&cursor, n_blocks * sizeof *kv->free_ids);
    kv->oldest = kv->newest = ASSAY_NONE;
    kv->caching = caching;
    kv->credit = credit;
    kv->base = base;
    kv->engine = engine;
    memset(kv->buckets, 0xFF, bucket_count(n_blocks) * sizeof *kv->buckets);
    kv->n_free = n_blocks;
    for (uint32_t i = 0; i < n_blocks; i++) kv->free_ids[i] = n_blocks - 1 - i;
}

/* Counters have one writer, the worker. */
static void add(_Atomic(uint64_t) *counter, int64_t n) {
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed) + (uint64_t)n;
    atomic_store_explicit(counter, now, memory_order_relaxed);
}

static int32_t *tokens_of(const assay_kv *kv, uint32_t id) {
    return kv->tokens + (size_t)id * kv->block_tokens;
}

/* ---- the cold list, oldest first -------------------------------------------------------------- */

static void cold_push(assay_kv *kv, uint32_t id) {
    assay_block *b = &kv->blocks[id];
    b->older = kv->newest;
    b->newer = ASSAY_NONE;
    if (kv->newest != ASSAY_NONE)
        kv->blocks[kv->newest].newer = id;
    else
        kv->oldest = id;
    kv->newest = id;
    add(&kv->stats.cold, 1);
}

static void cold_remove(assay_kv *kv, uint32_t id) {
    const assay_block *b = &kv->blocks[id];
    *(b->older != ASSAY_NONE ? &kv->blocks[b->older].newer : &kv->oldest) = b->newer;
    *(b->newer != ASSAY_NONE ? &kv->blocks[b->newer].older : &kv->newest) = b->older;
    add(&kv->stats.cold, -1);
}

/* ---- the cache -------------------------------------------------------------------------------- */

static uint64_t chain_hash(uint64_t h, const int32_t *tokens, uint32_t n) {
    return assay_prefix_hash(tokens, n) * 0xC2B2AE3D27D4EB4Fu ^ (h << 27 | h >> 37);
}

static uint32_t *bucket_of(const assay_kv *kv, uint64_t hash) {
    return &kv->buckets[(hash ^ hash >> 32) & kv->bucket_mask];
}

static bool entry_is(const assay_kv *kv, uint32_t id, const assay_block *want,
                     const int32_t *tokens) {
    const assay_block *b = &kv->blocks[id];
    return b->hash == want->hash && b->parent == want->parent && b->filled == want->filled &&
           b->version == want->version &&
           memcmp(tokens_of(kv, id), tokens, want->filled * sizeof *tokens) == 0;
}

static uint32_t cache_find(const assay_kv *kv, const assay_block *want, const int32_t *tokens) {
    uint32_t id = *bucket_of(kv, want->hash);
    while (id != ASSAY_NONE && !entry_is(kv, id, want, tokens)) id = kv->blocks[id].chain;
    return id;
}

static void cache_insert(assay_kv *kv, uint32_t id, const assay_block *entry,
                         const int32_t *tokens) {
    assay_block *b = &kv->blocks[id];
    uint32_t *bucket = bucket_of(kv, entry->hash);
    b->hash = entry->hash;
    b->parent = entry->parent;
    b->filled = entry->filled;
    b->version = entry->version;
    b->cached = 1;
    b->computed = 0;
    b->chain = *bucket;
    *bucket = id;
    memcpy(tokens_of(kv, id), tokens, entry->filled * sizeof *tokens);
}

static void cache_remove(assay_kv *kv, uint32_t id) {
    assay_block *b = &kv->blocks[id];
    uint32_t *link = bucket_of(kv, b->hash);
    while (*link != id) link = &kv->blocks[*link].chain;
    *link = b->chain;
    b->cached = b->computed = 0;
}

/* ---- references ------------------------------------------------------------------------------- */

static void reference(assay_kv *kv, uint32_t id) {
    if (kv->blocks[id].refs++) return;
    add(&kv->stats.in_use, 1);
    uint64_t now = atomic_load_explicit(&kv->stats.in_use, memory_order_relaxed);
    if (now > atomic_load_explicit(&kv->stats.in_use_peak, memory_order_relaxed))
        atomic_store_explicit(&kv->stats.in_use_peak, now, memory_order_relaxed);
}

static void dereference(assay_kv *kv, uint32_t id) {
    assay_block *b = &kv->blocks[id];
    if (--b->refs) return;
    add(&kv->stats.in_use, -1);
    if (b->cached && b->computed) {
        cold_push(kv, id);
    } else {
        if (b->cached) cache_remove(kv, id);
        kv->free_ids[kv->n_free++] = id;
    }
    assay_credit_give(kv->credit, 1);
}

/* A block out of the table's reservation: a free one, or the prefix block that is cold longest. */
static uint32_t allocate(assay_kv *kv, assay_table *t) {
    uint32_t id = ASSAY_NONE;
    if (t->reserved == 0) return ASSAY_NONE;
    if (kv->n_free) {
        id = kv->free_ids[--kv->n_free];
    } else if (kv->oldest != ASSAY_NONE) {
        id = kv->oldest;
        cold_remove(kv, id);
        cache_remove(kv, id);
        add(&kv->stats.evictions, 1);
    } else {
        return ASSAY_NONE;
    }
    t->reserved--;
    reference(kv, id);
    return id;
}

/* ---- admission -------------------------------------------------------------------------------- */

/* The cache key of block i of a prefix, given the key before it. */
static assay_block key_after(const assay_kv *kv, const assay_block *before, uint32_t parent,
                             const int32_t *prefix, uint32_t prefix_len, uint32_t i) {
    uint32_t left = prefix_len - i * kv->block_tokens;
    assay_block key = {.parent = parent, .version = before->version};
    key.filled = left < kv->block_tokens ? left : kv->block_tokens;
    key.hash = chain_hash(before->hash, prefix + (size_t)i * kv->block_tokens, key.filled);
    return key;
}

static uint32_t prefix_block_count(const assay_kv *kv, uint32_t prefix_len) {
    return (prefix_len + kv->block_tokens - 1) / kv->block_tokens;
}

/* Fill t->ids with the cached beginning of the prefix; references nothing yet. */
static assay_block match(const assay_kv *kv, assay_table *t, const int32_t *prefix, uint32_t len,
                         uint32_t version) {
    assay_block key = {.hash = version, .version = version};
    uint32_t n = kv->caching ? prefix_block_count(kv, len) : 0, parent = ASSAY_NONE;
    for (t->matched_blocks = 0; t->matched_blocks < n; t->matched_blocks++) {
        uint32_t i = t->matched_blocks;
        assay_block next = key_after(kv, &key, parent, prefix, len, i);
        uint32_t id = cache_find(kv, &next, prefix + (size_t)i * kv->block_tokens);
        if (id == ASSAY_NONE) break;
        t->ids[i] = parent = id;
        key = next;
    }
    return key;
}

/* Blocks to reserve: those not matched in full, one more when the rollout will leave a partial block
 * that it put into the cache itself. */
static uint32_t own_blocks(const assay_kv *kv, const assay_table *t, uint32_t prefix_len,
                           uint32_t positions) {
    uint32_t full = prefix_len / kv->block_tokens;
    uint32_t matched_full = t->matched_blocks < full ? t->matched_blocks : full;
    bool partial = kv->caching && prefix_len % kv->block_tokens != 0;
    bool puts_partial = partial && t->matched_blocks <= full;
    return prefix_block_count(kv, positions) - matched_full + puts_partial;
}

static uint32_t cold_among(const assay_kv *kv, const assay_table *t) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->matched_blocks; i++) n += kv->blocks[t->ids[i]].refs == 0;
    return n;
}

static void take_matched(assay_kv *kv, assay_table *t) {
    for (uint32_t i = 0; i < t->matched_blocks; i++) {
        if (kv->blocks[t->ids[i]].refs == 0) cold_remove(kv, t->ids[i]);
        reference(kv, t->ids[i]);
    }
    t->n_blocks = t->matched_blocks;
}

/* The reservation covers every allocation here. */
static void lay_prefix(assay_kv *kv, assay_table *t, assay_block key, const int32_t *prefix,
                       uint32_t len) {
    uint32_t n = prefix_block_count(kv, len);
    for (uint32_t i = t->n_blocks; i < n; i++) {
        uint32_t parent = i ? t->ids[i - 1] : ASSAY_NONE;
        uint32_t id = t->ids[i] = allocate(kv, t);
        t->n_blocks++;
        if (!kv->caching) continue;
        key = key_after(kv, &key, parent, prefix, len, i);
        cache_insert(kv, id, &key, prefix + (size_t)i * kv->block_tokens);
    }
    t->prefix_blocks = kv->caching ? n : 0;
}

bool assay_kv_admit(assay_kv *kv, assay_table *t, const int32_t *prompt, uint32_t prompt_len,
                    uint32_t positions, uint32_t version) {
    uint32_t prefix_len = prompt_len - 1;
    assay_block key = match(kv, t, prompt, prefix_len, version);
    uint32_t own = own_blocks(kv, t, prefix_len, positions);
    t->n_blocks = t->prefix_blocks = t->reserved = 0;
    if (!assay_credit_take(kv->credit, (int64_t)own + cold_among(kv, t))) {
        t->matched_blocks = 0;
        return false;
    }
    t->reserved = own;
    take_matched(kv, t);
    uint32_t matched = assay_kv_matched_positions(kv, t, prefix_len);
    add(&kv->stats.matched_positions, matched);
    add(&kv->stats.missed_positions, prefix_len - matched);
    lay_prefix(kv, t, key, prompt, prefix_len);
    return true;
}

/* ---- prefill ---------------------------------------------------------------------------------- */

bool assay_kv_matched_ready(const assay_kv *kv, const assay_table *t) {
    return t->matched_blocks == 0 || kv->blocks[t->ids[t->matched_blocks - 1]].computed;
}

uint32_t assay_kv_matched_positions(const assay_kv *kv, const assay_table *t,
                                    uint32_t prefix_len) {
    uint32_t covered = t->matched_blocks * kv->block_tokens;
    return covered < prefix_len ? covered : prefix_len;
}

/* Later rollouts must not find it; those that already share it keep it. */
static void forget(assay_kv *kv, uint32_t id) {
    uint8_t computed = kv->blocks[id].computed;
    if (kv->blocks[id].cached) cache_remove(kv, id);
    kv->blocks[id].computed = computed;
}

/* A block computed by other weights than its key says, or built on such a block, has no version. */
static bool mixed(const assay_kv *kv, const assay_table *t, uint32_t i, uint32_t version) {
    const assay_block *b = &kv->blocks[t->ids[i]];
    return b->version != version || (i > 0 && !kv->blocks[t->ids[i - 1]].cached);
}

void assay_kv_computed(assay_kv *kv, const assay_table *t, uint32_t from, uint32_t positions,
                       uint32_t prefix_len, uint32_t version) {
    uint32_t first = from / kv->block_tokens;
    if (first < t->matched_blocks) first = t->matched_blocks;
    for (uint32_t i = first; i < t->prefix_blocks && i * kv->block_tokens < positions; i++) {
        uint32_t end = (i + 1) * kv->block_tokens;
        assay_block *b = &kv->blocks[t->ids[i]];
        if (mixed(kv, t, i, version)) forget(kv, t->ids[i]);
        b->computed = positions >= (end < prefix_len ? end : prefix_len);
    }
}

bool assay_kv_awaited(const assay_kv *kv, const assay_table *t) {
    for (uint32_t i = t->matched_blocks; i < t->prefix_blocks; i++) {
        const assay_block *b = &kv->blocks[t->ids[i]];
        if (!b->computed && b->refs > 1) return true;
    }
    return false;
}

/* ---- decode ----------------------------------------------------------------------------------- */

static bool copy_on_write(assay_kv *kv, assay_table *t, uint32_t i, uint32_t filled) {
    uint32_t shared = t->ids[i], own = allocate(kv, t);
    if (own == ASSAY_NONE) return false;
    size_t bytes = kv->engine->kv_block_bytes;
    kv->engine->kv_copy(kv->engine->self, kv->base + own * bytes, kv->base + shared * bytes, filled);
    t->ids[i] = own;
    if (t->prefix_blocks > i) t->prefix_blocks = i;
    if (t->matched_blocks > i) t->matched_blocks = i;
    dereference(kv, shared);
    add(&kv->stats.copies, 1);
    add(&kv->stats.copied_positions, filled);
    return true;
}

bool assay_kv_writable(assay_kv *kv, assay_table *t, uint32_t position) {
    uint32_t i = position / kv->block_tokens;
    if (i == t->n_blocks) {
        t->ids[i] = allocate(kv, t);
        return t->ids[i] != ASSAY_NONE && ++t->n_blocks;
    }
    const assay_block *b = &kv->blocks[t->ids[i]];
    if (b->refs == 1 && !b->cached) return true;
    return copy_on_write(kv, t, i, position % kv->block_tokens);
}

/* Leaf first, so that the cold list evicts a block before its parent. */
void assay_kv_release(assay_kv *kv, assay_table *t) {
    for (uint32_t i = t->n_blocks; i-- > 0;) dereference(kv, t->ids[i]);
    if (t->reserved) assay_credit_give(kv->credit, t->reserved);
    t->n_blocks = t->reserved = t->matched_blocks = t->prefix_blocks = 0;
}

/* ---- audit ------------------------------------------------------------------------------------ */

static uint32_t cold_length(const assay_kv *kv) {
    uint32_t n = 0;
    for (uint32_t id = kv->oldest; id != ASSAY_NONE && n <= kv->n_blocks; n++)
        id = kv->blocks[id].newer;
    return n;
}

int assay_kv_audit(const assay_kv *kv) {
    uint32_t in_use = 0, cold = 0;
    for (uint32_t id = 0; id < kv->n_blocks; id++) {
        const assay_block *b = &kv->blocks[id];
        in_use += b->refs > 0;
        cold += b->refs == 0 && b->cached;
        if (b->refs == 0 && b->cached && !b->computed) return 1;
        if (b->cached && b->computed && b->parent != ASSAY_NONE && !kv->blocks[b->parent].cached)
            return 2;
        if (b->cached && b->refs > 0 && b->parent != ASSAY_NONE &&
            kv->blocks[b->parent].refs == 0)
            return 3;
    }
    if (kv->n_free + cold + in_use != kv->n_blocks) return 4;
    if (cold != cold_length(kv)) return 5;
    if (in_use != atomic_load_explicit(&kv->stats.in_use, memory_order_relaxed)) return 6;
    return 0;
}
