// The standard model on a CPU, without compilation: what `leadline/training/epochs.py` and
// `leadline/inference/montecarlo.py` compute for dense blocks, with the same draws.
//
// A network is an array of numbers for every layer and head, as training packs it. A run is one network in training; it
// depends on no other, so runs are divided among threads and their bits do not depend on how.
#include <atomic>
#include <cstddef>
#include <new>
#include <system_error>
#include <thread>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "depth.h"
#include "likelihood.h"

// What is learned, for all runs, with its optimiser; evaluation needs the numbers alone.
struct Learned {
    float *numbers, *mu, *nu, *best;
    int32_t* count;
};

struct Network {
    int32_t n_runs, n_in, width, n_out, capacity, n_targets, likelihood, prior;
    float prior_scale;
    Learned first_layer, first_head, deeper_layer, deeper_head, noise, depth;
    const DepthKind* posterior;  // of every run
    const double* log_prior;     // p(L) of every run, [runs, capacity + 2]
    int32_t *opening, *best_opening;  // of every run, in thousandths
    const int32_t* most_opening;
    const uint32_t* key;         // [runs, 2]
};

struct Rows {
    const float *x, *y;  // [tables, rows, in], [tables, rows, targets]
    const int32_t* label;
    const float* weight;
    int64_t n_rows;  // of a table, with its padding
};

struct Part {
    const int32_t* rows;  // [runs, size]
    int32_t n_rows, size;
};

struct Plan {
    Network network;
    Rows data;
    Part train, validation;
    const int32_t *table, *slowed, *clock_start, *clock_end;
    const float *clock_length, *temperature;
    int32_t batch_size, n_samples, validate_every, draw, unfreeze, keep_best, has_temperature;
    float learning_rate, depth_learning_rate, slower;
    double warm_up, warm_up_power, decay_from;
    int32_t epoch, step, end_epoch, stop_epoch, stop_step, n_threads;  // from where, to where at most
    float *validated, *best_free_energy;                              // [runs, 4], [runs]
    float* history;                                                   // [epochs, runs, 6]
    int32_t *history_support, *reached;                               // [epochs, runs, 2], [runs, 3]
};

namespace {

constexpr int BLOCK = 256;  // columns that are walked at once where there is no gradient

// Layer `depth` of a run (0: the first), or its head, in one of the arrays of `Learned`.
struct Places {
    const Network& network;
    int run;

    size_t layer_size(int depth) const {
        return Layer::size(network.width, depth ? network.width : network.n_in, network.prior);
    }
    size_t head_size() const { return Layer::size(network.n_out, network.width, network.prior); }
    size_t deeper(int depth) const { return size_t(run) * network.capacity + depth - 1; }
    size_t layer_at(int depth) const { return depth ? deeper(depth) * layer_size(depth) : run * layer_size(0); }
    size_t head_at(int depth) const { return (depth ? deeper(depth) : size_t(run)) * head_size(); }
    const Learned& layers(int depth) const { return depth ? network.deeper_layer : network.first_layer; }
    const Learned& heads(int depth) const { return depth ? network.deeper_head : network.first_head; }
    Layer as_layer(float* numbers, int depth) const {
        return Layer(numbers, network.width, depth ? network.width : network.n_in, network.prior);
    }
    Layer as_head(float* numbers) const { return Layer(numbers, network.n_out, network.width, network.prior); }
    Layer layer(int depth) const { return as_layer(layers(depth).numbers + layer_at(depth), depth); }
    Layer head(int depth) const { return as_head(heads(depth).numbers + head_at(depth)); }
    float* depth_numbers() const { return network.depth.numbers + size_t(run) * network.posterior[run].n_numbers; }
    Likelihood likelihood(int opening) const {
        return {network.likelihood, network.n_out, network.n_targets,
                network.noise.numbers + size_t(run) * network.n_targets, opening * 1e-3f};
    }
    Key key() const { return {network.key[2 * run], network.key[2 * run + 1]}; }
};

// Data points as columns, and as rows with their squares where a gradient is wanted.
struct Batch {
    Buffer x, squares, rows, row_squares, y, weight;
    std::vector<int32_t> label;
    int stride = 0, columns = 0;

