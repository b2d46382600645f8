// ln p(y | output), its slope, and what a prediction is made of: `leadline/likelihoods`.
#pragma once
#include "linear.h"

enum Kind : int32_t { CLASSES, CONSTANT_NOISE, INPUT_NOISE };

struct Likelihood {
    int32_t kind, n_out, n_targets;
    const float* raw_scale;  // of a number's noise
    float opening;           // how much the network's say counts, 0 to 1

    static constexpr float MOST_SHIFT = 3.0f;

    // Mean and standard deviation of a target at one column.
    void moments(const float* output, int stride, int target, int i, float& mean, float& scale) const {
        float by_shift, by_raw;
        mean = output[size_t(target) * stride + i];
        const float shift = kind == INPUT_NOISE ? output[size_t(n_targets + target) * stride + i] : 0.0f;
        if (kind == INPUT_NOISE) noise<true>(raw_scale[target], opening, shift, scale, by_shift, by_raw);
        else noise<false>(raw_scale[target], opening, shift, scale, by_shift, by_raw);
    }

    // log_p of every column. `work` holds as many numbers as there are columns.
    void log_prob(const float* output, int stride, int columns, const int32_t* label, const float* y, int y_stride,
                  float* log_p, float* work) const {
        if (kind == CLASSES) {
            float* largest = work;
            std::copy(output, output + columns, largest);
            for (int k = 1; k < n_out; k++)
                for (int i = 0; i < columns; i++) largest[i] = std::max(largest[i], output[size_t(k) * stride + i]);
            std::fill(log_p, log_p + columns, 0.0f);
            for (int k = 0; k < n_out; k++)
#pragma omp simd
                for (int i = 0; i < columns; i++) log_p[i] += exp_of(output[size_t(k) * stride + i] - largest[i]);
#pragma omp simd
            for (int i = 0; i < columns; i++) log_p[i] = -(largest[i] + log_of(log_p[i]));
            for (int i = 0; i < columns; i++) log_p[i] += output[size_t(label[i]) * stride + i];
            return;
        }
        std::fill(log_p, log_p + columns, 0.0f);
        for (int t = 0; t < n_targets; t++) {
            const float *mean = output + size_t(t) * stride, *shift = mean + size_t(n_targets) * stride, *of = y + size_t(t) * y_stride;
            if (kind == INPUT_NOISE) add_log_prob<true>(mean, shift, raw_scale[t], opening, of, columns, log_p);
            else add_log_prob<false>(mean, nullptr, raw_scale[t], opening, of, columns, log_p);
        }
    }

    // The slope of sum of -weight log_p by the output, and by the raw scales (added).
    void slope(const float* output, int stride, int columns, const int32_t* label, const float* y, int y_stride,
               const float* weight, const float* log_p, float* d_output, float* d_raw) const {
        if (kind == CLASSES) {
            for (int i = 0; i < columns; i++)  // minus the log of the sum of exponentials
                d_output[i] = log_p[i] - output[size_t(label[i]) * stride + i];
            for (int k = n_out - 1; k >= 0; k--)
#pragma omp simd
                for (int i = 0; i < columns; i++) {
                    const float p = exp_of(output[size_t(k) * stride + i] + d_output[i]);
                    d_output[size_t(k) * stride + i] = weight[i] * (p - (label[i] == k ? 1.0f : 0.0f));
                }
            return;
        }
        for (int t = 0; t < n_targets; t++) {
            const float *mean = output + size_t(t) * stride, *shift = mean + size_t(n_targets) * stride, *of = y + size_t(t) * y_stride;
            float *d_mean = d_output + size_t(t) * stride, *d_shift = d_mean + size_t(n_targets) * stride;
            if (kind == INPUT_NOISE) d_raw[t] += slope_of<true>(mean, shift, raw_scale[t], opening, of, weight, columns, d_mean, d_shift);
            else d_raw[t] += slope_of<false>(mean, nullptr, raw_scale[t], opening, of, weight, columns, d_mean, nullptr);
        }
    }

   private:
    // The standard deviation of a target's noise; its slopes by the output and by the raw scale.
    template <bool BY_INPUT>
    static INLINE_MEMBER void noise(float raw, float opening, float shift, float& scale, float& by_shift, float& by_raw) {
        float opened = 0;
        if (BY_INPUT) {
            const float t = tanh_of(shift / MOST_SHIFT);
            raw += opening * MOST_SHIFT * t;
            opened = opening * (1.0f - t * t);
        }
        scale = softplus(raw), by_raw = sigmoid(raw), by_shift = opened * by_raw;
    }

    // The loops over the columns of a target; what does not change along them is in their arguments, for the compiler.
    template <bool BY_INPUT>
    static void add_log_prob(const float* mean, const float* shift, float raw, float opening, const float* y, int columns,
                             float* log_p) {
#pragma omp simd
        for (int i = 0; i < columns; i++) {
            float scale, by_shift, by_raw;
            noise<BY_INPUT>(raw, opening, BY_INPUT ? shift[i] : 0.0f, scale, by_shift, by_raw);
            const float z = (y[i] - mean[i]) / scale;
            log_p[i] -= 0.5f * z * z + log_of(scale) + 0.918938533f;
        }
    }

    // The slope by the raw scale.
    template <bool BY_INPUT>
    static float slope_of(const float* mean, const float* shift, float raw, float opening, const float* y, const float* weight,
                          int columns, float* d_mean, float* d_shift) {
        float total = 0;
#pragma omp simd reduction(+ : total)
        for (int i = 0; i < columns; i++) {
            float scale, by_shift, by_raw;
            noise<BY_INPUT>(raw, opening, BY_INPUT ? shift[i] : 0.0f, scale, by_shift, by_raw);
            const float z = (y[i] - mean[i]) / scale, by_scale = (1.0f - z * z) / scale;
            d_mean[i] = -weight[i] * z / scale;
            if (BY_INPUT) d_shift[i] = weight[i] * by_scale * by_shift;
            total += weight[i] * by_scale * by_raw;
        }
        return total;
    }
};
