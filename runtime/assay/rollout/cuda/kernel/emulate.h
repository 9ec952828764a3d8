/* A device on one thread of the host: every device thread is a fiber, and fibers change places at
 * barriers, lane exchanges and waits only. With a seed, rounds visit them in changing orders and hold one
 * warp back at a time until the others wait for it, so that a missing barrier shows as another result.
 */
#ifndef ASSAY_EMULATE_H
#define ASSAY_EMULATE_H

#include <stdint.h>
#include <string.h>

struct alignas(16) assay_v4 {
    uint32_t x, y, z, w;
};

uint32_t thread_of_block();
uint32_t block_of_grid();
uint32_t blocks_of_grid();
uint8_t *shared_memory();
void sync_block();
void sync_warp();
uint32_t swap_lanes(uint32_t v, uint32_t mask);
void multiply_add(float *c, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                  uint32_t b1);
void doze();
void doze_long();
uint64_t now_ns();

static inline uint64_t load_sys(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline void store_sys(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
static inline uint32_t load_gpu(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline uint32_t add_gpu(uint32_t *p, uint32_t n) {
    return __atomic_fetch_add(p, n, __ATOMIC_ACQ_REL);
}
static inline void fence_gpu() {}
static inline void add_shared(uint64_t *p, uint64_t n) { *p += n; }
static inline void add_shared(uint32_t *p, uint32_t n) { *p += n; }
static inline void prefetch(const void *, uint32_t) {}
static inline assay_v4 load_once(const assay_v4 *p) { return *p; }
static inline float float_of(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}
static inline uint32_t bits_of(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

#endif
