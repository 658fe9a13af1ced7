// The affine family: states that change by S <- M S + B, one token after the other.
//
// S is a matrix of floats per head, [key dim, value dim]. A rule names M and B of a token with the operators below; M
// is never formed. Operators apply to a state in place, in the state's arithmetic. Each acts on every column of S
// alike, so a strip of columns can run alone.
#pragma once

#include <fourfold/math.hpp>
#include <fourfold/monoid.hpp>
#include <fourfold/tensor.hpp>
#include <span>
#include <vector>

namespace fourfold {

// What a rule sees of one token and head. What the caller did not give is there all the same, as numbers that change
// nothing: 1 for decays, strengths and step sizes, 0 for a, b.
struct Token {
  std::span<const float> k, v;      // [key dim], [value dim]
  float alpha = 1, beta = 1;        // decay and strength (the step size of Mamba-2)
  std::span<const float> q{};       // [key dim]
  std::span<const float> gate{};    // [key dim] decay of each key channel
  std::span<const float> a{}, b{};  // [key dim] the part b a^T of a transition
  std::span<const float> dt{};      // [value dim] step size of each value channel (Mamba-1)
  int head = 0;
  int channel = 0;  // of v[0], counted over the heads
};

// S
struct Identity {
  static constexpr Transition kClass = Transition::none;

  template <class T>
  constexpr void apply(Rows<T>) const {}
};

// a S
struct Scaled {
  static constexpr Transition kClass = Transition::scalar;
  float a;

  constexpr explicit Scaled(float a) : a(a) {}
  template <class T>
  constexpr void apply(Rows<T> s) const {
    for (std::int64_t i = 0; i < s.rows; ++i)
      for (T& x : s.row(i)) x *= static_cast<T>(a);
  }
};

// Diag(a) S: row i by a[i]
struct Diagonal {
  static constexpr Transition kClass = Transition::diagonal;
  std::span<const float> a;

  constexpr explicit Diagonal(std::span<const float> a) : a(a) {}
  template <class T>
  constexpr void apply(Rows<T> s) const {
    for (std::int64_t i = 0; i < s.rows; ++i)
      for (T& x : s.row(i)) x *= static_cast<T>(a[i]);
  }
};

// Entry (i, j) by e^(dt[j] rate(channel + j, i)): a diagonal over the entries of S.
struct Discretised {
  static constexpr Transition kClass = Transition::diagonal;
  std::span<const float> dt;
  Rows<const float> rate;  // [channels, key dim]
  int channel;

  template <class T>
  constexpr void apply(Rows<T> s) const {
    for (std::int64_t i = 0; i < s.rows; ++i)
      for (std::int64_t j = 0; j < s.columns; ++j)
        s(i, j) *= fourfold::exp(static_cast<T>(dt[j]) * static_cast<T>(rate(channel + j, i)));
  }
};

// M S for any matrix M [key dim, key dim]
struct Dense {
  static constexpr Transition kClass = Transition::dense;
  Rows<const float> m;

  template <class T>
  constexpr void apply(Rows<T> s) const {
    std::vector<T> before(static_cast<std::size_t>(s.rows));
    for (std::int64_t j = 0; j < s.columns; ++j) {
      for (std::int64_t i = 0; i < s.rows; ++i) before[i] = s(i, j);
      for (std::int64_t i = 0; i < s.rows; ++i) {
        T sum = 0;
        for (std::int64_t l = 0; l < s.rows; ++l) sum += static_cast<T>(m(i, l)) * before[l];
        s(i, j) = sum;
      }
    }
  }
};

// b u v^T; with `scale`, v[j] stands for v[j] scale[j]
struct RankOne {
  float b;
  std::span<const float> u, v;
  std::span<const float> scale{};

  constexpr RankOne(float b, std::span<const float> u, std::span<const float> v) : b(b), u(u), v(v) {}
  constexpr RankOne times(std::span<const float> each) const {
    RankOne scaled = *this;
    scaled.scale = each;
    return scaled;
  }
  template <class T>
  constexpr void add_to(Rows<T> s) const {
    for (std::int64_t i = 0; i < s.rows; ++i) {
      const T left = static_cast<T>(b) * static_cast<T>(u[i]);
      if (scale.empty()) {
        for (std::int64_t j = 0; j < s.columns; ++j) s(i, j) += left * static_cast<T>(v[j]);
      } else {
        for (std::int64_t j = 0; j < s.columns; ++j)
          s(i, j) += left * (static_cast<T>(v[j]) * static_cast<T>(scale[j]));
      }
    }
  }
};

// D S + b u (v^T S): what D leaves plus a matrix of rank one. D is Identity or Diagonal.
template <class D>
struct PlusRankOne {
  static constexpr Transition kClass = Transition::diagonal_low_rank;
  static constexpr std::int64_t kStrip = 64;
  D d;
  RankOne plus;

