/* Kernels in GCC vector types, compiled once per instruction set.
 *
 * The including file defines: LANES (4, 8 or 16 floats of a vector), KFN (target attribute and
 * `static`), KNAME (name of the set), FMA(a, b, c), and ROWS_MAX (rows whose sums stay in
 * registers). Sums over k run in two chains, even and odd, folded every FOLD inputs, whatever ROWS_MAX
 * is: the results of one row are bit-identical for any number of rows.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels.h"

#define KINLINE KFN __attribute__((always_inline)) inline
#define PARTS (ASSAY_PANEL / LANES)

typedef float vf __attribute__((vector_size(LANES * 4), may_alias));
typedef int32_t vi __attribute__((vector_size(LANES * 4), may_alias));
typedef float vf_any __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t vi_any __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

KINLINE vf v_load(const float *p) {
    return *(const vf_any *)p;
}
KINLINE void v_store(float *p, vf v) {
    *(vf_any *)p = v;
}
KINLINE vf v_set(float x) {
    return x - (vf){0};
}
KINLINE vf v_pick(vi mask, vf yes, vf no) {
    return (vf)((mask & (vi)yes) | (~mask & (vi)no));
}
KINLINE vf v_max(vf a, vf b) {
    return v_pick(a > b, a, b);
}
/* Pairs lanes in a fixed tree. */
KINLINE float v_sum(vf v) {
    float lane[LANES];
    v_store(lane, v);
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int i = 0; i < width; i++) {
            lane[i] += lane[i + width];
        }
    }
    return lane[0];
}

/* Relative error below 2e-7 for x in [-87, 88]; exactly 0 below; NaN stays NaN (v_max gives its second
 * argument when either is NaN). */
