/* Queries, keys and values of single heads: how warps read them from the products, norm and rotate them, and where keys
 * and values lie, by blocks. A span is the work of one warp of attention.
 */
#ifndef ASSAY_HEADS_H
#define ASSAY_HEADS_H

#include "exchange.h"

static_assert(A_CHUNK % 32 == 0 && A_BLOCK % 8 == 0, "a lane's eight positions are in one block");

#define A_PART (A_HEAD_DIM + 2)
#define A_HALF (A_HEAD_DIM / 2)
#define A_PAIRS ((A_HALF + 31) / 32)
#define A_SPANS (A_CHUNK / 32)
#define A_DEPTHS ((A_HEAD_DIM + 31) / 32)

/* The work of one warp. */
typedef struct {
    uint32_t row0, n_rows;  /* of the step */
    uint32_t head, part;    /* of keys and values; which 16 of its queries, where it has more */
    uint32_t first, n, chunk; /* positions */
    uint32_t until; /* which chunk it does not reach: the next one, or that behind its segment */
    uint32_t layer;
    uint32_t block; /* which this lane keeps for the warp: of number block0 + lane of the row's */
    uint32_t block0;
    bool appends; /* its last position is the row's newest */
} assay_span;

/* ---- keys and values ----------------------------------------------------------------------------- */

/* Where a head of a block lies, in elements. */
ASSAY_FN uint64_t block_at(uint32_t layer, uint32_t block, uint32_t head) {
    return ((uint64_t)layer * shared()->kv_blocks + block) * A_KV_BLOCK + head * (uint64_t)(A_BLOCK * A_HEAD_DIM);
}
ASSAY_FN uint32_t block_of(uint32_t table, uint32_t pos) {
    return shared()->tables[(uint64_t)table * shared()->table_width + pos / A_BLOCK];
}
/* The same of one of a span's positions; all lanes of the warp come here. */
ASSAY_FN uint64_t place_of(const assay_span *s, uint32_t pos) {
    const uint32_t block = from_lane(s->block, pos / A_BLOCK - s->block0);
    return block_at(s->layer, block, s->head);
}

/* A head's raw numbers and its rotation, as a lane has them: dimensions lane + 32 * i, and their partners in the
 * upper half. Asking for several heads before one is turned costs one way to memory. */
typedef struct {
    float value[A_PAIRS][2], turn[A_PAIRS][2];
} assay_head;

ASSAY_FN void ask_head(const float *raw, assay_head *head) {
#pragma unroll
    for (uint32_t i = 0; i < A_PAIRS; i++) {
        const uint32_t d = lane_of_warp() + i * 32;
        head->value[i][0] = d < A_HALF ? peek_float(raw + d) : 0.0f;
        head->value[i][1] = d < A_HALF ? peek_float(raw + d + A_HALF) : 0.0f;
    }
}
ASSAY_FN void ask_turn(const assay_params *p, uint32_t pos, assay_head *head) {
    const float *turns = p->turns + (uint64_t)pos * A_HEAD_DIM;
#pragma unroll
    for (uint32_t i = 0; i < A_PAIRS; i++) {
        const uint32_t d = lane_of_warp() + i * 32;
        head->turn[i][0] = d < A_HALF ? turns[2 * d] : 0.0f;
        head->turn[i][1] = d < A_HALF ? turns[2 * d + 1] : 0.0f;
    }
}
ASSAY_FN bool head_is_there(const assay_head *head) {
    bool there = true;
#pragma unroll
    for (uint32_t i = 0; i < A_PAIRS; i++) there = there && is_there(head->value[i][0]) && is_there(head->value[i][1]);
    return there;
}

/* One warp: what RMSNorm divides N heads by, their sums side by side: each exchange between lanes takes its time. */
template <uint32_t N> ASSAY_FN void scales_of(const assay_head *heads, float *scales) {
#pragma unroll
    for (uint32_t n = 0; n < N; n++) {
        scales[n] = 0;
#pragma unroll
        for (uint32_t i = 0; i < A_PAIRS; i++)
            scales[n] += heads[n].value[i][0] * heads[n].value[i][0] + heads[n].value[i][1] * heads[n].value[i][1];
    }
#pragma unroll
    for (uint32_t m = 16; m > 0; m >>= 1)
#pragma unroll
        for (uint32_t n = 0; n < N; n++) scales[n] += swap_lanes_f(scales[n], m);
#pragma unroll
    for (uint32_t n = 0; n < N; n++) scales[n] = one_over_root(scales[n] / A_NORM_HEAD_DIM + A_EPS);
}

/* One warp: normed (with a gain) and rotated, in bf16; to a second place, too, unless it is NULL. */
ASSAY_FN void turn_head(const assay_head *head, const float *gain, float scale, uint16_t *to, uint16_t *copy) {
#pragma unroll
    for (uint32_t i = 0; i < A_PAIRS; i++) {
        const uint32_t d = lane_of_warp() + i * 32;
        if (d >= A_HALF) continue;
        float a = head->value[i][0], b = head->value[i][1];
        if (gain) {
            a *= scale * gain[d];
            b *= scale * gain[d + A_HALF];
        }
        const uint16_t low = bf16_of(a * head->turn[i][0] - b * head->turn[i][1]);
        const uint16_t high = bf16_of(b * head->turn[i][0] + a * head->turn[i][1]);
        to[d] = low;
        to[d + A_HALF] = high;
        if (!copy) continue;
        copy[d] = low;
        copy[d + A_HALF] = high;
    }
}

