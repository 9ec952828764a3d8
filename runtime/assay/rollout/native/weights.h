/* The model's tensors, packed for the kernels, in one arena.
 *
 * Matrices with the same input rows are one matrix: q, k and v are stacked; gate and up
 * alternate panel by panel, so that the thread with 16 gates also has their 16 ups. Norms and
 * biases stay float32.
 */
#ifndef ASSAY_WEIGHTS_H
#define ASSAY_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "engine.h"
#include "kernels.h"

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
    uint32_t loaded; /* one bit per tensor */
} assay_layer;

typedef struct {
    assay_model_shape shape;
    const assay_kernels *kernels; /* that the tensors are packed for, and with */
    assay_matrix embed;
    assay_matrix lm_head; /* embed's own data when tied */
    float *final_norm;
    float *rope_inv_freq;
    assay_layer *layers;
    uint32_t loaded;
    size_t bytes;
    size_t matrix_bytes; /* streamed by one decode step */
} assay_weights;

/* Location of a tensor: a vector, or outputs of a matrix. Both NULL: the model has no such tensor. */
typedef struct {
    float *vector;
    assay_matrix *matrix;
    uint32_t rows;
    uint32_t cols;
    uint32_t first;        /* output of the matrix, or element of the vector, it begins at */
    uint32_t panel_stride; /* 2: gate or up, which alternate */
    uint32_t panel_offset;
} assay_place;

/* Lays the tensors out over the arena. */
void assay_weights_layout(assay_weights *weights, const assay_model_shape *shape,
                          const assay_kernels *kernels, assay_arena *arena);
int assay_weights_load(assay_weights *weights, uint32_t tensor, uint32_t layer, const void *data,
                       uint32_t dtype, uint32_t rows, uint32_t cols);
/* Rows [from, to) of the same, data being row `from`; refused when a value is not finite in the
 * matrix's dtype. The tensor counts as loaded from its last row on. Rows come in order. */
int assay_weights_load_rows(assay_weights *weights, const assay_piece *piece);
/* tensor < ASSAY_T_COUNT and layer < n_layers. */
assay_place assay_weights_place(assay_weights *weights, uint32_t tensor, uint32_t layer);
/* Element i of an array of an assay_dtype. */
float assay_element(const void *data, uint32_t dtype, size_t i);
/* Whether n elements of an array of `dtype` are finite, also once they are kept as `kept`. */
int assay_all_finite(const assay_kernels *kernels, const void *data, uint32_t dtype, size_t n,
                     uint32_t kept);
/* Marks all tensors missing, except the rotary frequencies, which are copied from `from`. */
void assay_weights_begin_again(assay_weights *weights, const assay_weights *from);
/* ASSAY_ENGINE_OK, or ASSAY_ENGINE_MISSING. */
int assay_weights_complete(const assay_weights *weights);
/* One row of the embedding as dim floats. */
void assay_weights_embed(const assay_weights *weights, int32_t token, float *out);

#endif
