/* A step's products, as jobs: which weights and activations, which tiles a block visits, and its feeder, which walks
 * the same list.
 */
#ifndef ASSAY_JOBS_H
#define ASSAY_JOBS_H

#include "exchange.h"

static_assert(A_PIECE % A_WARPS == 0, "every warp has the same chunks of a piece");

#define A_VISIT_ROWS 64 /* at most */

enum assay_use { TO_QKV, TO_RESIDUAL, TO_GATED, TO_LOGITS, TO_LOW };

typedef struct {
    const uint8_t *weights;
    const uint16_t *input; /* bf16 [rows][chunks * 32] */
    uint32_t from, to; /* layers: of the input, of what follows the product */
    uint32_t squares, residual; /* kinds of words: of what follows the rows' scale; what the product is added to */
    uint32_t to_float, to_half, to_squares;
    uint32_t chunks;       /* inputs / 32 */
    uint32_t tiles;        /* outputs / 16 */
    uint32_t n_rows;
    bool alone;            /* one tile per visit: there are about as many blocks */
    uint32_t skew;         /* the first tile is not block 0's: neighbouring products occupy others */
    const uint32_t *rows;  /* which rows of the input; NULL: all in order */
    const float *bias;     /* of the outputs, in the order of the product's; NULL: none */
    const float *gain;     /* TO_RESIDUAL: of the norm that follows */
    const uint8_t *above;  /* an adapter's B, beside the weights; NULL: none */
    const uint16_t *above_input;
    uint32_t above_chunks; /* its inputs / 32 */
} assay_job;

/* ---- which product, which tiles ------------------------------------------------------------------ */

ASSAY_FN assay_job job_of(const assay_params *p, const assay_plan *plan, uint32_t layer, const uint8_t *weights,
                          uint32_t input, uint32_t inputs, uint32_t outputs) {
    assay_job job;
    job.weights = weights;
    job.input = halves_of(p, layer, input);
    job.from = job.to = layer;
    job.squares = job.residual = 0;
    job.to_float = job.to_half = job.to_squares = 0;
    job.chunks = inputs / 32;
    job.tiles = outputs / 16;
    job.n_rows = plan->n_rows;
    job.alone = false;
    job.skew = 0;
    job.rows = nullptr;
    job.bias = nullptr;
    job.gain = nullptr;
    job.above = nullptr;
    job.above_input = nullptr;
    job.above_chunks = 0;
    return job;
}

/* `w`: a layer's weights, or of the head the model's; `layer`: whose words it takes. */
ASSAY_FN assay_job qkv_of(const assay_params *p, const assay_plan *plan, uint32_t layer, const uint8_t *w) {
    assay_job job = job_of(p, plan, layer, w + A_AT_QKV_WEIGHTS, A_ROW_AT_NORMED_IN, A_DIM, A_QKV_OUTPUTS);
    job.squares = A_ROW_AT_SQUARES_IN;
    job.to_float = A_ROW_AT_QKV;
    job.bias = A_QKV_BIAS ? vector_at(w, A_AT_QKV_BIAS) : nullptr;
    return job;
}
ASSAY_FN assay_job out_of(const assay_params *p, const assay_plan *plan, uint32_t layer, const uint8_t *w) {
    assay_job job = job_of(p, plan, layer, w + A_AT_OUT_WEIGHTS, A_ROW_AT_ATTENDED, A_Q_DIM, A_DIM);
    job.residual = A_ROW_AT_RESIDUAL_IN;
    job.to_float = A_ROW_AT_RESIDUAL_MID;
    job.to_half = A_ROW_AT_NORMED_MID;
    job.to_squares = A_ROW_AT_SQUARES_MID;
    job.alone = true;
    job.gain = vector_at(w, A_AT_FFN_NORM);
    job.bias = A_OUT_BIAS ? vector_at(w, A_AT_OUT_BIAS) : nullptr;
    return job;
}
ASSAY_FN assay_job gate_up_of(const assay_params *p, const assay_plan *plan, uint32_t layer, const uint8_t *w) {
    assay_job job = job_of(p, plan, layer, w + A_AT_GATE_UP_WEIGHTS, A_ROW_AT_NORMED_MID, A_DIM, 2 * A_HIDDEN);
    job.squares = A_ROW_AT_SQUARES_MID;
    job.to_half = A_ROW_AT_GATED;
    job.bias = A_MLP_BIAS ? vector_at(w, A_AT_GATE_UP_BIAS) : nullptr;
    return job;
}
/* `gain`: of the next layer's norm, or of the final one. */
ASSAY_FN assay_job down_of(const assay_params *p, const assay_plan *plan, uint32_t layer, const uint8_t *w,
                           const float *gain) {
    assay_job job = job_of(p, plan, layer, w + A_AT_DOWN_WEIGHTS, A_ROW_AT_GATED, A_HIDDEN, A_DIM);
    job.residual = A_ROW_AT_RESIDUAL_MID;
    job.to = layer + 1;
    job.to_float = A_ROW_AT_RESIDUAL_IN;
    job.to_half = A_ROW_AT_NORMED_IN;
    job.to_squares = A_ROW_AT_SQUARES_IN;
    job.alone = true;
    job.skew = blocks_of_grid() / 2;
    job.gain = gain;
    job.bias = A_MLP_BIAS ? vector_at(w, A_AT_DOWN_BIAS) : nullptr;
    return job;
}
ASSAY_FN assay_job logits_of(const assay_params *p, const assay_plan *plan, uint32_t layer, const uint8_t *weights) {
    assay_job job = job_of(p, plan, layer, weights + A_AT_HEAD, A_ROW_AT_NORMED_IN, A_DIM, A_VOCAB_OUTPUTS);
    job.squares = A_ROW_AT_SQUARES_IN;
    job.n_rows = plan->n_logits;
    job.rows = plan->logit_row;
    return job;
}

