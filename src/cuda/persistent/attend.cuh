// Attention of one token inside the persistent kernel, as the consumers do it.
//
// All query heads of a KV head share its keys: they are rows of one 16-row operand, and the rows that are left hold the
// lower bf16 parts of the same queries, so that scores are exact to float32; the probabilities go back in as parts in
// the same way. A warp owns keys 8 w .. 8 w + 7 of every leaf, with a running state of its own; the warps' states meet
// in the chain's last leaf, the chains' states in the merge task, always first to last.
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
// Sums the parts of a row: rows `heads` apart, lanes 4 * heads apart.
__device__ __forceinline__ float sum_parts(float x, int heads) {
#pragma unroll
  for (int z = 4; z < 32; z *= 2) {
    const float other = __shfl_xor_sync(~0u, x, z);
    x += z >= 4 * heads ? other : 0.f;
  }
  return x;
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
    stamp(1);
    sm90::meet<kConsumers>();
    for (int chain = r.share; chain < chains; chain += r.sharers) attend_chain(r, chain);
    pass_slice();
    if (chain_of(position) % r.sharers == r.share) pass_slice();
  }
  sm90::meet<kConsumers>();
  stamp(2);
  if (thread_ == 0) {
    std::uint32_t* count = launch_.count;
    if (chains == 1 && r.share == 0)  // no merge will follow
      for (int s = 0; s < r.slices; ++s) sm90::counter_add(count + (r.out_counter + s) * kCounterWords, r.groups);
    sm90::counter_add(count + r.parts * kCounterWords, 1);
  }
  appended(r);
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
  State state{-1e30f, 0, {}, {}};
  for (ChainLeaves leaves(chain, launch_.position + watch_.token); leaves.more(); leaves.next()) {
    const int first_stage = ring_.at;
    const bool last = leaves.last();
    attend_leaf(r, leaves.leaf, last, state);
    if (last) merge_warps(r, chain, state, first_stage);
  }
}

// One leaf of keys and values; the slots of a chain's last leaf are kept for merge_warps.
template <class S>
__device__ void Consumer<S>::attend_leaf(const Record& r, int leaf, bool last, State& state) {
  const int position = launch_.position + watch_.token, heads = rows_of(r.queries), g = lane_ / 4, t = lane_ % 4;
  const bool appends = leaf == position / kLeafKeys && warp_ == position % kLeafKeys / 8;
  const int row = 8 * warp_ + lane_ % 8;  // of the panel: the key whose 16-byte chunks this lane names
  float s[4] = {0, 0, 0, 0}, odd[4] = {0, 0, 0, 0};
  std::uint32_t p[2] = {0, 0};
#pragma unroll
  for (int panel = 0; panel < 2 * S::kPanels; ++panel) {
    if (panel % S::kSlotPanels == 0) wait_stage();
    std::uint8_t* at = stage() + panel % S::kSlotPanels * kPanelBytes;
    if (appends) append(r, leaf, panel, at);
    const std::uint32_t line = sm90::shared_address(at) + row * 128;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t chunk = line + ((half * 4 + lane_ / 8) ^ (row % 8)) * 16;
      std::uint32_t m[4];
      if (panel < S::kPanels) {
        sm90::load_matrices(m, chunk);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const uint4 own = shared_.queries[panel * 4 + half * 2 + i][lane_];
          const std::uint32_t q[4] = {own.x, own.y, own.z, own.w};
          sm90::mma_bf16(i == 0 ? s : odd, q, m[2 * i], m[2 * i + 1]);
        }
      } else {
        sm90::load_matrices_transposed(m, chunk);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          sm90::mma_bf16_k8(state.out[(panel - S::kPanels) * 8 + half * 4 + i], p[0], p[1], m[i]);
      }
    }
    if (panel + 1 == S::kPanels) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s[i] += odd[i];
      const float scores[2] = {sum_parts(s[0] + s[2], heads), sum_parts(s[1] + s[3], heads)};
      softmax_step(leaf * kLeafKeys + 8 * warp_ + 2 * t, position, scores, state);
      p[0] = bf16_pair(bf16_part(state.p[0], g / heads), bf16_part(state.p[1], g / heads));
      p[1] = bf16_pair(bf16_part(state.p[0], (g + 8) / heads), bf16_part(state.p[1], (g + 8) / heads));
    }
    if ((panel + 1) % S::kSlotPanels != 0) continue;
    if (!last && appends) sm90::fence_bulk_shared();
    if (!last) free_stage(ring_.at);
    ring_.next();
  }
}

// This token's key and value are in the cache, for bulk copies of the next token to read.
template <class S>
__device__ void Consumer<S>::appended(const Record& r) {
  const int position = launch_.position + watch_.token;
  if (chain_of(position) % r.sharers != r.share || warp_ != position % kLeafKeys / 8) return;
  sm90::fence_bulk();
  __syncwarp();
  if (lane_ == 0) shared_.appended = static_cast<unsigned>(watch_.token * kTokenAttends + r.in_version + 1);
}

