/* Where everything lies: the kernel's parameters, scratch, weights and shared memory. Sizes come from the
 * compiler's command line (`A_...`, made by `sizes.py` from the model); the offsets are computed there, once.
 */
#ifndef ASSAY_MEMORY_H
#define ASSAY_MEMORY_H

#include "schedule.h"

#define A_WARPS (A_THREADS / 32) /* of workers */
#define A_Q_DIM (A_HEADS * A_HEAD_DIM)
#define A_KV_DIM (A_KV_HEADS * A_HEAD_DIM)
#define A_QKV_DIM (A_Q_DIM + 2 * A_KV_DIM)
#define A_TILES_DIM (A_DIM / 16)
#define A_KV_BLOCK (A_KV_HEADS * A_BLOCK * A_HEAD_DIM) /* elements of K, and of V, in a block of a layer */

#define A_PIECE_BYTES (A_PIECE * 1024) /* of weights: 16 outputs by A_PIECE * 32 inputs */
#define A_ROWS_SUMMED 64               /* rows of tiles whose partial sums are there at once */
#define A_PART_STRIDE 20               /* floats between the rows of partial sums: no bank conflicts */
#define A_QUERY_STRIDE (A_HEAD_DIM + 32) /* bf16 values between queries, likewise */

typedef struct {
    assay_kernel_state *state;
    assay_link *link;
    uint8_t *scratch;
    const uint8_t *weights[2];
    const uint8_t *adapters[2]; /* LoRA, beside the weights; NULL without A_RANK */
    uint16_t *keys;   /* bf16 [layers][kv_blocks][kv_heads][block][head_dim] */
    uint16_t *values; /* bf16 [layers][kv_blocks][kv_heads][head_dim][block] */
    const uint32_t *token_offsets; /* of each token's bytes, [vocab + 1]; NULL: no stop strings */
    const uint8_t *token_bytes;
    const float *turns; /* [seq_max][head_dim / 2][2]: cosine, sine */
    uint32_t *barrier;  /* arrivals so far */
} assay_params;

enum assay_product { OF_QKV, OF_OUT, OF_GATE_UP, OF_DOWN, OF_LOGITS, A_OF_MODEL };
#define A_PRODUCTS (A_OF_MODEL + (A_RANK ? OF_LOGITS : 0)) /* with an adapter's lower halves, in the layers' order */

/* A block's visits of a product's tiles: n are left; the next begins at (tile, row), takes so many tiles and
 * rows, and is followed by the one `tiles_on` and `rows_on` further on, among `groups` of tiles. */
typedef struct {
    uint32_t n, tile, row, tiles, rows, groups, tiles_on, rows_on;
} assay_visits;

/* A warp's first span of attention (`attend.h`), and the KV blocks that its lanes keep. */
typedef struct {
    uint32_t row0, n_rows, head, part, first, n, chunk, until, appends, there;
    uint32_t block[32];
} assay_first_span;

/* How a step's attention is divided: into spans of one chunk, or wide ones of a segment (`spans.h`). */
typedef struct {
    uint32_t n_spans, wide;
} assay_division;

typedef struct {
    alignas(128) uint8_t ring[A_STAGES * A_PIECE_BYTES]; /* weights on their way from device memory */
    uint64_t full[A_STAGES], empty[A_STAGES];
    assay_plan plan;   /* of this step */
    assay_visits visits[A_PRODUCTS];
    assay_first_span spans[A_WARPS];
    assay_division division;
    assay_rollout *rollouts;
    uint32_t *tables;  /* of KV blocks */
    uint32_t table_width, kv_blocks;
    uint64_t exchange_at; /* in the scratch: the words of a step, by layer and kind (`exchange.h`) */
    uint32_t exchange_step, exchange_rows;
    float scale[A_ROWS]; /* of the rows of a product's input: RMSNorm's */
    union {
        float partial[A_WARPS * A_ROWS_SUMMED * A_PART_STRIDE];
        struct {
            alignas(16) uint16_t query[A_WARPS][16 * A_QUERY_STRIDE]; /* read by sixteens */
            alignas(16) uint16_t key[A_WARPS][A_HEAD_DIM];
        } attend;
        struct {
            uint64_t mass[2048];
            uint64_t part[A_THREADS];
            uint32_t ties[A_THREADS];
            uint32_t threshold;
            uint64_t left;
        } sample;
        struct {
            uint32_t any_ended, verdict, chunks;
        } control;
    } u;
} assay_shared;

