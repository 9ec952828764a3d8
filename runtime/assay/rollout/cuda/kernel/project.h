/* Products of weights and activations on tensor cores, and what follows each product.
 *
 * Weights come through a ring in shared memory. A block's feeder walks the very list of tiles that its
 * workers walk, and has the copy engine fill the ring as far ahead as it has room: weights depend on no
 * activation, so device memory works during barriers and attention, too.
 *
 * A tile is 16 outputs; a block's warps share its inputs and are summed in a fixed order, so that a row's
 * numbers do not depend on the rows beside it. Weights lie in the order in which lanes read and tensor cores take
 * them: 1 KiB for 16 outputs by 32 inputs, half of it for each product of 16. RMSNorm's gain enters with the input (bf16), its scale follows the product:
 * each producer of the residual leaves the sums of squares of its tiles.
 *
 * A LoRA adapter is not merged: W x + B (A x). A product of its own makes A x (`low`), a barrier later the product
 * of W goes on over B's inputs, in the same sums. Its outputs are there for the rank that the kernel was made for.
 */
#ifndef ASSAY_PROJECT_H
#define ASSAY_PROJECT_H

#include "jobs.h"

/* ---- the product --------------------------------------------------------------------------------- */

/* A warp's share of up to NT tiles times NB * 8 rows, onto `sum`: one matrix and its inputs. Activations of a piece are
 * asked for at once, before the weights are waited for. */
template <int NB, int NT>
ASSAY_FN void multiply_pieces(const uint16_t *input, uint32_t chunks, const uint32_t *rows, uint32_t n_tiles,
                              assay_ring_end *end, float (*sum)[4]) {
    constexpr uint32_t PER = A_PIECE / A_WARPS;
    constexpr uint32_t AHEAD = NB == 2 && NT == 1 ? 3 : 1;
    const uint32_t lane = lane_of_warp(), warp = warp_of_block(), t = lane & 3;
    uint32_t from[NB]; /* of the input, elements */
#pragma unroll
    for (int j = 0; j < NB; j++) from[j] = rows[j] * chunks * 32 + t * 8;
#pragma unroll 1
    for (uint32_t first = 0; first < chunks; first += AHEAD * A_PIECE) {
        assay_v4 x[AHEAD * PER][NB];
#pragma unroll
        for (uint32_t i = 0; i < AHEAD * PER; i++) {
            const uint32_t c = first + i * A_WARPS + warp;
#pragma unroll
            for (int j = 0; j < NB; j++) {
                x[i][j] = {0, 0, 0, 0};
                if (c < chunks) x[i][j] = *(const assay_v4 *)(const void *)(input + from[j] + c * 32);
            }
        }
#pragma unroll
        for (uint32_t next = 0; next < AHEAD * NT; next++) {
            const uint32_t ahead = next / NT, of_tile = next % NT;
            if (first + ahead * A_PIECE >= chunks || of_tile >= n_tiles) continue;
            const uint32_t stage = stage_of(end);
            const uint8_t *piece = shared()->ring + stage * A_PIECE_BYTES + lane * 16;
            gate_wait(shared()->full + stage, parity_of(end));
#pragma unroll
            for (uint32_t k = 0; k < PER; k++) {
                const uint32_t of_piece = k * A_WARPS + warp;
                if (first + ahead * A_PIECE + of_piece >= chunks) continue;
                const assay_v4 *w = (const assay_v4 *)(const void *)(piece + of_piece * 1024);
                const assay_v4 a = w[0], b = w[32]; /* of 16 inputs each */
                const assay_v4 *y = x[ahead * PER + k];
                float(*to)[4] = sum + of_tile * NB;
#pragma unroll
                for (int j = 0; j < NB; j++) /* independent ones side by side: each takes its time */
                    multiply_add(to[j], a.x, a.y, a.z, a.w, y[j].x, y[j].y);
#pragma unroll
                for (int j = 0; j < NB; j++)
                    multiply_add(to[j], b.x, b.y, b.z, b.w, y[j].z, y[j].w);
            }
            sync_warp();
            if (lane == 0) gate_arrive(shared()->empty + stage);
            next_stage(end);
        }
    }
}

/* The same of many rows: activations of a warp's next 32 inputs are on their way during the products of those before. The
 * weights of a piece of each tile are held until all of it has been used. */
