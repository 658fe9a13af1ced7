// Steps with a running state, and maps of their own, by their element-level definitions (program.hpp states them).
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "program/activation.hpp"
#include "program/reference_state.hpp"
#include "program/reference_weights.hpp"

namespace fourfold {

// One ScanStep over arrays of T. K key dim, V value dim.
template <class T>
class ReferenceScan {
 public:
  ReferenceScan(const ScanStep& step, const ReferenceWeights& weights, ReferenceState<T>& state)
      : step_(step),
        state_(state),
        keys_(state.program->states[static_cast<std::size_t>(step.state)].rows),
        stride_(state.program->states[static_cast<std::size_t>(step.state)].columns),
        values_(step.value.count() / step.heads),
        rate_(weights.template all<T>(step.rate)),
        bias_(weights.template all<T>(step.decay_bias)),
        skip_(weights.template all<T>(step.skip)) {
    for (T& rate : rate_)
      if (step.rate_is_log) rate = -std::exp(rate);
    rate_.insert(rate_.end(), step.rates.begin(), step.rates.end());
  }

  void run() {
    if (step_.mechanism == Mechanism::rwkv4) return run_means();
    for (int h = 0; h < step_.heads; ++h)
      for (int t = 0; t < state_.tokens(); ++t) token(h, t);
  }

 private:
  void run_means() {
    T* sums = state_.states[static_cast<std::size_t>(step_.state)].data();
    for (int c = 0; c < step_.heads; ++c) {
      const auto channel = static_cast<std::size_t>(c);
      T& values = sums[c];
      T& weights = sums[step_.heads + c];
      T& exponent = sums[2 * step_.heads + c];
      for (int t = 0; t < state_.tokens(); ++t) {
        const T k = state_.at(step_.key, t, c), v = state_.at(step_.value, t, c), newest = k + skip_[channel];
        const T past = weights > 0 ? exponent : -kInfinity<T>, now = std::max(past, newest);
        const T a = rescale(past, now), b = rescale(newest, now);
        state_.at(step_.out, t)[c] = (a * values + b * v) / (a * weights + b);
        const T faded = past + rate_[channel], next = std::max(faded, k);
        values = rescale(faded, next) * values + rescale(k, next) * v;
        weights = rescale(faded, next) * weights + rescale(k, next);
        exponent = next;
      }
    }
  }

  void token(int h, int t) {
    const int key_head = h / (step_.heads / step_.key_heads);
    const std::vector<T> q = row(step_.query, t, key_head), k = row(step_.key, t, key_head);
    T* s = state_.states[static_cast<std::size_t>(step_.state)].data();
    s += step_.mechanism == Mechanism::mamba ? std::ptrdiff_t{h} : std::ptrdiff_t{h} * keys_ * values_;
    const bool delta = step_.mechanism == Mechanism::gated_delta || step_.mechanism == Mechanism::kimi_delta;
    const T b = delta ? static_cast<T>(step_.strength_scale) * sigmoid(state_.at(step_.strength, t, h))
                : step_.mechanism == Mechanism::retention ? T{1}
                                                          : step_size(t, h);
    for (int i = 0; i < keys_; ++i) {
      const T a = std::exp(log_decay(t, h, i));
      for (int j = 0; j < values_; ++j) s[i * stride_ + j] *= a;
    }
    for (int j = 0; j < values_; ++j) {
      const T v = state_.at(step_.value, t, h * values_ + j);
      T found = 0;
      for (int i = 0; delta && i < keys_; ++i) found += k[i] * s[i * stride_ + j];
      T out = skip_.empty() ? T{0} : skip_[skip_.size() == 1 ? 0 : static_cast<std::size_t>(h)] * v;
      for (int i = 0; i < keys_; ++i) {
        s[i * stride_ + j] += b * k[i] * (v - found);
        out += s[i * stride_ + j] * q[i];
      }
      state_.at(step_.out, t)[h * values_ + j] = out;
    }
  }

  // A head's query or key, of unit length where the step asks for it; queries scaled.
  std::vector<T> row(const Columns& columns, int t, int head) const {
    std::vector<T> x(static_cast<std::size_t>(keys_));
    T squares = 0;
    for (int i = 0; i < keys_; ++i) {
      x[static_cast<std::size_t>(i)] = state_.at(columns, t, head * keys_ + i);
      squares += x[static_cast<std::size_t>(i)] * x[static_cast<std::size_t>(i)];
    }
    T factor = step_.unit_eps > 0 ? 1 / std::sqrt(squares + static_cast<T>(step_.unit_eps)) : T{1};
    if (&columns == &step_.query) factor *= static_cast<T>(step_.query_scale);
    for (T& value : x) value *= factor;
    return x;
  }

