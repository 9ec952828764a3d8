/* Attention over paged keys and values, in chunks of A_CHUNK positions.
 *
 * A chunk's keys and values are read once for all rows that share them: the rows of a prompt's chunk, and
 * the rollouts of a group over their common prefix. Each (row, head, chunk) gives a partial result
 * by the same operations in the same order, whichever rows share the read; the block that finishes a row's
 * last chunk joins its partial results in the order of positions.
 */
#ifndef ASSAY_ATTEND_H
#define ASSAY_ATTEND_H

#include "memory.h"

#define A_PART (A_HEAD_DIM + 2)
#define A_HALF (A_HEAD_DIM / 2)
#define A_PAIRS ((A_HALF + 31) / 32)

ASSAY_FN uint64_t place_of(const assay_params *p, uint32_t layer, uint32_t table, uint32_t pos,
                           uint32_t head) {
    const uint32_t block = table_of(p->state, table)[pos / A_BLOCK];
    return ((uint64_t)layer * p->state->desk.limits.kv_blocks + block) * A_KV_BLOCK +
           (head * A_BLOCK + pos % A_BLOCK) * (uint64_t)A_HEAD_DIM;
}

/* One warp: a head's norm (when the model has one) and rotation, from `raw` into `out`. */
ASSAY_FN void turn_head(const assay_params *p, const float *raw, const float *gain, uint32_t pos,
                        float *out) {
    const uint32_t lane = lane_of_warp();
    float scale = 1;
    if (gain) {
        float squares = 0;
        for (uint32_t d = lane; d < A_HEAD_DIM; d += 32) squares += raw[d] * raw[d];
        scale = 1.0f / sqrtf(warp_sum(squares) / A_HEAD_DIM + A_EPS);
    }
    const float *turns = p->turns + (uint64_t)pos * A_HEAD_DIM;
    for (uint32_t d = lane; d < A_HALF; d += 32) {
        float a = raw[d] * scale, b = raw[d + A_HALF] * scale;
        if (gain) {
            a *= gain[d];
            b *= gain[d + A_HALF];
        }
        const float cosine = turns[2 * d], sine = turns[2 * d + 1];
        out[d] = a * cosine - b * sine;
        out[d + A_HALF] = b * cosine + a * sine;
    }
    sync_warp();
}

/* One warp: the key and value of (row, head) into their places. */
ASSAY_FN void append(const assay_params *p, const float *k_gain, uint32_t layer, uint32_t row,
                     uint32_t head) {
    const assay_plan *plan = &p->state->plan;
    const float *qkv = scratch_f(p, A_AT_QKV) + (uint64_t)row * A_QKV_DIM;
    float *turned = shared()->u.attend.query + warp_of_block() * A_HEAD_DIM;
    turn_head(p, qkv + A_Q_DIM + head * A_HEAD_DIM, k_gain, plan->pos[row], turned);
    const uint64_t at = place_of(p, layer, plan->table[row], plan->pos[row], head);
    const float *value = qkv + A_Q_DIM + A_KV_DIM + head * A_HEAD_DIM;
    for (uint32_t d = lane_of_warp(); d < A_HEAD_DIM; d += 32) {
        p->keys[at + d] = bf16_of(turned[d]);
        p->values[at + d] = bf16_of(value[d]);
    }
    sync_warp();
}

ASSAY_COLD void append_all(const assay_params *p, const float *k_gain, uint32_t layer) {
    const uint32_t n = p->state->plan.n_rows * A_KV_HEADS;
    for (uint32_t i = block_of_grid() * A_WARPS + warp_of_block(); i < n;
         i += blocks_of_grid() * A_WARPS)
        append(p, k_gain, layer, i / A_KV_HEADS, i % A_KV_HEADS);
}

ASSAY_FN void read_chunk(const assay_params *p, uint32_t layer, uint32_t table, uint32_t head,
                         uint32_t first, uint32_t n) {
    const uint32_t per = A_HEAD_DIM / 8;
    for (uint32_t i = thread_of_block(); i < n * per; i += A_THREADS) {
        const uint32_t pos = i / per, d = i % per * 8;
        const uint64_t at = place_of(p, layer, table, first + pos, head) + d;
        *(assay_v4 *)(void *)(shared()->u.attend.keys + pos * (A_HEAD_DIM + 8) + d) =
            *(const assay_v4 *)(const void *)(p->keys + at);
        *(assay_v4 *)(void *)(shared()->u.attend.values + pos * A_HEAD_DIM + d) =
            *(const assay_v4 *)(const void *)(p->values + at);
    }
}

