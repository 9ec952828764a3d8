/* Kernels for AVX2 with FMA. */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define LANES 8
#define ROWS_MAX 2
#define KFN static __attribute__((unused, target("avx2,fma")))
#define FMA(a, b, c) ((vf)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#include "kernels_template.h"

const assay_kernels *assay_kernels_avx2(void) {
    static const assay_kernels set = {
        .name = "avx2",
        .gemm = {K_GEMM(f32), K_GEMM(bf16)},
        .attend = {K_ATTEND(f32), K_ATTEND(bf16)},
        K_VECTOR_OPS,
    };
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &set : NULL;
}
#else
const assay_kernels *assay_kernels_avx2(void) {
    return NULL;
}
#endif
