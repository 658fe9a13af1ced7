// Monoid: how partial results combine. Grouping is free: combine is associative and identity() changes nothing, both up
// to rounding; tests/law checks every monoid here. All functions are pure and total: a NaN goes in, a NaN comes out.
//
//   State                        a partial result: a small struct of numbers
//   identity() -> State          the result of no input
//   combine(State, State)        the earlier inputs first
//   finish(State) -> result      what the caller gets
//   static bool commutative      may inputs also change places?
// and one or both of
//   lift(x), lift(x, At)         one input, with its index if that matters            (reductions)
//   lift(weight, x)              one weighted input                                   (products, attention)
// Optional:
//   Real                         the arithmetic, float if not said; as<U>() -> the same monoid in arithmetic U
//   log_scaled, transition       the family: does a reference exponent travel along; what acts on a carried state
//   seed(head) -> State          joins each output exactly once, however the fold was split
//   Row, row, absorb, merge, column   states of a whole row of outputs at once, see RowMonoid
#pragma once

#include <array>
#include <climits>
#include <concepts>
#include <cstdint>
#include <fourfold/math.hpp>

namespace fourfold {

enum class Transition { none, scalar, diagonal, diagonal_low_rank, dense };

// The index of an input in its row.
struct At {
  int index;
};

template <class M>
concept HasState = requires {
  typename M::State;
};
template <class M>
concept HasIdentity = HasState<M> && requires(const M& monoid) {
  { monoid.identity() } -> std::same_as<typename M::State>;
};
template <class M>
concept HasCombine = HasState<M> && requires(const M& monoid, const typename M::State& state) {
  { monoid.combine(state, state) } -> std::same_as<typename M::State>;
};
template <class M>
concept HasFinish = HasState<M> && requires(const M& monoid, const typename M::State& state) {
  monoid.finish(state);
};
template <class M>
concept HasCommutative = requires {
  { M::commutative } -> std::convertible_to<bool>;
};
template <class M>
concept Lifts = requires(const M& monoid, float x) {
  { monoid.lift(x) } -> std::same_as<typename M::State>;
}
|| requires(const M& monoid, float x) {
  { monoid.lift(x, At{0}) } -> std::same_as<typename M::State>;
};
template <class M>
concept LiftsWeighted = requires(const M& monoid, float x) {
  { monoid.lift(x, x) } -> std::same_as<typename M::State>;
};
template <class M>
concept Monoid = HasState<M> && HasIdentity<M> && HasCombine<M> && HasFinish<M> && HasCommutative<M>;

namespace detail {
template <class M>
struct Arithmetic {
  using Real = float;
};
template <class M>
requires requires { typename M::Real; }
struct Arithmetic<M> {
  using Real = typename M::Real;
};
}  // namespace detail

template <class M>
inline constexpr bool kLogScaled = false;
template <class M>
requires requires { M::log_scaled; }
inline constexpr bool kLogScaled<M> = M::log_scaled;

template <class M>
using real_of = typename detail::Arithmetic<M>::Real;

// The monoid in arithmetic T, if it says how; otherwise itself.
template <class T, class M>
constexpr auto in_arithmetic(const M& monoid) {
  if constexpr (requires { monoid.template as<T>(); }) {
    return monoid.template as<T>();
  } else {
    return monoid;
  }
}

// A leaf of a fold: kLeaf keys from a multiple of kLeaf on, one bit each for those that count.
inline constexpr int kLeaf = 64;
template <class T>
struct ScoreTile {
  const T* scores;  // [kLeaf]
  std::uint64_t visible;
};
template <class T>
struct ValueTile {
  const T* values;  // [kLeaf, columns]
  int stride;
};

// A monoid that keeps the states of a whole row of outputs together, since they share their weights. `Row` has one
// `Column` per output, in storage the driver owns, and is what column() says it is: absorb == repeated combine.
template <class M>
concept RowMonoid = Monoid<M> && requires(const M& monoid, typename M::Row& row, typename M::Column* storage,
                                          ScoreTile<real_of<M>> scores, ValueTile<real_of<M>> values) {
  { monoid.row(storage, 1) } -> std::same_as<typename M::Row>;  // identities
  monoid.absorb(row, scores, values);                           // a leaf's visible keys, ascending
  monoid.merge(row, row);                                       // a later row into an earlier one
  { monoid.column(row, 0) } -> std::same_as<typename M::State>;
};

template <class T = float>
struct Sum {
  using Real = T;
  struct State {
    T sum;
  };
  static constexpr bool commutative = true;

