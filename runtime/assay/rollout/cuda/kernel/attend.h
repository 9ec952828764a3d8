/* Attention over paged keys and values, in chunks of A_CHUNK positions, on tensor cores.
 *
 * One warp takes the queries of up to A_ROWS_AT_ONCE rows of a key's head over one chunk: the rows of a
 * prompt's chunk, or rollouts of a group over their common prefix, or one rollout over what is its own. So a
 * chunk is read once for rows that share it. A query's numbers come from its own row of the products:
 * they do not depend on the rows beside it. Partial results of a query's chunks are joined in the order of
 * positions by a warp that reads them until they are there: each number has a tag beside it, which says of which
 * layer and step it is.
 *
 * Within 32 positions, column c of tile j of the scores is position c / 2 * 8 + j * 2 + c % 2: so the lane
 * that has a row's shares of some positions needs the values of these very positions, and they are
 * neighbours in memory, as values lie by dimension.
 */
#ifndef ASSAY_ATTEND_H
#define ASSAY_ATTEND_H

#include "heads.h"

/* Which of a lane's eight values are among the first n: what follows has not been written. */
ASSAY_FN assay_v4 only_first(uint32_t n) {
    assay_v4 mask;
    mask.x = n >= 2 ? ~0u : n == 1 ? 0xFFFFu : 0;
    mask.y = n >= 4 ? ~0u : n == 3 ? 0xFFFFu : 0;
    mask.z = n >= 6 ? ~0u : n == 5 ? 0xFFFFu : 0;
    mask.w = n >= 8 ? ~0u : n == 7 ? 0xFFFFu : 0;
    return mask;
}

/* ---- one chunk ----------------------------------------------------------------------------------- */

/* Queries of the span's rows: 0 .. 15 are (row, head) by A_QUERIES_AT_ONCE. */
ASSAY_FN uint32_t row_of_query(const assay_span *s, uint32_t query) {
    return s->row0 + query / A_QUERIES_AT_ONCE;
}
ASSAY_FN uint32_t head_of_query(const assay_span *s, uint32_t query) {
    return s->head * A_QUERIES + s->part * 16 + query % A_QUERIES_AT_ONCE;
}
/* Positions of the chunk that the query sees; 0: the span has none of them. */
ASSAY_FN uint32_t reach_of(const assay_span *s, uint32_t query) {
    const uint32_t of_part = A_QUERIES - s->part * 16;
    if (query / A_QUERIES_AT_ONCE >= s->n_rows || query % A_QUERIES_AT_ONCE >= of_part) return 0;
    const uint32_t pos = the_plan()->pos[row_of_query(s, query)];
    if (pos < s->first) return 0;
    return pos + 1 - s->first < s->n ? pos + 1 - s->first : s->n;
}

ASSAY_FN uint16_t *my_queries() { return shared()->u.attend.query[warp_of_block()]; }
ASSAY_FN uint16_t *my_key() { return shared()->u.attend.key[warp_of_block()]; } /* of the row's newest position */

/* A query's raw numbers, the last one's for those beyond the row's heads. */
ASSAY_FN const float *raw_query(const assay_params *p, const assay_span *s, uint32_t query) {
    const uint32_t head = head_of_query(s, query);
    return raw_of(p, s->layer, row_of_query(s, query)) + (head < A_HEADS ? head : A_HEADS - 1) * A_HEAD_DIM;
}

/* The span's queries, normed, rotated and in bf16, into this warp's part of shared memory; and what the row appends
 * into its place. Some are asked for at once, until they are there. */
