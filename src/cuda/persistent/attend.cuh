// Attention of one token inside the persistent kernel, as the consumers do it.
//
// All query heads of a KV head share its keys: they are rows of one 16-row operand, and the rows that are left hold the
// lower bf16 parts of the same queries, so that scores are exact to float32; the probabilities go back in as parts in
// the same way. A warp owns keys 32 w .. 32 w + 31 of every block, with a running state of its own; the warps' states
// meet in the first leaf of the chain's last block, the chains' states in the merge task, always first to last.
#pragma once

#include <cuda_bf16.h>

#include "cuda/persistent/consumer.cuh"
#include "cuda/sm90/matrix.cuh"

namespace fourfold::cuda::persistent {

__device__ __forceinline__ float bf16_part(float x, int part) {
  const float high = __bfloat162float(__float2bfloat16_rn(x)), rest = x - high;
  const float middle = __bfloat162float(__float2bfloat16_rn(rest));
  return part == 0 ? high : part == 1 ? middle : part == 2 ? rest - middle : 0.f;
}
__device__ __forceinline__ std::uint32_t bf16_pair(float low, float high) {
  const __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&two);
}
// Sums the parts of rows: `heads` rows apart, so 4 * heads lanes.
template <int kCount>
__device__ __forceinline__ void sum_parts(float (&x)[kCount], int heads) {
#pragma unroll
  for (int z = 4; z < 32; z *= 2) {
    if (z < 4 * heads) continue;
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] += __shfl_xor_sync(~0u, x[i], z);
  }
}
// Rows of the operands that one set of parts takes: the queries of a KV head, as a power of two.
__device__ __forceinline__ int rows_of(int queries) {
  int rows = 1;
  while (rows < queries) rows *= 2;
  return rows;
}

template <class S>
__device__ void Consumer<S>::attend(const Record& r) {
  const int position = launch_.position + watch_.token, chains = chains_in_use(position);
  if (r.share < chains) {
    split_queries(r, wait_slice());
    pass_slice();
    stamp(1);
    sm90::meet<kConsumers>();
    for (int chain = r.share; chain < chains; chain += r.sharers) attend_chain(r, chain);
    if (chain_of(position) % r.sharers == r.share) pass_slice();
  }
  stamp(2);
  appended(r);
  post();
  stamp(3);
}

// Queries as operands: row part * heads + head of a 16-row matrix; each warp splits 16 dims.
template <class S>
__device__ void Consumer<S>::split_queries(const Record& r, const float* queries) {
  const int heads = rows_of(r.queries), g = lane_ / 4, t = lane_ % 4, head = g % heads;
  for (int step = warp_; step < kDim / 16; step += kConsumerWarps) {
    std::uint32_t q[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int part = (g + i % 2 * 8) / heads, column = step * 16 + i / 2 * 8 + 2 * t;
      float2 two{0, 0};
      if (head < r.queries) two = *reinterpret_cast<const float2*>(queries + head * kDim + column);
      q[i] = bf16_pair(bf16_part(two.x, part), bf16_part(two.y, part));
    }
    shared_.queries[step][lane_] = uint4{q[0], q[1], q[2], q[3]};
  }
}

template <class S>
__device__ void Consumer<S>::attend_chain(const Record& r, int chain) {
  const int position = launch_.position + watch_.token;
  State state{-1e30f, 0, {}};
  for (ChainBlocks blocks(chain, position); blocks.more(); blocks.next()) {
    const int first_stage = ring_.at;
    for (int i = 0; i < blocks.leaves(); ++i) {
      const bool keep = blocks.last() && i == 0;
      const bool own = i == warp_ / kLeafWarps && blocks.leaf * kLeafKeys + warp_ * kWarpKeys <= position;
      if (own) attend_leaf(r, blocks.leaf + i, keep, state);
      if (!own) pass_leaf(keep);
    }
    const int seen = (position - blocks.leaf * kLeafKeys) / kWarpKeys + 1;  // warps with a key of this block
    if (blocks.last())
      merge_warps(r, chain, state, first_stage, blocks.first() ? min(seen, kConsumerWarps) : kConsumerWarps);
  }
}

// A leaf of other warps' keys, or the slots of one that is kept for merge_warps.
template <class S>
__device__ void Consumer<S>::pass_leaf(bool keep) {
  for (int i = 0; i < S::kLeafSlots; ++i) {
    wait_stage();
    if (!keep) free_stage(ring_.at);
    ring_.next();
  }
}

