/* Which warp attends to what. A span is one chunk of positions of one key's head, for up to 16 queries; spans have numbers,
 * and warps take them in turn. A span costs a way to memory for its queries, and parts that another warp joins. In a step
 * that has several for each warp they are wide: all chunks of a segment, folded by one warp, with the same bits.
 */
#ifndef ASSAY_SPANS_H
#define ASSAY_SPANS_H

#include "attend.h"

/* ---- a segment ----------------------------------------------------------------------------------- */

/* As registers allow, of which the general kernel has fewer; and a lane for each block of a segment. */
#define A_FOLDS \
    (A_WIDE && !A_GENERAL && A_SPANS == 1 && A_DEPTHS <= 4 && A_CHUNK % A_BLOCK == 0 && A_SEGMENT * A_CHUNK / A_BLOCK <= 32)

/* The span at another chunk of its segment; its lanes keep the blocks of all of it. */
ASSAY_FN void go_to_chunk(assay_span *s, uint32_t chunk, uint32_t last) {
    s->chunk = chunk;
    s->first = chunk * A_CHUNK;
    s->n = last + 1 - s->first < A_CHUNK ? last + 1 - s->first : A_CHUNK;
}

/* What a warp has of its queries so far, as `join_chunks` has it of one. */
typedef struct {
    float high[2], sum[2], mixed[A_HEAD_DIM / 8][4];
} assay_sofar;

/* A chunk's values, mixed by their shares and folded, some tiles of eight dimensions at once. */
ASSAY_FN void fold_32(const assay_span *s, const float (*share)[4], const assay_v4 *v, const float (*factor)[2],
                      assay_sofar *sofar) {
    constexpr uint32_t SOME = A_HEAD_DIM % 32 ? 1 : 4;
    assay_mix mix;
    ready_mix(s, 0, share, &mix);
#pragma unroll
    for (uint32_t first = 0; first < A_HEAD_DIM / 8; first += SOME) {
        float mixed[SOME][4];
#pragma unroll
        for (uint32_t i = 0; i < SOME; i++) mixed[i][0] = mixed[i][1] = mixed[i][2] = mixed[i][3] = 0;
#pragma unroll
        for (uint32_t half = 0; half < 2; half++)
#pragma unroll
            for (uint32_t i = 0; i < SOME; i++) mix_16(&mix, half, v[first + i], mixed[i]);
#pragma unroll
        for (uint32_t i = 0; i < SOME; i++)
#pragma unroll
            for (uint32_t one = 0; one < 4; one++) {
                float *to = &sofar->mixed[first + i][one];
                *to = folded(*to, factor[one / 2][0], mixed[i][one], factor[one / 2][1]);
            }
    }
}

/* The run's part of a segment, once it is there: what comes before a row's own chunks. Runs have lower numbers than the rows
 * of the same turn, so no warp waits for one that waits for it. */
ASSAY_FN void take_up(const assay_params *p, const assay_span *s, uint32_t origin, const bool *there,
                      assay_sofar *sofar) {
    const uint32_t g = lane_of_warp() >> 2, t = lane_of_warp() & 3, tag = tag_of(s->layer);
    constexpr uint32_t SOME = A_HEAD_DIM % 32 ? 1 : 4;
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        if (!there[half]) continue;
        const uint32_t query = g + half * 8;
        const uint64_t part = part_at(row_of_query(s, query), head_of_query(s, query), origin);
        while (!ask_pair(p, part + A_HEAD_DIM, tag, sofar->high + half, sofar->sum + half)) look_again();
#pragma unroll
        for (uint32_t first = 0; first < A_HEAD_DIM / 8; first += SOME)
            for (bool whole = false; !whole;) {
                whole = true;
#pragma unroll
                for (uint32_t tile = first; tile < first + SOME; tile++) {
                    float *pair = sofar->mixed[tile] + 2 * half;
                    whole = ask_pair(p, part + tile * 8 + 2 * t, tag, pair, pair + 1) && whole;
                }
                if (!whole) look_again();
            }
    }
    sync_warp();
}

