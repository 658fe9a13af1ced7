// Packing and unpacking of weight tiles: byte transposes of blocks by a table of fields. Limit: the store unit (8 bytes
// a clock).
#include "cpu/simd/tile.hpp"

#include <cstring>
#include <fourfold/blocks.hpp>
#include <span>

namespace fourfold::simd {
namespace {

// A block's bytes [offset, offset + size), cut into units that stay together.
struct Field {
  int offset, size, unit;
};

constexpr Field kQ4_0[] = {{0, 2, 2}, {2, 16, 4}};
constexpr Field kQ4_1[] = {{0, 2, 2}, {2, 2, 2}, {4, 16, 4}};
constexpr Field kQ5_0[] = {{0, 2, 2}, {2, 20, 4}};
constexpr Field kQ5_1[] = {{0, 2, 2}, {2, 2, 2}, {4, 20, 4}};
constexpr Field kQ8_0[] = {{0, 2, 2}, {2, 32, 4}};
constexpr Field kQ4_K[] = {{0, 2, 2}, {2, 2, 2}, {4, 12, 1}, {16, 128, 4}};
constexpr Field kQ5_K[] = {{0, 2, 2}, {2, 2, 2}, {4, 12, 1}, {16, 160, 4}};
constexpr Field kQ6_K[] = {{0, 192, 4}, {192, 16, 1}, {208, 2, 2}};
constexpr Field kMXFP4[] = {{0, 1, 1}, {1, 16, 4}};

constexpr std::span<const Field> fields(Storage storage) {
  switch (storage) {
    case Storage::q4_0:
      return kQ4_0;
    case Storage::q4_1:
      return kQ4_1;
    case Storage::q5_0:
      return kQ5_0;
    case Storage::q5_1:
      return kQ5_1;
    case Storage::q8_0:
      return kQ8_0;
    case Storage::q4_k:
      return kQ4_K;
    case Storage::q5_k:
      return kQ5_K;
    case Storage::q6_k:
      return kQ6_K;
    case Storage::mxfp4:
      return kMXFP4;
    default:
      return {};  // a float storage is one run of units
  }
}

// Bytes of a float storage's unit: one column, or two of bf16.
constexpr int unit_bytes(Storage storage) { return storage == Storage::f16 ? 2 : 4; }
constexpr bool is_float(Storage storage) { return fields(storage).empty(); }

// Copies one row's units between consecutive places and the row's lane of a tile.
template <int kUnit>
void scatter(const std::uint8_t* row, std::uint8_t* tile, int units) {
  for (int i = 0; i < units; ++i) std::memcpy(tile + i * kUnit * kTileRows, row + i * kUnit, kUnit);
}
template <int kUnit>
void gather(std::uint8_t* row, const std::uint8_t* tile, int units) {
  for (int i = 0; i < units; ++i) std::memcpy(row + i * kUnit, tile + i * kUnit * kTileRows, kUnit);
}

// Everything about the fields is known at compile time, so that a block is a straight run of moves.
template <Storage kStorage, std::size_t kField = 0>
void scatter_block(const std::uint8_t* block, int r, std::uint8_t* tile) {
  if constexpr (kField < fields(kStorage).size()) {
    constexpr Field f = fields(kStorage)[kField];
    scatter<f.unit>(block + f.offset, tile + f.offset * kTileRows + r * f.unit, f.size / f.unit);
    scatter_block<kStorage, kField + 1>(block, r, tile);
  }
}
template <Storage kStorage, std::size_t kField = 0>
void gather_block(const std::uint8_t* tile, int r, std::uint8_t* block) {
  if constexpr (kField < fields(kStorage).size()) {
    constexpr Field f = fields(kStorage)[kField];
    gather<f.unit>(block + f.offset, tile + f.offset * kTileRows + r * f.unit, f.size / f.unit);
    gather_block<kStorage, kField + 1>(tile, r, block);
  }
}

template <Storage kStorage>
void pack_blocks(int k, const std::uint8_t* rows, std::size_t stride, int count, std::uint8_t* tile) {
  constexpr int kColumns = info(kStorage).block_elements, kBytes = info(kStorage).block_bytes;
  for (int b = 0; b < k / kColumns; ++b, rows += kBytes, tile += kBytes * kTileRows)
    for (int r = 0; r < count; ++r) scatter_block<kStorage>(rows + static_cast<std::size_t>(r) * stride, r, tile);
}

// Runs of 64 units, so that a row finds the cache lines that the previous row wrote.
template <int kUnit>
void pack_units(std::size_t bytes, const std::uint8_t* rows, std::size_t stride, int count, std::uint8_t* tile) {
  constexpr std::size_t kRun = 64 * kUnit;
  for (; bytes >= kUnit; rows += kRun, tile += kRun * kTileRows) {
    const std::size_t run = bytes < kRun ? bytes / kUnit * kUnit : kRun;
    for (int r = 0; r < count; ++r)
      scatter<kUnit>(rows + static_cast<std::size_t>(r) * stride, tile + r * kUnit, static_cast<int>(run / kUnit));
    bytes -= run;
  }
}

template <Storage kStorage>
void unpack_blocks(int k, const std::uint8_t* tile, int r, float* out) {
  constexpr int kColumns = info(kStorage).block_elements, kBytes = info(kStorage).block_bytes;
  std::uint8_t block[kBytes];
  for (int i = 0; i < k; i += kColumns, tile += kBytes * kTileRows) {
    gather_block<kStorage>(tile, r, block);
    for (int j = 0; j < kColumns; ++j) out[i + j] = decode(kStorage, block, j);
  }
}

// Calls f with the storage as a type, for block storages.
template <class F>
void with_blocks(Storage storage, F f) {
  with_storage(storage, [&](auto block) {
    if constexpr (!is_float(decltype(block)::kStorage)) f.template operator()<decltype(block)::kStorage>();
  });
}

}  // namespace

std::size_t tile_bytes(Storage storage, int k) {
  const auto row = row_bytes(storage, k);
  const auto unit = static_cast<std::size_t>(is_float(storage) ? unit_bytes(storage) : 1);
  return (row + unit - 1) / unit * unit * kTileRows;
}

std::size_t row_bytes(Storage storage, int k) {
  return static_cast<std::size_t>(k / info(storage).block_elements) *
         static_cast<std::size_t>(info(storage).block_bytes);
}

void pack_tile(Storage storage, int k, const std::uint8_t* rows, std::size_t stride, int count, std::uint8_t* tile) {
  const std::size_t row = row_bytes(storage, k);
  if (count < kTileRows) std::memset(tile, 0, tile_bytes(storage, k));
  if (!is_float(storage)) {
    with_blocks(storage, [&]<Storage kStorage>() { pack_blocks<kStorage>(k, rows, stride, count, tile); });
    return;
  }
  if (storage == Storage::f16)
    pack_units<2>(row, rows, stride, count, tile);
  else
    pack_units<4>(row, rows, stride, count, tile);
  if (storage != Storage::bf16 || k % 2 == 0) return;
  std::uint8_t* pair = tile + (row - 2) * kTileRows;  // the last one has one column
  for (int r = 0; r < kTileRows; ++r) {
    std::memset(pair + 4 * r, 0, 4);
    if (r < count) std::memcpy(pair + 4 * r, rows + static_cast<std::size_t>(r) * stride + row - 2, 2);
  }
}

void unpack_row(Storage storage, int k, const std::uint8_t* tile, int r, float* out) {
  if (!is_float(storage)) {
    with_blocks(storage, [&]<Storage kStorage>() { unpack_blocks<kStorage>(k, tile, r, out); });
    return;
  }
  const int unit = unit_bytes(storage), columns = storage == Storage::bf16 ? 2 : 1, size = unit / columns;
  for (int i = 0; i < k; ++i) {
    const std::uint8_t* lane = tile + static_cast<std::size_t>(i / columns) * (kTileRows * unit) + r * unit;
    out[i] = decode(storage, lane + i % columns * size, 0);
  }
}

}  // namespace fourfold::simd