template <int NB, int NT>
ASSAY_FN void multiply_many(const uint16_t *input, uint32_t chunks, const uint32_t *rows, uint32_t n_tiles,
                            assay_ring_end *end, float (*sum)[4]) {
    constexpr uint32_t PER = A_PIECE / A_WARPS;
    static_assert(NT <= A_STAGES, "as the ring allows");
    const uint32_t lane = lane_of_warp(), warp = warp_of_block();
    assay_v4 next[NB];
    const auto ask = [&](uint32_t c) {
#pragma unroll
        for (int j = 0; j < NB; j++) {
            next[j] = {0, 0, 0, 0};
            if (c < chunks)
                next[j] = *(const assay_v4 *)(const void *)(input + rows[j] * chunks * 32 + (lane & 3) * 8 + c * 32);
        }
    };
    ask(warp);
#pragma unroll 1
    for (uint32_t first = 0; first < chunks; first += A_PIECE) {
        const assay_ring_end begin = *end;
#pragma unroll
        for (uint32_t k = 0; k < PER; k++) {
            const uint32_t of_piece = k * A_WARPS + warp, c = first + of_piece;
            assay_v4 x[NB];
#pragma unroll
            for (int j = 0; j < NB; j++) x[j] = next[j];
            ask(c + A_WARPS);
            assay_ring_end at = begin;
#pragma unroll
            for (uint32_t tile = 0; tile < NT; tile++) {
                if (tile >= n_tiles) continue;
                const uint32_t stage = stage_of(&at);
                if (k == 0) gate_wait(shared()->full + stage, parity_of(&at));
                next_stage(&at);
                if (c >= chunks) continue;
                const uint8_t *piece = shared()->ring + stage * A_PIECE_BYTES + lane * 16;
                const assay_v4 *w = (const assay_v4 *)(const void *)(piece + of_piece * 1024);
                const assay_v4 a = w[0], b = w[32];
                float(*to)[4] = sum + tile * NB;
#pragma unroll
                for (int j = 0; j < NB; j++) multiply_add(to[j], a.x, a.y, a.z, a.w, x[j].x, x[j].y);
#pragma unroll
                for (int j = 0; j < NB; j++) multiply_add(to[j], b.x, b.y, b.z, b.w, x[j].z, x[j].w);
            }
            *end = at;
        }
        sync_warp();
        if (lane < n_tiles) gate_arrive(shared()->empty + (stage_of(&begin) + lane) % A_STAGES);
    }
}

/* The same of up to eight rows, which may flow: their activations are asked for until they are there, and `others` asks
 * beside them for what follows the product, and says whether that is there. Weights are there before: they are taken
 * first, all that registers hold, so that nothing but products follows the last word that comes. */
