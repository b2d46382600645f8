// Functions that a compiler can vectorise: no branches, single precision, a few units in the last place.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#define INLINE_MEMBER inline __attribute__((always_inline))
#define INLINE static INLINE_MEMBER

// How many numbers a register holds.
#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif

template <class To, class From>
INLINE To bits_as(From from) {
    To to;
    static_assert(sizeof(To) == sizeof(From));
    std::memcpy(&to, &from, sizeof(To));
    return to;
}

// A polynomial, from its highest coefficient; a loop would keep a compiler from vectorising the loop around it.
INLINE float horner(float, float p) { return p; }
template <class... More>
INLINE float horner(float x, float p, float next, More... more) {
    return horner(x, p * x + next, more...);
}

// ln x for a normal x > 0 (Cephes).
INLINE float log_of(float x) {
    const int32_t bits = bits_as<int32_t>(x) - 0x3F3504F3;  // of sqrt(1/2)
    const int32_t exponent = bits >> 23;
    const float m = bits_as<float>((bits & 0x007FFFFF) + 0x3F3504F3) - 1.0f, e = float(exponent);
    const float z = m * m;
    const float p = horner(m, 7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                           -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f);
    return m + (p * m * z - 2.12194440e-4f * e - 0.5f * z) + 0.693359375f * e;
}

// e^x; below e^-87.3 and above e^88.3 as there (Cephes).
INLINE float exp_of(float x) {
    x = x < -87.3f ? -87.3f : x > 88.3f ? 88.3f : x;
    const float n = std::floor(x * 1.44269504f + 0.5f);
    const float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    const float p = horner(r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                           5.0000001201e-1f);
    return (p * r * r + r + 1.0f) * bits_as<float>((int32_t(n) + 127) << 23);
}

// ln(1 + t) for t >= 0, with the digits of a small t.
INLINE float log1p_of(float t) {
    const float u = 1.0f + t, d = u - 1.0f, none = d > 0.0f ? 0.0f : 1.0f;
    return log_of(u) * t / (d + none) + none * t;
}

INLINE float softplus(float x) { return (x > 0.0f ? x : 0.0f) + log1p_of(exp_of(-std::fabs(x))); }

INLINE float sigmoid(float x) {
    const float e = exp_of(-std::fabs(x));
    return (x >= 0.0f ? 1.0f : e) / (1.0f + e);
}

INLINE float tanh_of(float x) {
    const float e = exp_of(-2.0f * std::fabs(x)), t = (1.0f - e) / (1.0f + e);
    return x < 0.0f ? -t : t;
}