  template <class U>
  constexpr Sum<U> as() const {
    return {};
  }
  constexpr State identity() const { return {0}; }
  constexpr State lift(T x) const { return {x}; }
  constexpr State lift(T weight, T x) const { return {weight * x}; }
  constexpr State combine(State a, State b) const { return {a.sum + b.sum}; }
  constexpr T finish(State s) const { return s.sum; }
};

// The largest value; NaN if any is. No input: -infinity.
template <class T = float>
struct Max {
  using Real = T;
  struct State {
    T max;
  };
  static constexpr bool commutative = true;

  template <class U>
  constexpr Max<U> as() const {
    return {};
  }
  constexpr State identity() const { return {-kInfinity<T>}; }
  constexpr State lift(T x) const { return {x}; }
  constexpr State combine(State a, State b) const { return {larger(a.max, b.max)}; }
  constexpr T finish(State s) const { return s.max; }
};

// A value and where it stood; index -1 where there was none.
template <class T>
struct Pick {
  static constexpr int kNowhere = INT_MAX;

  T value = kNaN<T>;
  int index = kNowhere;

  // The order of every selection: value descending, NaN last; among equals (and NaNs) index ascending.
  constexpr bool before(const Pick& other) const {
    const bool nan = value != value, other_nan = other.value != other.value;
    if (nan != other_nan) return other_nan;
    return nan || value == other.value ? index < other.index : value > other.value;
  }
  constexpr Pick found() const { return {value, index == kNowhere ? -1 : index}; }
};

template <class T = float>
struct ArgMax {
  using Real = T;
  using State = Pick<T>;
  static constexpr bool commutative = true;

  constexpr State identity() const { return {}; }
  constexpr State lift(T x, At at) const { return {x, at.index}; }
  constexpr State combine(State a, State b) const { return b.before(a) ? b : a; }
  constexpr Pick<T> finish(State s) const { return s.found(); }
};

// The K best in order; with fewer inputs, the rest have index -1.
template <int K, class T = float>
struct TopK {
  using Real = T;
  struct State {
    std::array<Pick<T>, K> best;
  };
  static constexpr bool commutative = true;

  constexpr State identity() const { return {}; }
  constexpr State lift(T x, At at) const {
    State one;
    one.best[0] = {x, at.index};
    return one;
  }
  constexpr State combine(const State& a, const State& b) const {
    State merged;
    for (int n = 0, i = 0, j = 0; n < K; ++n) merged.best[n] = b.best[j].before(a.best[i]) ? b.best[j++] : a.best[i++];
    return merged;
  }
  constexpr std::array<Pick<T>, K> finish(State s) const {
    for (auto& pick : s.best) pick = pick.found();
    return s.best;
  }
};

// ln(sum e^x) without overflow: the unscaled state is e^m l. No input: -infinity.
template <class T = float>
struct LogSumExp {
  using Real = T;
  struct State {
    T m, l;
  };
  static constexpr bool commutative = true, log_scaled = true;

  template <class U>
  constexpr LogSumExp<U> as() const {
    return {};
  }
  constexpr State identity() const { return {-kInfinity<T>, 0}; }
  constexpr State lift(T x) const { return {x, x == -kInfinity<T> ? T(0) : T(1)}; }
  constexpr State combine(State a, State b) const {
    const T m = larger(a.m, b.m);
    return {m, rescale(a.m, m) * a.l + rescale(b.m, m) * b.l};
  }
  constexpr T finish(State s) const { return s.l == 0 ? -kInfinity<T> : s.m + fourfold::log(s.l); }
};

}  // namespace fourfold
