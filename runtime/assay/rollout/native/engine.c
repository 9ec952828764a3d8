/* See engine.h. A step is a list of phases; every pool thread walks the same list, takes shares of
 * each phase's work, and goes on when all of it is done:
 *
 *   each layer: norm | q, k, v | rotate and store KV | attend | output + residual
 *               norm | gate, up | down + residual
 *   at the end: norm of the rows that want logits | logits | sample
 */
#define _GNU_SOURCE
#include "engine.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine_isa.h"
#include "kernels.h"
#include "kv_layout.h"
#include "pool.h"
#include "sampler.h"
#include "weights.h"

enum {
    SPIN_DEFAULT = 20000, /* 0.3 to 1 ms: longer than one item of a step takes */
    THREADS_MAX = 256,
    SMALL_MODEL_BYTES = 8 << 20, /* below, one thread is faster than any waiting */
    STEALING_GRAIN = 1
};

/* One token of the batch. */
typedef struct {
    int32_t token;
    uint32_t position;
    uint32_t entry; /* of the step */
} row_info;

/* Query rows that attention handles together: of one entry, or of several decoding entries (one
 * token each) that share leading sub-blocks. Query row r of an entry is token r / group, head
 * r % group, where group = heads a KV head serves. */
typedef struct {
    uint32_t entry;
    uint32_t n_entries;
    uint32_t query;   /* first query row inside the entry; 0 when n_entries > 1 */
    uint32_t queries; /* at most ASSAY_ROW_TILE */
    uint32_t shared_subs;
} attend_item;

/* What one thread needs for itself. */
typedef struct {
    float *sums;    /* [2][rows_max padded][16] */
    float *normed;  /* [dim padded] */
    void *queries;  /* operand of ASSAY_ROW_TILE rows */
    float *scores;  /* [ASSAY_ROW_TILE][scores_ld] */
    float *mixed;   /* [ASSAY_ROW_TILE][v_cols] */
    assay_sample_scratch sample;
} thread_room;

struct assay_engine {
    assay_pool pool;
    const assay_kernels *kernels;
    const assay_gemm_ops *gemm;
    const assay_attend_ops *attend;
    assay_model_shape shape;
    assay_engine_settings settings;
    assay_weights weights;
    assay_kv_layout kv;
    void *weight_pages;
    assay_weights staged; /* the second slot; not read by steps */
    void *staged_pages;
    int staged_whole;
    void *room_pages;
    size_t room_bytes;
    uint32_t huge_pages;
    int sealed;
    uint64_t policy_version;

    uint32_t group; /* query heads a KV head */
    uint32_t dim_ld;
    uint32_t qkv_ld;
    uint32_t att_pad;
    uint32_t hidden_pad;
    uint32_t rows_pad;
    uint32_t vocab_ld;
    uint32_t scores_ld;

    float *rope_cos; /* [seq_len_max][head_dim / 2] */
    float *rope_sin;
    float *x;         /* [rows][dim_ld]: the residual stream */
    float *qkv;       /* [rows][qkv_ld] */
    void *norm_in;    /* operand: normed rows */
    void *att_in;     /* operand: attention's output */
    void *hidden_in;  /* operand: silu(gate) * up */
    float *logits;    /* [batch_max][vocab_ld] */
    row_info *rows;   /* [step_tokens_max] */
    uint32_t *row_of; /* [batch_max]: first row of an entry */
    attend_item *items;
    uint32_t *wanting;   /* [batch_max]: entries that want logits, in order */
    uint32_t *logit_row; /* [batch_max]: row of logits of an entry, or UINT32_MAX */
    thread_room *threads;

    /* the step at hand */
    uint8_t *kv_base;
    assay_seq_step *steps;
    uint32_t n_steps;
    uint32_t n_rows;
    uint32_t n_items;
    uint32_t n_wanting;
};

/* ------------------------------------------------------------------------------------------------
 * Phases */

static void set_flush_to_zero(uint64_t *saved) {
#if defined(__x86_64__)
    *saved = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr((uint32_t)*saved | 0x8040u);
#elif defined(__aarch64__)
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    *saved = fpcr;
    __asm__ volatile("msr fpcr, %0" ::"r"(fpcr | 1u << 24));
#else
    *saved = 0;
#endif
}

static void restore_rounding(uint64_t saved) {
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr((uint32_t)saved);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" ::"r"(saved));
#else
    (void)saved;
#endif
}

static int norm_phase(assay_engine *e, assay_walker *walker, const float *weight, int embed) {
    thread_room *room = &e->threads[walker->index];
    uint32_t begin;
    uint32_t end;
    while (assay_claim(walker, e->n_rows, STEALING_GRAIN, &begin, &end)) {
        for (uint32_t row = begin; row < end; row++) {
            float *x = e->x + (size_t)row * e->dim_ld;
            if (embed) {
                assay_weights_embed(&e->weights, e->rows[row].token, x);
            }
            e->kernels->rmsnorm(room->normed, x, weight, e->shape.dim, e->dim_ld,
                                e->shape.rms_eps);
            e->gemm->pack(e->norm_in, e->dim_ld, row, 0, room->normed, e->shape.dim);
        }
    }
    return assay_phase_end(walker);
}

typedef enum { STORE, ADD, GATE } epilogue;

