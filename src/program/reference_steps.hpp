// Each step of a Program by its element-level definition, on arrays of T (double or float). T tokens, rows of `width`.
#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <fourfold/fold.hpp>
#include <vector>

#include "program/activation.hpp"
#include "program/reference_attend.hpp"
#include "program/reference_route.hpp"
#include "program/reference_scan.hpp"
#include "program/reference_state.hpp"
#include "program/reference_weights.hpp"
#include "program/visit.hpp"

namespace fourfold {

template <class T>
class ReferenceSteps {
 public:
  ReferenceSteps(const Program& program, const ReferenceWeights& weights)
      : program_(program), weights_(weights), route_(program, weights) {}

  // Per dot of a Project or Experts: what its weight is multiplied with, [rows, width], instead of the normalised
  // input; a row for each token, or for each choice of each token.
  using DotInputs = std::vector<std::vector<T>>;

  // Reads the step's inputs from `state` and writes its outputs there.
  void run(const Step& step, ReferenceState<T>& state, const DotInputs* inputs = nullptr) const {
    std::visit(
        Overloaded{[&](const Project& s) { run(s, state, inputs); }, [&](const RouteStep& s) { route_.run(s, state); },
                   [&](const Experts& s) { route_.run(s, state, inputs); },
                   [&](const Combine& s) { route_.run(s, state); },
                   [&](const ScanStep& s) { reference_scan(s, weights_, state); },
                   [&](const ShortConv& s) { reference_conv(s, weights_, state); },
                   [&](const MapStep& s) { reference_map(s, weights_, state); }, [&](const auto& s) { run(s, state); }},
        step.op);
  }

 private:
  using State = ReferenceState<T>;

  void run(const Embed& step, State& state) const {
    std::vector<T> row;
    for (int t = 0; t < state.tokens(); ++t) {
      weights_.row(step.table, state.ids[static_cast<std::size_t>(t)], row);
      for (std::size_t i = 0; i < row.size(); ++i) state.at(step.out, t)[i] = row[i] * static_cast<T>(step.scale);
    }
  }

  void normalise(T* x, int n, const NormSpec& norm) const {
    const std::vector<T> weight = weights_.template vector<T>(norm.weight);
    const std::span<T> row(x, static_cast<std::size_t>(n));
    if (norm.bias.valid()) {
      const std::vector<T> bias = weights_.template vector<T>(norm.bias);
      return LayerNorm{weight.data(), bias.data(), norm.eps}.row(row, 0);
    }
    RmsNorm{weight.data(), norm.eps}.row(row, 0);
    for (int i = 0; i < n && norm.scale != 1; ++i) x[i] *= static_cast<T>(norm.scale);
  }

  void run(const Project& step, State& state, const DotInputs* inputs) const {
    const int first = step.last_only ? state.tokens() - state.wanted : 0, count = state.tokens() - first;
    if (count == 0) return;
    const int width = program_.width(step.in);
    std::vector<T> in(static_cast<std::size_t>(count) * static_cast<std::size_t>(width));
    for (int t = 0; t < count; ++t) {
      T* row = in.data() + static_cast<std::ptrdiff_t>(t) * width;
      if (step.add) {
        std::copy_n(state.at(step.add->y, first + t), width, row);
        normalise(row, width, step.add->norm);
        for (int i = 0; i < width; ++i) row[i] += state.at(step.add->x, first + t)[i];
        std::copy_n(row, width, state.at(step.add->out, first + t));
      } else {
        std::copy_n(state.at(step.in, first + t), width, row);
      }
      if (step.norm) normalise(row, width, *step.norm);
    }
    std::vector<std::vector<T>> y;  // per dot: [count, rows]
    for (std::size_t d = 0; d < step.dots.size(); ++d)
      y.push_back(dot(step.dots[d], inputs ? (*inputs)[d] : in, count, width));
    std::visit([&](const auto& e) { finish(e, y, count, state); }, step.epilogue);
  }

  std::vector<T> dot(const Dot& dot, const std::vector<T>& in, int count, int width) const {
    const auto rows = static_cast<std::size_t>(program_.tensor(dot.weight).rows);
    const std::vector<T> bias = weights_.template vector<T>(dot.bias);
    std::vector<T> out(static_cast<std::size_t>(count) * rows), weight, scale;
    for (std::size_t r = 0; r < rows; ++r) {
      weights_.row(dot.weight, static_cast<std::int64_t>(r), weight);
      if (dot.scales.valid()) scale_row(dot, r, scale, weight);
      for (int t = 0; t < count; ++t) {
        const T* x = in.data() + static_cast<std::ptrdiff_t>(t) * width;
        T sum = 0;
        for (int i = 0; i < width; ++i) sum += weight[static_cast<std::size_t>(i)] * x[i];
        out[static_cast<std::size_t>(t) * rows + r] =
            static_cast<T>(dot.scale) * (sum + (bias.empty() ? T{0} : bias[r]));
      }
    }
    return out;
  }

  // weight *= the scale of row r, or those of its blocks of 128 columns; `scale` is scratch.
  void scale_row(const Dot& dot, std::size_t r, std::vector<T>& scale, std::vector<T>& weight) const {
    const bool by_row = program_.scaled_by_row(dot);
    weights_.row(dot.scales, by_row ? 0 : static_cast<std::int64_t>(r / 128), scale);
    for (std::size_t i = 0; i < weight.size(); ++i) weight[i] *= scale[by_row ? r : i / 128];
  }

