// Bulk copies into shared memory, the barriers they complete on, and the order of kernels in a graph.
//
// A Ring is slots of shared memory that one producer thread fills and consumer warps empty, each slot with a barrier
// for either event. Fill, wait and release follow the same order on both sides, so that a slot needs no name.
#pragma once

#include <cstdint>

namespace fourfold::cuda::sm90 {

__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// Waits until the kernels before this one in the stream are done and their writes visible; nothing without
// programmatic launch.
__device__ __forceinline__ void wait_for_previous_kernel() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// Lets the next kernel's blocks start where there is room; they wait for this one's end by themselves.
__device__ __forceinline__ void let_next_kernel_start() { asm volatile("griddepcontrol.launch_dependents;"); }

struct Barrier {
  std::uint32_t at;  // shared address of 8 bytes

  __device__ void init(int arrivals) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
  }
  __device__ void arrive() const { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory"); }
  // One arrival, and `bytes` more to come from copies.
  __device__ void expect(int bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
  }
  __device__ void wait(std::uint32_t phase) const {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again_%=:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again_%=;\n"
        "}\n" ::"r"(at),
        "r"(phase)
        : "memory");
  }
};

// Makes initialised barriers visible to the copy engine.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// `bytes`, source and destination are multiples of 16; completes on `barrier`.
__device__ __forceinline__ void copy_bulk(std::uint32_t to, const void* from, int bytes, Barrier barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier.at)
               : "memory");
}

template <int kSlots>
struct Ring {
  static constexpr int kBarrierBytes = 2 * kSlots * 8;

  std::uint32_t barriers;  // shared address: kSlots full, kSlots empty
  int slot = 0;
  std::uint32_t phase = 0;

  __device__ Barrier full() const { return {barriers + 8 * slot}; }
  __device__ Barrier empty() const { return {barriers + 8 * (kSlots + slot)}; }
  // By one thread, before any use; consumers: arrivals that release a slot.
  __device__ void init(int consumers) const {
    for (int i = 0; i < kSlots; ++i) {
      Barrier{barriers + 8 * i}.init(1);
      Barrier{barriers + 8 * (kSlots + i)}.init(consumers);
    }
    publish_barriers();
  }
  __device__ void next() {
    if (++slot == kSlots) slot = 0, phase ^= 1;
  }
  // Producer: waits until the slot is free.
  __device__ void acquire() const { empty().wait(phase ^ 1); }
  // Consumer: waits until the slot is full.
  __device__ void wait() const { full().wait(phase); }
};

}  // namespace fourfold::cuda::sm90