/* One warp: the queries of a wide span over its chunks, in their order. */
ASSAY_FN void attend_segment(const assay_params *p, const float *q_gain, const float *k_gain, assay_span *s) {
    const uint32_t g = lane_of_warp() >> 2, first = s->chunk, origin = first - first % A_SEGMENT;
    const uint32_t last = the_plan()->pos[s->row0 + s->n_rows - 1];
    assay_sofar sofar;
#pragma unroll
    for (uint32_t half = 0; half < 2; half++) {
        sofar.high[half] = -INFINITY;
        sofar.sum[half] = 0;
#pragma unroll
        for (uint32_t i = 0; i < A_HEAD_DIM / 8; i++) sofar.mixed[i][2 * half] = sofar.mixed[i][2 * half + 1] = 0;
    }
    assay_v4 k[4][A_DEPTHS], v[A_HEAD_DIM / 8];
    const bool there[2] = {reach_of(s, g) > 0, reach_of(s, g + 8) > 0};
    ask_keys<1>(p, s, 0, k);
    prepare(p, q_gain, k_gain, s, last, s->appends ? place_of(s, last) : 0);
    if (s->appends && s->until == first + 1) put_newest<1>(s, k);
    if (origin < first) take_up(p, s, origin, there, &sofar);
#pragma unroll 1
    for (;;) {
        const uint32_t reach[2] = {reach_of(s, g), reach_of(s, g + 8)};
        float score[4][4], high[2], sum[2], factor[2][2];
        score_spans<1>(k, score);
        ask_values(p, s, 0, v);
        share_out(reach, score, high, sum);
#pragma unroll
        for (uint32_t half = 0; half < 2; half++) {
            weigh(sofar.high + half, high[half], &factor[half][0], &factor[half][1]);
            sofar.sum[half] = folded(sofar.sum[half], factor[half][0], sum[half], factor[half][1]);
        }
        fold_32(s, score, v, factor, &sofar);
        if (s->chunk + 1 == s->until) break;
        go_to_chunk(s, s->chunk + 1, last);
        ask_keys<1>(p, s, 0, k);
    }
#pragma unroll
    for (uint32_t half = 0; half < 2; half++)
        if (there[half])
            leave_result(p, s, origin, first, g + half * 8, half, sofar.mixed, sofar.high[half], sofar.sum[half]);
}

/* ---- spans --------------------------------------------------------------------------------------- */

/* The span with a number; false: there is none. */
ASSAY_FN bool span_at(uint32_t number, assay_span *s) {
    const assay_plan *plan = the_plan();
    const uint32_t lists = plan->n_entries + plan->n_runs;
    s->head = number % A_KV_HEADS;
    s->part = number / A_KV_HEADS % A_QUERY_PARTS;
    const uint32_t rest = number / (A_KV_HEADS * A_QUERY_PARTS), step = shared()->division.wide ? A_SEGMENT : 1;
    const uint32_t tiles = plan->tiles_max, turn = rest / (lists * tiles), of_turn = rest - turn * lists * tiles;
    const bool single = tiles == 1; /* as in most steps; a division costs a hundred cycles */
    const uint32_t one = single ? of_turn : of_turn / tiles, tile = single ? 0 : of_turn - one * tiles;
    const bool own = one >= plan->n_runs;
    const assay_entry *e = own ? plan->entries + one - plan->n_runs : plan->runs + one;
    if (tile * A_ROWS_AT_ONCE >= e->n_rows) return false;
    const uint32_t left = e->n_rows - tile * A_ROWS_AT_ONCE;
    s->row0 = e->row0 + tile * A_ROWS_AT_ONCE;
    s->n_rows = left < A_ROWS_AT_ONCE ? left : A_ROWS_AT_ONCE;
    const uint32_t last = plan->pos[s->row0 + s->n_rows - 1];
    const uint32_t end = last / A_CHUNK < e->last_chunk ? last / A_CHUNK + 1 : e->last_chunk + 1;
    s->chunk = turn * step;
    s->until = s->chunk + step;
    if (s->chunk < e->chunk0) s->chunk = e->chunk0;
    if (s->until > end) s->until = end;
    if (s->chunk >= s->until) return false;
    s->first = s->chunk * A_CHUNK;
    s->n = last + 1 - s->first < A_CHUNK ? last + 1 - s->first : A_CHUNK;
    s->appends = own && !plan->ready && s->until == e->last_chunk + 1;
    s->block0 = s->first / A_BLOCK;
    const uint32_t pos = (s->block0 + lane_of_warp()) * A_BLOCK;
    s->block = pos <= last && pos < s->until * A_CHUNK ? block_of(plan->table[s->row0], pos) : 0;
    return true;
}

