/* See weights.h. */
#include "weights.h"

#include <string.h>

#include "kernels.h"

static size_t element_bytes(uint32_t dtype) {
    return dtype == ASSAY_F32 ? 4 : 2;
}

static assay_matrix take_matrix(assay_weights *w, assay_arena *arena, uint32_t n, uint32_t k) {
    assay_matrix m;
    m.n_pairs = assay_round_up(n, 2 * ASSAY_PANEL) / (2 * ASSAY_PANEL);
    m.k = k;
    m.k_pad = assay_round_up(k, 32);
    m.panel_bytes = (size_t)m.k_pad * ASSAY_PANEL * element_bytes(w->shape.weight_dtype);
    const size_t bytes = m.n_pairs * 2 * m.panel_bytes;
    m.data = assay_arena_take(arena, bytes);
    w->matrix_bytes += bytes;
    return m;
}

static float *take_vector(assay_arena *arena, uint32_t n) {
    return assay_arena_take(arena, (size_t)assay_round_up(n, 32) * sizeof(float));
}

static void take_layer(assay_weights *w, assay_arena *arena, assay_layer *layer) {
    const assay_model_shape *s = &w->shape;
    const uint32_t n_qkv = (s->n_heads + 2 * s->n_kv_heads) * s->head_dim;
    const uint32_t n_mlp = 2 * assay_round_up(s->hidden_dim, ASSAY_PANEL);
    const assay_layer taken = {
        .attn_norm = take_vector(arena, s->dim),
        .ffn_norm = take_vector(arena, s->dim),
        .q_norm = s->qk_norm ? take_vector(arena, s->head_dim) : NULL,
        .k_norm = s->qk_norm ? take_vector(arena, s->head_dim) : NULL,
        .qkv_bias = s->qkv_bias ? take_vector(arena, n_qkv) : NULL,
        .out_bias = s->out_bias ? take_vector(arena, s->dim) : NULL,
        .mlp_bias = s->mlp_bias ? take_vector(arena, n_mlp) : NULL,
        .down_bias = s->mlp_bias ? take_vector(arena, s->dim) : NULL,
        .qkv = take_matrix(w, arena, n_qkv, s->dim),
        .out = take_matrix(w, arena, s->dim, s->n_heads * s->head_dim),
        .gate_up = take_matrix(w, arena, n_mlp, s->dim),
        .down = take_matrix(w, arena, s->dim, s->hidden_dim),
    };
    if (layer != NULL) {
        *layer = taken;
    }
}

void assay_weights_layout(assay_weights *w, const assay_model_shape *shape,
                          const assay_kernels *kernels, assay_arena *arena) {
    const size_t before = arena->used;
    memset(w, 0, sizeof *w);
    w->shape = *shape;
    w->kernels = kernels;
    w->layers = assay_arena_take(arena, shape->n_layers * sizeof(assay_layer));
    w->final_norm = take_vector(arena, shape->dim);
    w->rope_inv_freq = take_vector(arena, shape->head_dim / 2);
    for (uint32_t i = 0; i < shape->n_layers; i++) {
        take_layer(w, arena, w->layers == NULL ? NULL : &w->layers[i]);
    }
    w->lm_head = take_matrix(w, arena, shape->vocab_size, shape->dim);
    const size_t streamed = w->matrix_bytes;
    w->embed =
        shape->tied_embeddings ? w->lm_head : take_matrix(w, arena, shape->vocab_size, shape->dim);
    w->matrix_bytes = streamed;
    w->bytes = arena->used - before;
}

static float read_element(const void *data, uint32_t dtype, size_t i) {
    if (dtype == ASSAY_F32) {
        float value;
        memcpy(&value, (const uint8_t *)data + i * 4, sizeof value);
        return value;
    }
    uint16_t bits;
    memcpy(&bits, (const uint8_t *)data + i * 2, sizeof bits);
    if (dtype == ASSAY_BF16) {
        return assay_f32_of_bf16(bits);
    }
    const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    const uint32_t exponent = (bits >> 10) & 0x1fu;
    const uint32_t fraction = bits & 0x3ffu;
    if (exponent == 0) {
        const float small = (float)fraction * 0x1p-24f;
        return sign != 0 ? -small : small;
    }
    const uint32_t wide = exponent == 31 ? 255u : exponent + 112u;
    const uint32_t pattern = sign | wide << 23 | fraction << 13;
    float value;
    memcpy(&value, &pattern, sizeof value);
    return value;
}

float assay_element(const void *data, uint32_t dtype, size_t i) {
    return read_element(data, dtype, i);
}

