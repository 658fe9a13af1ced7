// The resident weight layout: tiles of 16 rows, lane = row. One layout serves decode, prefill and the embedding gather.
//
// A matrix [N, K] is ceil(N / 16) tiles, one after the other; missing rows are zero. A tile holds all K of its 16 rows,
// block by block (a block: the storage's own 32 or 256 elements; one element of f32 and f16; two of bf16). Inside a
// block each field of the file's block lies at 16 times its file offset, cut into units of 1, 2 or 4 bytes with the 16
// rows' units side by side: a 64-byte vector is the same 4 quant bytes of 16 rows. Exactly the file's bytes, permuted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fourfold/storage.hpp>

namespace fourfold::simd {

inline constexpr int kTileRows = 16;

// Bytes of one tile of K columns (K a multiple of the storage's block).
std::size_t tile_bytes(Storage storage, int k);

// Bytes of one row of K columns as the file holds it.
std::size_t row_bytes(Storage storage, int k);

// Packs `count` (1..16) file rows, `stride` bytes apart, into one tile; the other rows become zero.
void pack_tile(Storage storage, int k, const std::uint8_t* rows, std::size_t stride, int count, std::uint8_t* tile);

// Row r of a tile as K floats: exactly blocks.hpp's decode of each element.
void unpack_row(Storage storage, int k, const std::uint8_t* tile, int r, float* out);

}  // namespace fourfold::simd
