/* The phases of a step. Every thread of the pool runs the same list, takes shares of each phase's work,
 * and continues when all of it is done:
 *
 *   each layer: norm | q, k, v | rotate and store KV | attend | output + residual
 *               norm | gate, up | down + residual
 *   at the end: norm of the rows that want logits | logits | sample
 *
 * For a matrix with an adapter, the adapter's phase comes before the product.
 */
#include <math.h>
#include <string.h>

#include "engine_state.h"

enum { STEALING_GRAIN = 1 };

/* Denormal results become zero while a thread is in a step. */
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
    assay_thread_room *room = &e->threads[walker->index];
    uint32_t begin;
    uint32_t end;
    while (assay_claim(walker, e->batch.n_rows, STEALING_GRAIN, &begin, &end)) {
        for (uint32_t row = begin; row < end; row++) {
            float *x = e->act.x + (size_t)row * e->sizes.dim_ld;
            if (embed) {
                assay_weights_embed(e->weights, e->batch.rows[row].token, x);
            }
            e->kernels->rmsnorm(room->normed, x, weight, e->shape.dim, e->sizes.dim_ld,
                                e->shape.rms_eps);
            assay_put_input(e, ASSAY_INPUT_NORM, row, 0, room->normed, e->shape.dim);
        }
    }
    return assay_phase_end(walker);
}

typedef enum { STORE, ADD, GATE } epilogue;

