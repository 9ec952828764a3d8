/* Products of weights and activations on tensor cores, and what follows each product.
 *
 * A tile is 16 outputs; its warps share the inputs and are summed in a fixed order, so that a row's
 * numbers do not depend on the rows beside it. Weights lie in the order in which lanes read them: 1 KiB
 * for 16 outputs by 32 inputs. RMSNorm's gain enters with the input (bf16), its scale follows the product:
 * each producer of the residual leaves the sums of squares of its tiles.
 */
#ifndef ASSAY_PROJECT_H
#define ASSAY_PROJECT_H

#include "memory.h"

enum assay_product { TO_QKV, TO_RESIDUAL, TO_GATED, TO_LOGITS };

typedef struct {
    const assay_v4 *weights;
    const uint16_t *input; /* bf16 [rows][chunks * 32] */
    uint32_t chunks;       /* inputs / 32 */
    uint32_t tiles;        /* outputs / 16 */
    uint32_t n_rows;
    const uint32_t *rows;  /* which rows of the input; NULL: all in order */
    const float *bias;     /* TO_QKV */
    const float *gain;     /* TO_RESIDUAL: of the norm that follows */
} assay_job;

/* 1 / RMS of every row of the residual, for the product that follows. */
ASSAY_FN void scale_rows(const assay_params *p, uint32_t n, const uint32_t *rows) {
    const float *squares = scratch_f(p, A_AT_SQUARES);
    for (uint32_t i = thread_of_block(); i < n; i += A_THREADS) {
        const float *of_row = squares + (uint64_t)(rows ? rows[i] : i) * A_TILES_DIM;
        float sum = 0;
        for (uint32_t t = 0; t < A_TILES_DIM; t++) sum += of_row[t];
        shared()->inv[i] = 1.0f / sqrtf(sum / A_DIM + A_EPS);
    }
    sync_block();
}

template <int NB>
ASSAY_FN void multiply_tile(const assay_job *job, uint32_t tile, uint32_t row0) {
    const uint32_t lane = lane_of_warp(), warp = warp_of_block(), g = lane >> 2, t = lane & 3;
    float sum[NB][4];
    uint32_t from[NB]; /* of the input, elements */
#pragma unroll
    for (int j = 0; j < NB; j++) {
        sum[j][0] = sum[j][1] = sum[j][2] = sum[j][3] = 0;
        uint32_t row = row0 + j * 8 + g;
        row = row < job->n_rows ? row : job->n_rows - 1;
        if (job->rows) row = job->rows[row];
        from[j] = row * job->chunks * 32 + t * 8;
    }
    const assay_v4 *w = job->weights + (uint64_t)tile * job->chunks * 64 + lane;
#pragma unroll(NB <= 2 ? 4 : 1)
    for (uint32_t c = warp; c < job->chunks; c += A_WARPS) {
        const assay_v4 a = load_once(w + c * 64), b = load_once(w + c * 64 + 32);
#pragma unroll
        for (int j = 0; j < NB; j++) {
            const assay_v4 x = *(const assay_v4 *)(const void *)(job->input + from[j] + c * 32);
            multiply_add(sum[j], a.x, b.x, a.y, b.y, x.x, x.y);
            multiply_add(sum[j], a.z, b.z, a.w, b.w, x.z, x.w);
        }
    }
    float *to = shared()->u.partial + warp * (NB * 8 * 16);
#pragma unroll
    for (int j = 0; j < NB; j++) {
        float *one = to + (j * 8 + 2 * t) * 16 + g;
        one[0] = sum[j][0];
        one[16] = sum[j][1];
        one[8] = sum[j][2];
        one[24] = sum[j][3];
    }
}

