// Projects of many tokens on the device: y[t, r] = sum over i of w[r, i] x[t, i], with prologue and epilogue.
//
// Activations are rounded to bf16 and lie as Panels; weights are bf16 tiles (tile.hpp), or are rounded to bf16 on their
// way, by the product or into tiles of their own, which gives the same bits. Each output is one chain over ascending
// columns, whatever the number of tokens, so a prompt may be cut anywhere. A DeviceProject's addresses are those of the
// first token; the next one's lie a row further.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/project.hpp"

namespace fourfold::cuda {

inline constexpr int kPanelColumns = 64;  // 128 bytes
inline constexpr int kTokenTile = 128;    // tokens of one block of threads, or half of them
inline constexpr int kTileGroups = 8;     // row groups of one block of threads

// bf16 activations [columns / 64][tokens, padded][64], chunks swizzled as in cache.hpp. Padded tokens are never used;
// padded columns are zeros.
struct Panels {
  std::byte* data = nullptr;
  int tokens = 0;
  int columns = 0;

  constexpr int padded_tokens() const { return (tokens + kTokenTile - 1) / kTokenTile * kTokenTile; }
  constexpr int panels() const { return (columns + kPanelColumns - 1) / kPanelColumns; }
  constexpr std::size_t bytes() const {
    return std::size_t{128} * static_cast<std::size_t>(padded_tokens()) * static_cast<std::size_t>(panels());
  }
};

// Makes a Project's input: its AddNorm, if there is one; then panels of the input times the norm's weight, and the
// norm's scalar of each token, to be applied after the dot.                            scale [tokens]
cudaError_t prepare(const DeviceProject& project, const Panels& panels, float* scale, bool programmatic,
                    cudaStream_t stream);

// The dots and the epilogue; of an Append, the raw rows of its heads. The project's tiles are bf16.
cudaError_t multiply(const DeviceProject& project, const Panels& x, const float* scale, bool programmatic,
                     cudaStream_t stream);

// The same with tiles of codes.
constexpr bool decodes(Storage s) {
  return s != Storage::bf16 && s != Storage::f16 && s != Storage::f32 && s != Storage::q5_1 && s != Storage::q5_k;
}
cudaError_t multiply_decoding(const DeviceProject& project, const Panels& x, const float* scale, bool programmatic,
                              cudaStream_t stream);

// The end of an Append whose raw rows are all there.
cudaError_t append_heads(const DeviceProject& project, int tokens, bool programmatic, cudaStream_t stream);

// Weights of any storage as bf16 tiles, rounded to nearest; `to` holds unpacked_order(order, columns).tiles() tiles.
TileOrder unpacked_order(int groups, int columns);
cudaError_t unpack_tiles(Storage storage, const std::uint8_t* tiles, const TileOrder& order, int columns,
                         std::uint8_t* to, bool programmatic, cudaStream_t stream);

// All of the above for one launch of a plan. Scratch: panels and scale for `tokens`, tiles for the project unpacked.
struct PromptScratch {
  std::byte* panels = nullptr;
  float* scale = nullptr;
  std::uint8_t* tiles = nullptr;
};
cudaError_t project_prompt(const DeviceProject& project, int tokens, const PromptScratch& scratch, bool programmatic,
                           cudaStream_t stream);

// Floats from a token's to the next one's: of what the project writes.
constexpr int row_of(const DeviceProject& p) {
  return p.epilogue == DeviceEpilogue::append ? (p.heads.heads + 2 * p.heads.layout.kv_heads) * p.heads.layout.head_dim
                                              : p.dots[0].rows;
}

}  // namespace fourfold::cuda
