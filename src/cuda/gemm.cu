// Launches of the prefill product and of what surrounds it.
#include "cuda/gemm.hpp"
#include "cuda/sm90/gemm.cuh"
#include "cuda/sm90/rows.cuh"

namespace fourfold::cuda {

using sm90::launch;

cudaError_t prepare(const Prepare& step, bool programmatic, cudaStream_t stream) {
  return launch(sm90::prepare_kernel,
                {dim3(static_cast<unsigned>(step.panels.tokens)), sm90::kRowThreads, 0, programmatic}, stream, step);
}

cudaError_t multiply(const Product& product, bool programmatic, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(product.x.padded_tokens() / kTokenTile),
                  static_cast<unsigned>((product.order.groups + kTileGroups - 1) / kTileGroups));
  return launch(sm90::gemm_kernel, {grid, sm90::GemmShape::kThreads, sm90::GemmShape::kSharedBytes, programmatic},
                stream, product);
}

TileOrder unpacked_order(int groups, int columns) {
  constexpr int kColumns = Tile<Storage::bf16>::kColumns;
  return {groups, (columns + kColumns - 1) / kColumns, 1};
}

cudaError_t unpack_tiles(Storage storage, const std::uint8_t* tiles, const TileOrder& order, int columns,
                         std::uint8_t* to, cudaStream_t stream) {
  const TileOrder to_order = unpacked_order(order.groups, columns);
  const std::int64_t threads = to_order.tiles() * kTileStrips * Tile<Storage::bf16>::kSteps * kLanes;
  return with_tile(storage, [&](auto tile) {
    return launch(sm90::unpack_kernel<decltype(tile)>,
                  {dim3(static_cast<unsigned>((threads + 255) / 256)), 256, 0, false}, stream, tiles, order, columns,
                  to, to_order);
  });
}

cudaError_t append_heads(const AppendHeads& step, bool programmatic, cudaStream_t stream) {
  constexpr int kWarps = sm90::kRowThreads / 32;
  const int heads = step.heads + 2 * step.layout.kv_heads;
  const dim3 grid(static_cast<unsigned>((heads + kWarps - 1) / kWarps), static_cast<unsigned>(step.tokens));
  const auto run = [&](auto kernel) {
    return launch(kernel, {grid, sm90::kRowThreads, 0, programmatic}, stream, step);
  };
  switch (step.type) {
    case KvType::bf16:
      return run(sm90::append_kernel<sm90::Kv16<sm90::Bf16>>);
    case KvType::f16:
      return run(sm90::append_kernel<sm90::Kv16<sm90::F16>>);
    case KvType::f8:
      break;
  }
  return run(sm90::append_kernel<sm90::Kv8>);
}

cudaError_t make_turns(const double* inverse_frequency, int pairs, const int* position, int tokens, float2* turns,
                       bool programmatic, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>((tokens * pairs + 255) / 256));
  return launch(sm90::turns_kernel, {grid, 256, 0, programmatic}, stream, inverse_frequency, pairs, position, tokens,
                turns);
}

}  // namespace fourfold::cuda
