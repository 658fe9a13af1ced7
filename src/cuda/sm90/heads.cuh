// The end of an Append: heads whose rows are all known are normed, turned, and stored as queries or in the cache.
//
// A head's rows come from several blocks of threads; the one that brings the last row finishes it. Rows travel through
// `raw`, in L2. Latency binds: a head is one warp's work of a few hundred cycles.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "cuda/project.hpp"

namespace fourfold::cuda::sm90 {

__device__ __forceinline__ void store_cached(std::byte* at, KvType type, float x) {
  switch (type) {
    case KvType::bf16:
      *reinterpret_cast<__nv_bfloat16*>(at) = __float2bfloat16_rn(x);
      return;
    case KvType::f16:
      *reinterpret_cast<__half*>(at) = __float2half_rn(x);
      return;
    case KvType::f8:
      *reinterpret_cast<__nv_fp8_e4m3*>(at) = __nv_fp8_e4m3(x);
      return;
  }
}

// The factor of a head's norm; all lanes of a warp take part.
__device__ __forceinline__ float norm_factor(const float* raw, int dim, const DeviceNorm& norm) {
  if (norm.weight == nullptr) return 1;
  float squares = 0;
  for (int i = threadIdx.x % 32; i < dim; i += 32) {
    const float x = __ldcg(raw + i);
    squares = fmaf(x, x, squares);
  }
  for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(~0u, squares, step);
  return norm.scale * rsqrtf(squares / static_cast<float>(dim) + norm.eps);
}

// Entry i of a head after its norm and its turn by `position`.
__device__ __forceinline__ float turned(const DeviceHeads& h, const float* raw, const DeviceNorm& norm, float factor,
                                        int position, int i) {
  const auto normed = [&](int k) {
    const float x = __ldcg(raw + k) * factor;
    return norm.weight == nullptr ? x : x * norm.weight[k];
  };
  const int at = i - h.rope_skip, half = h.rope_dims / 2;
  if (h.turns == nullptr || at < 0 || at >= h.rope_dims) return normed(i);
  const int pair = h.interleaved ? at / 2 : at % half;
  const int first = h.rope_skip + (h.interleaved ? 2 * pair : pair), second = first + (h.interleaved ? 1 : half);
  const float2 turn = h.turns[static_cast<std::int64_t>(position) * half + pair];
  const float a = normed(first), b = normed(second);
  return i == first ? a * turn.x - b * turn.y : a * turn.y + b * turn.x;
}

// Head `head` of queries, keys and values, by one warp.
__device__ __forceinline__ void finish_head(const DeviceHeads& h, int head, int position) {
  const int dim = h.layout.head_dim, kv = head - h.heads;
  const float* raw = h.raw + static_cast<std::int64_t>(head) * dim;
  const bool query = kv < 0, key = !query && kv < h.layout.kv_heads;
  const DeviceNorm norm = query ? h.query_norm : key ? h.key_norm : DeviceNorm{};
  const float factor = norm_factor(raw, dim, norm);
  const int kv_head = key ? kv : kv - h.layout.kv_heads;
  for (int i = threadIdx.x % 32; i < dim; i += 32) {
    const float x = query || key ? turned(h, raw, norm, factor, position, i) : __ldcg(raw + i);
    if (query)
      h.query[static_cast<std::int64_t>(head) * dim + i] = x;
    else
      store_cached(h.cache + h.layout.place(kv_head, position, key ? Part::key : Part::value, i), h.type, x);
  }
}

// Rows [first, last) of the raw row are written by this block of threads, `threads` of which meet at barrier 1 and call
// this. Finishes the heads that have all their rows now.
__device__ __forceinline__ void arrive_heads(const DeviceHeads& h, int first, int last, int position, int threads) {
  __shared__ unsigned complete;
  const int dim = h.layout.head_dim, end = (last - 1) / dim + 1;
  __threadfence();
  for (int begin = first / dim; begin < end; begin += 32) {
    asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
    if (threadIdx.x < 32) {
      const int head = begin + static_cast<int>(threadIdx.x);
      bool all = false;
      if (head < end) {
        const auto rows = static_cast<unsigned>(min(last, (head + 1) * dim) - max(first, head * dim));
        all = atomicAdd(h.arrived + head, rows) + rows == static_cast<unsigned>(dim);
        if (all) h.arrived[head] = 0;
      }
      const unsigned mask = __ballot_sync(~0u, all);
      if (threadIdx.x == 0) complete = mask;
    }
    asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
    __threadfence();
    for (int i = static_cast<int>(threadIdx.x / 32); i < min(32, end - begin); i += threads / 32)
      if (complete >> i & 1) finish_head(h, begin + i, position);
  }
}

}  // namespace fourfold::cuda::sm90