template <int NT, typename OTHERS>
ASSAY_FN void multiply_few(const uint16_t *input, uint32_t chunks, uint32_t row, uint32_t n_tiles,
                           assay_ring_end *end, float (*sum)[4], const OTHERS &others) {
    constexpr uint32_t PER = A_PIECE / A_WARPS;
    constexpr bool LARGE = A_PIECE >= 32;
    constexpr uint32_t AHEAD = NT == 1 ? (LARGE ? 3 : 6) : (LARGE ? 1 : 2), STAGES = AHEAD * NT;
    constexpr uint32_t SOME = STAGES <= A_STAGES ? AHEAD : STAGES / 2 <= A_STAGES ? AHEAD / 2 : 1; /* whose weights are taken */
    static_assert(SOME > 0 && AHEAD % SOME == 0 && SOME * NT <= A_STAGES, "as the ring allows");
    const uint32_t lane = lane_of_warp(), warp = warp_of_block();
    input += (uint64_t)row * chunks * 32 + (lane & 3) * 8;
#pragma unroll 1
    for (uint32_t first = 0; first < chunks; first += AHEAD * A_PIECE) {
        assay_v4 x[AHEAD * PER], w[SOME * NT][PER][2];
        bool there[SOME * NT][PER];
#pragma unroll
        for (uint32_t group = 0; group < AHEAD; group += SOME) {
            const uint32_t stage0 = stage_of(end);
            uint32_t taken = 0;
#pragma unroll
            for (uint32_t i = 0; i < SOME * NT; i++) {
                const uint32_t piece = first + (group + i / NT) * A_PIECE;
                const bool has = piece < chunks && i % NT < n_tiles;
                const uint8_t *at = shared()->ring + stage_of(end) * A_PIECE_BYTES + lane * 16;
                if (has) gate_wait(shared()->full + stage_of(end), parity_of(end));
#pragma unroll
                for (uint32_t k = 0; k < PER; k++) {
                    const uint32_t of_piece = k * A_WARPS + warp;
                    const assay_v4 *from = (const assay_v4 *)(const void *)(at + of_piece * 1024);
                    there[i][k] = has && piece + of_piece < chunks;
                    w[i][k][0] = w[i][k][1] = {0, 0, 0, 0};
                    if (there[i][k]) {
                        w[i][k][0] = from[0];
                        w[i][k][1] = from[32];
                    }
                }
                if (!has) continue;
                next_stage(end);
                taken++;
            }
            sync_warp();
            if (lane < taken) gate_arrive(shared()->empty + (stage0 + lane) % A_STAGES);
            for (bool whole = group > 0; !whole;) {
                uint32_t most = 0;
#pragma unroll
                for (uint32_t i = 0; i < AHEAD * PER; i++) {
                    const uint32_t c = first + i * A_WARPS + warp;
                    x[i] = {0, 0, 0, 0};
                    if (c < chunks) x[i] = peek_gpu((const assay_v4 *)(const void *)(input + c * 32));
                }
                whole = first > 0 || others();
#pragma unroll
                for (uint32_t i = 0; i < AHEAD * PER; i++) most = larger(most, largest(x + i));
                whole = whole && most != A_ABSENT;
                if (!whole) look_again();
            }
            sync_warp();
#pragma unroll
            for (uint32_t turn = 0; turn < SOME * PER * 2; turn++)
#pragma unroll
                for (uint32_t tile = 0; tile < NT; tile++) {
                    const uint32_t ahead = turn / (PER * 2), k = turn / 2 % PER;
                    const assay_v4 *a = w[ahead * NT + tile][k] + turn % 2, *y = x + (group + ahead) * PER + k;
                    if (!there[ahead * NT + tile][k]) continue;
                    multiply_add(sum[tile], a->x, a->y, a->z, a->w, turn % 2 ? y->z : y->x, turn % 2 ? y->w : y->y);
                }
        }
    }
}

/* The same of a whole product, into `sum`. */
template <int NB, int NT, typename OTHERS>
ASSAY_FN void multiply_tiles(const assay_job *job, uint32_t n_tiles, uint32_t row0, assay_ring_end *end,
                             float (*sum)[4], const OTHERS &others) {
    const uint32_t g = lane_of_warp() >> 2;
    uint32_t rows[NB];
#pragma unroll
    for (int j = 0; j < NT * NB; j++) sum[j][0] = sum[j][1] = sum[j][2] = sum[j][3] = 0;
#pragma unroll
    for (int j = 0; j < NB; j++) {
        const uint32_t row = row0 + j * 8 + g;
        rows[j] = row < job->n_rows ? row : job->n_rows - 1;
        if (job->rows) rows[j] = job->rows[rows[j]];
    }
    if constexpr (NB == 1) {
        multiply_few<NT>(job->input, job->chunks, rows[0], n_tiles, end, sum, others);
        if (A_RANK && job->above)
            multiply_few<NT>(job->above_input, job->above_chunks, rows[0], n_tiles, end, sum, [] { return true; });
    } else if constexpr (NB == 2 || A_GENERAL) { /* which has no registers for two pieces' inputs */
        multiply_pieces<NB, NT>(job->input, job->chunks, rows, n_tiles, end, sum);
        if (A_RANK && job->above)
            multiply_pieces<NB, NT>(job->above_input, job->above_chunks, rows, n_tiles, end, sum);
    } else {
        multiply_many<NB, NT>(job->input, job->chunks, rows, n_tiles, end, sum);
        if (A_RANK && job->above)
            multiply_many<NB, NT>(job->above_input, job->above_chunks, rows, n_tiles, end, sum);
    }
}

