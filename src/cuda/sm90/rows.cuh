// What prefill does row by row around its products, bound by memory: norms and rounding before them, heads after them.
//
// A row's sum of squares is added in an order that depends on its length alone.
#pragma once

#include "cuda/gemm.hpp"
#include "cuda/sm90/async.cuh"
#include "cuda/sm90/heads.cuh"
#include "cuda/sm90/matrix.cuh"

namespace fourfold::cuda::sm90 {

inline constexpr int kRowThreads = 256;

__device__ __forceinline__ float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
  return x;
}
// Over the kRowThreads threads of a block; `shared`: a float per warp.
__device__ __forceinline__ float block_sum(float x, float* shared) {
  x = warp_sum(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < kRowThreads / 32; ++i) sum += shared[i];
  return sum;
}

__device__ __forceinline__ float factor_of(const DeviceNorm& norm, float squares, int columns) {
  return norm.scale * rsqrtf(squares / static_cast<float>(columns) + norm.eps);
}

// One block of threads a token.
__global__ void __launch_bounds__(kRowThreads)
    prepare_kernel(const __grid_constant__ DeviceProject p, const __grid_constant__ Panels panels, float* scale) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  __shared__ float shared[kRowThreads / 32];
  const int token = static_cast<int>(blockIdx.x), columns = p.columns;
  const std::int64_t row = std::int64_t{token} * columns;
  const float* x = p.in + row;
  if (p.add_y != nullptr) {
    float squares = 0;
    for (int i = threadIdx.x; i < columns; i += kRowThreads)
      squares = fmaf(p.add_y[row + i], p.add_y[row + i], squares);
    const float factor = factor_of(p.add_norm, block_sum(squares, shared), columns);
    for (int i = threadIdx.x; i < columns; i += kRowThreads)
      p.add_out[row + i] = fmaf(p.add_y[row + i] * factor, p.add_norm.weight[i], p.add_x[row + i]);
    __syncthreads();
    x = p.add_out + row;
  }
  float squares = 0;
  for (int chunk = threadIdx.x; chunk < panels.panels() * 8; chunk += kRowThreads) {  // of 8 columns, 16 bytes
    float v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int column = 8 * chunk + i;
      v[i] = column < columns ? x[column] : 0;
      squares = fmaf(v[i], v[i], squares);
      if (p.norm.weight != nullptr && column < columns) v[i] *= p.norm.weight[column];
    }
    std::byte* panel = panels.data + (std::int64_t{chunk / 8} * panels.padded_tokens() + token) * 128;
    *reinterpret_cast<uint4*>(panel + (chunk % 8 ^ token % 8) * 16) = {Bf16::pack(v[0], v[1]), Bf16::pack(v[2], v[3]),
                                                                       Bf16::pack(v[4], v[5]), Bf16::pack(v[6], v[7])};
  }
  const float factor = p.norm.weight == nullptr ? 1 : factor_of(p.norm, block_sum(squares, shared), columns);
  if (threadIdx.x == 0) scale[token] = factor;
}

// blockIdx.y: token; a warp a head.
__global__ void __launch_bounds__(kRowThreads) append_kernel(const __grid_constant__ DeviceProject p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int token = static_cast<int>(blockIdx.y), position = *p.position + token;
  const int head = static_cast<int>(blockIdx.x * (kRowThreads / 32) + threadIdx.x / 32);
  if (head >= p.heads.heads + 2 * p.heads.layout.kv_heads || position >= p.heads.layout.positions) return;
  DeviceHeads heads = p.heads;
  heads.raw += std::int64_t{token} * row_of(p);
  heads.query += std::int64_t{token} * heads.heads * heads.layout.head_dim;
  finish_head(heads, head, position);
}

// One block of threads a token: out = scale * row ids[token] of the table.
template <class T>
__global__ void __launch_bounds__(kRowThreads)
    embed_kernel(const std::uint8_t* tiles, TileOrder order, int columns, const int* ids, float scale, float* out) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int row = ids[blockIdx.x];
  for (int column = threadIdx.x; column < columns; column += kRowThreads) {
    const std::uint8_t* tile = tiles + order.index(row / kTileRows, column / T::kColumns) * T::kBytes;
    out[std::int64_t{blockIdx.x} * columns + column] =
        scale * tile_value<T>(tile, row % kTileRows, column % T::kColumns);
  }
}

}  // namespace fourfold::cuda::sm90