static uint8_t *element_at(const assay_matrix *m, uint32_t dtype, uint32_t panel, uint32_t lane,
                           uint32_t k) {
    uint8_t *base = m->data + (size_t)panel * m->panel_bytes;
    if (dtype == ASSAY_F32) {
        return base + ((size_t)k * ASSAY_PANEL + lane) * 4;
    }
    return base + ((size_t)(k / 2) * ASSAY_PANEL + lane) * 4 + (k % 2) * 2;
}

enum { BITS_AT_ONCE = 512 };

/* n elements from `from` on, as bf16. */
static void bf16_bits(const assay_kernels *kernels, uint16_t *bits, const void *data, uint32_t dtype,
                      size_t from, uint32_t n) {
    const uint8_t *at = (const uint8_t *)data + from * element_bytes(dtype);
    if (dtype == ASSAY_BF16) {
        memcpy(bits, at, n * sizeof *bits);
    } else if (dtype == ASSAY_F32) {
        kernels->to_bf16(bits, at, n);
    }
    for (uint32_t i = 0; dtype == ASSAY_F16 && i < n; i++) {
        bits[i] = assay_bf16_of(read_element(data, dtype, from + i));
    }
}

/* One output's inputs, two in a word; the word of an odd last one ends with padding, which is 0. */
static void pack_bf16_row(const assay_kernels *kernels, const assay_matrix *m, uint32_t panel,
                          uint32_t lane, const void *data, uint32_t dtype, size_t from) {
    uint16_t bits[BITS_AT_ONCE + 1];
    for (uint32_t k = 0; k < m->k; k += BITS_AT_ONCE) {
        const uint32_t n = m->k - k < BITS_AT_ONCE ? m->k - k : BITS_AT_ONCE;
        bf16_bits(kernels, bits, data, dtype, from + k, n);
        bits[n] = 0;
        uint8_t *to = element_at(m, ASSAY_BF16, panel, lane, k);
        for (uint32_t i = 0; i < n; i += 2) {
            memcpy(to + (size_t)i / 2 * ASSAY_PANEL * 4, &bits[i], 4);
        }
    }
}

/* Output n of the tensor becomes output (first + n), or, with stride 2, panels interleave. */
static void pack_rows(const assay_weights *w, assay_matrix *m, uint32_t first, uint32_t panel_stride,
                      uint32_t panel_offset, const void *data, uint32_t dtype, uint32_t rows) {
    for (uint32_t n = 0; n < rows; n++) {
        const uint32_t panel = (first + n) / ASSAY_PANEL * panel_stride + panel_offset;
        const uint32_t lane = (first + n) % ASSAY_PANEL;
        if (w->shape.weight_dtype == ASSAY_BF16) {
            pack_bf16_row(w->kernels, m, panel, lane, data, dtype, (size_t)n * m->k);
            continue;
        }
        for (uint32_t k = 0; k < m->k; k++) {
            const float value = read_element(data, dtype, (size_t)n * m->k + k);
            memcpy(element_at(m, ASSAY_F32, panel, lane, k), &value, sizeof value);
        }
    }
}

static assay_place global_place(assay_weights *w, uint32_t tensor) {
    const assay_model_shape *s = &w->shape;
    switch (tensor) {
    case ASSAY_T_EMBED:
        return (assay_place){NULL, &w->embed, s->vocab_size, s->dim, 0, 1, 0};
    case ASSAY_T_LM_HEAD:
        if (s->tied_embeddings) {
            return (assay_place){0};
        }
        return (assay_place){NULL, &w->lm_head, s->vocab_size, s->dim, 0, 1, 0};
    case ASSAY_T_FINAL_NORM:
        return (assay_place){w->final_norm, NULL, 1, s->dim, 0, 1, 0};
    case ASSAY_T_ROPE_INV_FREQ:
        return (assay_place){w->rope_inv_freq, NULL, 1, s->head_dim / 2, 0, 1, 0};
    default:
        return (assay_place){0};
    }
}

