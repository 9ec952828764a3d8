/* See adapter.h: checks, lays out and loads adapters. Their part of a step is in adapter_steps.c. */
#include "adapter.h"

#include <stdlib.h>
#include <string.h>

#include "adapter_layout.h"
#include "rotation.h"

enum { PIECES_PER_LAYER = 7 };

static enum assay_group group_of(uint32_t tensor) {
    switch (tensor) {
    case ASSAY_T_WQ:
    case ASSAY_T_WK:
    case ASSAY_T_WV:
        return ASSAY_GROUP_QKV;
    case ASSAY_T_WO:
        return ASSAY_GROUP_OUT;
    case ASSAY_T_W_GATE:
    case ASSAY_T_W_UP:
        return ASSAY_GROUP_GATE_UP;
    case ASSAY_T_W_DOWN:
        return ASSAY_GROUP_DOWN;
    default:
        return ASSAY_GROUPS;
    }
}

static assay_adapted *adapted_at(const assay_adapter *ad, uint32_t layer, enum assay_group group) {
    return &ad->matrices[layer * ASSAY_GROUPS + group];
}

/* ------------------------------------------------------------------------------------------------
 * Pieces */

static int is_finite(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits & 0x7f800000u) != 0x7f800000u;
}

static int lora_is_sound(const assay_adapter_piece *p) {
    return p->size >= 1 && p->size <= ASSAY_RANK_MAX && p->n_blocks == 0 && p->terms == 0 &&
           is_finite(p->scale);
}

static int oft_is_sound(const assay_adapter_piece *p) {
    const int neumann = p->kind == ASSAY_ADAPT_OFT_NEUMANN;
    return p->kind <= ASSAY_ADAPT_OFT_EXPONENTIAL && p->size >= 1 &&
           p->size <= ASSAY_OFT_BLOCK_MAX && p->cols % p->size == 0 &&
           (p->n_blocks == 1 || p->n_blocks == p->cols / p->size) &&
           (neumann ? p->terms >= 1 && p->terms <= ASSAY_NEUMANN_TERMS_MAX : p->terms == 0);
}

static int piece_is_sound(assay_weights *w, const assay_adapter_piece *p) {
    if (group_of(p->tensor) == ASSAY_GROUPS || p->layer >= w->shape.n_layers ||
        p->dtype > ASSAY_F16) {
        return 0;
    }
    const assay_place place = assay_weights_place(w, p->tensor, p->layer);
    return place.rows == p->rows && place.cols == p->cols &&
           (p->kind == ASSAY_ADAPT_LORA ? lora_is_sound(p) : oft_is_sound(p));
}

/* In order of tensor, so that the order of the pieces changes no bit. 0: a piece is named twice. */
static int add_part(assay_adapter *ad, assay_weights *w, const assay_adapter_piece *p) {
    assay_adapted *m = adapted_at(ad, p->layer, group_of(p->tensor));
    uint32_t at = m->n_parts;
    while (at > 0 && m->parts[at - 1].piece.tensor >= p->tensor) {
        if (m->parts[--at].piece.tensor == p->tensor) {
            return 0;
        }
    }
    memmove(&m->parts[at + 1], &m->parts[at], (m->n_parts - at) * sizeof *m->parts);
    m->parts[at] = (assay_adapter_part){
        .piece = *p, .place = assay_weights_place(w, p->tensor, p->layer)};
    m->n_parts++;
    return 1;
}

