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

// A uniform number of 23 binary digits, from -1 to 1, and minus the log of 1 - u^2.
INLINE float uniform_of(uint32_t bits, float& w) {
    const float u = (float(int32_t(bits >> 9)) + 0.5f) * 0x1p-22f - 1.0f;
    w = -log_of((1.0f - u) * (1.0f + u));
    return u;
}

// The normal quantile of such a number (Giles 2012, as in XLA) where w < 5, as between these binary numbers.
constexpr uint32_t NEAR_ZERO = 14200;
INLINE float near_normal(float u, float w) {
    return 1.41421356f * u *
           horner(w - 2.5f, 2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                  -0.00125372503f, -0.00417768164f, 0.246640727f, 1.50140941f);
}

INLINE float normal_of(uint32_t bits) {
    float w;
    const float u = uniform_of(bits, w);
    const float far = horner(std::sqrt(w) - 3.0f, -0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f,
                             0.00573950773f, -0.0076224613f, 0.00943887047f, 1.00167406f, 2.83297682f);
    return w < 5.0f ? near_normal(u, w) : 1.41421356f * u * far;
}

typedef uint32_t Words __attribute__((vector_size(4 * LANES)));

// STEPS registers full of random bits, for the numbers from `start` on.
template <int STEPS>
INLINE void random_bits(Key key, uint32_t start, uint32_t* bits) {
    Words x[STEPS], y[STEPS], lane;
    for (int l = 0; l < LANES; l++) lane[l] = uint32_t(l);
    for (int v = 0; v < STEPS; v++) x[v] = Words{} + 1u, y[v] = lane + (start + uint32_t(v * LANES));
    threefry<STEPS>(key, x, y);
    for (int v = 0; v < STEPS; v++) x[v] ^= y[v], std::memcpy(bits + v * LANES, &x[v], sizeof(Words));
}

// The numbers `start`, `start + 1`, ... of a key.
static inline void normals(Key key, uint32_t start, int n, float* out) {
    constexpr int STEPS = LANES == 16 ? 8 : 4, BLOCK = 64 * LANES;  // as many registers as there are
    alignas(Words) uint32_t bits[BLOCK];
    for (int begin = 0; begin < n; begin += BLOCK) {
        const int here = std::min(BLOCK, n - begin);
        int i = 0;
        for (; i + STEPS / 2 * LANES < here; i += STEPS * LANES) random_bits<STEPS>(key, start + uint32_t(begin + i), bits + i);
        if (i < here) random_bits<STEPS / 2>(key, start + uint32_t(begin + i), bits + i);
        float* to = out + begin;
#pragma omp simd
        for (i = 0; i < here; i++) {
            float w;
            const float u = uniform_of(bits[i], w);
            to[i] = near_normal(u, w);
        }
        for (int j = 0; j < here; j += LANES) {  // one number in three hundred is far from zero
            uint32_t some = 0;
#pragma omp simd reduction(| : some)
            for (int l = 0; l < LANES; l++) some |= (bits[j + l] >> 9) - NEAR_ZERO > 0x7FFFFFu - 2 * NEAR_ZERO;
            if (!some) continue;
            float all[LANES];
#pragma omp simd
            for (int l = 0; l < LANES; l++) all[l] = normal_of(bits[j + l]);
            std::memcpy(to + j, all, sizeof(float) * size_t(std::min(LANES, here - j)));
        }
    }
}
