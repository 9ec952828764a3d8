/* Where everything lies: the kernel's parameters, scratch and weights. Sizes come from the compiler's
 * command line (`A_...`, made by `program.py` from the model); the offsets are computed there, once.
 */
#ifndef ASSAY_MEMORY_H
#define ASSAY_MEMORY_H

#include "schedule.h"

#define A_WARPS (A_THREADS / 32)
#define A_QUERIES (A_HEADS / A_KV_HEADS)
#define A_Q_DIM (A_HEADS * A_HEAD_DIM)
#define A_KV_DIM (A_KV_HEADS * A_HEAD_DIM)
#define A_QKV_DIM (A_Q_DIM + 2 * A_KV_DIM)
#define A_TILES_DIM (A_DIM / 16)
#define A_KV_BLOCK (A_KV_HEADS * A_BLOCK * A_HEAD_DIM) /* elements of K, and of V, in a block of a layer */

typedef struct {
    assay_kernel_state *state;
    assay_link *link;
    uint8_t *scratch;
    const uint8_t *weights[2];
    uint16_t *keys; /* bf16 [layers][kv_blocks][kv_heads][block][head_dim] */
    uint16_t *values;
    const float *turns; /* [seq_max][head_dim / 2][2]: cosine, sine */
    uint32_t *barrier;  /* [0]: arrivals so far; [1..]: attention's counters [rows][kv_heads] */
} assay_params;

typedef struct {
    float inv[A_ROWS];
    union {
        float partial[A_WARPS * 64 * 16];
        struct {
            uint16_t keys[A_CHUNK * (A_HEAD_DIM + 8)];
            uint16_t values[A_CHUNK * A_HEAD_DIM];
            float query[A_WARPS * A_HEAD_DIM];
            float share[A_WARPS * A_CHUNK];
            uint32_t last[A_ROWS];
        } attend;
        struct {
            uint64_t mass[2048];
            uint32_t count[2048];
            uint64_t part[A_THREADS];
            uint32_t ties[A_THREADS];
            float high[A_WARPS];
            uint32_t threshold, n_ties, at_thread;
            uint64_t left;
        } sample;
        struct {
            uint32_t any_ended, verdict, chunks;
        } control;
    } u;
} assay_shared;

ASSAY_FN assay_shared *shared() { return (assay_shared *)(void *)shared_memory(); }

ASSAY_FN float *scratch_f(const assay_params *p, uint64_t at) {
    return (float *)(void *)(p->scratch + at);
}
ASSAY_FN uint16_t *scratch_h(const assay_params *p, uint64_t at) {
    return (uint16_t *)(void *)(p->scratch + at);
}
ASSAY_FN const assay_v4 *matrix(const uint8_t *weights, uint64_t at) {
    return (const assay_v4 *)(const void *)(weights + at);
}
ASSAY_FN const float *vector_at(const uint8_t *weights, uint64_t at) {
    return (const float *)(const void *)(weights + at);
}

/* All blocks arrive before one leaves; what they wrote before is seen after. */
ASSAY_FN void grid_barrier(const assay_params *p, uint32_t *round) {
    sync_block();
    *round += blocks_of_grid();
    if (thread_of_block() == 0) {
        add_gpu(p->barrier, 1);
        while ((int32_t)(load_gpu(p->barrier) - *round) < 0) doze();
    }
    sync_block();
}

#endif
