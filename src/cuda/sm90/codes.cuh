// Codes of 4 to 6 bits as operands of f16 matrix products: a few logical operations for each pair, exact.
#pragma once

#include "cuda/sm90/mma.cuh"

namespace fourfold::cuda::sm90 {

// Bits 0..3 of both halves of `word` >> 4 pair as two f16 numbers: 1024 + code has its code in the low bits, and
// `zero` is 1024 + the number to take away. `high`: bits 4 and up of the codes, in place.
__device__ __forceinline__ std::uint32_t nibbles(std::uint32_t word, int pair, std::uint32_t high, std::uint32_t zero) {
  const std::uint32_t code = and_or(word >> (4 * pair), 0x000f000fu, high | 0x64006400u);
  return sub2(code, zero);
}

// The same without high bits, with one shift for two pairs: 1024 + 16 code is exact, too.
__device__ __forceinline__ void nibble_operands(std::uint32_t word, const std::uint32_t (&zero)[2],
                                                const std::uint32_t (&zero16)[2], std::uint32_t (&a)[4]) {
  constexpr std::uint32_t sixteenth = twice(0.0625f);
  const std::uint32_t upper = word >> 8;
  a[0] = sub2(and_or(word, 0x000f000fu, 0x64006400u), zero[0]);
  a[1] = fma2(and_or(word, 0x00f000f0u, 0x64006400u), sixteenth, zero16[1]);
  a[2] = sub2(and_or(upper, 0x000f000fu, 0x64006400u), zero[0]);
  a[3] = fma2(and_or(upper, 0x00f000f0u, 0x64006400u), sixteenth, zero16[1]);
}

// Eight e2m1 codes as 2^-14 times their value.
__device__ __forceinline__ void e2m1_operands(std::uint32_t word, std::uint32_t (&a)[4]) {
  constexpr std::uint32_t kSign = 0x80008000u, kMagnitude = 0x0e000e00u;
  a[0] = word & (kSign | kMagnitude);
  a[1] = (word << 3) & (kSign | kMagnitude);
  a[2] = and_or(word << 1, kSign, (word << 6) & kMagnitude);
  a[3] = and_or(word << 2, kSign, (word << 9) & kMagnitude);
}

__device__ __forceinline__ float float_of_half(std::uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<std::uint16_t>(bits)));
}
// Number b of four f16 in two words.
__device__ __forceinline__ float half_at(const uint2& four, int b) {
  const std::uint32_t word = b < 2 ? four.x : four.y;
  return float_of_half(b % 2 == 0 ? word & 0xffff : word >> 16);
}
__device__ __forceinline__ int byte_at(std::uint32_t word, int b) { return static_cast<int>((word >> (8 * b)) & 255); }

}  // namespace fourfold::cuda::sm90