    template <class Row>
    void take(const Rows& data, int table, int n, int n_in, int n_targets, Row row_of) {
        stride = columns = padded(n);
        float *xs = x.at_least(size_t(n_in) * stride), *ys = y.at_least(size_t(n_targets) * stride), *w = weight.at_least(stride);
        float* q = squares.at_least(size_t(n_in) * stride);
        label.assign(stride, 0);
        for (int i = 0; i < stride; i += LANES) {
            int64_t at[LANES];
            for (int l = 0; l < LANES; l++) at[l] = int64_t(table) * data.n_rows + (i + l < n ? row_of(i + l) : 0);
            for (int k = 0; k < n_in; k++) {  // a column of so many points is written at once
                Lanes points;
                for (int l = 0; l < LANES; l++) points[l] = i + l < n ? data.x[at[l] * n_in + k] : 0.0f;
                store(xs + size_t(k) * stride + i, points), store(q + size_t(k) * stride + i, points * points);
            }
            for (int l = 0; l < LANES; l++) {
                const bool is = i + l < n;
                for (int k = 0; k < n_targets; k++) ys[size_t(k) * stride + i + l] = is && data.y ? data.y[at[l] * n_targets + k] : 0.0f;
                w[i + l] = is ? (data.weight ? data.weight[at[l]] : 1.0f) : 0.0f;
                if (is && data.label) label[i + l] = data.label[at[l]];
            }
        }
    }
};

// A state of the network: the columns, their squares, and the same with a point per row.
struct State {
    Buffer h, squares, rows, row_squares, d;
};

// Columns as rows, with their squares: blocks of registers, so that no number is moved alone.
void transpose(const float* x, int n, int stride, int columns, Buffer& rows, Buffer& row_squares) {
    const int row_stride = padded(n);
    float *out = rows.at_least(size_t(columns) * row_stride), *squares = row_squares.at_least(size_t(columns) * row_stride);
    for (int j = 0; j < columns; j += LANES)
        for (int i = 0; i < n; i += LANES) {
            Lanes block[LANES];
            for (int r = 0; r < LANES; r++) block[r] = i + r < n ? load(x + size_t(i + r) * stride + j) : Lanes{};
            turn(block);
            for (int r = 0; r < LANES; r++) {
                const size_t at = size_t(j + r) * row_stride + i;
                store(out + at, block[r]), store(squares + at, block[r] * block[r]);
            }
        }
}

// The layers and heads of one network while it is walked.
struct Walk {
    std::vector<Drawn> layers, heads;
    std::vector<State> states;
    Buffer log_p, work, d_output;
    Scratch scratch;

    // Get ready to walk to `highest`, with heads from `lowest` on.
    void reach(const Places& at, int lowest, int highest) {
        if (int(layers.size()) <= highest) layers.resize(highest + 1), heads.resize(highest + 1), states.resize(highest + 1);
        for (int depth = 0; depth <= highest; depth++) {
            layers[depth].scales.prepare(at.layer(depth));
            if (depth >= lowest) heads[depth].scales.prepare(at.head(depth));
        }
    }
    void draw(const Places& at, int lowest, int highest, int draw, Key key) {
        for (int depth = 0; depth <= highest; depth++) {
            layers[depth].prepare(at.layer(depth), draw, fold_in(key, 2 * depth));
            if (depth >= lowest) heads[depth].prepare(at.head(depth), draw, fold_in(key, 2 * depth + 1));
        }
    }
    // f_depth: the state after the layer.
    void step(const Places& at, int depth, int draw, Key key, const float* x, const float* squares, int stride, int columns,
              int batch, int offset) {
        const Layer layer = at.layer(depth);
        float* z = layers[depth].forward(layer, draw, fold_in(key, 2 * depth), x, squares, stride, columns, batch, offset,
                                         scratch);
        const size_t n = size_t(layer.n_out) * stride;
        float *h = states[depth].h.at_least(n), *q = states[depth].squares.at_least(n);
#pragma omp simd
        for (size_t i = 0; i < n; i++) {
            const float a = z[i] > 0.0f ? z[i] : 0.1f * z[i];
            h[i] = a, q[i] = a * a;
        }
    }
    // g_depth: what the head says.
    float* read(const Places& at, int depth, int draw, Key key, int stride, int columns, int batch, int offset) {
        return heads[depth].forward(at.head(depth), draw, fold_in(key, 2 * depth + 1), states[depth].h.data(),
                                    states[depth].squares.data(), stride, columns, batch, offset, scratch);
    }
    // All depths up to `highest`: `say(depth, output)` where there is mass.
    template <class Say>
    void all(const Places& at, int lowest, int highest, int draw, Key key, Batch& batch, int size, int offset, Say say) {
        const float *x = batch.x.data(), *squares = batch.squares.data();
        for (int depth = 0; depth <= highest; depth++) {
            step(at, depth, draw, key, x, squares, batch.stride, batch.columns, size, offset);
            x = states[depth].h.data(), squares = states[depth].squares.data();
            if (depth >= lowest) say(depth, read(at, depth, draw, key, batch.stride, batch.columns, size, offset));
        }
    }
};

// ln(e^a + e^b), for numbers next to each other.
void add_logs(float* a, const float* b, float plus, int n) {
#pragma omp simd
    for (int i = 0; i < n; i++) {
        const float c = b[i] + plus, high = a[i] > c ? a[i] : c, low = a[i] > c ? c : a[i];
        a[i] = high + log1p_of(exp_of(low == high ? 0.0f : low - high));  // two of -inf are -inf
    }
}

class Run {
    const Plan& plan_;
    const Network& network_;
    Places at_;
    Masses q_;
    Walk walk_;
    Batch batch_;
    std::vector<Buffer> layer_gradients_, head_gradients_;
    std::vector<int32_t> order_;
    std::vector<uint32_t> word_;
    std::vector<uint64_t> place_;
    std::vector<int32_t> heap_;
    double n_data_ = 0;
    int epoch_, step_;
    bool fits_ = true;

