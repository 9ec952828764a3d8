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

ASSAY_FN assay_v4 eight_at(const uint16_t *from, uint32_t d) {
    const assay_v4 none = {0, 0, 0, 0};
    return d < A_HEAD_DIM ? *(const assay_v4 *)(const void *)(from + d) : none;
}

/* The span's queries, where they have been made, into this warp's part of shared memory. */
ASSAY_FN void take_queries(const assay_params *p, const assay_span *s) {
    constexpr uint32_t EACH = A_HEAD_DIM / 8;
#pragma unroll 1
    for (uint32_t at = lane_of_warp(); at < s->n_rows * A_QUERIES_AT_ONCE * EACH; at += 32) {
        const uint32_t query = at / EACH, head = head_of_query(s, query);
        copy_sixteen(my_queries() + query * A_QUERY_STRIDE + at % EACH * 8,
                     turned_at(p, row_of_query(s, query), head < A_HEADS ? head : A_HEADS - 1) + at % EACH * 8);
    }
    await_copies();
    sync_warp();
}

/* The span's queries, normed, rotated and in bf16, into this warp's part of shared memory; and what the row appends
 * at its newest position into its place. Some are asked for at once, until they are there. */
ASSAY_FN void prepare(const assay_params *p, const float *q_gain, const float *k_gain,
                      const assay_span *s, uint32_t newest, uint64_t place) {
    constexpr uint32_t SOME = A_PAIRS <= 2 ? 2 : 1;
    if (the_plan()->ready) return take_queries(p, s);
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
#pragma unroll
            for (uint32_t i = 0; i < A_PAIRS; i++) /* one row's: the same position */
                for (uint32_t half = 0; half < 2; half++) its.key.turn[i][half] = head[0].turn[i][half];
            append(p, &its, k_gain, scales[SOME], place, newest, my_key());
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

/* The shares of 32 positions as a product takes them, and which of the positions there are. */
typedef struct {
    uint32_t share[2][4];
    assay_v4 mask;
} assay_mix;

ASSAY_FN void ready_mix(const assay_span *s, uint32_t from, const float (*share)[4], assay_mix *mix) {
    const uint32_t at = from + (lane_of_warp() & 3) * 8;
    mix->mask = only_first(at < s->n ? s->n - at : 0);
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        mix->share[i][0] = bf16_pair(share[2 * i][0], share[2 * i][1]);
        mix->share[i][1] = bf16_pair(share[2 * i][2], share[2 * i][3]);
        mix->share[i][2] = bf16_pair(share[2 * i + 1][0], share[2 * i + 1][1]);
        mix->share[i][3] = bf16_pair(share[2 * i + 1][2], share[2 * i + 1][3]);
    }
}
/* Eight dimensions' values of half of the positions. */
ASSAY_FN void mix_16(const assay_mix *mix, uint32_t half, assay_v4 v, float *mixed) {
    const uint32_t *a = mix->share[half];
    multiply_add(mixed, a[0], a[1], a[2], a[3], half ? v.z & mix->mask.z : v.x & mix->mask.x,
                 half ? v.w & mix->mask.w : v.y & mix->mask.y);
}

/* They are mixed by their shares. */
ASSAY_FN void mix_32(const assay_span *s, uint32_t from, const float (*share)[4], const assay_v4 *v,
                     float (*mixed)[4]) {
    assay_mix mix;
    ready_mix(s, from, share, &mix);
#pragma unroll
    for (uint32_t half = 0; half < 2; half++)
#pragma unroll
        for (uint32_t tile = 0; tile < A_HEAD_DIM / 8; tile++) mix_16(&mix, half, v[tile], mixed[tile]);
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

/* One query's result over chunks from `origin` to the span's: the whole of it where there is no other, else a part, whose
 * place is that of a chunk. */
ASSAY_FN void leave_result(const assay_params *p, const assay_span *s, uint32_t origin, uint32_t place, uint32_t query,
                           uint32_t half, const float (*mixed)[4], float high, float sum) {
    const uint32_t t = lane_of_warp() & 3, row = row_of_query(s, query);
    const uint32_t head = head_of_query(s, query);
    if (origin == 0 && chunks_of(row) <= s->chunk + 1) {
        const float inverse = quotient(1.0f, sum);
        uint32_t *out = attended_at(p, s->layer, row, head);
#pragma unroll
        for (uint32_t tile = 0; tile < A_HEAD_DIM / 8; tile++)
            tell_gpu(out + tile * 4 + t,
                     bf16_pair(mixed[tile][half * 2] * inverse, mixed[tile][half * 2 + 1] * inverse));
        return;
    }
    const uint64_t part = part_at(row, head, place);
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
    const uint32_t newest = s->first + s->n - 1;
    prepare(p, q_gain, k_gain, s, newest, s->appends ? place_of(s, newest) : 0);
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
        if (reach[half]) leave_result(p, s, s->chunk, s->chunk, g + half * 8, half, mixed, high[half], sum[half]);
}

/* ---- folding ------------------------------------------------------------------------------------- */

/* A query's chunks are folded in segments, and those one after the other: in one way only, whether a warp has a chunk or a
 * segment. So both leave the same bits. */
#define A_SEGMENT 8u /* chunks */

/* A query's result over more positions: what both are multiplied with, relative to the larger of their largest scores. */
ASSAY_FN void weigh(float *high, float with, float *before, float *weight) {
    const float most = fmaxf(*high, with);
    *before = exp_of(*high - most); /* 0 the first time */
    *weight = exp_of(with - most);
    *high = most;
}
ASSAY_FN float folded(float was, float before, float with, float weight) { return fused(with, weight, was * before); }

/* One query's numbers of one part, as `join` has them: dimensions 2 * lane, and so on. */
typedef struct {
    float high, sum, mixed[A_PAIRS][2];
} assay_joined;

ASSAY_FN void nothing_joined(assay_joined *j) {
    j->high = -INFINITY;
    j->sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < A_PAIRS; i++) j->mixed[i][0] = j->mixed[i][1] = 0;
}
ASSAY_FN void fold_part(assay_joined *j, const assay_joined *with) {
    float before, weight;
    weigh(&j->high, with->high, &before, &weight);
    j->sum = folded(j->sum, before, with->sum, weight);
#pragma unroll
    for (uint32_t i = 0; i < A_PAIRS; i++)
#pragma unroll
        for (uint32_t half = 0; half < 2; half++)
            j->mixed[i][half] = folded(j->mixed[i][half], before, with->mixed[i][half], weight);
}

