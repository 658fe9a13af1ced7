// Floats that begin on a cache line. A 64-byte load at another address reads two lines: a state in memory is then read
// and written at 4/5 of the speed.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace fourfold {

template <class T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  LineAllocator() = default;
  template <class U>
  explicit(false) LineAllocator(const LineAllocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kLine)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, kLine); }
  friend bool operator==(const LineAllocator&, const LineAllocator&) { return true; }
};

using AlignedFloats = std::vector<float, LineAllocator<float>>;

}  // namespace fourfold
