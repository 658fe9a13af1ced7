// Projections of many tokens on the device: y[t, r] = sum over i of w[r, i] x[t, i], with the prologue and epilogue of
// a Project step.
//
// Activations are rounded to bf16 and lie as Panels; weights as bf16 tiles (tile.hpp), or unpacked into such. Each
// output is one chain over ascending columns, whatever the number of tokens, so a prompt may be cut anywhere.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cuda/attend.hpp"
#include "cuda/tile.hpp"
#include "fourfold/program.hpp"

namespace fourfold::cuda {

inline constexpr int kPanelColumns = 64;  // 128 bytes
inline constexpr int kTokenTile = 128;    // tokens of one block of threads
inline constexpr int kTileGroups = 8;     // row groups of one block of threads

// bf16 activations [columns / 64][tokens, padded][64], chunks swizzled as in cache.hpp; what is padded is never used,
// but columns beyond the matrix are zeros.
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

// Makes a Project's input: in = x, or (AddNorm) out = x + norm(y) where `y` is set; then panels of in * weight, and the
// norm's scalar of each token, which is applied after the dot; or of in as it is where `weight` is none.
struct Prepare {
  const float* x = nullptr;  // [tokens, columns]
  const float* y = nullptr;  // [tokens, columns], or none
  const float* post_weight = nullptr;
  float post_eps = 0;
  float* sum = nullptr;           // [tokens, columns], where `y` is set
  const float* weight = nullptr;  // [columns], or none
  float eps = 0;
  Panels panels{};
  float* scale = nullptr;  // [tokens]
};
cudaError_t prepare(const Prepare& step, bool programmatic, cudaStream_t stream);

// How a product is finished: y = scale[t] dot + bias[r], then
enum class Finish : std::uint8_t {
  store,  // out[t, r] = y, soft-capped where soft_cap > 0
  add,    // out[t, r] = residual[t, r] + y
  gate,   // groups alternate between gate and up: out[t, r] = activation(gate) up
};
struct Product {
  const std::uint8_t* tiles = nullptr;  // bf16
  TileOrder order{};
  int rows = 0;  // of the matrix; `gate`: of gate and up together, both whole groups or the last one short
  Panels x{};
  const float* scale = nullptr;  // [tokens]
  const float* bias = nullptr;   // [rows as they lie in tiles], or none
  Finish finish = Finish::store;
  Activation activation = Activation::silu;
  float soft_cap = 0;
  const float* residual = nullptr;  // [tokens, out_width]
  float* out = nullptr;             // [tokens, out_width]
  int out_width = 0;
};
cudaError_t multiply(const Product& product, bool programmatic, cudaStream_t stream);

// Weights of any storage as bf16 tiles, rounded to nearest; `to` holds unpacked_order(order, columns).tiles() tiles.
TileOrder unpacked_order(int groups, int columns);
cudaError_t unpack_tiles(Storage storage, const std::uint8_t* tiles, const TileOrder& order, int columns,
                         std::uint8_t* to, cudaStream_t stream);

// The epilogue of query, key and value: norms of heads, rotation, append to the cache.
struct AppendHeads {
  const float* dots = nullptr;  // [tokens, width]: query heads from column 0, keys and values from their own on
  int width = 0;
  int key_column = 0, value_column = 0;
  int tokens = 0, heads = 0;
  const float* query_norm = nullptr;  // [head_dim], or none
  const float* key_norm = nullptr;
  float query_eps = 0, key_eps = 0;
  const float2* turns = nullptr;  // [tokens][turned / 2] {cos, sin}, or none
  int turned = 0;                 // leading dims of a head
  bool interleaved = false;
  const int* position = nullptr;
  float* query = nullptr;  // [tokens, heads, head_dim]
  std::byte* cache = nullptr;
  CacheLayout layout{};
  KvType type = KvType::bf16;
};
cudaError_t append_heads(const AppendHeads& step, bool programmatic, cudaStream_t stream);

// turns[t][pair] = {cos, sin} of (*position + t) * inverse_frequency[pair], in double until the end.
cudaError_t make_turns(const double* inverse_frequency, int pairs, const int* position, int tokens, float2* turns,
                       bool programmatic, cudaStream_t stream);

}  // namespace fourfold::cuda