ASSAY_FN void prepare(const assay_params *p, const float *q_gain, const float *k_gain,
                      const assay_span *s) {
    constexpr uint32_t SOME = A_PAIRS <= 2 ? 2 : 1;
    const uint32_t n = s->n_rows * A_QUERIES_AT_ONCE;
#pragma unroll 1
    for (uint32_t query = 0; query < n; query += SOME) {
        const bool also = s->appends && query == 0;
        assay_head head[SOME + 1]; /* and the new key */
        assay_new its;
#pragma unroll
        for (uint32_t i = 0; i < SOME; i++)
            ask_turn(p, the_plan()->pos[row_of_query(s, query + i < n ? query + i : query)], head + i);
        for (bool whole = false; !whole;) {
            whole = true;
            if (also) ask_new(p, s->layer, s->row0, s->head, &its);
#pragma unroll
            for (uint32_t i = 0; i < SOME; i++) ask_head(raw_query(p, s, query + i < n ? query + i : query), head + i);
            if (also) whole = new_is_there(&its);
#pragma unroll
            for (uint32_t i = 0; i < SOME; i++) whole = whole && head_is_there(head + i);
            if (!whole) look_again();
        }
        sync_warp();
        float scales[SOME + 1];
        head[SOME] = also ? its.key : head[0];
        if (q_gain) scales_of<SOME + 1>(head, scales);
        if (also) {
            const uint32_t pos = s->first + s->n - 1;
#pragma unroll
            for (uint32_t i = 0; i < A_PAIRS; i++) /* one row's: the same position */
                for (uint32_t half = 0; half < 2; half++) its.key.turn[i][half] = head[0].turn[i][half];
            append(p, &its, k_gain, scales[SOME], place_of(s, pos), pos, my_key());
        }
#pragma unroll
        for (uint32_t i = 0; i < SOME; i++)
            if (query + i < n)
                turn_head(head + i, q_gain, scales[i], my_queries() + (query + i) * A_QUERY_STRIDE, nullptr);
    }
    sync_warp();
}

/* The span's keys and values towards the second-level cache. */
ASSAY_FN void call_for(const assay_params *p, const assay_span *s) {
    constexpr uint32_t LINES = A_BLOCK * A_HEAD_DIM * 2 / 128;
    for (uint32_t pos = s->first; pos < s->first + s->n; pos += A_BLOCK - pos % A_BLOCK) {
        const uint64_t at = place_of(s, pos);
        for (uint32_t line = lane_of_warp(); line < LINES; line += 32) {
            prefetch(p->keys + at + line * 64);
            prefetch(p->values + at + line * 64);
        }
    }
}

ASSAY_FN assay_v4 eight_at(const uint16_t *from, uint32_t d) {
    const assay_v4 none = {0, 0, 0, 0};
    return d < A_HEAD_DIM ? *(const assay_v4 *)(const void *)(from + d) : none;
}

/* Where in its chunk the position of column g of tile j of the scores is. */
ASSAY_FN uint32_t at_of_tile(uint32_t from, uint32_t j, uint32_t lane) {
    const uint32_t g = lane >> 2;
    return from + j / 4 * 32 + (g >> 1) * 8 + j % 4 * 2 + (g & 1);
}

/* A lane's keys of N * 32 positions, all asked for at once. */
template <uint32_t N>
ASSAY_FN void ask_keys(const assay_params *p, const assay_span *s, uint32_t from, assay_v4 (*k)[A_DEPTHS]) {
    const uint32_t lane = lane_of_warp();
#pragma unroll
    for (uint32_t j = 0; j < N * 4; j++) {
        const uint32_t at = at_of_tile(from, j, lane), pos = s->first + (at < s->n ? at : 0);
        const uint16_t *key = p->keys + place_of(s, pos) + pos % A_BLOCK * A_HEAD_DIM;
#pragma unroll
        for (uint32_t depth = 0; depth < A_DEPTHS; depth++)
            k[j][depth] = eight_at(key, depth * 32 + (lane & 3) * 8);
    }
}

/* The newest position's key, which was not in its place when the others were asked for. */
template <uint32_t N> ASSAY_FN void put_newest(const assay_span *s, assay_v4 (*k)[A_DEPTHS]) {
    const uint32_t lane = lane_of_warp();
#pragma unroll
    for (uint32_t j = 0; j < N * 4; j++)
        if (at_of_tile(0, j, lane) + 1 == s->n)
#pragma unroll
            for (uint32_t depth = 0; depth < A_DEPTHS; depth++)
                k[j][depth] = eight_at(my_key(), depth * 32 + (lane & 3) * 8);
}