static assay_place layer_place(const assay_model_shape *s, assay_layer *l, uint32_t tensor) {
    const uint32_t n_q = s->n_heads * s->head_dim;
    const uint32_t n_kv = s->n_kv_heads * s->head_dim;
    switch (tensor) {
    case ASSAY_T_ATTN_NORM:
        return (assay_place){l->attn_norm, NULL, 1, s->dim, 0, 1, 0};
    case ASSAY_T_FFN_NORM:
        return (assay_place){l->ffn_norm, NULL, 1, s->dim, 0, 1, 0};
    case ASSAY_T_Q_NORM:
        return (assay_place){l->q_norm, NULL, 1, s->head_dim, 0, 1, 0};
    case ASSAY_T_K_NORM:
        return (assay_place){l->k_norm, NULL, 1, s->head_dim, 0, 1, 0};
    case ASSAY_T_WQ:
        return (assay_place){NULL, &l->qkv, n_q, s->dim, 0, 1, 0};
    case ASSAY_T_WK:
        return (assay_place){NULL, &l->qkv, n_kv, s->dim, n_q, 1, 0};
    case ASSAY_T_WV:
        return (assay_place){NULL, &l->qkv, n_kv, s->dim, n_q + n_kv, 1, 0};
    case ASSAY_T_BQ:
        return (assay_place){l->qkv_bias, NULL, 1, n_q, 0, 1, 0};
    case ASSAY_T_BK:
        return (assay_place){l->qkv_bias, NULL, 1, n_kv, n_q, 1, 0};
    case ASSAY_T_BV:
        return (assay_place){l->qkv_bias, NULL, 1, n_kv, n_q + n_kv, 1, 0};
    case ASSAY_T_WO:
        return (assay_place){NULL, &l->out, s->dim, n_q, 0, 1, 0};
    case ASSAY_T_BO:
        return (assay_place){l->out_bias, NULL, 1, s->dim, 0, 1, 0};
    case ASSAY_T_W_GATE:
        return (assay_place){NULL, &l->gate_up, s->hidden_dim, s->dim, 0, 2, 0};
    case ASSAY_T_W_UP:
        return (assay_place){NULL, &l->gate_up, s->hidden_dim, s->dim, 0, 2, 1};
    case ASSAY_T_W_DOWN:
        return (assay_place){NULL, &l->down, s->dim, s->hidden_dim, 0, 1, 0};
    case ASSAY_T_B_GATE:
        return (assay_place){l->mlp_bias, NULL, 1, s->hidden_dim, 0, 2, 0};
    case ASSAY_T_B_UP:
        return (assay_place){l->mlp_bias, NULL, 1, s->hidden_dim, 0, 2, 1};
    case ASSAY_T_B_DOWN:
        return (assay_place){l->down_bias, NULL, 1, s->dim, 0, 1, 0};
    default:
        return (assay_place){0};
    }
}

static void load_vector(const assay_place *to, const void *data, uint32_t dtype) {
    for (uint32_t i = 0; i < to->cols; i++) {
        const uint32_t at = to->first + i;
        const uint32_t panel = at / ASSAY_PANEL * to->panel_stride + to->panel_offset;
        to->vector[panel * ASSAY_PANEL + at % ASSAY_PANEL] = read_element(data, dtype, i);
    }
}

static int piece_is_sound(const assay_weights *w, const assay_piece *p) {
    const uint32_t layers = p->tensor < ASSAY_T_ATTN_NORM ? 1 : w->shape.n_layers;
    return p->data != NULL && p->dtype <= ASSAY_F16 && p->tensor < ASSAY_T_COUNT &&
           p->layer < layers && p->from < p->to && p->to <= p->rows;
}

assay_place assay_weights_place(assay_weights *w, uint32_t tensor, uint32_t layer) {
    return tensor < ASSAY_T_ATTN_NORM ? global_place(w, tensor)
                                      : layer_place(&w->shape, &w->layers[layer], tensor);
}

static void load_piece(assay_weights *w, const assay_place *to, const assay_piece *p) {
    if (to->vector != NULL) {
        load_vector(to, p->data, p->dtype);
    } else {
        pack_rows(w, to->matrix, to->first + p->from, to->panel_stride, to->panel_offset, p->data,
                  p->dtype, p->to - p->from);
    }
    uint32_t *loaded =
        p->tensor < ASSAY_T_ATTN_NORM ? &w->loaded : &w->layers[p->layer].loaded;
    *loaded |= p->to == p->rows ? 1u << p->tensor : 0;
}

static int fits(const assay_place *to, const assay_piece *p) {
    return (to->vector != NULL || to->matrix != NULL) && to->rows == p->rows && to->cols == p->cols;
}

int assay_weights_load(assay_weights *w, uint32_t tensor, uint32_t layer, const void *data,
                       uint32_t dtype, uint32_t rows, uint32_t cols) {
    const assay_piece p = {tensor, layer, dtype, rows, cols, 0, rows, 0, data};
    if (!piece_is_sound(w, &p)) {
        return ASSAY_ENGINE_INVALID;
    }
    const assay_place to = assay_weights_place(w, tensor, layer);
    if (!fits(&to, &p)) {
        return ASSAY_ENGINE_INVALID;
    }
    load_piece(w, &to, &p);
    return ASSAY_ENGINE_OK;
}