static int list_parts(assay_adapter *ad, assay_weights *w, const assay_adapter_piece *pieces,
                      uint32_t n_pieces) {
    if (pieces == NULL || n_pieces > PIECES_PER_LAYER * ad->n_layers) {
        return ASSAY_ENGINE_INVALID;
    }
    for (uint32_t i = 0; i < n_pieces; i++) {
        const int lora = pieces[i].kind == ASSAY_ADAPT_LORA;
        if (lora != (pieces[0].kind == ASSAY_ADAPT_LORA) || !piece_is_sound(w, &pieces[i]) ||
            !add_part(ad, w, &pieces[i])) {
            return ASSAY_ENGINE_INVALID;
        }
        ad->lora = (uint32_t)lora;
    }
    return ASSAY_ENGINE_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Memory. Each of these runs twice: once to count, once to place. */

static assay_matrix take_f32(assay_arena *arena, uint32_t n, uint32_t k, uint32_t copies) {
    assay_matrix m = {.n_pairs = assay_round_up(n, ASSAY_PAIR) / ASSAY_PAIR, .k = k};
    m.k_pad = assay_round_up(k, 32);
    m.panel_bytes = (size_t)m.k_pad * ASSAY_PANEL * sizeof(float);
    m.data = assay_arena_take(arena, (size_t)copies * m.n_pairs * 2 * m.panel_bytes);
    return m;
}

/* Returns the low-rank rows, padded. */
static uint32_t lay_out_lora(assay_adapted *m, assay_arena *arena) {
    uint32_t rank = 0;
    for (uint32_t i = 0; i < m->n_parts; i++) {
        m->parts[i].first = rank;
        rank += m->parts[i].piece.size;
    }
    const uint32_t n_outputs = m->parts[0].place.matrix->n_pairs * ASSAY_PAIR;
    m->a = take_f32(arena, rank, m->parts[0].piece.cols, 1);
    m->b = take_f32(arena, n_outputs, rank, 1);
    m->scales = assay_arena_take(arena, m->b.k_pad * sizeof(float));
    m->n_items = m->a.n_pairs;
    return m->b.k_pad;
}

/* Returns the largest block, padded. */
static uint32_t lay_out_oft(assay_adapted *m, assay_arena *arena) {
    const uint32_t n_pairs = m->parts[0].place.matrix->n_pairs;
    uint32_t block_pad = 0;
    m->n_items = 0;
    for (uint32_t i = 0; i < m->n_parts; i++) {
        assay_adapter_part *part = &m->parts[i];
        const uint32_t size = part->piece.size;
        part->n_rotations = part->piece.n_blocks;
        part->rotation = take_f32(arena, size, size, part->n_rotations);
        m->n_items += part->piece.cols / size;
        block_pad = part->rotation.k_pad > block_pad ? part->rotation.k_pad : block_pad;
    }
    m->source = assay_arena_take(arena, (size_t)n_pairs * ASSAY_PAIR);
    m->sources = assay_arena_take(arena, n_pairs);
    return block_pad;
}

static void lay_out_inputs(assay_adapter *ad, const uint32_t *read, assay_arena *arena) {
    for (uint32_t which = 0; which < ASSAY_INPUTS; which++) {
        ad->copied[which] = read[which] && ad->host.gemm->pack != assay_adapter_f32(ad)->pack;
        ad->inputs[which] = ad->host.inputs[which];
        if (ad->copied[which]) {
            ad->inputs[which] = assay_arena_take(
                arena, (size_t)ad->host.rows_pad * ad->host.pads[which] * sizeof(float));
        }
    }
}

static void lay_out(assay_adapter *ad, assay_arena *arena) {
    const size_t rows = ad->host.rows_pad;
    uint32_t read[ASSAY_INPUTS] = {0};
    uint32_t depth = 0; /* padded low-rank rows, or the largest block */
    uint32_t parts_max = 0;
    uint32_t pad_max = 0;
    for (uint32_t i = 0; i < ad->n_layers * ASSAY_GROUPS; i++) {
        assay_adapted *m = &ad->matrices[i];
        if (m->n_parts == 0) {
            continue;
        }
        const enum assay_input which = assay_adapter_input_of((enum assay_group)(i % ASSAY_GROUPS));
        const uint32_t deep = ad->lora ? lay_out_lora(m, arena) : lay_out_oft(m, arena);
        read[which] = 1;
        depth = deep > depth ? deep : depth;
        parts_max = m->n_parts > parts_max ? m->n_parts : parts_max;
        pad_max = ad->host.pads[which] > pad_max ? ad->host.pads[which] : pad_max;
    }
    lay_out_inputs(ad, read, arena);
    ad->sums = assay_arena_take(arena, ad->host.n_threads * 2 * rows * ASSAY_PANEL * sizeof(float));
    if (ad->lora) {
        ad->low = assay_arena_take(arena, rows * depth * sizeof(float));
        return;
    }
    ad->block_pad = depth;
    ad->gathered = assay_arena_take(arena, ad->host.n_threads * rows * depth * sizeof(float));
    for (uint32_t i = 0; i < parts_max; i++) {
        ad->rotated[i] = assay_arena_take(arena, rows * pad_max * sizeof(float));
    }
}

/* Index of output n of a projection among the matrix's outputs. */
static uint32_t output_at(const assay_place *place, uint32_t n) {
    const uint32_t at = place->first + n;
    return (at / ASSAY_PANEL * place->panel_stride + place->panel_offset) * ASSAY_PANEL +
           at % ASSAY_PANEL;
}

/* OFT: which rotated input each output of a matrix reads. Projections without an adapter read the
 * plain one; padding reads none. */
static void fill_sources(assay_adapted *m, assay_weights *w, uint32_t layer,
                         enum assay_group group) {
    for (uint32_t i = 0; i < m->n_parts; i++) {
        for (uint32_t n = 0; n < m->parts[i].piece.rows; n++) {
            m->source[output_at(&m->parts[i].place, n)] = (uint8_t)(1 + i);
        }
    }
    for (uint32_t tensor = ASSAY_T_ATTN_NORM; tensor < ASSAY_T_COUNT; tensor++) {
        if (group_of(tensor) != group) {
            continue;
        }
        const assay_place place = assay_weights_place(w, tensor, layer);
        for (uint32_t n = 0; n < place.rows; n++) {
            const uint32_t at = output_at(&place, n);
            m->sources[at / ASSAY_PAIR] |= (uint8_t)(1u << m->source[at]);
        }
    }
}

/* Takes `old`, the pages of the slot's last adapter, if they have the size: mapping pages and giving
 * them back stops every thread of the process for a moment, those that decode too. */
static int is_same_host(const assay_adapter_host *a, const assay_adapter_host *b) {
    return a->kernels == b->kernels && a->gemm == b->gemm && a->rows_pad == b->rows_pad &&
           a->n_threads == b->n_threads && memcmp(a->pads, b->pads, sizeof a->pads) == 0;
}

/* Whether both are laid out alike: then the values of one replace all those of the other, and what
 * neither has values for is zero already. */
static int is_laid_out_as(const assay_adapter *ad, const assay_adapter *old) {
    if (!ad->lora || !old->lora || ad->n_layers != old->n_layers ||
        !is_same_host(&ad->host, &old->host)) {
        return 0;
    }
    for (uint32_t i = 0; i < ad->n_layers * ASSAY_GROUPS; i++) {
        const assay_adapted *a = &ad->matrices[i];
        const assay_adapted *b = &old->matrices[i];
        if (a->n_parts != b->n_parts) {
            return 0;
        }
        for (uint32_t j = 0; j < a->n_parts; j++) {
            if (a->parts[j].piece.tensor != b->parts[j].piece.tensor ||
                a->parts[j].piece.size != b->parts[j].piece.size) {
                return 0;
            }
        }
    }
    return 1;
}

/* Zeros, in the pages of `old` if they are as many. */
static int take_pages(assay_adapter *ad, size_t bytes, const assay_adapter *old) {
    uint32_t huge;
    if (old->pages != NULL && old->bytes == bytes) {
        if (!is_laid_out_as(ad, old)) {
            memset(old->pages, 0, bytes);
        }
        ad->pages = old->pages;
    } else {
        assay_pages_unmap(old->pages, old->bytes);
        ad->pages = assay_pages_map(bytes, &huge);
    }
    ad->bytes = ad->pages == NULL ? 0 : bytes;
    return ad->pages == NULL ? ASSAY_ENGINE_NO_MEMORY : ASSAY_ENGINE_OK;
}

static int take_memory(assay_adapter *ad, assay_weights *w, const assay_adapter *old) {
    assay_arena count = {NULL, 0};
    lay_out(ad, &count);
    if (take_pages(ad, count.used, old) != ASSAY_ENGINE_OK) {
        return ASSAY_ENGINE_NO_MEMORY;
    }
    assay_arena arena = {ad->pages, 0};
    lay_out(ad, &arena);
    for (uint32_t i = 0; !ad->lora && i < ad->n_layers * ASSAY_GROUPS; i++) {
        if (ad->matrices[i].n_parts != 0) {
            fill_sources(&ad->matrices[i], w, i / ASSAY_GROUPS,
                         (enum assay_group)(i % ASSAY_GROUPS));
        }
    }
    return ASSAY_ENGINE_OK;
}

int assay_adapter_begin(assay_adapter *ad, assay_weights *w, const assay_adapter_host *host,
                        const assay_adapter_piece *pieces, uint32_t n_pieces) {
    if (n_pieces == 0) {
        assay_adapter_drop(ad);
        return ASSAY_ENGINE_OK;
    }
    assay_adapter old = *ad;
    memset(ad, 0, sizeof *ad);
    ad->host = *host;
    ad->n_layers = w->shape.n_layers;
    ad->matrices = calloc((size_t)ad->n_layers * ASSAY_GROUPS, sizeof *ad->matrices);
    int status = ad->matrices == NULL ? ASSAY_ENGINE_NO_MEMORY
                                      : list_parts(ad, w, pieces, n_pieces);
    if (status == ASSAY_ENGINE_OK) {
        status = take_memory(ad, w, &old);
    } else {
        assay_pages_unmap(old.pages, old.bytes);
    }
    free(old.matrices);
    if (status != ASSAY_ENGINE_OK) {
        assay_adapter_drop(ad);
    }
    return status;
}

void assay_adapter_drop(assay_adapter *ad) {
    assay_pages_unmap(ad->pages, ad->bytes);
    free(ad->matrices);
    memset(ad, 0, sizeof *ad);
}

/* ------------------------------------------------------------------------------------------------
 * Data */

/* Where output `output` has its value for input 0; that of input k is k * ASSAY_PANEL further. */
static float *column(const assay_matrix *m, uint8_t *data, uint32_t output) {
    return (float *)(void *)(data + (size_t)(output / ASSAY_PANEL) * m->panel_bytes) +
           output % ASSAY_PANEL;
}

/* Adapters come as float32 nearly always: no call per value for those. */
static float value_at(const void *data, uint32_t dtype, size_t i) {
    float value;
    if (dtype != ASSAY_F32) {
        return assay_element(data, dtype, i);
    }
    memcpy(&value, (const uint8_t *)data + i * sizeof value, sizeof value);
    return value;
}

/* Row `from` of a (rows, n) tensor becomes the inputs first .. first + n of one output. */
static void put_row(float *to, uint32_t first, const void *data, uint32_t dtype, uint32_t from,
                    uint32_t n) {
    to += (size_t)first * ASSAY_PANEL;
    for (uint32_t k = 0; k < n; k++) {
        to[(size_t)k * ASSAY_PANEL] = value_at(data, dtype, (size_t)from * n + k);
    }
}

static int load_lora(const assay_adapter *ad, assay_adapted *m, const assay_adapter_part *part,
                     const assay_adapter_piece *p) {
    const assay_kernels *kernels = ad->host.kernels;
    if (p->b == NULL) {
        return ASSAY_ENGINE_INVALID;
    }
    if (!assay_all_finite(kernels, p->a, p->dtype, (size_t)p->size * p->cols, ASSAY_F32) ||
        !assay_all_finite(kernels, p->b, p->dtype, (size_t)p->rows * p->size, ASSAY_F32)) {
        return ASSAY_ENGINE_NOT_FINITE;
    }
    for (uint32_t r = 0; r < p->size; r++) {
        m->scales[part->first + r] = p->scale;
        put_row(column(&m->a, m->a.data, part->first + r), 0, p->a, p->dtype, r, p->cols);
    }
    for (uint32_t n = 0; n < p->rows; n++) {
        put_row(column(&m->b, m->b.data, output_at(&part->place, n)), part->first, p->b, p->dtype,
                n, p->size);
    }
    return ASSAY_ENGINE_OK;
}

/* One block: output c of the panels is column c of R, as x' = x R. */
static int load_rotation(const assay_adapter_part *part, const assay_adapter_piece *p,
                         uint32_t block, double *upper, double *room) {
    const uint32_t n = p->size;
    const size_t n_upper = (size_t)n * (n - 1) / 2;
    for (size_t i = 0; i < n_upper; i++) {
        upper[i] = (double)assay_element(p->a, p->dtype, block * n_upper + i);
    }
    const double *r = assay_rotation(upper, n, p->kind, p->terms, room);
    if (r == NULL) {
        return ASSAY_ENGINE_NOT_FINITE;
    }
    uint8_t *data = part->rotation.data + block * assay_rotation_bytes(&part->rotation);
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t c = 0; c < n; c++) {
            column(&part->rotation, data, c)[(size_t)k * ASSAY_PANEL] = (float)r[(size_t)k * n + c];
        }
    }
    return ASSAY_ENGINE_OK;
}