// This warp's keys and values of one leaf; `keep` leaves its slots to merge_warps.
template <class S>
__device__ void Consumer<S>::attend_leaf(const Record& r, int leaf, bool keep, State& state) {
  const int position = launch_.position + watch_.token, heads = rows_of(r.queries), g = lane_ / 4, t = lane_ % 4;
  const int first = warp_ % kLeafWarps * kWarpKeys;  // row of the leaf
  const bool appends = leaf == position / kLeafKeys && position % kLeafKeys / kWarpKeys == warp_ % kLeafWarps;
  float s[kWarpKeys / 8][4];
  std::uint32_t p[kWarpKeys / 16][4];
#pragma unroll
  for (int n = 0; n < kWarpKeys / 8; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) s[n][i] = 0;
#pragma unroll
  for (int panel = 0; panel < 2 * S::kPanels; ++panel) {
    if (panel % S::kSlotPanels == 0) wait_stage();
    std::uint8_t* at = stage() + panel % S::kSlotPanels * kPanelBytes;
    if (appends) append(r, leaf, panel, at);
    const std::uint32_t rows = sm90::shared_address(at) + first * 128;
    if (panel < S::kPanels) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4 low = shared_.queries[panel * 4 + half * 2][lane_];
        const uint4 high = shared_.queries[panel * 4 + half * 2 + 1][lane_];
        const std::uint32_t q[2][4] = {{low.x, low.y, low.z, low.w}, {high.x, high.y, high.z, high.w}};
        std::uint32_t m[kWarpKeys / 8][4];
#pragma unroll
        for (int n = 0; n < kWarpKeys / 8; ++n)
          sm90::load_matrices(m[n], rows + (8 * n + lane_ % 8) * 128 + ((half * 4 + lane_ / 8) ^ (lane_ % 8)) * 16);
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
          for (int n = 0; n < kWarpKeys / 8; ++n) sm90::mma_bf16(s[n], q[i], m[n][2 * i], m[n][2 * i + 1]);
      }
    } else {
#pragma unroll
      for (int chunk = 0; chunk < 8; ++chunk) {
        std::uint32_t m[4];
        sm90::load_matrices_transposed(m, rows + lane_ * 128 + (chunk ^ (lane_ % 8)) * 16);
        auto& out = state.out[(panel - S::kPanels) * 8 + chunk];
        sm90::mma_bf16(out, p[0], m[0], m[1]);
        sm90::mma_bf16(out, p[1], m[2], m[3]);
      }
    }
    if (panel + 1 == S::kPanels) {
      float scores[kWarpKeys / 4];
#pragma unroll
      for (int i = 0; i < kWarpKeys / 4; ++i) scores[i] = s[i / 2][i % 2] + s[i / 2][2 + i % 2];
      sum_parts(scores, heads);
      softmax_step(leaf * kLeafKeys + first + 2 * t, position, scores, state);
#pragma unroll
      for (int i = 0; i < kWarpKeys / 4; ++i) {
        const int j = i / 2 * 2;
        p[i / 4][i % 4] =
            bf16_pair(bf16_part(scores[j], (g + i % 2 * 8) / heads), bf16_part(scores[j + 1], (g + i % 2 * 8) / heads));
      }
    }
    if ((panel + 1) % S::kSlotPanels != 0) continue;
    if (!keep && appends) sm90::fence_bulk_shared();
    if (!keep) free_stage(ring_.at);
    ring_.next();
  }
}

// This token's key and value are in the cache, for bulk copies of the next token to read.
template <class S>
__device__ void Consumer<S>::appended(const Record& r) {
  const int position = launch_.position + watch_.token;
  if (chain_of(position) % r.sharers != r.share || warp_ != position % kBlockKeys / kWarpKeys) return;
  sm90::fence_bulk();
  __syncwarp();
  if (lane_ == 0) shared_.appended = static_cast<unsigned>(watch_.token * kTokenAttends + r.in_version + 1);
}

// Writes this token's key or value, two numbers a lane, over its row of a panel, and into the cache.
template <class S>
__device__ void Consumer<S>::append(const Record& r, int leaf, int panel, std::uint8_t* at) {
  const float* made = wait_slice();
  const int row = (launch_.position + watch_.token) % kLeafKeys;
  const float2 two = *reinterpret_cast<const float2*>(made + panel * kPanelDims + 2 * lane_);
  const int byte = row * 128 + ((lane_ / 4) ^ (row % 8)) * 16 + lane_ % 4 * 4;
  const std::uint32_t bits = bf16_pair(two.x, two.y);
  *reinterpret_cast<std::uint32_t*>(at + byte) = bits;
  auto* cache = reinterpret_cast<std::uint8_t*>(r.tiles) + r.kv_head * launch_.cache_head_bytes;
  *reinterpret_cast<std::uint32_t*>(cache + (static_cast<std::int64_t>(leaf) * 2 * S::kPanels + panel) * kPanelBytes +
                                    byte) = bits;
  __syncwarp();
}

// Scores, in units of log2(e), of keys `key`, + 1, + 8, + 9, + 16, ...: replaced by their probabilities.      Milakov &
// Gimelshein 2018
template <class S>
__device__ void Consumer<S>::softmax_step(int key, int position, float (&scores)[kWarpKeys / 4], State& state) {
  float largest = -1e30f;
#pragma unroll
  for (int i = 0; i < kWarpKeys / 4; ++i) {
    if (key + i / 2 * 8 + i % 2 > position) scores[i] = -INFINITY;
    largest = fmaxf(largest, scores[i]);
  }
  largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
  largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
  largest = fmaxf(largest, state.largest);
  const float keep = exp2f(state.largest - largest);
  state.largest = largest;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kWarpKeys / 4; ++i) scores[i] = exp2f(scores[i] - largest), sum += scores[i];
  state.sum = state.sum * keep + sum;
  if (__all_sync(~0u, keep == 1.f)) return;