/* Scores of N * 32 positions, four tiles of 16 queries by 8 for each 32. */
template <uint32_t N> ASSAY_FN void score_spans(const assay_v4 (*k)[A_DEPTHS], float (*score)[4]) {
    const uint32_t lane = lane_of_warp(), g = lane >> 2, t = lane & 3;
#pragma unroll
    for (uint32_t j = 0; j < N * 4; j++) score[j][0] = score[j][1] = score[j][2] = score[j][3] = 0;
    const uint16_t *query = my_queries() + g * A_QUERY_STRIDE;
#pragma unroll
    for (uint32_t depth = 0; depth < A_DEPTHS; depth++) {
        const uint32_t d = depth * 32 + t * 8;
        const assay_v4 a = eight_at(query, d), b = eight_at(query + 8 * A_QUERY_STRIDE, d);
#pragma unroll
        for (uint32_t j = 0; j < N * 4; j++) /* independent ones side by side: each takes its time */
            multiply_add(score[j], a.x, b.x, a.y, b.y, k[j][depth].x, k[j][depth].y);
#pragma unroll
        for (uint32_t j = 0; j < N * 4; j++)
            multiply_add(score[j], a.z, b.z, a.w, b.w, k[j][depth].z, k[j][depth].w);
    }
}

ASSAY_FN float quad_max(float v) {
    v = fmaxf(v, swap_lanes_f(v, 1));
    return fmaxf(v, swap_lanes_f(v, 2));
}
ASSAY_FN float quad_sum(float v) {
    v += swap_lanes_f(v, 1);
    return v + swap_lanes_f(v, 2);
}

/* Scores to shares relative to the largest of their query: 0 beyond its reach. */
ASSAY_FN void share_out(const uint32_t *reach, float (*score)[4], float *high, float *sum) {
    const uint32_t t = thread_of_block() & 3;
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        float most = -INFINITY;
#pragma unroll
        for (uint32_t i = 0; i < A_SPANS * 8; i++) {
            float *one = &score[i / 2][half * 2 + i % 2];
            const uint32_t at = i / 8 * 32 + t * 8 + i % 8;
            *one = at < reach[half] ? *one * A_SCORE_SCALE : -INFINITY;
            most = fmaxf(most, *one);
        }
        high[half] = quad_max(most);
        const float from = high[half] > -INFINITY ? high[half] : 0.0f;
        float all = 0;
#pragma unroll
        for (uint32_t i = 0; i < A_SPANS * 8; i++) {
            float *one = &score[i / 2][half * 2 + i % 2];
            *one = exp_of(*one - from);
            all += *one;
        }
        sum[half] = quad_sum(all);
    }
}

/* A lane's values of 32 positions, eight for each tile of eight dimensions. */
ASSAY_FN void ask_values(const assay_params *p, const assay_span *s, uint32_t from, assay_v4 *v) {
    const uint32_t lane = lane_of_warp(), g = lane >> 2, at = from + (lane & 3) * 8;
    const uint32_t pos = s->first + (at < s->n ? at : 0);
    const uint16_t *values = p->values + place_of(s, pos) + pos % A_BLOCK;
#pragma unroll
    for (uint32_t tile = 0; tile < A_HEAD_DIM / 8; tile++)
        v[tile] = *(const assay_v4 *)(const void *)(values + (tile * 8 + g) * A_BLOCK);
}

/* They are mixed by their shares. */
ASSAY_FN void mix_32(const assay_span *s, uint32_t from, const float (*share)[4], const assay_v4 *v,
                     float (*mixed)[4]) {
    const uint32_t at = from + (lane_of_warp() & 3) * 8;
    const assay_v4 mask = only_first(at < s->n ? s->n - at : 0);
    uint32_t a[2][4];
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        a[i][0] = bf16_pair(share[2 * i][0], share[2 * i][1]);
        a[i][1] = bf16_pair(share[2 * i][2], share[2 * i][3]);
        a[i][2] = bf16_pair(share[2 * i + 1][0], share[2 * i + 1][1]);
        a[i][3] = bf16_pair(share[2 * i + 1][2], share[2 * i + 1][3]);
    }
#pragma unroll
    for (uint32_t tile = 0; tile < A_HEAD_DIM / 8; tile++)
        multiply_add(mixed[tile], a[0][0], a[0][1], a[0][2], a[0][3], v[tile].x & mask.x,
                     v[tile].y & mask.y);
#pragma unroll
    for (uint32_t tile = 0; tile < A_HEAD_DIM / 8; tile++)
        multiply_add(mixed[tile], a[1][0], a[1][1], a[1][2], a[1][3], v[tile].z & mask.z,
                     v[tile].w & mask.w);
}

/* ---- results ------------------------------------------------------------------------------------- */

/* Where a query's part over a chunk begins, in numbers. */
ASSAY_FN uint64_t part_at(uint32_t row, uint32_t head, uint32_t chunk) {
    return (((uint64_t)row * A_HEADS + head) * A_CHUNKS_MAX + chunk) * A_PART;
}

