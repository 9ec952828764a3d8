/* See adapter.h: what the threads of a step do with an adapter. */
#include <string.h>

#include "adapter_layout.h"

static float *sums_of(const assay_adapter *ad, uint32_t thread) {
    return ad->sums + (size_t)thread * 2 * ad->host.rows_pad * ASSAY_PANEL;
}

void assay_adapter_put(const assay_adapter *ad, enum assay_input which, uint32_t row, uint32_t k,
                       const float *values, uint32_t n) {
    if (ad->copied[which]) {
        assay_adapter_f32(ad)->pack(ad->inputs[which], ad->host.pads[which], row, k, values, n);
    }
}

/* 32 low-rank rows: scale * (A x). The padding is written too, as the next product reads it. */
static void lower(const assay_adapter *ad, const assay_adapted *m, const float *input,
                  uint32_t thread, uint32_t rows, uint32_t pair) {
    const size_t stride = (size_t)ad->host.rows_pad * ASSAY_PANEL;
    float *sums = sums_of(ad, thread);
    float scaled[ASSAY_PANEL];
    assay_adapter_f32(ad)->mul(input, m->a.k_pad, rows, m->a.data + (size_t)pair * 2 * m->a.panel_bytes, sums,
                     stride);
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t panel = 0; panel < 2; panel++) {
            const uint32_t first = pair * ASSAY_PAIR + panel * ASSAY_PANEL;
            const float *from = sums + panel * stride + (size_t)row * ASSAY_PANEL;
            for (uint32_t i = 0; i < ASSAY_PANEL; i++) {
                scaled[i] = from[i] * m->scales[first + i];
            }
            assay_adapter_f32(ad)->pack(ad->low, m->b.k_pad, row, first, scaled, ASSAY_PANEL);
        }
    }
}

/* The columns of one block of all rows, as an operand. */
static float *gather(const assay_adapter *ad, const assay_adapter_part *part, const float *input,
                     uint32_t ld, uint32_t thread, uint32_t rows, uint32_t block) {
    float *gathered = ad->gathered + (size_t)thread * ad->host.rows_pad * ad->block_pad;
    const uint32_t size = part->piece.size;
    const uint32_t pad = part->rotation.k_pad;
    for (uint32_t row = 0; row < rows; row++) {
        float *to = gathered + (size_t)row * pad;
        memcpy(to, input + (size_t)row * ld + (size_t)block * size, size * sizeof *to);
        memset(to + size, 0, (pad - size) * sizeof *to);
    }
    return gathered;
}

/* Writes one rotated block of all rows into the operand of part `at`. */
static void rotate(const assay_adapter *ad, const assay_adapted *m, uint32_t at,
                   const float *input, uint32_t ld, uint32_t thread, uint32_t rows,
                   uint32_t block) {
    const assay_adapter_part *part = &m->parts[at];
    const assay_matrix *r = &part->rotation;
    const uint32_t size = part->piece.size;
    const size_t stride = (size_t)ad->host.rows_pad * ASSAY_PANEL;
    const uint8_t *data = r->data + (part->n_rotations == 1 ? 0 : block) * assay_rotation_bytes(r);
    const float *gathered = gather(ad, part, input, ld, thread, rows, block);
    float *sums = sums_of(ad, thread);
    for (uint32_t pair = 0; pair < r->n_pairs; pair++) {
        assay_adapter_f32(ad)->mul(gathered, r->k_pad, rows, data + (size_t)pair * 2 * r->panel_bytes, sums,
                         stride);
        for (uint32_t first = pair * ASSAY_PAIR; first < size && first < (pair + 1) * ASSAY_PAIR;
             first += ASSAY_PANEL) {
            const float *from = sums + (first % ASSAY_PAIR == 0 ? 0 : stride);
            const uint32_t n = size - first < ASSAY_PANEL ? size - first : ASSAY_PANEL;
            for (uint32_t row = 0; row < rows; row++) {
                ad->host.gemm->pack(ad->rotated[at], ld, row, block * size + first,
                                    from + (size_t)row * ASSAY_PANEL, n);
            }
        }
    }
}

/* Operands of rotated rows serve inputs of several lengths, so the padding may hold old values. */
static void clear_padding(const assay_adapter *ad, uint32_t at, uint32_t cols, uint32_t ld,
                          uint32_t rows) {
    static const float zeros[ASSAY_PAIR];
    for (uint32_t row = 0; row < rows && cols < ld; row++) {
        ad->host.gemm->pack(ad->rotated[at], ld, row, cols, zeros, ld - cols);
    }
}

