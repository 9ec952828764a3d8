/* See crc32.h. Four products of 128 bits are folded side by side, then into one, then reduced modulo the
 * polynomial: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ". Where four
 * of them fit into a register, sixteen are folded side by side first: a fourth of the steps. */
#include "crc32.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define CRCFN static __attribute__((target("pclmul,sse4.1")))
#define WIDEFN static __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.1")))
enum { NARROW_BYTES = 64, WIDE_BYTES = 256 };

/* Powers of x modulo the polynomial, reflected. */
static const uint64_t BY_2048[2] = {0x011542778a, 0x01322d1430};
static const uint64_t BY_512[2] = {0x0154442bd4, 0x01c6e41596};
static const uint64_t BY_128[2] = {0x01751997d0, 0x00ccaa009e};
static const uint64_t BY_64[2] = {0x0163cd6124, 0};
static const uint64_t POLYNOMIAL[2] = {0x01db710641, 0x01f7011641};

CRCFN __m128i load(const void *at) {
    return _mm_loadu_si128((const __m128i *)at);
}

CRCFN __m128i fold(__m128i x, __m128i by, __m128i next) {
    const __m128i low = _mm_clmulepi64_si128(x, by, 0x00);
    const __m128i high = _mm_clmulepi64_si128(x, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

CRCFN uint32_t reduced(__m128i x) {
    const __m128i words = _mm_setr_epi32(~0, 0, ~0, 0);
    x = _mm_xor_si128(_mm_srli_si128(x, 8), _mm_clmulepi64_si128(x, load(BY_128), 0x10));
    const __m128i high = _mm_srli_si128(x, 4);
    x = _mm_clmulepi64_si128(_mm_and_si128(x, words), load(BY_64), 0x00);
    x = _mm_xor_si128(x, high);
    const __m128i by = load(POLYNOMIAL);
    __m128i q = _mm_clmulepi64_si128(_mm_and_si128(x, words), by, 0x10);
    q = _mm_clmulepi64_si128(_mm_and_si128(q, words), by, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(x, q), 1);
}

/* The first bytes, as products of the 64 that follow; returns how many bytes these are. */
CRCFN size_t narrow(uint32_t crc, const uint8_t *data, __m128i x[4]) {
    for (int i = 0; i < 4; i++) {
        x[i] = load(data + 16 * i);
    }
    x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)~crc));
    return NARROW_BYTES;
}

WIDEFN __m512i fold_wide(__m512i x, __m512i by, __m512i next) {
    const __m512i low = _mm512_clmulepi64_epi128(x, by, 0x00);
    const __m512i high = _mm512_clmulepi64_epi128(x, by, 0x11);
    return _mm512_ternarylogic_epi64(low, high, next, 0x96); /* xor of all three */
}

/* As `narrow`, of all whole `WIDE_BYTES`. */
WIDEFN size_t wide(uint32_t crc, const uint8_t *data, size_t n, __m128i x[4]) {
    const __m512i by_2048 = _mm512_broadcast_i32x4(load(BY_2048));
    const __m512i by_512 = _mm512_broadcast_i32x4(load(BY_512));
    __m512i w[4];
    for (int i = 0; i < 4; i++) {
        w[i] = _mm512_loadu_si512(data + 64 * i);
    }
    w[0] = _mm512_xor_si512(w[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~crc)));
    size_t at = WIDE_BYTES;
    for (; at + WIDE_BYTES <= n; at += WIDE_BYTES) {
        for (int i = 0; i < 4; i++) {
            w[i] = fold_wide(w[i], by_2048, _mm512_loadu_si512(data + at + 64 * i));
        }
    }
    for (int i = 1; i < 4; i++) {
        w[0] = fold_wide(w[0], by_512, w[i]);
    }
    _mm512_storeu_si512(x, w[0]);
    return at;
}

static int is_wide(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
}

CRCFN uint32_t folded(uint32_t crc, const uint8_t *data, size_t n) {
    const __m128i by_512 = load(BY_512);
    const __m128i by_128 = load(BY_128);
    __m128i x[4];
    size_t at = n >= WIDE_BYTES && is_wide() ? wide(crc, data, n, x) : narrow(crc, data, x);
    for (; at + NARROW_BYTES <= n; at += NARROW_BYTES) {
        for (int i = 0; i < 4; i++) {
            x[i] = fold(x[i], by_512, load(data + at + 16 * i));
        }
    }
    for (int i = 1; i < 4; i++) {
        x[0] = fold(x[0], by_128, x[i]);
    }
    for (; at + ASSAY_CRC32_UNIT <= n; at += ASSAY_CRC32_UNIT) {
        x[0] = fold(x[0], by_128, load(data + at));
    }
    return ~reduced(x[0]);
}

int assay_crc32_is_here(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}

uint32_t assay_crc32(uint32_t crc, const uint8_t *data, size_t n) {
    return folded(crc, data, n);
}
#else
int assay_crc32_is_here(void) {
    return 0;
}

uint32_t assay_crc32(uint32_t crc, const uint8_t *data, size_t n) {
    (void)data;
    (void)n;
    return crc;
}
#endif
