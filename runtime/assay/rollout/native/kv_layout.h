/* Layout of a KV block: [layer][KV head][sub-block of 16 positions][K panel, V panels].
 *
 * K is a panel over positions (depth head_dim), V one panel of depth 16 for every 16 columns: the
 * same shape as weights, so that the same kernels run over both. The first write to a sub-block
 * clears it. */
#ifndef ASSAY_KV_LAYOUT_H
#define ASSAY_KV_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "kernels.h"

typedef struct {
    uint32_t dtype;
    uint32_t n_layers;
    uint32_t n_kv_heads;
    uint32_t head_dim;
    uint32_t k_pad;  /* depth of a K panel */
    uint32_t v_cols; /* columns of V, padded */
    size_t k_bytes;
    size_t sub_bytes;
    uint32_t subs_per_block;
    size_t block_bytes;
} assay_kv_layout;

assay_kv_layout assay_kv_layout_of(const assay_model_shape *shape, uint32_t block_tokens);

/* Offset of a layer and head inside a block. */
static inline size_t assay_kv_offset(const assay_kv_layout *layout, uint32_t layer,
                                     uint32_t head) {
    return ((size_t)layer * layout->n_kv_heads + head) * layout->subs_per_block *
           layout->sub_bytes;
}

/* Writes K and V (head_dim floats each) of one position; block points at its block. */
void assay_kv_store(const assay_kv_layout *layout, uint8_t *block, uint32_t layer, uint32_t head,
                    uint32_t position, const float *k, const float *v);

void assay_kv_copy_block(const assay_kv_layout *layout, uint8_t *dst, const uint8_t *src,
                         uint32_t n_positions);

#endif
