/* The decode engine: a Llama/Qwen-style transformer over paged KV, on a pool of CPU threads.
 *
 * Invariants:
 *   - One step runs every entry of a batch to its end and samples where asked. A step makes no
 *     allocation and no system call while all pool threads are awake, and touches no page for the
 *     first time: everything is allocated and written to in assay_engine_create.
 *   - The numbers of one rollout do not depend on the batch. Every reduction (dot products, norms,
 *     softmax, attention) runs in an order fixed by the rollout's own positions, so tokens and
 *     log-probs are bit-identical alone, in any batch, and with or without a shared prefix.
 *   - Positions of a KV block that were never written read as zero: the first write into 16
 *     positions clears them, so data of an earlier rollout (NaN included) cannot leak.
 *
 * Life of an engine: create, load every tensor once, seal, step ..., destroy. One caller at a time,
 * except for the second slot of weights: another thread may stage into it while steps run.
 */
#ifndef ASSAY_ENGINE_H
#define ASSAY_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "assay_seam.h"

typedef struct assay_engine assay_engine;

typedef enum { ASSAY_F32 = 0, ASSAY_BF16 = 1, ASSAY_F16 = 2 } assay_dtype;

/* Instruction set of the kernels. AUTO selects the best one of this machine. */
typedef enum {
    ASSAY_ISA_AUTO = 0,
    ASSAY_ISA_PORTABLE = 1,
    ASSAY_ISA_AVX2 = 2,
    ASSAY_ISA_AVX512 = 3,
    ASSAY_ISA_AMX = 4 /* AVX-512 with bf16 tiles */
} assay_isa;

typedef enum {
    ASSAY_ENGINE_OK = 0,
    ASSAY_ENGINE_INVALID = -1,     /* an argument that no engine could accept */
    ASSAY_ENGINE_NO_MEMORY = -2,
    ASSAY_ENGINE_UNSUPPORTED = -3, /* an ISA this machine or build lacks */
    ASSAY_ENGINE_NOT_SEALED = -4,  /* step before seal, or load after it */
    ASSAY_ENGINE_MISSING = -5,     /* seal: a tensor was not loaded */
    ASSAY_ENGINE_TOO_MANY = -6,    /* more entries or tokens than the settings allow */
    ASSAY_ENGINE_BAD_TOKEN = -7,   /* a token id outside the vocabulary */
    ASSAY_ENGINE_BAD_BLOCKS = -8,  /* the block table does not reach the last position */
    ASSAY_ENGINE_CONTEXT = -9,     /* a position at or past seq_len_max */
    ASSAY_ENGINE_BROKEN = -10,     /* a thread of the engine died in this step or an earlier one */
    ASSAY_ENGINE_NOT_FINITE = -11  /* stage: a value is not finite in the dtype it is kept in, or
                                      a rotation is out of range */
} assay_engine_status;

/* Sizes of the model, in elements. */
typedef struct {
    uint32_t dim;
    uint32_t n_layers;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim; /* even */
    uint32_t hidden_dim;
    uint32_t vocab_size;
    uint32_t seq_len_max; /* positions that RoPE tables and score buffers are made for */
    float rms_eps;
    float rope_gain;       /* multiplies cos and sin (YaRN's attention factor); 1 otherwise */
    uint8_t weight_dtype;  /* assay_dtype the matrices are kept in: F32 or BF16 */
    uint8_t kv_dtype;      /* assay_dtype the KV blocks are kept in: F32 or BF16 */
    uint8_t tied_embeddings;
    uint8_t qk_norm;  /* RMSNorm on every q and k head (Qwen3) */
    uint8_t qkv_bias; /* biases on q, k, v (Qwen2) */
    uint8_t out_bias; /* bias on the attention's output projection */
    uint8_t mlp_bias; /* biases on gate, up, down */
    uint8_t reserved;
} assay_model_shape;

typedef struct {
    uint32_t n_threads;       /* threads of a step, the caller's included; 0: chosen by model size */
    uint32_t batch_max;       /* entries of a step */
    uint32_t step_tokens_max; /* tokens of a step over all entries */
    uint32_t block_tokens;    /* positions of a KV block, a multiple of 16 */
    uint32_t spin_max;        /* pauses before a waiting thread parks; 0: default */
    int32_t first_cpu;        /* pool thread i (i >= 1) is pinned to first_cpu + i; -1: not pinned */
    uint32_t isa;             /* assay_isa */
    uint32_t reserved;
} assay_engine_settings;

