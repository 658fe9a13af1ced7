// One block of threads packs a tile, a word or a strip's scales per thread; bound by the gathering of single codes, and
// still faster than any file is read. Compiled without fused multiply-add, so that random numbers are the host's.
#include "cuda/pack.hpp"

namespace fourfold::cuda {
namespace {

template <class T>
__global__ void pack_tiles(const PackRows p, std::int64_t row_bytes) {
  const int group = static_cast<int>(blockIdx.x), slice = static_cast<int>(blockIdx.y);
  const int first_row = group * kTileRows, column = slice * T::kColumns;
  TileSource source{p.rows + first_row * row_bytes, row_bytes, min(kTileRows, p.count - first_row), p.columns, 1};
  std::uint8_t* tile = p.tiles + p.order.index(p.first_group + group * p.group_step, slice) * T::kBytes;
  const auto words = [&](auto plane, auto high) {
    using Plane = decltype(plane);
    for (int i = static_cast<int>(threadIdx.x); i < kTileStrips * kLanes * Plane::kWords; i += blockDim.x) {
      const int strip = i / (kLanes * Plane::kWords), lane = i / Plane::kWords % kLanes;
      pack_word<T, decltype(high)::value>(source, column + strip * T::kStripColumns, strip, lane, i % Plane::kWords,
                                          tile);
    }
  };
  words(typename T::Low{}, std::false_type{});
  if constexpr (T::High::kBytes > 0) words(typename T::High{}, std::true_type{});
  if (threadIdx.x < kTileStrips) {
    const int strip = static_cast<int>(threadIdx.x), first = column + strip * T::kStripColumns;
    std::uint8_t* out = tile + T::scale_place(strip);
    for (int i = 0; i < T::kStripScaleBytes; ++i) out[i] = 0;
    if (p.block_scales != nullptr && first < p.columns)
      source.scale = p.block_scales[first_row / 128 * ((p.columns + 127) / 128) + first / 128];
    T::scales(source, first, out);
  }
}

__global__ void random_blocks(const RandomBytes random, std::uint64_t first, std::uint64_t count, std::uint8_t* out) {
  const int size = random.size().bytes;
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step)
    random.block(first + i, out + i * static_cast<std::uint64_t>(size));
}

}  // namespace

cudaError_t pack_rows(const PackRows& p, cudaStream_t stream) {
  const auto& kind = info(p.storage);
  const std::int64_t row_bytes = std::int64_t{p.columns} / kind.block_elements * kind.block_bytes;
  const dim3 tiles(static_cast<unsigned>((p.count + kTileRows - 1) / kTileRows), static_cast<unsigned>(p.order.slices));
  if (p.decoded)
    with_storage(p.storage, [&](auto block) {
      pack_tiles<DecodedTile<decltype(block)>><<<tiles, 256, 0, stream>>>(p, row_bytes);
    });
  else
    with_tile(p.storage, [&](auto tile) { pack_tiles<decltype(tile)><<<tiles, 256, 0, stream>>>(p, row_bytes); });
  return cudaGetLastError();
}

cudaError_t make_random(const RandomBytes& random, std::uint64_t first, std::uint64_t count, std::uint8_t* out,
                        cudaStream_t stream) {
  random_blocks<<<1056, 256, 0, stream>>>(random, first, count, out);
  return cudaGetLastError();
}

}  // namespace fourfold::cuda
