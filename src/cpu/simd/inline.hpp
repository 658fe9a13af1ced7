// What the kernels' translation units share: forced inlining, so that no function of one ISA can be linked into
// another, and unaligned scalar access.
#pragma once

#include <cstdint>

// A static member or function that is always inlined.
#define FOURFOLD_INLINE [[gnu::always_inline]] static inline
// Unrolls the loop that follows, so that register arrays have constant indices.
#define FOURFOLD_UNROLL _Pragma("GCC unroll 32")

namespace fourfold::simd {
namespace {

template <class T>
[[gnu::always_inline]] inline T load_as(const void* p) {
  T value;
  __builtin_memcpy(&value, p, sizeof value);
  return value;
}

template <class T>
[[gnu::always_inline]] inline void store_as(void* p, T value) {
  __builtin_memcpy(p, &value, sizeof value);
}

// Starts fetching `bytes` bytes; an address that does not exist does no harm.
FOURFOLD_INLINE void prefetch(const std::uint8_t* p, int bytes) {
  for (int line = 0; line < bytes; line += 64) __builtin_prefetch(p + line);
}

}  // namespace
}  // namespace fourfold::simd