ASSAY_FN float dot_key(const float *query, const uint16_t *key) {
    float sum = 0;
    for (uint32_t d = 0; d < A_HEAD_DIM; d += 8) {
        const assay_v4 k = *(const assay_v4 *)(const void *)(key + d);
        sum += query[d] * low_half(k.x) + query[d + 1] * high_half(k.x);
        sum += query[d + 2] * low_half(k.y) + query[d + 3] * high_half(k.y);
        sum += query[d + 4] * low_half(k.z) + query[d + 5] * high_half(k.z);
        sum += query[d + 6] * low_half(k.w) + query[d + 7] * high_half(k.w);
    }
    return sum;
}

/* One warp, one query over the first n positions of the chunk in shared memory. */
ASSAY_FN void one_query(const float *query, uint32_t n, float *part) {
    const uint32_t lane = lane_of_warp();
    float *share = shared()->u.attend.share + warp_of_block() * A_CHUNK;
    float high = -INFINITY;
    for (uint32_t i = lane; i < n; i += 32) {
        share[i] = dot_key(query, shared()->u.attend.keys + i * (A_HEAD_DIM + 8)) * A_SCORE_SCALE;
        high = fmaxf(high, share[i]);
    }
    high = warp_max(high);
    float sum = 0;
    for (uint32_t i = lane; i < n; i += 32) {
        share[i] = expf(share[i] - high);
        sum += share[i];
    }
    sum = warp_sum(sum);
    sync_warp();
    float mixed[A_PAIRS][2];
#pragma unroll
    for (uint32_t j = 0; j < A_PAIRS; j++) mixed[j][0] = mixed[j][1] = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t *value =
            (const uint32_t *)(const void *)(shared()->u.attend.values + i * A_HEAD_DIM);
#pragma unroll
        for (uint32_t j = 0; j < A_PAIRS; j++) {
            const uint32_t d = lane + j * 32;
            if (d < A_HALF) {
                mixed[j][0] += share[i] * low_half(value[d]);
                mixed[j][1] += share[i] * high_half(value[d]);
            }
        }
    }
#pragma unroll
    for (uint32_t j = 0; j < A_PAIRS; j++) {
        const uint32_t d = lane + j * 32;
        if (d < A_HALF) {
            part[2 * d] = mixed[j][0];
            part[2 * d + 1] = mixed[j][1];
        }
    }
    if (lane == 0) {
        part[A_HEAD_DIM] = high;
        part[A_HEAD_DIM + 1] = sum;
    }
    sync_warp();
}

ASSAY_FN float *part_at(const assay_params *p, uint32_t row, uint32_t head, uint32_t chunk) {
    return scratch_f(p, A_AT_PARTS) +
           (((uint64_t)row * A_HEADS + head) * A_CHUNKS_MAX + chunk) * A_PART;
}

/* One warp: the partial results of (row, head), joined in the order of positions. */
ASSAY_FN void join(const assay_params *p, uint32_t row, uint32_t head) {
    const uint32_t chunks = p->state->plan.pos[row] / A_CHUNK + 1;
    float high = -INFINITY, sum = 0;
    for (uint32_t c = 0; c < chunks; c++) high = fmaxf(high, part_at(p, row, head, c)[A_HEAD_DIM]);
    for (uint32_t c = 0; c < chunks; c++) {
        const float *part = part_at(p, row, head, c);
        sum += part[A_HEAD_DIM + 1] * expf(part[A_HEAD_DIM] - high);
    }
    uint16_t *out = scratch_h(p, A_AT_ATTENDED) + (uint64_t)row * A_Q_DIM + head * A_HEAD_DIM;
    for (uint32_t d = lane_of_warp(); d < A_HEAD_DIM; d += 32) {
        float mixed = 0;
        for (uint32_t c = 0; c < chunks; c++) {
            const float *part = part_at(p, row, head, c);
            mixed += part[d] * expf(part[A_HEAD_DIM] - high);
        }
        out[d] = bf16_of(mixed / sum);
    }
}