/* The product of the model with a number, for what does not depend on a layer. */
ASSAY_FN assay_job product_of(const assay_params *p, const assay_plan *plan, const uint8_t *w, const uint8_t *weights, uint32_t which) {
    return which == OF_QKV       ? qkv_of(p, plan, 0, w)
           : which == OF_OUT     ? out_of(p, plan, 0, w)
           : which == OF_GATE_UP ? gate_up_of(p, plan, 0, w)
           : which == OF_DOWN    ? down_of(p, plan, 0, w, nullptr)
                                 : logits_of(p, plan, 0, weights);
}

/* What is adapted, by product: its outputs below and where they go, where A and B are in a layer of the adapter. */
ASSAY_FN uint32_t low_at(uint32_t product) {
    return product == OF_QKV       ? A_ROW_AT_LOW_QKV
           : product == OF_OUT     ? A_ROW_AT_LOW_OUT
           : product == OF_GATE_UP ? A_ROW_AT_LOW_GATE_UP
                                   : A_ROW_AT_LOW_DOWN;
}
ASSAY_FN uint32_t low_of(uint32_t product) {
    return product == OF_QKV ? A_LOW_QKV : product == OF_GATE_UP ? A_LOW_GATE_UP : A_LOW_ONE;
}
ASSAY_FN const uint8_t *adapter_at(const assay_params *p, const assay_plan *plan, uint32_t layer) {
    return p->adapters[plan->adapter - 1] + (uint64_t)layer * A_ADAPTER_LAYER_BYTES;
}
/* The product A x before the product `job` of the model. */
ASSAY_FN assay_job below(const assay_params *p, const assay_plan *plan, const assay_job *job, uint32_t product,
                         uint32_t layer) {
    const uint64_t at = product == OF_QKV   ? A_AT_QKV_A
                        : product == OF_OUT ? A_AT_OUT_A
                        : product == OF_GATE_UP ? A_AT_GATE_UP_A
                                                : A_AT_DOWN_A;
    assay_job low = *job;
    low.to = job->from;
    low.weights = adapter_at(p, plan, layer) + at;
    low.tiles = low_of(product) / 16;
    low.to_half = low_at(product);
    low.alone = true;
    return low;
}
/* The product of the model goes on over B. */
ASSAY_FN void add_above(const assay_params *p, const assay_plan *plan, assay_job *job, uint32_t product,
                        uint32_t layer) {
    const uint64_t at = product == OF_QKV   ? A_AT_QKV_B
                        : product == OF_OUT ? A_AT_OUT_B
                        : product == OF_GATE_UP ? A_AT_GATE_UP_B
                                                : A_AT_DOWN_B;
    job->above = adapter_at(p, plan, layer) + at;
    job->above_input = halves_of(p, job->from, low_at(product));
    job->above_chunks = low_of(product) / 32;
}

