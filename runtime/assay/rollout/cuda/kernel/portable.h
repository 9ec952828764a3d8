/* What the kernel's sources use of the machine: the same names for a device (NVRTC, no CUDA headers) and
 * for a host (any C++17 compiler), where `emulate.h` runs every device thread as a fiber.
 *
 * A_GENERAL: for devices from sm_80 on, which lack sm_90's copy engine and its handing over of registers: there
 * all lanes of the feeder copy.
 *
 * Scopes: `_sys` orders against the host over the bus, `_gpu` among the device's blocks.
 */
#ifndef ASSAY_PORTABLE_H
#define ASSAY_PORTABLE_H

#include "assay_ring.h"

#if defined(__CUDACC_RTC__)

#if A_GENERAL
#define A_ALL_THREADS (A_THREADS + 32)
#else
/* Of a block: its workers, and the feeder's group of four warps, of which one works. Registers are handed out
 * by such groups: the feeder gives most of its share to the workers. */
#define A_ALL_THREADS (A_THREADS + 128)
#endif
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
/* Without an order of their own: several of them cross the bus at once. */
ASSAY_FN void peek_sys(const uint64_t *p, uint64_t *one, uint64_t *two) {
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(*one), "=l"(*two) : "l"(p));
}
ASSAY_FN void tell_sys(uint64_t *p, uint64_t v) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
ASSAY_FN void fence_sys() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
ASSAY_FN uint32_t load_gpu(const uint32_t *p) {
    uint32_t v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
/* Without an order of their own, and past the first-level cache. */
ASSAY_FN uint32_t peek_gpu(const uint32_t *p) {
    uint32_t v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
ASSAY_FN assay_v4 peek_gpu(const assay_v4 *p) {
    assay_v4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}
ASSAY_FN void peek_gpu(const uint64_t *p, uint64_t *one, uint64_t *two) {
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(*one), "=l"(*two) : "l"(p));
}
ASSAY_FN void tell_gpu(uint32_t *p, uint32_t v) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
ASSAY_FN void tell_gpu(uint64_t *p, uint64_t one, uint64_t two) {
    asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(one), "l"(two) : "memory");
}
ASSAY_FN uint32_t add_gpu(uint32_t *p, uint32_t n) {
    uint32_t v;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(v)
                 : "l"(p), "r"(n)
                 : "memory");
    return v;
}
ASSAY_FN void add_shared(uint64_t *p, uint64_t n) { atomicAdd((unsigned long long *)p, n); }
ASSAY_FN void add_shared(uint32_t *p, uint32_t n) { atomicAdd(p, n); }
ASSAY_FN void look_again() {} /* what is waited for comes within a way to memory */
ASSAY_FN void doze() { asm volatile("nanosleep.u32 40;"); }
ASSAY_FN void doze_long() { asm volatile("nanosleep.u32 500;"); }
ASSAY_FN uint64_t now_ns() {
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}
/* A block's workers, and with its feeder all of its threads. */
ASSAY_FN void sync_block() { asm volatile("bar.sync 1, %0;" ::"n"(A_THREADS) : "memory"); }
ASSAY_FN void sync_all() { __syncthreads(); }
#if A_GENERAL
ASSAY_FN void need_few_registers() {}
ASSAY_FN void need_many_registers() {}
#else
ASSAY_FN void need_few_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }
ASSAY_FN void need_many_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); }
#endif
ASSAY_FN void sync_warp() { __syncwarp(); }
ASSAY_FN uint32_t swap_lanes(uint32_t v, uint32_t mask) { return __shfl_xor_sync(~0u, v, mask); }
ASSAY_FN uint32_t from_lane(uint32_t v, uint32_t lane) { return __shfl_sync(~0u, v, lane); }
/* A value as if it were read where it is used: what is made of it occupies no registers from the kernel's begin on, or
 * stack, which the first-level cache has no room for. */
ASSAY_FN uint32_t read_again(uint32_t v) {
    uint32_t same;
    asm volatile("mov.u32 %0, %1;" : "=r"(same) : "r"(v));
    return same;
}
ASSAY_FN uint32_t thread_of_block() { return read_again(threadIdx.x); }
ASSAY_FN uint32_t block_of_grid() { return blockIdx.x; }
ASSAY_FN uint32_t blocks_of_grid() { return gridDim.x; }
ASSAY_FN uint8_t *shared_memory() {
    extern __shared__ __align__(16) uint8_t dynamic_memory[];
    return dynamic_memory;
}
/* Sixteen bytes into shared memory past the first-level cache and registers; there once this thread has awaited them. */
ASSAY_FN void copy_sixteen(void *to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from)
                 : "memory");
}
ASSAY_FN void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
/* Start moving a line towards the second-level cache. */
ASSAY_FN void prefetch(const void *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }
/* A gate in shared memory (an mbarrier): its phase ends when all arrived and all bytes came. Phases
 * differ by parity; of a fresh gate, the phase of parity 1 counts as ended. */