/* No other layer's or step's numbers have it, until steps were counted around. */
ASSAY_FN uint32_t tag_of(uint32_t layer) { return the_plan()->step * A_LAYERS + layer; }

ASSAY_FN uint64_t *parts_at(const assay_params *p, uint64_t at) {
    return (uint64_t *)(void *)(p->scratch + A_AT_PARTS) + at;
}
ASSAY_FN void leave_pair(const assay_params *p, uint64_t at, uint32_t tag, float one, float two) {
    const uint64_t high = (uint64_t)tag << 32;
    tell_gpu(parts_at(p, at), high | bits_of(one), high | bits_of(two));
}
/* Whether it is there. */
ASSAY_FN bool ask_pair(const assay_params *p, uint64_t at, uint32_t tag, float *one, float *two) {
    uint64_t first, second;
    peek_gpu(parts_at(p, at), &first, &second);
    *one = float_of((uint32_t)first);
    *two = float_of((uint32_t)second);
    return (uint32_t)(first >> 32) == tag && (uint32_t)(second >> 32) == tag;
}

ASSAY_FN uint32_t chunks_of(uint32_t row) {
    return the_plan()->pos[row] / A_CHUNK + 1;
}

ASSAY_FN uint32_t *attended_at(const assay_params *p, uint32_t layer, uint32_t row, uint32_t head) {
    return (uint32_t *)(void *)(halves_of(p, layer, A_ROW_AT_ATTENDED) + (uint64_t)row * A_Q_DIM + head * A_HEAD_DIM);
}

/* One query's result over the chunk: the whole of it where there is no other chunk, else a part. */
ASSAY_FN void leave_result(const assay_params *p, const assay_span *s, uint32_t query,
                           uint32_t half, const float (*mixed)[4], float high, float sum) {
    const uint32_t t = lane_of_warp() & 3, row = row_of_query(s, query);
    const uint32_t head = head_of_query(s, query);
    if (chunks_of(row) == 1) {
        const float inverse = quotient(1.0f, sum);
        uint32_t *out = attended_at(p, s->layer, row, head);
#pragma unroll
        for (uint32_t tile = 0; tile < A_HEAD_DIM / 8; tile++)
            tell_gpu(out + tile * 4 + t,
                     bf16_pair(mixed[tile][half * 2] * inverse, mixed[tile][half * 2 + 1] * inverse));
        return;
    }
    const uint64_t part = part_at(row, head, s->chunk);
    const uint32_t tag = tag_of(s->layer);
#pragma unroll
    for (uint32_t tile = 0; tile < A_HEAD_DIM / 8; tile++)
        leave_pair(p, part + tile * 8 + 2 * t, tag, mixed[tile][half * 2], mixed[tile][half * 2 + 1]);
    if (t == 0) leave_pair(p, part + A_HEAD_DIM, tag, high, sum);
}

ASSAY_FN void attend_chunk(const assay_params *p, const float *q_gain, const float *k_gain,
                           const assay_span *s) {
    constexpr bool AT_ONCE = A_SPANS * A_DEPTHS <= 8; /* as registers allow: then before the queries are there */
    constexpr bool SHORT = A_SPANS == 1 && A_DEPTHS <= 4; /* values beside keys */
    constexpr uint32_t N = AT_ONCE ? A_SPANS : 1;
    const uint32_t g = lane_of_warp() >> 2;
    assay_v4 k[N * 4][A_DEPTHS];
    if (AT_ONCE) ask_keys<N>(p, s, 0, k);
    prepare(p, q_gain, k_gain, s);
    if (AT_ONCE && s->appends) put_newest<N>(s, k);
    const uint32_t reach[2] = {reach_of(s, g), reach_of(s, g + 8)};
    float score[A_SPANS * 4][4], high[2], sum[2], mixed[A_HEAD_DIM / 8][4];
    assay_v4 v[A_HEAD_DIM / 8];
    if (SHORT) ask_values(p, s, 0, v);
#pragma unroll
    for (uint32_t i = 0; i < A_SPANS; i += N) {
        if (!AT_ONCE) ask_keys<N>(p, s, i * 32, k);
        score_spans<N>(k, score + i * 4);
    }
    if (!SHORT) ask_values(p, s, 0, v);
    share_out(reach, score, high, sum);
#pragma unroll
    for (uint32_t i = 0; i < A_HEAD_DIM / 8; i++)
        mixed[i][0] = mixed[i][1] = mixed[i][2] = mixed[i][3] = 0;
#pragma unroll
    for (uint32_t i = 0; i < A_SPANS; i++) {
        if (i) ask_values(p, s, i * 32, v);
        mix_32(s, i * 32, score + i * 4, v, mixed);
    }
#pragma unroll
    for (uint32_t half = 0; half < 2; half++)
        if (reach[half]) leave_result(p, s, g + half * 8, half, mixed, high[half], sum[half]);
}

