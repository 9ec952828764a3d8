/* See sampler.h. Filters never sort the vocabulary: a bound discards nearly all of it, and a
 * radix selection over the bits of the rest finds the threshold. */
#include "sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "isa.h"

static size_t blocks_of(uint32_t n) {
    return ((size_t)n + ASSAY_SUM_BLOCK - 1) / ASSAY_SUM_BLOCK;
}

static size_t aligned(size_t bytes) {
    return (bytes + 63) & ~(size_t)63;
}

size_t assay_sample_scratch_bytes(uint32_t vocab_size) {
    const size_t blocks = blocks_of(vocab_size);
    return aligned(blocks * ASSAY_SUM_BLOCK * sizeof(float)) + aligned(blocks * sizeof(double)) +
           aligned(vocab_size * sizeof(float)) + aligned(vocab_size * sizeof(uint32_t));
}

void assay_sample_scratch_init(assay_sample_scratch *scratch, void *memory, uint32_t vocab_size) {
    const size_t blocks = blocks_of(vocab_size);
    uint8_t *at = memory;
    scratch->probs = (float *)(void *)at;
    at += aligned(blocks * ASSAY_SUM_BLOCK * sizeof(float));
    scratch->sums = (double *)(void *)at;
    at += aligned(blocks * sizeof(double));
    scratch->kept = (float *)(void *)at;
    at += aligned(vocab_size * sizeof(float));
    scratch->kept_id = (uint32_t *)(void *)at;
}

double assay_uniform(uint64_t seed, uint64_t position) {
    uint32_t key0 = (uint32_t)seed;
    uint32_t key1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)position;
    uint32_t c1 = (uint32_t)(position >> 32);
    uint32_t c2 = 0;
    uint32_t c3 = 0;
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * c0;
        const uint64_t b = (uint64_t)0xCD9E8D57u * c2;
        const uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ key0;
        const uint32_t n2 = (uint32_t)(a >> 32) ^ c3 ^ key1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        c0 = n0;
        c2 = n2;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    const uint64_t bits = (((uint64_t)c1 << 32) | c0) >> 11;
    return ((double)bits + 0.5) * 0x1p-53;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Selects the largest values until `budget` (count or mass) is used up. */
typedef struct {
    uint32_t threshold; /* bits of the smallest value that stays */
    double left;        /* budget left for values equal to it */
} cut;

/* Values are >= 0, so their bits order as they do. Each pass fixes 11, 11, 10 bits. */
static cut select_largest(const float *values, uint32_t n, double budget, int by_mass) {
    static const int shifts[] = {21, 10, 0};
    static const int widths[] = {11, 11, 10};
    double weight[2048];
    uint32_t prefix = 0;
    uint32_t mask = 0;
    for (int pass = 0; pass < 3; pass++) {
        const uint32_t buckets = 1u << widths[pass];
        memset(weight, 0, sizeof weight);
        uint32_t lowest = buckets;
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t bits = bits_of(values[i]);
            if ((bits & mask) == prefix) {
                const uint32_t bucket = (bits >> shifts[pass]) & (buckets - 1);
                weight[bucket] += by_mass ? (double)values[i] : 1.0;
                lowest = bucket < lowest ? bucket : lowest;
            }
        }
        uint32_t bucket = buckets - 1;
        while (bucket > lowest && budget > weight[bucket]) {
            budget -= weight[bucket];
            bucket--;
        }
        prefix |= bucket << shifts[pass];
        mask |= (buckets - 1) << shifts[pass];
    }
    return (cut){prefix, budget};
}

/* Keeps values above the threshold, and of those equal to it, in order, as many as the budget
 * covers (at least one, so that the set reaches the budget). */