  void finish(const Store& e, const std::vector<std::vector<T>>& y, int, State& state) const {
    T* out = state.at(e.out, 0);
    for (std::size_t i = 0; i < y[0].size(); ++i)
      out[i] = activated(e.activation, e.soft_cap > 0 ? SoftCap{e.soft_cap}(y[0][i], 0, 0) : y[0][i]);
  }
  void finish(const AddTo& e, const std::vector<std::vector<T>>& y, int, State& state) const {
    for (std::size_t i = 0; i < y[0].size(); ++i) state.at(e.out, 0)[i] = state.at(e.x, 0)[i] + y[0][i];
  }
  void finish(const Gated& e, const std::vector<std::vector<T>>& y, int, State& state) const {
    for (std::size_t i = 0; i < y[0].size(); ++i) state.at(e.out, 0)[i] = activated(e.activation, y[0][i]) * y[1][i];
  }
  void finish(const Append& e, std::vector<std::vector<T>>& y, int count, State& state) const {
    const CacheSpec& spec = program_.caches[static_cast<std::size_t>(e.cache)];
    for (int t = 0; t < count; ++t) {
      turn_heads(y[0].data() + t * e.heads * spec.head_dim, e.heads, spec.head_dim, e.query_norm, e,
                 state.position + t);
      turn_heads(y[1].data() + t * spec.kv_heads * spec.head_dim, spec.kv_heads, spec.head_dim, e.key_norm, e,
                 state.position + t);
      if (e.row.valid()) put_row(e.row, y, count, t, state);
    }
    std::copy(y[0].begin(), y[0].end(), state.at(e.query, 0));
    if (e.gate.valid()) std::copy(y[3].begin(), y[3].end(), state.at(e.gate, 0));
    auto& cache = state.caches[static_cast<std::size_t>(e.cache)];
    place(cache.keys, y[1], spec.kv_heads * spec.head_dim, state.position);
    place(cache.values, y[2], spec.kv_heads * spec.values(), state.position);
  }
  // The heads of one token.
  void turn_heads(T* heads, int count, int d, std::optional<NormSpec> norm, const Append& e, int position) const {
    if (norm && e.row.valid()) {
      normalise(heads, count * d, *norm);
      norm.reset();
    }
    for (int h = 0; h < count; ++h) turn(heads + h * d, d, norm, e.rope, position);
  }
  // Keys and values of token `t`, one behind the other.
  static void put_row(Value row, const std::vector<std::vector<T>>& y, int tokens, int t, State& state) {
    T* out = state.at(row, t);
    for (std::size_t d : {1, 2}) {
      const auto width = static_cast<std::ptrdiff_t>(y[d].size()) / tokens;
      out = std::copy_n(y[d].begin() + t * width, width, out);
    }
  }
  void finish(const Turn& e, std::vector<std::vector<T>>& y, int count, State& state) const {
    const int d = program_.width(e.out) / e.heads;
    for (int t = 0; t < count; ++t)
      for (int h = 0; h < e.heads; ++h)
        turn(y[0].data() + (t * e.heads + h) * d, d, e.norm, e.rope, state.position + t);
    std::copy(y[0].begin(), y[0].end(), state.at(e.out, 0));
  }
  void finish(const AppendKey& e, std::vector<std::vector<T>>& y, int count, State& state) const {
    const CacheSpec& spec = program_.caches[static_cast<std::size_t>(e.cache)];
    const int width = spec.head_dim;
    std::copy(y[0].begin(), y[0].end(), state.at(e.row, 0));
    for (int t = 0; t < count; ++t) turn(y[0].data() + t * width, width, e.norm, e.rope, state.position + t);
    place(state.caches[static_cast<std::size_t>(e.cache)].keys, y[0], width, state.position);
  }
  // Rows of `width` numbers from position `first` on.
  static void place(std::vector<T>& cached, const std::vector<T>& rows, int width, int first) {
    const std::size_t begin = static_cast<std::size_t>(first) * static_cast<std::size_t>(width);
    cached.resize(std::max(cached.size(), begin + rows.size()));
    std::copy(rows.begin(), rows.end(), cached.begin() + static_cast<std::ptrdiff_t>(begin));
  }

  void turn(T* head, int d, const std::optional<NormSpec>& norm, int rope, int position) const {
    if (norm) normalise(head, std::min(d, static_cast<int>(program_.tensor(norm->weight).cols)), *norm);
    if (rope < 0) return;
    const RopeSpec& r = program_.ropes[static_cast<std::size_t>(rope)];
    head += r.skip;
    for (int i = 0; i < r.dims / 2; ++i) {
      const double angle = position * r.inverse_frequency[static_cast<std::size_t>(i)];
      const T c = static_cast<T>(r.scale * std::cos(angle)), s = static_cast<T>(r.scale * std::sin(angle));
      T& a = head[r.interleaved ? 2 * i : i];
      T& b = head[r.interleaved ? 2 * i + 1 : i + r.dims / 2];
      const T x = a, y = b;
      a = x * c - y * s;
      b = x * s + y * c;
    }
  }

  void run(const Attend& step, State& state) const { ReferenceAttend<T>(program_, weights_, step, state).run(); }

  const Program& program_;
  const ReferenceWeights& weights_;
  ReferenceRoute<T> route_;
};

}  // namespace fourfold