static int load_oft(const assay_adapter_part *part, const assay_adapter_piece *p) {
    const size_t n_upper = (size_t)p->size * (p->size - 1) / 2;
    double *room = malloc((n_upper + assay_rotation_room(p->size)) * sizeof *room);
    if (room == NULL) {
        return ASSAY_ENGINE_NO_MEMORY;
    }
    int status = ASSAY_ENGINE_OK;
    for (uint32_t block = 0; block < p->n_blocks && status == ASSAY_ENGINE_OK; block++) {
        status = load_rotation(part, p, block, room, room + n_upper);
    }
    free(room);
    return status;
}

static int is_as_named(const assay_adapter_piece *named, const assay_adapter_piece *p) {
    return named->tensor == p->tensor && named->kind == p->kind && named->rows == p->rows &&
           named->cols == p->cols && named->size == p->size && named->n_blocks == p->n_blocks &&
           named->terms == p->terms && p->dtype <= ASSAY_F16 && p->a != NULL &&
           is_finite(p->scale);
}

int assay_adapter_load(assay_adapter *ad, const assay_adapter_piece *p) {
    const enum assay_group group = group_of(p->tensor);
    if (ad->matrices == NULL || group == ASSAY_GROUPS || p->layer >= ad->n_layers) {
        return ASSAY_ENGINE_INVALID;
    }
    assay_adapted *m = adapted_at(ad, p->layer, group);
    for (uint32_t i = 0; i < m->n_parts; i++) {
        assay_adapter_part *part = &m->parts[i];
        if (is_as_named(&part->piece, p)) {
            const int status = ad->lora ? load_lora(ad, m, part, p) : load_oft(part, p);
            part->loaded = status == ASSAY_ENGINE_OK;
            return status;
        }
    }
    return ASSAY_ENGINE_INVALID;
}

int assay_adapter_complete(const assay_adapter *ad) {
    for (uint32_t i = 0; ad->matrices != NULL && i < ad->n_layers * ASSAY_GROUPS; i++) {
        for (uint32_t j = 0; j < ad->matrices[i].n_parts; j++) {
            if (!ad->matrices[i].parts[j].loaded) {
                return ASSAY_ENGINE_MISSING;
            }
        }
    }
    return ASSAY_ENGINE_OK;
}
