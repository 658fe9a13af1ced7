// What top-k, top-p and min-p leave of a row of logits, as the key of the last that stays; bound by latency.
//
// Each block of threads finds the k best of its logits, digit by digit of their keys; the last block to finish finds
// the k best of those, ranks them, and cuts the ranking where enough probability is together.
#include <cmath>

#include "cuda/sm90/async.cuh"
#include "cuda/sm90/keys.cuh"
#include "cuda/sm90/launch.cuh"
#include "cuda/steps.hpp"

namespace fourfold::cuda {
namespace {

using Key = unsigned long long;

constexpr int kThreads = 512;
constexpr int kLogitsPerThread = 8;
constexpr int kBlockLogits = kThreads * kLogitsPerThread;
constexpr int kMostBlocks = kMostFiltered / kBlockLogits;
constexpr int kKeptPerThread = kMostBlocks * kMostKept / kThreads;

struct Shared {
  int histogram[256];
  int digit, wanted, found;
  int kept;
  bool last;
  Key candidates[kMostKept], ranked[kMostKept];
  double weights[kMostKept];
};

// The largest key such that at least `wanted` of all threads' keys are not below it. Keys that are not 0 differ.
template <int kKeys>
__device__ Key key_of_rank(const Key (&keys)[kKeys], int wanted, Shared& shared) {
  Key prefix = 0;
  for (int shift = 56;; shift -= 8) {
    if (threadIdx.x < 256) shared.histogram[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
      const bool counts = shift == 56 || keys[i] >> (shift + 8) == prefix >> (shift + 8);
      const int digit = counts ? static_cast<int>(keys[i] >> shift & 255) : 256;
      const unsigned same = __match_any_sync(~0u, digit);
      if (counts && static_cast<int>(threadIdx.x % 32) == __ffs(static_cast<int>(same)) - 1)
        atomicAdd(&shared.histogram[digit], __popc(same));
    }
    __syncthreads();
    if (threadIdx.x < 32) {  // lane l looks at digits 255 - 8 l down to 248 - 8 l
      const int top = 255 - 8 * static_cast<int>(threadIdx.x);
      int sum = 0;
      for (int i = 0; i < 8; ++i) sum += shared.histogram[top - i];
      int above = sum;  // then: of the lanes before
      for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(~0u, above, step);
        if (static_cast<int>(threadIdx.x) >= step) above += other;
      }
      above -= sum;
      if (above < wanted && wanted <= above + sum) {
        int digit = top;
        while (above + shared.histogram[digit] < wanted) above += shared.histogram[digit--];
        shared.digit = digit;
        shared.wanted = wanted - above;
        shared.found = shared.histogram[digit];
      }
    }
    __syncthreads();
    prefix |= static_cast<Key>(shared.digit) << shift;
    wanted = shared.wanted;
    if (shared.found == wanted || shift == 0) return prefix;
  }
}

// Keys that are not 0 and not below `least` to `to`, in any order, up to `k`; zeros behind them. Returns how many.
template <int kKeys>
__device__ int keep(const Key (&keys)[kKeys], Key least, int k, Key* to, Shared& shared) {
  __syncthreads();
  if (threadIdx.x == 0) shared.kept = 0;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kKeys; ++i)
    if (keys[i] != 0 && keys[i] >= least) to[atomicAdd(&shared.kept, 1)] = keys[i];
  __syncthreads();
  const int kept = shared.kept;
  for (int i = kept + static_cast<int>(threadIdx.x); i < k; i += kThreads) to[i] = 0;
  return kept;
}

// Of `n` candidates: ranks them; the key of the last that mass and share leave.
__device__ Key cut(const Filter& f, int n, Shared& shared) {
  const int own = static_cast<int>(threadIdx.x);
  if (own < n) {
    int rank = 0;
    for (int i = 0; i < n; ++i) rank += shared.candidates[i] > shared.candidates[own];
    shared.ranked[rank] = shared.candidates[own];
  }
  __syncthreads();
  const float best = sm90::logit_of(shared.ranked[0]);
  if (own < n) {
    const float logit = sm90::logit_of(shared.ranked[own]);
    shared.weights[own] = sm90::is_nan(shared.ranked[own]) ? 0 : logit == best ? 1 : exp(double{logit} - best);
  }
  __syncthreads();
  double total = 0, sum = 0;
  for (int i = 0; i < n; ++i) total += shared.weights[i];
  const float least = f.share > 0 ? best + logf(f.share) : -INFINITY;
  int last = 0;
  for (int i = 0; i < n; ++i) {
    const Key key = shared.ranked[i];
    if (i > 0 && (sm90::is_nan(key) || sm90::logit_of(key) < least)) break;
    last = i;
    sum += shared.weights[i] / total;
    if (f.mass < 1 && sum >= f.mass) break;
  }
  return shared.ranked[last];
}

__global__ void __launch_bounds__(kThreads) filter(const Filter f) {
  sm90::let_next_kernel_start();
  sm90::wait_for_previous_kernel();
  __shared__ Shared shared;
  Key keys[kLogitsPerThread];
#pragma unroll
  for (int i = 0; i < kLogitsPerThread; ++i) {
    const int id = static_cast<int>(blockIdx.x) * kBlockLogits + i * kThreads + static_cast<int>(threadIdx.x);
    keys[i] = id < f.vocab ? sm90::key_of(__ldcg(f.logits + id), id) : 0;
  }
  keep(keys, key_of_rank(keys, f.k, shared), f.k, f.candidates + blockIdx.x * f.k, shared);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) shared.last = atomicAdd(f.done, 1u) + 1 == gridDim.x;
  __syncthreads();
  if (!shared.last) return;
  __threadfence();
  Key all[kKeptPerThread];
#pragma unroll
  for (int i = 0; i < kKeptPerThread; ++i) {
    const int at = i * kThreads + static_cast<int>(threadIdx.x);
    all[i] = at < static_cast<int>(gridDim.x) * f.k ? __ldcg(f.candidates + at) : 0;
  }
  const int n = keep(all, key_of_rank(all, f.k, shared), f.k, shared.candidates, shared);
  __syncthreads();
  const Key least = cut(f, n, shared);
  if (threadIdx.x == 0) {
    *f.least = least;
    *f.done = 0;
  }
}

}  // namespace

std::size_t filter_bytes(int vocab) {
  return static_cast<std::size_t>((vocab + kBlockLogits - 1) / kBlockLogits) * kMostKept * sizeof(Key);
}

cudaError_t filter_logits(const Filter& f, bool programmatic, cudaStream_t stream) {
  const int blocks = (f.vocab + kBlockLogits - 1) / kBlockLogits;
  if (f.k < 1 || f.k > kMostKept || f.vocab > kMostFiltered) return cudaErrorInvalidValue;
  return sm90::launch(filter, {dim3(static_cast<unsigned>(blocks)), kThreads, 0, programmatic}, stream, f);
}

}  // namespace fourfold::cuda
