// Launches of the prefill product and of what surrounds it.
#include "cuda/prompt.hpp"
#include "cuda/sm90/gemm.cuh"
#include "cuda/sm90/launch.cuh"
#include "cuda/sm90/rows.cuh"
#include "cuda/sm90/unpack.cuh"

namespace fourfold::cuda {

using sm90::launch;

namespace {
constexpr int kWidePrompt = 1024;    // tokens from which there are enough wide tiles
constexpr int kDecodedPrompt = 512;  // up to which decoding codes for each tile of tokens is less than unpacking them
}  // namespace

cudaError_t prepare(const DeviceProject& project, const Panels& panels, float* scale, bool programmatic,
                    cudaStream_t stream) {
  return launch(sm90::prepare_kernel, {dim3(static_cast<unsigned>(panels.tokens)), sm90::kRowThreads, 0, programmatic},
                stream, project, panels, scale);
}

cudaError_t multiply(const DeviceProject& project, const Panels& x, const float* scale, bool programmatic,
                     cudaStream_t stream) {
  if (project.storage != Storage::bf16) return cudaErrorInvalidValue;
  using T = Tile<Storage::bf16>;
  // Wide tiles read less from L2, but only many of them fill the chip. Bits are the same.
  return x.tokens > kWidePrompt ? sm90::launch_gemm<2 * kTokenTile, T>(project, x, scale, programmatic, stream)
                                : sm90::launch_gemm<kTokenTile, T>(project, x, scale, programmatic, stream);
}

cudaError_t append_heads(const DeviceProject& project, int tokens, bool programmatic, cudaStream_t stream) {
  constexpr int kWarps = sm90::kRowThreads / 32;
  const int heads = project.heads.heads + 2 * project.heads.layout.kv_heads;
  const dim3 grid(static_cast<unsigned>((heads + kWarps - 1) / kWarps), static_cast<unsigned>(tokens));
  return launch(sm90::append_kernel, {grid, sm90::kRowThreads, 0, programmatic}, stream, project);
}

TileOrder unpacked_order(int groups, int columns) {
  constexpr int kColumns = Tile<Storage::bf16>::kColumns;
  return {groups, (columns + kColumns - 1) / kColumns, 1};
}

cudaError_t unpack_tiles(Storage storage, const std::uint8_t* tiles, const TileOrder& order, int columns,
                         std::uint8_t* to, bool programmatic, cudaStream_t stream) {
  const TileOrder to_order = unpacked_order(order.groups, columns);
  const dim3 grid(static_cast<unsigned>(order.slices), static_cast<unsigned>(order.groups));
  return with_tile(storage, [&](auto tile) {
    return launch(sm90::unpack_kernel<decltype(tile)>, {grid, kTileStrips * kLanes, 0, programmatic}, stream, tiles,
                  order, to, to_order);
  });
}

cudaError_t embed_prompt(const WeightRun& table, float scale, const int* ids, int tokens, float* out, bool programmatic,
                         cudaStream_t stream) {
  return with_tile(table.storage, [&](auto tile) {
    return launch(sm90::embed_kernel<decltype(tile)>,
                  {dim3(static_cast<unsigned>(tokens)), sm90::kRowThreads, 0, programmatic}, stream, table.tiles,
                  table.order, table.columns, ids, scale, out);
  });
}

cudaError_t project_prompt(const DeviceProject& project, int tokens, const PromptScratch& scratch, bool programmatic,
                           cudaStream_t stream) {
  DeviceProject p = project;
  const Panels panels{scratch.panels, tokens, p.columns};
  cudaError_t error = prepare(p, panels, scratch.scale, programmatic, stream);
  if (error == cudaSuccess && decodes(p.storage) && tokens <= kDecodedPrompt) {
    error = multiply_decoding(p, panels, scratch.scale, true, stream);
  } else if (error == cudaSuccess) {
    const bool resident = p.storage == Storage::bf16;
    if (!resident) {
      error = unpack_tiles(p.storage, p.tiles, p.order, p.columns, scratch.tiles, true, stream);
      p.storage = Storage::bf16;
      p.tiles = scratch.tiles;
      p.order = unpacked_order(p.order.groups, p.columns);
    }
    // A product that starts early fetches weights at once, so those may not be under way.
    if (error == cudaSuccess) error = multiply(p, panels, scratch.scale, resident, stream);
  }
  const DeviceDot& last = p.dots[p.dot_count - 1];
  const bool complete = p.epilogue == DeviceEpilogue::append && last.first_row + last.rows == row_of(p);
  return error == cudaSuccess && complete ? append_heads(p, tokens, true, stream) : error;
}

}  // namespace fourfold::cuda
