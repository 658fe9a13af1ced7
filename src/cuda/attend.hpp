// Attention on the device: what its kernels take, and how they are launched.
//
// out[t, h] = fold over the keys that token t sees, of softmax(score(q . k)) v, as fold.hpp defines it; keys and values
// are read from the cache, those of the tokens themselves too, so they are appended before. Query head h reads kv head
// h / (heads / kv_heads).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "cuda/cache.hpp"

namespace fourfold::cuda {

enum class KvType : std::uint8_t { bf16, f16, f8 };  // f8: e4m3 without a scale

struct Attention {
  const float* query = nullptr;  // [tokens, heads, head_dim]
  float* out = nullptr;          // the same
  const std::byte* cache = nullptr;
  CacheLayout layout{};
  KvType type = KvType::bf16;
  int heads = 0;
  int tokens = 0;
  const int* position = nullptr;  // of the first token, on the device
  const float* sinks = nullptr;   // [heads] on the device, or none
  void* scratch = nullptr;        // decode: attend_scratch_bytes of zeros, left as zeros
};

struct AttentionKind {
  int window = 0;  // 0: everything before
  float scale = 1;
  float soft_cap = 0;  // 0: none
};

// Decode cuts the keys of a unit (a kv head, up to 8 of its query heads) into blocks that run side by side. The cut
// depends on the number of visible keys alone, so results do not depend on the device.
inline constexpr int kUnitHeads = 8;

constexpr int attend_units(const CacheLayout& layout, int heads) {
  const int group = heads / layout.kv_heads;
  return layout.kv_heads * ((group + kUnitHeads - 1) / kUnitHeads);
}
// Most blocks of a unit: about 128 in all, one for each multiprocessor; each one's state is merged by one of them.
constexpr int attend_blocks(int units) { return units >= 128 ? 1 : units <= 4 ? 32 : 128 / units; }
// Bytes behind Attention::scratch: a counter per unit, then the blocks' states.
constexpr std::size_t attend_scratch_bytes(const CacheLayout& layout, int heads) {
  const int units = attend_units(layout, heads);
  const std::size_t states = std::size_t{kUnitHeads} * static_cast<std::size_t>(units * attend_blocks(units));
  return 256 * static_cast<std::size_t>((units + 63) / 64) +
         states * (static_cast<std::size_t>(layout.stored_dim()) + 2) * sizeof(float);
}

// One token. `programmatic`: may start before the kernel before it in the stream ends; that kernel may write the query
// and the cache at `position`, but `position` itself has to be older. A leaf that ends before `position` is read early.
cudaError_t attend_decode(const Attention& attention, const AttentionKind& kind, bool programmatic,
                          cudaStream_t stream);
// Any number of tokens.
cudaError_t attend_prefill(const Attention& attention, const AttentionKind& kind, bool programmatic,
                           cudaStream_t stream);

}  // namespace fourfold::cuda
