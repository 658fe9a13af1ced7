// Logits as keys: larger ones are better.
#pragma once

#include <cstdint>

namespace fourfold::cuda::sm90 {

// The logit's order in the high half (0: NaN), lower ids in the low half. No key is 0.
__device__ __forceinline__ unsigned long long key_of(float logit, int id) {
  const std::uint32_t bits = logit == 0 ? 0 : __float_as_uint(logit);  // -0 is 0
  const std::uint32_t order = logit != logit ? 0u : (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(order) << 32 | (0xffffffffu - static_cast<std::uint32_t>(id));
}
__device__ __forceinline__ bool is_nan(unsigned long long key) { return key >> 32 == 0; }
__device__ __forceinline__ float logit_of(unsigned long long key) {
  const auto order = static_cast<std::uint32_t>(key >> 32);
  return __uint_as_float((order & 0x80000000u) != 0 ? order & 0x7fffffffu : ~order);
}

}  // namespace fourfold::cuda::sm90