#pragma unroll
  for (int n = 0; n < kDim / 8; ++n) {
    // Rows g and g + 8 belong to the same head.
#pragma unroll
    for (int i = 0; i < 4; ++i) state.out[n][i] *= keep;
  }
}

// Where a warp leaves its state, [query][kDim]: an eighth of a kept leaf.
template <class S>
__device__ float* Consumer<S>::scratch(int first_stage, int warp) const {
  constexpr int kBytes = 2 * S::kPanels * kPanelBytes / kConsumerWarps;
  static_assert(kMostQueries * kDim * 4 <= kBytes);
  const int panel = warp * kBytes / kPanelBytes, stage = (first_stage + panel / S::kSlotPanels) % S::kStages;
  return reinterpret_cast<float*>(shared_.ring + stage * S::kSlotBytes + panel % S::kSlotPanels * kPanelBytes +
                                  warp * kBytes % kPanelBytes);
}

// The chain's state from those of its first `warps` warps, the others having seen no key.
template <class S>
__device__ void Consumer<S>::merge_warps(const Record& r, int chain, const State& state, int first_stage, int warps) {
  const int heads = rows_of(r.queries), g = lane_ / 4, t = lane_ % 4, n = r.queries * kDim;
  float sum = state.sum;
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  float out[kDim / 4];
#pragma unroll
  for (int i = 0; i < kDim / 4; ++i) out[i] = state.out[i / 2][i % 2] + state.out[i / 2][2 + i % 2];
  sum_parts(out, heads);
  sm90::meet<kConsumers>();  // the kept leaf has been read
  if (g < r.queries && warp_ < warps) {
    if (t == 0) shared_.largest[warp_][g] = state.largest, shared_.sum[warp_][g] = sum;
    float* own = scratch(first_stage, warp_) + g * kDim + 2 * t;
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) *reinterpret_cast<float2*>(own + i * 8) = float2{out[2 * i], out[2 * i + 1]};
  }
  sm90::meet<kConsumers>();
  const bool alone = chains_in_use(launch_.position + watch_.token) == 1;
  for (int i = thread_; i < n; i += kConsumers) {
    const int head = i / kDim;
    float largest = shared_.largest[0][head], total = 0, y = 0;
    for (int w = 1; w < warps; ++w) largest = fmaxf(largest, shared_.largest[w][head]);
#pragma unroll
    for (int w = 0; w < kConsumerWarps; ++w) {
      if (w >= warps) break;
      const float f = exp2f(shared_.largest[w][head] - largest);
      total = fmaf(f, shared_.sum[w][head], total);
      y = fmaf(f, scratch(first_stage, w)[i], y);
    }
    float* part = launch_.arena + r.out + (r.kv_head * kChains + chain) * (n + 2 * r.queries);
    __stcg(alone ? launch_.arena + r.residual + r.kv_head * n + i : part + i, alone ? y / total : y);
    if (!alone && i % kDim == 0) __stcg(reinterpret_cast<float2*>(part + n + 2 * head), float2{largest, total});
  }
  for (int i = 0; i < S::kLeafSlots; ++i) free_written_stage((first_stage + i) % S::kStages);
}

// Outputs of this CTA's share, from the states of all chains. A warp's 32 outputs are of one head; lane c holds chain
// c's scale.
template <class S>
__device__ void Consumer<S>::merge(const Record& r) {
  const int chains = chains_in_use(launch_.position + watch_.token), n = r.queries * kDim, count = n / r.sharers;
  const int state = n + 2 * r.queries;
  for (int base = warp_ * 32; chains > 1 && base < count; base += kConsumers) {
    if (lane_ == 0) watch_.counter(r.parts, r.in_version);
    __syncwarp();  // the others' loads stay behind lane 0's wait
    stamp(1);
    const int first = r.share * count + base, i = min(first + lane_, n - 1);
    const float* part = launch_.arena + r.in + r.kv_head * kChains * state;
    float2 scale{-1e30f, 0};
    if (lane_ < chains) scale = __ldcg(reinterpret_cast<const float2*>(part + lane_ * state + n + 2 * (first / kDim)));
    float out[kChains];
#pragma unroll
    for (int c = 0; c < kChains; ++c) out[c] = c < chains ? __ldcg(part + c * state + i) : 0.f;
    float largest = scale.x, total, y = 0;
#pragma unroll
    for (int z = 8; z > 0; z /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, z));
    const float factor = exp2f(scale.x - largest);
    total = factor * scale.y;
#pragma unroll
    for (int z = 8; z > 0; z /= 2) total += __shfl_xor_sync(~0u, total, z);
    total = __shfl_sync(~0u, total, 0);
#pragma unroll
    for (int c = 0; c < kChains; ++c) y = fmaf(__shfl_sync(~0u, factor, c), out[c], y);
    if (base + lane_ < count) __stcg(launch_.arena + r.out + r.kv_head * n + i, y / total);
  }
  stamp(2);
  post();
  stamp(3);
}

}  // namespace fourfold::cuda::persistent