/* Bits of the least magnitude that is not finite as it is kept: a float32 from halfway above the
 * greatest bf16 on rounds to infinity. */
enum { F32_ENDS = 0x7f800000, F32_ENDS_AS_BF16 = 0x7f7f8000, BF16_ENDS = 0x7f80, F16_ENDS = 0x7c00 };

/* As assay_kernels.below, of float16 or bf16. */
static int f16_below(const uint8_t *data, size_t n, int16_t end) {
    int16_t beyond = 0;
    for (size_t i = 0; i < n; i++) {
        int16_t bits;
        memcpy(&bits, data + i * sizeof bits, sizeof bits);
        beyond |= (int16_t)((bits & 0x7fff) >= end);
    }
    return !beyond;
}

int assay_all_finite(const assay_kernels *kernels, const void *data, uint32_t dtype, size_t n,
                     uint32_t kept) {
    if (dtype == ASSAY_F32) {
        return kernels->below(data, n, kept == ASSAY_BF16 ? F32_ENDS_AS_BF16 : F32_ENDS);
    }
    return f16_below(data, n, dtype == ASSAY_BF16 ? BF16_ENDS : F16_ENDS);
}

int assay_weights_load_rows(assay_weights *w, const assay_piece *p) {
    if (!piece_is_sound(w, p)) {
        return ASSAY_ENGINE_INVALID;
    }
    const assay_place to = assay_weights_place(w, p->tensor, p->layer);
    if (!fits(&to, p)) {
        return ASSAY_ENGINE_INVALID;
    }
    const size_t n = (size_t)(p->to - p->from) * p->cols;
    if (!assay_all_finite(w->kernels, p->data, p->dtype, n,
                          to.vector != NULL ? ASSAY_F32 : w->shape.weight_dtype)) {
        return ASSAY_ENGINE_NOT_FINITE;
    }
    load_piece(w, &to, p);
    return ASSAY_ENGINE_OK;
}

void assay_weights_begin_again(assay_weights *w, const assay_weights *from) {
    w->loaded = 1u << ASSAY_T_ROPE_INV_FREQ;
    memcpy(w->rope_inv_freq, from->rope_inv_freq, w->shape.head_dim / 2 * sizeof(float));
    for (uint32_t i = 0; i < w->shape.n_layers; i++) {
        w->layers[i].loaded = 0;
    }
}

int assay_weights_complete(const assay_weights *w) {
    const assay_model_shape *s = &w->shape;
    uint32_t global = 1u << ASSAY_T_EMBED | 1u << ASSAY_T_FINAL_NORM | 1u << ASSAY_T_ROPE_INV_FREQ;
    uint32_t layer = 1u << ASSAY_T_ATTN_NORM | 1u << ASSAY_T_FFN_NORM | 1u << ASSAY_T_WQ |
                     1u << ASSAY_T_WK | 1u << ASSAY_T_WV | 1u << ASSAY_T_WO |
                     1u << ASSAY_T_W_GATE | 1u << ASSAY_T_W_UP | 1u << ASSAY_T_W_DOWN;
    global |= s->tied_embeddings ? 0 : 1u << ASSAY_T_LM_HEAD;
    layer |= s->qk_norm ? 1u << ASSAY_T_Q_NORM | 1u << ASSAY_T_K_NORM : 0;
    layer |= s->qkv_bias ? 1u << ASSAY_T_BQ | 1u << ASSAY_T_BK | 1u << ASSAY_T_BV : 0;
    layer |= s->out_bias ? 1u << ASSAY_T_BO : 0;
    layer |= s->mlp_bias ? 1u << ASSAY_T_B_GATE | 1u << ASSAY_T_B_UP | 1u << ASSAY_T_B_DOWN : 0;
    int status = w->loaded == global ? ASSAY_ENGINE_OK : ASSAY_ENGINE_MISSING;
    for (uint32_t i = 0; i < s->n_layers; i++) {
        status = w->layers[i].loaded == layer ? status : ASSAY_ENGINE_MISSING;
    }
    return status;
}

void assay_weights_embed(const assay_weights *w, int32_t token, float *out) {
    const uint32_t panel = (uint32_t)token / ASSAY_PANEL;
    const uint32_t lane = (uint32_t)token % ASSAY_PANEL;
    for (uint32_t k = 0; k < w->shape.dim; k++) {
        out[k] = read_element(element_at(&w->embed, w->shape.weight_dtype, panel, lane, k),
                              w->shape.weight_dtype, 0);
    }
}
