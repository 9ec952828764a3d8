/* See kv_layout.h. */
#include "kv_layout.h"

#include <string.h>

static uint32_t round_up(uint32_t n, uint32_t to) {
    return (n + to - 1) / to * to;
}

assay_kv_layout assay_kv_layout_of(const assay_model_shape *shape, uint32_t block_tokens) {
    const size_t element = shape->kv_dtype == ASSAY_F32 ? 4 : 2;
    assay_kv_layout l = {
        .dtype = shape->kv_dtype,
        .n_layers = shape->n_layers,
        .n_kv_heads = shape->n_kv_heads,
        .head_dim = shape->head_dim,
        .k_pad = shape->kv_dtype == ASSAY_F32 ? shape->head_dim : round_up(shape->head_dim, 32),
        .v_cols = round_up(shape->head_dim, ASSAY_PANEL),
        .subs_per_block = block_tokens / ASSAY_SUB,
    };
    l.k_bytes = (size_t)l.k_pad * ASSAY_SUB * element;
    l.sub_bytes = l.k_bytes + (size_t)l.v_cols * ASSAY_SUB * element;
    l.block_bytes = (size_t)l.n_layers * l.n_kv_heads * l.subs_per_block * l.sub_bytes;
    return l;
}

static void store_f32(const assay_kv_layout *l, uint8_t *sub, uint32_t lane, const float *k,
                      const float *v) {
    float *k_panel = (float *)(void *)sub;
    float *v_panels = (float *)(void *)(sub + l->k_bytes);
    for (uint32_t d = 0; d < l->head_dim; d++) {
        k_panel[d * ASSAY_SUB + lane] = k[d];
        v_panels[((d / ASSAY_PANEL) * ASSAY_SUB + lane) * ASSAY_PANEL + d % ASSAY_PANEL] = v[d];
    }
}

static void store_bf16(const assay_kv_layout *l, uint8_t *sub, uint32_t lane, const float *k,
                       const float *v) {
    uint16_t *k_panel = (uint16_t *)(void *)sub;
    uint16_t *v_panels = (uint16_t *)(void *)(sub + l->k_bytes);
    for (uint32_t d = 0; d < l->head_dim; d++) {
        k_panel[((d / 2) * ASSAY_SUB + lane) * 2 + d % 2] = assay_bf16_of(k[d]);
        const uint32_t row = (d / ASSAY_PANEL) * (ASSAY_SUB / 2) + lane / 2;
        v_panels[(row * ASSAY_PANEL + d % ASSAY_PANEL) * 2 + lane % 2] = assay_bf16_of(v[d]);
    }
}

void assay_kv_store(const assay_kv_layout *l, uint8_t *block, uint32_t layer, uint32_t head,
                    uint32_t position, const float *k, const float *v) {
    const uint32_t lane = position % ASSAY_SUB;
    const uint32_t sub_index = position / ASSAY_SUB % l->subs_per_block;
    uint8_t *sub = block + assay_kv_offset(l, layer, head) + sub_index * l->sub_bytes;
    if (lane == 0) {
        memset(sub, 0, l->sub_bytes);
    }
    if (l->dtype == ASSAY_F32) {
        store_f32(l, sub, lane, k, v);
    } else {
        store_bf16(l, sub, lane, k, v);
    }
}

/* Zeroes what lies in the 64-byte rows [0, rows) from byte `from` on. */
static void clear_right(uint8_t *panel, size_t rows, size_t from) {
    for (size_t row = 0; row < rows; row++) {
        memset(panel + row * 64 + from, 0, 64 - from);
    }
}

/* Zeroes positions n.. (0 < n < 16) of a sub-block. */
static void clear_tail(const assay_kv_layout *l, uint8_t *sub, uint32_t n) {
    clear_right(sub, l->k_bytes / 64, (size_t)n * 4); /* a lane of a K panel is 4 bytes */
    const size_t depth_rows = l->dtype == ASSAY_F32 ? ASSAY_SUB : ASSAY_SUB / 2;
    const size_t full_rows = l->dtype == ASSAY_F32 ? n : n / 2;
    const size_t panel_bytes = depth_rows * 64;
    for (uint8_t *panel = sub + l->k_bytes; panel < sub + l->sub_bytes; panel += panel_bytes) {
        size_t row = full_rows;
        if (l->dtype != ASSAY_F32 && n % 2 == 1) {
            uint16_t *pairs = (uint16_t *)(void *)(panel + row * 64);
            for (uint32_t lane = 0; lane < ASSAY_PANEL; lane++) {
                pairs[lane * 2 + 1] = 0;
            }
            row++;
        }
        memset(panel + row * 64, 0, panel_bytes - row * 64);
    }
}

void assay_kv_copy_block(const assay_kv_layout *l, uint8_t *dst, const uint8_t *src,
                         uint32_t n_positions) {
    const uint32_t whole = n_positions / ASSAY_SUB;
    const uint32_t part = n_positions % ASSAY_SUB;
    const size_t strip_bytes = l->subs_per_block * l->sub_bytes;
    for (size_t strip = 0; strip < (size_t)l->n_layers * l->n_kv_heads; strip++) {
        uint8_t *to = dst + strip * strip_bytes;
        const uint8_t *from = src + strip * strip_bytes;
        const uint32_t copied = whole + (part != 0);
        memcpy(to, from, copied * l->sub_bytes);
        if (part != 0) {
            clear_tail(l, to + whole * l->sub_bytes, part);
        }
        memset(to + copied * l->sub_bytes, 0, strip_bytes - copied * l->sub_bytes);
    }
}
