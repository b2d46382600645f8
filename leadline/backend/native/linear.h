// A Gaussian linear layer on columns of data points: `leadline/network/layers.py`, forwards and backwards.
#pragma once
#include <type_traits>
#include <utility>
#include <vector>

#include "random.h"

#if defined(__AVX__) && !defined(__AVX512F__)
constexpr int TILE = 2;
#else
constexpr int TILE = 4;
#endif
typedef float Lanes __attribute__((vector_size(4 * LANES)));
typedef float LooseLanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline int padded(int n) { return (n + LANES - 1) / LANES * LANES; }

INLINE Lanes load(const float* at) { return *reinterpret_cast<const LooseLanes*>(at); }
INLINE void store(float* at, Lanes x) { *reinterpret_cast<LooseLanes*>(at) = x; }

// Rows r and r + S of a square block of registers, with their parts that lie S apart exchanged.
template <int S, int... L>
INLINE void exchange(Lanes& a, Lanes& b, std::integer_sequence<int, L...>) {
#if defined(__clang__)
    const Lanes low = __builtin_shufflevector(a, b, (L & S ? LANES + L - S : L)...);
    b = __builtin_shufflevector(a, b, (L & S ? LANES + L : L + S)...);
#else
    typedef int32_t Numbers __attribute__((vector_size(4 * LANES)));
    const Lanes low = __builtin_shuffle(a, b, Numbers{(L & S ? LANES + L - S : L)...});
    b = __builtin_shuffle(a, b, Numbers{(L & S ? LANES + L : L + S)...});
#endif
    a = low;
}

// Rows of a square block become its columns.
template <int S = LANES / 2>
INLINE void turn(Lanes (&block)[LANES]) {
#pragma GCC unroll 16
    for (int r = 0; r < LANES; r++)
        if (!(r & S)) exchange<S>(block[r], block[r + S], std::make_integer_sequence<int, LANES>{});
    if constexpr (S > 1) turn<S / 2>(block);
}

// A growing array that starts at a cache line.
class Buffer {
    std::vector<float> store_;

   public:
    float* at_least(size_t n) {
        if (store_.size() < n + 16) store_.assign(n + 16, 0.0f);
        return data();
    }
    float* data() {
        auto address = reinterpret_cast<uintptr_t>(store_.data());
        return reinterpret_cast<float*>((address + 63) & ~uintptr_t(63));
    }
};

// A matrix in place, read along its rows or its columns.
struct Matrix {
    const float* numbers;
    int by_row, by_column;
};

// ROWS x (COLUMNS lanes) of A X and, with a second pair, of B Y, over `n` inner steps.
template <int ROWS, int COLUMNS, bool PAIR>
INLINE void tile(Matrix a, Matrix b, int n, const float* x, const float* y, int stride, float* ax, float* by,
                        int out_stride) {
    Lanes p[ROWS][COLUMNS], q[ROWS][COLUMNS];
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) p[r][c] = q[r][c] = Lanes{};
    for (int k = 0; k < n; k++) {
#pragma GCC unroll 4
        for (int c = 0; c < COLUMNS; c++) {
            const Lanes xs = load(x + size_t(k) * stride + c * LANES);
            const Lanes ys = PAIR ? load(y + size_t(k) * stride + c * LANES) : Lanes{};
#pragma GCC unroll 4
            for (int r = 0; r < ROWS; r++) {
                p[r][c] += a.numbers[size_t(r) * a.by_row + size_t(k) * a.by_column] * xs;
                if (PAIR) q[r][c] += b.numbers[size_t(r) * b.by_row + size_t(k) * b.by_column] * ys;
            }
        }
    }
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            store(ax + size_t(r) * out_stride + c * LANES, p[r][c]);
            if (PAIR) store(by + size_t(r) * out_stride + c * LANES, q[r][c]);
        }
}

// A X and B Y, [rows, columns], of `n` inner steps; `columns` is a multiple of LANES.
template <bool PAIR>
static inline void products(Matrix a, Matrix b, int rows, int n, const float* x, const float* y, int stride,
                            int columns, float* ax, float* by, int out_stride) {
    for (int c = 0; c < columns;) {
        const int wide = columns - c >= 2 * LANES ? 2 : 1;
        for (int r = 0; r < rows;) {
            const Matrix ar{a.numbers + size_t(r) * a.by_row, a.by_row, a.by_column};
            const Matrix br{PAIR ? b.numbers + size_t(r) * b.by_row : nullptr, b.by_row, b.by_column};
            float* ap = ax + size_t(r) * out_stride + c;
            float* bp = PAIR ? by + size_t(r) * out_stride + c : nullptr;
            const float* yc = PAIR ? y + c : nullptr;
            const int tall = rows - r >= TILE ? TILE : rows - r >= 2 ? 2 : 1;
            auto do_tile = [&](auto height) {
                constexpr int ROWS = decltype(height)::value;
                if (wide == 2) tile<ROWS, 2, PAIR>(ar, br, n, x + c, yc, stride, ap, bp, out_stride);
                else tile<ROWS, 1, PAIR>(ar, br, n, x + c, yc, stride, ap, bp, out_stride);
            };
            if (tall == TILE) do_tile(std::integral_constant<int, TILE>{});
            else if (tall == 2) do_tile(std::integral_constant<int, 2>{});
            else do_tile(std::integral_constant<int, 1>{});
            r += tall;
        }
        c += wide * LANES;
    }
}

