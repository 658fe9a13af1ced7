// Rotary positions: pairs of coordinates of every head turn by position times a frequency of their own.
//
// Pair i of a head that turns `rotary` coordinates has the frequency base^(-2 i / rotary). Su et al. 2021.
#pragma once

#include <cmath>
#include <fourfold/math.hpp>
#include <numbers>
#include <span>

namespace fourfold {

enum class Pairing {
  halves,       // (i, i + rotary / 2)
  interleaved,  // (2 i, 2 i + 1)
};

// How frequencies change for contexts longer than the model was first trained on.
struct RopeScaling {
  enum class Kind {
    none,
    linear,  // every frequency / factor. Chen et al. 2023
    llama3,  // long waves / factor, short ones kept, a ramp between. Llama 3 report, section 3.4.2; its published code
    yarn,    // the same with a ramp over the pairs. Peng et al. 2023, section 3.2
  };
  Kind kind = Kind::none;
  double factor = 1;
  // Turns within the original context: waves of fewer than `low` are slowed, those of more than `high` kept.
  double low = 1, high = 4;
  double original_context = 8192;  // llama3, yarn
  bool whole_pairs = true;         // yarn: the ramp begins and ends at whole pairs

  // The frequency of a pair, base^(-2 pair / rotary) before.
  constexpr double operator()(int pair, int rotary, double base) const {
    const double frequency = pow(base, -2.0 * pair / rotary);
    if (kind != Kind::yarn) return (*this)(frequency);
    const auto pair_of = [&](double turns) {
      return rotary * log(original_context / (turns * 2 * std::numbers::pi)) / (2 * log(base));
    };
    double first = pair_of(high), last = pair_of(low);
    if (whole_pairs) first = std::floor(first), last = std::ceil(last);
    first = first < 0 ? 0 : first;
    last = last > rotary - 1 ? rotary - 1 : last;
    if (last == first) last += 1e-3;
    const double ramp = (pair - first) / (last - first), slowed = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
    return slowed * (frequency / factor) + (1 - slowed) * frequency;
  }
  // Kinds other than yarn look at the frequency alone.
  constexpr double operator()(double frequency) const {
    if (kind == Kind::none) return frequency;
    const double slow = frequency / factor;
    if (kind == Kind::linear) return slow;
    const double turns = original_context * frequency / (2 * std::numbers::pi);  // within the original context
    if (turns > high) return frequency;
    if (turns < low) return slow;
    const double kept = (turns - low) / (high - low);
    return (1 - kept) * slow + kept * frequency;
  }
};

// What YaRN multiplies logits' square roots with: 0.1 weight ln(factor) + 1. Peng et al. 2023, section 3.4
constexpr double yarn_scale(double factor, double weight = 1) {
  return factor > 1 ? 0.1 * weight * log(factor) + 1 : 1;
}

// A row epilogue over [tokens, heads, dim]. Row r stands at positions[r], or at first + r.
struct Rope {
  int dim;     // of a head
  int rotary;  // leading coordinates that turn; even, at most dim
  double base = 10000;
  Pairing pairing = Pairing::halves;
  RopeScaling scaling{};
  int first = 0;
  std::span<const int> positions{};
  std::span<const float> divisors{};  // one per pair, from the model's file; or none

  constexpr double frequency(int pair) const {
    const double f = scaling(pair, rotary, base);
    return divisors.empty() ? f : f / static_cast<double>(divisors[pair]);
  }
  template <class T>
  constexpr void row(std::span<T> values, int r) const {
    const double position = positions.empty() ? first + r : positions[r];
    for (int pair = 0; pair < rotary / 2; ++pair) {
      const double angle = position * frequency(pair);  // float would lose the phase of late positions
      const T c = static_cast<T>(cos(angle)), s = static_cast<T>(sin(angle));
      const int a = pairing == Pairing::halves ? pair : 2 * pair;
      const int b = pairing == Pairing::halves ? pair + rotary / 2 : 2 * pair + 1;
      for (std::size_t head = 0; head + dim <= values.size(); head += dim) {
        const T x = values[head + a], y = values[head + b];
        values[head + a] = x * c - y * s;
        values[head + b] = x * s + y * c;
      }
    }
  }
};

}  // namespace fourfold