static uint32_t apply_cut(assay_sample_scratch *s, uint32_t n, cut at, int by_mass) {
    uint32_t kept = 0;
    double left = at.left;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t bits = bits_of(s->kept[i]);
        int stays = bits > at.threshold;
        if (bits == at.threshold && left > 0) {
            stays = 1;
            left -= by_mass ? (double)s->kept[i] : 1.0;
        }
        if (stays) {
            s->kept[kept] = s->kept[i];
            s->kept_id[kept] = s->kept_id[i];
            kept++;
        }
    }
    return kept;
}

static uint32_t keep_from(assay_sample_scratch *s, uint32_t n, float bound) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        s->kept[kept] = s->probs[i];
        s->kept_id[kept] = i;
        kept += s->probs[i] >= bound;
    }
    return kept;
}

/* A value that at least k of n probabilities reach: the k-th largest of the blocks' largest. */
static float top_k_bound(assay_sample_scratch *s, uint32_t n, uint32_t k) {
    enum { STRIDE = 64 };
    const uint32_t blocks = n / STRIDE;
    if (k > blocks) {
        return 0.0f;
    }
    for (uint32_t b = 0; b < blocks; b++) {
        float top = 0.0f;
        for (uint32_t i = b * STRIDE; i < (b + 1) * STRIDE; i++) {
            top = s->probs[i] > top ? s->probs[i] : top;
        }
        s->kept[b] = top;
    }
    const cut at = select_largest(s->kept, blocks, k, 0);
    float bound;
    memcpy(&bound, &at.threshold, sizeof bound);
    return bound;
}

static double sum_kept(const assay_sample_scratch *s, uint32_t n) {
    double total = 0;
    for (uint32_t i = 0; i < n; i++) {
        total += (double)s->kept[i];
    }
    return total;
}

static int limits_count(const assay_sampler *sampler, uint32_t vocab_size) {
    return sampler->top_k > 0 && sampler->top_k < vocab_size;
}

static int limits_mass(const assay_sampler *sampler) {
    return sampler->top_p < 1.0f;
}

static double mass_share(const assay_sampler *sampler) {
    return sampler->top_p > 0.0f ? (double)sampler->top_p : 0.0;
}

/* min_p, at most 1; 0: off. */
static float least_share(const assay_sampler *sampler) {
    if (!(sampler->min_p > 0.0f)) {
        return 0.0f;
    }
    return sampler->min_p < 1.0f ? sampler->min_p : 1.0f;
}

static int has_filter(const assay_sampler *sampler, uint32_t vocab_size) {
    return limits_count(sampler, vocab_size) || limits_mass(sampler) || sampler->min_p > 0.0f;
}

/* A probability that every token passing the filters reaches; tokens below it need not be kept.
 * top_k: a value that k tokens reach. top_p alone: tokens below one n-th of the mass that it discards
 * cannot be in its set. min_p counts only where no top_p comes before it. */
static float safe_bound(const assay_sampler *sampler, uint32_t vocab_size, double total,
                        assay_sample_scratch *s) {
    float bound = 0.0f;
    if (limits_count(sampler, vocab_size)) {
        bound = top_k_bound(s, vocab_size, sampler->top_k);
    } else if (limits_mass(sampler)) {
        bound = (float)((1.0 - mass_share(sampler)) * total / vocab_size * 0.999);
    }
    const float least = least_share(sampler);
    return !limits_mass(sampler) && least > bound ? least : bound;
}

static uint32_t drop_below(assay_sample_scratch *s, uint32_t n, float least) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        s->kept[kept] = s->kept[i];
        s->kept_id[kept] = s->kept_id[i];
        kept += s->kept[i] >= least;
    }
    return kept;
}

/* Copies tokens that pass the filters to kept / kept_id, in vocabulary order; returns how many. The
 * largest probability is 1 here (not normalised). */