/* One warp: the partial results of (row, head), joined in the order of positions, some at a time. */
ASSAY_FN void join(const assay_params *p, uint32_t layer, uint32_t row, uint32_t head) {
    constexpr uint32_t SOME = 8;
    const uint32_t chunks = chunks_of(row), lane = lane_of_warp();
    const uint64_t parts = part_at(row, head, 0);
    const uint32_t tag = tag_of(layer);
    float high = -INFINITY, sum = 0, mixed[A_PAIRS][2];
#pragma unroll
    for (uint32_t i = 0; i < A_PAIRS; i++) mixed[i][0] = mixed[i][1] = 0;
#pragma unroll 1
    for (uint32_t first = 0; first < chunks; first += SOME) {
        float highs[SOME], sums[SOME], values[SOME][A_PAIRS][2], most = high;
        for (bool whole = false; !whole;) {
            whole = true;
#pragma unroll
            for (uint32_t c = 0; c < SOME; c++) {
                const uint64_t part = parts + (first + c < chunks ? first + c : first) * A_PART;
                whole = ask_pair(p, part + A_HEAD_DIM, tag, highs + c, sums + c) && whole;
#pragma unroll
                for (uint32_t i = 0; i < A_PAIRS; i++) {
                    const uint32_t d = 2 * (lane + i * 32);
                    float *pair = values[c][i];
                    pair[0] = pair[1] = 0.0f;
                    if (d < A_HEAD_DIM) whole = ask_pair(p, part + d, tag, pair, pair + 1) && whole;
                }
            }
            if (!whole) look_again();
        }
#pragma unroll
        for (uint32_t c = 0; c < SOME; c++)
            if (first + c >= chunks) highs[c] = -INFINITY;
#pragma unroll
        for (uint32_t c = 0; c < SOME; c++) most = fmaxf(most, highs[c]);
        const float before = exp_of(high - most); /* 0 the first time */
        sum *= before;
#pragma unroll
        for (uint32_t i = 0; i < A_PAIRS; i++) {
            mixed[i][0] *= before;
            mixed[i][1] *= before;
        }
#pragma unroll
        for (uint32_t c = 0; c < SOME; c++) {
            const float weight = exp_of(highs[c] - most);
            sum += sums[c] * weight;
#pragma unroll
            for (uint32_t i = 0; i < A_PAIRS; i++) {
                mixed[i][0] += values[c][i][0] * weight;
                mixed[i][1] += values[c][i][1] * weight;
            }
        }
        high = most;
    }
    const float inverse = quotient(1.0f, sum);
    uint32_t *out = attended_at(p, layer, row, head);
#pragma unroll
    for (uint32_t i = 0; i < A_PAIRS; i++)
        if (lane + i * 32 < A_HALF)
            tell_gpu(out + lane + i * 32, bf16_pair(mixed[i][0] * inverse, mixed[i][1] * inverse));
}

