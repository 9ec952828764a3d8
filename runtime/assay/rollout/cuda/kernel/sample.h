/* A token for every row of logits: the distribution and the random numbers of `native/sampler.h`.
 *
 * Without filters the vocabulary is read in slices by all warps of the grid. With top_k, top_p or min_p one
 * block finds the threshold by radix selection. Masses are sums of whole numbers (A probability of 1 is
 * 2^40), which have no order: a row's token does not depend on its neighbours.
 */
#ifndef ASSAY_SAMPLE_H
#define ASSAY_SAMPLE_H

#include "memory.h"

#define A_SLICES ((A_VOCAB + A_SLICE - 1) / A_SLICE)
#define A_LANE_SLICES ((A_SLICES + 31) / 32)

typedef struct {
    float high;
    uint32_t at;
    float sum;
} assay_slice;

ASSAY_FN double uniform_of(uint64_t seed, uint64_t position) {
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)position, c1 = (uint32_t)(position >> 32), c2 = 0, c3 = 0;
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        const uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ key0, n2 = (uint32_t)(a >> 32) ^ c3 ^ key1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        c0 = n0;
        c2 = n2;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return ((double)(((uint64_t)c1 << 32 | c0) >> 11) + 0.5) / 9007199254740992.0;
}

ASSAY_FN const assay_sampler *sampler_of(uint32_t logit) {
    const assay_plan *plan = the_plan();
    return &shared()->rollouts[plan->slot[plan->logit_row[logit]]].sampler;
}

ASSAY_FN float scale_of(const assay_sampler *how) {
    return how->temperature > 0 ? 1.0f / how->temperature : 1.0f;
}

ASSAY_FN assay_slice *slices_of(const assay_params *p, uint32_t logit) {
    return (assay_slice *)(void *)(p->scratch + A_AT_SLICES) + (uint64_t)logit * A_SLICES;
}

/* The largest of a warp's values and the first place that has it. */
ASSAY_FN void keep_larger(float *high, uint32_t *at) {
    for (uint32_t m = 16; m > 0; m >>= 1) {
        const float other = swap_lanes_f(*high, m);
        const uint32_t other_at = swap_lanes(*at, m);
        if (other > *high || (other == *high && other_at < *at)) {
            *high = other;
            *at = other_at;
        }
    }
}

/* A warp per slice: its first largest logit, and the sum of exponentials relative to it. */
ASSAY_COLD void slice_all(const assay_params *p) {
    const uint32_t n = the_plan()->n_logits * A_SLICES, lane = lane_of_warp();
    for (uint32_t i = block_of_grid() * A_WARPS + warp_of_block(); i < n;
         i += blocks_of_grid() * A_WARPS) {
        const uint32_t logit = i / A_SLICES, first = i % A_SLICES * A_SLICE;
        const uint32_t end = first + A_SLICE < A_VOCAB ? first + A_SLICE : A_VOCAB;
        const float *logits = scratch_f(p, A_AT_LOGITS) + (uint64_t)logit * A_VOCAB;
        const float scale = the_plan()->scale[the_plan()->logit_row[logit]];
        float mine[A_SLICE / 32];
#pragma unroll
        for (uint32_t j = 0; j < A_SLICE / 32; j++) {
            const uint32_t v = first + lane + j * 32;
            mine[j] = v < end ? logits[v] : -INFINITY;
        }
        float high = -INFINITY;
        uint32_t at = first;
#pragma unroll
        for (uint32_t j = 0; j < A_SLICE / 32; j++)
            if (mine[j] > high) {
                high = mine[j];
                at = first + lane + j * 32;
            }
        keep_larger(&high, &at);
        const float from = high > -INFINITY ? high : 0.0f; /* -inf gives 0, NaN gives NaN */
        float sum = 0;
#pragma unroll
        for (uint32_t j = 0; j < A_SLICE / 32; j++) sum += exp_of((mine[j] - from) * scale);
        sum = warp_sum(sum);
        if (lane == 0) {
            assay_slice *to = slices_of(p, logit) + i % A_SLICES;
            to->high = high;
            to->at = at;
            to->sum = sum;
        }
    }
}