enum Prior : int32_t { FIXED_SCALE, PER_UNIT, PER_WEIGHT };
enum Draw : int32_t { LOCAL, WEIGHTS };

// The parts of a packed layer (or of its gradient).
struct Layer {
    int n_out, n_in;
    float *mean, *raw, *bias_mean, *bias_raw, *log_input, *log_output;

    Layer(float* numbers, int n_out, int n_in, int prior) : n_out(n_out), n_in(n_in) {
        const size_t n = size_t(n_out) * n_in;
        mean = numbers, raw = mean + n, bias_mean = raw + n, bias_raw = bias_mean + n_out;
        log_input = prior == PER_UNIT ? bias_raw + n_out : nullptr;
        log_output = prior == PER_UNIT ? log_input + n_in : nullptr;
    }
    static size_t size(int n_out, int n_in, int prior) {
        return 2 * (size_t(n_out) * n_in + n_out) + (prior == PER_UNIT ? n_out + n_in : 0);
    }
    size_t n_weights() const { return size_t(n_out) * n_in; }
};

// softplus and its slope for all raw scales of a layer: the deviations of its weights, then of its biases.
struct Scales {
    Buffer scale, gate;

    void prepare(const Layer& layer) {
        const size_t n = layer.n_weights();
        float *s = scale.at_least(n + layer.n_out), *g = gate.at_least(n + layer.n_out);
        fill(layer.raw, n, s, g);
        fill(layer.bias_raw, layer.n_out, s + n, g + n);
    }

   private:
    static void fill(const float* raw, size_t n, float* s, float* g) {
#pragma omp simd
        for (size_t i = 0; i < n; i++) {
            const float e = exp_of(-std::fabs(raw[i]));
            s[i] = (raw[i] > 0.0f ? raw[i] : 0.0f) + log1p_of(e);
            g[i] = (raw[i] >= 0.0f ? 1.0f : e) / (1.0f + e);
        }
    }
};

// KL[q || p] of weights next to each other that share an output; with SLOPES, `factor` times its slopes are added. Their
// prior's deviations are 1 / (output inputs[i]), or where there are no `inputs` 1 / output.
template <int PRIOR, bool SLOPES>
INLINE float prior_terms(int n, const float* mean, const float* scale, const float* gate, float output,
                         const float* inputs, float log_scales, float factor, float* d_mean, float* d_raw,
                         float* d_inputs, float& d_output) {
    float kl = 0, by_output = 0;
#pragma omp simd reduction(+ : kl, by_output)
    for (int i = 0; i < n; i++) {
        const float m = mean[i], s = scale[i];
        if (PRIOR == PER_WEIGHT) {
            const float square = (m / s) * (m / s), slope = factor / (s * (1.0f + square));
            kl += 0.5f * log1p_of(square);
            if (SLOPES) d_mean[i] += slope * (m / s), d_raw[i] -= slope * square * gate[i];
        } else {
            const float inverse = PRIOR == PER_UNIT ? output * inputs[i] : output;
            const float a = s * inverse, b = m * inverse, square = a * a + b * b;
            kl += 0.5f * square - log_of(s);
            if (SLOPES) {
                d_mean[i] += factor * b * inverse;
                d_raw[i] += factor * (a * inverse - 1.0f / s) * gate[i];
                if (PRIOR == PER_UNIT) d_inputs[i] += factor * (1.0f - square), by_output += factor * (1.0f - square);
            }
        }
    }
    d_output += by_output;
    return kl + (PRIOR == PER_WEIGHT ? 0.0f : log_scales - 0.5f * float(n));
}