KINLINE vf v_exp(vf x) {
    const vi tiny = x < v_set(-87.33654f);
    const vf bounded = v_max(v_set(-87.33654f), x);
    const vf magic = v_set(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    const vf shifted = FMA(bounded, v_set(1.44269504f), magic);
    const vf n = shifted - magic;
    vf r = FMA(n, v_set(-0.693359375f), bounded);
    r = FMA(n, v_set(2.12194440e-4f), r);
    vf p = v_set(1.9875691500e-4f);
    p = FMA(p, r, v_set(1.3981999507e-3f));
    p = FMA(p, r, v_set(8.3334519073e-3f));
    p = FMA(p, r, v_set(4.1665795894e-2f));
    p = FMA(p, r, v_set(1.6666665459e-1f));
    p = FMA(p, r, v_set(5.0000001201e-1f));
    p = FMA(p, r * r, r + v_set(1.0f));
    const vi exponent = ((vi)shifted - (vi)magic) << 23;
    return (vf)(~tiny & ((vi)p + exponent));
}

KFN void k_enter(uint32_t rows) {
    (void)rows;
}
KFN void k_leave(void) {
}

KFN void k_pack(void *operand, uint32_t k_pad, uint32_t row, uint32_t k, const float *src,
                uint32_t n) {
    memcpy((float *)operand + (size_t)row * k_pad + k, src, n * sizeof(float));
}

/* Bytes of one input in a panel. */
#define INPUT_BYTES(bf16) ((bf16) ? 32 : 64)

/* A tile of few rows waits for memory. A prefetch into L2 occupies no miss buffer of L1, so that more
 * lines are read at once: faster on Zen 4 over KV blocks, which lie `scattered`
 * (docs/runtime-engine.md). The lines of weights lie in a row, where the hardware prefetcher helps;
 * for them it pays with one row only. */
#define FETCH_INTO_L2(scattered, mr) ((scattered) ? (mr) <= 4 : (mr) == 1)

KINLINE void fetch_line(const uint32_t into_l2, const uint8_t *line) {
    if (into_l2) {
        __builtin_prefetch(line, 0, 2);
    } else {
        __builtin_prefetch(line, 0, 3);
    }
}

/* even[r], odd[r] = sums of a[row][0..k) * panel over even and odd k, for mr rows; mr, bf16 and
 * scattered are constants. For each line of the panel the line of `next` in the same place is prefetched, one by
 * one: a burst fills the miss buffers, stalls, and leaves them empty while the core computes. */
KINLINE void tile_sums(const uint32_t mr, const uint32_t bf16, const uint32_t scattered,
                       const float *a, size_t lda, const uint8_t *panel, const uint8_t *next,
                       uint32_t k, vf even[ROWS_MAX][PARTS], vf odd[ROWS_MAX][PARTS]) {
#pragma GCC unroll 16
    for (uint32_t r = 0; r < mr; r++) {
#pragma GCC unroll 4
        for (uint32_t p = 0; p < PARTS; p++) {
            even[r][p] = (vf){0};
            odd[r][p] = (vf){0};
        }
    }
    for (uint32_t i = 0; i < k; i += 2) {
        vf w_even[PARTS];
        vf w_odd[PARTS];
        const uint8_t *at = panel + (size_t)i * INPUT_BYTES(bf16);
        const uint8_t *later = next + (size_t)i * INPUT_BYTES(bf16);
        fetch_line(FETCH_INTO_L2(scattered, mr), later);
        if (!bf16) {
            fetch_line(FETCH_INTO_L2(scattered, mr), later + 64);
        }
#pragma GCC unroll 4
        for (uint32_t p = 0; p < PARTS; p++) {
            if (bf16) {
                const vi raw = *(const vi_any *)(at + p * LANES * 4);
                w_even[p] = (vf)(raw << 16);
                w_odd[p] = (vf)(raw & (int32_t)0xffff0000);
            } else {
                w_even[p] = *(const vf_any *)(at + p * LANES * 4);
                w_odd[p] = *(const vf_any *)(at + 64 + p * LANES * 4);
            }
        }
#pragma GCC unroll 16
        for (uint32_t r = 0; r < mr; r++) {
            const vf x_even = v_set(a[r * lda + i]);
            const vf x_odd = v_set(a[r * lda + i + 1]);
#pragma GCC unroll 4
            for (uint32_t p = 0; p < PARTS; p++) {
                even[r][p] = FMA(x_even, w_even[p], even[r][p]);
                odd[r][p] = FMA(x_odd, w_odd[p], odd[r][p]);
            }
        }
    }
}

/* Inputs summed in registers before they join the sum in memory: rounding grows with the length of
 * a chain, and a chain of 1,536 would lose a digit. */
enum { FOLD = 128 };

/* c[row][16] (+)= a[row][0..k) * panel, for mr rows; add is a constant too. */
KINLINE void tile_rows(const uint32_t mr, const uint32_t bf16, const uint32_t scattered,
                       const uint32_t add, const float *a, size_t lda, const uint8_t *panel,
                       const uint8_t *next, uint32_t k, float *c, size_t ldc) {
    vf even[ROWS_MAX][PARTS];
    vf odd[ROWS_MAX][PARTS];
    for (uint32_t from = 0; from < k; from += FOLD) {
        const uint32_t len = k - from < FOLD ? k - from : FOLD;
        const size_t at = (size_t)from * INPUT_BYTES(bf16);
        tile_sums(mr, bf16, scattered, a + from, lda, panel + at, next + at, len, even, odd);
#pragma GCC unroll 16
        for (uint32_t r = 0; r < mr; r++) {
#pragma GCC unroll 4
            for (uint32_t p = 0; p < PARTS; p++) {
                float *out = c + r * ldc + p * LANES;
                vf sum = even[r][p] + odd[r][p];
                if (add || from != 0) {
                    sum += v_load(out);
                }
                v_store(out, sum);
            }
        }
    }
}

/* Tiles of mr rows from row r on, while as many are left. The first tile of all prefetches `next`. */
#define TILES_OF(mr)                                                                           \
    for (; r + (mr) <= rows; r += (mr)) {                                                      \
        tile_rows(mr, bf16, scattered, add, a + r * lda, lda, panel, r == 0 ? next : panel, k, \
                  c + r * ldc, ldc);                                                           \
    }

/* All rows of a panel product, in the largest tiles that registers allow. next: what is read after this
 * panel, as long as it. */
KINLINE void tile_all(const uint32_t bf16, const uint32_t scattered, const uint32_t add,
                      const float *a, size_t lda, uint32_t rows, const uint8_t *panel,
                      const uint8_t *next, uint32_t k, float *c, size_t ldc) {
    uint32_t r = 0;
    TILES_OF(ROWS_MAX)
#if ROWS_MAX > 4
    TILES_OF(4)
    TILES_OF(3)
#endif
#if ROWS_MAX > 2
    TILES_OF(2)
#endif
    TILES_OF(1)
}
#undef TILES_OF

#ifndef AHEAD
#define AHEAD 2048
#endif

KINLINE void mul_any(const uint32_t bf16, const float *rows, uint32_t k_pad, uint32_t n_rows,
                     const uint8_t *panel, float *c) {
    tile_all(bf16, 0, 0, rows, k_pad, n_rows, panel, panel + AHEAD, k_pad, c, ASSAY_PANEL);
}

KFN void k_mul_f32(const void *operand, uint32_t k_pad, uint32_t rows, const uint8_t *panels,
                   float *c, size_t c_stride) {
    mul_any(0, operand, k_pad, rows, panels, c);
    mul_any(0, operand, k_pad, rows, panels + (size_t)k_pad * INPUT_BYTES(0), c + c_stride);
}

KFN void k_mul_bf16(const void *operand, uint32_t k_pad, uint32_t rows, const uint8_t *panels,
                    float *c, size_t c_stride) {
    mul_any(1, operand, k_pad, rows, panels, c);
    mul_any(1, operand, k_pad, rows, panels + (size_t)k_pad * INPUT_BYTES(1), c + c_stride);
}

enum { SUBS_AHEAD = 3 };

/* What a walk reads a little after sub-block i. The hardware prefetcher does not find it, as it may be
 * anywhere in the arena. */
KINLINE const uint8_t *sub_after(const assay_kv_walk *walk, uint32_t i) {
    return assay_kv_sub(walk, i + SUBS_AHEAD < walk->n ? i + SUBS_AHEAD : i);
}

KINLINE void scores_any(const uint32_t bf16, const assay_kv_walk *walk, const float *q,
                        uint32_t row, uint32_t rows, float *scores, size_t ld) {
    for (uint32_t i = 0; i < walk->n; i++) {
        tile_all(bf16, 1, 0, q + (size_t)row * walk->k_pad, walk->k_pad, rows,
                 assay_kv_sub(walk, i), sub_after(walk, i), walk->k_pad,
                 scores + (size_t)(walk->first + i) * ASSAY_SUB, ld);
    }
}

KFN void k_scores_f32(const assay_kv_walk *walk, const void *q, uint32_t row, uint32_t rows,
                      float *scores, size_t ld) {
    scores_any(0, walk, q, row, rows, scores, ld);
}

KFN void k_scores_bf16(const assay_kv_walk *walk, const void *q, uint32_t row, uint32_t rows,
                       float *scores, size_t ld) {
    scores_any(1, walk, q, row, rows, scores, ld);
}

KINLINE void mix_any(const uint32_t bf16, const assay_kv_walk *walk, const float *weights,
                     uint32_t rows, size_t ld, float *out, size_t out_ld) {
    const size_t panel_bytes = ASSAY_SUB * INPUT_BYTES(bf16);
    for (uint32_t i = 0; i < walk->n; i++) {
        const uint8_t *v = assay_kv_sub(walk, i) + walk->k_bytes;
        const float *w = weights + (size_t)(walk->first + i) * ASSAY_SUB;
        const uint8_t *next = sub_after(walk, i) + walk->k_bytes;
        for (uint32_t col = 0; col < walk->v_cols; col += ASSAY_PANEL) {
            const size_t at = col / ASSAY_PANEL * panel_bytes;
            tile_all(bf16, 1, 1, w, ld, rows, v + at, next + at, ASSAY_SUB, out + col, out_ld);
        }
    }
}

KFN void k_mix_f32(const assay_kv_walk *walk, const float *weights, uint32_t rows, size_t ld,
                   float *out, size_t out_ld) {
    mix_any(0, walk, weights, rows, ld, out, out_ld);
}

KFN void k_mix_bf16(const assay_kv_walk *walk, const float *weights, uint32_t rows, size_t ld,
                    float *out, size_t out_ld) {
    mix_any(1, walk, weights, rows, ld, out, out_ld);
}

KINLINE float v_max_of(const float *x, uint32_t n) {
    vf best = v_set(-FLT_MAX);
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        best = v_max(v_load(x + i), best);
    }
    float lane[LANES];
    v_store(lane, best);
    float top = lane[0];
    for (int j = 1; j < LANES; j++) {
        top = lane[j] > top ? lane[j] : top;
    }
    for (; i < n; i++) {
        top = x[i] > top ? x[i] : top;
    }
    return top;
}