/* Tensor kinds. Matrices are (rows = outputs, cols = inputs), as in Hugging Face files. */
typedef enum {
    ASSAY_T_EMBED = 0,     /* vocab_size x dim */
    ASSAY_T_LM_HEAD,       /* vocab_size x dim, unless tied */
    ASSAY_T_FINAL_NORM,    /* dim */
    ASSAY_T_ROPE_INV_FREQ, /* head_dim / 2, radians per position */
    ASSAY_T_ATTN_NORM,     /* dim; from here on one per layer */
    ASSAY_T_WQ,            /* n_heads * head_dim x dim, rotate-half order inside a head */
    ASSAY_T_WK,            /* n_kv_heads * head_dim x dim */
    ASSAY_T_WV,            /* n_kv_heads * head_dim x dim */
    ASSAY_T_BQ,
    ASSAY_T_BK,
    ASSAY_T_BV,
    ASSAY_T_Q_NORM, /* head_dim */
    ASSAY_T_K_NORM, /* head_dim */
    ASSAY_T_WO,     /* dim x n_heads * head_dim */
    ASSAY_T_BO,
    ASSAY_T_FFN_NORM, /* dim */
    ASSAY_T_W_GATE,   /* hidden_dim x dim */
    ASSAY_T_W_UP,     /* hidden_dim x dim */
    ASSAY_T_W_DOWN,   /* dim x hidden_dim */
    ASSAY_T_B_GATE,
    ASSAY_T_B_UP,
    ASSAY_T_B_DOWN,
    ASSAY_T_COUNT
} assay_tensor;

/* Rows [from, to) of a tensor that has `rows`; data is row `from`, row-major, of dtype. */
typedef struct {
    uint32_t tensor;
    uint32_t layer;
    uint32_t dtype;
    uint32_t rows;
    uint32_t cols;
    uint32_t from;
    uint32_t to;
    uint32_t reserved;
    const void *data;
} assay_piece;

/* How a projection is adapted. x is a row of inputs, y of outputs.
 *   LORA: y = W x + scale * B (A x), with A (size x cols) in a, B (rows x size) in b.
 *   The OFT kinds: y = W x', where x' = x R, block by block: R is orthogonal and made from the skew
 *   symmetric Q whose upper triangle, row by row, is in a: n_blocks x (size * (size - 1) / 2).
 *     CAYLEY:  R = (I - Q) (I + Q)^-1
 *     NEUMANN: R = I + 2 Q + ... + 2 Q^(n - 2) + Q^(n - 1), n = terms, as peft computes it: close to
 *              (I + Q) (I - Q)^-1, so the sign of Q is not CAYLEY's
 *     EXPONENTIAL: R = e^Q */
typedef enum {
    ASSAY_ADAPT_LORA = 0,
    ASSAY_ADAPT_OFT_CAYLEY = 1,
    ASSAY_ADAPT_OFT_NEUMANN = 2,
    ASSAY_ADAPT_OFT_EXPONENTIAL = 3
} assay_adapt;

enum { ASSAY_RANK_MAX = 1024, ASSAY_OFT_BLOCK_MAX = 1024, ASSAY_NEUMANN_TERMS_MAX = 64 };

/* The adapter of one projection: WQ, WK, WV, WO, W_GATE, W_UP or W_DOWN of a layer. All pieces of an
 * adapter are LORA or all are OFT. */
typedef struct {
    uint32_t tensor; /* assay_tensor */
    uint32_t layer;
    uint32_t kind;   /* assay_adapt */
    uint32_t dtype;  /* assay_dtype of a and b */
    uint32_t rows;   /* outputs of the projection */
    uint32_t cols;   /* inputs */
    uint32_t size;   /* LORA: the rank, 1 to ASSAY_RANK_MAX; OFT: inputs of a block, which divides cols,
                        1 to ASSAY_OFT_BLOCK_MAX */
    uint32_t n_blocks; /* OFT: cols / size, or 1: one rotation for all blocks. LORA: 0 */
    uint32_t terms;    /* NEUMANN: 1 to ASSAY_NEUMANN_TERMS_MAX; else 0 */
    float scale;       /* LORA: finite; else 0 */
    const void *a;
    const void *b; /* LORA only */
} assay_adapter_piece;