ASSAY_FN void answer(const assay_params *p, uint32_t logit, int32_t token, float logp) {
    ((int32_t *)(void *)(p->scratch + A_AT_TOKENS))[logit] = token;
    scratch_f(p, A_AT_LOGPS)[logit] = logp;
}

ASSAY_FN double from_lane_d(double v, uint32_t lane) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    const uint64_t low = from_lane((uint32_t)bits, lane), high = from_lane((uint32_t)(bits >> 32), lane);
    bits = high << 32 | low;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* One warp, a mass per lane: the first lane whose running sum passes the target, else the last that has
 * any. The target becomes what is left of it for that lane. All lanes get the same answer. */
ASSAY_FN uint32_t lane_that_reaches(double mass, double *target) {
    const uint32_t lane = lane_of_warp();
    double until = mass;
#pragma unroll 1
    for (uint32_t d = 1; d < 32; d *= 2) {
        const double below = from_lane_d(until, lane - d);
        if (lane >= d) until += below;
    }
    const bool some = mass > 0;
    uint32_t first = some && *target < until ? lane : 32, last = some ? lane : 0;
#pragma unroll 1
    for (uint32_t m = 16; m > 0; m >>= 1) {
        const uint32_t a = swap_lanes(first, m), b = swap_lanes(last, m);
        if (a < first) first = a;
        if (b > last) last = b;
    }
    if (first == 32) first = last;
    *target -= from_lane_d(until - mass, first);
    return first;
}

/* A lane's slices, which follow one another, of a row of logits. */
typedef struct {
    float high[A_LANE_SLICES], sum[A_LANE_SLICES];
    uint32_t at[A_LANE_SLICES];
} assay_lane_slices;

ASSAY_FN void ask_slices(const assay_params *p, uint32_t logit, assay_lane_slices *mine) {
    const assay_slice *slices = slices_of(p, logit);
#pragma unroll
    for (uint32_t i = 0; i < A_LANE_SLICES; i++) {
        const uint32_t s = lane_of_warp() * A_LANE_SLICES + i;
        const bool there = s < A_SLICES;
        mine->high[i] = there ? slices[s].high : -INFINITY;
        mine->at[i] = there ? slices[s].at : A_VOCAB;
        mine->sum[i] = there ? slices[s].sum : 0.0f;
    }
}

ASSAY_FN double mass_of_slice(const assay_lane_slices *mine, uint32_t i, float high, float scale) {
    return mine->high[i] > -INFINITY ? (double)exp_of((mine->high[i] - high) * scale) * (double)mine->sum[i] : 0.0;
}

/* A lane's logits, which follow one another, from `first` on; beyond `end` there are none. */
#define A_EACH (A_SLICE / 32)
ASSAY_FN void ask_logits(const float *logits, uint32_t first, uint32_t end, float *mine) {
#pragma unroll
    for (uint32_t i = 0; i < A_EACH; i++) mine[i] = -INFINITY;
    if constexpr (A_VOCAB % 4 == 0 && A_EACH % 4 == 0) { /* rows and lanes begin at sixteens */
#pragma unroll
        for (uint32_t i = 0; i < A_EACH; i += 4) {
            if (first + i >= end) continue;
            const assay_v4 four = *(const assay_v4 *)(const void *)(logits + first + i);
            mine[i] = float_of(four.x);
            mine[i + 1] = float_of(four.y);
            mine[i + 2] = float_of(four.z);
            mine[i + 3] = float_of(four.w);
        }
    } else {
#pragma unroll
        for (uint32_t i = 0; i < A_EACH; i++)
            if (first + i < end) mine[i] = logits[first + i];
    }
}

/* One warp: no filter. A lane's slices, one of them, a lane's logits in it, one of them; if rounding runs short, the
 * last possible one. */
