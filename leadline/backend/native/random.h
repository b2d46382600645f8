// Threefry-2x32 with 20 rounds and the normal quantile: the numbers of `leadline/backend/random.py`.
#pragma once
#include "numerics.h"

struct Key {
    uint32_t a, b;
};

// The two words that every (x, y) becomes under a key: one pair, or N pairs of registers in step, since every round waits
// for the one before.
template <int N, class Words>
INLINE void threefry(Key key, Words* x, Words* y) {
    const uint32_t words[3] = {key.a, key.b, key.a ^ key.b ^ 0x1BD11BDAu};
#define EACH _Pragma("GCC unroll 8") for (int v = 0; v < N; v++)
#define ROUND(p) EACH x[v] += y[v], y[v] = ((y[v] << p) | (y[v] >> (32 - p))) ^ x[v];
#define FOUR(p, q, r, s, i) \
    ROUND(p) ROUND(q) ROUND(r) ROUND(s) EACH x[v] += words[(i + 1) % 3], y[v] += words[(i + 2) % 3] + (i + 1)
    EACH x[v] += words[0], y[v] += words[1];
    FOUR(13, 15, 26, 6, 0);
    FOUR(17, 29, 16, 24, 1);
    FOUR(13, 15, 26, 6, 2);
    FOUR(17, 29, 16, 24, 3);
    FOUR(13, 15, 26, 6, 4);
#undef FOUR
#undef ROUND
#undef EACH
}
INLINE void threefry(Key key, uint32_t& x, uint32_t& y) { threefry<1>(key, &x, &y); }

INLINE Key fold_in(Key key, uint32_t data) {
    uint32_t x = 0, y = data;
    threefry(key, x, y);
    return {x, y};
}

// The normal quantile of a uniform number of 23 binary digits (Giles 2012, as in XLA).
INLINE float normal_of(uint32_t bits) {
    const float whole = float(int32_t(bits >> 9));
    const float u = (whole + 0.5f) * 0x1p-22f - 1.0f;
    const float w = -log_of((1.0f - u) * (1.0f + u));
    const float a = w - 2.5f, b = std::sqrt(w) - 3.0f;
    const float near = horner(a, 2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                              -0.00125372503f, -0.00417768164f, 0.246640727f, 1.50140941f);
    const float far = horner(b, -0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                             -0.0076224613f, 0.00943887047f, 1.00167406f, 2.83297682f);
    return 1.41421356f * u * (w < 5.0f ? near : far);
}

typedef uint32_t Words __attribute__((vector_size(4 * LANES)));

// The numbers `start`, `start + 1`, ... of a key.
static inline void normals(Key key, uint32_t start, int n, float* out) {
    constexpr int STEPS = 4, MANY = STEPS * LANES, BLOCK = 8 * MANY;
    Words first;
    for (int l = 0; l < LANES; l++) first[l] = uint32_t(l);
    alignas(Words) uint32_t bits[BLOCK];
    for (int begin = 0; begin < n; begin += BLOCK) {
        const int here = std::min(BLOCK, n - begin);
        for (int i = 0; i < here; i += MANY) {
            Words x[STEPS], y[STEPS];
            for (int v = 0; v < STEPS; v++) x[v] = Words{} + 1u, y[v] = first + (start + uint32_t(begin + i + v * LANES));
            threefry<STEPS>(key, x, y);
            for (int v = 0; v < STEPS; v++) x[v] ^= y[v], std::memcpy(bits + i + v * LANES, &x[v], sizeof(Words));
        }
#pragma omp simd
        for (int i = 0; i < here; i++) out[begin + i] = normal_of(bits[i]);
    }
}