    Key stream(int purpose) const { return fold_in(fold_in(at_.key(), purpose), epoch_); }

    double share(int n_steps) const {
        const double now = epoch_ + double(step_) / n_steps;
        return (now - plan_.clock_start[at_.run]) / double(plan_.clock_length[at_.run]);
    }
    double kl_factor(double share) const {
        if (plan_.warm_up == 0) return 1;
        return std::pow(std::min(std::max(share / plan_.warm_up, 0.0), 1.0), plan_.warm_up_power);
    }
    double rate_factor(double share) const {
        if (plan_.decay_from == 1) return 1;
        const double decayed = std::min(std::max((share - plan_.decay_from) / (1 - plan_.decay_from), 0.0), 1.0);
        return 0.5 * (1 + std::cos(3.14159265358979323846 * decayed));
    }
    int opening(double share) const {
        return int(std::nearbyint(network_.most_opening[at_.run] * std::min(std::max(share / 0.3, 0.0), 1.0)));
    }

    void find_support() {
        find_masses(network_.posterior[at_.run], at_.depth_numbers(), network_.capacity + 2, q_);
        fits_ = q_.highest >= 0 && q_.highest <= network_.capacity;
    }

    // The rows by random words of theirs: dealt into as many heaps as there are rows, and put in order there.
    void shuffle() {
        const Part& train = plan_.train;
        const int n = train.n_rows;
        const Key key = stream(0);
        int digits = 1;
        while (size_t(2) << digits <= size_t(n)) digits++;
        word_.resize(n), place_.resize(n), order_.resize(n);
        heap_.assign((size_t(1) << digits) + 1, 0);
        uint32_t* words = word_.data();
#pragma omp simd
        for (int i = 0; i < n; i++) {
            uint32_t x = 1, y = uint32_t(i);
            threefry(key, x, y);
            words[i] = x;
        }
        for (int i = 0; i < n; i++) heap_[(words[i] >> (32 - digits)) + 1]++;
        for (size_t h = 1; h < heap_.size(); h++) heap_[h] += heap_[h - 1];
        for (int i = 0; i < n; i++) place_[heap_[words[i] >> (32 - digits)]++] = uint64_t(words[i]) << 32 | uint32_t(i);
        for (int i = 1; i < n; i++) {
            const uint64_t one = place_[i];
            int at = i;
            for (; at > 0 && place_[at - 1] > one; at--) place_[at] = place_[at - 1];
            place_[at] = one;
        }
        const int32_t* rows = train.rows + size_t(at_.run) * train.size;
        for (int i = 0; i < n; i++) order_[i] = rows[uint32_t(place_[i])];
    }

