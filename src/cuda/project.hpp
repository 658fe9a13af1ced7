// A Project of one token on the device: what its kernel takes. One launch covers dots of one storage whose tiles lie in
// one stretch; an Append of mixed storages takes a launch for each run of them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "cuda/attend.hpp"
#include "cuda/tile.hpp"
#include "fourfold/program.hpp"

namespace fourfold::cuda {

// y = scale * x * weight / sqrt(mean(x^2) + eps); weight null: no norm.
struct DeviceNorm {
  const float* weight = nullptr;
  float eps = 0;
  float scale = 1;
};

// Rows of a launch: y[r] = scale * (scales[r] * sum + bias[r]).
struct DeviceDot {
  int first_group = 0;  // of the launch
  int rows = 0;
  const float* bias = nullptr;    // [rows]; null: 0
  const float* scales = nullptr;  // [rows]; null: 1
  float scale = 1;
  int first_row = 0;  // Append: in the raw row of queries, keys and values
};

// What an Append does with the heads once all their rows are known. Heads: queries, then keys, then values.
struct DeviceHeads {
  float* raw = nullptr;         // [(heads + 2 kv_heads) * head_dim]
  unsigned* arrived = nullptr;  // [heads + 2 kv_heads]: rows that are known; zeros between launches
  DeviceNorm query_norm{}, key_norm{};
  const float2* turns = nullptr;  // cos, sin [position][rope_dims / 2]; null: none
  int rope_dims = 0;              // behind the first rope_skip
  int rope_skip = 0;
  bool interleaved = false;
  int heads = 0;
  float* query = nullptr;      // [heads, head_dim]
  std::byte* cache = nullptr;  // of the layer
  CacheLayout layout{};
  KvType type = KvType::bf16;
};

enum class DeviceEpilogue : std::uint8_t { store, add, gated, append };

struct DeviceProject {
  Storage storage = Storage::bf16;  // of the tiles: one that has a tile
  const std::uint8_t* tiles = nullptr;
  TileOrder order{};
  int columns = 0;
  const float* in = nullptr;  // [columns]
  DeviceNorm norm{};
  // The AddNorm in front: in = add_x + norm(add_y), also written to add_out. add_y null: none.
  const float* add_x = nullptr;
  const float* add_y = nullptr;
  DeviceNorm add_norm{};
  float* add_out = nullptr;

  DeviceDot dots[3]{};
  int dot_count = 0;
  DeviceEpilogue epilogue = DeviceEpilogue::store;
  Activation activation = Activation::none;  // store, gated
  float soft_cap = 0;                        // store
  const float* residual = nullptr;           // add
  float* out = nullptr;                      // store, add, gated
  DeviceHeads heads{};
  const int* position = nullptr;  // on the device
};

// One token through a Project. `programmatic`: may start before the kernel before it in the stream ends, and streams
// weights meanwhile. multiprocessors: how many share the work; results do not depend on it.
cudaError_t project_token(const DeviceProject& project, int multiprocessors, bool programmatic, cudaStream_t stream);

}  // namespace fourfold::cuda