/* A warp's sums of 8 * N rows of tiles, beside those of the other warps. */
template <int N> ASSAY_FN void leave_partial(const float (*sum)[4]) {
    const uint32_t lane = lane_of_warp(), g = lane >> 2, t = lane & 3;
    float *to = shared()->u.partial + warp_of_block() * (A_ROWS_SUMMED * A_PART_STRIDE);
#pragma unroll
    for (int j = 0; j < N; j++) {
        float *one = to + (j * 8 + 2 * t) * A_PART_STRIDE + g;
        one[0] = sum[j][0];
        one[A_PART_STRIDE] = sum[j][1];
        one[8] = sum[j][2];
        one[A_PART_STRIDE + 8] = sum[j][3];
    }
}

/* ---- what follows it ----------------------------------------------------------------------------- */

#define A_SHARE ((A_TILES_DIM + 31) / 32)

/* RMSNorm's scale of a row is made by one warp, from a lane's share of the sums of squares of the row's tiles. */
ASSAY_FN bool ask_squares(const assay_params *p, const assay_job *job, uint32_t row, float *share) {
    const float *squares = floats_of(p, job->from, job->squares) + (uint64_t)(job->rows ? job->rows[row] : row) * A_TILES_DIM;
    bool there = true;
#pragma unroll
    for (uint32_t i = 0; i < A_SHARE; i++) {
        const uint32_t t = lane_of_warp() + i * 32;
        share[i] = t < A_TILES_DIM ? peek_float(squares + t) : 0.0f;
    }
#pragma unroll
    for (uint32_t i = 0; i < A_SHARE; i++) there = there && is_there(share[i]);
    return there;
}
ASSAY_FN void keep_scale(uint32_t row, const float *share) {
    float squares = 0;
#pragma unroll
    for (uint32_t i = 0; i < A_SHARE; i++) squares += share[i];
    squares = warp_sum(squares);
    if (lane_of_warp() == 0) shared()->scale[row] = one_over_root(squares / A_NORM_DIM + A_EPS);
}

/* All rows, where they do not flow; some at once. Seen by the others after the next `sync_block`. */
ASSAY_FN void scale_rows(const assay_params *p, const assay_job *job) {
    constexpr uint32_t SOME = A_SHARE <= 2 ? 8 : A_SHARE <= 8 ? 2 : 1;
#pragma unroll 1
    for (uint32_t first = warp_of_block(); first < job->n_rows; first += SOME * A_WARPS) {
        float share[SOME][A_SHARE];
#pragma unroll
        for (uint32_t i = 0; i < SOME; i++) {
            const uint32_t row = first + i * A_WARPS;
            (void)ask_squares(p, job, row < job->n_rows ? row : first, share[i]);
        }
#pragma unroll
        for (uint32_t i = 0; i < SOME; i++)
            if (first + i * A_WARPS < job->n_rows) keep_scale(first + i * A_WARPS, share[i]);
    }
}

/* One output of one row, which one thread settles. */
typedef struct {
    uint32_t row, tile, output; /* output: 0 .. 15 of its tile */
    bool there;
    float residual, gain; /* TO_RESIDUAL: asked for before the product */
} assay_output;

/* Whether it is there. */
template <int KIND> ASSAY_FN bool ask_beside(const assay_params *p, const assay_job *job, assay_output *o) {
    o->residual = 0;
    if (KIND != TO_RESIDUAL || !o->there) return true;
    const uint32_t at = o->tile * 16 + o->output;
    o->residual = peek_float(floats_of(p, job->from, job->residual) + (uint64_t)o->row * A_DIM + at);
    return is_there(o->residual);
}

/* The sum over the 16 neighbouring lanes that hold the outputs of one row. */
ASSAY_FN float row_sum(float v) {
    for (uint32_t m = 8; m > 0; m >>= 1) v += swap_lanes_f(v, m);
    return v;
}

ASSAY_FN void add_to_residual(const assay_params *p, const assay_job *job, const assay_output *o, float v) {
    const uint64_t at = (uint64_t)o->row * A_DIM + o->tile * 16 + o->output;
    const float x = o->there ? o->residual + v : 0.0f;
    leave_halves(halves_of(p, job->to, job->to_half) + at, x * o->gain, o->there);
    const float squares = row_sum(x * x);
    if (o->there && o->output == 0)
        leave_float(floats_of(p, job->to, job->to_squares) + (uint64_t)o->row * A_TILES_DIM + o->tile, squares);
    if (o->there) leave_float(floats_of(p, job->to, job->to_float) + at, x);
}