    void one_step(int n_steps) {
        const int start = step_ * plan_.batch_size, n = std::min(plan_.batch_size, int(order_.size()) - start);
        batch_.take(plan_.data, plan_.table[at_.run], n, network_.n_in, network_.n_targets,
                    [&](int i) { return order_[start + i]; });
        const int stride = batch_.stride, columns = batch_.columns, width = network_.width, draw = plan_.draw;
        const Key key = fold_in(stream(1), step_);
        const double now = share(n_steps);
        if (network_.likelihood == INPUT_NOISE) network_.opening[at_.run] = opening(now);
        const Likelihood likelihood = at_.likelihood(network_.opening[at_.run]);
        const double temperature = plan_.has_temperature ? plan_.temperature[at_.run] * kl_factor(now) : 0;
        const float* weight = batch_.weight.data();
        double n_batch = 0;
        for (int i = 0; i < n; i++) n_batch += weight[i];
        const double part = n_batch / n_data_;  // of all rows, which a batch stands for in the KL
        const int lowest = q_.lowest, highest = q_.highest;

        walk_.reach(at_, lowest, highest);
        walk_.draw(at_, lowest, highest, draw, key);
        layer_gradients_.resize(walk_.layers.size()), head_gradients_.resize(walk_.heads.size());
        transpose(batch_.x.data(), network_.n_in, stride, columns, batch_.rows, batch_.row_squares);
        std::vector<double> nll(highest + 1, 0.0), kl(highest + 1, 0.0);
        std::vector<float> d_noise(network_.n_targets, 0.0f);
        float *log_p = walk_.log_p.at_least(stride), *work = walk_.work.at_least(stride);
        for (int depth = 0; depth <= highest; depth++) {  // clean gradients
            const size_t a = at_.layer_size(depth), b = at_.head_size();
            std::fill_n(layer_gradients_[depth].at_least(a), a, 0.0f);
            std::fill_n(head_gradients_[depth].at_least(b), b, 0.0f);
            walk_.states[depth].d.at_least(size_t(width) * stride);
        }
        walk_.all(at_, lowest, highest, draw, key, batch_, plan_.batch_size, 0, [&](int depth, float* output) {
            likelihood.log_prob(output, stride, columns, batch_.label.data(), batch_.y.data(), stride, log_p, work);
            double total = 0;
            for (int i = 0; i < n; i++) total -= double(weight[i]) * log_p[i];
            nll[depth] = total;
            const float mass = float(std::exp(q_.log[depth]));
            for (int i = 0; i < columns; i++) work[i] = mass * weight[i];
            float* d_output = walk_.d_output.at_least(size_t(network_.n_out) * stride);
            likelihood.slope(output, stride, columns, batch_.label.data(), batch_.y.data(), stride, work, log_p, d_output,
                             d_noise.data());
            State& state = walk_.states[depth];
            transpose(state.h.data(), width, stride, columns, state.rows, state.row_squares);
            Layer gradient = at_.as_head(head_gradients_[depth].data());
            walk_.heads[depth].backward(at_.head(depth), draw, d_output, state.h.data(), state.rows.data(),
                                        state.row_squares.data(), padded(width), stride, columns, gradient, state.d.data(),
                                        walk_.scratch);
        });
        double used = 0;  // P(L >= depth)
        for (int depth = highest; depth >= 0; depth--) {
            State& state = walk_.states[depth];
            float *d = state.d.data(), *h = state.h.data();
            if (depth < lowest) std::fill_n(d, size_t(width) * stride, 0.0f);
            if (depth < highest) {
                const float* more = d_next_.data();
#pragma omp simd
                for (size_t i = 0; i < size_t(width) * stride; i++) d[i] += more[i];
            }
#pragma omp simd
            for (size_t i = 0; i < size_t(width) * stride; i++) d[i] = h[i] > 0 ? d[i] : 0.1f * d[i];
            Layer gradient = at_.as_layer(layer_gradients_[depth].data(), depth);
            Drawn& drawn = walk_.layers[depth];
            if (depth > 0) {
                State& before = walk_.states[depth - 1];
                if (depth - 1 < lowest) transpose(before.h.data(), width, stride, columns, before.rows, before.row_squares);
                drawn.backward(at_.layer(depth), draw, d, before.h.data(), before.rows.data(), before.row_squares.data(),
                               padded(width), stride, columns, gradient, d_next_.at_least(size_t(width) * stride), walk_.scratch);
            } else {
                drawn.backward(at_.layer(0), draw, d, batch_.x.data(), batch_.rows.data(), batch_.row_squares.data(),
                               padded(network_.n_in), stride, columns, gradient, nullptr, walk_.scratch);
            }
            const double mass = std::exp(q_.log[depth]);
            used += mass;
            if (plan_.has_temperature) {
                kl[depth] = layer_kl<true>(at_.layer(depth), drawn.scales, network_.prior, network_.prior_scale,
                                           float(part * temperature * used), &gradient);
            }
        }
        if (plan_.has_temperature) {
            double path = 0;
            for (int depth = 0; depth <= highest; depth++) {
                path += kl[depth], kl[depth] = path;
                if (depth < lowest) continue;
                Layer gradient = at_.as_head(head_gradients_[depth].data());
                kl[depth] += layer_kl<true>(at_.head(depth), walk_.heads[depth].scales, network_.prior, network_.prior_scale,
                                            float(part * temperature * std::exp(q_.log[depth])), &gradient);
            }
        }
        move(now, nll, kl, part, temperature, d_noise);
    }
    Buffer d_next_;

