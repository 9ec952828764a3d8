/* Selection of the instruction set. */
#ifndef ASSAY_ISA_H
#define ASSAY_ISA_H

#include "kernels.h"

/* isa: an assay_isa; AUTO is the best available. NULL if this machine or build lacks it. */
const assay_kernels *assay_kernels_for(uint32_t isa);

#endif