/* out is [rows][out_ld]; for GATE nothing, as the result is the operand hidden_in. */
typedef struct {
    const assay_matrix *matrix;
    const assay_adapted *adapted; /* NULL: the matrix as it is */
    const void *operand;
    const float *bias;
    const assay_matrix *next; /* streamed after this one: fetched while waiting */
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
    assay_put_input(e, ASSAY_INPUT_HIDDEN, row, first, hidden, n);
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

/* sums: the two panels' outputs of all rows, `stride` floats apart. */
static void multiply(const assay_engine *e, const product *p, uint32_t thread, uint32_t pair,
                     float *sums, size_t stride) {
    const assay_matrix *m = p->matrix;
    if (p->adapted != NULL) {
        assay_adapter_mul(e->adapter, p->adapted, thread, m, p->operand, p->rows, pair, sums, stride);
    } else {
        e->gemm->mul(p->operand, m->k_pad, p->rows, m->data + (size_t)pair * 2 * m->panel_bytes, sums,
                     stride);
    }
}

static void finish_pair(assay_engine *e, const product *p, uint32_t pair, float *sums,
                        size_t stride) {
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

static int product_phase(assay_engine *e, assay_walker *walker, const product *p) {
    float *sums = e->threads[walker->index].sums;
    const size_t stride = (size_t)e->sizes.rows_pad * ASSAY_PANEL;
    uint32_t begin;
    uint32_t end;
    e->gemm->enter(p->rows);
    assay_fetch_later(walker, p->next->data, p->next->n_pairs, 2 * p->next->panel_bytes);
    while (assay_claim(walker, p->matrix->n_pairs, STEALING_GRAIN, &begin, &end)) {
        for (uint32_t pair = begin; pair < end; pair++) {
            multiply(e, p, walker->index, pair, sums, stride);
            finish_pair(e, p, pair, sums, stride);
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

/* One row and KV head: rotates its queries (and applies attention's scale), rotates K, and stores K
 * and V in the block. */
static void store_head(assay_engine *e, const assay_layer *layer, uint32_t layer_index,
                       uint32_t row, uint32_t head, float *room) {
    const uint32_t dim = e->shape.head_dim;
    const uint32_t position = e->batch.rows[row].position;
    const float *cos = e->rope_cos + (size_t)position * (dim / 2);
    const float *sin = e->rope_sin + (size_t)position * (dim / 2);
    float *qkv = e->act.qkv + (size_t)row * e->sizes.qkv_ld;
    const float scale = 1.0f / sqrtf((float)dim);
    for (uint32_t g = 0; g < e->sizes.group; g++) {
        float *q = qkv + (size_t)(head * e->sizes.group + g) * dim;
        norm_head(e, q, layer->q_norm, room);
        e->kernels->rope(q, cos, sin, dim / 2, scale);
    }
    float *k = qkv + (size_t)(e->shape.n_heads + head) * dim;
    const float *v = qkv + (size_t)(e->shape.n_heads + e->shape.n_kv_heads + head) * dim;
    norm_head(e, k, layer->k_norm, room);
    e->kernels->rope(k, cos, sin, dim / 2, 1.0f);
    const uint32_t *table = e->batch.steps[e->batch.rows[row].entry].block_table;
    const uint32_t block = table[position / e->settings.block_tokens];
    assay_kv_store(&e->kv, e->batch.kv_base + (size_t)block * e->kv.block_bytes, layer_index, head,
                   position, k, v);
}

/* Rows of one entry and sub-block must store in order of position, because position 0 of a
 * sub-block clears it: a share is one KV head of all rows of an entry. */
static int store_phase(assay_engine *e, assay_walker *walker, uint32_t layer_index) {
    const assay_layer *layer = &e->weights->layers[layer_index];
    float *room = e->threads[walker->index].mixed;
    uint32_t begin;
    uint32_t end;
    while (assay_claim(walker, e->batch.n_steps * e->shape.n_kv_heads, STEALING_GRAIN, &begin, &end)) {
        for (uint32_t i = begin; i < end; i++) {
            const uint32_t entry = i / e->shape.n_kv_heads;
            const uint32_t head = i % e->shape.n_kv_heads;
            for (uint32_t t = 0; t < e->batch.steps[entry].n_tokens; t++) {
                store_head(e, layer, layer_index, e->batch.row_of[entry] + t, head, room);
            }
        }
    }
    return assay_phase_end(walker);
}

static int attend_phase(assay_engine *e, assay_walker *walker, uint32_t layer) {
    assay_thread_room *room = &e->threads[walker->index];
    uint32_t begin;
    uint32_t end;
    while (assay_claim(walker, e->batch.n_items * e->shape.n_kv_heads, STEALING_GRAIN, &begin, &end)) {
        for (uint32_t i = begin; i < end; i++) {
            assay_attend(e, room, &e->batch.items[i / e->shape.n_kv_heads], layer,
                         i % e->shape.n_kv_heads);
        }
    }
    return assay_phase_end(walker);
}

static int matrix_phases(assay_engine *e, assay_walker *walker, uint32_t layer,
                         enum assay_group group, product p) {
    p.rows = e->batch.n_rows;
    p.adapted = assay_adapted_of(e->adapter, layer, group);
    if (p.adapted != NULL &&
        !assay_adapter_phase(e->adapter, walker, layer, group, p.rows)) {
        return 0;
    }
    return product_phase(e, walker, &p);
}

static int attention_phases(assay_engine *e, assay_walker *walker, uint32_t index) {
    const assay_layer *l = &e->weights->layers[index];
    const product qkv = {.matrix = &l->qkv,
                         .operand = e->act.norm_in,
                         .bias = l->qkv_bias,
                         .next = &l->out,
                         .ending = STORE,
                         .out = e->act.qkv,
                         .out_ld = e->sizes.qkv_ld};
    const product out = {.matrix = &l->out,
                         .operand = e->act.att_in,
                         .bias = l->out_bias,
                         .next = &l->gate_up,
                         .ending = ADD,
                         .out = e->act.x,
                         .out_ld = e->sizes.dim_ld};
    return norm_phase(e, walker, l->attn_norm, index == 0) &&
           matrix_phases(e, walker, index, ASSAY_GROUP_QKV, qkv) && store_phase(e, walker, index) &&
           attend_phase(e, walker, index) && matrix_phases(e, walker, index, ASSAY_GROUP_OUT, out);
}

/* What a step streams after a layer. Without logits it reads no head: the hint is then useless, not wrong. */
static const assay_matrix *matrix_after(const assay_engine *e, uint32_t layer) {
    return layer + 1 < e->shape.n_layers ? &e->weights->layers[layer + 1].qkv : &e->weights->lm_head;
}

static int mlp_phases(assay_engine *e, assay_walker *walker, uint32_t index) {
    const assay_layer *l = &e->weights->layers[index];
    const product gate_up = {.matrix = &l->gate_up,
                             .operand = e->act.norm_in,
                             .bias = l->mlp_bias,
                             .next = &l->down,
                             .ending = GATE};
    const product down = {.matrix = &l->down,
                          .operand = e->act.hidden_in,
                          .bias = l->down_bias,
                          .next = matrix_after(e, index),
                          .ending = ADD,
                          .out = e->act.x,
                          .out_ld = e->sizes.dim_ld};
    return norm_phase(e, walker, l->ffn_norm, 0) &&
           matrix_phases(e, walker, index, ASSAY_GROUP_GATE_UP, gate_up) &&
           matrix_phases(e, walker, index, ASSAY_GROUP_DOWN, down);
}

static int logit_norm_phase(assay_engine *e, assay_walker *walker) {
    assay_thread_room *room = &e->threads[walker->index];
    uint32_t begin;
    uint32_t end;
    while (assay_claim(walker, e->batch.n_wanting, STEALING_GRAIN, &begin, &end)) {
        for (uint32_t i = begin; i < end; i++) {
            const uint32_t entry = e->batch.wanting[i];
            const uint32_t row = e->batch.row_of[entry] + e->batch.steps[entry].n_tokens - 1;
            e->kernels->rmsnorm(room->normed, e->act.x + (size_t)row * e->sizes.dim_ld,
                                e->weights->final_norm, e->shape.dim, e->sizes.dim_ld, e->shape.rms_eps);
            e->gemm->pack(e->act.norm_in, e->sizes.dim_ld, i, 0, room->normed, e->shape.dim);
        }
    }
    return assay_phase_end(walker);
}

static int sample_phase(assay_engine *e, assay_walker *walker) {
    uint32_t begin;
    uint32_t end;
    while (assay_claim(walker, e->batch.n_wanting, STEALING_GRAIN, &begin, &end)) {
        for (uint32_t i = begin; i < end; i++) {
            assay_seq_step *step = &e->batch.steps[e->batch.wanting[i]];
            assay_sample(e->kernels, e->act.logits + (size_t)i * e->sizes.vocab_ld, e->shape.vocab_size,
                         step->sampler, (uint64_t)step->pos0 + step->n_tokens,
                         &e->threads[walker->index].sample, &step->out_token, &step->out_logp);
        }
    }
    return assay_phase_end(walker);
}

static int logit_phases(assay_engine *e, assay_walker *walker) {
    const product logits = {.matrix = &e->weights->lm_head,
                            .operand = e->act.norm_in,
                            .next = &e->weights->layers[0].qkv, /* of the next step */
                            .rows = e->batch.n_wanting,
                            .ending = STORE,
                            .out = e->act.logits,
                            .out_ld = e->sizes.vocab_ld};
    return logit_norm_phase(e, walker) && product_phase(e, walker, &logits) &&
           sample_phase(e, walker);
}

int assay_layers_run(void *context, assay_walker *walker) {
    assay_engine *e = context;
    uint64_t saved;
    set_flush_to_zero(&saved);
    int inside = 1;
    for (uint32_t i = 0; i < e->shape.n_layers && inside; i++) {
        inside = attention_phases(e, walker, i) && mlp_phases(e, walker, i);
    }
    if (inside && e->batch.n_wanting != 0) {
        inside = logit_phases(e, walker);
    }
    e->gemm->leave();
    e->attend->leave();
    restore_rounding(saved);
    return inside;
}

