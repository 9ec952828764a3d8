/* See rotation.h. Matrices are n x n and row-major. */
#include "rotation.h"

#include <float.h>
#include <string.h>

#include "engine.h"

enum { MATRICES = 4, SQUARINGS_MAX = 30, TAYLOR_TERMS = 18 };

size_t assay_rotation_room(uint32_t n) {
    return (size_t)MATRICES * n * n;
}

static void set_identity(double *m, uint32_t n) {
    memset(m, 0, (size_t)n * n * sizeof *m);
    for (uint32_t i = 0; i < n; i++) {
        m[(size_t)i * n + i] = 1;
    }
}

static void fill_skew(double *q, const double *upper, uint32_t n) {
    memset(q, 0, (size_t)n * n * sizeof *q);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = i + 1; j < n; j++) {
            q[(size_t)i * n + j] = *upper;
            q[(size_t)j * n + i] = -*upper++;
        }
    }
}

static void multiply(double *c, const double *a, const double *b, uint32_t n) {
    memset(c, 0, (size_t)n * n * sizeof *c);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < n; k++) {
            const double x = a[(size_t)i * n + k];
            for (uint32_t j = 0; j < n; j++) {
                c[(size_t)i * n + j] += x * b[(size_t)k * n + j];
            }
        }
    }
}

static void add_scaled(double *to, const double *m, double scale, uint32_t n) {
    for (size_t i = 0; i < (size_t)n * n; i++) {
        to[i] += scale * m[i];
    }
}

static void subtract_row(double *to, const double *row, double times, uint32_t n) {
    for (uint32_t j = 0; j < n; j++) {
        to[j] -= times * row[j];
    }
}

/* r = (I + Q)^-1 (I - Q), which is (I - Q) (I + Q)^-1 as both are functions of Q. Elimination without
 * pivots: the symmetric part of I + Q is I, so every pivot is at least 1. */
static void cayley(double *r, double *left, const double *q, uint32_t n) {
    set_identity(left, n);
    add_scaled(left, q, 1, n);
    set_identity(r, n);
    add_scaled(r, q, -1, n);
    for (uint32_t p = 0; p < n; p++) {
        const double *pivot = left + (size_t)p * n;
        for (uint32_t i = p + 1; i < n; i++) {
            const double times = left[(size_t)i * n + p] / pivot[p];
            subtract_row(left + (size_t)i * n, pivot, times, n);
            subtract_row(r + (size_t)i * n, r + (size_t)p * n, times, n);
        }
    }
    for (uint32_t p = n; p-- > 0;) {
        double *row = r + (size_t)p * n;
        for (uint32_t j = 0; j < n; j++) {
            row[j] /= left[(size_t)p * n + p];
        }
        for (uint32_t i = 0; i < p; i++) {
            subtract_row(r + (size_t)i * n, row, left[(size_t)i * n + p], n);
        }
    }
}

/* r = I + 2 Q + 2 Q^2 + ... with the last power once, as peft truncates the Neumann series. */
static void neumann(double *r, double *power, double *next, const double *q, uint32_t n,
                    uint32_t terms) {
    set_identity(r, n);
    if (terms < 2) {
        return;
    }
    add_scaled(r, q, 2, n);
    if (terms < 3) {
        return;
    }
    memcpy(power, q, (size_t)n * n * sizeof *power);
    const uint32_t highest = terms < 4 ? 3 : terms - 1;
    for (uint32_t degree = 2; degree <= highest; degree++) {
        multiply(next, power, q, n);
        memcpy(power, next, (size_t)n * n * sizeof *power);
        add_scaled(r, power, degree < highest ? 2 : 1, n);
    }
}

static double norm_of(const double *q, uint32_t n) {
    double norm = 0;
    for (uint32_t i = 0; i < n; i++) {
        double sum = 0;
        for (uint32_t j = 0; j < n; j++) {
            sum += q[(size_t)i * n + j] < 0 ? -q[(size_t)i * n + j] : q[(size_t)i * n + j];
        }
        norm = sum > norm ? sum : norm;
    }
    return norm;
}

/* e^Q by scaling and squaring: a Taylor series of Q / 2^s, whose norm is at most 1/2, squared s times.
 * 0 when s would be above SQUARINGS_MAX. */
static int exponential(double *r, double *power, double *next, double *q, uint32_t n) {
    int squarings = 0;
    for (double norm = norm_of(q, n); norm > 0.5; norm /= 2) {
        if (++squarings > SQUARINGS_MAX) {
            return 0;
        }
    }
    const double scale = 1.0 / (double)((uint64_t)1 << squarings);
    for (size_t i = 0; i < (size_t)n * n; i++) {
        q[i] *= scale;
    }
    set_identity(r, n);
    set_identity(power, n);
    double factorial = 1;
    for (int degree = 1; degree <= TAYLOR_TERMS; degree++) {
        multiply(next, power, q, n);
        memcpy(power, next, (size_t)n * n * sizeof *power);
        factorial *= degree;
        add_scaled(r, power, 1 / factorial, n);
    }
    for (int i = 0; i < squarings; i++) {
        multiply(next, r, r, n);
        memcpy(r, next, (size_t)n * n * sizeof *r);
    }
    return 1;
}

static int all_finite(const double *m, uint32_t n) {
    for (size_t i = 0; i < (size_t)n * n; i++) {
        if (!(m[i] >= -FLT_MAX && m[i] <= FLT_MAX)) {
            return 0;
        }
    }
    return 1;
}

const double *assay_rotation(const double *upper, uint32_t n, uint32_t kind, uint32_t terms,
                             double *room) {
    const size_t size = (size_t)n * n;
    double *r = room;
    double *q = room + size;
    int in_range = 1;
    fill_skew(q, upper, n);
    if (kind == ASSAY_ADAPT_OFT_CAYLEY) {
        cayley(r, room + 2 * size, q, n);
    } else if (kind == ASSAY_ADAPT_OFT_NEUMANN) {
        neumann(r, room + 2 * size, room + 3 * size, q, n, terms);
    } else {
        in_range = exponential(r, room + 2 * size, room + 3 * size, q, n);
    }
    return in_range && all_finite(r, n) ? r : NULL;
}