ASSAY_FN uint32_t first_span() { return warp_of_block() * blocks_of_grid() + block_of_grid(); }
ASSAY_FN uint32_t all_warps() { return blocks_of_grid() * A_WARPS; }

/* A warp, once a step: its spans. They are wide where chunks are more than A_WIDE for each two warps. */
ASSAY_FN void divide_step() {
    const assay_plan *plan = the_plan();
    const uint32_t lists = plan->n_entries + plan->n_runs, heads = A_KV_HEADS * A_QUERY_PARTS;
    uint32_t chunks = 0;
    for (uint32_t i = lane_of_warp(); i < lists; i += 32) {
        const assay_entry *e = i < plan->n_entries ? plan->entries + i : plan->runs + i - plan->n_entries;
        chunks += (e->last_chunk + 1 - e->chunk0) * ((e->n_rows + A_ROWS_AT_ONCE - 1) / A_ROWS_AT_ONCE);
    }
    for (uint32_t m = 16; m > 0; m >>= 1) chunks += swap_lanes(chunks, m);
    if (lane_of_warp() > 0) return;
    const bool wide = A_FOLDS && 2 * chunks * heads > A_WIDE * all_warps();
    const uint32_t turns = wide ? (plan->chunks_max + A_SEGMENT - 1) / A_SEGMENT : plan->chunks_max;
    shared()->division.wide = wide;
    shared()->division.n_spans = lists * plan->tiles_max * turns * heads;
}

/* A warp's first span, found once a step: it is the same in every layer, and of few rows there is no other. */
ASSAY_FN void plan_spans() {
    static_assert(A_CHUNK / A_BLOCK + 2 <= 32, "a lane for each block of a span");
    assay_span s;
    const bool there = first_span() < shared()->division.n_spans && span_at(first_span(), &s);
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
    kept->until = s.until;
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
    s->until = kept->until;
    s->appends = kept->appends;
    s->block = kept->block[lane_of_warp()];
    s->block0 = s->first / A_BLOCK;
    s->layer = layer;
    return kept->there;
}

/* Before the layer's first product: what its attention reads is on its way meanwhile. */
ASSAY_FN void expect_attention(const assay_params *p, uint32_t layer) {
    assay_span s;
    if (first_span_of(layer, &s)) call_for(p, &s);
}

/* Warps, counted from the grid's end, join the parts of one head of one row each: they have the fewest spans. Spans come
 * before and wait for nothing here, so that all parts come. */
ASSAY_FN void join_all(const assay_params *p, uint32_t layer) {
    const bool wide = A_FOLDS && shared()->division.wide;
#pragma unroll 1
    for (uint32_t i = all_warps() - 1 - first_span(); i < the_plan()->n_rows * A_HEADS; i += all_warps()) {
        const uint32_t row = i / A_HEADS, chunks = chunks_of(row);
        if (!wide && chunks > 1) join_chunks(p, layer, row, i % A_HEADS);
        if (wide && chunks > A_SEGMENT) join_segments(p, layer, row, i % A_HEADS);
    }
}

ASSAY_COLD void attend(const assay_params *p, const float *q_gain, const float *k_gain, uint32_t layer) {
    const uint32_t n = shared()->division.n_spans;
#pragma unroll 1
    for (uint32_t i = first_span(); i < n; i += all_warps()) {
        assay_span s;
        if (i == first_span()) {
            if (!first_span_of(layer, &s)) continue;
        } else {
            if (!span_at(i, &s)) continue;
            s.layer = layer;
        }
        if (A_FOLDS && shared()->division.wide)
            attend_segment(p, q_gain, k_gain, &s);
        else
            attend_chunk(p, q_gain, k_gain, &s);
        sync_warp();
    }
    join_all(p, layer);
}

#endif
