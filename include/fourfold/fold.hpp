// Fold: each output needs some of every input, in any grouping.
//
//   Fold attention{Causal{}, Scale{0.125f}, OnlineSoftmax{}};
//   status s = attention.on(reference).attend(q, k, v, out);
//
// A fold is a walk (what an output visits), a score (a map on each element), a monoid (how elements combine) and an
// epilogue (a map on the result). Output (query, head, column) is
//   epilogue(finish(combine over visible keys, ascending, of lift(score(q . k), v)))
// and that sentence is what `reference` computes, in double; `reference_f32` in float; a ParallelFor such as `Team`
// computes the same from tiles (fold_tiles.hpp).
#pragma once

#include <fourfold/dispatch.hpp>
#include <fourfold/epilogue.hpp>
#include <fourfold/executor.hpp>
#include <fourfold/fold_checks.hpp>
#include <fourfold/fold_reference.hpp>
#include <fourfold/fold_tiles.hpp>
#include <fourfold/monoid.hpp>
#include <fourfold/online_softmax.hpp>
#include <fourfold/rope.hpp>
#include <fourfold/score.hpp>
#include <fourfold/tensor.hpp>
#include <fourfold/walk.hpp>
#include <span>
#include <type_traits>
#include <utility>

namespace fourfold {

template <class F, class X>
class FoldOn;

template <class W, class S, class M, class E = Plain>
struct Fold {
  static_assert(HasVisible<W>, "Walk needs `visible(int query, int key)` -> bool");
  static_assert(HasTiles<W>, "Walk needs `tiles(Range queries)` -> a sequence of Range");
  static_assert(Score<S>, "Score needs `operator()(float s, int query, int key)` -> number");
  static_assert(HasState<M>, "Monoid needs a type `State`");
  static_assert(HasIdentity<M> || !HasState<M>, "Monoid needs `identity()` -> State");
  static_assert(HasCombine<M> || !HasState<M>, "Monoid needs `combine(State, State)` -> State");
  static_assert(HasFinish<M> || !HasState<M>, "Monoid needs `finish(State)`");
  static_assert(HasCommutative<M>, "Monoid needs `static constexpr bool commutative`");
  static_assert(Epilogue<E>, "Epilogue needs `operator()(x, row, column)` -> number or `row(std::span<T>, int)`");

  W walk;
  S score;
  M monoid;
  E epilogue;

  constexpr Fold(W walk, S score, M monoid, E epilogue = {})
      : walk(walk), score(score), monoid(monoid), epilogue(epilogue) {}
  constexpr Fold(W walk, M monoid) : walk(walk), score(), monoid(monoid), epilogue() {}  // no score: Plain

  // Binds the fold to where it runs: `reference`, `reference_f32`, or a ParallelFor.
  template <class X>
  constexpr FoldOn<Fold, X> on(const X& executor) const {
    return {*this, executor};
  }
};

template <class W, class M>
Fold(W, M) -> Fold<W, Plain, M>;

// A fold on an executor. Each call checks its operands' shapes first and touches nothing if they do not fit.
template <class F, class X>
class FoldOn {
  using M = decltype(F::monoid);
  using E = decltype(F::epilogue);

 public:
  using Result = decltype(std::declval<M>().finish(std::declval<typename M::State>()));

  constexpr FoldOn(const F& fold, const X& executor) : fold_(fold), executor_(executor) {}