/* The span with a number; false: there is none. */
ASSAY_FN bool span_at(uint32_t number, assay_span *s) {
    const assay_plan *plan = the_plan();
    const uint32_t lists = plan->n_entries + plan->n_runs;
    s->head = number % A_KV_HEADS;
    s->part = number / A_KV_HEADS % A_QUERY_PARTS;
    const uint32_t rest = number / (A_KV_HEADS * A_QUERY_PARTS);
    const uint32_t of_list = rest / lists, one = rest - of_list * lists;
    const bool single = plan->tiles_max == 1; /* as in most steps; a division costs a hundred cycles */
    s->chunk = single ? of_list : of_list / plan->tiles_max;
    const uint32_t tile = single ? 0 : of_list - s->chunk * plan->tiles_max;
    const bool own = one >= plan->n_runs;
    const assay_entry *e = own ? plan->entries + one - plan->n_runs : plan->runs + one;
    if (s->chunk < e->chunk0 || s->chunk > e->last_chunk) return false;
    if (tile * A_ROWS_AT_ONCE >= e->n_rows) return false;
    const uint32_t left = e->n_rows - tile * A_ROWS_AT_ONCE;
    s->row0 = e->row0 + tile * A_ROWS_AT_ONCE;
    s->n_rows = left < A_ROWS_AT_ONCE ? left : A_ROWS_AT_ONCE;
    s->first = s->chunk * A_CHUNK;
    const uint32_t last = plan->pos[s->row0 + s->n_rows - 1];
    if (last < s->first) return false;
    s->n = last + 1 - s->first < A_CHUNK ? last + 1 - s->first : A_CHUNK;
    s->appends = own && !plan->prefilling && s->chunk == e->last_chunk;
    const uint32_t pos = (s->first / A_BLOCK + lane_of_warp()) * A_BLOCK;
    s->block = pos < s->first + s->n ? block_of(plan->table[s->row0], pos) : 0;
    return true;
}

/* Spans of all warps have numbers from 0 on. */
ASSAY_FN uint32_t spans_of_step() {
    const assay_plan *plan = the_plan();
    return (plan->n_entries + plan->n_runs) * plan->tiles_max * plan->chunks_max * A_KV_HEADS * A_QUERY_PARTS;
}
ASSAY_FN uint32_t first_span() { return warp_of_block() * blocks_of_grid() + block_of_grid(); }

/* A warp's first span, found once a step: it is the same in every layer, and of few rows there is no other. */
ASSAY_FN void plan_spans() {
    static_assert(A_CHUNK / A_BLOCK + 2 <= 32, "a lane for each block of a span");
    assay_span s;
    const bool there = first_span() < spans_of_step() && span_at(first_span(), &s);
    assay_first_span *kept = shared()->spans + warp_of_block();
    if (there) kept->block[lane_of_warp()] = s.block;
    if (lane_of_warp() > 0) return;
    kept->there = there;
    kept->row0 = s.row0;
    kept->n_rows = s.n_rows;
    kept->head = s.head;
    kept->part = s.part;
    kept->first = s.first;
    kept->n = s.n;
    kept->chunk = s.chunk;
    kept->appends = s.appends;
}
ASSAY_FN bool first_span_of(uint32_t layer, assay_span *s) {
    const assay_first_span *kept = shared()->spans + warp_of_block();
    s->row0 = kept->row0;
    s->n_rows = kept->n_rows;
    s->head = kept->head;
    s->part = kept->part;
    s->first = kept->first;
    s->n = kept->n;
    s->chunk = kept->chunk;
    s->appends = kept->appends;
    s->block = kept->block[lane_of_warp()];
    s->layer = layer;
    return kept->there;
}

/* Before the layer's first product: what its attention reads is on its way meanwhile. */
ASSAY_FN void expect_attention(const assay_params *p, uint32_t layer) {
    assay_span s;
    if (first_span_of(layer, &s)) call_for(p, &s);
}

/* Warps, counted from the grid's end, join the chunks of one head of one row each: they have the fewest spans. Spans come
 * before and wait for nothing here, so that all parts come. */
ASSAY_FN void join_all(const assay_params *p, uint32_t layer) {
    const uint32_t last = blocks_of_grid() * A_WARPS - 1;
#pragma unroll 1
    for (uint32_t i = last - first_span(); i < the_plan()->n_rows * A_HEADS; i += last + 1)
        if (chunks_of(i / A_HEADS) > 1) join(p, layer, i / A_HEADS, i % A_HEADS);
}

ASSAY_COLD void attend(const assay_params *p, const float *q_gain, const float *k_gain, uint32_t layer) {
    const uint32_t n = spans_of_step();
#pragma unroll 1
    for (uint32_t i = first_span(); i < n; i += blocks_of_grid() * A_WARPS) {
        assay_span s;
        if (i == first_span()) {
            if (!first_span_of(layer, &s)) continue;
        } else {
            if (!span_at(i, &s)) continue;
            s.layer = layer;
            call_for(p, &s);
        }
        attend_chunk(p, q_gain, k_gain, &s);
        sync_warp();
    }
    join_all(p, layer);
}

#endif
