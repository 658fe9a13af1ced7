// Load: turns stored bytes into numbers.
//
// A load answers load(row, column) -> float or double, 0 <= row, column; rows are 64-bit. As a matrix it also has
// `rows` and `columns`. Optional hook, used by fast drivers when it is there:
//   load.read(row, column, count, float* out)   the same numbers, `count` of them along the row.
// Rows<T> (tensor.hpp) is the plainest load.
#pragma once

#include <concepts>
#include <cstdint>
#include <fourfold/blocks.hpp>
#include <fourfold/tensor.hpp>
#include <fourfold/walk_lists.hpp>

namespace fourfold {

template <class L>
concept Load = requires(const L& load, std::int64_t row, std::int64_t column) {
  { load(row, column) } -> std::convertible_to<float>;
};
template <class L>
concept Matrix = Load<L> && requires(const L& load) {
  { load.rows } -> std::convertible_to<std::int64_t>;
  { load.columns } -> std::convertible_to<std::int64_t>;
};

// Rows of blocks one after the other; Block is one of `fourfold::blocks`. `columns` is a multiple of its elements.
template <class Block>
struct Contiguous {
  static constexpr int kElements = info(Block::kStorage).block_elements;
  static constexpr int kBytes = info(Block::kStorage).block_bytes;

  const std::uint8_t* data;
  std::int64_t rows, columns;
  std::int64_t row_bytes;

  constexpr Contiguous(const std::uint8_t* data, std::int64_t rows, std::int64_t columns)
      : Contiguous(data, rows, columns, columns / kElements * kBytes) {}
  constexpr Contiguous(const std::uint8_t* data, std::int64_t rows, std::int64_t columns, std::int64_t row_bytes)
      : data(data), rows(rows), columns(columns), row_bytes(row_bytes) {}

  constexpr float operator()(std::int64_t row, std::int64_t column) const {
    const std::uint8_t* block = data + row * row_bytes + column / kElements * kBytes;
    return Block::at(block, static_cast<int>(column % kElements));
  }
};

// The same, for a storage known at run time.
struct Stored {
  Storage storage;
  const std::uint8_t* data;
  std::int64_t rows, columns;

  constexpr float operator()(std::int64_t row, std::int64_t column) const {
    return with_storage(storage,
                        [&](auto block) { return Contiguous<decltype(block)>(data, rows, columns)(row, column); });
  }
};

// Row k of a sequence, wherever its page lies in the pool.
template <class Pool>
struct Paged {
  Pool pool;
  PageTable table;
  std::int64_t rows, columns;

  constexpr Paged(Pool pool, PageTable table) : pool(pool), table(table), rows(table.length()), columns(pool.columns) {}

  constexpr auto operator()(std::int64_t row, std::int64_t column) const { return pool(table.row(row), column); }
};

// `count` numbers of a row, through the load's own hook if it has one.
template <class T, Load L>
constexpr void read(const L& load, std::int64_t row, std::int64_t column, int count, T* out) {
  if constexpr (requires { load.read(row, column, count, out); }) {
    load.read(row, column, count, out);
  } else {
    for (int i = 0; i < count; ++i) out[i] = static_cast<T>(load(row, column + i));
  }
}

}  // namespace fourfold
