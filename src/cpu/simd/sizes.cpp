// Sizes that callers of the kernels allocate by.
#include "cpu/simd/cache.hpp"

namespace fourfold::simd {

std::size_t prepared_bytes(Rounding kind, int k) {
  const auto n = static_cast<std::size_t>(k);
  const std::size_t bytes = kind == Rounding::f32    ? n * 4
                            : kind == Rounding::bf16 ? (n + 1) / 2 * 4
                                                     : (n + 31) / 32 * sizeof(QuantBlock);
  return (bytes + 63) / 64 * 64;
}

std::size_t kv_leaf_bytes(Storage type, KvShape shape) {
  for (const int d : {shape.key, shape.value}) {
    if (d <= 0 || d > kMaxHeadDim) return 0;
    if (type == Storage::q8_0 ? d % 32 != 0 : info(type).block_elements != 1) return 0;
  }
  return (leaf_layout(type, shape).bytes + 63) / 64 * 64;
}

}  // namespace fourfold::simd
