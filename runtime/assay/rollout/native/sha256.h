/* SHA-256 of many pieces of one size at once: sixteen lanes of AVX-512 take a third to a half of the time that the
 * machine's instructions for SHA take for one piece after the other. */
#ifndef ASSAY_SHA256_H
#define ASSAY_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define ASSAY_SHA256_LANES 16
#define ASSAY_SHA256_BYTES 32

/* Whether this machine has the instructions. */
int assay_sha256_is_here(void);
/* The SHA-256 of each of `n` pieces that follow each other, into 32 bytes each of `out`. `bytes` of a piece: a multiple
 * of 64, below 2^29. Pieces beyond a multiple of ASSAY_SHA256_LANES take the time of as many as there are lanes. */
void assay_sha256_pieces(const uint8_t *data, size_t bytes, size_t n, uint8_t *out);

#endif