/* out is [rows][out_ld]; for GATE nothing, as the result is the operand hidden_in. */
typedef struct {
    const assay_matrix *matrix;
    const void *operand;
    const float *bias;
    uint32_t rows;
    epilogue ending;
    float *out;
    size_t out_ld;
} product;

static void finish_gate(assay_engine *e, const product *p, uint32_t pair, uint32_t row,
                        float *gate, float *up) {
    const uint32_t first = pair * ASSAY_PANEL;
    const uint32_t left = e->shape.hidden_dim - first;
    const uint32_t n = left < ASSAY_PANEL ? left : ASSAY_PANEL;
    float hidden[ASSAY_PANEL];
    if (p->bias != NULL) {
        const float *bias = p->bias + (size_t)pair * 2 * ASSAY_PANEL;
        for (uint32_t i = 0; i < ASSAY_PANEL; i++) {
            gate[i] += bias[i];
            up[i] += bias[ASSAY_PANEL + i];
        }
    }
    e->kernels->silu_mul(hidden, gate, up);
    e->gemm->pack(e->hidden_in, e->hidden_pad, row, first, hidden, n);
}

static void finish_panel(const product *p, uint32_t panel, uint32_t row, const float *sums) {
    float *out = p->out + row * p->out_ld + (size_t)panel * ASSAY_PANEL;
    const float *bias = p->bias == NULL ? NULL : p->bias + (size_t)panel * ASSAY_PANEL;
    float value[ASSAY_PANEL];
    for (uint32_t i = 0; i < ASSAY_PANEL; i++) {
        value[i] = bias == NULL ? sums[i] : sums[i] + bias[i];
    }
    for (uint32_t i = 0; i < ASSAY_PANEL; i++) {
        out[i] = p->ending == ADD ? out[i] + value[i] : value[i];
    }
}

static int product_phase(assay_engine *e, assay_walker *walker, const product *p) {
    float *sums = e->threads[walker->index].sums;
    const size_t stride = (size_t)e->rows_pad * ASSAY_PANEL;
    uint32_t begin;
    uint32_t end;
    e->gemm->enter(p->rows);
    while (assay_claim(walker, p->matrix->n_pairs, STEALING_GRAIN, &begin, &end)) {
        for (uint32_t pair = begin; pair < end; pair++) {
            e->gemm->mul(p->operand, p->matrix->k_pad, p->rows,
                         p->matrix->data + (size_t)pair * 2 * p->matrix->panel_bytes, sums,
                         stride);
            for (uint32_t row = 0; row < p->rows; row++) {
                float *first = sums + (size_t)row * ASSAY_PANEL;
                if (p->ending == GATE) {
                    finish_gate(e, p, pair, row, first, first + stride);
                } else {
                    finish_panel(p, 2 * pair, row, first);
                    finish_panel(p, 2 * pair + 1, row, first + stride);
                }
            }
        }
    }
    return assay_phase_end(walker);
}

static void norm_head(const assay_engine *e, float *head, const float *weight, float *room) {
    if (weight == NULL) {
        return;
    }
    const uint32_t n = e->shape.head_dim;
    const uint32_t n_pad = assay_round_up(n, ASSAY_PANEL);
    memcpy(room, head, n * sizeof(float));
    memset(room + n, 0, (n_pad - n) * sizeof(float));
    e->kernels->rmsnorm(room, room, weight, n, n_pad, e->shape.rms_eps);
    memcpy(head, room, n * sizeof(float));
}

/* One row and KV head: its queries turn (and take attention's scale), its K turns, K and V go to
 * the block. */
static void store_head(assay_engine *e, const assay_layer *layer, uint32_t layer_index,
                       uint32_t row, uint32_t head, float *room) {
    const uint32_t dim = e->shape.head_dim;
    const uint32_t position = e->rows[row].position;
    const float *cos = e->rope_cos + (size_t)position * (dim / 2);
    const float *sin = e->rope_sin + (size_t)position * (dim / 2);
    float *qkv = e->qkv + (size_t)row * e->qkv_ld;
    const float scale = 1.0f / sqrtf((float)dim);
    for (uint32_t g = 0; g < e->group; g++) {
        float *q = qkv + (size_t)(head * e->group + g) * dim;
        norm_head(e, q, layer->q_norm, room);
        e->kernels->rope(q, cos, sin, dim / 2, scale);
    }
    float *k = qkv + (size_t)(e->shape.n_heads + head) * dim;
    const float *v = qkv + (size_t)(e->shape.n_heads + e->shape.n_kv_heads + head) * dim;
    norm_head(e, k, layer->k_norm, room);
    e->kernels->rope(k, cos, sin, dim / 2, 1.0f);
    const uint32_t *table = e->steps[e->rows[row].entry].block_table;
    const uint32_t block = table[position / e->settings.block_tokens];
    assay_kv_store(&e->kv, e->kv_base + (size_t)block * e->kv.block_bytes, layer_index, head,
                   position, k, v);
}

/* Rows of one entry and sub-block must store in order of position, because position 0 of a
 * sub-block clears it: a share is one KV head of all rows of an entry. */
