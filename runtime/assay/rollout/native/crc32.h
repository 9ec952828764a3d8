/* CRC-32 of bytes, as zlib computes it, at the speed of memory where the machine multiplies without
 * carries. */
#ifndef ASSAY_CRC32_H
#define ASSAY_CRC32_H

#include <stddef.h>
#include <stdint.h>

enum { ASSAY_CRC32_MIN = 64, ASSAY_CRC32_UNIT = 16 };

/* Whether this machine can. */
int assay_crc32_is_here(void);
/* Continues `crc` (0 at first) over n bytes: a multiple of ASSAY_CRC32_UNIT, ASSAY_CRC32_MIN at least. */
uint32_t assay_crc32(uint32_t crc, const uint8_t *data, size_t n);

#endif