    // Adam: layers up to the support and heads inside it, the noise, and q(L).
    void move(double now, const std::vector<double>& nll, const std::vector<double>& kl, double part, double temperature,
              const std::vector<float>& d_noise) {
        const double slower = std::pow(double(plan_.slower), plan_.slowed[at_.run]);
        const float rate = float(slower * plan_.learning_rate * rate_factor(now));
        const DepthKind& kind = network_.posterior[at_.run];
        for (int depth = 0; depth <= q_.highest; depth++) {
            adam_on(at_.layers(depth), at_.layer_at(depth), at_.layer_size(depth), layer_gradients_[depth].data(),
                    depth ? at_.deeper(depth) : at_.run, rate);
            if (depth >= q_.lowest)
                adam_on(at_.heads(depth), at_.head_at(depth), at_.head_size(), head_gradients_[depth].data(),
                        depth ? at_.deeper(depth) : at_.run, rate);
        }
        adam_on(network_.noise, size_t(at_.run) * network_.n_targets, network_.n_targets, d_noise.data(), at_.run, rate);
        std::vector<float> gradient(kind.n_numbers);
        const double* log_p = network_.log_prior + size_t(at_.run) * (network_.capacity + 2);
        for (int k = 0; k < kind.n_numbers; k++) {
            double total = 0;
            for (int depth = q_.lowest; depth <= q_.highest; depth++) {
                const double cost = nll[depth] + part * (q_.log[depth] - log_p[depth] + 1 + temperature * kl[depth]);
                total += std::exp(q_.log[depth]) * cost * q_.slope[depth * kind.n_numbers + k];
            }
            gradient[k] = float(total);
        }
        adam_on(network_.depth, size_t(at_.run) * kind.n_numbers, kind.n_numbers, gradient.data(), at_.run,
                float(slower * plan_.depth_learning_rate));
        if (plan_.unfreeze) unfreeze(kind, at_.depth_numbers());
        find_support();
    }
    static void adam_on(const Learned& all, size_t from, size_t n, const float* gradient, size_t which, float rate) {
        adam(n, gradient, all.mu + from, all.nu + from, all.numbers + from, all.count[which], rate);
    }

    // The free energy as if the validation rows stood for the training part, and the NLL of the prediction.
    void look() {
        const Part& part = plan_.validation;
        const int32_t* rows = part.rows + size_t(at_.run) * part.size;
        const int lowest = q_.lowest, highest = q_.highest, run = at_.run;
        const Likelihood likelihood = at_.likelihood(network_.opening[run]);
        walk_.reach(at_, lowest, highest);
        std::vector<double> nll(highest + 1, 0.0);
        std::vector<float> log_mean(padded(part.n_rows));
        double n_rows = 0;
        for (int s = 0; s < plan_.n_samples; s++) {
            const Key key = fold_in(stream(2), s);
            if (s == 0 || plan_.draw == WEIGHTS) walk_.draw(at_, lowest, highest, plan_.draw, key);
            for (int start = 0; start < part.n_rows; start += BLOCK) {
                const int n = std::min(BLOCK, part.n_rows - start);
                batch_.take(plan_.data, plan_.table[run], n, network_.n_in, network_.n_targets,
                            [&](int i) { return rows[start + i]; });
                const float* weight = batch_.weight.data();
                if (s == 0)
                    for (int i = 0; i < n; i++) n_rows += weight[i];
                float *log_p = walk_.log_p.at_least(batch_.stride), *work = walk_.work.at_least(batch_.stride);
                walk_.all(at_, lowest, highest, plan_.draw, key, batch_, part.size, start, [&](int depth, float* output) {
                    likelihood.log_prob(output, batch_.stride, batch_.columns, batch_.label.data(), batch_.y.data(),
                                        batch_.stride, log_p, work);
                    for (int i = 0; i < n; i++) nll[depth] -= double(weight[i]) * log_p[i];
                    if (s == 0 && depth == lowest)
                        for (int i = 0; i < n; i++) log_mean[start + i] = log_p[i] + float(q_.log[depth]);
                    else
                        add_logs(&log_mean[start], log_p, float(q_.log[depth]), n);
                });
            }
        }
        double terms[3] = {0, 0, 0}, path = 0, log_total = 0;
        const double* log_p = network_.log_prior + size_t(run) * (network_.capacity + 2);
        for (int depth = 0; depth <= highest; depth++) {
            path += layer_kl<false>(at_.layer(depth), walk_.layers[depth].scales, network_.prior, network_.prior_scale, 0, nullptr);
            if (depth < lowest) continue;
            const double mass = std::exp(q_.log[depth]);
            terms[0] += mass * nll[depth] * n_data_ / n_rows / plan_.n_samples;
            terms[1] += mass * (q_.log[depth] - log_p[depth]);
            terms[2] += mass * (path + layer_kl<false>(at_.head(depth), walk_.heads[depth].scales, network_.prior, network_.prior_scale, 0, nullptr));
        }
        for (int i = 0; i < part.n_rows; i++) {
            const int64_t at = int64_t(plan_.table[run]) * plan_.data.n_rows + rows[i];
            log_total += plan_.data.weight[at] * (log_mean[i] - std::log(double(plan_.n_samples)));
        }
        float* validated = plan_.validated + 4 * size_t(run);
        for (int k = 0; k < 3; k++) validated[k] = float(terms[k]);
        validated[3] = float(-log_total / n_rows);
    }