ASSAY_FN assay_shared *shared() { return (assay_shared *)(void *)shared_memory(); }

ASSAY_FN float *scratch_f(const assay_params *p, uint64_t at) {
    return (float *)(void *)(p->scratch + at);
}
ASSAY_FN const float *vector_at(const uint8_t *weights, uint64_t at) {
    return (const float *)(const void *)(weights + at);
}

ASSAY_FN const assay_plan *the_plan() { return &shared()->plan; }

/* Words of a plan before one of its lists. NVRTC 13.0 has no `offsetof`. */
ASSAY_FN uint32_t words_before(const assay_plan *plan, const void *list) {
    return (uint32_t)((const uint32_t *)list - (const uint32_t *)(const void *)plan);
}

/* Where in a plan, in words, the word with a number is, among those that its step uses. */
ASSAY_FN uint32_t word_of_plan(const assay_plan *plan, uint32_t number) {
    const uint32_t n = plan->n_rows;
    constexpr uint32_t EACH = sizeof(assay_entry) / 4;
    if (number < n) return words_before(plan, plan->token) + number;
    if ((number -= n) < n) return words_before(plan, plan->pos) + number;
    if ((number -= n) < n) return words_before(plan, plan->table) + number;
    if ((number -= n) < n) return words_before(plan, plan->slot) + number;
    if ((number -= n) < n) return words_before(plan, plan->scale) + number;
    if ((number -= n) < plan->n_logits) return words_before(plan, plan->logit_row) + number;
    number -= plan->n_logits;
    if (number < EACH * plan->n_entries) return words_before(plan, plan->entries) + number;
    return words_before(plan, plan->runs) + number - EACH * plan->n_entries;
}

/* The workers: what this step uses of its plan, and where rollouts and tables of blocks lie, into shared memory. */
ASSAY_FN void copy_plan(const assay_params *p) {
    static_assert(sizeof(assay_entry) % 4 == 0, "copied by words");
    const assay_kernel_state *s = p->state;
    const assay_plan *plan = &shared()->plan;
    const uint32_t *from = (const uint32_t *)(const void *)&s->plan;
    uint32_t *to = (uint32_t *)(void *)&shared()->plan;
    for (uint32_t i = thread_of_block(); i < words_before(plan, plan->token); i += A_THREADS) to[i] = from[i];
    sync_block();
    const uint32_t n = 5 * plan->n_rows + plan->n_logits + sizeof(assay_entry) / 4 * (plan->n_entries + plan->n_runs);
    for (uint32_t i = thread_of_block(); i < n; i += A_THREADS) {
        const uint32_t at = word_of_plan(plan, i);
        to[at] = from[at];
    }
    if (thread_of_block() == 0) {
        shared()->rollouts = s->desk.rows;
        shared()->tables = s->tables;
        shared()->table_width = s->table_width;
        shared()->kv_blocks = s->desk.limits.kv_blocks;
    }
    sync_block();
}

/* One end of the ring of weights, in one register: the stage that is next, and above it the parity of the
 * phase of its gates. */
typedef struct {
    uint32_t at;
} assay_ring_end;

ASSAY_FN uint32_t stage_of(const assay_ring_end *end) { return end->at & 0xFFFFu; }
ASSAY_FN uint32_t parity_of(const assay_ring_end *end) { return end->at >> 16; }
ASSAY_FN void next_stage(assay_ring_end *end) {
    end->at = stage_of(end) + 1 < A_STAGES ? end->at + 1 : (end->at & 0x10000u) ^ 0x10000u;
}

/* All blocks arrive before one leaves; what they wrote before is seen after. */
ASSAY_FN void grid_barrier(const assay_params *p, uint32_t *round) {
    sync_block();
    *round += blocks_of_grid();
    if (thread_of_block() == 0) {
        add_gpu(p->barrier, 1);
        while ((int32_t)(load_gpu(p->barrier) - *round) < 0) doze();
    }
    sync_block();
}

#endif
