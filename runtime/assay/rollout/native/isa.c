#include "isa.h"

#include "engine.h"

const assay_kernels *assay_kernels_for(uint32_t isa) {
    switch (isa) {
    case ASSAY_ISA_AUTO:
        return assay_kernels_for(assay_engine_best_isa());
    case ASSAY_ISA_PORTABLE:
        return assay_kernels_portable();
    case ASSAY_ISA_AVX2:
        return assay_kernels_avx2();
    case ASSAY_ISA_AVX512:
        return assay_kernels_avx512();
    case ASSAY_ISA_AMX:
        return assay_kernels_amx();
    default:
        return NULL;
    }
}

uint32_t assay_engine_best_isa(void) {
    for (uint32_t isa = ASSAY_ISA_AMX; isa > ASSAY_ISA_PORTABLE; isa--) {
        if (assay_kernels_for(isa) != NULL) {
            return isa;
        }
    }
    return ASSAY_ISA_PORTABLE;
}
