// The instructions of sm_90 that tiles are multiplied with: each a function of its own.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <fourfold/blocks.hpp>

namespace fourfold::cuda::sm90 {

// c[16, 8] += a[16, 16] b[16, 8]: lane 4 g + t holds rows g, g + 8 of a and c, column g of b (PTX ISA, mma.m16n8k16).
__device__ __forceinline__ void mma_bf16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                         std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void mma_f16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                        std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// c[16, 8] += a[16, 8] b[8, 8], bf16.
__device__ __forceinline__ void mma_bf16_k8(float (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(b));
}

// Two e4m3 numbers as two f16: exact.
__device__ __forceinline__ std::uint32_t half2_of_e4m3(std::uint32_t two) {
  std::uint32_t h;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(h) : "h"(static_cast<std::uint16_t>(two)));
  return h;
}

__device__ __forceinline__ std::uint32_t sub2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
__device__ __forceinline__ std::uint32_t mul2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
__device__ __forceinline__ std::uint32_t fma2(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t d;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
__device__ __forceinline__ std::uint32_t half2_of(float low, float high) {
  const __half2 h = __floats2half2_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&h);
}

// The same f16 number twice.
constexpr std::uint32_t twice(float x) { return float_to_half(x) * 0x10001u; }

// (a & mask) | c in one instruction.
__device__ __forceinline__ std::uint32_t and_or(std::uint32_t a, std::uint32_t mask, std::uint32_t c) {
  std::uint32_t d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(mask), "r"(c));
  return d;
}

// Where a tile is read from: weights in global memory are read once and leave no trace in L1.
struct Shared {
  template <class V>
  static __device__ __forceinline__ V read(const std::uint8_t* at) {
    return *reinterpret_cast<const V*>(at);
  }
};
struct Global {
  template <class V>
  static __device__ __forceinline__ V read(const std::uint8_t* at) {
    return __ldg(reinterpret_cast<const V*>(at));
  }
};

}  // namespace fourfold::cuda::sm90