ASSAY_FN void draw_plain(const assay_params *p, uint32_t logit, uint64_t position, const assay_lane_slices *slices,
                         float high, uint32_t best, double total) {
    static_assert(A_LANE_SLICES <= 32 && A_SLICE <= 1024, "a lane per slice, then per logit");
    const assay_sampler *how = sampler_of(logit);
    const uint32_t lane = lane_of_warp();
    if (!(how->temperature > 0)) {
        if (lane == 0) answer(p, logit, (int32_t)best, (float)-log(total));
        return;
    }
    const float *logits = scratch_f(p, A_AT_LOGITS) + (uint64_t)logit * A_VOCAB;
    const float scale = scale_of(how);
    double target = uniform_of(how->seed, position) * total, masses[A_LANE_SLICES], mass = 0;
#pragma unroll
    for (uint32_t i = 0; i < A_LANE_SLICES; i++) mass += masses[i] = mass_of_slice(slices, i, high, scale);
    const uint32_t of_lane = lane_that_reaches(mass, &target);
    mass = 0;
    float of_slice = 0;
#pragma unroll
    for (uint32_t i = 0; i < A_LANE_SLICES; i++) { /* lane i has slice i of that lane */
        const double one = from_lane_d(masses[i], of_lane);
        if (lane == i) mass = one;
    }
    const uint32_t of_those = lane_that_reaches(mass, &target);
#pragma unroll
    for (uint32_t i = 0; i < A_LANE_SLICES; i++) {
        const float one = float_of(from_lane(bits_of(slices->high[i]), of_lane));
        if (i == of_those) of_slice = one;
    }
    target /= (double)exp_of((of_slice - high) * scale);
    uint32_t first = (of_lane * A_LANE_SLICES + of_those) * A_SLICE;
    const uint32_t end = first + A_SLICE < A_VOCAB ? first + A_SLICE : A_VOCAB;
    float mine[A_EACH];
    ask_logits(logits, first + lane * A_EACH, end, mine);
    mass = 0;
#pragma unroll
    for (uint32_t i = 0; i < A_EACH; i++) mass += (double)exp_of((mine[i] - of_slice) * scale);
    const uint32_t chosen = lane_that_reaches(mass, &target);
    first += chosen * A_EACH;
    float *kept = (float *)(void *)shared()->u.sample.part; /* the lane's logits, for a lane each */
    sync_warp();
    if (lane == chosen)
#pragma unroll
        for (uint32_t i = 0; i < A_EACH; i++) kept[i] = mine[i];
    sync_warp();
    const float one = lane < A_EACH ? kept[lane] : -INFINITY;
    const uint32_t at = lane_that_reaches((double)exp_of((one - of_slice) * scale), &target);
    if (lane == at)
        answer(p, logit, (int32_t)(first + at), (float)((double)((one - high) * scale) - log(total)));
}

ASSAY_FN uint64_t mass_of(float logit, float high, float scale) {
    return (uint64_t)((double)exp_of((logit - high) * scale) * (double)ASSAY_UNIT);
}

/* Block-wide: the largest values until `budget` (a count or a mass) is used up: the smallest value that
 * stays, and what is left for values equal to it. `floor` and `ties` bound what takes part. */