/* scores -> exp(score - max), summed in 16 lanes by position modulo 16. */
KFN float k_softmax(float *scores, uint32_t len, uint32_t cols) {
    const vf top = v_set(v_max_of(scores, len));
    const uint32_t used = (len + ASSAY_SUB - 1) / ASSAY_SUB * ASSAY_SUB;
    for (uint32_t i = len; i < used; i++) {
        scores[i] = -FLT_MAX;
    }
    vf sum[PARTS];
    memset(sum, 0, sizeof sum);
    for (uint32_t i = 0; i < used; i += ASSAY_SUB) {
#pragma GCC unroll 4
        for (uint32_t p = 0; p < PARTS; p++) {
            const vf e = v_exp(v_load(scores + i + p * LANES) - top);
            sum[p] += e;
            v_store(scores + i + p * LANES, e);
        }
    }
    memset(scores + used, 0, (size_t)(cols - used) * sizeof(float));
    for (uint32_t p = 1; p < PARTS; p++) {
        sum[0] += sum[p];
    }
    return v_sum(sum[0]);
}

KFN void k_rmsnorm(float *dst, const float *src, const float *weight, uint32_t n, uint32_t n_pad,
                   float eps) {
    vf sum[PARTS];
    memset(sum, 0, sizeof sum);
    for (uint32_t i = 0; i < n_pad; i += ASSAY_PANEL) {
        for (uint32_t p = 0; p < PARTS; p++) {
            const vf x = v_load(src + i + p * LANES);
            sum[p] = FMA(x, x, sum[p]);
        }
    }
    for (uint32_t p = 1; p < PARTS; p++) {
        sum[0] += sum[p];
    }
    const vf scale = v_set(1.0f / sqrtf(v_sum(sum[0]) / (float)n + eps));
    for (uint32_t i = 0; i < n_pad; i += LANES) {
        v_store(dst + i, v_load(src + i) * scale * v_load(weight + i));
    }
}