ASSAY_FN void gate(const assay_params *p, const assay_job *job, const assay_output *o, float v) {
    const float up = swap_lanes_f(v, 8);
    leave_halves(halves_of(p, job->to, job->to_half) + (uint64_t)o->row * A_HIDDEN + o->tile * 8 + o->output,
                 quotient(v, 1.0f + exp_of(-v)) * up, o->there && o->output < 8);
}

/* Whole warps come here: 16 neighbouring lanes hold the outputs of one row. */
template <int KIND>
ASSAY_FN void settle(const assay_params *p, const assay_job *job, const float *partial,
                     const assay_output *o) {
    float v = 0;
#pragma unroll
    for (uint32_t w = 0; w < A_WARPS; w++) v += partial[w * (A_ROWS_SUMMED * A_PART_STRIDE)];
    const uint32_t at = o->tile * 16 + o->output;
    if (KIND == TO_RESIDUAL) {
        if ((A_OUT_BIAS || A_MLP_BIAS) && job->bias && o->there) v += job->bias[at];
        add_to_residual(p, job, o, v);
        return;
    }
    if (KIND == TO_LOW) {
        leave_halves(halves_of(p, job->to, job->to_half) + (uint64_t)o->row * job->tiles * 16 + at, v, o->there);
        return;
    }
    v *= o->there ? shared()->scale[o->row] : 0.0f;
    if (KIND == TO_GATED && A_MLP_BIAS && o->there) v += job->bias[at];
    if (KIND == TO_GATED) gate(p, job, o, v);
    if (KIND == TO_QKV && o->there && at < A_QKV_DIM)
        leave_float(floats_of(p, job->to, job->to_float) + (uint64_t)o->row * A_QKV_DIM + at,
                    job->bias ? v + job->bias[at] : v);
    if (KIND == TO_LOGITS && o->there && at < A_VOCAB)
        scratch_f(p, A_AT_LOGITS)[(uint64_t)o->row * A_VOCAB + at] = v;
}

/* The output with a number among those of `n_tiles` tiles and NB * 8 rows. */
template <int KIND, int NB>
ASSAY_FN assay_output output_at(const assay_job *job, uint32_t number, uint32_t tile, uint32_t n_tiles,
                                uint32_t row0) {
    assay_output o;
    o.output = number % 16;
    o.row = row0 + number / 16 % (NB * 8);
    o.tile = tile + number / (NB * 128);
    o.there = o.row < job->n_rows && number / (NB * 128) < n_tiles;
    o.gain = KIND == TO_RESIDUAL && o.there ? job->gain[o.tile * 16 + o.output] : 0.0f;
    return o;
}

/* All tiles of a visit, as many at once as there is room for their partial sums. */
template <int KIND, int NB, int NT>
ASSAY_FN void one_visit(const assay_params *p, const assay_job *job, uint32_t tile, uint32_t n_tiles,
                        uint32_t row0, bool first, assay_ring_end *end) {
    constexpr int ROUNDS = (NB * NT + 7) / 8, OF_ROUND = NB * NT / ROUNDS; /* eights of rows */
    constexpr int MINE = (OF_ROUND * 128 + A_THREADS - 1) / A_THREADS;
    constexpr bool SCALED = KIND == TO_QKV || KIND == TO_GATED || KIND == TO_LOGITS;
    constexpr bool EARLY = ROUNDS == 1; /* what is beside the sums is asked for before the product */
    assay_output mine[MINE];
#pragma unroll
    for (int i = 0; EARLY && i < MINE; i++) {
        mine[i] = output_at<KIND, NB>(job, i * A_THREADS + thread_of_block(), tile, n_tiles, row0);
        if (NB > 1) ask_beside<KIND>(p, job, mine + i);
    }
    static_assert(NB > 1 || EARLY, "what may flow is asked for until it is there");
    /* Where the step flows, the block's first visit makes the scales: a warp those of its rows. */
    constexpr uint32_t EACH = NB == 1 && SCALED ? (8 + A_WARPS - 1) / A_WARPS : 0;
    const uint32_t scales = EACH && first && the_plan()->flows ? job->n_rows : 0;
    float sum[NT * NB][4], share[EACH + 1][A_SHARE];
    multiply_tiles<NB, NT>(job, n_tiles, row0, end, sum, [&] {
        bool there = true;
#pragma unroll
        for (int i = 0; NB == 1 && i < MINE; i++) there = ask_beside<KIND>(p, job, mine + i) && there;
#pragma unroll
        for (uint32_t i = 0; i < EACH; i++)
            if (warp_of_block() + i * A_WARPS < scales)
                there = ask_squares(p, job, warp_of_block() + i * A_WARPS, share[i]) && there;
        return there;
    });
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++)
        if (warp_of_block() + i * A_WARPS < scales) keep_scale(warp_of_block() + i * A_WARPS, share[i]);
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        if (r * OF_ROUND / NB >= (int)n_tiles) break;
        leave_partial<OF_ROUND>(sum + r * OF_ROUND);