template <int PRIOR, bool SLOPES>
static double kl_of(const Layer& layer, Scales& scales, float prior_scale, float factor, Layer* d) {
    const int n = layer.n_in;
    const size_t biases = layer.n_weights();
    const float *s = scales.scale.data(), *g = scales.gate.data(), one = 1.0f, log_prior = std::log(prior_scale);
    std::vector<float> inputs(PRIOR == PER_UNIT ? n : 0), unused(1);
    float log_inputs = 0, nothing = 0;
    if (PRIOR == PER_UNIT)
        for (int i = 0; i < n; i++) inputs[i] = exp_of(-layer.log_input[i]), log_inputs += layer.log_input[i];
    double kl = 0;
    for (int o = 0; o < layer.n_out; o++) {
        const float log_scale = log_prior + (PRIOR == PER_UNIT ? layer.log_output[o] : 0.0f), output = exp_of(-log_scale);
        const size_t row = size_t(o) * n;
        float& d_output = SLOPES && PRIOR == PER_UNIT ? d->log_output[o] : nothing;
        kl += prior_terms<PRIOR, SLOPES>(n, layer.mean + row, s + row, g + row, output, inputs.data(),
                                         n * log_scale + log_inputs, factor, SLOPES ? d->mean + row : nullptr,
                                         SLOPES ? d->raw + row : nullptr, SLOPES ? d->log_input : nullptr, d_output);
        kl += prior_terms<PRIOR, SLOPES>(1, layer.bias_mean + o, s + biases + o, g + biases + o, output, &one, log_scale,
                                         factor, SLOPES ? d->bias_mean + o : nullptr, SLOPES ? d->bias_raw + o : nullptr,
                                         unused.data(), d_output);
    }
    return kl;
}

// The KL of a layer; with SLOPES, `factor` times its slopes are added to a gradient.
template <bool SLOPES>
static double layer_kl(const Layer& layer, Scales& scales, int prior, float prior_scale, float factor, Layer* d) {
    if (prior == FIXED_SCALE) return kl_of<FIXED_SCALE, SLOPES>(layer, scales, prior_scale, factor, d);
    if (prior == PER_UNIT) return kl_of<PER_UNIT, SLOPES>(layer, scales, prior_scale, factor, d);
    return kl_of<PER_WEIGHT, SLOPES>(layer, scales, prior_scale, factor, d);
}

// What no layer needs once the next is computed: all share it, so that it stays in the cache.
struct Scratch {
    Buffer output, variance, d_weight, d_second, d_variance;
};

// What a layer has drawn, and what its reverse pass needs.
struct Drawn {
    Scales scales;
    Buffer weight, second, noise, bias, slope;

    // Weights of one sample, or their variances, as the layer takes a batch; the scales are prepared.
    void prepare(const Layer& layer, int draw, Key key) {
        const int n = layer.n_in, m = layer.n_out;
        const float *scale = scales.scale.data(), *bias_scale = scale + layer.n_weights();
        float* b = bias.at_least(m);
        if (draw == LOCAL) {
            float* v = second.at_least(layer.n_weights());
            for (size_t i = 0; i < layer.n_weights(); i++) v[i] = scale[i] * scale[i];
            for (int o = 0; o < m; o++) b[o] = bias_scale[o] * bias_scale[o];
            return;
        }
        float *w = weight.at_least(layer.n_weights()), *e = noise.at_least(size_t(m) * (n + 1));
        normals(key, 0, m * (n + 1), e);  // the bias is the weight of one more input
        for (int o = 0; o < m; o++) {
            const float* eo = e + size_t(o) * (n + 1);
            const size_t row = size_t(o) * n;
            for (int i = 0; i < n; i++) w[row + i] = layer.mean[row + i] + scale[row + i] * eo[i];
            b[o] = layer.bias_mean[o] + bias_scale[o] * eo[n];
        }
    }

    // The pre-activations of `columns` points, those from `offset` on of a batch of `batch`, by which draws are counted.
    float* forward(const Layer& layer, int draw, Key key, const float* x, const float* squares, int stride, int columns,
                   int batch, int offset, Scratch& scratch) {
        const int n = layer.n_in, m = layer.n_out;
        float* out = scratch.output.at_least(size_t(m) * stride);
        if (draw == WEIGHTS) {
            products<false>({weight.data(), n, 1}, {}, m, n, x, nullptr, stride, columns, out, nullptr, stride);
            const float* b = bias.data();
            for (int o = 0; o < m; o++)
#pragma omp simd
                for (int i = 0; i < columns; i++) out[size_t(o) * stride + i] += b[o];
            return out;
        }
        float *v = scratch.variance.at_least(size_t(m) * stride), *slopes = slope.at_least(size_t(m) * stride);
        products<true>({layer.mean, n, 1}, {second.data(), n, 1}, m, n, x, squares, stride, columns, out, v, stride);
        const float* vb = bias.data();
        for (int o = 0; o < m; o++) {
            float *oo = out + size_t(o) * stride, *so = slopes + size_t(o) * stride;
            const float* vo = v + size_t(o) * stride;
            const float b = layer.bias_mean[o], bv = vb[o];
            normals(key, uint32_t(o) * uint32_t(batch) + uint32_t(offset), columns, so);
#pragma omp simd
            for (int i = 0; i < columns; i++) {
                const float sum = vo[i] + bv, total = sum > 1.17549435e-38f ? sum : 1.17549435e-38f;
                so[i] = so[i] / (2.0f * std::sqrt(total));
                oo[i] = oo[i] + b + 2.0f * total * so[i];
            }
        }
        return out;
    }

