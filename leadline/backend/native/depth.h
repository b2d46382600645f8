// q(L) and p(L) with their slopes, in double precision: the formulas of `leadline/depth`, family by family.
#pragma once
#include <vector>

#include "numerics.h"

enum Family : int32_t { FIXED, NORMAL, POISSON, CATEGORICAL };

// A member of a family, without its learned numbers.
struct DepthKind {
    int32_t family, n_numbers;
    double lower_quantile, upper_quantile;
    int32_t integer_bounds, depth;  // of a normal; of a fixed depth
    double floor;                   // the lowest raw scale or raw rate of an unfrozen one
};

static const double MINUS_INFINITY = -INFINITY;

// ln P(L) for L = 0, 1, ..., and its slopes by every learned number.
struct Masses {
    std::vector<double> log;
    std::vector<double> slope;  // depth by number
    int lowest = 0, highest = -1;

    void resize(int n, int n_numbers) {
        log.assign(n, MINUS_INFINITY);
        slope.assign(size_t(n) * n_numbers, 0.0);
    }
    void find_support() {
        lowest = 0, highest = -1;
        for (int i = 0; i < int(log.size()); i++)
            if (log[i] > MINUS_INFINITY) {
                if (highest < 0) lowest = i;
                highest = i;
            }
    }
};

static inline double softplus_double(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
static inline double sigmoid_double(double x) { return 1 / (1 + std::exp(-x)); }

// A number with its slopes by loc and scale.
struct Dual {
    double value, by_loc, by_scale;
};

static inline Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.by_loc - b.by_loc, a.by_scale - b.by_scale}; }

static inline Dual log_ndtr(Dual z) {
    const double log_phi = -0.5 * z.value * z.value - 0.91893853320467274178;
    double value, slope;
    if (z.value < -20) {  // asymptotically
        const double w = 1 / (z.value * z.value);
        const double series = 1 - w * (1 - 3 * w * (1 - 5 * w * (1 - 7 * w * (1 - 9 * w))));
        value = log_phi - std::log(-z.value) + std::log(series), slope = -z.value / series;
    } else {
        value = std::log(0.5 * std::erfc(-0.70710678118654752440 * z.value)), slope = std::exp(log_phi - value);
    }
    return {value, slope * z.by_loc, slope * z.by_scale};
}

// ln(e^a - e^b); -inf without a slope where there is nothing left.
static inline Dual log_sub_exp(Dual a, Dual b) {
    if (!(a.value > b.value)) return {MINUS_INFINITY, 0, 0};
    const double gap = a.value - b.value;
    const double share = gap < 0.6931471805599453 ? std::log(-std::expm1(-gap)) : std::log1p(-std::exp(-gap));
    const double value = a.value + share, by_a = std::exp(a.value - value), by_b = std::exp(b.value - value);
    return {value, by_a * a.by_loc - by_b * b.by_loc, by_a * a.by_scale - by_b * b.by_scale};
}

static inline Dual clipped(Dual a, double low, double high) {
    if (a.value < low) return {low, 0, 0};
    if (a.value > high) return {high, 0, 0};
    return a;
}

// Divide the masses from `first` to `last` by their sum.
static inline void normalise(Masses& m, int first, int last, int n_numbers) {
    double largest = MINUS_INFINITY, sum = 0;
    for (int i = first; i <= last; i++) largest = std::max(largest, m.log[i]);
    for (int i = first; i <= last; i++) sum += std::exp(m.log[i] - largest);
    const double log_sum = largest + std::log(sum);
    for (int k = 0; k < n_numbers; k++) {
        double mean = 0;
        for (int i = first; i <= last; i++) mean += std::exp(m.log[i] - log_sum) * m.slope[i * n_numbers + k];
        for (int i = first; i <= last; i++) m.slope[i * n_numbers + k] -= mean;
    }
    for (int i = first; i <= last; i++) m.log[i] -= log_sum;
}

