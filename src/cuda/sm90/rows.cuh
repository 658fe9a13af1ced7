// What prefill does row by row around its products, bound by memory: norms and rounding before them, heads after them.
//
// A row's sum of squares is added in an order that depends on its length alone.
#pragma once

#include <numbers>

#include "cuda/gemm.hpp"
#include "cuda/sm90/async.cuh"
#include "cuda/sm90/kv.cuh"

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

__device__ __forceinline__ float norm_scale(float squares, int count, float eps) {
  return rsqrtf(squares / static_cast<float>(count) + eps);
}

// One block of threads a token.
__global__ void __launch_bounds__(kRowThreads) prepare_kernel(const __grid_constant__ Prepare p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  __shared__ float shared[kRowThreads / 32];
  const int token = static_cast<int>(blockIdx.x), columns = p.panels.columns;
  const float* x = p.x + std::int64_t{token} * columns;
  if (p.y != nullptr) {
    const float* y = p.y + std::int64_t{token} * columns;
    float* sum = p.sum + std::int64_t{token} * columns;
    float squares = 0;
    for (int i = threadIdx.x; i < columns; i += kRowThreads) squares = fmaf(y[i], y[i], squares);
    const float scale = norm_scale(block_sum(squares, shared), columns, p.post_eps);
    for (int i = threadIdx.x; i < columns; i += kRowThreads) sum[i] = fmaf(y[i] * scale, p.post_weight[i], x[i]);
    __syncthreads();
    x = sum;
  }
  float squares = 0;
  for (int chunk = threadIdx.x; chunk < p.panels.panels() * 8; chunk += kRowThreads) {  // of 8 columns, 16 bytes
    float v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int column = 8 * chunk + i;
      v[i] = column < columns ? x[column] : 0;
      squares = fmaf(v[i], v[i], squares);
      if (p.weight != nullptr && column < columns) v[i] *= p.weight[column];
    }
    std::byte* panel = p.panels.data + (std::int64_t{chunk / 8} * p.panels.padded_tokens() + token) * 128;
    *reinterpret_cast<uint4*>(panel + (chunk % 8 ^ token % 8) * 16) = {Bf16::pack(v[0], v[1]), Bf16::pack(v[2], v[3]),
                                                                       Bf16::pack(v[4], v[5]), Bf16::pack(v[6], v[7])};
  }
  if (p.weight == nullptr) return;
  const float scale = norm_scale(block_sum(squares, shared), columns, p.eps);
  if (threadIdx.x == 0) p.scale[token] = scale;
}

// One warp a head of a token: dims d = lane + 32 i.
class Head {
 public:
  static constexpr int kMost = kMostHeadDim / 32;

  __device__ Head(const float* from, int dim) : dim_(dim) {
#pragma unroll
    for (int i = 0; i < kMost; ++i) x_[i] = lane_ + 32 * i < dim ? from[lane_ + 32 * i] : 0;
  }
  __device__ void normalise(const float* weight, float eps) {
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kMost; ++i) squares = fmaf(x_[i], x_[i], squares);
    const float scale = norm_scale(warp_sum(squares), dim_, eps);
#pragma unroll
    for (int i = 0; i < kMost; ++i)
      if (lane_ + 32 * i < dim_) x_[i] *= scale * weight[lane_ + 32 * i];
  }
  // A pair's other coordinate may be any lane's: through shared memory, kMostHeadDim floats of the warp's own.
  __device__ void turn(const float2* turns, int turned, bool interleaved, float* shared) {
#pragma unroll
    for (int i = 0; i < kMost; ++i)
      if (lane_ + 32 * i < turned) shared[lane_ + 32 * i] = x_[i];
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      const int d = lane_ + 32 * i, half = turned / 2;
      if (d >= turned) continue;
      const bool second = interleaved ? d % 2 != 0 : d >= half;
      const int pair = interleaved ? d / 2 : d % half, other = interleaved ? d ^ 1 : second ? d - half : d + half;
      const float2 t = turns[pair];
      x_[i] = second ? fmaf(shared[other], t.y, x_[i] * t.x) : fmaf(x_[i], t.x, -shared[other] * t.y);
    }
    __syncwarp();
  }
  template <class F>
  __device__ void each(F&& f) const {
#pragma unroll
    for (int i = 0; i < kMost; ++i)
      if (lane_ + 32 * i < dim_) f(lane_ + 32 * i, x_[i]);
  }

 private:
  int dim_, lane_ = static_cast<int>(threadIdx.x) % 32;
  float x_[kMost];
};

