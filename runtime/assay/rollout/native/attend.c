/* Attention of up to 16 query rows over paged KV: scores of all of them, softmax row by row, then the
 * mix of V. Rows that share a prefix walk it together; each entry's own blocks follow. */
#include <string.h>

#include "engine_state.h"

/* One query of an item: its row of the batch, and its head among those that the KV head serves. */
typedef struct {
    uint32_t row;
    uint32_t head;
} query;

/* Queries [first, first + n) of an item, which walk sub-blocks [from, to) of one table. */
typedef struct {
    const uint32_t *table;
    uint32_t first;
    uint32_t n;
    uint32_t from;
    uint32_t to;
} stretch;

static query query_of(const assay_engine *e, const assay_attend_item *item, uint32_t i) {
    const uint32_t group = e->sizes.group;
    if (item->n_entries > 1) {
        return (query){e->batch.row_of[item->entry + i / group], i % group};
    }
    return (query){e->batch.row_of[item->entry] + (item->query + i) / group,
                   (item->query + i) % group};
}

/* The blocks that all queries of an item share, from the table of its first entry. */
static stretch shared_stretch(const assay_engine *e, const assay_attend_item *item) {
    return (stretch){.table = e->batch.steps[item->entry].block_table,
                     .n = item->queries,
                     .to = item->shared_subs};
}

/* The own blocks of entry j of an item, up to the sub-block of its last query. */
static stretch own_stretch(const assay_engine *e, const assay_attend_item *item, uint32_t j) {
    const uint32_t group = e->sizes.group;
    const uint32_t first = item->n_entries > 1 ? j * group : 0;
    const uint32_t n = item->n_entries > 1 ? group : item->queries;
    const uint32_t last_row = query_of(e, item, first + n - 1).row;
    return (stretch){.table = e->batch.steps[item->entry + j].block_table,
                     .first = first,
                     .n = n,
                     .from = item->shared_subs,
                     .to = e->batch.rows[last_row].position / ASSAY_SUB + 1};
}

static assay_kv_walk walk_of(const assay_engine *e, uint32_t layer, uint32_t head,
                             const stretch *s) {
    return (assay_kv_walk){
        .base = e->batch.kv_base,
        .table = s->table,
        .block_bytes = e->kv.block_bytes,
        .offset = assay_kv_offset(&e->kv, layer, head),
        .sub_bytes = e->kv.sub_bytes,
        .subs_per_block = e->kv.subs_per_block,
        .first = s->from,
        .n = s->to - s->from,
        .k_pad = e->kv.k_pad,
        .v_cols = e->kv.v_cols,
        .k_bytes = e->kv.k_bytes,
    };
}

static void score(assay_engine *e, assay_thread_room *room, uint32_t layer, uint32_t head,
                  const stretch *s) {
    const assay_kv_walk walk = walk_of(e, layer, head, s);
    if (walk.n != 0) {
        e->attend->scores(&walk, room->queries, s->first, s->n,
                          room->scores + s->first * (size_t)e->sizes.scores_ld,
                          e->sizes.scores_ld);
    }
}

static void mix(assay_engine *e, assay_thread_room *room, uint32_t layer, uint32_t head,
                const stretch *s) {
    const assay_kv_walk walk = walk_of(e, layer, head, s);
    if (walk.n != 0) {
        e->attend->mix(&walk, room->scores + s->first * (size_t)e->sizes.scores_ld, s->n,
                       e->sizes.scores_ld, room->mixed + s->first * (size_t)e->kv.v_cols,
                       e->kv.v_cols);
    }
}

static void pack_queries(assay_engine *e, assay_thread_room *room, const assay_attend_item *item,
                         uint32_t head) {
    const uint32_t dim = e->shape.head_dim;
    for (uint32_t i = 0; i < item->queries; i++) {
        const query q = query_of(e, item, i);
        const float *values = e->act.qkv + (size_t)q.row * e->sizes.qkv_ld +
                              (size_t)(head * e->sizes.group + q.head) * dim;
        e->attend->pack(room->queries, e->kv.k_pad, i, 0, values, dim);
    }
}

/* Scores become weights whose sum is sums[i]. `own` is one stretch per entry. */
static void soften(assay_engine *e, assay_thread_room *room, const assay_attend_item *item,
                   const stretch *own, float *sums) {
    for (uint32_t i = 0; i < item->queries; i++) {
        const stretch *s = item->n_entries > 1 ? &own[i / e->sizes.group] : own;
        const uint32_t position = e->batch.rows[query_of(e, item, i).row].position;
        sums[i] = e->attend->softmax(room->scores + i * (size_t)e->sizes.scores_ld, position + 1,
                                     s->to * ASSAY_SUB);
    }
}

static void put_outputs(assay_engine *e, assay_thread_room *room, const assay_attend_item *item,
                        uint32_t head, const float *sums) {
    const uint32_t dim = e->shape.head_dim;
    for (uint32_t i = 0; i < item->queries; i++) {
        const query q = query_of(e, item, i);
        float *mixed = room->mixed + i * (size_t)e->kv.v_cols;
        for (uint32_t d = 0; d < dim; d++) {
            mixed[d] /= sums[i];
        }
        assay_put_input(e, ASSAY_INPUT_ATT, q.row, (head * e->sizes.group + q.head) * dim, mixed,
                        dim);
    }
}

void assay_attend(assay_engine *e, assay_thread_room *room, const assay_attend_item *item,
                  uint32_t layer, uint32_t head) {
    const stretch shared = shared_stretch(e, item);
    stretch own[ASSAY_ROW_TILE];
    float sums[ASSAY_ROW_TILE];
    for (uint32_t j = 0; j < item->n_entries; j++) {
        own[j] = own_stretch(e, item, j);
    }
    pack_queries(e, room, item, head);
    score(e, room, layer, head, &shared);
    for (uint32_t j = 0; j < item->n_entries; j++) {
        score(e, room, layer, head, &own[j]);
    }
    soften(e, room, item, own, sums);
    memset(room->mixed, 0, (size_t)item->queries * e->kv.v_cols * sizeof(float));
    mix(e, room, layer, head, &shared);
    for (uint32_t j = 0; j < item->n_entries; j++) {
        mix(e, room, layer, head, &own[j]);
    }
    put_outputs(e, room, item, head, sums);
}