ASSAY_FN uint32_t shared_at(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }
ASSAY_FN void gate_init(uint64_t *gate, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_at(gate)), "r"(arrivals)
                 : "memory");
}
ASSAY_FN void gate_arrive(uint64_t *gate) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_at(gate)) : "memory");
}
#if A_GENERAL
ASSAY_FN void gates_are_there() {} /* a barrier of the block follows */
ASSAY_FN void gate_wait(uint64_t *gate, uint32_t parity) {
    asm volatile("{\n"
                 ".reg .pred ended;\n"
                 "again:\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
                 "@!ended bra again;\n"
                 "}" ::"r"(shared_at(gate)), "r"(parity)
                 : "memory");
}
ASSAY_FN uint64_t read_once() { return 0; }
/* A lane's part of the bytes, and its arrival when they came. */
ASSAY_FN void gate_fill(uint64_t *gate, void *to, const void *from, uint32_t bytes, uint64_t) {
    for (uint32_t at = (read_again(threadIdx.x) & 31u) * 16; at < bytes; at += 512)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_at(to) + at),
                     "l"((const uint8_t *)from + at)
                     : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_at(gate)) : "memory");
}
#else
ASSAY_FN void gates_are_there() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
ASSAY_FN void gate_wait(uint64_t *gate, uint32_t parity) {
    asm volatile("{\n"
                 ".reg .pred ended;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
                 "@!ended bra again;\n"
                 "}" ::"r"(shared_at(gate)), "r"(parity)
                 : "memory");
}
/* Arrive, and have the copy engine bring bytes, which the gate's phase waits for. */
ASSAY_FN uint64_t read_once() { /* for the second-level cache: what is read once a step leaves first */
    uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
ASSAY_FN void gate_fill(uint64_t *gate, void *to, const void *from, uint32_t bytes,
                        uint64_t policy) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_at(gate)),
                 "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1], %2, [%3], %4;" ::"r"(shared_at(to)),
                 "l"(from), "r"(bytes), "r"(shared_at(gate)), "l"(policy)
                 : "memory");
}
#endif
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
/* To some 2 units in the last place, in few instructions. */
ASSAY_FN float exp_of(float v) {
    float e;
    asm("ex2.approx.f32 %0, %1;" : "=f"(e) : "f"(v * 1.4426950408889634f));
    return e;
}
ASSAY_FN float one_over_root(float v) {
    float r;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}
ASSAY_FN float quotient(float a, float b) { return __fdividef(a, b); }
/* a * b + c, rounded once, wherever it is written: the compiler chooses nothing. */
ASSAY_FN float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
ASSAY_FN uint32_t bf16_pair(float low, float high) {
    uint32_t two;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(high), "f"(low));
    return two;
}
ASSAY_FN uint16_t bf16_of(float v) { return (uint16_t)bf16_pair(v, 0.0f); }

#else

#define A_ALL_THREADS (A_THREADS + 32)

#include "emulate.h"

#define ASSAY_FN static inline
#define ASSAY_COLD static

#endif

#if A_GENERAL
#define A_FILLERS 32 /* lanes of the feeder that copy */
#else
#define A_FILLERS 1 /* it asks the copy engine */
#endif

#define ASSAY_UNIT (1ull << 40) /* probability 1 in the fixed point of sampling: sums have no order */

ASSAY_FN uint32_t lane_of_warp() { return read_again(thread_of_block() & 31u); }
ASSAY_FN uint32_t warp_of_block() { return read_again(thread_of_block() >> 5); }

ASSAY_FN float swap_lanes_f(float v, uint32_t mask) {
    return float_of(swap_lanes(bits_of(v), mask));
}
ASSAY_FN float warp_sum(float v) {
    for (uint32_t m = 16; m > 0; m >>= 1) v += swap_lanes_f(v, m);
    return v;
}
ASSAY_FN float low_half(uint32_t two) { return float_of(two << 16); }
ASSAY_FN float high_half(uint32_t two) { return float_of(two & 0xFFFF0000u); }

#endif
