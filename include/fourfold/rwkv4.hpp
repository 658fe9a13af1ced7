// RWKV-4's time mixing: an average of values weighted by e^k, whose older weights fade.           Peng et al. 2023, eq.
// 16
//
//   out_t = (sum_{i < t} e^(k_i - (t - 1 - i) w) v_i + e^(u + k_t) v_t) / (the same sum with 1 for v)
//
// Each channel has a state of its own: an affine state (the transition is e^-w) whose entries share a travelling
// exponent m, so that no key overflows. In memory a state is m, l, o: [3, channels]; zeros are the empty state.
#pragma once

#include <algorithm>
#include <fourfold/executor.hpp>
#include <fourfold/load.hpp>
#include <fourfold/math.hpp>
#include <fourfold/monoid.hpp>
#include <fourfold/scan_tokens.hpp>
#include <span>

namespace fourfold {

// (decay, m, l, o) stands for (L, O) -> e^decay (L, O) + e^m (l, o). Order matters.
template <class T = float>
struct FadingAverage {
  using Real = T;
  struct State {
    T decay, m, l, o;
  };
  static constexpr bool commutative = false, log_scaled = true;
  static constexpr Transition transition = Transition::scalar;

  template <class U>
  constexpr FadingAverage<U> as() const {
    return {};
  }
  constexpr State identity() const { return {0, -kInfinity<T>, 0, 0}; }
  constexpr State lift(T decay, T key, T value) const { return {decay, key, 1, value}; }
  constexpr State combine(State first, State then) const {
    const T faded = first.m + then.decay, m = larger(faded, then.m);
    const T a = rescale(faded, m), b = rescale(then.m, m);
    return {first.decay + then.decay, m, a * first.l + b * then.l, a * first.o + b * then.o};
  }
  constexpr T finish(State s) const { return s.l == 0 ? T(0) : s.o / s.l; }
};

template <class X>
class Rwkv4On;

struct Rwkv4 {
  std::span<const float> w;  // [channels] fading per token, e^-w; at least 0
  std::span<const float> u;  // [channels] bonus of the token's own key

  template <class X>
  constexpr Rwkv4On<X> on(const X& executor) const {
    return {*this, executor};
  }
};

template <class X>
class Rwkv4On {
 public:
  constexpr Rwkv4On(const Rwkv4& rule, const X& executor) : rule_(rule), executor_(executor) {}

  // k, v [tokens, channels]   out [tokens, channels]   states [slots, 3 * channels]; no data: all start empty
  template <Matrix K, Matrix V>
  status run(const K& k, const V& v, Rows<float> out, Rows<float> states, const ScanSequences& sequences) const {
    FOURFOLD_TRY(check(k.rows, k.columns, v.rows, v.columns, out, states, sequences));
    const int channels = static_cast<int>(k.columns), blocks = (channels + kBlock - 1) / kBlock;
    for_each(executor_, sequences.count() * blocks, [&](int job) {
      const int sequence = job / blocks, column = job % blocks * kBlock;
      float* state = states.data ? states.row(sequences.slot(sequence)).data() : nullptr;
      for (int c = column; c < std::min(channels, column + kBlock); ++c)
        run_channel(k, v, out, state, sequences.offsets[sequence], sequences.offsets[sequence + 1], c);
    });
    return {};
  }
  // One sequence.
  template <Matrix K, Matrix V>
  status run(const K& k, const V& v, Rows<float> out, Rows<float> states = {}) const {
    const int whole[] = {0, static_cast<int>(k.rows)};
    return run(k, v, out, states, ScanSequences{whole});
  }

 private:
  static constexpr int kBlock = 64;

  status check(std::int64_t tokens, std::int64_t channels, std::int64_t value_rows, std::int64_t value_columns,
               Rows<float> out, Rows<float> states, const ScanSequences& sequences) const {
    if (static_cast<std::int64_t>(rule_.w.size()) != channels || static_cast<std::int64_t>(rule_.u.size()) != channels)
      return {Code::invalid_argument, "rwkv4: w and u must be [channels], " + std::to_string(channels)};
    if (value_rows != tokens || value_columns != channels || out.rows != tokens || out.columns != channels)
      return {Code::invalid_argument, "rwkv4: v and out must be [tokens, channels], as k"};
    FOURFOLD_TRY(detail::check_offsets("rwkv4: offsets", sequences.offsets, static_cast<int>(tokens)));
    if (!states.data) return {};
    if (states.columns != 3 * channels || (sequences.slots.empty() && states.rows != sequences.count()))
      return {Code::invalid_argument, "rwkv4: states must be [slots, 3 * channels]"};
    return sequences.slots.empty() ? status() : detail::check_slots(sequences.slots, sequences.count(), states.rows);
  }

  template <class K, class V>
  void run_channel(const K& k, const V& v, Rows<float> out, float* state, int first, int end, int c) const {
    using T = real_on<X, float>;
    constexpr FadingAverage<T> average;
    auto s = average.identity();
    if (state && state[k.columns + c] != 0)
      s = {0, static_cast<T>(state[c]), static_cast<T>(state[k.columns + c]), static_cast<T>(state[2 * k.columns + c])};
    for (int t = first; t < end; ++t) {
      const T key = static_cast<T>(k(t, c)), value = static_cast<T>(v(t, c));
      const T own = static_cast<T>(rule_.u[c]) + key;
      out(t, c) = static_cast<float>(average.finish(average.combine(s, average.lift(0, own, value))));
      s = average.combine(s, average.lift(-static_cast<T>(rule_.w[c]), key, value));
    }
    if (!state) return;
    state[c] = s.l == 0 ? 0.f : static_cast<float>(s.m);
    state[k.columns + c] = static_cast<float>(s.l);
    state[2 * k.columns + c] = static_cast<float>(s.o);
  }

  Rwkv4 rule_;
  Held<X> executor_;
};

}  // namespace fourfold
