// The routing rules in use, as policy types of route.hpp. z: a token's logit for an expert.
#pragma once

#include <cmath>
#include <fourfold/math.hpp>
#include <span>

namespace fourfold {

enum class Normalise {
  none,
  over_selected,  // the sum of the chosen weights
  over_all,       // the sum of every expert's weight
};

// over_all: softmax, then the k largest. over_selected: the k largest, then softmax; equal to the first renormalised.
// Shazeer et al. 2017.
template <Normalise N>
struct Softmax {
  static constexpr Normalise normalise = N;
  float scale = 1;

  template <class T>
  constexpr T select(T z, int) const {
    return z;
  }
  template <class T>
  constexpr T log_weight(T z, int) const {
    return z;
  }
};

namespace detail {

// log(1 + e^x)
template <class T>
constexpr T softplus(T x) {
  const T size = x < 0 ? -x : x;
  return (x > 0 ? x : T(0)) + std::log1p(fourfold::exp(-size));
}

template <class T>
constexpr T biased(T score, std::span<const float> bias, int expert) {
  return bias.empty() ? score : score + static_cast<T>(bias[static_cast<std::size_t>(expert)]);
}

}  // namespace detail

// s = sigmoid(z); the k largest s + bias; weights s. The bias (empty: none) selects only.   DeepSeek-V3, section 2.1.2
template <Normalise N>
struct BiasedSigmoid {
  static constexpr Normalise normalise = N;
  std::span<const float> bias{};
  float scale = 1;

  template <class T>
  constexpr T select(T z, int expert) const {
    return detail::biased(sigmoid(z), bias, expert);
  }
  template <class T>
  constexpr T weight(T z, int) const {
    return sigmoid(z);
  }
};

// The same with s = sqrt(log(1 + e^z)).                                                       DeepSeek-V4, Megatron
template <Normalise N>
struct BiasedSqrtSoftplus {
  static constexpr Normalise normalise = N;
  std::span<const float> bias{};
  float scale = 1;

  template <class T>
  constexpr T select(T z, int expert) const {
    return detail::biased(weight(z, expert), bias, expert);
  }
  template <class T>
  constexpr T weight(T z, int) const {
    return sqrt(detail::softplus(z));
  }
};

// A rule R within the best of `groups` equal groups of neighbouring experts: a group's score is the sum of its
// group_best best selection scores: 1 in DeepSeek-V2 (its maximum), 2 in DeepSeek-V3. Experts of other groups count as
// -inf, not 0: a biased score may be negative.
template <class R>
struct GroupLimited : R {
  int groups = 1, kept_groups = 1, group_best = 1;
};

}  // namespace fourfold