/* A row's numbers of a kind: queries, then keys, then values, head by head. */
ASSAY_FN const float *raw_of(const assay_params *p, uint32_t layer, uint32_t row) {
    return floats_of(p, layer, A_ROW_AT_QKV) + (uint64_t)row * A_QKV_DIM;
}

/* What a row appends for a head: its key, and its value as a lane has it. */
typedef struct {
    assay_head key;
    float value[A_DEPTHS];
} assay_new;

ASSAY_FN void ask_new(const assay_params *p, uint32_t layer, uint32_t row, uint32_t head, assay_new *its) {
    const float *keys = raw_of(p, layer, row) + A_Q_DIM + head * A_HEAD_DIM, *values = keys + A_KV_DIM;
    ask_head(keys, &its->key);
#pragma unroll
    for (uint32_t i = 0; i < A_DEPTHS; i++) {
        const uint32_t d = lane_of_warp() + i * 32;
        its->value[i] = d < A_HEAD_DIM ? peek_float(values + d) : 0.0f;
    }
}
ASSAY_FN bool new_is_there(const assay_new *its) {
    bool there = head_is_there(&its->key);
#pragma unroll
    for (uint32_t i = 0; i < A_DEPTHS; i++) there = there && is_there(its->value[i]);
    return there;
}

/* One warp: a position's key and value into a head's block; the key into `copy`, too, unless it is NULL. */
ASSAY_FN void append(const assay_params *p, const assay_new *its, const float *k_gain, float scale, uint64_t at,
                     uint32_t pos, uint16_t *copy) {
#pragma unroll
    for (uint32_t i = 0; i < A_DEPTHS; i++) {
        const uint32_t d = lane_of_warp() + i * 32;
        if (d < A_HEAD_DIM) p->values[at + d * A_BLOCK + pos % A_BLOCK] = bf16_of(its->value[i]);
    }
    turn_head(&its->key, k_gain, scale, p->keys + at + pos % A_BLOCK * A_HEAD_DIM, copy);
}

ASSAY_COLD void append_all(const assay_params *p, const float *k_gain, uint32_t layer) {
    const uint32_t n = the_plan()->n_rows * A_KV_HEADS;
    for (uint32_t i = block_of_grid() * A_WARPS + warp_of_block(); i < n;
         i += blocks_of_grid() * A_WARPS) {
        const uint32_t row = i / A_KV_HEADS, head = i % A_KV_HEADS;
        assay_new its;
        ask_new(p, layer, row, head, &its);
        const uint32_t pos = the_plan()->pos[row];
        ask_turn(p, pos, &its.key);
        float scale = 1;
        if (k_gain) scales_of<1>(&its.key, &scale);
        append(p, &its, k_gain, scale, block_at(layer, block_of(the_plan()->table[row], pos), head), pos, nullptr);
        sync_warp();
    }
}

/* ---- queries of many rows ------------------------------------------------------------------------ */

/* Where steps of prompts and of groups leave a query, normed, rotated and in bf16. A chunk's warp takes the queries of
 * several rows, and their chunks are many: each would make all of them again. */
ASSAY_FN uint16_t *turned_at(const assay_params *p, uint32_t row, uint32_t head) {
    return (uint16_t *)(void *)(p->scratch + A_AT_TURNED) + ((uint64_t)row * A_HEADS + head) * A_HEAD_DIM;
}

/* The workers of all blocks; a warp some heads of a row at once. */
ASSAY_COLD void turn_all(const assay_params *p, const float *q_gain, uint32_t layer) {
    constexpr uint32_t SOME = A_PAIRS <= 2 ? 4 : 2, GROUPS = (A_HEADS + SOME - 1) / SOME;
#pragma unroll 1
    for (uint32_t i = block_of_grid() * A_WARPS + warp_of_block(); i < the_plan()->n_rows * GROUPS;
         i += blocks_of_grid() * A_WARPS) {
        const uint32_t row = i / GROUPS, first = i % GROUPS * SOME, n = A_HEADS - first;
        assay_head head[SOME];
        float scales[SOME] = {};
#pragma unroll
        for (uint32_t h = 0; h < SOME; h++) {
            ask_turn(p, the_plan()->pos[row], head + h);
            ask_head(raw_of(p, layer, row) + (first + (h < n ? h : 0)) * A_HEAD_DIM, head + h);
        }
        if (q_gain) scales_of<SOME>(head, scales);
#pragma unroll
        for (uint32_t h = 0; h < SOME; h++)
            if (h < n) turn_head(head + h, q_gain, scales[h], turned_at(p, row, first + h), nullptr);
    }
}

#endif
