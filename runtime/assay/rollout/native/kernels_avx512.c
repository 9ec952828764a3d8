/* Kernels for AVX-512.
 *
 * bf16 weights are widened to float32 by a shift and a mask and multiplied with float32 rows.
 * vdpbf16ps would need rows rounded to bf16, or two products for high and low parts, which is as many
 * multiply-adds as here with a worse result. */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define LANES 16
#define ROWS_MAX 8
#define KFN static __attribute__((unused, target("avx512f,avx512bw,avx512vl,fma")))
#define FMA(a, b, c) ((vf)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#include "kernels_template.h"

const assay_kernels *assay_kernels_avx512(void) {
    static const assay_kernels set = {
        .name = "avx512",
        .gemm = {K_GEMM(f32), K_GEMM(bf16)},
        .attend = {K_ATTEND(f32), K_ATTEND(bf16)},
        K_VECTOR_OPS,
    };
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512vl")
               ? &set
               : NULL;
}
#else
const assay_kernels *assay_kernels_avx512(void) {
    return NULL;
}
#endif
