// Score: a map on one element inside a fold, before the monoid sees it.
//
// score(s, query, key) -> number, pure; positions are absolute. A score written for float also runs in the double
// reference, rounded to float at that point; a template (`auto s`) keeps the reference's precision.
// Optional hook: score.at_head(head) -> the Score of that head.
// Scores chain with `|`: Scale{0.125f} | SoftCap{50.f} scales first.
#pragma once

#include <concepts>
#include <cstdint>
#include <fourfold/math.hpp>

namespace fourfold {

template <class S>
concept Score = requires(const S& score, float s, int position) {
  { score(s, position, position) } -> std::convertible_to<float>;
};

template <class S>
constexpr auto at_head(const S& score, int head) {
  if constexpr (requires { score.at_head(head); }) {
    return score.at_head(head);
  } else {
    return score;
  }
}

// The dot product as it is.
struct Plain {
  template <class T>
  constexpr T operator()(T s, int, int) const {
    return s;
  }
};

struct Scale {
  float scale;

  template <class T>
  constexpr T operator()(T s, int, int) const {
    return s * static_cast<T>(scale);
  }
};

// cap tanh(s / cap): smooth, and never beyond +-cap. Gemma 2, section 2.
struct SoftCap {
  float cap;

  template <class T>
  constexpr T operator()(T s, int, int) const {
    return static_cast<T>(cap) * fourfold::tanh(s / static_cast<T>(cap));
  }
};

// s - slope (query - key). Press et al. 2022: of `heads` heads, head h has the slope 2^(-8 (h + 1) / heads); if `heads`
// is no power of two, the largest power p below gives the first p, and every second one of 2p the rest.
struct Alibi {
  int heads;
  double slope = 0;  // set by at_head

  constexpr Alibi at_head(int head) const {
    int power = 1;
    while (2 * power <= heads) power *= 2;
    const int step = head < power ? 2 * (head + 1) : 2 * (head - power) + 1;
    return {heads, fourfold::exp2(-4.0 * step / power)};
  }
  template <class T>
  constexpr T operator()(T s, int query, int key) const {
    return s - static_cast<T>(slope) * static_cast<T>(query - key);
  }
};

// s + table[head][query][key]: a learned bias, or a mask of 0 and -infinity. The table covers every position asked.
struct Bias {
  const float* table;  // [heads, queries, keys], or [queries, keys] for all heads when head_stride is 0
  std::int64_t query_stride;
  std::int64_t head_stride = 0;

  constexpr Bias at_head(int head) const { return {table + head * head_stride, query_stride, head_stride}; }
  template <class T>
  constexpr T operator()(T s, int query, int key) const {
    return s + static_cast<T>(table[query * query_stride + key]);
  }
};

// One map after another on the same element. Serves scores (query, key) and epilogues (row, column) alike.
template <class First, class Second>
struct Chain {
  First first;
  Second second;

  constexpr auto at_head(int head) const {
    const auto a = fourfold::at_head(first, head);
    const auto b = fourfold::at_head(second, head);
    return Chain<std::remove_const_t<decltype(a)>, std::remove_const_t<decltype(b)>>{a, b};
  }
  template <class T>
  constexpr auto operator()(T x, int i, int j) const requires Score<First> && Score<Second> {
    return second(first(x, i, j), i, j);
  }
};

template <Score A, Score B>
constexpr Chain<A, B> operator|(A a, B b) {
  return {a, b};
}

}  // namespace fourfold
