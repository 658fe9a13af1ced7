// Views of matrices in memory. A view owns nothing; indices are not checked, addresses are 64-bit.
#pragma once

#include <cstdint>
#include <fourfold/status.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace fourfold {

// Row-major numbers: element (r, c) stands at data[r * stride + c]. Also the plainest Load.
template <class T>
struct Rows {
  T* data = nullptr;
  std::int64_t rows = 0, columns = 0, stride = 0;

  constexpr Rows() = default;
  constexpr Rows(T* data, std::int64_t rows, std::int64_t columns) : Rows(data, rows, columns, columns) {}
  constexpr Rows(T* data, std::int64_t rows, std::int64_t columns, std::int64_t stride)
      : data(data), rows(rows), columns(columns), stride(stride) {}

  constexpr T& operator()(std::int64_t row, std::int64_t column) const { return data[row * stride + column]; }
  constexpr std::span<T> row(std::int64_t r) const { return {data + r * stride, static_cast<std::size_t>(columns)}; }
};

// A matrix of tokens whose row holds `heads` vectors one after the other.  [tokens, heads, dim]
template <class M>
struct Heads {
  M matrix;
  int heads;
  int width;  // of one head: dim()

  constexpr Heads(M matrix, int heads)
      : matrix(matrix), heads(heads), width(heads > 0 ? static_cast<int>(matrix.columns / heads) : 0) {}

  constexpr int tokens() const { return static_cast<int>(matrix.rows); }
  constexpr int dim() const { return width; }
  constexpr decltype(auto) operator()(std::int64_t token, int head, int d) const {
    return matrix(token, std::int64_t{head} * width + d);
  }
};

// The type of a matrix's elements.
template <class M>
using element_of = std::remove_cvref_t<decltype(std::declval<const M&>()(0, 0))>;

// Sequences packed one after the other. Sequence s owns the queries [queries[s], queries[s + 1]) and the keys
// [keys[s], keys[s + 1]); any may be empty. Its last query stands at the position of its last key.
struct Sequences {
  std::span<const int> queries, keys;  // n + 1 ascending offsets each

  constexpr int count() const { return static_cast<int>(queries.size()) - 1; }
};

namespace detail {

inline status check_offsets(const char* name, std::span<const int> offsets, int tokens) {
  const auto bad = [&](const std::string& why) { return status(Code::invalid_argument, name + (": " + why)); };
  if (offsets.empty() || offsets.front() != 0) return bad("the first offset must be 0");
  for (std::size_t i = 1; i < offsets.size(); ++i)
    if (offsets[i] < offsets[i - 1])
      return bad("offset " + std::to_string(offsets[i]) + " follows " + std::to_string(offsets[i - 1]) +
                 "; offsets must not descend");
  if (offsets.back() != tokens)
    return bad("the last offset is " + std::to_string(offsets.back()) + ", must be the number of tokens, " +
               std::to_string(tokens));
  return {};
}

}  // namespace detail

}  // namespace fourfold
