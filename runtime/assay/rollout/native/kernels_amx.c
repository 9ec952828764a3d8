/* Kernels for AMX bf16 tiles; everything that is not bf16 stays AVX-512.
 *
 * A float32 value enters a tile product as the sum of two bf16 numbers, high and low, which leaves a
 * relative error of 2^-17 at most: weights are exact, activations nearly so, and one row's result
 * does not depend on how many rows share the tile. The second product costs nothing while the weights are
 * streamed from memory.
 *
 * Tile registers: 0, 1 rows (high, low); 2, 3 panels; 4..7 sums. */
#define _GNU_SOURCE
#include "kernels.h"

#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#define LANES 16
#define ROWS_MAX 8
#define KFN                                                                                       \
    static __attribute__((                                                                        \
        unused, target("avx512f,avx512bw,avx512vl,avx512bf16,fma,amx-tile,amx-bf16")))
#define FMA(a, b, c) ((vf)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#include "kernels_template.h"

enum { TILE_BYTES = 1024, TILE_FLOATS = 256, TILE_K = 32, HALF_TILE_BYTES = 512 };

/* A barrier, as the compiler does not know that tile loads read memory. */
#define SETTLE() __asm__ volatile("" ::: "memory")

typedef struct {
    uint8_t palette;
    uint8_t start_row;
    uint8_t zero[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

/* rows of tiles 0, 1 and 4..7; panels are `depth` rows of 16 pairs. */
KINLINE void configure(uint32_t rows, uint32_t depth) {
    tile_config config;
    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int i = 0; i < 8; i++) {
        const int is_panel = i == 2 || i == 3;
        const int is_operand = i < 2;
        config.rows[i] = (uint8_t)(is_panel ? depth : rows);
        config.row_bytes[i] = (uint16_t)(is_operand ? depth * 4 : 64);
    }
    SETTLE();
    _tile_loadconfig(&config);
}

KFN void amx_enter(uint32_t rows) {
    configure(rows < ASSAY_ROW_TILE ? rows : ASSAY_ROW_TILE, 16);
}

KFN void amx_leave(void) {
    _tile_release();
}

/* 16 floats as bf16 high and low parts, 32 bytes each. */
KINLINE void split16(const float *src, void *high_out, void *low_out) {
    const __m512 x = _mm512_loadu_ps(src);
    const __m256bh high = _mm512_cvtneps_pbh(x);
    const __m512 widened = _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)high), 16));
    const __m256bh low = _mm512_cvtneps_pbh(_mm512_sub_ps(x, widened));
    _mm256_storeu_si256(high_out, (__m256i)high);
    _mm256_storeu_si256(low_out, (__m256i)low);
}

/* Where value k of a row lies: [row / 16][k / 32][high, low][row % 16][k % 32]. */
KINLINE uint8_t *operand_at(void *operand, uint32_t k_pad, uint32_t row, uint32_t k) {
    return (uint8_t *)operand +
           ((size_t)(row / ASSAY_ROW_TILE) * (k_pad / TILE_K) + k / TILE_K) * 2 * TILE_BYTES +
           (row % ASSAY_ROW_TILE) * 64 + (k % TILE_K) * 2;
}

KFN void amx_pack(void *operand, uint32_t k_pad, uint32_t row, uint32_t k, const float *src,
                  uint32_t n) {
    uint32_t i = 0;
    if (k % 16 == 0) {
        for (; i + 16 <= n; i += 16) {
            uint8_t *at = operand_at(operand, k_pad, row, k + i);
            split16(src + i, at, at + TILE_BYTES);
        }
    }
    for (; i < n; i++) {
        uint8_t *at = operand_at(operand, k_pad, row, k + i);
        const uint16_t high = assay_bf16_of(src[i]);
        const uint16_t low = assay_bf16_of(src[i] - assay_f32_of_bf16(high));
        memcpy(at, &high, sizeof high);
        memcpy(at + TILE_BYTES, &low, sizeof low);
    }
}

/* c[row] = high sums + low sums for the rows of one tile. */
KINLINE void join(float *c, const float *high, const float *low, uint32_t rows) {
    for (uint32_t r = 0; r < rows; r++) {
        _mm512_storeu_ps(c + r * 16, _mm512_add_ps(_mm512_load_ps(high + r * 16),
                                                   _mm512_load_ps(low + r * 16)));
    }
}

KINLINE void fetch_tile(const uint8_t *at) {
#pragma GCC unroll 16
    for (int line = 0; line < 16; line++) {
        __builtin_prefetch(at + line * 64);
    }
}