// Writes this token's key or value, two numbers a lane, over its row of a panel, and into the cache.
template <class S>
__device__ void Consumer<S>::append(const Record& r, int leaf, int panel, std::uint8_t* at) {
  Place<S::kSlices> place = slices_;
  place.next();
  watch_.barrier(sm90::shared_address(&shared_.slice_full[place.at]), place.parity);
  const int row = (launch_.position + watch_.token) % kLeafKeys;
  const float2 two = *reinterpret_cast<const float2*>(shared_.slices[place.at] + panel * kPanelDims + 2 * lane_);
  const int byte = row * 128 + ((lane_ / 4) ^ (row % 8)) * 16 + lane_ % 4 * 4;
  const std::uint32_t bits = bf16_pair(two.x, two.y);
  *reinterpret_cast<std::uint32_t*>(at + byte) = bits;
  auto* cache = reinterpret_cast<std::uint8_t*>(r.tiles) + r.kv_head * launch_.cache_head_bytes;
  *reinterpret_cast<std::uint32_t*>(cache + (static_cast<std::int64_t>(leaf) * 2 * S::kPanels + panel) * kPanelBytes +
                                    byte) = bits;
  __syncwarp();
}

// Scores of keys `key` and `key` + 1, in units of log2(e): their probabilities go to state.p.      Milakov & Gimelshein
// 2018
template <class S>
__device__ void Consumer<S>::softmax_step(int key, int position, const float (&scores)[2], State& state) {
  const bool seen[2] = {key <= position, key + 1 <= position};
  float largest = fmaxf(seen[0] ? scores[0] : -1e30f, seen[1] ? scores[1] : -1e30f);
  largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
  largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
  largest = fmaxf(largest, state.largest);
  const float keep = exp2f(state.largest - largest);
  state.largest = largest;
#pragma unroll
  for (int i = 0; i < 2; ++i) state.p[i] = seen[i] ? exp2f(scores[i] - largest) : 0.f;
  state.sum = state.sum * keep + (state.p[0] + state.p[1]);
  if (__all_sync(~0u, keep == 1.f)) return;
#pragma unroll
  for (int n = 0; n < kDim / 8; ++n) {
    // Rows g and g + 8 belong to the same head.
#pragma unroll
    for (int i = 0; i < 4; ++i) state.out[n][i] *= keep;
  }
}

template <class S>
__device__ void Consumer<S>::merge_warps(const Record& r, int chain, State& state, int first_stage) {
  const int heads = rows_of(r.queries), g = lane_ / 4, t = lane_ % 4, n = r.queries * kDim;
  // Head h's numbers of a warp lie in the warp's own rows of a panel, which hold 256 floats; the next warp's 1 KB on.
  const auto scratch = [&](int head) {
    const int panel = head * kDim / 256;
    std::uint8_t* slot = shared_.ring + (first_stage + panel / S::kSlotPanels) % S::kStages * S::kSlotBytes;
    return reinterpret_cast<float*>(slot + panel % S::kSlotPanels * kPanelBytes) + head * kDim % 256;
  };
  float sum = state.sum;
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  if (g < r.queries && t == 0) shared_.largest[warp_][g] = state.largest, shared_.sum[warp_][g] = sum;
  __syncwarp();
  float* own = scratch(min(g, r.queries - 1)) + warp_ * 256 + 2 * t;
#pragma unroll
  for (int i = 0; i < kDim / 8; ++i) {
    const float2 two{sum_parts(state.out[i][0] + state.out[i][2], heads),
                     sum_parts(state.out[i][1] + state.out[i][3], heads)};
    if (g < r.queries) *reinterpret_cast<float2*>(own + i * 8) = two;
  }
  sm90::meet<kConsumers>();
  const bool alone = chains_in_use(launch_.position + watch_.token) == 1;
  for (int i = thread_; i < n; i += kConsumers) {
    const int head = i / kDim;
    const float* parts = scratch(head) + i % kDim;
    float largest = shared_.largest[0][head], total = 0, out = 0;
    for (int w = 1; w < kConsumerWarps; ++w) largest = fmaxf(largest, shared_.largest[w][head]);
#pragma unroll
    for (int w = 0; w < kConsumerWarps; ++w) {
      const float f = exp2f(shared_.largest[w][head] - largest);
      total = fmaf(f, shared_.sum[w][head], total);
      out = fmaf(f, parts[w * 256], out);
    }
    float* part = launch_.arena + r.out + (r.kv_head * kChains + chain) * (n + 2 * r.queries);
    __stcg(alone ? launch_.arena + r.residual + r.kv_head * n + i : part + i, alone ? out / total : out);
    if (!alone && i % kDim == 0) __stcg(reinterpret_cast<float2*>(part + n + 2 * head), float2{largest, total});
  }
  for (int i = 0; i < S::kLeafSlots; ++i) free_written_stage((first_stage + i) % S::kStages);
  if (r.sharers < kChains) sm90::meet<kConsumers>();  // the next chain writes `largest` and `sum` again
}

// Outputs of this CTA's share, from the states of all chains. A warp's 32 outputs are of one head; lane c holds chain
// c's scale.
template <class S>
__device__ void Consumer<S>::merge(const Record& r) {
  const int chains = chains_in_use(launch_.position + watch_.token), n = r.queries * kDim, count = n / r.sharers;
  if (chains == 1) return;
  const int state = n + 2 * r.queries;
  for (int base = warp_ * 32; base < count; base += kConsumers) {
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
    announce(r.out_counter, r.kv_head * n + first, min(32, count - base));
    stamp(3);
  }
}

}  // namespace fourfold::cuda::persistent