static int store_phase(assay_engine *e, assay_walker *walker, uint32_t layer_index) {
    const assay_layer *layer = &e->weights.layers[layer_index];
    float *room = e->threads[walker->index].mixed;
    uint32_t begin;
    uint32_t end;
    while (assay_claim(walker, e->n_steps * e->shape.n_kv_heads, STEALING_GRAIN, &begin, &end)) {
        for (uint32_t i = begin; i < end; i++) {
            const uint32_t entry = i / e->shape.n_kv_heads;
            const uint32_t head = i % e->shape.n_kv_heads;
            for (uint32_t t = 0; t < e->steps[entry].n_tokens; t++) {
                store_head(e, layer, layer_index, e->row_of[entry] + t, head, room);
            }
        }
    }
    return assay_phase_end(walker);
}

/* Query row i of an item: which row of the batch, and which of the KV head's query heads. */
static void query_of(const assay_engine *e, const attend_item *item, uint32_t i, uint32_t *row,
                     uint32_t *g) {
    if (item->n_entries > 1) {
        *row = e->row_of[item->entry + i / e->group];
        *g = i % e->group;
    } else {
        *row = e->row_of[item->entry] + (item->query + i) / e->group;
        *g = (item->query + i) % e->group;
    }
}

/* The part of an item that walks one table: queries [first, first + n) over subs [from, to). */
typedef struct {
    const uint32_t *table;
    uint32_t first;
    uint32_t n;
    uint32_t from;
    uint32_t to;
} stretch;

static uint32_t subs_of_row(const assay_engine *e, uint32_t row) {
    return e->rows[row].position / ASSAY_SUB + 1;
}

/* Stretch 0 is what all queries share; stretch 1 + j belongs to entry j of the item. */
static stretch stretch_of(const assay_engine *e, const attend_item *item, uint32_t j) {
    const uint32_t entry = item->entry + (j == 0 ? 0 : j - 1);
    stretch s = {.table = e->steps[entry].block_table};
    if (j == 0) {
        s.n = item->queries;
        s.to = item->shared_subs;
        return s;
    }
    uint32_t last_row;
    uint32_t g;
    s.first = item->n_entries > 1 ? (j - 1) * e->group : 0;
    s.n = item->n_entries > 1 ? e->group : item->queries;
    query_of(e, item, s.first + s.n - 1, &last_row, &g);
    s.from = item->shared_subs;
    s.to = subs_of_row(e, last_row);
    return s;
}

