/* Kernels in 128-bit vectors that any compiler target has: NEON on aarch64 (with its fused
 * multiply-add), SSE2 on x86-64. */
#define LANES 4
#define ROWS_MAX 2
#define KFN static __attribute__((unused))
#if defined(__ARM_NEON)
#include <arm_neon.h>
#define FMA(a, b, c) ((vf)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#else
#define FMA(a, b, c) ((a) * (b) + (c))
#endif
#include "kernels_template.h"

const assay_kernels *assay_kernels_portable(void) {
    static const assay_kernels set = {
        .name = "portable",
        .gemm = {K_GEMM(f32), K_GEMM(bf16)},
        .attend = {K_ATTEND(f32), K_ATTEND(bf16)},
        K_VECTOR_OPS,
    };
    return &set;
}
