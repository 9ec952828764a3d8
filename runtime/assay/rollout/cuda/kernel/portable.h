/* What the kernel's sources use of the machine: the same names for a device (NVRTC, no CUDA headers) and
 * for a host (any C++17 compiler), where `emulate.h` runs every device thread as a fiber.
 *
 * Scopes: `_sys` orders against the host over the bus, `_gpu` among the device's blocks.
 */
#ifndef ASSAY_PORTABLE_H
#define ASSAY_PORTABLE_H

#include "assay_ring.h"

#if defined(__CUDACC_RTC__)

#define ASSAY_FN static __device__ __forceinline__
#define ASSAY_COLD static __device__ __forceinline__
#define INFINITY __int_as_float(0x7F800000)
#define NAN __int_as_float(0x7FC00000)

struct alignas(16) assay_v4 {
    uint32_t x, y, z, w;
};

ASSAY_FN uint64_t load_sys(const uint64_t *p) {
    uint64_t v;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
ASSAY_FN void store_sys(uint64_t *p, uint64_t v) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
ASSAY_FN uint32_t load_gpu(const uint32_t *p) {
    uint32_t v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
ASSAY_FN uint32_t add_gpu(uint32_t *p, uint32_t n) {
    uint32_t v;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(v)
                 : "l"(p), "r"(n)
                 : "memory");
    return v;
}
ASSAY_FN void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
ASSAY_FN void add_shared(uint64_t *p, uint64_t n) { atomicAdd((unsigned long long *)p, n); }
ASSAY_FN void add_shared(uint32_t *p, uint32_t n) { atomicAdd(p, n); }
ASSAY_FN void doze() { asm volatile("nanosleep.u32 40;"); }
ASSAY_FN void doze_long() { asm volatile("nanosleep.u32 500;"); }
ASSAY_FN uint64_t now_ns() {
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}
ASSAY_FN void sync_block() { __syncthreads(); }
ASSAY_FN void sync_warp() { __syncwarp(); }
ASSAY_FN uint32_t swap_lanes(uint32_t v, uint32_t mask) { return __shfl_xor_sync(~0u, v, mask); }
ASSAY_FN uint32_t thread_of_block() { return threadIdx.x; }
ASSAY_FN uint32_t block_of_grid() { return blockIdx.x; }
ASSAY_FN uint32_t blocks_of_grid() { return gridDim.x; }
ASSAY_FN uint8_t *shared_memory() {
    extern __shared__ __align__(16) uint8_t dynamic_memory[];
    return dynamic_memory;
}
/* Start moving bytes towards the second-level cache: the next phase's weights during a barrier. */
ASSAY_FN void prefetch(const void *p, uint32_t bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(p), "r"(bytes) : "memory");
}
ASSAY_FN assay_v4 load_once(const assay_v4 *p) {
    assay_v4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}
/* c (16 features x 8 rows, float32) += a (16 x 16, bf16) * b (16 x 8, bf16). */
ASSAY_FN void multiply_add(float *c, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                           uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
ASSAY_FN float float_of(uint32_t bits) { return __uint_as_float(bits); }
ASSAY_FN uint32_t bits_of(float v) { return __float_as_uint(v); }

#else

#include <math.h>

#include "emulate.h"

#define ASSAY_FN static inline
#define ASSAY_COLD static

#endif

#define ASSAY_UNIT (1ull << 40) /* probability 1 in the fixed point of sampling: sums have no order */

ASSAY_FN uint32_t lane_of_warp() { return thread_of_block() & 31u; }
ASSAY_FN uint32_t warp_of_block() { return thread_of_block() >> 5; }

ASSAY_FN float swap_lanes_f(float v, uint32_t mask) {
    return float_of(swap_lanes(bits_of(v), mask));
}
ASSAY_FN float warp_sum(float v) {
    for (uint32_t m = 16; m > 0; m >>= 1) v += swap_lanes_f(v, m);
    return v;
}
ASSAY_FN float warp_max(float v) {
    for (uint32_t m = 16; m > 0; m >>= 1) v = fmaxf(v, swap_lanes_f(v, m));
    return v;
}
ASSAY_FN uint16_t bf16_of(float v) {
    uint32_t bits = bits_of(v);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(bits >> 16 | 64u);
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}
ASSAY_FN float low_half(uint32_t two) { return float_of(two << 16); }
ASSAY_FN float high_half(uint32_t two) { return float_of(two & 0xFFFF0000u); }

#endif