static uint32_t filter(const assay_sampler *sampler, uint32_t vocab_size, double total,
                       assay_sample_scratch *s) {
    const int by_k = limits_count(sampler, vocab_size);
    uint32_t n = keep_from(s, vocab_size, safe_bound(sampler, vocab_size, total, s));
    if (by_k && n > sampler->top_k) {
        n = apply_cut(s, n, select_largest(s->kept, n, sampler->top_k, 0), 0);
    }
    if (limits_mass(sampler)) {
        const double mass = (by_k ? sum_kept(s, n) : total) * mass_share(sampler);
        n = apply_cut(s, n, select_largest(s->kept, n, fmax(mass, DBL_MIN), 1), 1);
    }
    return least_share(sampler) > 0.0f ? drop_below(s, n, least_share(sampler)) : n;
}

/* First index whose running sum passes target; the last possible one if rounding ran short. */
static uint32_t walk(const float *p, uint32_t from, uint32_t to, double target) {
    uint32_t last = from;
    double sum = 0;
    for (uint32_t i = from; i < to; i++) {
        if (p[i] > 0.0f) {
            last = i;
            sum += (double)p[i];
            if (sum > target) {
                break;
            }
        }
    }
    return last;
}

static uint32_t draw_from_all(const assay_sample_scratch *s, uint32_t n, double target) {
    const uint32_t blocks = (uint32_t)blocks_of(n);
    uint32_t block = 0;
    uint32_t last = 0;
    for (; block < blocks; block++) {
        if (s->sums[block] > 0) {
            last = block;
            if (target < s->sums[block]) {
                break;
            }
            target -= s->sums[block];
        }
    }
    if (block == blocks) {
        target = s->sums[last];
    }
    const uint32_t end = (last + 1) * ASSAY_SUM_BLOCK < n ? (last + 1) * ASSAY_SUM_BLOCK : n;
    return walk(s->probs, last * ASSAY_SUM_BLOCK, end, target);
}

void assay_sample(const assay_kernels *kernels, const float *logits, uint32_t vocab_size,
                  const assay_sampler *sampler, uint64_t position, assay_sample_scratch *scratch,
                  int32_t *token, float *logp) {
    uint32_t best = 0;
    const float top = kernels->max_index(logits, vocab_size, &best);
    const int greedy = !(sampler->temperature > 0.0f);
    const float scale = greedy ? 1.0f : 1.0f / sampler->temperature;
    double total = NAN;
    if (isfinite(top) && best < vocab_size) {
        total = kernels->exp_blocks(scratch->probs, scratch->sums, logits, vocab_size, top, scale);
    }
    if (!isfinite(total)) {
        *token = -1;
        *logp = NAN;
        return;
    }
    if (greedy) {
        *token = (int32_t)best;
        *logp = (float)-log(total);
        return;
    }
    const double u = assay_uniform(sampler->seed, position);
    if (!has_filter(sampler, vocab_size)) {
        const uint32_t id = draw_from_all(scratch, vocab_size, u * total);
        *token = (int32_t)id;
        *logp = (float)((double)((logits[id] - top) * scale) - log(total));
        return;
    }
    const uint32_t n = filter(sampler, vocab_size, total, scratch);
    const double mass = sum_kept(scratch, n);
    const uint32_t at = walk(scratch->kept, 0, n, u * mass);
    *token = (int32_t)scratch->kept_id[at];
    *logp = (float)((double)((logits[scratch->kept_id[at]] - top) * scale) - log(mass));
}

int assay_sample_many(const float *logits, uint32_t vocab_size, const assay_sampler *sampler,
                      uint64_t position, uint32_t n, uint32_t isa, int32_t *tokens, float *logps) {
    const assay_kernels *kernels = assay_kernels_for(isa);
    void *memory = aligned_alloc(64, assay_sample_scratch_bytes(vocab_size));
    if (kernels == NULL || memory == NULL || vocab_size == 0) {
        free(memory);
        return -1;
    }
    assay_sample_scratch scratch;
    assay_sample_scratch_init(&scratch, memory, vocab_size);
    for (uint32_t i = 0; i < n; i++) {
        assay_sample(kernels, logits, vocab_size, sampler, position + i, &scratch, &tokens[i],
                     &logps[i]);
    }
    free(memory);
    return 0;
}