/* Item i of a matrix's blocks, part by part. */
static void rotate_item(const assay_adapter *ad, const assay_adapted *m, enum assay_input which,
                        uint32_t thread, uint32_t rows, uint32_t i) {
    const uint32_t ld = ad->host.pads[which];
    uint32_t at = 0;
    uint32_t n_blocks = m->parts[0].piece.cols / m->parts[0].piece.size;
    while (i >= n_blocks) {
        i -= n_blocks;
        at++;
        n_blocks = m->parts[at].piece.cols / m->parts[at].piece.size;
    }
    rotate(ad, m, at, ad->inputs[which], ld, thread, rows, i);
    if (i + 1 == n_blocks) {
        clear_padding(ad, at, m->parts[at].piece.cols, ld, rows);
    }
}

int assay_adapter_phase(const assay_adapter *ad, assay_walker *walker, uint32_t layer,
                        enum assay_group group, uint32_t rows) {
    const assay_adapted *m = assay_adapted_of(ad, layer, group);
    const enum assay_input which = assay_adapter_input_of(group);
    uint32_t begin;
    uint32_t end;
    if (m == NULL) {
        return 1;
    }
    while (assay_claim(walker, m->n_items, 1, &begin, &end)) {
        for (uint32_t i = begin; i < end; i++) {
            if (ad->lora) {
                lower(ad, m, ad->inputs[which], walker->index, rows, i);
            } else {
                rotate_item(ad, m, which, walker->index, rows, i);
            }
        }
    }
    return assay_phase_end(walker);
}

static void add_low_rank(const assay_adapter *ad, const assay_adapted *m, uint32_t thread,
                         uint32_t rows, uint32_t pair, float *sums, size_t stride) {
    float *more = sums_of(ad, thread);
    assay_adapter_f32(ad)->mul(ad->low, m->b.k_pad, rows, m->b.data + (size_t)pair * 2 * m->b.panel_bytes,
                     more, stride);
    for (size_t i = 0; i < (size_t)rows * ASSAY_PANEL; i++) {
        sums[i] += more[i];
        sums[stride + i] += more[stride + i];
    }
}

/* Copies the outputs of a pair that read `source`. */
static void select_outputs(const uint8_t *source_of, uint32_t source, uint32_t rows, float *to,
                           const float *from, size_t stride) {
    for (uint32_t i = 0; i < ASSAY_PAIR; i++) {
        if (source_of[i] != source) {
            continue;
        }
        const size_t first = (i < ASSAY_PANEL ? 0 : stride) + i % ASSAY_PANEL;
        for (uint32_t row = 0; row < rows; row++) {
            to[first + (size_t)row * ASSAY_PANEL] = from[first + (size_t)row * ASSAY_PANEL];
        }
    }
}

/* One product per input that the pair's outputs read: most pairs read one. */
static void mul_rotated(const assay_adapter *ad, const assay_adapted *m, uint32_t thread,
                        const assay_matrix *matrix, const void *operand, uint32_t rows,
                        uint32_t pair, float *sums, size_t stride) {
    const uint8_t *panels = matrix->data + (size_t)pair * 2 * matrix->panel_bytes;
    uint32_t left = m->sources[pair];
    float *to = sums;
    for (uint32_t source = 0; left != 0; source++, left >>= 1) {
        if ((left & 1) == 0) {
            continue;
        }
        ad->host.gemm->mul(source == 0 ? operand : ad->rotated[source - 1], matrix->k_pad, rows,
                           panels, to, stride);
        if (to != sums) {
            select_outputs(m->source + (size_t)pair * ASSAY_PAIR, source, rows, sums, to, stride);
        }
        to = sums_of(ad, thread);
    }
}

void assay_adapter_mul(const assay_adapter *ad, const assay_adapted *m, uint32_t thread,
                       const assay_matrix *matrix, const void *operand, uint32_t rows, uint32_t pair,
                       float *sums, size_t stride) {
    if (ad->lora) {
        ad->host.gemm->mul(operand, matrix->k_pad, rows,
                           matrix->data + (size_t)pair * 2 * matrix->panel_bytes, sums, stride);
        add_low_rank(ad, m, thread, rows, pair, sums, stride);
    } else {
        mul_rotated(ad, m, thread, matrix, operand, rows, pair, sums, stride);
    }
}
