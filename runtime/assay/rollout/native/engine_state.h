/* Internal state of an engine, for the files that run its steps; engine.h is the public API.
 *
 *   engine.c       creation, weights, versions
 *   engine_room.c  the memory of steps, threads and matrices
 *   batch.c        checks a step and lists its rows and attention items
 *   layers.c       the phases that the pool's threads run
 *   attend.c       attention over paged KV
 *   adapter.c      LoRA and OFT beside the matrices: loading; adapter_steps.c: in a step
 */
#ifndef ASSAY_ENGINE_STATE_H
#define ASSAY_ENGINE_STATE_H

#include "adapter.h"
#include "engine.h"
#include "kernels.h"
#include "kv_layout.h"
#include "pool.h"
#include "sampler.h"
#include "weights.h"

enum { ASSAY_THREADS_MAX = 256 };

/* Derived from the model's shape and the settings; `_ld` and `_pad` are padded lengths. */
typedef struct {
    uint32_t group; /* query heads per KV head */
    uint32_t dim_ld;
    uint32_t qkv_ld;
    uint32_t att_pad;
    uint32_t hidden_pad;
    uint32_t rows_pad;
    uint32_t vocab_ld;
    uint32_t scores_ld;
} assay_sizes;

/* One token of the batch. */
typedef struct {
    int32_t token;
    uint32_t position;
    uint32_t entry; /* of the step */
} assay_batch_row;

/* Query rows that attention processes together: of one entry, or of several decoding entries (one
 * token each) that share leading sub-blocks. Query row r of an entry is token r / group, head
 * r % group, where group = query heads per KV head. */
typedef struct {
    uint32_t entry;
    uint32_t n_entries;
    uint32_t query;   /* first query row inside the entry; 0 when n_entries > 1 */
    uint32_t queries; /* at most ASSAY_ROW_TILE */
    uint32_t shared_subs;
} assay_attend_item;

/* The current step. */
typedef struct {
    uint8_t *kv_base;
    assay_seq_step *steps;
    uint32_t n_steps;
    uint32_t n_rows;
    uint32_t n_items;
    uint32_t n_wanting;
    assay_batch_row *rows; /* [step_tokens_max] */
    uint32_t *row_of;      /* [batch_max]: first row of an entry */
    assay_attend_item *items;
    uint32_t *wanting;   /* [batch_max]: entries that want logits, in order */
    uint32_t *logit_row; /* [batch_max]: row of logits of an entry, or UINT32_MAX */
} assay_batch;

/* Values between two phases. The operands' layout is the kernels'. */
typedef struct {
    float *x;        /* [rows][dim_ld]: the residual stream */
    float *qkv;      /* [rows][qkv_ld] */
    void *norm_in;   /* operand: normed rows */
    void *att_in;    /* operand: attention's output */
    void *hidden_in; /* operand: silu(gate) * up */
    float *logits;   /* [batch_max][vocab_ld] */
} assay_activations;

/* Buffers of one thread. */
typedef struct {
    float *sums;   /* [2][rows_pad][16] */
    float *normed; /* [dim padded] */
    void *queries; /* operand of ASSAY_ROW_TILE rows */
    float *scores; /* [ASSAY_ROW_TILE][scores_ld] */
    float *mixed;  /* [ASSAY_ROW_TILE][v_cols] */
    assay_sample_scratch sample;
} assay_thread_room;

/* A set of matrices, and its memory. */
typedef struct {
    assay_weights weights;
    void *pages; /* NULL: not allocated yet */
    size_t bytes;
    int in_file;
} assay_base;

/* Weights of one version: matrices, and an optional adapter over them. Both slots may share one
 * base. */
typedef struct {
    uint32_t base;
    assay_adapter adapter;
} assay_slot;

/* What is being staged into the inactive slot. */
enum assay_staging { ASSAY_STAGING_NONE, ASSAY_STAGING_TENSORS, ASSAY_STAGING_ADAPTER };

struct assay_engine {
    assay_pool pool;
    const assay_kernels *kernels;
    const assay_gemm_ops *gemm;
    const assay_attend_ops *attend;
    assay_model_shape shape;
    assay_engine_settings settings;
    assay_kv_layout kv;
    assay_sizes sizes;

    assay_base bases[2];
    int second_file; /* where bases[1] lies; -1: in memory */
    assay_slot slots[2];
    uint32_t active; /* slot that steps read; the other one is staged into */
    enum assay_staging staging;
    int staged_whole; /* the other slot can be made active */
    const assay_weights *weights; /* the active slot's */
    const assay_adapter *adapter; /* the active slot's; NULL: none */
    uint64_t policy_version;
    int sealed;

    void *room_pages;
    size_t room_bytes;
    uint32_t huge_pages;
    float *rope_cos; /* [seq_len_max][head_dim / 2] */
    float *rope_sin;
    assay_activations act;
    assay_batch batch;
    assay_thread_room *threads;
    uint8_t *thread_rooms;
};

assay_sizes assay_engine_sizes_of(const assay_model_shape *shape,
                                  const assay_engine_settings *settings);
/* Maps and lays out everything that steps write, except KV; a status. */
int assay_engine_take_room(assay_engine *engine);
/* Maps and lays out one set of matrices; a status. */

/* Checks a step and makes it the engine's batch; returns a status. Nothing changes unless it is OK. */
int assay_batch_begin(assay_engine *engine, uint8_t *kv_base, assay_seq_step *steps,
                      uint32_t n_steps);

/* The body of the pool's threads: all phases of the batch. 0 when the run continued without the
 * thread. */
int assay_layers_run(void *engine, assay_walker *walker);

/* Attention of one item and KV head of a layer; writes the operand att_in. */
void assay_attend(assay_engine *engine, assay_thread_room *room, const assay_attend_item *item,
                  uint32_t layer, uint32_t head);

/* Writes n values of one row, from column k on, into an operand and, where the active adapter reads
 * it too, into the adapter's copy. */
static inline void assay_put_input(assay_engine *e, enum assay_input which, uint32_t row, uint32_t k,
                                   const float *values, uint32_t n) {
    void *const operands[] = {e->act.norm_in, e->act.att_in, e->act.hidden_in};
    const uint32_t pads[] = {e->sizes.dim_ld, e->sizes.att_pad, e->sizes.hidden_pad};
    e->gemm->pack(operands[which], pads[which], row, k, values, n);
    if (e->adapter != NULL) {
        assay_adapter_put(e->adapter, which, row, k, values, n);
    }
}

#endif
