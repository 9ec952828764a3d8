/* Which vector code runs here. */
#ifndef ASSAY_ISA_H
#define ASSAY_ISA_H

#include "kernels.h"

/* isa: an assay_isa; AUTO is the best there is. NULL where this machine or build lacks it. */
const assay_kernels *assay_kernels_for(uint32_t isa);

#endif