ASSAY_FN void add_to_residual(const assay_params *p, const assay_job *job, uint32_t tile,
                              uint32_t row, uint32_t output, float v, bool there) {
    const uint64_t at = (uint64_t)row * A_DIM + tile * 16 + output;
    float x = 0;
    if (there) {
        float *residual = scratch_f(p, A_AT_RESIDUAL);
        x = residual[at] + v;
        residual[at] = x;
        scratch_h(p, A_AT_NORMED)[at] = bf16_of(x * job->gain[tile * 16 + output]);
    }
    float squares = x * x;
    for (uint32_t m = 8; m > 0; m >>= 1) squares += swap_lanes_f(squares, m);
    if (there && output == 0)
        scratch_f(p, A_AT_SQUARES)[(uint64_t)row * A_TILES_DIM + tile] = squares;
}

ASSAY_FN void gate(const assay_params *p, uint32_t tile, uint32_t row, uint32_t output, float v,
                   bool there) {
    const float up = swap_lanes_f(v, 8);
    if (there && output < 8)
        scratch_h(p, A_AT_GATED)[(uint64_t)row * A_HIDDEN + tile * 8 + output] =
            bf16_of(v / (1.0f + expf(-v)) * up);
}

/* Whole warps come here: 16 neighbouring lanes hold the outputs of one row. */
template <int KIND, int NB>
ASSAY_FN void settle_tile(const assay_params *p, const assay_job *job, uint32_t tile,
                          uint32_t row0) {
    for (uint32_t i = thread_of_block(); i < NB * 128; i += A_THREADS) {
        float v = 0;
        for (uint32_t w = 0; w < A_WARPS; w++) v += shared()->u.partial[w * (NB * 128) + i];
        const uint32_t row = row0 + i / 16, output = i % 16;
        const bool there = row < job->n_rows;
        if (KIND == TO_RESIDUAL) {
            add_to_residual(p, job, tile, row, output, v, there);
            continue;
        }
        v *= there ? shared()->inv[row] : 0.0f;
        if (KIND == TO_GATED) gate(p, tile, row, output, v, there);
        const uint32_t at = tile * 16 + output;
        if (KIND == TO_QKV && there && at < A_QKV_DIM)
            scratch_f(p, A_AT_QKV)[(uint64_t)row * A_QKV_DIM + at] =
                job->bias ? v + job->bias[at] : v;
        if (KIND == TO_LOGITS && there && at < A_VOCAB)
            scratch_f(p, A_AT_LOGITS)[(uint64_t)row * A_VOCAB + at] = v;
    }
}

template <int KIND, int NB>
ASSAY_FN void one_tile(const assay_params *p, const assay_job *job, uint32_t tile,
                       uint32_t row0) {
    multiply_tile<NB>(job, tile, row0);
    sync_block();
    settle_tile<KIND, NB>(p, job, tile, row0);
    sync_block();
}

template <int KIND>
ASSAY_FN void all_tiles(const assay_params *p, const assay_job *job) {
    if (KIND != TO_RESIDUAL) scale_rows(p, job->n_rows, job->rows);
    for (uint32_t tile = block_of_grid(); tile < job->tiles; tile += blocks_of_grid())
        for (uint32_t row0 = 0; row0 < job->n_rows; row0 += 64) {
            const uint32_t left = job->n_rows - row0;
            if (left <= 8)
                one_tile<KIND, 1>(p, job, tile, row0);
            else if (left <= 16)
                one_tile<KIND, 2>(p, job, tile, row0);
            else if (left <= 32)
                one_tile<KIND, 4>(p, job, tile, row0);
            else
                one_tile<KIND, 8>(p, job, tile, row0);
        }
}

ASSAY_FN assay_job job_of(const assay_params *p, const uint8_t *weights, uint64_t matrix_at,
                          uint64_t input_at, uint32_t inputs, uint32_t outputs) {
    assay_job job;
    job.weights = matrix(weights, matrix_at);
    job.input = scratch_h(p, input_at);
    job.chunks = inputs / 32;
    job.tiles = outputs / 16;
    job.n_rows = p->state->plan.n_rows;
    job.rows = nullptr;
    job.bias = nullptr;
    job.gain = nullptr;
    return job;
}