/* One tile of rows against two panels; ahead: bytes to prefetch in front, 0: none. */
KINLINE void mul_tile(const uint32_t ahead, const uint8_t *a, uint32_t k_pad,
                      const uint8_t *panels, float *c, size_t c_stride, uint32_t rows) {
    const size_t panel_bytes = (size_t)k_pad * 32;
    float sums[4][TILE_FLOATS] __attribute__((aligned(64)));
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (uint32_t k = 0; k < k_pad; k += TILE_K, a += 2 * TILE_BYTES, panels += TILE_BYTES) {
        if (ahead != 0) {
            fetch_tile(panels + ahead);
            fetch_tile(panels + panel_bytes + ahead);
        }
        _tile_loadd(0, a, 64);
        _tile_loadd(1, a + TILE_BYTES, 64);
        _tile_loadd(2, panels, 64);
        _tile_loadd(3, panels + panel_bytes, 64);
        _tile_dpbf16ps(4, 0, 2);
        _tile_dpbf16ps(5, 1, 2);
        _tile_dpbf16ps(6, 0, 3);
        _tile_dpbf16ps(7, 1, 3);
    }
    _tile_stored(4, sums[0], 64);
    _tile_stored(5, sums[1], 64);
    _tile_stored(6, sums[2], 64);
    _tile_stored(7, sums[3], 64);
    join(c, sums[0], sums[1], rows);
    join(c + c_stride, sums[2], sums[3], rows);
}

KFN void amx_mul(const void *operand, uint32_t k_pad, uint32_t rows, const uint8_t *panels,
                 float *c, size_t c_stride) {
    const size_t row_tile_bytes = (size_t)(k_pad / TILE_K) * 2 * TILE_BYTES;
    SETTLE();
    uint32_t here = rows < ASSAY_ROW_TILE ? rows : ASSAY_ROW_TILE;
    mul_tile(AHEAD, operand, k_pad, panels, c, c_stride, here);
    for (uint32_t row = ASSAY_ROW_TILE; row < rows; row += ASSAY_ROW_TILE) {
        here = rows - row < ASSAY_ROW_TILE ? rows - row : ASSAY_ROW_TILE;
        mul_tile(0, (const uint8_t *)operand + row / ASSAY_ROW_TILE * row_tile_bytes, k_pad,
                 panels, c + (size_t)row * 16, c_stride, here);
    }
}

/* Scores of four sub-blocks at once, so that four chains of products overlap. */
KINLINE void scores_four(const assay_kv_walk *walk, uint32_t i, const uint8_t *q, float *scores,
                         size_t ld) {
    const uint8_t *k0 = assay_kv_sub(walk, i);
    const uint8_t *k1 = assay_kv_sub(walk, i + 1);
    const uint8_t *k2 = assay_kv_sub(walk, i + 2);
    const uint8_t *k3 = assay_kv_sub(walk, i + 3);
    float *out = scores + (size_t)(walk->first + i) * ASSAY_SUB;
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (uint32_t k = 0; k < walk->k_pad; k += TILE_K, q += 2 * TILE_BYTES) {
        const size_t at = (size_t)k * 32;
        _tile_loadd(0, q, 64);
        _tile_loadd(1, q + TILE_BYTES, 64);
        _tile_loadd(2, k0 + at, 64);
        _tile_dpbf16ps(4, 0, 2);
        _tile_dpbf16ps(4, 1, 2);
        _tile_loadd(3, k1 + at, 64);
        _tile_dpbf16ps(5, 0, 3);
        _tile_dpbf16ps(5, 1, 3);
        _tile_loadd(2, k2 + at, 64);
        _tile_dpbf16ps(6, 0, 2);
        _tile_dpbf16ps(6, 1, 2);
        _tile_loadd(3, k3 + at, 64);
        _tile_dpbf16ps(7, 0, 3);
        _tile_dpbf16ps(7, 1, 3);
    }
    _tile_stored(4, out, ld * 4);
    _tile_stored(5, out + ASSAY_SUB, ld * 4);
    _tile_stored(6, out + 2 * ASSAY_SUB, ld * 4);
    _tile_stored(7, out + 3 * ASSAY_SUB, ld * 4);
}

KINLINE void scores_one(const assay_kv_walk *walk, uint32_t i, const uint8_t *q, float *scores,
                        size_t ld) {
    const uint8_t *panel = assay_kv_sub(walk, i);
    _tile_zero(4);
    for (uint32_t k = 0; k < walk->k_pad; k += TILE_K, q += 2 * TILE_BYTES) {
        _tile_loadd(0, q, 64);
        _tile_loadd(1, q + TILE_BYTES, 64);
        _tile_loadd(2, panel + (size_t)k * 32, 64);
        _tile_dpbf16ps(4, 0, 2);
        _tile_dpbf16ps(4, 1, 2);
    }
    _tile_stored(4, scores + (size_t)(walk->first + i) * ASSAY_SUB, ld * 4);
}

KINLINE void fetch(const uint8_t *at, size_t bytes) {
    for (size_t line = 0; line < bytes; line += 64) {
        __builtin_prefetch(at + line);
    }
}

enum { FETCH_SUBS = 6 }; /* sub-blocks prefetched ahead of the current one */

KFN void amx_scores(const assay_kv_walk *walk, const void *operand, uint32_t row, uint32_t rows,
                    float *scores, size_t ld) {
    const uint8_t *q = (const uint8_t *)operand + row * 64;
    configure(rows, 16);
    uint32_t i = 0;
    for (; i + 4 <= walk->n; i += 4) {
        for (uint32_t j = i + FETCH_SUBS; j < i + FETCH_SUBS + 4 && j < walk->n; j++) {
            fetch(assay_kv_sub(walk, j), walk->k_bytes);
        }
        scores_four(walk, i, q, scores, ld);
    }
    for (; i < walk->n; i++) {
        scores_one(walk, i, q, scores, ld);
    }
    SETTLE();
}

