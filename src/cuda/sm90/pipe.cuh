// What sm_90 offers for pipelines inside one CTA and for counters between CTAs: each instruction a function of its own.
// A barrier is a 64-bit mbarrier in shared memory, named by its 32-bit shared address.
#pragma once

#include <cstdint>

namespace fourfold::cuda::sm90 {

__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// ---- Barriers of one CTA ------------------------------------------------------------------------------------------

__device__ __forceinline__ void barrier_init(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
__device__ __forceinline__ void barrier_init_done() { asm volatile("fence.mbarrier_init.release.cluster;"); }
__device__ __forceinline__ void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void barrier_expect(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Whether the phase of parity `parity` is over; waits a little in hardware before it says no.
__device__ __forceinline__ bool barrier_try(std::uint32_t barrier, std::uint32_t parity) {
  std::uint32_t done;
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
  return done != 0;
}
// Waits for the end of the phase of parity `parity`, or until the word at `stop` is not 0. One block of assembly, so
// that the compiler sees no branch in which lanes could part: it would put synchronisation around every matrix
// instruction.
__device__ __forceinline__ void barrier_wait(std::uint32_t barrier, std::uint32_t parity, std::uint32_t stop) {
  asm volatile(
      "{\n.reg .pred p;\n.reg .u32 word;\n"
      "again_%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra done_%=;\n"
      "ld.volatile.shared.u32 word, [%2];\n"
      "setp.eq.u32 p, word, 0;\n"
      "@p bra again_%=;\n"
      "done_%=:\n}" ::"r"(barrier),
      "r"(parity), "r"(stop)
      : "memory");
}
// All threads of the first `kThreads` meet.
template <int kThreads>
__device__ __forceinline__ void meet() {
  asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
}

// Registers per thread of this warpgroup from here on; all of its warps ask for the same.
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// ---- Bulk copies --------------------------------------------------------------------------------------------------

// Bytes read once: they leave L2 first.
__device__ __forceinline__ std::uint64_t evict_first() {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
// bytes: a multiple of 16; they count on `barrier`.
__device__ __forceinline__ void bulk_copy(std::uint32_t to, const void* from, int bytes, std::uint32_t barrier,
                                          std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
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

// ---- Matrices of 8 x 8 16-bit numbers in shared memory ------------------------------------------------------------

// Lane l names row l % 8 of matrix l / 8 (16 bytes); it gets, of each matrix, columns 2 (l % 4), + 1 of row l / 4.
__device__ __forceinline__ void matrices(std::uint32_t row, std::uint32_t (&m)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(row)
               : "memory");
}
// The same, transposed: rows 2 (l % 4), + 1 of column l / 4.
__device__ __forceinline__ void matrices_transposed(std::uint32_t row, std::uint32_t (&m)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(row)
               : "memory");
}
// c[16, 8] += a[16, 8] b[8, 8], bf16.
__device__ __forceinline__ void mma_bf16_k8(float (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(b));
}

}  // namespace fourfold::cuda::sm90
