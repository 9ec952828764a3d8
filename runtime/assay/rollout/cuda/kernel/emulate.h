/* A device on one thread of the host: every device thread is a fiber, and fibers change places at
 * barriers, lane exchanges and waits only. With a seed, rounds visit them in changing orders and hold one
 * warp back at a time until the others wait for it, so that a missing barrier shows as another result.
 */
#ifndef ASSAY_EMULATE_H
#define ASSAY_EMULATE_H

#include <math.h>
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
void sync_all();
void sync_warp();
uint32_t swap_lanes(uint32_t v, uint32_t mask);
uint32_t from_lane(uint32_t v, uint32_t lane);
void multiply_add(float *c, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                  uint32_t b1);
void gate_init(uint64_t *gate, uint32_t arrivals);
void gate_arrive(uint64_t *gate);
void gate_wait(uint64_t *gate, uint32_t parity);
void gate_fill(uint64_t *gate, void *to, const void *from, uint32_t bytes, uint64_t policy);
void doze();
void look_again();
void doze_long();
uint64_t now_ns();

static inline uint64_t load_sys(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline void store_sys(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
/* A device stops at an access that is not at a multiple of its size. */
static inline void need_sixteens(uint64_t at) {
    if (at % 16) __builtin_trap();
}
static inline void peek_sys(const uint64_t *p, uint64_t *one, uint64_t *two) {
    need_sixteens((uint64_t)p);
    *one = __atomic_load_n(p, __ATOMIC_RELAXED);
    *two = __atomic_load_n(p + 1, __ATOMIC_RELAXED);
}
static inline void tell_sys(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
static inline void fence_sys() { __atomic_thread_fence(__ATOMIC_ACQ_REL); }
static inline void prefetch(const void *) {}
static inline void copy_sixteen(void *to, const void *from) {
    need_sixteens((uint64_t)to);
    need_sixteens((uint64_t)from);
    memcpy(to, from, 16);
}
static inline void await_copies() {}
static inline uint32_t load_gpu(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline uint32_t peek_gpu(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
static inline assay_v4 peek_gpu(const assay_v4 *p) {
    need_sixteens((uint64_t)p);
    return *p;
}
static inline void peek_gpu(const uint64_t *p, uint64_t *one, uint64_t *two) { peek_sys(p, one, two); }
static inline void tell_gpu(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
static inline void tell_gpu(uint64_t *p, uint64_t one, uint64_t two) {
    need_sixteens((uint64_t)p);
    __atomic_store_n(p, one, __ATOMIC_RELAXED);
    __atomic_store_n(p + 1, two, __ATOMIC_RELAXED);
}
static inline uint32_t add_gpu(uint32_t *p, uint32_t n) {
    return __atomic_fetch_add(p, n, __ATOMIC_ACQ_REL);
}
static inline void add_shared(uint64_t *p, uint64_t n) { *p += n; }
static inline void add_shared(uint32_t *p, uint32_t n) { *p += n; }
static inline void gates_are_there() {}
static inline uint32_t read_again(uint32_t v) { return v; }
static inline void need_few_registers() {}
static inline void need_many_registers() {}
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
static inline float exp_of(float v) { return expf(v); }
static inline float one_over_root(float v) { return 1.0f / sqrtf(v); }
static inline float quotient(float a, float b) { return a / b; }
static inline float fused(float a, float b, float c) { return fmaf(a, b, c); }
static inline uint16_t bf16_of(float v) {
    const uint32_t bits = bits_of(v);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FFF;
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}
static inline uint32_t bf16_pair(float low, float high) {
    return (uint32_t)bf16_of(high) << 16 | bf16_of(low);
}
static inline uint64_t read_once() { return 0; }

#endif