/* `w`: a layer's weights, or with project_logits the model's. */
ASSAY_COLD void project_qkv(const assay_params *p, const uint8_t *w) {
    assay_job job = job_of(p, w, A_AT_QKV_WEIGHTS, A_AT_NORMED, A_DIM, A_QKV_OUTPUTS);
    job.bias = A_QKV_BIAS ? vector_at(w, A_AT_QKV_BIAS) : nullptr;
    all_tiles<TO_QKV>(p, &job);
}

/* One function for both: `from` is what is added to the residual, `gain` of the norm that follows. */
ASSAY_COLD void project_residual(const assay_params *p, const uint8_t *w, bool from_gated,
                                 const float *gain) {
    assay_job job = from_gated ? job_of(p, w, A_AT_DOWN, A_AT_GATED, A_HIDDEN, A_DIM)
                               : job_of(p, w, A_AT_OUT_WEIGHTS, A_AT_ATTENDED, A_Q_DIM, A_DIM);
    job.gain = gain;
    all_tiles<TO_RESIDUAL>(p, &job);
}

ASSAY_COLD void project_gated(const assay_params *p, const uint8_t *w) {
    assay_job job = job_of(p, w, A_AT_GATE_UP, A_AT_NORMED, A_DIM, 2 * A_HIDDEN);
    all_tiles<TO_GATED>(p, &job);
}

ASSAY_COLD void project_logits(const assay_params *p, const uint8_t *weights) {
    assay_job job = job_of(p, weights, A_AT_HEAD, A_AT_NORMED, A_DIM, A_VOCAB_OUTPUTS);
    job.n_rows = p->state->plan.n_logits;
    job.rows = p->state->plan.logit_row;
    all_tiles<TO_LOGITS>(p, &job);
}

/* The first tiles that this block reads in the next product: memory works while blocks wait. */
ASSAY_FN void announce(const assay_v4 *weights, uint32_t chunks, uint32_t tiles) {
    if (thread_of_block() != 0) return;
    uint32_t tile = block_of_grid();
    for (int i = 0; i < A_PREFETCH_TILES && tile < tiles; i++, tile += blocks_of_grid())
        prefetch(weights + (uint64_t)tile * chunks * 64, chunks * 1024);
}

/* The embedding of every row's token, from the packed matrix. */
ASSAY_FN void embed(const assay_params *p, const uint8_t *weights, const float *gain) {
    const assay_plan *plan = &p->state->plan;
    const uint16_t *table = (const uint16_t *)(const void *)(weights + A_AT_EMBED);
    const uint32_t pairs = plan->n_rows * A_TILES_DIM * 16;
    for (uint32_t i = block_of_grid() * A_THREADS + thread_of_block(); i < pairs;
         i += blocks_of_grid() * A_THREADS) {
        const uint32_t row = i / A_DIM, k = i % A_DIM, token = plan->token[row];
        const uint64_t line = ((uint64_t)(token / 16) * (A_DIM / 32) + k / 32) * 2 + token / 8 % 2;
        const uint64_t lane = token % 8 * 4 + k % 32 / 8;
        const float x = float_of((uint32_t)table[(line * 32 + lane) * 8 + k % 8] << 16);
        scratch_f(p, A_AT_RESIDUAL)[(uint64_t)row * A_DIM + k] = x;
        scratch_h(p, A_AT_NORMED)[(uint64_t)row * A_DIM + k] = bf16_of(x * gain[k]);
        float squares = x * x;
        for (uint32_t m = 8; m > 0; m >>= 1) squares += swap_lanes_f(squares, m);
        if (k % 16 == 0) scratch_f(p, A_AT_SQUARES)[(uint64_t)row * A_TILES_DIM + k / 16] = squares;
    }
}

#endif
