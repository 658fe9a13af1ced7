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

// Two numbers as bf16 or f16 parts, in pairs: three of bf16 hold a float.
struct Bf16Split {
  std::uint32_t part[3];

  __device__ __forceinline__ explicit Bf16Split(float2 x) {
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const __nv_bfloat162 high = __floats2bfloat162_rn(x.x, x.y);
      part[i] = *reinterpret_cast<const std::uint32_t*>(&high);
      x.x -= __low2float(high);
      x.y -= __high2float(high);
    }
  }
};
struct F16Split {
  std::uint32_t part[2];

  __device__ __forceinline__ explicit F16Split(float2 x) {
    const __half2 high = __floats2half2_rn(x.x, x.y);
    part[0] = *reinterpret_cast<const std::uint32_t*>(&high);
    part[1] = half2_of(x.x - __low2float(high), x.y - __high2float(high));
  }
};

// A strip's operands as a loader leaves them in shared memory: [vector][part][t], vectors of four words of a lane.
template <int kSteps, int kParts>
struct StoredParts {
  static constexpr int kVectors = kSteps / 2;
  static constexpr int kBytes = kVectors * kParts * 4 * 16;

  static __device__ __forceinline__ void read(const std::uint8_t* strip, std::uint32_t (&b)[2 * kSteps]) {
    const int lane = threadIdx.x % kLanes;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      uint4 own{0, 0, 0, 0};
      if (lane < kParts * 4) own = reinterpret_cast<const uint4*>(strip)[v * kParts * 4 + lane];
      b[4 * v] = own.x, b[4 * v + 1] = own.y, b[4 * v + 2] = own.z, b[4 * v + 3] = own.w;
    }
  }
  // Columns `column` and the next of the strip.
  template <class Split>
  static __device__ __forceinline__ void store(std::uint8_t* strip, int column, const Split& two) {
    const int word = column / 8, t = column % 8 / 2;
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      reinterpret_cast<std::uint32_t*>(strip)[((word / 4 * kParts + part) * 4 + t) * 4 + word % 4] = two.part[part];
  }
};

// A strip of the activation as B operands. make(): from its kSteps * 16 numbers, 8-byte aligned; read(): as store()
// left them, with the strip's scale, in kStoredBytes of shared memory.
template <int kSteps>
struct Bf16Parts {
  using Stored = StoredParts<kSteps, 3>;
  static constexpr int kStoredBytes = Stored::kBytes;
  static constexpr bool kScaled = false;
  std::uint32_t b[2 * kSteps];

  __device__ __forceinline__ void make(const float* x) {
    const int lane = threadIdx.x % kLanes, t = lane % 4, part = lane / 4;
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) {
      const Bf16Split two(*reinterpret_cast<const float2*>(x + i * 8 + 2 * t));
      b[i] = part == 0 ? two.part[0] : part == 1 ? two.part[1] : part == 2 ? two.part[2] : 0;
    }
  }
  __device__ __forceinline__ void read(const std::uint8_t* strip) { Stored::read(strip, b); }
  static __device__ __forceinline__ void store(std::uint8_t* strip, int column, float2 two) {
    Stored::store(strip, column, Bf16Split(two));
  }
};

// The power of two that brings a strip's largest magnitude, given as bits, to 2^14 .. 2^15; and its inverse.
struct StripScale {
  float factor, inverse;

  __device__ __forceinline__ explicit StripScale(std::uint32_t largest) {
    const int exponent = static_cast<int>(largest >> 23);  // biased; 255: NaN or infinity, which no scale changes
    const int shift = exponent == 255 ? 0 : min(14 - (exponent - 127), 100);
    factor = __int_as_float((127 + shift) << 23);
    inverse = __int_as_float((127 - shift) << 23);
  }
  static __device__ __forceinline__ std::uint32_t magnitude(float x) { return __float_as_uint(x) & 0x7fffffffu; }
};

// kSums: also the sums of each 32 columns, which blocks with a minimum need.
template <int kSteps, bool kSums>
struct F16Parts {
  using Stored = StoredParts<kSteps, 2>;
  static constexpr int kSumBlocks = kSums ? kSteps / 2 : 0;
  static constexpr int kStoredBytes = Stored::kBytes + 16 + kSumBlocks * 4;
  static constexpr bool kScaled = true;
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
      largest = max(largest, max(StripScale::magnitude(own[i].x), StripScale::magnitude(own[i].y)));
    }
    largest = max(largest, __shfl_xor_sync(~0u, largest, 1));
    largest = max(largest, __shfl_xor_sync(~0u, largest, 2));
    const StripScale scale(largest);
    inverse = scale.inverse;
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) {
      const F16Split two(float2{own[i].x * scale.factor, own[i].y * scale.factor});
      b[i] = part == 0 ? two.part[0] : part == 1 ? two.part[1] : 0;
    }
    if constexpr (kSums) {
#pragma unroll
      for (int block = 0; block < kSteps / 2; ++block) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) sum += own[block * 4 + i].x + own[block * 4 + i].y;
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        sums[block] = t == 0 ? sum * scale.factor : 0.f;
      }
    }
  }
  __device__ __forceinline__ void read(const std::uint8_t* strip) {
    Stored::read(strip, b);
    inverse = *reinterpret_cast<const float*>(strip + Stored::kBytes);
    if constexpr (kSums) {
#pragma unroll
      for (int block = 0; block < kSumBlocks; ++block)
        sums[block] = threadIdx.x % 4 == 0 ? reinterpret_cast<const float*>(strip + Stored::kBytes + 16)[block] : 0.f;
    }
  }
  static __device__ __forceinline__ void store(std::uint8_t* strip, int column, float2 two) {
    Stored::store(strip, column, F16Split(two));
  }
  // Of columns [32 block, 32 block + 32) of the strip, scaled.
  static __device__ __forceinline__ void store_sum(std::uint8_t* strip, int block, float sum) {
    reinterpret_cast<float*>(strip + Stored::kBytes + 16)[block] = sum;
  }
  static __device__ __forceinline__ void store_inverse(std::uint8_t* strip, float inverse) {
    *reinterpret_cast<float*>(strip + Stored::kBytes) = inverse;
  }
};

}  // namespace fourfold::cuda::sm90