#pragma unroll
        for (int i = 0; !EARLY && i < MINE; i++) {
            const uint32_t number = (r * MINE + i) * A_THREADS + thread_of_block();
            mine[i] = output_at<KIND, NB>(job, number, tile, n_tiles, row0);
            ask_beside<KIND>(p, job, mine + i);
        }
        sync_block();
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            const uint32_t number = i * A_THREADS + thread_of_block();
            if (number / (NB * 128) + r * OF_ROUND / NB >= n_tiles || number >= OF_ROUND * 128)
                continue;
            settle<KIND>(p, job,
                         shared()->u.partial + number / 16 * A_PART_STRIDE + number % 16,
                         mine + i);
        }
        sync_block();
    }
}

/* The workers of all blocks: every visit of a job. */
template <int KIND>
ASSAY_FN void project(const assay_params *p, const assay_job *job, uint32_t product,
                      assay_ring_end *end) {
    constexpr bool ALONE = KIND == TO_RESIDUAL || KIND == TO_LOW;
    bool first = true;
    if (!ALONE && !the_plan()->flows && shared()->visits[product].n) scale_rows(p, job);
#pragma unroll 1
    for (assay_visits v = shared()->visits[product]; v.n; move_on_visit(&v)) {
        const uint32_t tile = v.tile, row0 = v.row;
        const uint32_t n = job->tiles - tile < v.tiles ? job->tiles - tile : v.tiles;
        if (v.rows == 8)
            one_visit<KIND, 1, ALONE ? 1 : 4>(p, job, tile, n, row0, first, end);
        else if (v.rows == 16)
            one_visit<KIND, 2, ALONE ? 1 : 4>(p, job, tile, n, row0, first, end);
        else if (v.rows == 32)
            one_visit<KIND, 4, ALONE ? 1 : 2>(p, job, tile, n, row0, first, end);
        else
            one_visit<KIND, 8, ALONE ? 1 : 3>(p, job, tile, n, row0, first, end);
        first = false;
    }
}

/* ---- the input ----------------------------------------------------------------------------------- */

/* The embedding of every row's token, from the packed matrix. */
ASSAY_FN void embed(const assay_params *p, const uint8_t *weights, const float *gain) {
    const assay_plan *plan = the_plan();
    const uint16_t *table = (const uint16_t *)(const void *)(weights + A_AT_EMBED);
    const uint32_t pairs = plan->n_rows * A_TILES_DIM * 16;
    for (uint32_t i = block_of_grid() * A_THREADS + thread_of_block(); i < pairs;
         i += blocks_of_grid() * A_THREADS) {
        const uint32_t row = i / A_DIM, k = i % A_DIM, token = plan->token[row];
        const uint64_t half_chunk = ((uint64_t)(token / 16) * (A_DIM / 32) + k / 32) * 2 + k % 8 / 4;
        const uint64_t lane = token % 8 * 4 + k % 32 / 8;
        const uint32_t in_lane = k % 4 / 2 * 4 + token / 8 % 2 * 2 + k % 2;
        const float x = float_of((uint32_t)table[(half_chunk * 32 + lane) * 8 + in_lane] << 16);
        leave_halves(halves_of(p, 0, A_ROW_AT_NORMED_IN) + (uint64_t)row * A_DIM + k, x * gain[k], true);
        const float squares = row_sum(x * x);
        if (k % 16 == 0)
            leave_float(floats_of(p, 0, A_ROW_AT_SQUARES_IN) + (uint64_t)row * A_TILES_DIM + k / 16, squares);
        leave_float(floats_of(p, 0, A_ROW_AT_RESIDUAL_IN) + (uint64_t)row * A_DIM + k, x);
    }
}

#endif