/* The parts of (row, head), eight at once, read until they are there: those from `first` on of n, each in a place. What is
 * not there counts as nothing. */
template <typename PLACE>
ASSAY_FN void ask_parts(const assay_params *p, uint64_t parts, uint32_t tag, uint32_t first, uint32_t n, const PLACE &place,
                        assay_joined *part) {
    const uint32_t lane = lane_of_warp();
    for (bool whole = false; !whole;) {
        whole = true;
#pragma unroll
        for (uint32_t c = 0; c < A_SEGMENT; c++) {
            const uint64_t from = parts + place(first + c < n ? first + c : first) * A_PART;
            whole = ask_pair(p, from + A_HEAD_DIM, tag, &part[c].high, &part[c].sum) && whole;
#pragma unroll
            for (uint32_t i = 0; i < A_PAIRS; i++) {
                const uint32_t d = 2 * (lane + i * 32);
                float *pair = part[c].mixed[i];
                pair[0] = pair[1] = 0.0f;
                if (d < A_HEAD_DIM) whole = ask_pair(p, from + d, tag, pair, pair + 1) && whole;
            }
        }
        if (!whole) look_again();
    }
#pragma unroll
    for (uint32_t c = 0; c < A_SEGMENT; c++)
        if (first + c >= n) part[c].high = -INFINITY;
}

ASSAY_FN void leave_joined(const assay_params *p, uint32_t layer, uint32_t row, uint32_t head, const assay_joined *all) {
    const float inverse = quotient(1.0f, all->sum);
    uint32_t *out = attended_at(p, layer, row, head);
#pragma unroll
    for (uint32_t i = 0; i < A_PAIRS; i++)
        if (lane_of_warp() + i * 32 < A_HALF)
            tell_gpu(out + lane_of_warp() + i * 32, bf16_pair(all->mixed[i][0] * inverse, all->mixed[i][1] * inverse));
}

/* One warp: the parts of a row's head that are chunks. */
ASSAY_FN void join_chunks(const assay_params *p, uint32_t layer, uint32_t row, uint32_t head) {
    const uint32_t chunks = chunks_of(row), tag = tag_of(layer);
    const uint64_t parts = part_at(row, head, 0);
    assay_joined all, segment, part[A_SEGMENT];
    nothing_joined(&all);
#pragma unroll 1
    for (uint32_t first = 0;; first += A_SEGMENT) {
        ask_parts(p, parts, tag, first, chunks, [](uint32_t number) { return number; }, part);
        nothing_joined(&segment);
#pragma unroll
        for (uint32_t c = 0; c < A_SEGMENT; c++) fold_part(&segment, part + c);
        if (chunks <= A_SEGMENT) break; /* folded to nothing it is the same */
        fold_part(&all, &segment);
        segment = all;
        if (first + A_SEGMENT >= chunks) break;
    }
    leave_joined(p, layer, row, head, &segment);
}

/* One warp: those that are segments. Of one that begins in the chunks of a run, the row's own part is the whole: it has gone
 * on from the run's. */
ASSAY_FN void join_segments(const assay_params *p, uint32_t layer, uint32_t row, uint32_t head) {
    const uint32_t n = (chunks_of(row) + A_SEGMENT - 1) / A_SEGMENT, tag = tag_of(layer);
    const uint32_t own = row < the_plan()->n_logits ? the_plan()->entries[row].chunk0 : 0;
    const uint64_t parts = part_at(row, head, 0);
    assay_joined all, part[A_SEGMENT];
    nothing_joined(&all);
#pragma unroll 1
    for (uint32_t first = 0; first < n; first += A_SEGMENT) {
        const auto place = [own](uint32_t number) {
            const uint32_t origin = number * A_SEGMENT;
            return origin < own && own < origin + A_SEGMENT ? own : origin;
        };
        ask_parts(p, parts, tag, first, n, place, part);
#pragma unroll
        for (uint32_t c = 0; c < A_SEGMENT; c++) fold_part(&all, part + c);
    }
    leave_joined(p, layer, row, head, &all);
}

#endif
