/* What loading an adapter and stepping with it share. */
#ifndef ASSAY_ADAPTER_LAYOUT_H
#define ASSAY_ADAPTER_LAYOUT_H

#include "adapter.h"

enum { ASSAY_PAIR = 2 * ASSAY_PANEL };

static inline enum assay_input assay_adapter_input_of(enum assay_group group) {
    switch (group) {
    case ASSAY_GROUP_OUT:
        return ASSAY_INPUT_ATT;
    case ASSAY_GROUP_DOWN:
        return ASSAY_INPUT_HIDDEN;
    default:
        return ASSAY_INPUT_NORM;
    }
}

static inline const assay_gemm_ops *assay_adapter_f32(const assay_adapter *ad) {
    return &ad->host.kernels->gemm[ASSAY_F32];
}

static inline size_t assay_rotation_bytes(const assay_matrix *m) {
    return (size_t)m->n_pairs * 2 * m->panel_bytes;
}

#endif
