// ln p(y | output), its slope, and what a prediction is made of: `leadline/likelihoods`.
#pragma once
#include "linear.h"

enum Kind : int32_t { CLASSES, CONSTANT_NOISE, INPUT_NOISE };

struct Likelihood {
    int32_t kind, n_out, n_targets;
    const float* raw_scale;  // of a number's noise
    float opening;           // how much the network's say counts, 0 to 1

    static constexpr float MOST_SHIFT = 3.0f;

    // Mean and standard deviation of a target; the slopes of the latter by the output and by the raw scale.
    __attribute__((always_inline)) void moments(const float* output, int stride, int target, int i, float& mean, float& scale, float& by_shift,
                 float& by_raw) const {
        mean = output[size_t(target) * stride + i];
        float raw = raw_scale[target];
        by_shift = 0;
        if (kind == INPUT_NOISE) {
            const float t = tanh_of(output[size_t(n_targets + target) * stride + i] / MOST_SHIFT);
            raw += opening * MOST_SHIFT * t;
            by_shift = opening * (1.0f - t * t);
        }
        scale = softplus(raw), by_raw = sigmoid(raw);
        by_shift *= by_raw;
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
        for (int t = 0; t < n_targets; t++)
#pragma omp simd
            for (int i = 0; i < columns; i++) {
                float mean, scale, by_shift, by_raw;
                moments(output, stride, t, i, mean, scale, by_shift, by_raw);
                const float z = (y[size_t(t) * y_stride + i] - mean) / scale;
                log_p[i] -= 0.5f * z * z + log_of(scale) + 0.918938533f;
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
            float total = 0;
#pragma omp simd reduction(+ : total)
            for (int i = 0; i < columns; i++) {
                float mean, scale, by_shift, by_raw;
                moments(output, stride, t, i, mean, scale, by_shift, by_raw);
                const float z = (y[size_t(t) * y_stride + i] - mean) / scale, by_scale = (1.0f - z * z) / scale;
                d_output[size_t(t) * stride + i] = -weight[i] * z / scale;
                if (kind == INPUT_NOISE) d_output[size_t(n_targets + t) * stride + i] = weight[i] * by_scale * by_shift;
                total += weight[i] * by_scale * by_raw;
            }
            d_raw[t] += total;
        }
    }
};
