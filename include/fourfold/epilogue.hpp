// Epilogue: a map on finished values, before they are stored.
//
// Element by element:  epilogue(x, row, column) -> number            the shape of a Score; every Score is one
// Row by row:          epilogue.row(std::span<T> values, int row)    changes a whole row, T float or double
// Row and column are those of the output matrix. Epilogues chain with `|`, the first first.
#pragma once

#include <cstdint>
#include <fourfold/load.hpp>
#include <fourfold/math.hpp>
#include <fourfold/score.hpp>
#include <span>

namespace fourfold {

template <class E>
concept RowEpilogue = requires(const E& epilogue, std::span<float> values) {
  epilogue.row(values, 0);
};
template <class E>
concept Epilogue = Score<E> || RowEpilogue<E>;

template <class T, Epilogue E>
constexpr void apply(const E& epilogue, std::span<T> values, int row) {
  if constexpr (RowEpilogue<E>) {
    epilogue.row(values, row);
  } else {
    for (int c = 0; c < static_cast<int>(values.size()); ++c) values[c] = static_cast<T>(epilogue(values[c], row, c));
  }
}

// A chain of which at least one part needs the whole row.
template <class First, class Second>
struct RowChain {
  First first;
  Second second;

  template <class T>
  constexpr void row(std::span<T> values, int r) const {
    apply(first, values, r);
    apply(second, values, r);
  }
};

template <Epilogue A, Epilogue B>
requires RowEpilogue<A> || RowEpilogue<B>
constexpr RowChain<A, B> operator|(A a, B b) { return {a, b}; }

// x + other(row, column): a residual.
template <Load L>
struct Add {
  L other;

  constexpr explicit Add(L other) : other(other) {}
  template <class T>
  constexpr T operator()(T x, int row, int column) const {
    return x + static_cast<T>(other(row, column));
  }
};

// x + bias[column]
struct AddBias {
  const float* bias;  // [columns]

  template <class T>
  constexpr T operator()(T x, int, int column) const {
    return x + static_cast<T>(bias[column]);
  }
};

// x sigmoid(x)
struct Silu {
  template <class T>
  constexpr T operator()(T x, int, int) const {
    return x * sigmoid(x);
  }
};

// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): the tanh form of GELU. Hendrycks and Gimpel 2016.
struct GeluTanh {
  template <class T>
  constexpr T operator()(T x, int, int) const {
    const T inner = T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
    return T(0.5) * x * (T(1) + fourfold::tanh(inner));
  }
};

// activation(x) * other(row, column): a gated feed-forward's product.
template <Score A, Load L>
struct Gate {
  A activation;
  L other;

  constexpr Gate(A activation, L other) : activation(activation), other(other) {}
  template <class T>
  constexpr T operator()(T x, int row, int column) const {
    return activation(x, row, column) * static_cast<T>(other(row, column));
  }
};

namespace detail {

// Sum of f(x), as fixed partials of 256 elements added in order.
template <class T, class F>
constexpr T sum_of(std::span<const T> values, F f) {
  T sum = 0;
  for (std::size_t first = 0; first < values.size(); first += 256) {
    T partial = 0;
    for (std::size_t i = first; i < values.size() && i < first + 256; ++i) partial += f(values[i]);
    sum += partial;
  }
  return sum;
}

}  // namespace detail

// x weight / sqrt(mean(x^2) + epsilon), over the row or over each `group` columns of it (a head). Zhang, Sennrich 2019.
template <class W = float>
struct RmsNorm {
  const W* weight;  // [group], or [columns]
  float epsilon;
  int group = 0;  // 0: the whole row

  template <class T>
  constexpr void row(std::span<T> values, int) const {
    const std::size_t size = group > 0 ? group : values.size();
    for (std::size_t first = 0; first + size <= values.size() && size > 0; first += size) {
      const std::span<T> part = values.subspan(first, size);
      const T squares = detail::sum_of<T>(part, [](T x) { return x * x; });
      const T scale = rsqrt(squares / static_cast<T>(size) + static_cast<T>(epsilon));
      for (std::size_t i = 0; i < size; ++i) part[i] = part[i] * scale * static_cast<T>(weight[i]);
    }
  }
};
template <class W>
RmsNorm(const W*, float, int = 0) -> RmsNorm<W>;

// (x - mean) weight / sqrt(variance + epsilon) + bias. Ba, Kiros, Hinton 2016.
template <class W = float>
struct LayerNorm {
  const W* weight;  // [columns]
  const W* bias;    // [columns]
  float epsilon;

  template <class T>
  constexpr void row(std::span<T> values, int) const {
    const T n = static_cast<T>(values.size());
    const T mean = detail::sum_of<T>(values, [](T x) { return x; }) / n;
    const T variance = detail::sum_of<T>(values, [=](T x) { return (x - mean) * (x - mean); }) / n;
    const T scale = rsqrt(variance + static_cast<T>(epsilon));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = (values[i] - mean) * scale * static_cast<T>(weight[i]) + static_cast<T>(bias[i]);
  }
};
template <class W>
LayerNorm(const W*, const W*, float) -> LayerNorm<W>;

}  // namespace fourfold
