/* Adapters beside the matrices: LoRA adds a product of low rank to a projection's output, OFT rotates
 * its input. Nothing is merged, so the matrices of a slot stay those of its base.
 *
 * A layer has four matrices (weights.h), and up to three adapted projections share one. With LoRA the
 * projections' A are stacked, so that one product gives the low-rank rows of all of them;
 * their B are in the outputs of their own projection and are zero elsewhere. With OFT each projection
 * has its own rotated copy of the input, and `source` says which copy an output reads.
 *
 * Everything is float32 and the order of every sum depends on its row alone, as in the rest of a step.
 * The adapter owns what a step writes (copies of inputs, low-rank rows, rotated rows), so a staged
 * adapter includes the memory that it needs.
 */
#ifndef ASSAY_ADAPTER_H
#define ASSAY_ADAPTER_H

#include "arena.h"
#include "engine.h"
#include "kernels.h"
#include "pool.h"
#include "weights.h"

/* The matrices of a layer. */
enum assay_group {
    ASSAY_GROUP_QKV,
    ASSAY_GROUP_OUT,
    ASSAY_GROUP_GATE_UP,
    ASSAY_GROUP_DOWN,
    ASSAY_GROUPS
};

/* Their inputs. */
enum assay_input { ASSAY_INPUT_NORM, ASSAY_INPUT_ATT, ASSAY_INPUT_HIDDEN, ASSAY_INPUTS };

enum { ASSAY_PROJECTIONS_MAX = 3 /* of one matrix */ };

/* One projection's adapter. */
typedef struct {
    assay_adapter_piece piece; /* as named; its pointers are not used */
    assay_place place;         /* the projection's outputs */
    uint32_t first;            /* LORA: its first low-rank row */
    uint32_t loaded;
    assay_matrix rotation;     /* OFT: one block's; the blocks' follow each other */
    uint32_t n_rotations;
} assay_adapter_part;

/* The adapters of one matrix. */
typedef struct {
    uint32_t n_parts; /* 0: the matrix is used as it is */
    assay_adapter_part parts[ASSAY_PROJECTIONS_MAX];
    uint32_t n_items; /* pieces of work of the phase before the product */
    assay_matrix a;   /* LORA: low-rank rows x inputs */
    assay_matrix b;   /* LORA: outputs x low-rank rows */
    float *scales;    /* LORA: [low-rank rows, padded] */
    uint8_t *source;  /* OFT: [outputs, padded]: 0 plain input, 1 + i rotated by part i */
    uint8_t *sources; /* OFT: [pairs]: one bit per source that the pair's outputs read */
} assay_adapted;

/* Sizes that an adapter is laid out for. */
typedef struct {
    const assay_kernels *kernels;
    const assay_gemm_ops *gemm; /* of the base's matrices */
    uint32_t rows_pad;          /* rows of a step */
    uint32_t n_threads;
    uint32_t pads[ASSAY_INPUTS]; /* columns of the inputs, padded */
    void *inputs[ASSAY_INPUTS]; /* the engine's own operands */
} assay_adapter_host;

typedef struct {
    uint32_t lora; /* 1: LoRA; 0: OFT */
    uint32_t n_layers;
    assay_adapted *matrices; /* [n_layers][ASSAY_GROUPS]; NULL: no adapter */
    void *pages;
    size_t bytes;
    assay_adapter_host host;
    float *inputs[ASSAY_INPUTS];  /* float32 copies [rows_pad][pad]; NULL: no part reads it */
    uint32_t copied[ASSAY_INPUTS]; /* 0: the copy is the engine's own operand */
    float *low;                   /* LORA: [rows_pad][low-rank rows, padded] */
    void *rotated[ASSAY_PROJECTIONS_MAX]; /* OFT: operands of the base's kernels */
    float *sums;                  /* per thread: [2][rows_pad][16] */
    float *gathered;              /* OFT, per thread: [rows_pad][block, padded] */
    uint32_t block_pad;
} assay_adapter;

/* Allocates memory for these pieces over these matrices, all missing; returns a status. After an error,
 * and with n_pieces 0, there is no adapter. */
int assay_adapter_begin(assay_adapter *adapter, assay_weights *weights,
                        const assay_adapter_host *host, const assay_adapter_piece *pieces,
                        uint32_t n_pieces);
/* Copies the data of one of these pieces; a status. */
int assay_adapter_load(assay_adapter *adapter, const assay_adapter_piece *piece);
/* ASSAY_ENGINE_OK, or ASSAY_ENGINE_MISSING. */
int assay_adapter_complete(const assay_adapter *adapter);
/* Frees the memory: no adapter. */
void assay_adapter_drop(assay_adapter *adapter);

/* Called in a step by all threads of the pool. */

/* Copies n values of an input row, from column k on, if some part reads them. */
void assay_adapter_put(const assay_adapter *adapter, enum assay_input which, uint32_t row, uint32_t k,
                       const float *values, uint32_t n);
/* The phase before a matrix's product: low-rank or rotated rows. As assay_phase_end; no phase at all,
 * and 1, when the matrix is not adapted. */
int assay_adapter_phase(const assay_adapter *adapter, assay_walker *walker, uint32_t layer,
                        enum assay_group group, uint32_t rows);
/* The outputs of a pair of panels in place of the base's `gemm->mul` with `operand`. */
void assay_adapter_mul(const assay_adapter *adapter, const assay_adapted *adapted, uint32_t thread,
                       const assay_matrix *matrix, const void *operand, uint32_t rows, uint32_t pair,
                       float *sums, size_t stride);

static inline const assay_adapted *assay_adapted_of(const assay_adapter *adapter, uint32_t layer,
                                                    enum assay_group group) {
    const assay_adapted *m = adapter == NULL ? NULL
                                             : &adapter->matrices[layer * ASSAY_GROUPS + group];
    return m == NULL || m->n_parts == 0 ? NULL : m;
}

#endif
