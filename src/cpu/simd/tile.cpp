// Packing and unpacking of weight tiles: byte transposes of blocks by a table of fields. Limit: the store unit.
#include "cpu/simd/tile.hpp"

#include <array>
#include <cstring>
#include <fourfold/blocks.hpp>
#include <span>

namespace fourfold::simd {
namespace {

// A block's bytes [offset, offset + size), cut into units that stay together.
struct Field {
  int offset, size, unit;
};

constexpr Field kF32[] = {{0, 4, 4}};
constexpr Field kF16[] = {{0, 2, 2}};
constexpr Field kBf16[] = {{0, 4, 4}};  // a pair of columns
constexpr Field kQ4_0[] = {{0, 2, 2}, {2, 16, 4}};
constexpr Field kQ4_1[] = {{0, 2, 2}, {2, 2, 2}, {4, 16, 4}};
constexpr Field kQ5_0[] = {{0, 2, 2}, {2, 20, 4}};
constexpr Field kQ5_1[] = {{0, 2, 2}, {2, 2, 2}, {4, 20, 4}};
constexpr Field kQ8_0[] = {{0, 2, 2}, {2, 32, 4}};
constexpr Field kQ4_K[] = {{0, 2, 2}, {2, 2, 2}, {4, 12, 1}, {16, 128, 4}};
constexpr Field kQ5_K[] = {{0, 2, 2}, {2, 2, 2}, {4, 12, 1}, {16, 160, 4}};
constexpr Field kQ6_K[] = {{0, 192, 4}, {192, 16, 1}, {208, 2, 2}};

// How a storage's blocks are cut; `columns` and `bytes` are one block's (bf16: a pair's).
struct Layout {
  std::span<const Field> fields;
  int columns, bytes;
};

constexpr Layout layout(Storage storage) {
  constexpr std::span<const Field> kFields[] = {kF32,  kF16,  kBf16, kQ4_0, kQ4_1, kQ5_0,
                                                kQ5_1, kQ8_0, kQ4_K, kQ5_K, kQ6_K};
  if (storage == Storage::bf16) return {kBf16, 2, 4};
  return {kFields[static_cast<std::size_t>(storage)], info(storage).block_elements, info(storage).block_bytes};
}

int blocks_of(const Layout& cut, int k) { return (k + cut.columns - 1) / cut.columns; }

// Copies one row's units of a field between a file block and a tile block.
template <int kUnit>
void scatter(const std::uint8_t* row, std::uint8_t* tile, int units) {
  for (int i = 0; i < units; ++i) std::memcpy(tile + i * kUnit * kTileRows, row + i * kUnit, kUnit);
}
template <int kUnit>
void gather(std::uint8_t* row, const std::uint8_t* tile, int units) {
  for (int i = 0; i < units; ++i) std::memcpy(row + i * kUnit, tile + i * kUnit * kTileRows, kUnit);
}

void scatter_block(const Layout& cut, const std::uint8_t* block, int r, std::uint8_t* tile) {
  for (const Field& f : cut.fields) {
    std::uint8_t* to = tile + f.offset * kTileRows + r * f.unit;
    if (f.unit == 4)
      scatter<4>(block + f.offset, to, f.size / 4);
    else if (f.unit == 2)
      scatter<2>(block + f.offset, to, f.size / 2);
    else
      scatter<1>(block + f.offset, to, f.size);
  }
}

void gather_block(const Layout& cut, const std::uint8_t* tile, int r, std::uint8_t* block) {
  for (const Field& f : cut.fields) {
    const std::uint8_t* from = tile + f.offset * kTileRows + r * f.unit;
    if (f.unit == 4)
      gather<4>(block + f.offset, from, f.size / 4);
    else if (f.unit == 2)
      gather<2>(block + f.offset, from, f.size / 2);
    else
      gather<1>(block + f.offset, from, f.size);
  }
}

}  // namespace

std::size_t tile_bytes(Storage storage, int k) {
  const Layout cut = layout(storage);
  return static_cast<std::size_t>(blocks_of(cut, k)) * static_cast<std::size_t>(cut.bytes * kTileRows);
}

std::size_t row_bytes(Storage storage, int k) {
  return static_cast<std::size_t>(k / info(storage).block_elements) *
         static_cast<std::size_t>(info(storage).block_bytes);
}

void pack_tile(Storage storage, int k, const std::uint8_t* rows, std::size_t stride, int count, std::uint8_t* tile) {
  const Layout cut = layout(storage);
  if (count < kTileRows) std::memset(tile, 0, tile_bytes(storage, k));
  const bool odd = storage == Storage::bf16 && k % 2 != 0;  // the last pair has one column
  const int blocks = blocks_of(cut, k), whole = odd ? blocks - 1 : blocks;
  for (int b = 0; b < whole; ++b, tile += cut.bytes * kTileRows)
    for (int r = 0; r < count; ++r)
      scatter_block(cut, rows + static_cast<std::size_t>(r) * stride + static_cast<std::size_t>(b) * cut.bytes, r,
                    tile);
  for (int r = 0; odd && r < count; ++r) {
    std::uint8_t pair[4] = {};
    std::memcpy(pair, rows + static_cast<std::size_t>(r) * stride + static_cast<std::size_t>(whole) * 4, 2);
    scatter_block(cut, pair, r, tile);
  }
}

void unpack_row(Storage storage, int k, const std::uint8_t* tile, int r, float* out) {
  const Layout cut = layout(storage);
  std::uint8_t block[256];
  for (int i = 0; i < k; i += cut.columns, tile += cut.bytes * kTileRows) {
    gather_block(cut, tile, r, block);
    if (storage == Storage::bf16) {  // here a block is a pair
      out[i] = decode(storage, block, 0);
      if (i + 1 < k) out[i + 1] = decode(storage, block + 2, 0);
    } else {
      for (int j = 0; j < cut.columns; ++j) out[i + j] = decode(storage, block, j);
    }
  }
}

}  // namespace fourfold::simd