KFN void k_rope(float *head, const float *cos, const float *sin, uint32_t half, float scale) {
    for (uint32_t i = 0; i < half; i++) {
        const float low = head[i];
        const float high = head[i + half];
        head[i] = (low * cos[i] - high * sin[i]) * scale;
        head[i + half] = (high * cos[i] + low * sin[i]) * scale;
    }
}

KFN void k_silu_mul(float *dst, const float *gate, const float *up) {
    for (uint32_t p = 0; p < PARTS; p++) {
        const vf g = v_load(gate + p * LANES);
        /* exp is capped below 2^126 so that 1 + exp stays finite. */
        const vf e = v_exp(-v_max(v_set(-87.0f), g));
        v_store(dst + p * LANES, g / (v_set(1.0f) + e) * v_load(up + p * LANES));
    }
}

KFN float k_max_index(const float *x, uint32_t n, uint32_t *index) {
    const float top = v_max_of(x, n);
    uint32_t i = 0;
    while (i < n && x[i] != top) {
        i++;
    }
    *index = i;
    return top;
}

KFN double k_exp_blocks(float *p, double *sums, const float *x, uint32_t n, float max,
                        float scale) {
    const vf top = v_set(max);
    const vf by = v_set(scale);
    double total = 0;
    for (uint32_t at = 0; at < n; at += ASSAY_SUM_BLOCK) {
        const uint32_t len = n - at < ASSAY_SUM_BLOCK ? n - at : ASSAY_SUM_BLOCK;
        uint32_t i = 0;
        vf sum = {0};
        for (; i + LANES <= len; i += LANES) {
            const vf e = v_exp((v_load(x + at + i) - top) * by);
            sum += e;
            v_store(p + at + i, e);
        }
        double block = v_sum(sum);
        if (i < len) {
            float lane[LANES] = {0};
            memcpy(lane, x + at + i, (len - i) * sizeof(float));
            v_store(lane, v_exp((v_load(lane) - top) * by));
            for (uint32_t j = 0; i + j < len; j++) {
                p[at + i + j] = lane[j];
                block += lane[j];
            }
            i = len;
        }
        memset(p + at + i, 0, (ASSAY_SUM_BLOCK - i) * sizeof(float));
        sums[at / ASSAY_SUM_BLOCK] = block;
        total += block;
    }
    return total;
}