static assay_kv_walk walk_of(const assay_engine *e, uint32_t layer, uint32_t head,
                             const stretch *s) {
    return (assay_kv_walk){
        .base = e->kv_base,
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

static void attend(assay_engine *e, thread_room *room, const attend_item *item, uint32_t layer,
                   uint32_t head) {
    const uint32_t dim = e->shape.head_dim;
    const uint32_t n_stretches = item->n_entries + 1;
    float sums[ASSAY_ROW_TILE];
    uint32_t row;
    uint32_t g;
    for (uint32_t i = 0; i < item->queries; i++) {
        query_of(e, item, i, &row, &g);
        const float *q = e->qkv + (size_t)row * e->qkv_ld + (size_t)(head * e->group + g) * dim;
        e->attend->pack(room->queries, e->kv.k_pad, i, 0, q, dim);
    }
    for (uint32_t j = 0; j < n_stretches; j++) {
        const stretch s = stretch_of(e, item, j);
        const assay_kv_walk walk = walk_of(e, layer, head, &s);
        if (walk.n != 0) {
            e->attend->scores(&walk, room->queries, s.first, s.n,
                              room->scores + s.first * (size_t)e->scores_ld, e->scores_ld);
        }
    }
    for (uint32_t i = 0; i < item->queries; i++) {
        query_of(e, item, i, &row, &g);
        const stretch s = stretch_of(e, item, item->n_entries > 1 ? 1 + i / e->group : 1);
        sums[i] = e->attend->softmax(room->scores + i * (size_t)e->scores_ld,
                                     e->rows[row].position + 1, s.to * ASSAY_SUB);
    }
    memset(room->mixed, 0, (size_t)item->queries * e->kv.v_cols * sizeof(float));
    for (uint32_t j = 0; j < n_stretches; j++) {
        const stretch s = stretch_of(e, item, j);
        const assay_kv_walk walk = walk_of(e, layer, head, &s);
        if (walk.n != 0) {
            e->attend->mix(&walk, room->scores + s.first * (size_t)e->scores_ld, s.n,
                           e->scores_ld, room->mixed + s.first * (size_t)e->kv.v_cols,
                           e->kv.v_cols);
        }
    }
    for (uint32_t i = 0; i < item->queries; i++) {
        query_of(e, item, i, &row, &g);
        float *mixed = room->mixed + i * (size_t)e->kv.v_cols;
        for (uint32_t d = 0; d < dim; d++) {
            mixed[d] /= sums[i];
        }
        e->gemm->pack(e->att_in, e->att_pad, row, (head * e->group + g) * dim, mixed, dim);
    }
}

static int attend_phase(assay_engine *e, assay_walker *walker, uint32_t layer) {
    thread_room *room = &e->threads[walker->index];
    uint32_t begin;
    uint32_t end;
    while (assay_claim(walker, e->n_items * e->shape.n_kv_heads, STEALING_GRAIN, &begin, &end)) {
        for (uint32_t i = begin; i < end; i++) {
            attend(e, room, &e->items[i / e->shape.n_kv_heads], layer, i % e->shape.n_kv_heads);
        }
    }
    return assay_phase_end(walker);
}

static int layer_phases(assay_engine *e, assay_walker *walker, uint32_t index) {
    const assay_layer *l = &e->weights.layers[index];
    const uint32_t rows = e->n_rows;
    const product qkv = {&l->qkv, e->norm_in, l->qkv_bias, rows, STORE, e->qkv, e->qkv_ld};
    const product out = {&l->out, e->att_in, l->out_bias, rows, ADD, e->x, e->dim_ld};
    const product gate_up = {&l->gate_up, e->norm_in, l->mlp_bias, rows, GATE, NULL, 0};
    const product down = {&l->down, e->hidden_in, l->down_bias, rows, ADD, e->x, e->dim_ld};
    return norm_phase(e, walker, l->attn_norm, index == 0) && product_phase(e, walker, &qkv) &&
           store_phase(e, walker, index) && attend_phase(e, walker, index) &&
           product_phase(e, walker, &out) && norm_phase(e, walker, l->ffn_norm, 0) &&
           product_phase(e, walker, &gate_up) && product_phase(e, walker, &down);
}

static int logit_norm_phase(assay_engine *e, assay_walker *walker) {
    thread_room *room = &e->threads[walker->index];
    uint32_t begin;
    uint32_t end;
    while (assay_claim(walker, e->n_wanting, STEALING_GRAIN, &begin, &end)) {
        for (uint32_t i = begin; i < end; i++) {
            const uint32_t entry = e->wanting[i];
            const uint32_t row = e->row_of[entry] + e->steps[entry].n_tokens - 1;
            e->kernels->rmsnorm(room->normed, e->x + (size_t)row * e->dim_ld,
                                e->weights.final_norm, e->shape.dim, e->dim_ld, e->shape.rms_eps);
            e->gemm->pack(e->norm_in, e->dim_ld, i, 0, room->normed, e->shape.dim);
        }
    }
    return assay_phase_end(walker);
}

static int sample_phase(assay_engine *e, assay_walker *walker) {
    uint32_t begin;
    uint32_t end;
    while (assay_claim(walker, e->n_wanting, STEALING_GRAIN, &begin, &end)) {
        for (uint32_t i = begin; i < end; i++) {
            assay_seq_step *step = &e->steps[e->wanting[i]];
            assay_sample(e->kernels, e->logits + (size_t)i * e->vocab_ld, e->shape.vocab_size,
                         step->sampler, (uint64_t)step->pos0 + step->n_tokens,
                         &e->threads[walker->index].sample, &step->out_token, &step->out_logp);
        }
    }
    return assay_phase_end(walker);
}

static int logit_phases(assay_engine *e, assay_walker *walker) {
    const product logits = {&e->weights.lm_head, e->norm_in,  NULL,       e->n_wanting,
                            STORE,               e->logits,   e->vocab_ld};
    return logit_norm_phase(e, walker) && product_phase(e, walker, &logits) &&
           sample_phase(e, walker);
}

static int run_body(void *context, assay_walker *walker) {
    assay_engine *e = context;
    uint64_t saved;
    set_flush_to_zero(&saved);
    int inside = 1;
    for (uint32_t i = 0; i < e->shape.n_layers && inside; i++) {
        inside = layer_phases(e, walker, i);
    }
    if (inside && e->n_wanting != 0) {
        inside = logit_phases(e, walker);
    }
    e->gemm->leave();
    e->attend->leave();
    restore_rounding(saved);
    return inside;
}

/* ------------------------------------------------------------------------------------------------
 * A step */

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
    e->n_rows = 0;
    e->n_wanting = 0;
    for (uint32_t i = 0; i < e->n_steps; i++) {
        assay_seq_step *step = &e->steps[i];
        step->policy_version = e->policy_version;
        e->row_of[i] = e->n_rows;
        for (uint32_t t = 0; t < step->n_tokens; t++) {
            e->rows[e->n_rows++] = (row_info){step->tokens[t], step->pos0 + t, i};
        }
        e->logit_row[i] = UINT32_MAX;
        if (step->want_logits) {
            e->logit_row[i] = e->n_wanting;
            e->wanting[e->n_wanting++] = i;
        }
    }
}

/* Whether entry b may walk entry a's leading blocks; the hint is believed only when the ids agree. */
static int shares_with(const assay_engine *e, const assay_seq_step *a, const assay_seq_step *b) {
    const uint32_t n = a->shared_blocks;
    return n != 0 && b->shared_blocks == n && a->n_tokens == 1 && b->n_tokens == 1 &&
           n <= a->n_blocks && n <= b->n_blocks &&
           (uint64_t)n * e->settings.block_tokens <= a->pos0 &&
           (uint64_t)n * e->settings.block_tokens <= b->pos0 &&
           memcmp(a->block_table, b->block_table, n * sizeof *a->block_table) == 0;
}

static void list_items(assay_engine *e) {
    const uint32_t entries_max = ASSAY_ROW_TILE / e->group;
    e->n_items = 0;
    for (uint32_t i = 0; i < e->n_steps;) {
        uint32_t n = 1;
        while (n < entries_max && i + n < e->n_steps &&
               shares_with(e, &e->steps[i], &e->steps[i + n])) {
            n++;
        }
        if (n > 1) {
            e->items[e->n_items++] = (attend_item){
                i, n, 0, n * e->group, e->steps[i].shared_blocks * e->kv.subs_per_block};
        } else {
            const uint32_t queries = e->steps[i].n_tokens * e->group;
            for (uint32_t q = 0; q < queries; q += ASSAY_ROW_TILE) {
                const uint32_t here =
                    queries - q < ASSAY_ROW_TILE ? queries - q : ASSAY_ROW_TILE;
                e->items[e->n_items++] = (attend_item){i, 1, q, here, 0};
            }
        }
        i += n;
    }
}

int assay_engine_step(assay_engine *e, uint8_t *kv_base, assay_seq_step *steps,
                      uint32_t n_steps) {
    if (!e->sealed) {
        return ASSAY_ENGINE_NOT_SEALED;
    }
    if (kv_base == NULL || steps == NULL) {
        return ASSAY_ENGINE_INVALID;
    }
    const int status = check_steps(e, steps, n_steps);
    if (status != ASSAY_ENGINE_OK || n_steps == 0) {
        return status;
    }
    e->kv_base = kv_base;
    e->steps = steps;
    e->n_steps = n_steps;
    list_rows(e);
    list_items(e);
    return assay_pool_run(&e->pool) == 0 ? ASSAY_ENGINE_OK : ASSAY_ENGINE_BROKEN;
}

int assay_engine_decode_run(assay_engine *e, uint8_t *kv_base, assay_seq_step *steps,
                            uint32_t n_steps, uint32_t n_times, int32_t *tokens, float *logps) {
    for (uint32_t n = 0; n < n_times; n++) {
        const int status = assay_engine_step(e, kv_base, steps, n_steps);
        if (status != ASSAY_ENGINE_OK) {
            return status;
        }
        for (uint32_t i = 0; i < n_steps; i++) {
            if (tokens != NULL) {
                tokens[(size_t)n * n_steps + i] = steps[i].out_token;
            }
            if (logps != NULL) {
                logps[(size_t)n * n_steps + i] = steps[i].out_logp;
            }
            steps[i].pos0 += steps[i].n_tokens;
            steps[i].n_tokens = 1;
            steps[i].tokens = &steps[i].out_token;
        }
    }
    return ASSAY_ENGINE_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Life */

static void say(char *error, size_t error_len, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (error != NULL && error_len > 0) {
        vsnprintf(error, error_len, format, arguments);
    }
    va_end(arguments);
}

static const char *wrong_shape(const assay_model_shape *s) {
    if (s->dim == 0 || s->n_layers == 0 || s->hidden_dim == 0 || s->vocab_size == 0 ||
        s->seq_len_max == 0) {
        return "dim, n_layers, hidden_dim, vocab_size and seq_len_max must be positive";
    }
    if (s->head_dim == 0 || s->head_dim % 2 != 0) {
        return "head_dim must be positive and even";
    }
    if (s->n_kv_heads == 0 || s->n_heads % s->n_kv_heads != 0 || s->n_heads == 0) {
        return "n_heads must be a positive multiple of n_kv_heads";
    }
    if (s->vocab_size > INT32_MAX - 32 || s->seq_len_max > 1u << 24) {
        return "vocab_size or seq_len_max is out of range";
    }
    if (s->weight_dtype > ASSAY_BF16 || s->kv_dtype > ASSAY_BF16) {
        return "weight_dtype and kv_dtype must be F32 or BF16";
    }
    return NULL;
}

static const char *wrong_settings(const assay_engine_settings *s) {
    if (s->batch_max == 0 || s->step_tokens_max < s->batch_max) {
        return "batch_max must be positive and step_tokens_max at least batch_max";
    }
    if (s->block_tokens == 0 || s->block_tokens % ASSAY_SUB != 0) {
        return "block_tokens must be a positive multiple of 16";
    }
    if (s->n_threads > THREADS_MAX) {
        return "n_threads is above 256";
    }
    return NULL;
}

static void lay_out_thread(assay_engine *e, assay_arena *arena, thread_room *room) {
    thread_room taken;
    taken.sums = assay_arena_take(arena, (size_t)2 * e->rows_pad * ASSAY_PANEL * sizeof(float));
    taken.normed = assay_arena_take(arena, e->dim_ld * sizeof(float));
    taken.queries = assay_arena_take(arena, (size_t)ASSAY_ROW_TILE * e->kv.k_pad * sizeof(float));
    taken.scores =
        assay_arena_take(arena, (size_t)ASSAY_ROW_TILE * e->scores_ld * sizeof(float));
    taken.mixed = assay_arena_take(arena, (size_t)ASSAY_ROW_TILE * e->kv.v_cols * sizeof(float));
    void *sample = assay_arena_take(arena, assay_sample_scratch_bytes(e->shape.vocab_size));
    if (room != NULL) {
        assay_sample_scratch_init(&taken.sample, sample, e->shape.vocab_size);
        *room = taken;
    }
}

/* With arena->base NULL it only counts. */
static void lay_out_room(assay_engine *e, assay_arena *arena) {
    const size_t rows = e->settings.step_tokens_max;
    const size_t batch = e->settings.batch_max;
    const size_t rope = (size_t)e->shape.seq_len_max * (e->shape.head_dim / 2) * sizeof(float);
    const size_t items = rows * (e->group / ASSAY_ROW_TILE + 1) + batch;
    e->rope_cos = assay_arena_take(arena, rope);
    e->rope_sin = assay_arena_take(arena, rope);
    e->x = assay_arena_take(arena, rows * e->dim_ld * sizeof(float));
    e->qkv = assay_arena_take(arena, rows * e->qkv_ld * sizeof(float));
    e->norm_in = assay_arena_take(arena, (size_t)e->rows_pad * e->dim_ld * sizeof(float));
    e->att_in = assay_arena_take(arena, (size_t)e->rows_pad * e->att_pad * sizeof(float));
    e->hidden_in = assay_arena_take(arena, (size_t)e->rows_pad * e->hidden_pad * sizeof(float));
    e->logits = assay_arena_take(arena, batch * e->vocab_ld * sizeof(float));
    e->rows = assay_arena_take(arena, rows * sizeof *e->rows);
    e->row_of = assay_arena_take(arena, batch * sizeof *e->row_of);
    e->items = assay_arena_take(arena, items * sizeof *e->items);
    e->wanting = assay_arena_take(arena, batch * sizeof *e->wanting);
    e->logit_row = assay_arena_take(arena, batch * sizeof *e->logit_row);
    e->pool.cursors =
        assay_arena_take(arena, e->pool.n_threads * sizeof(assay_cursor));
    e->pool.threads = assay_arena_take(arena, e->pool.n_threads * sizeof(assay_thread));
    e->threads = assay_arena_take(arena, e->pool.n_threads * sizeof *e->threads);
    for (uint32_t i = 0; i < e->pool.n_threads; i++) {
        lay_out_thread(e, arena, e->threads == NULL ? NULL : &e->threads[i]);
    }
}

static void derive_sizes(assay_engine *e) {
    const assay_model_shape *s = &e->shape;
    e->kv = assay_kv_layout_of(s, e->settings.block_tokens);
    e->group = s->n_heads / s->n_kv_heads;
    e->dim_ld = assay_round_up(s->dim, 32);
    e->qkv_ld = assay_round_up((s->n_heads + 2 * s->n_kv_heads) * s->head_dim, 32);
    e->att_pad = assay_round_up(s->n_heads * s->head_dim, 32);
    e->hidden_pad = assay_round_up(s->hidden_dim, 32);
    /* norm_in also holds the rows that want logits: at most batch_max <= step_tokens_max. */
    e->rows_pad = assay_round_up(e->settings.step_tokens_max, ASSAY_ROW_TILE);
    e->vocab_ld = assay_round_up(s->vocab_size, 32);
    /* an odd number of cache lines, so that 16 rows do not fall on one cache set */
    e->scores_ld = assay_round_up(s->seq_len_max, 32) + ASSAY_SUB;
}

static int map_arenas(assay_engine *e) {
    assay_arena count = {NULL, 0};
    assay_weights_layout(&e->weights, &e->shape, &count);
    e->weight_pages = assay_pages_map(count.used, &e->huge_pages);
    if (e->weight_pages == NULL) {
        return ASSAY_ENGINE_NO_MEMORY;
    }
    assay_arena weights = {e->weight_pages, 0};
    assay_weights_layout(&e->weights, &e->shape, &weights);
    const int threads_by_size = e->settings.n_threads == 0;
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    e->pool.n_threads = e->settings.n_threads;
    if (threads_by_size) {
        e->pool.n_threads = e->weights.bytes < SMALL_MODEL_BYTES || cpus < 2 ? 1
                            : cpus > THREADS_MAX                              ? THREADS_MAX
                                                                              : (uint32_t)cpus;
    }
    assay_arena room = {NULL, 0};
    lay_out_room(e, &room);
    e->room_bytes = room.used;
    uint32_t huge;
    e->room_pages = assay_pages_map(room.used, &huge);
    if (e->room_pages == NULL) {
        return ASSAY_ENGINE_NO_MEMORY;
    }
    room = (assay_arena){e->room_pages, 0};
    lay_out_room(e, &room);
    return ASSAY_ENGINE_OK;
}

static int start(assay_engine *e) {
    const int status = map_arenas(e);
    if (status != ASSAY_ENGINE_OK) {
        return status;
    }
    e->pool.spin_max = e->settings.spin_max == 0 ? SPIN_DEFAULT : e->settings.spin_max;
    e->pool.first_cpu = e->settings.first_cpu;
    e->pool.body = run_body;
    e->pool.context = e;
    return assay_pool_start(&e->pool) == 0 ? ASSAY_ENGINE_OK : ASSAY_ENGINE_NO_MEMORY;
}

assay_engine *assay_engine_create(const assay_model_shape *shape,
                                  const assay_engine_settings *settings, int *status, char *error,
                                  size_t error_len) {
    const char *wrong = wrong_shape(shape);
    wrong = wrong != NULL ? wrong : wrong_settings(settings);
    if (wrong != NULL) {
        say(error, error_len, "%s", wrong);
        *status = ASSAY_ENGINE_INVALID;
        return NULL;
    }
    const assay_kernels *kernels = assay_kernels_for(settings->isa);
    if (kernels == NULL) {
        say(error, error_len, "this machine or build lacks instruction set %u", settings->isa);
        *status = ASSAY_ENGINE_UNSUPPORTED;
        return NULL;
    }
    assay_engine *e = aligned_alloc(64, assay_round_up(sizeof *e, 64));
    if (e == NULL) {
        say(error, error_len, "out of memory");
        *status = ASSAY_ENGINE_NO_MEMORY;
        return NULL;
    }
    memset(e, 0, sizeof *e);
    e->shape = *shape;
    e->settings = *settings;
    e->kernels = kernels;
    e->gemm = &kernels->gemm[shape->weight_dtype];
    e->attend = &kernels->attend[shape->kv_dtype];
    derive_sizes(e);
    *status = start(e);
    if (*status != ASSAY_ENGINE_OK) {
        say(error, error_len, "%s", assay_engine_status_text(*status));
        assay_engine_destroy(e);
        return NULL;
    }
    return e;
}

void assay_engine_destroy(assay_engine *e) {
    if (e == NULL) {
        return;
    }
    if (e->room_pages != NULL) {
        assay_pool_stop(&e->pool);
    }
    assay_pages_unmap(e->room_pages, e->room_bytes);
    assay_pages_unmap(e->weight_pages, e->weights.bytes);
    assay_pages_unmap(e->staged_pages, e->weights.bytes);
    free(e);
}

int assay_engine_load(assay_engine *e, uint32_t tensor, uint32_t layer, const void *data,
                      uint32_t dtype, uint32_t rows, uint32_t cols) {
    if (e->sealed) {
        return ASSAY_ENGINE_NOT_SEALED;
    }
    return assay_weights_load(&e->weights, tensor, layer, data, dtype, rows, cols);
}

/* The angle is rounded to float32 before the cosine, as every float32 reference does. */
static void fill_rope(assay_engine *e) {
    const uint32_t half = e->shape.head_dim / 2;
    for (uint32_t position = 0; position < e->shape.seq_len_max; position++) {
        for (uint32_t i = 0; i < half; i++) {
            const float angle = (float)position * e->weights.rope_inv_freq[i];
            const size_t at = (size_t)position * half + i;
            e->rope_cos[at] = (float)cos((double)angle) * e->shape.rope_gain;
            e->rope_sin[at] = (float)sin((double)angle) * e->shape.rope_gain;
        }
    }
}

int assay_engine_seal(assay_engine *e) {
    const int status = assay_weights_complete(&e->weights);
    if (status == ASSAY_ENGINE_OK && !e->sealed) {
        fill_rope(e);
        e->sealed = 1;
    }
    return status;
}

int assay_engine_stage_begin(assay_engine *e) {
    if (!e->sealed) {
        return ASSAY_ENGINE_NOT_SEALED;
    }
    if (e->staged_pages == NULL) {
        uint32_t huge;
        e->staged_pages = assay_pages_map(e->weights.bytes, &huge);
        if (e->staged_pages == NULL) {
            return ASSAY_ENGINE_NO_MEMORY;
        }
        assay_arena arena = {e->staged_pages, 0};
        assay_weights_layout(&e->staged, &e->shape, &arena);
    }
    e->staged_whole = 0;
    assay_weights_begin_again(&e->staged, &e->weights);
    return ASSAY_ENGINE_OK;
}

int assay_engine_stage(assay_engine *e, const assay_piece *piece) {
    if (e->staged_pages == NULL || e->staged_whole || piece->tensor == ASSAY_T_ROPE_INV_FREQ) {
        return ASSAY_ENGINE_INVALID;
    }
    return assay_weights_load_rows(&e->staged, piece);
}

int assay_engine_stage_end(assay_engine *e) {
    const int status = e->staged_pages == NULL ? ASSAY_ENGINE_MISSING
                                               : assay_weights_complete(&e->staged);
    e->staged_whole = status == ASSAY_ENGINE_OK;
    return status;
}

int assay_engine_swap(assay_engine *e, uint64_t version) {
    if (!e->staged_whole) {
        return ASSAY_ENGINE_MISSING;
    }
    const assay_weights weights = e->weights;
    void *pages = e->weight_pages;
    e->weights = e->staged;
    e->weight_pages = e->staged_pages;
    e->staged = weights;
    e->staged_pages = pages;
    e->policy_version = version;
    return ASSAY_ENGINE_OK;
}

void assay_engine_set_policy_version(assay_engine *e, uint64_t version) {
    e->policy_version = version;
}

uint64_t assay_engine_policy_version(const assay_engine *e) {
    return e->policy_version;
}

size_t assay_engine_kv_block_bytes(const assay_engine *e, uint32_t block_tokens) {
    return assay_kv_layout_of(&e->shape, block_tokens).block_bytes;
}

void assay_engine_kv_copy(const assay_engine *e, uint8_t *dst, const uint8_t *src,
                          uint32_t n_positions) {
    assay_kv_copy_block(&e->kv, dst, src, n_positions);
}

const float *assay_engine_logits(const assay_engine *e, uint32_t index) {
    if (index >= e->n_steps || e->logit_row[index] == UINT32_MAX) {
        return NULL;
    }
    return e->logits + (size_t)e->logit_row[index] * e->vocab_ld;
}

void assay_engine_get_info(const assay_engine *e, assay_engine_info *info) {
    memset(info, 0, sizeof *info);
    snprintf(info->isa, sizeof info->isa, "%s", e->kernels->name);
    info->n_threads = e->pool.n_threads;
    info->huge_pages = e->huge_pages;
    info->weight_bytes = e->weights.bytes;
    info->matrix_bytes = e->weights.matrix_bytes;
    info->workspace_bytes = e->room_bytes;
    info->kv_block_bytes = e->kv.block_bytes;
    info->parks = atomic_load_explicit(&e->pool.parks, memory_order_relaxed);
}

const char *assay_engine_status_text(int status) {
    switch (status) {
    case ASSAY_ENGINE_OK:
        return "ok";
    case ASSAY_ENGINE_INVALID:
        return "an argument that no engine could accept";
    case ASSAY_ENGINE_NO_MEMORY:
        return "out of memory";
    case ASSAY_ENGINE_UNSUPPORTED:
        return "this machine or build lacks the instruction set";
    case ASSAY_ENGINE_NOT_SEALED:
        return "step before seal, or load after it";
    case ASSAY_ENGINE_MISSING:
        return "a tensor was not loaded";
    case ASSAY_ENGINE_BROKEN:
        return "a thread of the engine died; make another engine";
    case ASSAY_ENGINE_TOO_MANY:
        return "more entries or tokens in a step than the settings allow";
    case ASSAY_ENGINE_BAD_TOKEN:
        return "a token id outside the vocabulary";
    case ASSAY_ENGINE_BAD_BLOCKS:
        return "the block table does not reach the last position";
    case ASSAY_ENGINE_CONTEXT:
        return "a position at or past seq_len_max";
    case ASSAY_ENGINE_NOT_FINITE:
        return "a value that is not finite in the dtype it is kept in";
    default:
        return "unknown status";
    }
}

static int ops_step(void *self, uint8_t *kv_base, assay_seq_step *steps, uint32_t n_steps) {
    return assay_engine_step(self, kv_base, steps, n_steps);
}

static void ops_kv_copy(void *self, uint8_t *dst, const uint8_t *src, uint32_t n_positions) {
    assay_engine_kv_copy(self, dst, src, n_positions);
}

void assay_engine_ops_of(assay_engine *e, assay_engine_ops *ops) {
    *ops = (assay_engine_ops){
        .self = e,
        .step = ops_step,
        .kv_copy = ops_kv_copy,
        .kv_block_bytes = e->kv.block_bytes,
        .block_tokens = e->settings.block_tokens,
        .vocab_size = e->shape.vocab_size,
        .seq_len_max = e->shape.seq_len_max,
        .batch_max = e->settings.batch_max,
        .step_tokens_max = e->settings.step_tokens_max,
    };
}

/* ------------------------------------------------------------------------------------------------
 * Machine */

const assay_kernels *assay_kernels_for(uint32_t isa) {
    switch (isa) {
    case ASSAY_ISA_AUTO:
        return assay_kernels_for(assay_engine_best_isa());
    case ASSAY_ISA_PORTABLE:
        return assay_kernels_portable();
    case ASSAY_ISA_AVX2:
        return assay_kernels_avx2();
    case ASSAY_ISA_AVX512:
        return assay_kernels_avx512();
    case ASSAY_ISA_AMX:
        return assay_kernels_amx();
    default:
        return NULL;
    }
}

uint32_t assay_engine_best_isa(void) {
    for (uint32_t isa = ASSAY_ISA_AMX; isa > ASSAY_ISA_PORTABLE; isa--) {
        if (assay_kernels_for(isa) != NULL) {
            return isa;
        }
    }
    return ASSAY_ISA_PORTABLE;
}

typedef struct {
    const uint8_t *buffer;
    size_t bytes;
    _Atomic uint32_t seen;
} sweep;

static int sweep_body(void *context, assay_walker *walker) {
    enum { PIECE = 1 << 16 };
    sweep *s = context;
    const assay_kernels *kernels = assay_kernels_for(ASSAY_ISA_AUTO);
    uint32_t begin;
    uint32_t end;
    while (assay_claim(walker, (uint32_t)(s->bytes / PIECE), 4, &begin, &end)) {
        const uint32_t seen = kernels->read_all(s->buffer + (size_t)begin * PIECE,
                                                (size_t)(end - begin) * PIECE);
        atomic_fetch_or_explicit(&s->seen, seen, memory_order_relaxed);
    }
    return assay_phase_end(walker);
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double assay_read_sweep_seconds(const void *buffer, size_t bytes, uint32_t n_threads,
                                uint32_t n_times) {
    sweep work = {.buffer = buffer, .bytes = bytes};
    assay_cursor cursors[THREADS_MAX];
    assay_thread threads[THREADS_MAX];
    assay_pool pool;
    memset(&pool, 0, sizeof pool);
    if (n_threads == 0 || n_threads > THREADS_MAX) {
        return NAN;
    }
    pool.n_threads = n_threads;
    pool.spin_max = SPIN_DEFAULT;
    pool.first_cpu = -1;
    pool.body = sweep_body;
    pool.context = &work;
    pool.cursors = cursors;
    pool.threads = threads;
    if (assay_pool_start(&pool) != 0) {
        return NAN;
    }
    double best = INFINITY;
    for (uint32_t i = 0; i < n_times; i++) {
        const double begun = seconds_now();
        assay_pool_run(&pool);
        const double took = seconds_now() - begun;
        best = took < best ? took : best;
    }
    assay_pool_stop(&pool);
    return best;
}
