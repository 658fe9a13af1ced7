// Attend by its definition: a fold over the visible keys, every latent expanded first.
#pragma once

#include <algorithm>
#include <cassert>
#include <fourfold/fold.hpp>
#include <fourfold/walk_lists.hpp>
#include <vector>

#include "program/reference_state.hpp"
#include "program/reference_weights.hpp"

namespace fourfold {

template <class T>
class ReferenceAttend {
 public:
  ReferenceAttend(const Program& program, const ReferenceWeights& weights, const Attend& step, ReferenceState<T>& state)
      : program_(program), weights_(weights), step_(step), state_(state), spec_(cache_spec(step.cache)) {}

  void run() {
    const Window window{spec_.window > 0 ? spec_.window : kEveryKey};
    if (!step_.top_keys) return fold(window & step_.walk);
    choose(window & step_.walk);
    const auto chosen = IndexList::make(offsets_, chosen_);
    assert(chosen.ok());  // ascending within each query
    fold(*chosen);
  }

 private:
  const CacheSpec& cache_spec(int cache) const { return program_.caches[static_cast<std::size_t>(cache)]; }
  auto& cache(int cache) const { return state_.caches[static_cast<std::size_t>(cache)]; }
  int keys() const { return state_.position + state_.tokens(); }

  template <class W>
  void fold(const W& walk) {
    const Scale scale{step_.scale};
    if (step_.soft_cap > 0) return fold(walk, scale | SoftCap{step_.soft_cap} | step_.score);
    fold(walk, scale | step_.score);
  }

  template <class W, class S>
  void fold(const W& walk, const S& score) {
    const std::vector<float> sinks = weights_.template vector<float>(step_.sinks);
    const Fold fold{walk, score, OnlineSoftmax<T>{sinks}};
    if (step_.latent) expand();
    const int kv_heads = step_.latent ? step_.heads : spec_.kv_heads;
    std::vector<T>& k = step_.latent ? keys_ : cache(step_.cache).keys;
    std::vector<T>& v = step_.latent ? values_ : cache(step_.cache).values;
    const auto view = [](T* data, int rows, std::size_t size, int heads) {
      return Heads{Rows{data, rows, static_cast<std::int64_t>(size) / rows}, heads};
    };
    const auto of = [&](Value value) {
      const int tokens = state_.tokens();
      return Heads{Rows{state_.at(value, 0), tokens, program_.width(value)}, step_.heads};
    };
    [[maybe_unused]] const status done = fold.on(Reference<T>{})
                                             .attend(of(step_.query), view(k.data(), keys(), k.size(), kv_heads),
                                                     view(v.data(), keys(), v.size(), kv_heads), of(step_.out));
    assert(done.ok());  // the builder made the shapes fit
    if (step_.gate.valid()) apply_gate();
  }

  void apply_gate() {
    const auto count = static_cast<std::size_t>(state_.tokens()) * static_cast<std::size_t>(program_.width(step_.out));
    T *out = state_.at(step_.out, 0), *gate = state_.at(step_.gate, 0);
    for (std::size_t i = 0; i < count; ++i) out[i] *= sigmoid(gate[i]);
  }

  // Keys and values of every position and head from its latent.
  void expand() {
    const auto& [key_up, key_down, value_up] = *step_.latent;
    const int rank = static_cast<int>(program_.tensor(key_up).cols), rotary = spec_.head_dim - rank;
    const int nope = static_cast<int>(program_.tensor(key_up).rows);
    const int columns = static_cast<int>(program_.tensor(value_up).rows);
    const T* stored = cache(step_.cache).keys.data();
    keys_.clear();
    values_.clear();
    for (int key = 0; key < keys(); ++key) {
      const T* latent = stored + std::ptrdiff_t{key} * spec_.head_dim;
      for (int h = 0; h < step_.heads; ++h) {
        up(key_up, h * nope, nope, latent, keys_);
        keys_.insert(keys_.end(), latent + rank, latent + rank + rotary);
        up(value_up, h * columns, columns, latent, values_);
      }
    }
  }
  // Appends rows first .. first + count - 1 of `weight` times `x`.
  void up(Weight weight, int first, int count, const T* x, std::vector<T>& out) const {
    std::vector<T> row;
    for (int r = first; r < first + count; ++r) {
      weights_.row(weight, r, row);
      T sum = 0;
      for (std::size_t i = 0; i < row.size(); ++i) sum += row[i] * x[i];
      out.push_back(sum);
    }
  }

  // The positions of the best visible keys of each query, ascending.
  template <class W>
  void choose(const W& walk) {
    const TopKeys& top = *step_.top_keys;
    const int d = cache_spec(top.cache).head_dim;
    offsets_.assign(static_cast<std::size_t>(state_.position) + 1, 0);
    for (int t = 0; t < state_.tokens(); ++t) {
      std::vector<Pick<T>> picks;
      for (int key = 0; key < keys(); ++key) {
        if (!walk.visible(state_.position + t, key)) continue;
        const T* k = cache(top.cache).keys.data() + std::ptrdiff_t{key} * d;
        T score = 0;
        for (int h = 0; h < top.heads; ++h) {
          const T match = static_cast<T>(top.scale) * dot(state_.at(top.query, t) + h * d, k, d);
          score += state_.at(top.weights, t)[h] * std::max(T{0}, match);
        }
        picks.push_back({score, key});
      }
      const auto kept = std::min(picks.size(), static_cast<std::size_t>(top.count));
      std::partial_sort(picks.begin(), picks.begin() + static_cast<std::ptrdiff_t>(kept), picks.end(),
                        [](const Pick<T>& a, const Pick<T>& b) { return a.before(b); });
      const std::size_t first = chosen_.size();
      for (std::size_t i = 0; i < kept; ++i) chosen_.push_back(picks[i].index);
      std::sort(chosen_.begin() + static_cast<std::ptrdiff_t>(first), chosen_.end());
      offsets_.push_back(static_cast<int>(chosen_.size()));
    }
  }

  const Program& program_;
  const ReferenceWeights& weights_;
  const Attend& step_;
  ReferenceState<T>& state_;
  const CacheSpec& spec_;
  std::vector<T> keys_, values_;       // expanded latents, [keys, heads, ..]
  std::vector<int> offsets_, chosen_;  // top keys: those of query i at [offsets_[i], offsets_[i + 1])
};

}  // namespace fourfold
