// Sizes that callers of the kernels allocate by.
#include "cpu/simd/kernels.hpp"

namespace fourfold::simd {

std::size_t prepared_bytes(Rounding kind, int k) {
  const auto n = static_cast<std::size_t>(k);
  const std::size_t bytes = kind == Rounding::f32    ? n * 4
                            : kind == Rounding::bf16 ? (n + 1) / 2 * 4
                                                     : (n + 31) / 32 * sizeof(QuantBlock);
  return (bytes + 63) / 64 * 64;
}

}  // namespace fourfold::simd