ASSAY_FN void select_largest(const float *logits, float high, float scale, bool by_mass,
                             uint64_t budget, uint32_t floor, uint64_t ties) {
    assay_shared *s = shared();
    uint32_t prefix = 0, mask = 0;
    for (int pass = 0; pass < 3; pass++) {
        const uint32_t shift = pass == 0 ? 21 : pass == 1 ? 10 : 0, width = pass == 2 ? 10 : 11;
        const uint32_t me = thread_of_block();
        for (uint32_t i = me; i < 2048; i += A_THREADS) s->u.sample.mass[i] = 0;
        sync_block();
        for (uint32_t v = me; v < A_VOCAB; v += A_THREADS) {
            const uint32_t bits = bits_of(exp_of((logits[v] - high) * scale));
            if ((bits & mask) != prefix || bits <= floor) continue;
            add_shared(&s->u.sample.mass[bits >> shift & ((1u << width) - 1)],
                       by_mass ? mass_of(logits[v], high, scale) : 1ull);
        }
        sync_block();
        if (thread_of_block() == 0) {
            if (floor && (floor & mask) == prefix)
                s->u.sample.mass[floor >> shift & ((1u << width) - 1)] +=
                    ties * (by_mass ? (uint64_t)((double)float_of(floor) * (double)ASSAY_UNIT) : 1);
            uint32_t bucket = (1u << width) - 1, lowest = 0;
            while (lowest < bucket && s->u.sample.mass[lowest] == 0) lowest++;
            while (bucket > lowest && budget > s->u.sample.mass[bucket])
                budget -= s->u.sample.mass[bucket--];
            s->u.sample.threshold = prefix | bucket << shift;
            s->u.sample.left = budget;
        }
        sync_block();
        prefix = s->u.sample.threshold;
        budget = s->u.sample.left;
        mask |= ((1u << width) - 1) << shift;
        sync_block();
    }
}

/* Block-wide: mass of what stays in the whole vocabulary, then the token that `u` of it reaches.
 * Values equal to the threshold stay in vocabulary order while `ties` lasts. */
ASSAY_FN void draw_kept(const assay_params *p, uint32_t logit, uint64_t position, float high,
                        uint32_t threshold, uint64_t ties, float least) {
    assay_shared *s = shared();
    const assay_sampler *how = sampler_of(logit);
    const float *logits = scratch_f(p, A_AT_LOGITS) + (uint64_t)logit * A_VOCAB;
    const float scale = scale_of(how);
    const uint32_t me = thread_of_block(), span = (A_VOCAB + A_THREADS - 1) / A_THREADS;
    const uint32_t first = me * span < A_VOCAB ? me * span : A_VOCAB;
    const uint32_t end = first + span < A_VOCAB ? first + span : A_VOCAB;
    uint32_t equal = 0;
    for (uint32_t v = first; v < end; v++)
        equal += bits_of(exp_of((logits[v] - high) * scale)) == threshold;
    s->u.sample.ties[me] = equal;
    sync_block();
    uint64_t before = 0, mass = 0;
    for (uint32_t t = 0; t < me; t++) before += s->u.sample.ties[t];
    uint64_t rank = before;
    for (uint32_t v = first; v < end; v++) {
        const float share = exp_of((logits[v] - high) * scale);
        const uint32_t bits = bits_of(share);
        const bool stays = bits > threshold || (bits == threshold && rank++ < ties);
        if (stays && share >= least) mass += mass_of(logits[v], high, scale);
    }
    s->u.sample.part[me] = mass;
    sync_block();
    uint64_t total = 0, until = 0;
    for (uint32_t t = 0; t < A_THREADS; t++) {
        if (t == me) until = total;
        total += s->u.sample.part[t];
    }
    uint64_t target = (uint64_t)(uniform_of(how->seed, position) * (double)total);
    if (target >= total) target = total - 1;
    if (mass && until <= target && target < until + mass) {
        uint64_t sum = until;
        uint32_t token = first;
        rank = before;
        for (uint32_t v = first; v < end; v++) {
            const float share = exp_of((logits[v] - high) * scale);
            const uint32_t bits = bits_of(share);
            const bool stays = bits > threshold || (bits == threshold && rank++ < ties);
            if (!stays || !(share >= least)) continue;
            token = v;
            sum += mass_of(logits[v], high, scale);
            if (sum > target) break;
        }
        const double whole = (double)total / (double)ASSAY_UNIT;
        answer(p, logit, (int32_t)token,
               (float)((double)((logits[token] - high) * scale) - log(whole)));
    }
    sync_block();
}