  T raw_decay(int t, int i) const {
    return state_.at(step_.decay, t, i) + (bias_.empty() ? T{0} : bias_[static_cast<std::size_t>(i)]);
  }
  // d of a token: of a head, or of a head's key.
  T step_size(int t, int i) const {
    const T x = raw_decay(t, i);
    const T softplus = std::max(x, T{0}) + std::log1p(std::exp(-std::abs(x)));
    return std::clamp(softplus, static_cast<T>(step_.step_low), static_cast<T>(step_.step_high));
  }
  T log_decay(int t, int h, int key) const {
    switch (step_.mechanism) {
      case Mechanism::retention:
        return rate_[static_cast<std::size_t>(h)];
      case Mechanism::mamba:
        return rate_[static_cast<std::size_t>(h * keys_ + key)] * step_size(t, h);
      case Mechanism::kimi_delta:
        if (step_.floor < 0)
          return static_cast<T>(step_.floor) *
                 sigmoid(-rate_[static_cast<std::size_t>(h)] * raw_decay(t, h * keys_ + key));
        return rate_[static_cast<std::size_t>(h)] * step_size(t, h * keys_ + key);
      case Mechanism::mamba2:
      case Mechanism::gated_delta:
      case Mechanism::rwkv4:
        break;
    }
    return rate_[static_cast<std::size_t>(h)] * step_size(t, h);
  }

  const ScanStep& step_;
  ReferenceState<T>& state_;
  int keys_, stride_, values_;  // stride: from a key's row of the state to the next
  std::vector<T> rate_, bias_, skip_;
};

template <class T>
void reference_scan(const ScanStep& step, const ReferenceWeights& weights, ReferenceState<T>& state) {
  ReferenceScan<T>{step, weights, state}.run();
}

template <class T>
void reference_conv(const ShortConv& step, const ReferenceWeights& weights, ReferenceState<T>& state) {
  const StateSpec& spec = state.program->states[static_cast<std::size_t>(step.state)];
  const std::vector<T> stored = weights.template all<T>(step.weights), bias = weights.template all<T>(step.bias);
  std::vector<T> kernel = stored;
  if (step.mix) {
    kernel.clear();
    for (T m : stored) kernel.insert(kernel.end(), {1 - m, m});
  }
  std::vector<T>& past = state.states[static_cast<std::size_t>(step.state)];  // [kernel - 1, channels]
  const int back = spec.rows, channels = spec.columns;
  for (int t = 0; t < state.tokens(); ++t) {
    std::vector<T> x;
    for (const Columns& part : step.in)
      for (int i = 0; i < part.count(); ++i) x.push_back(state.at(part, t, i));
    for (int c = 0; c < channels; ++c) {
      T& newest = x[static_cast<std::size_t>(c)];
      if (step.gate_in.valid()) newest *= state.at(step.gate_in, t, c);
      const T* weight = kernel.data() + static_cast<std::ptrdiff_t>(c) * (back + 1);
      T sum = bias.empty() ? T{0} : bias[static_cast<std::size_t>(c)];
      for (int j = 0; j < back; ++j) sum += weight[j] * past[static_cast<std::size_t>(j * channels + c)];
      const T y = activated(step.activation, sum + weight[back] * newest);
      state.at(step.out, t)[c] = step.gate_out.valid() ? state.at(step.gate_out, t, c) * y : y;
    }
    past.insert(past.end(), x.begin(), x.end());
    past.erase(past.begin(), past.begin() + channels);
  }
}

template <class T>
void reference_map(const MapStep& step, const ReferenceWeights& weights, ReferenceState<T>& state) {
  const int n = step.in.count();
  const std::vector<T> weight = step.norm ? weights.template all<T>(step.norm->weight) : std::vector<T>{};
  const std::vector<T> bias = step.norm ? weights.template all<T>(step.norm->bias) : std::vector<T>{};
  for (int t = 0; t < state.tokens(); ++t) {
    std::vector<T> x(static_cast<std::size_t>(n)), gate(x.size(), T{1});
    for (int i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      x[at] = state.at(step.in, t, i);
      const int g = step.gate.count() == n ? i : i / step.group;
      if (step.gate.valid()) gate[at] = activated(step.activation, state.at(step.gate, t, g));
      if (step.gate_first) x[at] *= gate[at];
    }
    for (int first = 0; step.norm && first < n; first += step.group) {
      const auto skipped = weight.size() == x.size() ? static_cast<std::size_t>(first) : 0;
      const std::span<T> row(x.data() + first, static_cast<std::size_t>(step.group));
      if (bias.empty())
        RmsNorm{weight.data() + skipped, step.norm->eps}.row(row, 0);
      else
        LayerNorm{weight.data() + skipped, bias.data() + skipped, step.norm->eps}.row(row, 0);
      for (T& value : row) value *= static_cast<T>(step.norm->scale);
    }
    for (int i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      state.at(step.out, t)[i] =
          (step.plus.valid() ? state.at(step.plus, t)[i] : T{0}) + (step.gate_first ? x[at] : x[at] * gate[at]);
    }
  }
}

}  // namespace fourfold