/* Weights of 16 positions replace their scores in place: 16 high parts, then 16 low parts. */
KFN float amx_softmax(float *scores, uint32_t len, uint32_t cols) {
    const float sum = k_softmax(scores, len, cols);
    const uint32_t used = (len + ASSAY_SUB - 1) / ASSAY_SUB * ASSAY_SUB;
    for (uint32_t i = 0; i < used; i += ASSAY_SUB) {
        split16(scores + i, scores + i, scores + i + 8);
    }
    return sum;
}

/* Up to four column panels of V; n_panels is a constant. */
KINLINE void mix_panels(const uint32_t n_panels, const assay_kv_walk *walk, const float *weights,
                        size_t ld, uint32_t panel, float *out, size_t out_ld) {
    float *at = out + panel * ASSAY_PANEL;
    _tile_loadd(4, at, out_ld * 4);
    if (n_panels > 1) {
        _tile_loadd(5, at + 16, out_ld * 4);
    }
    if (n_panels > 2) {
        _tile_loadd(6, at + 32, out_ld * 4);
        _tile_loadd(7, at + 48, out_ld * 4);
    }
    for (uint32_t i = 0; i < walk->n; i++) {
        const uint8_t *v =
            assay_kv_sub(walk, i) + walk->k_bytes + (size_t)panel * HALF_TILE_BYTES;
        const float *w = weights + (size_t)(walk->first + i) * ASSAY_SUB;
        if (i + FETCH_SUBS < walk->n) {
            fetch(assay_kv_sub(walk, i + FETCH_SUBS) + walk->k_bytes +
                      (size_t)panel * HALF_TILE_BYTES,
                  n_panels * HALF_TILE_BYTES);
        }
        _tile_loadd(0, w, ld * 4);
        _tile_loadd(1, w + 8, ld * 4);
        _tile_loadd(2, v, 64);
        _tile_dpbf16ps(4, 0, 2);
        _tile_dpbf16ps(4, 1, 2);
        if (n_panels > 1) {
            _tile_loadd(3, v + HALF_TILE_BYTES, 64);
            _tile_dpbf16ps(5, 0, 3);
            _tile_dpbf16ps(5, 1, 3);
        }
        if (n_panels > 2) {
            _tile_loadd(2, v + 2 * HALF_TILE_BYTES, 64);
            _tile_dpbf16ps(6, 0, 2);
            _tile_dpbf16ps(6, 1, 2);
            _tile_loadd(3, v + 3 * HALF_TILE_BYTES, 64);
            _tile_dpbf16ps(7, 0, 3);
            _tile_dpbf16ps(7, 1, 3);
        }
    }
    _tile_stored(4, at, out_ld * 4);
    if (n_panels > 1) {
        _tile_stored(5, at + 16, out_ld * 4);
    }
    if (n_panels > 2) {
        _tile_stored(6, at + 32, out_ld * 4);
        _tile_stored(7, at + 48, out_ld * 4);
    }
}

KFN void amx_mix(const assay_kv_walk *walk, const float *weights, uint32_t rows, size_t ld,
                 float *out, size_t out_ld) {
    const uint32_t n_panels = walk->v_cols / ASSAY_PANEL;
    uint32_t panel = 0;
    configure(rows, 8);
    for (; panel + 4 <= n_panels; panel += 4) {
        mix_panels(4, walk, weights, ld, panel, out, out_ld);
    }
    for (; panel + 2 <= n_panels; panel += 2) {
        mix_panels(2, walk, weights, ld, panel, out, out_ld);
    }
    for (; panel < n_panels; panel++) {
        mix_panels(1, walk, weights, ld, panel, out, out_ld);
    }
    SETTLE();
}

/* Tile state is off until a process requests it; the kernel refuses if it cannot save it. */
static int tiles_granted(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx512bf16") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512vl")) {
        return 0;
    }
    uint32_t a = 7;
    uint32_t b = 0;
    uint32_t c = 0;
    uint32_t d = 0;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    const uint32_t bf16_tiles = 1u << 22;
    const uint32_t tiles = 1u << 24;
    if ((d & bf16_tiles) == 0 || (d & tiles) == 0) {
        return 0;
    }
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

const assay_kernels *assay_kernels_amx(void) {
    static const assay_kernels set = {
        .name = "amx",
        .gemm = {K_GEMM(f32), {amx_enter, amx_leave, amx_pack, amx_mul}},
        .attend = {K_ATTEND(f32), {amx_pack, amx_scores, amx_softmax, amx_mix, amx_leave}},
        K_VECTOR_OPS,
    };
    return tiles_granted() ? &set : NULL;
}
#else
const assay_kernels *assay_kernels_amx(void) {
    return NULL;
}
#endif
