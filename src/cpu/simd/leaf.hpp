// Where the numbers of a leaf lie. A leaf holds keys and values of up to 64 consecutive positions of one kv head: K as
// [D][keys], then V as [keys][D padded to 16]; q8_0 puts f16 scales behind each part: K [D / 32][keys], V [keys][D /
// 32]. Of keys only there are rows [keys][D padded to 16], and [keys][D / 32] scales.
#pragma once

#include "cpu/simd/inline.hpp"
#include "cpu/simd/kernels.hpp"

namespace fourfold::simd {
namespace {

// Byte offsets inside a leaf whose numbers take `size` bytes.
struct LeafLayout {
  std::size_t size, k_scales, v, v_scales, bytes;
  int v_row;  // numbers per V row; of keys only, per row
};

FOURFOLD_INLINE int padded(int d) { return (d + 15) / 16 * 16; }

FOURFOLD_INLINE LeafLayout leaf_layout(Storage type, KvShape shape, int keys = kLeafKeys) {
  const std::size_t size = type == Storage::f32 ? 4 : type == Storage::q8_0 ? 1 : 2;
  const auto numbers = [&](int d) { return static_cast<std::size_t>(keys) * static_cast<std::size_t>(d) * size; };
  const auto scales = [&](int d) { return static_cast<std::size_t>(type == Storage::q8_0 ? keys * (d / 32) * 2 : 0); };
  if (shape.keys_only) {
    const std::size_t k = numbers(padded(shape.key));
    return {size, k, 0, k, k + scales(shape.key), padded(shape.key)};
  }
  const std::size_t k = numbers(shape.key), k_end = k + scales(shape.key), v = numbers(padded(shape.value));
  return {size, k, k_end, k_end + v, k_end + v + scales(shape.value), padded(shape.value)};
}

}  // namespace
}  // namespace fourfold::simd