    void keep(const Learned& all, size_t from, size_t n) { std::copy_n(all.numbers + from, n, all.best + from); }

    void finish_epoch() {
        const int run = at_.run, row = epoch_ - plan_.epoch;
        bool due = epoch_ % plan_.validate_every == 0;
        for (int r = 0; r < network_.n_runs; r++) due |= epoch_ == plan_.clock_end[r] - 1;
        if (due) look();
        const float* v = plan_.validated + 4 * size_t(run);
        const float total = v[0] + v[1] + v[2];
        if (plan_.keep_best && total < plan_.best_free_energy[run] && epoch_ < plan_.clock_end[run]) {
            plan_.best_free_energy[run] = total;
            keep(network_.first_layer, run * at_.layer_size(0), at_.layer_size(0));
            keep(network_.first_head, run * at_.head_size(), at_.head_size());
            const size_t deep = network_.capacity;
            keep(network_.deeper_layer, run * deep * at_.layer_size(1), deep * at_.layer_size(1));
            keep(network_.deeper_head, run * deep * at_.head_size(), deep * at_.head_size());
            if (network_.best_opening) network_.best_opening[run] = network_.opening[run];
            keep(network_.noise, size_t(run) * network_.n_targets, network_.likelihood == CLASSES ? 0 : network_.n_targets);
            const int n = network_.posterior[run].n_numbers;
            keep(network_.depth, size_t(run) * n, n);
        }
        double mean = 0, variance = 0;
        for (int depth = q_.lowest; depth <= q_.highest; depth++) mean += depth * std::exp(q_.log[depth]);
        for (int depth = q_.lowest; depth <= q_.highest; depth++)
            variance += (depth - mean) * (depth - mean) * std::exp(q_.log[depth]);
        float* h = plan_.history + (size_t(row) * network_.n_runs + run) * 6;
        h[0] = v[3], h[1] = v[0], h[2] = v[1], h[3] = v[2], h[4] = float(mean), h[5] = float(std::sqrt(variance));
        int32_t* support = plan_.history_support + (size_t(row) * network_.n_runs + run) * 2;
        support[0] = q_.lowest, support[1] = q_.highest;
    }

   public:
    Run(const Plan& plan, int run)
        : plan_(plan), network_(plan.network), at_{plan.network, run}, epoch_(plan.epoch), step_(plan.step) {}