ASSAY_FN void count_chunk(const assay_params *p, const assay_entry *e, uint32_t head) {
    for (uint32_t i = thread_of_block(); i < e->n_rows; i += A_THREADS) {
        const uint32_t row = e->row0 + i;
        const uint32_t chunks = p->state->plan.pos[row] / A_CHUNK + 1;
        uint32_t *counter = p->barrier + 1 + row * A_KV_HEADS + head;
        const bool last = add_gpu(counter, 1) + 1 == chunks;
        shared()->u.attend.last[i] = last;
        if (last) *counter = 0; /* for the next layer, which follows a grid barrier */
    }
}

/* Every (row, query head) of an entry over one chunk. */
ASSAY_FN void attend_chunk(const assay_params *p, const float *q_gain, uint32_t layer,
                           const assay_entry *e, uint32_t head, uint32_t chunk) {
    const assay_plan *plan = &p->state->plan;
    const uint32_t first = chunk * A_CHUNK, last_pos = plan->pos[e->row0 + e->n_rows - 1];
    uint32_t n = last_pos + 1 - first;
    n = n < A_CHUNK ? n : A_CHUNK;
    read_chunk(p, layer, plan->table[e->row0], head, first, n);
    sync_block();
    for (uint32_t i = warp_of_block(); i < e->n_rows * A_QUERIES; i += A_WARPS) {
        const uint32_t row = e->row0 + i / A_QUERIES, query_head = head * A_QUERIES + i % A_QUERIES;
        const uint32_t pos = plan->pos[row];
        if (pos < first) continue;
        float *query = shared()->u.attend.query + warp_of_block() * A_HEAD_DIM;
        turn_head(p,
                  scratch_f(p, A_AT_QKV) + (uint64_t)row * A_QKV_DIM + query_head * A_HEAD_DIM,
                  q_gain, pos, query);
        const uint32_t reach = pos + 1 - first < n ? pos + 1 - first : n;
        one_query(query, reach, part_at(p, row, query_head, chunk));
    }
    fence_gpu();
    sync_block();
}

ASSAY_FN void join_rows(const assay_params *p, const assay_entry *e, uint32_t head,
                        uint32_t chunk) {
    for (uint32_t i = thread_of_block(); i < e->n_rows; i += A_THREADS)
        shared()->u.attend.last[i] = 0;
    sync_block();
    /* Rows before the chunk have nothing in it; an entry's rows are in the order of positions. */
    assay_entry with = *e;
    while (with.n_rows && p->state->plan.pos[with.row0] / A_CHUNK < chunk) {
        with.row0++;
        with.n_rows--;
    }
    count_chunk(p, &with, head);
    sync_block();
    fence_gpu();
    for (uint32_t i = warp_of_block(); i < with.n_rows * A_QUERIES; i += A_WARPS)
        if (shared()->u.attend.last[i / A_QUERIES])
            join(p, with.row0 + i / A_QUERIES, head * A_QUERIES + i % A_QUERIES);
    sync_block();
}

ASSAY_COLD void attend(const assay_params *p, const float *q_gain, const float *k_gain,
                       uint32_t layer) {
    const assay_plan *plan = &p->state->plan;
    const uint32_t lists = plan->n_entries + plan->n_runs;
    const uint32_t n = lists * plan->chunks_max * A_KV_HEADS;
    for (uint32_t i = block_of_grid(); i < n; i += blocks_of_grid()) {
        const uint32_t head = i % A_KV_HEADS, one = i / A_KV_HEADS % lists;
        const uint32_t chunk = i / A_KV_HEADS / lists;
        const bool own = one >= plan->n_runs;
        const assay_entry e = own ? plan->entries[one - plan->n_runs] : plan->runs[one];
        if (chunk < e.chunk0 || chunk > e.last_chunk) continue;
        if (own && !plan->prefilling && chunk == e.last_chunk) {
            if (warp_of_block() == 0) append(p, k_gain, layer, e.row0, head);
            sync_block();
        }
        attend_chunk(p, q_gain, layer, &e, head, chunk);
        join_rows(p, &e, head, chunk);
    }
}

#endif
