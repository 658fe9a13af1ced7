// Activations as B operands of mma.sync m16n8k16: the eight columns hold parts whose sum is one activation.
//
// Lane 4 g + t holds column g of rows 2t, 2t + 1, 2t + 8, 2t + 9 of each piece: part g of those numbers; the columns
// that no part needs are 0. Three bf16 parts are exact; two f16 parts hold 22 bits, of which a power of two makes good
// use.
#pragma once

#include <cuda_bf16.h>

#include "cuda/sm90/mma.cuh"
#include "cuda/tile.hpp"

namespace fourfold::cuda::sm90 {

// A strip of the activation as B operands; x: its kSteps * 16 numbers, 8-byte aligned, in shared or global memory.
template <int kSteps>
struct Bf16Parts {
  std::uint32_t b[2 * kSteps];

  __device__ __forceinline__ void make(const float* x) {
    const int lane = threadIdx.x % kLanes, t = lane % 4, part = lane / 4;
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) {
      const float2 two = *reinterpret_cast<const float2*>(x + i * 8 + 2 * t);
      const __nv_bfloat162 bits = __floats2bfloat162_rn(part_of(two.x, part), part_of(two.y, part));
      b[i] = *reinterpret_cast<const std::uint32_t*>(&bits);
    }
  }

 private:
  // x = part 0 + part 1 + part 2 exactly; the other columns are idle.
  static __device__ __forceinline__ float part_of(float x, int part) {
    const float high = __bfloat162float(__float2bfloat16_rn(x)), rest = x - high;
    const float middle = __bfloat162float(__float2bfloat16_rn(rest));
    return part == 0 ? high : part == 1 ? middle : part == 2 ? rest - middle : 0.f;
  }
};

// kSums: also the sums of each 32 columns, which blocks with a minimum need.
template <int kSteps, bool kSums>
struct F16Parts {
  std::uint32_t b[2 * kSteps];
  float inverse;                       // of the power of two
  float sums[kSums ? kSteps / 2 : 1];  // scaled as b; 0 but in the lanes that hold column 0

  __device__ __forceinline__ void make(const float* x) {
    const int lane = threadIdx.x % kLanes, t = lane % 4, part = lane / 4;
    float2 own[2 * kSteps];
    std::uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) {
      own[i] = *reinterpret_cast<const float2*>(x + i * 8 + 2 * t);
      largest = max(largest, max(__float_as_uint(own[i].x) & 0x7fffffffu, __float_as_uint(own[i].y) & 0x7fffffffu));
    }
    largest = max(largest, __shfl_xor_sync(~0u, largest, 1));
    largest = max(largest, __shfl_xor_sync(~0u, largest, 2));
    const int exponent = static_cast<int>(largest >> 23);  // biased; 255: NaN or infinity, which no scale changes
    const int shift = exponent == 255 ? 0 : min(14 - (exponent - 127), 100);
    const float scale = __int_as_float((127 + shift) << 23);
    inverse = __int_as_float((127 - shift) << 23);
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i)
      b[i] = half2_of(part_of(own[i].x * scale, part), part_of(own[i].y * scale, part));
    if constexpr (kSums) {
#pragma unroll
      for (int block = 0; block < kSteps / 2; ++block) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) sum += own[block * 4 + i].x + own[block * 4 + i].y;
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        sums[block] = t == 0 ? sum * scale : 0.f;
      }
    }
  }

 private:
  static __device__ __forceinline__ float part_of(float x, int part) {
    const float high = __half2float(__float2half_rn(x));
    return part == 0 ? high : part == 1 ? x - high : 0.f;
  }
};

}  // namespace fourfold::cuda::sm90
