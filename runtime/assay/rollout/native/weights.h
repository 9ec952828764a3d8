/* The model's tensors, packed for the kernels, in one arena.
 *
 * Matrices that meet the same rows are one matrix: q, k and v stand below each other; gate and up
 * alternate panel by panel, so that the thread that has 16 gates also has their 16 ups. Norms and
 * biases stay float32.
 */
#ifndef ASSAY_WEIGHTS_H
#define ASSAY_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

#include "engine.h"

typedef struct {
    uint8_t *data;
    uint32_t n_pairs; /* of panels: 32 outputs each */
    uint32_t k;
    uint32_t k_pad;
    size_t panel_bytes;
} assay_matrix;

typedef struct {
    float *attn_norm;
    float *ffn_norm;
    float *q_norm;
    float *k_norm;
    float *qkv_bias;
    float *out_bias;
    float *mlp_bias; /* in the order of gate_up's outputs */
    float *down_bias;
    assay_matrix qkv;
    assay_matrix out;
    assay_matrix gate_up;
    assay_matrix down;
    uint32_t loaded; /* bit a tensor */
} assay_layer;

typedef struct {
    assay_model_shape shape;
    assay_matrix embed;
    assay_matrix lm_head; /* embed's own data when tied */
    float *final_norm;
    float *rope_inv_freq;
    assay_layer *layers;
    uint32_t loaded;
    size_t bytes;
    size_t matrix_bytes; /* streamed by one decode step */
} assay_weights;

/* A region that hands out 64-byte aligned pieces; base NULL only counts. */
typedef struct {
    uint8_t *base;
    size_t used;
} assay_arena;

void *assay_arena_take(assay_arena *arena, size_t bytes);
/* Zeroed, resident pages, huge where the system gives them. NULL when out of memory. */
void *assay_pages_map(size_t bytes, uint32_t *huge);
void assay_pages_unmap(void *pages, size_t bytes);

static inline uint32_t assay_round_up(uint32_t n, uint32_t to) {
    return (n + to - 1) / to * to;
}

/* Lays the tensors out over the arena. */
void assay_weights_layout(assay_weights *weights, const assay_model_shape *shape,
                          assay_arena *arena);
int assay_weights_load(assay_weights *weights, uint32_t tensor, uint32_t layer, const void *data,
                       uint32_t dtype, uint32_t rows, uint32_t cols);
/* Rows [from, to) of the same, data being row `from`; refused when a value is not finite in the
 * matrix's dtype. The tensor counts as loaded from its last row on. Rows come in order. */
int assay_weights_load_rows(assay_weights *weights, const assay_piece *piece);
/* What was loaded counts as missing, but for the rotary frequencies, which are `from`'s. */
void assay_weights_begin_again(assay_weights *weights, const assay_weights *from);
/* ASSAY_ENGINE_OK, or ASSAY_ENGINE_MISSING. */
int assay_weights_complete(const assay_weights *weights);
/* One row of the embedding as dim floats. */
void assay_weights_embed(const assay_weights *weights, int32_t token, float *out);

#endif
