/* The interface of the vector kernels, and the layouts that both sides use.
 *
 * Panel: 16 outputs of a matrix. float32: for each input k, 16 floats. bf16: for each pair of
 * inputs (k, k + 1), 16 lanes of (k, k + 1). In both, one 64-byte row holds 16 outputs, so that a
 * dot product runs down a lane: no horizontal sums, and an order that no batch can change. The
 * bf16 panel is at the same time a stack of AMX B-tiles (16 rows of 64 bytes = 32 inputs).
 *
 * Operand: the rows (activations) that panels are multiplied with. float32 code keeps plain rows; AMX
 * keeps each value as the sum of two bf16 (high + low, 16 bits of mantissa), in A-tiles. Both take
 * 4 bytes per value. k_pad is a multiple of 32 for weights.
 *
 * KV sub-block: 16 positions of one layer and KV head: a K panel (16 positions x k_pad) and then
 * V panels (16 positions deep, one per 16 columns).
 */
#ifndef ASSAY_KERNELS_H
#define ASSAY_KERNELS_H

#include <stddef.h>
#include <stdint.h>

enum {
    ASSAY_PANEL = 16,     /* outputs of a panel */
    ASSAY_ROW_TILE = 16,  /* rows that attention processes at once */
    ASSAY_SUB = 16,       /* positions of a KV sub-block */
    ASSAY_SUM_BLOCK = 256 /* probabilities whose sum the sampler keeps */
};

/* A walk over consecutive KV sub-blocks of one layer and head. */
typedef struct {
    const uint8_t *base;
    const uint32_t *table;
    size_t block_bytes;
    size_t offset; /* of the layer and head inside a block */
    size_t sub_bytes;
    uint32_t subs_per_block;
    uint32_t first;
    uint32_t n;
    uint32_t k_pad;   /* depth of a K panel */
    uint32_t v_cols;  /* columns of V, a multiple of 16 */
    size_t k_bytes;   /* of a K panel: V begins there */
} assay_kv_walk;

static inline const uint8_t *assay_kv_sub(const assay_kv_walk *walk, uint32_t i) {
    const uint32_t sub = walk->first + i;
    return walk->base + (size_t)walk->table[sub / walk->subs_per_block] * walk->block_bytes +
           walk->offset + (sub % walk->subs_per_block) * walk->sub_bytes;
}

/* Rows times weight panels. */
typedef struct {
    /* Called on each thread before the first mul of a phase over `rows` rows, and after the last. */
    void (*enter)(uint32_t rows);
    void (*leave)(void);
    /* Writes n values of one row from column k on. */
    void (*pack)(void *operand, uint32_t k_pad, uint32_t row, uint32_t k, const float *src,
                 uint32_t n);
    /* c[panel][row][16] for two neighbouring panels; c_stride floats between the two. */
    void (*mul)(const void *operand, uint32_t k_pad, uint32_t rows, const uint8_t *panels,
                float *c, size_t c_stride);
} assay_gemm_ops;

/* Up to ASSAY_ROW_TILE query rows against a walk over KV. q is an operand of k_pad; scores are
 * float rows of leading dimension ld (an odd multiple of 16). */
typedef struct {
    void (*pack)(void *operand, uint32_t k_pad, uint32_t row, uint32_t k, const float *src,
                 uint32_t n);
    void (*scores)(const assay_kv_walk *walk, const void *q, uint32_t row, uint32_t rows,
                   float *scores, size_t ld);
    /* exp(s - max) of the first len scores in place, zeros up to cols, in the form mix takes;
     * returns the sum. */
    float (*softmax)(float *scores, uint32_t len, uint32_t cols);
    /* out[row][v_cols] += weights * V */
    void (*mix)(const assay_kv_walk *walk, const float *weights, uint32_t rows, size_t ld,
                float *out, size_t out_ld);
    /* Called on each thread after the last use of a step. */
    void (*leave)(void);
} assay_attend_ops;

typedef struct {
    const char *name;
    assay_gemm_ops gemm[2];     /* by dtype of the weights: F32, BF16 */
    assay_attend_ops attend[2]; /* by dtype of KV */
    /* dst = src / rms(src[0..n)) * weight over n_pad columns (a multiple of 16, src padded with 0) */
    void (*rmsnorm)(float *dst, const float *src, const float *weight, uint32_t n, uint32_t n_pad,
                    float eps);
    /* Rotates one head by halves and scales it. */
    void (*rope)(float *head, const float *cos, const float *sin, uint32_t half, float scale);
    /* dst = silu(gate) * up, 16 values */
    void (*silu_mul)(float *dst, const float *gate, const float *up);
    /* Largest of n values and its first index; n_pad a multiple of 16, padding is ignored. */
    float (*max_index)(const float *x, uint32_t n, uint32_t *index);
    /* p[i] = exp((x[i] - max) * scale), zeros up to a multiple of ASSAY_SUM_BLOCK; sums[b] of each
     * block of ASSAY_SUM_BLOCK; returns the total. */
    double (*exp_blocks)(float *p, double *sums, const float *x, uint32_t n, float max,
                         float scale);
    /* n float32 values as bf16, rounded as assay_bf16_of; `src` need not be aligned. */
    void (*to_bf16)(uint16_t *dst, const uint8_t *src, uint32_t n);
    /* Whether the magnitudes of n float32 values are below the one with the bits `end`: infinities and
     * NaN are the greatest. */
    int (*below)(const uint8_t *src, size_t n, int32_t end);
    /* Reads a buffer, prefetching into L2 or into L1, and returns something that depends on all of it. */
    uint32_t (*read_all)(const uint8_t *buffer, size_t bytes, uint32_t into_l2);
} assay_kernels;

/* NULL if this build or machine lacks them. */
const assay_kernels *assay_kernels_portable(void);
const assay_kernels *assay_kernels_avx2(void);
const assay_kernels *assay_kernels_avx512(void);
const assay_kernels *assay_kernels_amx(void);

static inline uint16_t assay_bf16_of(float value) {
    union {
        float f;
        uint32_t u;
    } bits = {value};
    if ((bits.u & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)((bits.u >> 16) | 0x40u);
    }
    return (uint16_t)((bits.u + 0x7fffu + ((bits.u >> 16) & 1u)) >> 16);
}

static inline float assay_f32_of_bf16(uint16_t value) {
    union {
        uint32_t u;
        float f;
    } bits = {(uint32_t)value << 16};
    return bits.f;
}

#endif