/* Rows of a visit: as many as accumulators hold, fewer where there are more blocks than tiles. */
ASSAY_FN uint32_t rows_of_visit(const assay_job *job) {
    uint32_t rows = A_VISIT_ROWS;
    while (rows > 8) {
        const uint32_t visits = (job->n_rows + rows / 2 - 1) / (rows / 2);
        if (job->tiles * visits > blocks_of_grid() && rows / 2 < job->n_rows) break;
        rows /= 2;
    }
    return rows;
}

/* Tiles of a visit: what each block has of few rows; they share the reads of activations and the waits. */
ASSAY_FN uint32_t tiles_of_visit(const assay_job *job, uint32_t rows) {
    const uint32_t each = (job->tiles + blocks_of_grid() - 1) / blocks_of_grid();
    const uint32_t most = job->alone ? 1 : rows == 32 ? 2 : rows == 64 ? 3 : 4;
    return each < most ? each : most;
}

/* How a block's visits follow from its job; which visit a row is in changes none of its bits. */
ASSAY_FN assay_visits visits_of(const assay_job *job) {
    assay_visits v;
    v.rows = rows_of_visit(job);
    v.tiles = tiles_of_visit(job, v.rows);
    v.groups = (job->tiles + v.tiles - 1) / v.tiles;
    const uint32_t all = v.groups * ((job->n_rows + v.rows - 1) / v.rows);
    const uint32_t first = (block_of_grid() + job->skew) % blocks_of_grid();
    v.n = all > first ? (all - first + blocks_of_grid() - 1) / blocks_of_grid() : 0;
    v.tile = first % v.groups * v.tiles;
    v.row = first / v.groups * v.rows;
    v.tiles_on = blocks_of_grid() % v.groups * v.tiles;
    v.rows_on = blocks_of_grid() / v.groups * v.rows;
    return v;
}

/* The next visit of this block. */
ASSAY_FN void move_on_visit(assay_visits *v) {
    v->n--;
    v->tile += v->tiles_on;
    v->row += v->rows_on;
    if (v->tile < v->groups * v->tiles) return;
    v->tile -= v->groups * v->tiles;
    v->row += v->rows;
}

/* A thread of the workers per product, once per step: its visits. */
ASSAY_FN void plan_visits(const assay_params *p, const uint8_t *weights) {
    const assay_plan *plan = the_plan();
    const uint32_t one = thread_of_block();
    if (one >= A_PRODUCTS) return;
    const uint32_t of_model = one < A_OF_MODEL ? one : one - A_OF_MODEL;
    assay_job job = product_of(p, plan, weights + A_AT_LAYERS, weights, of_model);
    if (one >= A_OF_MODEL) {
        if (!plan->adapter) return;
        job = below(p, plan, &job, of_model, 0);
    }
    if (job.n_rows) shared()->visits[one] = visits_of(&job);
}

/* The pieces of some tiles of one matrix into the ring. */
ASSAY_FN void feed_tiles(const uint8_t *weights, uint32_t chunks, uint32_t first, uint32_t until,
                         assay_ring_end *end, uint64_t policy) {
    for (uint32_t c = 0; c < chunks; c += A_PIECE)
        for (uint32_t tile = first; tile < until; tile++) {
            const uint32_t n = chunks - c < A_PIECE ? chunks - c : A_PIECE;
            const uint32_t stage = stage_of(end);
            gate_wait(shared()->empty + stage, parity_of(end) ^ 1);
            gate_fill(shared()->full + stage, shared()->ring + stage * A_PIECE_BYTES,
                      weights + ((uint64_t)tile * chunks + c) * 1024, n * 1024, policy);
            next_stage(end);
        }
}

/* The feeder's one thread: the pieces of every visit. */
ASSAY_FN void feed(const assay_job *job, assay_ring_end *end, uint64_t policy) {
    for (assay_visits v = visits_of(job); v.n; move_on_visit(&v)) {
        const uint32_t first = v.tile;
        const uint32_t until = first + v.tiles < job->tiles ? first + v.tiles : job->tiles;
        feed_tiles(job->weights, job->chunks, first, until, end, policy);
        if (A_RANK && job->above)
            feed_tiles(job->above, job->above_chunks, first, until, end, policy);
    }
}

#endif