// blockIdx.y: token; warps: query heads, key heads, value heads.
template <class Kv>
__global__ void __launch_bounds__(kRowThreads) append_kernel(const __grid_constant__ AppendHeads p) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  __shared__ float shared[kRowThreads / 32][kMostHeadDim];
  const int warp = static_cast<int>(threadIdx.x) / 32, token = static_cast<int>(blockIdx.y), d = p.layout.head_dim;
  const int head = static_cast<int>(blockIdx.x) * (kRowThreads / 32) + warp, position = *p.position + token;
  const float* row = p.dots + std::int64_t{token} * p.width;
  const float2* turns = p.turns == nullptr ? nullptr : p.turns + std::int64_t{token} * (p.turned / 2);
  if (head < p.heads) {
    Head query(row + head * d, d);
    if (p.query_norm != nullptr) query.normalise(p.query_norm, p.query_eps);
    if (turns != nullptr) query.turn(turns, p.turned, p.interleaved, shared[warp]);
    float* out = p.query + (std::int64_t{token} * p.heads + head) * d;
    query.each([&](int dim, float x) { out[dim] = x; });
    return;
  }
  const int kv = (head - p.heads) % p.layout.kv_heads;
  const bool value = head - p.heads >= p.layout.kv_heads;
  if (head >= p.heads + 2 * p.layout.kv_heads || position >= p.layout.positions) return;
  Head own(row + (value ? p.value_column : p.key_column) + kv * d, d);
  if (!value && p.key_norm != nullptr) own.normalise(p.key_norm, p.key_eps);
  if (!value && turns != nullptr) own.turn(turns, p.turned, p.interleaved, shared[warp]);
  own.each([&](int dim, float x) {
    const auto at = p.layout.place(kv, position, value ? Part::value : Part::key, dim);
    Kv::store(reinterpret_cast<char*>(p.cache) + at, x);
  });
}

__global__ void turns_kernel(const double* frequency, int pairs, const int* position, int tokens, float2* turns) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= tokens * pairs) return;
  double s, c;
  sincospi((*position + i / pairs) * (frequency[i % pairs] / std::numbers::pi), &s, &c);  // no slow path, no stack
  turns[i] = {static_cast<float>(c), static_cast<float>(s)};
}

// One thread writes the eight weights of a lane in a 16 x 16 piece.
template <class T>
__global__ void unpack_kernel(const std::uint8_t* from, TileOrder order, int columns, std::uint8_t* to,
                              TileOrder to_order) {
  using To = Tile<Storage::bf16>;
  const std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  const int lane = i % 32, step = i / 32 % To::kSteps, strip = i / 32 / To::kSteps % kTileStrips;
  const std::int64_t tile = i / 32 / To::kSteps / kTileStrips;
  if (tile >= to_order.tiles()) return;
  const int group = static_cast<int>(tile / to_order.slices), slice = static_cast<int>(tile % to_order.slices);
  std::uint32_t out[4];
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    float two[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int column = slice * To::kColumns + strip * To::kStripColumns + step * 16 + slot_column(lane, pair, half);
      const std::uint8_t* source = from + order.index(group, column / T::kColumns) * T::kBytes;
      two[half] = column < columns ? tile_value<T>(source, slot_row(lane, pair), column % T::kColumns) : 0;
    }
    out[pair] = Bf16::pack(two[0], two[1]);
  }
  std::uint8_t* at = to + to_order.index(group, slice) * To::kBytes + To::Low::word_place(strip, step * 4, lane);
  *reinterpret_cast<uint4*>(at) = {out[0], out[1], out[2], out[3]};
}

}  // namespace fourfold::cuda::sm90