static inline void normal_masses(const DepthKind& kind, const float* numbers, int n, Masses& m) {
    const double loc = numbers[0], raw = numbers[1], scale = softplus_double(raw), by_raw = sigmoid_double(raw);
    const double log_lower = std::log(kind.lower_quantile), log_upper = std::log(kind.upper_quantile);
    const double above_lower = std::log1p(-kind.lower_quantile), above_upper = std::log1p(-kind.upper_quantile);
    auto at = [&](int edge) { return Dual{(edge - loc) / scale, -1 / scale, -(edge - loc) / (scale * scale)}; };
    auto minus = [](Dual z) { return Dual{-z.value, -z.by_loc, -z.by_scale}; };
    const Dual below_zero = log_ndtr(at(0)), above_zero = log_ndtr(minus(at(0)));
    struct Edge {
        Dual cdf, survival, cdf_clipped, survival_clipped;
    };
    auto edge_at = [&](int i) {
        Edge e;
        e.survival = log_ndtr(minus(at(i))) - above_zero;
        const Dual inside = log_sub_exp(log_ndtr(at(i)), below_zero);
        e.cdf = inside.value == MINUS_INFINITY ? inside : inside - above_zero;
        e.cdf_clipped = clipped(e.cdf, log_lower, log_upper);
        e.survival_clipped = clipped(e.survival, above_upper, above_lower);
        return e;
    };
    Edge left = edge_at(0);
    int first = n, last = -1;
    for (int i = 0; i < n; i++) {
        const Edge right = edge_at(i + 1);
        const bool upper_tail = at(i).value + at(i + 1).value > 0;
        Dual mass;
        if (kind.integer_bounds) {
            const bool inside = left.survival.value > above_upper && right.survival.value < above_lower;
            mass = !inside      ? Dual{MINUS_INFINITY, 0, 0}
                   : upper_tail ? log_sub_exp(left.survival, right.survival)
                                : log_sub_exp(right.cdf, left.cdf);
        } else {
            mass = upper_tail ? log_sub_exp(left.survival_clipped, right.survival_clipped)
                              : log_sub_exp(right.cdf_clipped, left.cdf_clipped);
            mass.value -= std::log(kind.upper_quantile - kind.lower_quantile);
        }
        if (mass.value > MINUS_INFINITY) {
            first = std::min(first, i), last = i;
            m.log[i] = mass.value, m.slope[2 * i] = mass.by_loc, m.slope[2 * i + 1] = mass.by_scale * by_raw;
        } else if (last >= 0) {
            break;  // the support is an interval
        }
        left = right;
    }
    if (kind.integer_bounds && last >= 0) normalise(m, first, last, 2);
}

static inline void poisson_masses(const DepthKind& kind, const float* numbers, int n, Masses& m) {
    const double rate = softplus_double(numbers[0]), by_raw = sigmoid_double(numbers[0]), log_rate = std::log(rate);
    double cdf = 0;
    int last = -1;
    for (int i = 0; i < n && (i == 0 || cdf < kind.upper_quantile || kind.upper_quantile == 1); i++, last++) {
        m.log[i] = i * log_rate - rate - std::lgamma(i + 1.0);
        m.slope[i] = (i / rate - 1) * by_raw;
        cdf += std::exp(m.log[i]);
    }
    if (kind.upper_quantile != 1) normalise(m, 0, last, 1);
}

static inline void categorical_masses(const DepthKind& kind, const float* numbers, int n, Masses& m) {
    const int k = kind.n_numbers;
    double largest = MINUS_INFINITY, sum = 0;
    for (int j = 0; j < k; j++) largest = std::max(largest, double(numbers[j]));
    for (int j = 0; j < k; j++) sum += std::exp(numbers[j] - largest);
    for (int i = 0; i < std::min(n, k); i++) {
        m.log[i] = numbers[i] - largest - std::log(sum);
        for (int j = 0; j < k; j++) m.slope[i * k + j] = (i == j) - std::exp(numbers[j] - largest) / sum;
    }
}

// ln P(L) for L = 0 .. n - 1.
static inline void find_masses(const DepthKind& kind, const float* numbers, int n, Masses& m) {
    m.resize(n, kind.n_numbers);
    switch (kind.family) {
        case FIXED: if (0 <= kind.depth && kind.depth < n) m.log[kind.depth] = 0; break;
        case NORMAL: normal_masses(kind, numbers, n, m); break;
        case POISSON: poisson_masses(kind, numbers, n, m); break;
        case CATEGORICAL: categorical_masses(kind, numbers, n, m); break;
    }
    m.find_support();
}

static inline void unfreeze(const DepthKind& kind, float* numbers) {
    if (kind.family == NORMAL) {
        numbers[0] = std::max(numbers[0], 0.5f), numbers[1] = std::max(numbers[1], float(kind.floor));
    } else if (kind.family == POISSON) {
        numbers[0] = std::max(numbers[0], float(kind.floor));
    } else if (kind.family == CATEGORICAL) {
        const float largest = *std::max_element(numbers, numbers + kind.n_numbers);
        for (int j = 0; j < kind.n_numbers; j++) numbers[j] = std::max(numbers[j], largest - 6.907755279f);
    }
}
