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
  __device__ void arrive(int arrivals) const {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
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
  // Whether the phase of parity `phase` is over; waits a little in hardware before it says no.
  __device__ bool done(std::uint32_t phase) const {
    std::uint32_t done;
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(at), "r"(phase)
                 : "memory");
    return done != 0;
  }
  // The same as wait, or until the word at shared address `stop` is not 0. One block of assembly, so that the compiler
  // sees no branch in which lanes could part: it would put synchronisation around every matrix instruction.
  __device__ void wait(std::uint32_t phase, std::uint32_t stop) const {
    asm volatile(
        "{\n.reg .pred p;\n.reg .u32 word;\n"
        "again_%=:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
        "@p bra done_%=;\n"
        "ld.volatile.shared.u32 word, [%2];\n"
        "setp.eq.u32 p, word, 0;\n"
        "@p bra again_%=;\n"
        "done_%=:\n}" ::"r"(at),
        "r"(phase), "r"(stop)
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
// The same under a cache policy.
__device__ __forceinline__ void copy_bulk(std::uint32_t to, const void* from, int bytes, Barrier barrier,
                                          std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier.at), "l"(policy)
      : "memory");
}
// Bytes read once: they leave L2 first.
__device__ __forceinline__ std::uint64_t evict_first() {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
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
