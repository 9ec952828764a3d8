/* Preparation of a step: checks its entries and lists its rows and attention items. */
#include <string.h>

#include "engine_state.h"

static int check_entry(const assay_engine *e, const assay_seq_step *step) {
    if (step->tokens == NULL || step->block_table == NULL || step->n_tokens == 0 ||
        (step->want_logits && step->sampler == NULL)) {
        return ASSAY_ENGINE_INVALID;
    }
    if (step->pos0 >= e->shape.seq_len_max ||
        step->n_tokens > e->shape.seq_len_max - step->pos0) {
        return ASSAY_ENGINE_CONTEXT;
    }
    if ((step->pos0 + step->n_tokens - 1) / e->settings.block_tokens >= step->n_blocks) {
        return ASSAY_ENGINE_BAD_BLOCKS;
    }
    for (uint32_t i = 0; i < step->n_tokens; i++) {
        if (step->tokens[i] < 0 || (uint32_t)step->tokens[i] >= e->shape.vocab_size) {
            return ASSAY_ENGINE_BAD_TOKEN;
        }
    }
    return ASSAY_ENGINE_OK;
}

static int check_steps(const assay_engine *e, const assay_seq_step *steps, uint32_t n_steps) {
    if (n_steps > e->settings.batch_max) {
        return ASSAY_ENGINE_TOO_MANY;
    }
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < n_steps; i++) {
        const int status = check_entry(e, &steps[i]);
        if (status != ASSAY_ENGINE_OK) {
            return status;
        }
        tokens += steps[i].n_tokens;
    }
    return tokens <= e->settings.step_tokens_max ? ASSAY_ENGINE_OK : ASSAY_ENGINE_TOO_MANY;
}

static void list_rows(assay_engine *e) {
    e->batch.n_rows = 0;
    e->batch.n_wanting = 0;
    for (uint32_t i = 0; i < e->batch.n_steps; i++) {
        assay_seq_step *step = &e->batch.steps[i];
        step->policy_version = e->policy_version;
        e->batch.row_of[i] = e->batch.n_rows;
        for (uint32_t t = 0; t < step->n_tokens; t++) {
            e->batch.rows[e->batch.n_rows++] = (assay_batch_row){step->tokens[t], step->pos0 + t, i};
        }
        e->batch.logit_row[i] = UINT32_MAX;
        if (step->want_logits) {
            e->batch.logit_row[i] = e->batch.n_wanting;
            e->batch.wanting[e->batch.n_wanting++] = i;
        }
    }
}

/* Whether entry b may walk entry a's leading blocks; the hint is used only when the ids agree. */
static int shares_with(const assay_engine *e, const assay_seq_step *a, const assay_seq_step *b) {
    const uint32_t n = a->shared_blocks;
    return n != 0 && b->shared_blocks == n && a->n_tokens == 1 && b->n_tokens == 1 &&
           n <= a->n_blocks && n <= b->n_blocks &&
           (uint64_t)n * e->settings.block_tokens <= a->pos0 &&
           (uint64_t)n * e->settings.block_tokens <= b->pos0 &&
           memcmp(a->block_table, b->block_table, n * sizeof *a->block_table) == 0;
}

/* The item of decoding entries from i on that share a prefix; n_entries 1 when entry i is alone. */
static assay_attend_item shared_item(const assay_engine *e, uint32_t i) {
    const assay_batch *b = &e->batch;
    const uint32_t entries_max = ASSAY_ROW_TILE / e->sizes.group;
    uint32_t n = 1;
    while (n < entries_max && i + n < b->n_steps && shares_with(e, &b->steps[i], &b->steps[i + n])) {
        n++;
    }
    return (assay_attend_item){.entry = i,
                               .n_entries = n,
                               .queries = n * e->sizes.group,
                               .shared_subs = b->steps[i].shared_blocks * e->kv.subs_per_block};
}

static void list_items_of(assay_engine *e, uint32_t entry) {
    const uint32_t queries = e->batch.steps[entry].n_tokens * e->sizes.group;
    for (uint32_t q = 0; q < queries; q += ASSAY_ROW_TILE) {
        const uint32_t here = queries - q < ASSAY_ROW_TILE ? queries - q : ASSAY_ROW_TILE;
        e->batch.items[e->batch.n_items++] =
            (assay_attend_item){.entry = entry, .n_entries = 1, .query = q, .queries = here};
    }
}

static void list_items(assay_engine *e) {
    e->batch.n_items = 0;
    for (uint32_t i = 0; i < e->batch.n_steps;) {
        const assay_attend_item together = shared_item(e, i);
        if (together.n_entries > 1) {
            e->batch.items[e->batch.n_items++] = together;
        } else {
            list_items_of(e, i);
        }
        i += together.n_entries;
    }
}

int assay_batch_begin(assay_engine *e, uint8_t *kv_base, assay_seq_step *steps, uint32_t n_steps) {
    const int status = check_steps(e, steps, n_steps);
    if (status != ASSAY_ENGINE_OK) {
        return status;
    }
    e->batch.kv_base = kv_base;
    e->batch.steps = steps;
    e->batch.n_steps = n_steps;
    list_rows(e);
    list_items(e);
    return ASSAY_ENGINE_OK;
}
