/* Orthogonal matrices from skew-symmetric ones, in double. */
#ifndef ASSAY_ROTATION_H
#define ASSAY_ROTATION_H

#include <stddef.h>
#include <stdint.h>

/* Scratch doubles for a matrix of n rows. */
size_t assay_rotation_room(uint32_t n);

/* r (n x n, row-major, in room) from the upper triangle of Q without its diagonal, row by row, as `kind`
 * says (assay_adapt, one of OFT). NULL when a value of r is not finite or Q is out of range. */
const double *assay_rotation(const double *upper, uint32_t n, uint32_t kind, uint32_t terms,
                             double *room);

#endif
