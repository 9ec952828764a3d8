/* The memory of an engine: padded sizes, the buffers of its steps and threads, a set of matrices. */
#include <string.h>

#include "engine_state.h"

assay_sizes assay_engine_sizes_of(const assay_model_shape *s, const assay_engine_settings *settings) {
    return (assay_sizes){
        .group = s->n_heads / s->n_kv_heads,
        .dim_ld = assay_round_up(s->dim, 32),
        .qkv_ld = assay_round_up((s->n_heads + 2 * s->n_kv_heads) * s->head_dim, 32),
        .att_pad = assay_round_up(s->n_heads * s->head_dim, 32),
        .hidden_pad = assay_round_up(s->hidden_dim, 32),
        /* norm_in also holds the rows that want logits: at most batch_max <= step_tokens_max. */
        .rows_pad = assay_round_up(settings->step_tokens_max, ASSAY_ROW_TILE),
        .vocab_ld = assay_round_up(s->vocab_size, 32),
        /* an odd number of cache lines, so that 16 rows do not fall on one cache set */
        .scores_ld = assay_round_up(s->seq_len_max, 32) + ASSAY_SUB,
    };
}

enum { ROOM_PARTS = 17, THREAD_PARTS = 6 };

/* Buffers of one thread; `sample` is laid out by the sampler. */
static void list_thread_parts(const assay_engine *e, assay_thread_room *room, void **sample,
                              assay_part parts[THREAD_PARTS]) {
    const size_t f = sizeof(float);
    const assay_part all[THREAD_PARTS] = {
        {&room->sums, (size_t)2 * e->sizes.rows_pad * ASSAY_PANEL * f},
        {&room->normed, e->sizes.dim_ld * f},
        {&room->queries, (size_t)ASSAY_ROW_TILE * e->kv.k_pad * f},
        {&room->scores, (size_t)ASSAY_ROW_TILE * e->sizes.scores_ld * f},
        {&room->mixed, (size_t)ASSAY_ROW_TILE * e->kv.v_cols * f},
        {sample, assay_sample_scratch_bytes(e->shape.vocab_size)},
    };
    memcpy(parts, all, sizeof all);
}

static size_t thread_room_bytes(const assay_engine *e) {
    assay_thread_room room;
    void *sample;
    assay_part parts[THREAD_PARTS];
    list_thread_parts(e, &room, &sample, parts);
    return assay_parts_bytes(parts, THREAD_PARTS);
}

static void place_thread_room(const assay_engine *e, assay_thread_room *room, void *base) {
    void *sample;
    assay_part parts[THREAD_PARTS];
    list_thread_parts(e, room, &sample, parts);
    assay_parts_place(parts, THREAD_PARTS, base);
    assay_sample_scratch_init(&room->sample, sample, e->shape.vocab_size);
}

/* Everything that steps write, except KV. */
static void list_room_parts(assay_engine *e, assay_part parts[ROOM_PARTS]) {
    const size_t f = sizeof(float);
    const size_t rows = e->settings.step_tokens_max;
    const size_t rows_pad = e->sizes.rows_pad;
    const size_t batch = e->settings.batch_max;
    const size_t threads = e->pool.n_threads;
    const size_t rope = (size_t)e->shape.seq_len_max * (e->shape.head_dim / 2) * f;
    const size_t items = rows * (e->sizes.group / ASSAY_ROW_TILE + 1) + batch;
    const assay_part all[ROOM_PARTS] = {
        {&e->rope_cos, rope},
        {&e->rope_sin, rope},
        {&e->act.x, rows * e->sizes.dim_ld * f},
        {&e->act.qkv, rows * e->sizes.qkv_ld * f},
        {&e->act.norm_in, rows_pad * e->sizes.dim_ld * f},
        {&e->act.att_in, rows_pad * e->sizes.att_pad * f},
        {&e->act.hidden_in, rows_pad * e->sizes.hidden_pad * f},
        {&e->act.logits, batch * e->sizes.vocab_ld * f},
        {&e->batch.rows, rows * sizeof *e->batch.rows},
        {&e->batch.row_of, batch * sizeof *e->batch.row_of},
        {&e->batch.items, items * sizeof *e->batch.items},
        {&e->batch.wanting, batch * sizeof *e->batch.wanting},
        {&e->batch.logit_row, batch * sizeof *e->batch.logit_row},
        {&e->pool.cursors, threads * sizeof *e->pool.cursors},
        {&e->pool.threads, threads * sizeof *e->pool.threads},
        {&e->threads, threads * sizeof *e->threads},
        {&e->thread_rooms, threads * thread_room_bytes(e)},
    };
    memcpy(parts, all, sizeof all);
}

int assay_engine_take_room(assay_engine *e) {
    assay_part parts[ROOM_PARTS];
    uint32_t huge;
    list_room_parts(e, parts);
    e->room_bytes = assay_parts_bytes(parts, ROOM_PARTS);
    e->room_pages = assay_pages_map(e->room_bytes, &huge);
    if (e->room_pages == NULL) {
        return ASSAY_ENGINE_NO_MEMORY;
    }
    assay_parts_place(parts, ROOM_PARTS, e->room_pages);
    for (uint32_t i = 0; i < e->pool.n_threads; i++) {
        place_thread_room(e, &e->threads[i], e->thread_rooms + i * thread_room_bytes(e));
    }
    return ASSAY_ENGINE_OK;
}