  template <class T>
  constexpr void apply(Rows<T> s) const {
    for (std::int64_t first = 0; first < s.columns; first += kStrip) {
      const std::int64_t n = s.columns - first < kStrip ? s.columns - first : kStrip;
      const Rows<T> strip(s.data + first, s.rows, n, s.stride);
      T along[kStrip] = {};
      for (std::int64_t i = 0; i < s.rows; ++i)
        for (std::int64_t j = 0; j < n; ++j) along[j] += static_cast<T>(plus.v[i]) * strip(i, j);
      d.apply(strip);
      for (std::int64_t i = 0; i < s.rows; ++i) {
        const T left = static_cast<T>(plus.b) * static_cast<T>(plus.u[i]);
        for (std::int64_t j = 0; j < n; ++j) strip(i, j) += left * along[j];
      }
    }
  }
};
constexpr PlusRankOne<Identity> operator-(Identity i, RankOne minus) {
  minus.b = -minus.b;
  return {i, minus};
}
constexpr PlusRankOne<Identity> operator+(Identity i, RankOne plus) { return {i, plus}; }
constexpr PlusRankOne<Diagonal> operator+(Diagonal d, RankOne plus) { return {d, plus}; }

// M2 M1 S: the right factor acts first.
template <class Second, class First>
struct Product {
  static constexpr Transition kClass = Second::kClass > First::kClass ? Second::kClass : First::kClass;
  Second second;
  First first;

  template <class T>
  constexpr void apply(Rows<T> s) const {
    first.apply(s);
    second.apply(s);
  }
};
template <class M>
concept TransitionOperator = requires(const M& m, Rows<double> s) {
  { M::kClass } -> std::convertible_to<Transition>;
  m.apply(s);
};
template <TransitionOperator A, TransitionOperator B>
constexpr Product<A, B> operator*(A a, B b) {
  return {a, b};
}

template <class R>
concept HasTransition = requires(const R& rule, const Token& token) {
  { rule.transition(token) } -> TransitionOperator;
};
template <class R>
concept HasUpdate = requires(const R& rule, const Token& token) {
  { rule.update(token) } -> std::convertible_to<RankOne>;
};
// A rule that reads the state before its token: out = S_{t-1}^T q + bonus(token) v in place of S_t^T q.
template <class R>
concept HasBonus = requires(const R& rule, const Token& token) {
  { rule.template bonus<double>(token) } -> std::convertible_to<double>;
};
template <class R>
concept AffineRule = HasTransition<R> && HasUpdate<R>;

// What the transition of a rule is an instance of.
template <class R>
using transition_of = decltype(std::declval<R>().transition(std::declval<Token>()));
template <class R>
inline constexpr Transition kTransition = transition_of<R>::kClass;

// S <- alpha S + k v^T: linear attention (no decay given), RetNet (constant), Mamba-2 and simple GLA (per token).
// Katharopoulos et al. 2020; Sun et al. 2023; Dao and Gu 2024.
struct ScalarDecay {
  constexpr auto transition(const Token& t) const { return Scaled{t.alpha}; }
  constexpr auto update(const Token& t) const { return RankOne{1, t.k, t.v}; }
};

// One entry of a state under scalar transitions, as a monoid: (a, b) stands for s -> a s + b. Order matters.
template <class T = float>
struct Affine {
  using Real = T;
  struct State {
    T a, b;
  };
  static constexpr bool commutative = false;
  static constexpr Transition transition = Transition::scalar;

  template <class U>
  constexpr Affine<U> as() const {
    return {};
  }
  constexpr State identity() const { return {1, 0}; }
  constexpr State lift(T a, T b) const { return {a, b}; }
  constexpr State combine(State first, State then) const { return {then.a * first.a, then.a * first.b + then.b}; }
  constexpr T finish(State s) const { return s.b; }  // from a state of 0
};

}  // namespace fourfold
