// RouteStep, Experts and Combine by their element-level definition, on arrays of T (double or float).
// State: ReferenceState<T>. T tokens, k experts chosen per token.
#pragma once

#include <algorithm>
#include <cmath>
#include <fourfold/route.hpp>
#include <vector>

#include "program/activation.hpp"
#include "program/reference_weights.hpp"
#include "program/route_rule.hpp"

namespace fourfold {

// What an Experts step makes of its products; y1 is not looked at when there is a single dot.
template <class T>
T gated(const Experts& step, T y0, T y1) {
  const T alpha = static_cast<T>(step.alpha), limit = static_cast<T>(step.limit);
  if (step.dots.size() == 1) return activated(step.activation, y0);
  if (step.gate == ExpertGate::clamped_swiglu) {
    const T gate = std::min(y0, limit);
    return gate * sigmoid(alpha * gate) * (std::clamp(y1, -limit, limit) + 1);
  }
  if (step.gate == ExpertGate::situ)
    return alpha * fourfold::tanh(y0 / alpha) * sigmoid(y0) * limit * fourfold::tanh(y1 / limit);
  return activated(step.activation, y0) * y1;
}

template <class T>
class ReferenceRoute {
 public:
  ReferenceRoute(const Program& program, const ReferenceWeights& weights) : program_(program), weights_(weights) {}

  template <class State>
  void run(const RouteStep& step, State& state) const {
    const std::vector<float> bias = weights_.template vector<float>(step.selection_bias);
    const auto experts = static_cast<std::size_t>(program_.width(step.logits));
    const auto chosen = static_cast<std::size_t>(step.rule.chosen);
    std::vector<int> ids(chosen);
    std::vector<float> weights(chosen);
    RouteScratch<T> scratch;
    for (int t = 0; t < state.tokens(); ++t) {
      const std::span<const T> logits(state.at(step.logits, t), experts);
      with_rule(step.rule, bias, [&](const auto& rule) {
        choose_row(rule, logits, std::span<int>(ids), std::span<float>(weights), scratch);
      });
      std::copy(ids.begin(), ids.end(), state.at(step.ids, t));
      std::copy(weights.begin(), weights.end(), state.at(step.weights, t));
    }
  }

  // `inputs`, when given: per dot, what its weights are multiplied with instead of the normalised input: a row for
  // each token, or for each choice of each token.
  template <class State>
  void run(const Experts& step, State& state, const std::vector<std::vector<T>>* inputs = nullptr) const {
    const int chosen = program_.width(step.ids), width = static_cast<int>(program_.tensor(step.dots[0].weight).cols);
    std::vector<T> y[2], biases[2];
    for (std::size_t d = 0; d < step.dots.size(); ++d) biases[d] = weights_.template all<T>(step.dots[d].bias);
    for (int t = 0; t < state.tokens(); ++t)
      for (int c = 0; c < chosen; ++c) {
        const auto expert = static_cast<std::int64_t>(state.at(step.ids, t)[c]);
        const std::vector<T> in = normed(state.at(step.in, t) + (step.per_choice ? c * width : 0), width, step.norm);
        const std::ptrdiff_t row = step.per_choice ? std::ptrdiff_t{t} * chosen + c : t;
        for (std::size_t d = 0; d < step.dots.size(); ++d)
          y[d] = multiply(step.dots[d], biases[d], expert, inputs ? (*inputs)[d].data() + row * width : in.data());
        if (step.dots.size() == 1) y[1] = y[0];
        T* out = state.at(step.out, t) + static_cast<std::ptrdiff_t>(y[0].size()) * c;
        for (std::size_t r = 0; r < y[0].size(); ++r) out[r] = gated(step, y[0][r], y[1][r]);
      }
  }

  template <class State>
  void run(const Combine& step, State& state) const {
    const int width = program_.width(step.out), chosen = program_.width(step.weights);
    for (int t = 0; t < state.tokens(); ++t) {
      const T shared = step.shared_gate.valid() ? sigmoid(*state.at(step.shared_gate, t)) : T{1};
      for (int i = 0; i < width; ++i) {
        T sum = 0;
        for (int c = 0; c < chosen; ++c)
          sum += state.at(step.weights, t)[c] * state.at(step.made, t)[std::ptrdiff_t{c} * width + i];
        if (step.shared.valid()) sum += shared * state.at(step.shared, t)[i];
        state.at(step.out, t)[i] = (step.x.valid() ? state.at(step.x, t)[i] : T{0}) + static_cast<T>(step.scale) * sum;
      }
    }
  }

 private:
  std::vector<T> normed(const T* x, int width, const std::optional<NormSpec>& norm) const {
    std::vector<T> row(x, x + width);
    if (!norm) return row;
    const std::vector<T> weight = weights_.template vector<T>(norm->weight);
    RmsNorm{weight.data(), norm->eps}.row(std::span<T>(row), 0);
    for (T& value : row) value *= static_cast<T>(norm->scale);
    return row;
  }
  T product(Weight matrix, std::int64_t row, const T* in, std::vector<T>& weight) const {
    weights_.row(matrix, row, weight);
    T sum = 0;
    for (std::size_t i = 0; i < weight.size(); ++i) sum += weight[i] * in[i];
    return sum;
  }
  std::vector<T> multiply(const Dot& dot, const std::vector<T>& biases, std::int64_t expert, const T* in) const {
    const std::int64_t rows = program_.tensor(dot.weight).rows;
    std::vector<T> out(static_cast<std::size_t>(rows)), scratch;
    if (!biases.empty()) std::copy_n(biases.begin() + expert * rows, rows, out.begin());
    for (std::int64_t r = 0; r < rows; ++r)
      out[static_cast<std::size_t>(r)] += product(dot.weight, expert * rows + r, in, scratch);
    for (T& y : out) y *= static_cast<T>(dot.scale);
    return out;
  }

  const Program& program_;
  const ReferenceWeights& weights_;
};

}  // namespace fourfold