    void train() {
        const Part& train = plan_.train;
        for (int i = 0; i < train.n_rows; i++) {
            const int64_t row = train.rows[size_t(at_.run) * train.size + i];
            n_data_ += plan_.data.weight[int64_t(plan_.table[at_.run]) * plan_.data.n_rows + row];
        }
        const int n_steps = (train.n_rows + plan_.batch_size - 1) / plan_.batch_size;
        auto stop = [&] { return epoch_ == plan_.stop_epoch && step_ == plan_.stop_step; };
        find_support();
        for (; epoch_ < plan_.end_epoch && fits_ && !stop(); epoch_++, step_ = 0) {
            const bool moving = epoch_ < plan_.clock_end[at_.run];
            if (moving && step_ < n_steps) shuffle();
            while (step_ < n_steps && fits_ && !stop()) {
                if (moving) one_step(n_steps);
                step_++;
            }
            if (!fits_ || stop()) break;
            finish_epoch();
        }
        int32_t* reached = plan_.reached + 3 * size_t(at_.run);
        reached[0] = epoch_, reached[1] = step_, reached[2] = fits_;
    }
};

// All runs, those that take longest before the others, so that no thread is left with one of them at the end.
std::vector<int> deepest_first(const Network& network) {
    std::vector<int> runs(network.n_runs), highest(network.n_runs);
    Masses q;
    for (int run = 0; run < network.n_runs; run++) {
        find_masses(network.posterior[run], Places{network, run}.depth_numbers(), network.capacity + 2, q);
        runs[run] = run, highest[run] = q.highest;
    }
    std::stable_sort(runs.begin(), runs.end(), [&](int a, int b) { return highest[a] > highest[b]; });
    return runs;
}

// While it lives, numbers too small for all their digits are zero in this thread: some CPUs take a hundred times as long
// for them.
struct Flushing {
#if defined(__SSE__)
    const unsigned before = _mm_getcsr();
    Flushing() { _mm_setcsr(before | 0x8040); }
    ~Flushing() { _mm_setcsr(before); }
#endif
};

// `task(i)` for i = 0 .. n - 1, divided among threads; whether there was memory for all.
template <class Task>
bool divide(int n, int n_threads, Task task) {
    std::atomic<int> next{0};
    std::atomic<bool> enough{true};
    auto work = [&] {
        [[maybe_unused]] const Flushing flushing;
        try {
            for (int i; (i = next++) < n && enough;) task(i);
        } catch (const std::bad_alloc&) {
            enough = false;
        }
    };
    std::vector<std::thread> threads;
    try {
        for (int t = 1; t < std::min(n, n_threads); t++) threads.emplace_back(work);
    } catch (const std::system_error&) {
        // the system has no more threads: those there are do it
    }
    work();
    for (std::thread& thread : threads) thread.join();
    return enough;
}

}  // namespace

enum Want : int32_t { OUTPUTS, COMPONENTS, MOMENTS, LOG_LIKELIHOOD, NLL };

struct Question {
    Network network;
    Rows rows;
    int64_t rows_by_run;     // how far apart the rows of two runs are: 0 where they share them
    const double* log_mass;  // q(L) of every run, [runs, capacity + 2]
    int32_t n_rows, n_samples, highest, want, n_threads;
    float *first, *second;  // what is asked for
    double* sums;           // NLL: [runs, blocks, depths]
};