/* What an engine detected and allocated. */
typedef struct {
    char isa[16];            /* the instruction set in use */
    uint32_t n_threads;
    uint32_t huge_pages;     /* 1: arenas have the transparent huge page advice */
    uint64_t weight_bytes;   /* packed matrices and vectors */
    uint64_t matrix_bytes;   /* of these, what one decode step streams */
    uint64_t workspace_bytes;
    uint64_t kv_block_bytes;
    uint64_t parks;          /* times a pool thread stopped spinning and parked, since create */
} assay_engine_info;

/* NULL on failure, with the reason in *status and, as text, in error (error_len bytes). */
assay_engine *assay_engine_create(const assay_model_shape *shape,
                                  const assay_engine_settings *settings, int *status, char *error,
                                  size_t error_len);
void assay_engine_destroy(assay_engine *engine);

/* Copies one tensor into the arena, converted and packed. data is row-major rows x cols of dtype.
 * Vectors have rows == 1. layer is 0 for tensors that are not per layer. */
int assay_engine_load(assay_engine *engine, uint32_t tensor, uint32_t layer, const void *data,
                      uint32_t dtype, uint32_t rows, uint32_t cols);
/* Checks that every tensor was loaded; steps are refused before this call. */
int assay_engine_seal(assay_engine *engine);

/* The second slot, which steps do not read. `stage_begin` allocates it the first time, and
 * marks all of its tensors missing; `stage` copies a piece into it; `stage_end` reports whether it is
 * complete. `swap` exchanges it with the active slot, between steps, if it is (else MISSING). Rotary
 * frequencies stay. Only one thread stages, and none during a swap. */
int assay_engine_stage_begin(assay_engine *engine);
/* Before the first `stage_begin`: the second slot's matrices lie in this file, where memory has room for
 * one set. A swap then copies: it takes as long as the two are read and written. The file must have
 * no other user; the engine keeps a descriptor of its own. */
int assay_engine_second_in_file(assay_engine *engine, int file);
int assay_engine_stage(assay_engine *engine, const assay_piece *piece);
int assay_engine_stage_end(assay_engine *engine);
int assay_engine_swap(assay_engine *engine, uint64_t version);

/* An adapter over the active slot's matrices, never merged into them: the second slot becomes the
 * active one's matrices with this adapter (replacing any adapter of the active slot). `begin` reads the
 * pieces' sizes, not their data, allocates the memory, and marks all pieces missing; n_pieces 0 stages
 * the matrices without an adapter. `stage_adapter` copies one of the named pieces. Then
 * `stage_end` and `swap`, as for tensors. An adapter is kept in float32; a rotation is computed here,
 * in double, so that it does not depend on a host's linear algebra. */
int assay_engine_stage_adapter_begin(assay_engine *engine, const assay_adapter_piece *pieces,
                                     uint32_t n_pieces);
int assay_engine_stage_adapter(assay_engine *engine, const assay_adapter_piece *piece);

/* The version of the weights; stamped on every entry of a step. Call between steps. */
void assay_engine_set_policy_version(assay_engine *engine, uint64_t version);
uint64_t assay_engine_policy_version(const assay_engine *engine);

size_t assay_engine_kv_block_bytes(const assay_engine *engine, uint32_t block_tokens);
/* Copies the first n_positions of a block (all layers, K and V); the rest of dst reads as zero. */
void assay_engine_kv_copy(const assay_engine *engine, uint8_t *dst, const uint8_t *src,
                          uint32_t n_positions);

/* Runs one batch. out_token is -1 (and out_logp NaN) for an entry whose logits are not finite;
 * the other entries of the batch are valid. A status other than OK or BROKEN means that nothing was
 * computed. */
int assay_engine_step(assay_engine *engine, uint8_t *kv_base, assay_seq_step *steps,
                      uint32_t n_steps);

/* Repeats a decode step n_times, each entry fed its own last token, positions moving on by one.
 * tokens and logps are [n_times][n_steps] and may be NULL. Block tables must reach the end. */
int assay_engine_decode_run(assay_engine *engine, uint8_t *kv_base, assay_seq_step *steps,
                            uint32_t n_steps, uint32_t n_times, int32_t *tokens, float *logps);

/* Logits (vocab_size floats) of entry `index` of the last step, NULL if the entry did not request them. */
const float *assay_engine_logits(const assay_engine *engine, uint32_t index);

void assay_engine_get_info(const assay_engine *engine, assay_engine_info *info);
const char *assay_engine_status_text(int status);
void assay_engine_ops_of(assay_engine *engine, assay_engine_ops *ops);

/* The best assay_isa of this machine (requests tile state from the kernel if the CPU has AMX). */
uint32_t assay_engine_best_isa(void);

#endif
