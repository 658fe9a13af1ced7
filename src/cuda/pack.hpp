// Packing on the device: rows as a file holds them become tiles; random rows are made where they are needed.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda/tile.hpp"
#include "program/random_bytes.hpp"

namespace fourfold::cuda {

struct PackRows {
  Storage storage;           // of `rows`
  bool decoded = false;      // pack as f32, whatever the storage
  const std::uint8_t* rows;  // on the device
  int count, columns;
  std::uint8_t* tiles;  // of the whole order
  TileOrder order;
  int first_group, group_step;          // row group i of these becomes first_group + i * group_step
  const float* block_scales = nullptr;  // of 128 x 128 blocks [.., columns / 128], from the first row's block on
};

// The storage that weights have on the device: their own where it has a tile, else f32.
constexpr Storage resident_storage(Storage s) { return s == Storage::q5_1 || s == Storage::q5_k ? Storage::f32 : s; }

cudaError_t pack_rows(const PackRows& pack, cudaStream_t stream);

// Blocks [first, first + count) of a random tensor.
cudaError_t make_random(const RandomBytes& random, std::uint64_t first, std::uint64_t count, std::uint8_t* out,
                        cudaStream_t stream);

}  // namespace fourfold::cuda