    // Adds the layer's gradient to `d`, and writes that of its input to `d_x` where there is one. `rows` and
    // `row_squares` are x and its squares with a point per row, `row_stride` numbers apart.
    void backward(const Layer& layer, int draw, const float* d_out, const float* x, const float* rows,
                  const float* row_squares, int row_stride, int stride, int columns, Layer& d, float* d_x,
                  Scratch& scratch) {
        const int n = layer.n_in, m = layer.n_out;
        const float *scale = scales.scale.data(), *gate = scales.gate.data();
        const float *bias_scale = scale + layer.n_weights(), *bias_gate = gate + layer.n_weights();
        float *dw = scratch.d_weight.at_least(size_t(m) * row_stride), *dv = scratch.d_second.at_least(size_t(m) * row_stride);
        if (draw == WEIGHTS) {
            products<false>({d_out, stride, 1}, {}, m, columns, rows, nullptr, row_stride, row_stride, dw, nullptr, row_stride);
            const float* e = noise.data();
            for (int o = 0; o < m; o++) {
                const float *eo = e + size_t(o) * (n + 1), *dwo = dw + size_t(o) * row_stride;
                float db = 0;
#pragma omp simd reduction(+ : db)
                for (int i = 0; i < columns; i++) db += d_out[size_t(o) * stride + i];
#pragma omp simd
                for (int i = 0; i < n; i++) {
                    d.mean[o * n + i] += dwo[i];
                    d.raw[o * n + i] += dwo[i] * eo[i] * gate[o * n + i];
                }
                d.bias_mean[o] += db;
                d.bias_raw[o] += db * eo[n] * bias_gate[o];
            }
            if (d_x) products<false>({weight.data(), 1, n}, {}, n, m, d_out, nullptr, stride, columns, d_x, nullptr, stride);
            return;
        }
        float *dvar = scratch.d_variance.at_least(size_t(m) * stride), *slopes = slope.data();
        for (int o = 0; o < m; o++) {
            const float *p = d_out + size_t(o) * stride, *s = slopes + size_t(o) * stride;
            float *q = dvar + size_t(o) * stride, db = 0, dbv = 0;
#pragma omp simd reduction(+ : db, dbv)
            for (int i = 0; i < columns; i++) q[i] = p[i] * s[i], db += p[i], dbv += q[i];
            d.bias_mean[o] += db;
            d.bias_raw[o] += 2.0f * dbv * bias_scale[o] * bias_gate[o];
        }
        products<true>({d_out, stride, 1}, {dvar, stride, 1}, m, columns, rows, row_squares, row_stride, row_stride, dw, dv,
                       row_stride);
        for (int o = 0; o < m; o++)
#pragma omp simd
            for (int i = 0; i < n; i++) {
                d.mean[o * n + i] += dw[size_t(o) * row_stride + i];
                d.raw[o * n + i] += 2.0f * dv[size_t(o) * row_stride + i] * scale[o * n + i] * gate[o * n + i];
            }
        if (!d_x) return;
        float* second_part = scratch.variance.at_least(size_t(std::max(m, n)) * stride);
        products<true>({layer.mean, 1, n}, {second.data(), 1, n}, n, m, d_out, dvar, stride, columns, d_x, second_part, stride);
        for (int i = 0; i < n; i++)
#pragma omp simd
            for (int j = 0; j < columns; j++)
                d_x[size_t(i) * stride + j] += 2.0f * x[size_t(i) * stride + j] * second_part[size_t(i) * stride + j];
    }
};

// One step of Adam (Kingma & Ba 2015, their constants) on numbers next to each other.
static inline void adam(size_t n, const float* gradient, float* mu, float* nu, float* numbers, int32_t& count, float rate) {
    count += 1;
    const float c1 = float(1 - std::pow(0.9, double(count))), c2 = float(1 - std::pow(0.999, double(count)));
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        const float g = gradient[i];
        mu[i] = 0.1f * g + 0.9f * mu[i];
        nu[i] = 0.001f * (g * g) + 0.999f * nu[i];
        numbers[i] -= rate * ((mu[i] / c1) / (std::sqrt(nu[i] / c2) + 1e-8f));
    }
}
