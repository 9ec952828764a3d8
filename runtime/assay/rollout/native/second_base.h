/* Memory of the second set of matrices: pages, or, where memory has room for one set only, a file. */
#ifndef ASSAY_SECOND_BASE_H
#define ASSAY_SECOND_BASE_H

#include "engine_state.h"

/* Lays the weights out over zeroed memory; over `file`, if it is one (not -1), whose room on the disk
 * is reserved first, so that a full disk is an error here and not a signal later. */
int assay_base_take(const assay_model_shape *shape, const assay_kernels *kernels, assay_base *base,
                    int file, uint32_t *huge);
void assay_base_drop(assay_base *base);
/* Exchanges the contents of two sets of the same shape. */
void assay_base_exchange(assay_base *a, assay_base *b);
/* Of a file: its pages leave this process's memory. The content stays in the file. */
void assay_base_put_away(assay_base *base);

#endif
