// Map: each output needs one input, or one row of inputs. An epilogue with no fold before it.
//
//   Map{RmsNorm{weight, 1e-5f} | Rope{.dim = 64, .rotary = 64}}.on(reference).run(x, out);
#pragma once

#include <cstdint>
#include <fourfold/epilogue.hpp>
#include <fourfold/executor.hpp>
#include <fourfold/fold_checks.hpp>
#include <fourfold/rope.hpp>
#include <type_traits>
#include <vector>

namespace fourfold {

template <class E, class X>
class MapOn;

template <class E>
struct Map {
  static_assert(Epilogue<E>, "Epilogue needs `operator()(x, row, column)` -> number or `row(std::span<T>, int)`");

  E epilogue;

  constexpr explicit Map(E epilogue) : epilogue(epilogue) {}

  template <class X>
  constexpr MapOn<E, X> on(const X& executor) const {
    return {epilogue, executor};
  }
};

template <class E, class X>
class MapOn {
 public:
  constexpr MapOn(const E& epilogue, const X& executor) : epilogue_(epilogue), executor_(executor) {}

  // x [rows, columns]   out [rows, columns], may be x itself
  template <class L, class O>
  status run(const L& x, const Rows<O>& out) const {
    static_assert(Matrix<L>, "Load needs `operator()(row, column)`, `rows` and `columns`");
    if (out.rows != x.rows) return detail::mismatch("map: output rows", out.rows, "the rows", x.rows);
    if (out.columns != x.columns) return detail::mismatch("map: output columns", out.columns, "the columns", x.columns);
    using T = real_on<X, float>;
    for_each(executor_, static_cast<int>(x.rows), [&](int row) {
      std::vector<T> values(static_cast<std::size_t>(x.columns));
      read(x, row, 0, static_cast<int>(x.columns), values.data());
      apply(epilogue_, std::span<T>(values), row);
      for (std::int64_t c = 0; c < x.columns; ++c) out(row, c) = static_cast<O>(values[c]);
    });
    return {};
  }

 private:
  E epilogue_;
  Held<X> executor_;
};

}  // namespace fourfold
