// What the persistent kernel needs of sm_90 beside async.cuh: meetings of its consumers, fences in front of bulk
// copies, and counters between CTAs.
#pragma once

#include <cstdint>

namespace fourfold::cuda::sm90 {

// All threads of the first `kThreads` meet.
template <int kThreads>
__device__ __forceinline__ void meet() {
  asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
}

// Orders this thread's ordinary accesses before bulk copies that others issue after synchronising with it.
__device__ __forceinline__ void fence_bulk() { asm volatile("fence.proxy.async;" ::: "memory"); }
// The same of accesses to shared memory only.
__device__ __forceinline__ void fence_bulk_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- Counters between CTAs ----------------------------------------------------------------------------------------

__device__ __forceinline__ std::uint32_t counter_read(const std::uint32_t* counter) {
  std::uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}
// For polling: orders nothing, and leaves L1 alone, which every acquiring load empties.
__device__ __forceinline__ std::uint32_t counter_peek(const std::uint32_t* counter) {
  std::uint32_t value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}
__device__ __forceinline__ void counter_add(std::uint32_t* counter, std::uint32_t n) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(n) : "memory");
}
__device__ __forceinline__ std::uint64_t global_nanoseconds() {
  std::uint64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

}  // namespace fourfold::cuda::sm90
