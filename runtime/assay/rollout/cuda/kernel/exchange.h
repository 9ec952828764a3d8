/* What blocks give each other between two products: one layer's activations, by kind and row.
 *
 * Two ways to wait for them. Steps of many rows have a grid barrier after each product. A step of few rows
 * flows: a warp that needs a word reads it until it is there. A word that is not is `A_ABSENT`, which no product
 * leaves (it is a NaN that none makes). So a word is its own flag: nothing is fenced, counted or read twice, and
 * a block goes on as soon as what it needs has come.
 *
 * For this each layer has words of its own, in two sets: while a step fills one, it makes the other absent for the
 * next such step. Grid barriers lie between steps, so that order needs nothing else.
 */
#ifndef ASSAY_EXCHANGE_H
#define ASSAY_EXCHANGE_H

#include "memory.h"

#define A_ABSENT 0xFFFFFFFFu
#define A_EXCHANGE_BYTES ((uint64_t)A_DATAFLOW_ROWS * A_ROW_BYTES) /* of a layer, where it flows */

/* Where the words of a kind of a layer begin; A_LAYERS is what enters the head. Without dataflow all layers have one
 * place. It is made again wherever it is used: pointers would occupy registers during products. */
ASSAY_FN uint8_t *words_of(const assay_params *p, uint32_t layer, uint32_t kind) {
    const assay_shared *s = shared();
    return p->scratch + s->exchange_at + (uint64_t)read_again(layer) * s->exchange_step +
           (uint64_t)kind * s->exchange_rows;
}
ASSAY_FN float *floats_of(const assay_params *p, uint32_t layer, uint32_t kind) {
    return (float *)(void *)words_of(p, layer, kind);
}
ASSAY_FN uint16_t *halves_of(const assay_params *p, uint32_t layer, uint32_t kind) {
    return (uint16_t *)(void *)words_of(p, layer, kind);
}

/* One thread, once a step. */
ASSAY_FN void place_words(const assay_plan *plan) {
    assay_shared *s = shared();
    s->exchange_at = A_AT_EXCHANGE;
    s->exchange_step = 0;
    s->exchange_rows = A_ROWS;
    if (!plan->flows) return;
    s->exchange_at = A_AT_DATAFLOW + (plan->flow & 1) * (A_LAYERS + 1) * A_EXCHANGE_BYTES;
    s->exchange_step = (uint32_t)A_EXCHANGE_BYTES;
    s->exchange_rows = A_DATAFLOW_ROWS;
}

/* ---- words --------------------------------------------------------------------------------------- */

ASSAY_FN void leave_float(float *to, float v) {
    const uint32_t bits = bits_of(v);
    tell_gpu((uint32_t *)(void *)to, bits == A_ABSENT ? 0x7FFFFFFFu : bits);
}
/* Two halves of a word, from two neighbouring lanes, the even one of which leaves it. */
ASSAY_FN void leave_halves(uint16_t *to, float mine, bool there) {
    const float other = swap_lanes_f(mine, 1);
    if (there && !(lane_of_warp() & 1)) tell_gpu((uint32_t *)(void *)to, bf16_pair(mine, other));
}

ASSAY_FN bool is_there(float v) { return bits_of(v) != A_ABSENT; }
/* One comparison for many words: no other number is as large. */
ASSAY_FN uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }
ASSAY_FN uint32_t largest(const assay_v4 *v) { return larger(larger(v->x, v->y), larger(v->z, v->w)); }
ASSAY_FN float peek_float(const float *from) { return float_of(peek_gpu((const uint32_t *)(const void *)from)); }

/* ---- the other set ------------------------------------------------------------------------------- */

/* The workers of all blocks: one layer's words of a set. */
ASSAY_FN void make_absent(const assay_params *p, uint32_t set, uint32_t layer) {
    assay_v4 *to = (assay_v4 *)(void *)(p->scratch + A_AT_DATAFLOW +
                                        (set * (A_LAYERS + 1) + layer) * A_EXCHANGE_BYTES);
    const assay_v4 absent = {A_ABSENT, A_ABSENT, A_ABSENT, A_ABSENT};
    for (uint32_t i = block_of_grid() * A_THREADS + thread_of_block(); i < A_EXCHANGE_BYTES / 16;
         i += blocks_of_grid() * A_THREADS)
        to[i] = absent;
}

#endif
