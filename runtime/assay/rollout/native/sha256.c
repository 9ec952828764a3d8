/* See sha256.h. Lane i of every vector belongs to piece i of sixteen: FIPS 180-4, section 6.2.2, in each. */
#include "sha256.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define SHAFN static inline __attribute__((target("avx512f,avx512bw"), always_inline))
#define BLOCK 64
#define ROUNDS 64
#define WORDS 16

static const uint32_t K[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};
static const uint32_t BEGIN[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

/* Of three words, by a table of their bits. */
#define XOR3(x, y, z) _mm512_ternarylogic_epi32(x, y, z, 0x96)
#define CHOICE(x, y, z) _mm512_ternarylogic_epi32(x, y, z, 0xca)
#define MAJORITY(x, y, z) _mm512_ternarylogic_epi32(x, y, z, 0xe8)
#define ROTATED(x, a, b, c) XOR3(_mm512_ror_epi32(x, a), _mm512_ror_epi32(x, b), _mm512_ror_epi32(x, c))
#define SHIFTED(x, a, b, c) XOR3(_mm512_ror_epi32(x, a), _mm512_ror_epi32(x, b), _mm512_srli_epi32(x, c))

SHAFN __m512i add(__m512i x, __m512i y) {
    return _mm512_add_epi32(x, y);
}

/* Rows become columns: word j of row i is word i of row j. */
SHAFN void transpose(__m512i w[WORDS]) {
    __m512i t[WORDS];
    for (int i = 0; i < WORDS; i += 4) {
        const __m512i a = _mm512_unpacklo_epi32(w[i], w[i + 1]);
        const __m512i b = _mm512_unpackhi_epi32(w[i], w[i + 1]);
        const __m512i c = _mm512_unpacklo_epi32(w[i + 2], w[i + 3]);
        const __m512i d = _mm512_unpackhi_epi32(w[i + 2], w[i + 3]);
        t[i] = _mm512_unpacklo_epi64(a, c);
        t[i + 1] = _mm512_unpackhi_epi64(a, c);
        t[i + 2] = _mm512_unpacklo_epi64(b, d);
        t[i + 3] = _mm512_unpackhi_epi64(b, d);
    }
    for (int j = 0; j < 4; j++) {
        const __m512i a = _mm512_shuffle_i32x4(t[j], t[j + 4], 0x88);
        const __m512i b = _mm512_shuffle_i32x4(t[j], t[j + 4], 0xdd);
        const __m512i c = _mm512_shuffle_i32x4(t[j + 8], t[j + 12], 0x88);
        const __m512i d = _mm512_shuffle_i32x4(t[j + 8], t[j + 12], 0xdd);
        w[j] = _mm512_shuffle_i32x4(a, c, 0x88);
        w[j + 4] = _mm512_shuffle_i32x4(b, d, 0x88);
        w[j + 8] = _mm512_shuffle_i32x4(a, c, 0xdd);
        w[j + 12] = _mm512_shuffle_i32x4(b, d, 0xdd);
    }
}

/* One block of each lane. */
SHAFN void block(__m512i state[8], __m512i w[WORDS]) {
    __m512i s[8];
    memcpy(s, state, sizeof s);
#pragma GCC unroll 64
    for (int i = 0; i < ROUNDS; i++) {
        if (i >= WORDS) {
            const __m512i old = w[(i - 15) % WORDS];
            const __m512i late = w[(i - 2) % WORDS];
            const __m512i by = add(SHIFTED(old, 7, 18, 3), SHIFTED(late, 17, 19, 10));
            w[i % WORDS] = add(add(w[i % WORDS], w[(i - 7) % WORDS]), by);
        }
        /* The eight words stay where they are; their names move on by one each round. */
        const __m512i a = s[(64 - i) % 8];
        const __m512i e = s[(68 - i) % 8];
        __m512i *d = &s[(67 - i) % 8];
        __m512i *h = &s[(71 - i) % 8];
        const __m512i constant = _mm512_set1_epi32((int)K[i]);
        const __m512i given = add(add(*h, constant), w[i % WORDS]);
        const __m512i chosen = CHOICE(e, s[(69 - i) % 8], s[(70 - i) % 8]);
        const __m512i first = add(add(given, chosen), ROTATED(e, 6, 11, 25));
        const __m512i most = MAJORITY(a, s[(65 - i) % 8], s[(66 - i) % 8]);
        *d = add(*d, first);
        *h = add(first, add(ROTATED(a, 2, 13, 22), most));
    }
    for (int i = 0; i < 8; i++) {
        state[i] = add(state[i], s[i]);
    }
}

/* Words are big-endian in memory. */
SHAFN __m512i swapped(__m512i x) {
    const __m128i each = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    return _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(each));
}

/* `n` pieces, one in each lane; lanes without one read the last piece again. */
static __attribute__((target("avx512f,avx512bw"))) void lanes(const uint8_t *data, size_t bytes, size_t n, uint8_t *out) {
    const uint8_t *from[ASSAY_SHA256_LANES];
    for (size_t i = 0; i < ASSAY_SHA256_LANES; i++) {
        from[i] = data + (i < n ? i : n - 1) * bytes;
    }
    __m512i state[8];
    __m512i w[WORDS];
    for (int i = 0; i < 8; i++) {
        state[i] = _mm512_set1_epi32((int)BEGIN[i]);
    }
    for (size_t at = 0; at < bytes; at += BLOCK) {
        for (int i = 0; i < WORDS; i++) {
            w[i] = swapped(_mm512_loadu_si512(from[i] + at));
        }
        transpose(w);
        block(state, w);
    }
    for (int i = 0; i < WORDS; i++) { /* the padding: a bit, zeros, the number of bits */
        w[i] = _mm512_setzero_si512();
    }
    w[0] = _mm512_set1_epi32((int)0x80000000u);
    w[WORDS - 1] = _mm512_set1_epi32((int)(8 * bytes));
    block(state, w);
    for (int i = 0; i < WORDS; i++) {
        w[i] = i < 8 ? swapped(state[i]) : _mm512_setzero_si512();
    }
    transpose(w);
    for (size_t i = 0; i < n; i++) {
        _mm256_storeu_si256((__m256i *)(out + ASSAY_SHA256_BYTES * i), _mm512_castsi512_si256(w[i]));
    }
}

int assay_sha256_is_here(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
}

void assay_sha256_pieces(const uint8_t *data, size_t bytes, size_t n, uint8_t *out) {
    for (size_t i = 0; i < n; i += ASSAY_SHA256_LANES) {
        const size_t left = n - i;
        const size_t count = left < ASSAY_SHA256_LANES ? left : ASSAY_SHA256_LANES;
        lanes(data + i * bytes, bytes, count, out + ASSAY_SHA256_BYTES * i);
    }
}
#else
int assay_sha256_is_here(void) {
    return 0;
}

void assay_sha256_pieces(const uint8_t *data, size_t bytes, size_t n, uint8_t *out) {
    (void)data;
    (void)bytes;
    (void)n;
    (void)out;
}
#endif