  // Attention over packed sequences. Query head h reads key head h / (query heads / key heads).
  // q [queries, heads, dim]   k [keys, kv heads, dim]   v [keys, kv heads, columns]   out [queries, heads, columns]
  template <class Q, class K, class V, class O>
  status attend(const Heads<Q>& q, const Heads<K>& k, const Heads<V>& v, const Heads<O>& out, LseRows lse,
                const Sequences& sequences) const {
    static_assert(Matrix<Q> && Matrix<K> && Matrix<V>, "Load needs `operator()(row, column)`, `rows` and `columns`");
    static_assert(LiftsWeighted<M>, "Monoid needs `lift(weight, x)` -> State to attend");
    FOURFOLD_TRY(detail::check_attend(q, k, v, out, lse, sequences));
    detail::attend(fold_, executor_, q, k, v, out, lse, sequences);
    return {};
  }
  // One sequence.
  template <class Q, class K, class V, class O>
  status attend(const Heads<Q>& q, const Heads<K>& k, const Heads<V>& v, const Heads<O>& out, LseRows lse = {}) const {
    const int queries[] = {0, q.tokens()}, keys[] = {0, k.tokens()};
    return attend(q, k, v, out, lse, {queries, keys});
  }

  // A matrix product: out(row, column) folds lift(score(a(row, i)), b(column, i)) over i. Sum gives a b^T.
  // a [rows, n]   b [columns, n]   out [rows, columns]
  template <class A, class B, class O>
  status multiply(const A& a, const B& b, const Rows<O>& out) const {
    static_assert(Matrix<A> && Matrix<B>, "Load needs `operator()(row, column)`, `rows` and `columns`");
    static_assert(LiftsWeighted<M>, "Monoid needs `lift(weight, x)` -> State to multiply");
    if (b.columns != a.columns) return detail::mismatch("multiply: columns of b", b.columns, "those of a", a.columns);
    if (out.rows != a.rows) return detail::mismatch("multiply: output rows", out.rows, "the rows of a", a.rows);
    if (out.columns != b.rows)
      return detail::mismatch("multiply: output columns", out.columns, "the rows of b", b.rows);
    detail::multiply(fold_, executor_, a, b, out);
    return {};
  }

  // The same over a routed walk: row r of the sorted order is its token's row of x with its expert's matrix.
  // x [tokens, n]   experts [experts * columns, n], one below the other   out [sorted rows, columns]
  template <class A, class T, class O>
  status multiply(const A& x, const Rows<T>& experts, const Dispatch& dispatch, const Rows<O>& out) const {
    static_assert(std::is_same_v<E, Plain>, "a routed product has no epilogue: its rows are not the output's");
    const auto rows = static_cast<std::int64_t>(dispatch.slots().size());
    if (x.rows != dispatch.tokens())
      return detail::mismatch("multiply: rows of x", x.rows, "the tokens", dispatch.tokens());
    if (experts.rows != out.columns * dispatch.experts())
      return detail::mismatch("multiply: rows of all experts", experts.rows, "experts times output columns",
                              out.columns * dispatch.experts());
    if (out.rows != rows) return detail::mismatch("multiply: output rows", out.rows, "the sorted rows", rows);
    for (const Dispatch::Tile& tile : dispatch.tiles())
      FOURFOLD_TRY(
          multiply(dispatch.rows_of(tile, x),
                   Rows<T>(&experts(tile.expert * out.columns, 0), out.columns, experts.columns, experts.stride),
                   Rows<O>(&out(tile.first, 0), tile.rows, out.columns, out.stride)));
    return {};
  }

  // Folds each row of x to one result: out[row] = finish(combine over visible i of lift(score(x(row, i)), At{i})), and
  // epilogue(.., row, 0) of it where it is a number.
  template <class L>
  status reduce(const L& x, std::span<Result> out) const {
    static_assert(Matrix<L>, "Load needs `operator()(row, column)`, `rows` and `columns`");
    static_assert(Lifts<M>, "Monoid needs `lift(x)` or `lift(x, At)` -> State to reduce");
    static_assert(Score<E> && (std::is_arithmetic_v<Result> || std::is_same_v<E, Plain>),
                  "Epilogue of a reduction needs `operator()(x, row, column)`, and a result that is a number");
    if (static_cast<std::int64_t>(out.size()) != x.rows)
      return detail::mismatch("reduce: results", out.size(), "the rows", x.rows);
    detail::reduce(fold_, executor_, x, out);
    return {};
  }

 private:
  F fold_;
  Held<X> executor_;
};

}  // namespace fourfold
