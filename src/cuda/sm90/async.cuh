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

// Blocks of threads that run together and read each other's shared memory.
__device__ __forceinline__ int cluster_rank() {
  int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ int cluster_size() {
  int size;
  asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(size));
  return size;
}
// Threads that ended do not count; what was written to shared memory before is visible to the cluster after.
__device__ __forceinline__ void sync_cluster() {
  __syncwarp();
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}
// The address of another block's shared memory that is `address` in this one's.
__device__ __forceinline__ std::uint32_t address_in(int rank, std::uint32_t address) {
  std::uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
__device__ __forceinline__ float4 load4_from_cluster(std::uint32_t address) {
  float4 v;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
__device__ __forceinline__ float2 load2_from_cluster(std::uint32_t address) {
  float2 v;
  asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address) : "memory");
  return v;
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