namespace {

void answer(const Question& q, int run, int block) {
    const Network& network = q.network;
    const Places at{network, run};
    const Likelihood likelihood = at.likelihood(network.opening[run]);
    const int start = block * BLOCK, n = std::min(BLOCK, q.n_rows - start), depths = network.capacity + 1;
    const int n_out = network.n_out, n_targets = network.n_targets;
    Walk walk;
    Batch batch;
    walk.reach(at, 0, q.highest);
    batch.take(q.rows, 0, n, network.n_in, n_targets, [&](int i) { return run * q.rows_by_run + start + i; });
    const int stride = batch.stride;
    const float* weight = batch.weight.data();
    std::vector<float> log_mean(stride);
    bool first_log = true;
    float *log_p = walk.log_p.at_least(stride), *work = walk.work.at_least(stride);
    auto row = [&](size_t sample, int depth, int i) {  // of an array [runs, samples, depths, rows]
        const size_t n_samples = q.want == MOMENTS ? 1 : q.n_samples;
        return ((run * n_samples + sample) * depths + depth) * q.n_rows + start + i;
    };
    for (int s = 0; s < q.n_samples; s++) {
        const Key key = fold_in(at.key(), s);
        walk.draw(at, 0, q.highest, WEIGHTS, key);
        walk.all(at, 0, q.highest, WEIGHTS, key, batch, 0, 0, [&](int depth, float* output) {
            if (q.want == OUTPUTS) {
                for (int i = 0; i < n; i++)
                    for (int k = 0; k < n_out; k++) q.first[row(s, depth, i) * n_out + k] = output[size_t(k) * stride + i];
            } else if (q.want == LOG_LIKELIHOOD || q.want == NLL) {
                likelihood.log_prob(output, stride, stride, batch.label.data(), batch.y.data(), stride, log_p, work);
                if (q.want == NLL) {
                    double& sum = q.sums[(size_t(run) * ((q.n_rows + BLOCK - 1) / BLOCK) + block) * depths + depth];
                    for (int i = 0; i < n; i++) sum -= double(weight[i]) * log_p[i];
                    return;
                }
                const float log_q = float(q.log_mass[size_t(run) * (network.capacity + 2) + depth]);
                if (log_q == MINUS_INFINITY) return;
                if (first_log)
                    for (int i = 0; i < n; i++) log_mean[i] = log_p[i] + log_q;
                else
                    add_logs(log_mean.data(), log_p, log_q, n);
                first_log = false;
            } else if (likelihood.kind == CLASSES) {  // the probabilities, and their entropy
                std::fill_n(log_p, stride, 0.0f);
                std::copy_n(output, stride, work);
                for (int k = 1; k < n_out; k++)
                    for (int i = 0; i < stride; i++) work[i] = std::max(work[i], output[size_t(k) * stride + i]);
                for (int k = 0; k < n_out; k++)
#pragma omp simd
                    for (int i = 0; i < stride; i++) log_p[i] += exp_of(output[size_t(k) * stride + i] - work[i]);
#pragma omp simd
                for (int i = 0; i < stride; i++) log_p[i] = work[i] + log_of(log_p[i]);
                for (int k = 0; k < n_out; k++)
                    for (int i = 0; i < n; i++) {
                        const float log_k = output[size_t(k) * stride + i] - log_p[i], p = exp_of(log_k);
                        q.first[row(0, depth, i) * n_out + k] += p / q.n_samples;
                        q.second[row(0, depth, i)] -= p * log_k / q.n_samples;
                    }
            } else {
                for (int t = 0; t < n_targets; t++)
                    for (int i = 0; i < n; i++) {
                        float mean, scale;
                        likelihood.moments(output, stride, t, i, mean, scale);
                        if (q.want == COMPONENTS) {
                            q.first[row(s, depth, i) * n_targets + t] = mean;
                            q.second[row(s, depth, i) * n_targets + t] = scale;
                        } else {
                            float* m = q.first + row(0, depth, i) * 2 * n_targets;
                            m[t] += mean / q.n_samples, m[n_targets + t] += (mean * mean + scale * scale) / q.n_samples;
                            q.second[row(0, depth, i) * n_targets + t] += scale * scale / q.n_samples;
                        }
                    }
            }
        });
    }
    if (q.want == LOG_LIKELIHOOD)
        for (int i = 0; i < n; i++)
            q.first[size_t(run) * q.n_rows + start + i] = float(log_mean[i] - std::log(double(q.n_samples)));
}

}  // namespace

extern "C" {

// The best build for this machine: 0, 1 (AVX2) or 2 (AVX-512).
int leadline_level() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) return 2;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 1;
#endif
    return 0;
}

// What it was built from.
const char* leadline_source() { return SOURCE; }

int leadline_block() { return BLOCK; }

// Both: whether there was memory enough.
int leadline_train(const Plan* plan) {
    try {
        const std::vector<int> runs = deepest_first(plan->network);
        return divide(int(runs.size()), plan->n_threads, [&](int i) { Run(*plan, runs[i]).train(); });
    } catch (const std::bad_alloc&) {
        return false;
    }
}

int leadline_evaluate(const Question* question) {
    const int blocks = (question->n_rows + BLOCK - 1) / BLOCK;
    return divide(question->network.n_runs * blocks, question->n_threads, [&](int i) { answer(*question, i / blocks, i % blocks); });
}

// The KL of every layer and head, [runs, capacity + 1] each.
void leadline_kl(const Network* network, double* layers, double* heads) {
    for (int run = 0; run < network->n_runs; run++)
        for (int depth = 0; depth <= network->capacity; depth++) {
            const Places at{*network, run};
            const size_t i = size_t(run) * (network->capacity + 1) + depth;
            Scales layer, head;
            layer.prepare(at.layer(depth)), head.prepare(at.head(depth));
            layers[i] = layer_kl<false>(at.layer(depth), layer, network->prior, network->prior_scale, 0, nullptr);
            heads[i] = layer_kl<false>(at.head(depth), head, network->prior, network->prior_scale, 0, nullptr);
        }
}

// ln P(L) for L = 0 .. n - 1, and its slopes by the learned numbers.
void leadline_masses(const DepthKind* kind, const float* numbers, int n, double* log, double* slope) {
    Masses m;
    find_masses(*kind, numbers, n, m);
    std::copy(m.log.begin(), m.log.end(), log);
    std::copy(m.slope.begin(), m.slope.end(), slope);
}

void leadline_normals(uint32_t a, uint32_t b, int64_t n, float* out) {
    for (int64_t i = 0; i < n; i += 4096) normals({a, b}, uint32_t(i), int(std::min<int64_t>(4096, n - i)), out + i);
}

}