/* into_l2 is a constant. */
KINLINE uint32_t read_by(const uint32_t into_l2, const uint8_t *buffer, size_t bytes) {
    vi any[4];
    memset(any, 0, sizeof any);
    for (size_t at = 0; at + 4 * sizeof(vi) <= bytes; at += 4 * sizeof(vi)) {
        for (size_t line = 0; line < 4 * sizeof(vi); line += 64) {
            fetch_line(into_l2, buffer + at + AHEAD + line);
        }
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; j++) {
            any[j] |= *(const vi_any *)(buffer + at + j * sizeof(vi));
        }
    }
    const vi all = any[0] | any[1] | any[2] | any[3];
    uint32_t result = 0;
    for (int i = 0; i < LANES; i++) {
        result |= (uint32_t)all[i];
    }
    return result;
}

KFN uint32_t k_read_all(const uint8_t *buffer, size_t bytes, uint32_t into_l2) {
    return into_l2 ? read_by(1, buffer, bytes) : read_by(0, buffer, bytes);
}

/* Loops without branches, which the compiler makes vectors of. */
KFN void k_to_bf16(uint16_t *dst, const uint8_t *src, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        float value;
        memcpy(&value, src + (size_t)i * sizeof value, sizeof value);
        dst[i] = assay_bf16_of(value);
    }
}

KFN int k_below(const uint8_t *src, size_t n, int32_t end) {
    int32_t beyond = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, src + i * sizeof bits, sizeof bits);
        beyond |= (bits & 0x7fffffff) >= end;
    }
    return !beyond;
}

#define K_GEMM(suffix) {k_enter, k_leave, k_pack, k_mul_##suffix}
#define K_ATTEND(suffix) {k_pack, k_scores_##suffix, k_softmax, k_mix_##suffix, k_leave}
#define K_VECTOR_OPS                                                                           \
    .rmsnorm = k_rmsnorm, .rope = k_rope, .silu_mul = k_silu_mul, .max_index = k_max_index,    \
    .exp_blocks = k_exp_blocks, .read_all = k_read_all, .to_bf16 = k_to_bf16, .below = k_below
