// The element-level fold: the definition every other driver is measured against. It never asks a walk for tiles.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fourfold/epilogue.hpp>
#include <fourfold/executor.hpp>
#include <fourfold/fold_checks.hpp>
#include <fourfold/monoid.hpp>
#include <span>
#include <type_traits>
#include <vector>

namespace fourfold::detail {

// The seed joins here, once, whatever was folded before.
template <class M>
constexpr typename M::State complete(const M& monoid, typename M::State state, int head) {
  if constexpr (requires { monoid.seed(head); }) {
    return monoid.combine(state, monoid.seed(head));
  } else {
    return state;
  }
}

template <class M, class T>
constexpr typename M::State lift_at(const M& monoid, T x, int index) {
  if constexpr (requires { monoid.lift(x, At{index}); }) {
    return monoid.lift(x, At{index});
  } else {
    return monoid.lift(x);
  }
}

template <class F, class T, class Q, class K, class V, class O>
void attend(const F& fold, const Reference<T>&, const Heads<Q>& q, const Heads<K>& k, const Heads<V>& v,
            const Heads<O>& out, LseRows lse, const Sequences& sequences) {
  const auto monoid = in_arithmetic<T>(fold.monoid);
  const int group = q.heads / k.heads, columns = v.dim();
  std::vector<T> result(static_cast<std::size_t>(q.heads) * columns);
  std::vector<typename decltype(monoid)::State> states(columns);
  for (int s = 0; s < sequences.count(); ++s) {
    const Range queries{sequences.queries[s], sequences.queries[s + 1]};
    const Range keys{sequences.keys[s], sequences.keys[s + 1]};
    for (int token = queries.first; token < queries.end; ++token) {
      const int position = keys.size() - (queries.end - token);
      for (int head = 0; head < q.heads; ++head) {
        const auto score = at_head(fold.score, head);
        std::fill(states.begin(), states.end(), monoid.identity());
        for (int key = 0; key < keys.size(); ++key) {
          if (!fold.walk.visible(position, key)) continue;
          T dot = 0;
          for (int d = 0; d < q.dim(); ++d)
            dot += static_cast<T>(q(token, head, d)) * static_cast<T>(k(keys.first + key, head / group, d));
          const T weight = static_cast<T>(score(dot, position, key));
          for (int c = 0; c < columns; ++c)
            states[c] =
                monoid.combine(states[c], monoid.lift(weight, static_cast<T>(v(keys.first + key, head / group, c))));
        }
        for (int c = 0; c < columns; ++c) {
          const auto done = complete(monoid, states[c], head);
          result[head * columns + c] = static_cast<T>(monoid.finish(done));
          if constexpr (requires { monoid.lse(done); })
            if (lse.data && c == 0) lse(token, head) = static_cast<float>(monoid.lse(done));
        }
      }
      apply(fold.epilogue, std::span<T>(result), token);
      for (std::size_t c = 0; c < result.size(); ++c) out.matrix(token, c) = static_cast<element_of<O>>(result[c]);
    }
  }
}

// Products and reductions have one form: a pool only shares out their outputs.
template <class F, class X, class A, class B, class O>
void multiply(const F& fold, const X& executor, const A& a, const B& b, const Rows<O>& out) {
  using T = real_on<X, real_of<decltype(fold.monoid)>>;
  const auto monoid = in_arithmetic<T>(fold.monoid);
  const std::int64_t strips = (out.columns + kLeaf - 1) / kLeaf;
  std::vector<T> result(static_cast<std::size_t>(out.rows * out.columns));
  for_each(executor, static_cast<int>(out.rows * strips), [&](int job) {
    const std::int64_t row = job / strips, first = job % strips * kLeaf;
    for (std::int64_t column = first; column < out.columns && column < first + kLeaf; ++column) {
      auto state = monoid.identity();
      for (std::int64_t i = 0; i < a.columns; ++i)
        if (fold.walk.visible(static_cast<int>(row), static_cast<int>(i)))
          state = monoid.combine(state, monoid.lift(static_cast<T>(fold.score(static_cast<T>(a(row, i)), row, i)),
                                                    static_cast<T>(b(column, i))));
      result[row * out.columns + column] = static_cast<T>(monoid.finish(state));
    }
  });
  for_each(executor, static_cast<int>(out.rows), [&](int row) {
    const std::span<T> values(result.data() + row * out.columns, static_cast<std::size_t>(out.columns));
    apply(fold.epilogue, values, row);
    for (std::int64_t c = 0; c < out.columns; ++c) out(row, c) = static_cast<O>(values[c]);
  });
}

template <class F, class X, class L, class R>
void reduce(const F& fold, const X& executor, const L& x, std::span<R> out) {
  using T = real_on<X, real_of<decltype(fold.monoid)>>;
  const auto monoid = in_arithmetic<T>(fold.monoid);
  for_each(executor, static_cast<int>(out.size()), [&](int row) {
    auto state = monoid.identity();
    for (std::int64_t i = 0; i < x.columns; ++i) {
      const int index = static_cast<int>(i);
      if (fold.walk.visible(row, index))
        state = monoid.combine(
            state, lift_at(monoid, static_cast<T>(fold.score(static_cast<T>(x(row, i)), row, index)), index));
    }
    const auto result = static_cast<R>(monoid.finish(state));
    if constexpr (std::is_arithmetic_v<R>) {
      out[row] = static_cast<R>(fold.epilogue(result, row, 0));
    } else {
      out[row] = result;
    }
  });
}

}  // namespace fourfold::detail
