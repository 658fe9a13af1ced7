// Keys and values of a leaf in shared memory, as right operands of mma for 16 keys and 32 head dims at a time.
//
// The order in which a contraction meets its dims, and that in which a product's columns stand, is the storage's own:
// query_dim and value_dim say which dims a lane holds. g = lane / 4, t = lane % 4.
#pragma once

#include "cuda/cache.hpp"
#include "cuda/sm90/matrix.cuh"

namespace fourfold::cuda::sm90 {

// 16-bit elements, as they are.
template <class Element>
struct Kv16 {
  using Operand = Element;
  static constexpr int kBytes = 2;

  // First of the two dims that a lane's register pair of step `step` (16 dims), half `half` holds.
  static __device__ __forceinline__ int query_dim(int step, int half, int t) { return 16 * step + 8 * half + 2 * t; }
  // Dim of column i of a lane's two in product tile `tile` (8 dims).
  static __device__ __forceinline__ int value_dim(int tile, int t, int i) { return 8 * tile + 2 * t + i; }

  // out[step][key tile][half]: keys key .. key + 15, dims 32 unit .. 32 unit + 31.
  static __device__ __forceinline__ void keys(std::uint32_t (&out)[2][2][2], std::uint32_t leaf, int key, int unit) {
    const int lane = threadIdx.x % 32, row = key + lane / 16 * 8 + lane % 8;
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      std::uint32_t m[4];
      load_matrices(m, leaf + CacheLayout::within(row, 32 * unit + 16 * step + lane / 8 % 2 * 8, 2));
      out[step][0][0] = m[0], out[step][0][1] = m[1], out[step][1][0] = m[2], out[step][1][1] = m[3];
    }
  }
  // out[product tile][half]: the same keys, dims 32 unit .. 32 unit + 31.
  static __device__ __forceinline__ void values(std::uint32_t (&out)[4][2], std::uint32_t leaf, int key, int unit) {
    const int lane = threadIdx.x % 32, row = key + lane / 8 % 2 * 8 + lane % 8;
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      std::uint32_t m[4];
      load_matrices_transposed(m, leaf + CacheLayout::within(row, 32 * unit + 16 * pair + lane / 16 * 8, 2));
      out[2 * pair][0] = m[0], out[2 * pair][1] = m[1], out[2 * pair + 1][0] = m[2], out[2 * pair + 1][1] = m[3];
    }
  }
  static __device__ __forceinline__ void store(char* at, float x) {
    *reinterpret_cast<std::uint16_t*>(at) = static_cast<std::uint16_t>(Element::pack(x, 0) & 0xffff);
  }
  static __device__ __forceinline__ float load(const char* at) {
    return Element::unpack(*reinterpret_cast<const std::uint16_t*>(at)).x;
  }
};

// e4m3, widened to f16 in registers. A byte matrix row holds 16 dims: four to a lane, or two columns of 8 pairs.
struct Kv8 {
  using Operand = F16;
  static constexpr int kBytes = 1;

  static __device__ __forceinline__ int query_dim(int step, int half, int t) { return 16 * step + 4 * t + 2 * half; }
  static __device__ __forceinline__ int value_dim(int tile, int t, int i) {
    return 16 * (tile / 2) + 4 * t + 2 * i + tile % 2;
  }

  static __device__ __forceinline__ void keys(std::uint32_t (&out)[2][2][2], std::uint32_t leaf, int key, int unit) {
    const int lane = threadIdx.x % 32, row = key + lane / 16 * 8 + lane % 8;
    std::uint32_t m[4];
    load_matrices(m, leaf + CacheLayout::within(row, 32 * unit + lane / 8 % 2 * 16, 1));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out[i % 2][i / 2][0] = half2_of_e4m3(m[i] & 0xffff);
      out[i % 2][i / 2][1] = half2_of_e4m3(m[i] >> 16);
    }
  }
  static __device__ __forceinline__ void values(std::uint32_t (&out)[4][2], std::uint32_t leaf, int key, int unit) {
    const int lane = threadIdx.x % 32, row = key + lane / 8 % 2 * 8 + lane % 8;
    std::uint32_t m[4];
    load_matrices_transposed(m, leaf + CacheLayout::within(row, 32 * unit + lane / 16 * 16, 1));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t even = __byte_perm(m[i], 0, 0x0020), odd = __byte_perm(m[i], 0, 0x0031);
      out[i / 2 * 2][i % 2] = half2_of_e4m3(even & 0xffff);
      out[i / 2 * 2 + 1][i % 2] = half2_of_e4m3(odd & 0xffff);
    }
  }
  static __device__ __forceinline__ void store(char* at, float x) {
    *reinterpret_cast<std::uint8_t*>(at) = static_cast<std::uint8_t>(e4m3_from(x, 0) & 0xff);
  }
  static __device__ __forceinline__ float load(const char* at) {
    return F16::unpack(half2_of_e4m3(*reinterpret_cast<const std::uint8_t*>(at))).x;
  }
};

}  // namespace fourfold::cuda::sm90
