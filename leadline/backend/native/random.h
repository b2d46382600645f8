// Threefry-2x32 with 20 rounds and the normal quantile: the numbers of `leadline/backend/random.py`.
#pragma once
#include "numerics.h"

struct Key {
    uint32_t a, b;
};

INLINE uint32_t rotate(uint32_t y, int distance) { return (y << distance) | (y >> (32 - distance)); }

// The two words that (x, y) become under a key.
INLINE void threefry(Key key, uint32_t& x, uint32_t& y) {
    const uint32_t words[3] = {key.a, key.b, key.a ^ key.b ^ 0x1BD11BDAu};
    x += words[0], y += words[1];
#define FOUR(p, q, r, s, i)                                                             \
    x += y, y = rotate(y, p) ^ x, x += y, y = rotate(y, q) ^ x, x += y, y = rotate(y, r) ^ x, \
    x += y, y = rotate(y, s) ^ x, x += words[(i + 1) % 3], y += words[(i + 2) % 3] + (i + 1)
    FOUR(13, 15, 26, 6, 0);
    FOUR(17, 29, 16, 24, 1);
    FOUR(13, 15, 26, 6, 2);
    FOUR(17, 29, 16, 24, 3);
    FOUR(13, 15, 26, 6, 4);
#undef FOUR
}

INLINE Key fold_in(Key key, uint32_t data) {
    uint32_t x = 0, y = data;
    threefry(key, x, y);
    return {x, y};
}

// The normal quantile of a uniform number of 23 binary digits (Giles 2012, as in XLA).
INLINE float normal_of(uint32_t x, uint32_t y) {
    const float whole = float(int32_t((x ^ y) >> 9));
    const float u = (whole + 0.5f) * 0x1p-22f - 1.0f;
    const float w = -log_of((1.0f - u) * (1.0f + u));
    const float a = w - 2.5f, b = std::sqrt(w) - 3.0f;
    const float near = horner(a, 2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                              -0.00125372503f, -0.00417768164f, 0.246640727f, 1.50140941f);
    const float far = horner(b, -0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                             -0.0076224613f, 0.00943887047f, 1.00167406f, 2.83297682f);
    return 1.41421356f * u * (w < 5.0f ? near : far);
}

// The numbers `start`, `start + 1`, ... of a key.
INLINE void normals(Key key, uint32_t start, int n, float* out) {
#pragma omp simd
    for (int i = 0; i < n; i++) {
        uint32_t x = 1, y = start + uint32_t(i);
        threefry(key, x, y);
        out[i] = normal_of(x, y);
    }
}
