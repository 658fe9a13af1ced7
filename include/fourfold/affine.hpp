// The affine family: states that change by S <- M S + B, one token after the other.
//
// S is a matrix of floats per head, [key dim, value dim]. A rule names M and B of a token with the operators below; M
// is never formed. Operators apply to a state in place, in the state's arithmetic.
#pragma once

#include <fourfold/monoid.hpp>
#include <fourfold/tensor.hpp>
#include <span>

namespace fourfold {

// What a rule sees of one token and head.
struct Token {
  std::span<const float> k, v;  // [key dim], [value dim]
  float alpha = 1, beta = 1;    // decay and strength, 1 where the caller gave none
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

// b u v^T
struct RankOne {
  float b;
  std::span<const float> u, v;

  constexpr RankOne(float b, std::span<const float> u, std::span<const float> v) : b(b), u(u), v(v) {}
  template <class T>
  constexpr void add_to(Rows<T> s) const {
    for (std::int64_t i = 0; i < s.rows; ++i)
      for (std::int64_t j = 0; j < s.columns; ++j)
        s(i, j) += static_cast<T>(b) * static_cast<T>(u[i]) * static_cast<T>(v[j]);
  }
};

// (I - b u v^T) S, column by column: S(:, j) -= b u (v . S(:, j))
struct IdentityMinus {
  static constexpr Transition kClass = Transition::diagonal_low_rank;
  RankOne minus;

  template <class T>
  constexpr void apply(Rows<T> s) const {
    for (std::int64_t j = 0; j < s.columns; ++j) {
      T along = 0;
      for (std::int64_t i = 0; i < s.rows; ++i) along += static_cast<T>(minus.v[i]) * s(i, j);
      for (std::int64_t i = 0; i < s.rows; ++i) s(i, j) -= static_cast<T>(minus.b) * static_cast<T>(minus.u[i]) * along;
    }
  }
};
constexpr IdentityMinus operator-(Identity, RankOne minus) { return {minus}; }

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
template <class R>
concept AffineRule = HasTransition<R> && HasUpdate<R>;

template <class R>
inline constexpr Transition kTransition = decltype(std::declval<R>().transition(std::declval<Token>()))::kClass;

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
