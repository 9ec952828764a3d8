/* See worker.h: the worker's memory, laid out once. */
#include "arena.h"
#include "worker.h"

static uint32_t table_length(const assay_shape *s) {
    return (s->seq_max + s->block_tokens - 1) / s->block_tokens + 1;
}

/* Parts of the worker's memory that other modules lay out. */
typedef struct {
    uint32_t *tables;
    void *kv, *waiting;
} side_parts;

enum { PARTS = 11 };

static void list_parts(assay_worker *w, side_parts *side, const assay_shape *s,
                       const assay_engine_ops *e, assay_part parts[PARTS]) {
    const assay_part all[PARTS] = {
        {&w->lanes, s->slots * sizeof *w->lanes},
        {&side->tables, (size_t)s->slots * table_length(s) * sizeof *side->tables},
        {&w->prefilling.slots, s->decode_credits * sizeof *w->prefilling.slots},
        {&w->active.slots, s->decode_credits * sizeof *w->active.slots},
        {&w->blocked.slots, s->decode_credits * sizeof *w->blocked.slots},
        {&w->steps, e->batch_max * sizeof *w->steps},
        {&w->step_slots, e->batch_max * sizeof *w->step_slots},
        {&w->chosen, e->batch_max * sizeof *w->chosen},
        {&w->chosen_keys, e->batch_max * sizeof *w->chosen_keys},
        {&side->kv, assay_kv_bytes(s->kv_blocks, s->block_tokens)},
        {&side->waiting, assay_waiting_bytes(s->slots)},
    };
    memcpy(parts, all, sizeof all);
}

size_t assay_worker_bytes(const assay_shape *shape, const assay_engine_ops *engine) {
    assay_worker unused;
    side_parts side;
    assay_part parts[PARTS];
    list_parts(&unused, &side, shape, engine, parts);
    return assay_parts_bytes(parts, PARTS);
}

void assay_worker_init(assay_worker *w, void *memory, assay_region *region, assay_trace *trace,
                       const assay_engine_ops *engine, const assay_worker_settings *settings,
                       uint8_t *kv_base) {
    const assay_shape *s = &region->shape;
    side_parts side;
    assay_part parts[PARTS];
    list_parts(w, &side, s, engine, parts);
    assay_parts_place(parts, PARTS, memory);
    w->region = region;
    w->trace = trace;
    w->engine = engine;
    w->settings = *settings;
    w->last_leaf = ASSAY_NONE;
    for (uint32_t slot = 0; slot < s->slots; slot++) {
        w->lanes[slot].table.ids = side.tables + (size_t)slot * table_length(s);
        w->lanes[slot].generation = s->generation_first - 1;
    }
    assay_kv_init(&w->kv, side.kv, s->kv_blocks, assay_credit_of(region, ASSAY_CREDIT_KV), kv_base,
                  engine, settings->prefix_cache != 0);
    assay_waiting_init(&w->waiting, side.waiting, s->slots, settings->policy, settings->aging_max);
}