ASSAY_COLD void draw_filtered(const assay_params *p, uint32_t logit, uint64_t position, float high,
                              double total) {
    assay_shared *s = shared();
    const assay_sampler *how = sampler_of(logit);
    const float *logits = scratch_f(p, A_AT_LOGITS) + (uint64_t)logit * A_VOCAB;
    const float scale = scale_of(how);
    uint32_t threshold = 0;
    uint64_t ties = A_VOCAB, mass = (uint64_t)(total * (double)ASSAY_UNIT);
    if (how->top_k > 0 && how->top_k < A_VOCAB) {
        select_largest(logits, high, scale, false, how->top_k, 0, 0);
        threshold = s->u.sample.threshold;
        ties = s->u.sample.left;
        sync_block();
    }
    if (how->top_p < 1.0f) {
        const uint32_t me = thread_of_block();
        uint64_t kept = 0;
        for (uint32_t v = me; v < A_VOCAB; v += A_THREADS)
            if (bits_of(exp_of((logits[v] - high) * scale)) > threshold)
                kept += mass_of(logits[v], high, scale);
        s->u.sample.part[me] = kept;
        sync_block();
        const uint64_t one = (uint64_t)((double)float_of(threshold) * (double)ASSAY_UNIT);
        mass = threshold ? ties * one : 0;
        for (uint32_t t = 0; t < A_THREADS; t++) mass += s->u.sample.part[t];
        sync_block();
        uint64_t budget = (uint64_t)((double)mass * (double)(how->top_p > 0 ? how->top_p : 0.0f));
        select_largest(logits, high, scale, true, budget ? budget : 1, threshold,
                       threshold ? ties : 0);
        threshold = s->u.sample.threshold;
        const uint64_t each = (uint64_t)((double)float_of(threshold) * (double)ASSAY_UNIT);
        ties = each ? (s->u.sample.left + each - 1) / each : 1;
        sync_block();
    }
    const float least = how->min_p > 0 ? (how->min_p < 1 ? how->min_p : 1.0f) : 0.0f;
    draw_kept(p, logit, position, high, threshold, ties, least);
}

ASSAY_FN double warp_sum_d(double v) {
#pragma unroll 1
    for (uint32_t m = 16; m > 0; m >>= 1) v += from_lane_d(v, lane_of_warp() ^ m);
    return v;
}

/* A block per row: every warp finds the largest logit and the mass, then warp 0 or all of them the token. */
ASSAY_COLD void draw_all(const assay_params *p) {
    const assay_plan *plan = the_plan();
    for (uint32_t logit = block_of_grid(); logit < plan->n_logits; logit += blocks_of_grid()) {
        const assay_sampler *how = sampler_of(logit);
        const uint64_t position = (uint64_t)plan->pos[plan->logit_row[logit]] + 1;
        const float scale = scale_of(how);
        assay_lane_slices slices;
        ask_slices(p, logit, &slices);
        float high = -INFINITY, sums = 0;
        uint32_t best = A_VOCAB;
#pragma unroll
        for (uint32_t i = 0; i < A_LANE_SLICES; i++) {
            if (slices.high[i] > high) {
                high = slices.high[i];
                best = slices.at[i];
            }
            sums += slices.sum[i]; /* NaN if one is */
        }
        keep_larger(&high, &best);
        sums = warp_sum(sums);
        double total = 0;
#pragma unroll
        for (uint32_t i = 0; i < A_LANE_SLICES; i++) total += mass_of_slice(&slices, i, high, scale);
        total = warp_sum_d(total);
        const bool broken = sums != sums || !(high - high == 0) || !(total - total == 0);
        const bool filtered = how->temperature > 0 && ((how->top_k > 0 && how->top_k < A_VOCAB) ||
                                                       how->top_p < 1.0f || how->min_p > 0);
        if (broken) {
            if (thread_of_block() == 0) answer(p, logit, -1, NAN);
        } else if (filtered) {
            draw_filtered(p, logit, position, high, total);
        } else if (warp_of_block() == 0) {
            draw_plain(p, logit, position, &slices, high, best, total);
        }
    }
}

#endif
