// The smallest kernels of a token: latency binds each.
#include <fourfold/math.hpp>

#include "cuda/sm90/async.cuh"
#include "cuda/sm90/heads.cuh"
#include "cuda/sm90/keys.cuh"
#include "cuda/sm90/launch.cuh"
#include "cuda/steps.hpp"

namespace fourfold::cuda {
namespace {

using sm90::Launch;

template <class T>
__global__ void embed(const std::uint8_t* tiles, const TileOrder order, int columns, float scale,
                      const TokenState* state, float* out) {
  sm90::let_next_kernel_start();
  sm90::wait_for_previous_kernel();
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (column >= columns) return;
  const std::uint8_t* tile = tiles + order.index(state->id / kTileRows, column / T::kColumns) * T::kBytes;
  out[column] = scale * tile_value<T>(tile, state->id % kTileRows, column % T::kColumns);
}

constexpr int kSampleThreads = 256;
constexpr int kLogitsPerThread = 4;

__device__ float gumbel(std::uint64_t seed, int position, int id) {
  const std::uint64_t place = static_cast<std::uint64_t>(position) << 32 | static_cast<std::uint32_t>(id);
  const std::uint64_t bits = RandomBytes::mix(RandomBytes::mix(seed) + place);
  const float uniform = (static_cast<float>(bits >> 40) + 0.5f) * 0x1p-24f;
  return -logf(-logf(uniform));
}

__global__ void sample(const Sampling s) {
  sm90::let_next_kernel_start();
  sm90::wait_for_previous_kernel();
  const int position = s.state->position;
  const unsigned long long least = s.least == nullptr ? 0 : __ldcg(s.least);
  unsigned long long best = 0;
  const int first = static_cast<int>(blockIdx.x) * kSampleThreads * kLogitsPerThread + static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < kLogitsPerThread; ++i) {
    const int id = first + i * kSampleThreads;
    if (id >= s.vocab) continue;
    float logit = __ldcg(s.logits + id);
    if (sm90::key_of(logit, id) < least) continue;
    if (s.inverse_temperature > 0) logit = fmaf(logit, s.inverse_temperature, gumbel(s.seed, position, id));
    best = max(best, sm90::key_of(logit, id));
  }
  for (int step = 16; step > 0; step /= 2) best = max(best, __shfl_xor_sync(~0u, best, step));
  __shared__ unsigned long long warps[kSampleThreads / 32];
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const unsigned long long key : warps) best = max(best, key);
  atomicMax(s.best, best);
  __threadfence();
  if (atomicAdd(s.best + 1, 1ull) + 1 != gridDim.x) return;
  __threadfence();
  const int id = static_cast<int>(0xffffffffu - static_cast<std::uint32_t>(atomicExch(s.best, 0ull)));
  s.best[1] = 0;
  s.ids[s.state->produced % s.capacity] = id;
  *s.state = {id, position + 1, s.state->produced + 1};
  __threadfence_system();
}

__global__ void fill(const CacheLayout layout, KvType type, std::byte* cache, int positions, std::uint64_t seed) {
  const std::int64_t count = std::int64_t{2} * layout.kv_heads * positions * layout.head_dim;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const int dim = static_cast<int>(i % layout.head_dim);
    const std::int64_t row = i / layout.head_dim;
    const int position = static_cast<int>(row / 2 % positions), head = static_cast<int>(row / 2 / positions);
    const std::uint64_t bits = RandomBytes::mix(seed + static_cast<std::uint64_t>(i));
    const float x = (static_cast<float>(bits >> 40) * 0x1p-23f - 1) * 1.7320508f;
    sm90::store_cached(cache + layout.place(head, position, row % 2 == 0 ? Part::key : Part::value, dim), type, x);
  }
}

}  // namespace

cudaError_t embed_token(const WeightRun& table, float scale, const TokenState* state, float* out, bool programmatic,
                        cudaStream_t stream) {
  const Launch how{dim3(static_cast<unsigned>((table.columns + 127) / 128)), 128, 0, programmatic};
  return with_tile(table.storage, [&](auto tile) {
    return sm90::launch(embed<decltype(tile)>, how, stream, table.tiles, table.order, table.columns, scale, state, out);
  });
}

cudaError_t sample_token(const Sampling& sampling, bool programmatic, cudaStream_t stream) {
  constexpr int kLogits = kSampleThreads * kLogitsPerThread;
  const Launch how{dim3(static_cast<unsigned>((sampling.vocab + kLogits - 1) / kLogits)), kSampleThreads, 0,
                   programmatic};
  return sm90::launch(sample, how, stream, sampling);
}

cudaError_t fill_cache(const CacheLayout& layout, KvType type, std::byte* cache, int positions, std::uint64_t seed,
                       cudaStream_t stream) {
  if (positions == 0) return cudaSuccess;
  fill<<<1056, 256, 0, stream>>>(layout, type, cache, positions, seed);
  return cudaGetLastError();
}

}  // namespace fourfold::cuda
