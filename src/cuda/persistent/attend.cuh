// Attention of one token inside the persistent kernel, as the consumers do it.
//
// All query heads of a KV head share its keys: they are rows of one 16-row operand, and the rows that are left hold the
// lower bf16 parts of the same queries, so that scores are exact to float32; the probabilities go back in as parts in
// the same way. A warp owns keys 32 w .. 32 w + 31 of every block, with a running state of its own; the warps' states
// meet in the first leaf of the chain's last block, the chains' states in the merge task, in a fixed order. Latency
// binds: at 4096 keys a CTA attends to four leaves, once a layer, and the step waits for it.
#pragma once

#include "cuda/persistent/consumer.cuh"
#include "cuda/sm90/matrix.cuh"

namespace fourfold::cuda::persistent {

// Two numbers as three bf16 parts each, which hold them exactly.
struct PartPairs {
  std::uint32_t pair[3];

  __device__ __forceinline__ PartPairs(float low, float high) {
#pragma unroll
    for (std::uint32_t& p : pair) {
      p = sm90::Bf16::pack(low, high);
      const float2 two = sm90::Bf16::unpack(p);
      low -= two.x;
      high -= two.y;
    }
  }
  // 0 from the fourth part on.
  __device__ __forceinline__ std::uint32_t part(int i) const {
    return i == 0 ? pair[0] : i == 1 ? pair[1] : i == 2 ? pair[2] : 0;
  }
};
// Rows of the operands that one set of parts takes, as a power of two: the queries of a KV head, filled up.
__device__ __forceinline__ int row_shift(int queries) { return 32 - __clz(queries - 1); }

template <class S>
__device__ void Consumer<S>::attend(const Record& r) {
  const int position = launch_.position + watch_.token, chains = chains_in_use(position);
  const bool idle = r.share >= chains;
  int kept = 0;
  if (!idle) {
    split_queries(r, wait_slice());
    pass_slice();
    stamp(1);
    sm90::meet<kConsumers>();
    for (int chain = r.share; chain < chains; chain += r.sharers) {
      if (chain != r.share) {
        free_leaf(kept);
        sm90::meet<kConsumers>();  // `largest` and `sum` have been read
      }
      kept = attend_chain(r, chain);
    }
  }
  stamp(2);
  post();
  if (!idle) free_leaf(kept);
  if (chain_of(position) % r.sharers == r.share) pass_slice();
  stamp(3);
}

// Queries as operands: row part << shift | head of a 16-row matrix; each warp splits 16 dims.
template <class S>
__device__ void Consumer<S>::split_queries(const Record& r, const float* queries) {
  const int shift = row_shift(r.queries), g = lane_ / 4, t = lane_ % 4, head = g & ((1 << shift) - 1);
  for (int step = warp_; step < kDim / 16; step += kConsumerWarps) {
    std::uint32_t q[4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float2 two{0, 0};
      if (head < r.queries) two = *reinterpret_cast<const float2*>(queries + head * kDim + step * 16 + i * 8 + 2 * t);
      const PartPairs parts(two.x, two.y);
      q[2 * i] = parts.part(g >> shift);
      q[2 * i + 1] = parts.part((g + 8) >> shift);
    }
    shared_.queries[step][lane_] = uint4{q[0], q[1], q[2], q[3]};
  }
}

// First slot of the leaf that is kept, the first of the chain's last block. A warp waits for its own leaf only; what it
// skips has landed by the time that its turn in the ring comes again, as the copies in flight are so few.
template <class S>
__device__ int Consumer<S>::attend_chain(const Record& r, int chain) {
  static_assert((ChainBlocks::kLeaves - 1) * S::kLeafSlots + 1 + S::kFly <= S::kStages);
  const int position = launch_.position + watch_.token, own = warp_ / kLeafWarps;
  int first_stage = 0;
  State state{kNothing, 0, {}};
  for (ChainBlocks blocks(chain, position); blocks.more(); blocks.next()) {
    const int leaves = blocks.leaves(), first_key = blocks.leaf * kLeafKeys + warp_ * kWarpKeys;
    first_stage = ring_.at;
    if (own < leaves) {
      ring_.advance(own * S::kLeafSlots);
      const int stage = ring_.at;
      if (first_key <= position) attend_leaf(r, first_key, state);
      if (first_key > position) take_stages(S::kLeafSlots);
      if (own != 0 || !blocks.last())
        for (int i = 0; i < S::kLeafSlots; ++i) free_stage((stage + i) % S::kStages, kConsumerWarps / kLeafWarps);
    }
    ring_.advance((own < leaves ? leaves - own - 1 : leaves) * S::kLeafSlots);
  }
  merge_warps(r, chain, state, first_stage);
  return first_stage;
}

template <class S>
__device__ void Consumer<S>::take_stages(int count) {
  for (int i = 0; i < count; ++i, ring_.next()) wait_stage();
}
// All warps together.
template <class S>
__device__ void Consumer<S>::free_leaf(int first) {
  sm90::fence_bulk_shared();
  for (int i = 0; i < S::kLeafSlots; ++i) free_stage((first + i) % S::kStages);
}
// Panel `panel` of the leaf whose slots begin with `first`.
template <class S>
__device__ std::uint8_t* Consumer<S>::panel_at(int first, int panel) const {
  const int stage = (first + panel / S::kSlotPanels) % S::kStages;
  return shared_.ring + stage * S::kSlotBytes + panel % S::kSlotPanels * kPanelBytes;
}

// This warp's keys, from `first_key` on, and their values.
template <class S>
__device__ void Consumer<S>::attend_leaf(const Record& r, int first_key, State& state) {
  constexpr int kTiles = kWarpKeys / 8, kKeySlots = (S::kPanels + S::kSlotPanels - 1) / S::kSlotPanels;
  const int position = launch_.position + watch_.token, shift = row_shift(r.queries), g = lane_ / 4, t = lane_ % 4;
  const int row = first_key % kLeafKeys, stage = ring_.at;
  const bool appends = position / kWarpKeys == first_key / kWarpKeys;
  float s[kTiles][4];
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) s[n][i] = 0;
  take_stages(kKeySlots);
  if (appends) append(stage, 0);
#pragma unroll 1
  for (int step = 0; step < kDim / 32; ++step) {
    const std::uint32_t line = sm90::shared_address(panel_at(stage, step / 2)) + (row + lane_ % 8) * 128 +
                               ((step % 2 * 4 + lane_ / 8) ^ (lane_ % 8)) * 16;
    const uint4 low = shared_.queries[2 * step][lane_], high = shared_.queries[2 * step + 1][lane_];
    const std::uint32_t q[2][4] = {{low.x, low.y, low.z, low.w}, {high.x, high.y, high.z, high.w}};
    std::uint32_t m[kTiles][4];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) sm90::load_matrices(m[n], line + n * 8 * 128);
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int n = 0; n < kTiles; ++n) sm90::mma_bf16(s[n], q[i], m[n][2 * i], m[n][2 * i + 1]);
  }
  float p[2 * kTiles];
#pragma unroll
  for (int i = 0; i < 2 * kTiles; ++i) p[i] = s[i / 2][i % 2] + s[i / 2][2 + i % 2];
  for (int z = 4 << shift; z < 32; z *= 2)  // the parts of a row: rows 1 << shift apart
#pragma unroll
    for (float& x : p) x += __shfl_xor_sync(~0u, x, z);
  softmax_step(first_key + 2 * t, position, p, state);
  std::uint32_t parts[kTiles / 2][4];
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const PartPairs split(p[2 * n], p[2 * n + 1]);
    parts[n / 2][n % 2 * 2] = split.part(g >> shift);
    parts[n / 2][n % 2 * 2 + 1] = split.part((g + 8) >> shift);
  }
  take_stages(S::kLeafSlots - kKeySlots);
  if (appends) append(stage, S::kPanels);
#pragma unroll
  for (int panel = 0; panel < S::kPanels; ++panel) {
    const std::uint32_t line = sm90::shared_address(panel_at(stage, S::kPanels + panel)) + (row + lane_) * 128;
#pragma unroll
    for (int chunk = 0; chunk < 8; ++chunk) {
      std::uint32_t m[4];
      sm90::load_matrices_transposed(m, line + (chunk ^ (lane_ % 8)) * 16);
#pragma unroll
      for (int i = 0; i < kTiles / 2; ++i)
        sm90::mma_bf16(state.out[panel * 8 + chunk], parts[i], m[2 * i], m[2 * i + 1]);
    }
  }
  if (appends) sm90::fence_bulk_shared();
}

// Writes this token's key (first_panel 0) or value, two numbers a lane, over its row of the leaf in slots `stage`, ...
// Values behind it, which may be anything, become 0 among this warp's rows.
template <class S>
__device__ void Consumer<S>::append(int stage, int first_panel) {
  const auto* made = reinterpret_cast<const std::uint32_t*>(wait_slice());
  const int row = (launch_.position + watch_.token) % kLeafKeys, after = row / kWarpKeys * kWarpKeys + lane_;
#pragma unroll 1
  for (int panel = first_panel; panel < first_panel + S::kPanels; ++panel) {
    std::uint8_t* at = panel_at(stage, panel);
    *reinterpret_cast<std::uint32_t*>(at + CacheLayout::within(row, 2 * lane_, 2)) = made[panel * 32 + lane_];
    if (first_panel == 0 || after <= row) continue;
    for (int chunk = 0; chunk < 8; ++chunk) reinterpret_cast<uint4*>(at + after * 128)[chunk] = uint4{0, 0, 0, 0};
  }
  __syncwarp();
}

// Scores, in units of log2(e), of keys `key`, + 1, + 8, + 9, + 16, ...: replaced by their probabilities.      Milakov &
// Gimelshein 2018
template <class S>
__device__ void Consumer<S>::softmax_step(int key, int position, float (&scores)[kWarpKeys / 4], State& state) {
  float largest = kNothing, sum = 0;
#pragma unroll
  for (int i = 0; i < kWarpKeys / 4; ++i) {
    if (key + i / 2 * 8 + i % 2 > position) scores[i] = -INFINITY;
    largest = fmaxf(largest, scores[i]);
  }
  largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
  largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
  largest = fmaxf(largest, state.largest);
#pragma unroll
  for (float& x : scores) x = sm90::exp2_fast(x - largest), sum += x;
  const bool moves = state.largest > kNothing && largest > state.largest;
  const float keep = sm90::exp2_fast(state.largest - largest);
  state.largest = largest;
  state.sum = state.sum * keep + sum;
  if (!__any_sync(~0u, moves)) return;
#pragma unroll
  for (int n = 0; n < kDim / 8; ++n) {
    // Rows g and g + 8 belong to the same head.
#pragma unroll
    for (int i = 0; i < 4; ++i) state.out[n][i] *= keep;
  }
}

// Where a warp leaves its state, [row of the operand, 8][kDim]: an eighth of a kept leaf. 8 columns stand at their
// place xor the row's, free of bank conflicts.
template <class S>
__device__ float* Consumer<S>::scratch(int first_stage, int warp) const {
  constexpr int kBytes = 2 * S::kPanels * kPanelBytes / kConsumerWarps;
  static_assert(8 * kDim * 4 == kBytes);
  return reinterpret_cast<float*>(panel_at(first_stage, warp * kBytes / kPanelBytes) + warp * kBytes % kPanelBytes);
}

// The chain's state from those of its warps. A warp that has seen no key adds zeros.
template <class S>
__device__ void Consumer<S>::merge_warps(const Record& r, int chain, const State& state, int first_stage) {
  const int shift = row_shift(r.queries), g = lane_ / 4, t = lane_ % 4, n = r.queries * kDim;
  float sum = state.sum, largest = state.largest;
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  if (t == 0) shared_.largest[warp_][g] = largest;
  sm90::meet<kConsumers>();  // the kept leaf has been read
#pragma unroll
  for (int w = 0; w < kConsumerWarps; ++w) largest = fmaxf(largest, shared_.largest[w][g]);
  const float keep = sm90::exp2_fast(state.largest - largest);
  if (t == 0) shared_.sum[warp_][g] = sum * keep;
  float* own = scratch(first_stage, warp_) + g * kDim + 2 * t;
#pragma unroll
  for (int i = 0; i < kDim / 8; ++i)
    *reinterpret_cast<float2*>(own + ((i ^ g) * 8)) =
        float2{(state.out[i][0] + state.out[i][2]) * keep, (state.out[i][1] + state.out[i][3]) * keep};
  sm90::meet<kConsumers>();
  const bool alone = chains_in_use(launch_.position + watch_.token) == 1;
  float* part = launch_.arena + r.out + (r.kv_head * kChains + chain) * (n + 2 * r.queries);
  for (int i = 2 * thread_; i < n; i += 2 * kConsumers) {
    const int head = i / kDim, column = i % kDim;
    float total = 0;
    float2 y{0, 0};
#pragma unroll
    for (int w = 0; w < kConsumerWarps; ++w) total += shared_.sum[w][head];
    for (int row = head; row < 8; row += 1 << shift)  // parts of the probabilities
#pragma unroll
      for (int w = 0; w < kConsumerWarps; ++w) {
        const float* at = scratch(first_stage, w) + row * kDim + (column ^ (row * 8));
        y.x += at[0];
        y.y += at[1];
      }
    if (alone) y = {__fdividef(y.x, total), __fdividef(y.y, total)};
    __stcg(reinterpret_cast<float2*>(alone ? launch_.arena + r.residual + r.kv_head * n + i : part + i), y);
    if (alone || column != 0) continue;
    float most = kNothing;
    for (int w = 0; w < kConsumerWarps; ++w) most = fmaxf(most, shared_.largest[w][head]);
    __stcg(reinterpret_cast<float2*>(part + n + 2 * head), float2{most, total});
  }
}

// Outputs of this CTA's share, from the states of all chains. A warp's 32 outputs are of one head: a lane has four of
// them, of every fourth chain; lane c holds chain c's scale. A first round without effect, before the states are there,
// brings the instructions, 1 us at 4096 keys. lab: persistent-merge-rehearsal-0001
template <class S>
__device__ void Consumer<S>::merge(const Record& r) {
  const int chains = chains_in_use(launch_.position + watch_.token), n = r.queries * kDim, count = n / r.sharers;
  const int state = n + 2 * r.queries;
  bool rehearsal = true;
#pragma unroll 1
  for (int base = warp_ * 32; chains > 1 && base < count; base += rehearsal ? 0 : kConsumers, rehearsal = false) {
    if (!rehearsal) {
      if (lane_ == 0) watch_.counter(r.parts, r.in_version);
      __syncwarp();  // the others' loads stay behind lane 0's wait
      stamp(1);
    }
    const int own = base + lane_ % 8 * 4, i = r.share * count + min(own, count - 4);
    const float* parts = launch_.arena + r.in + r.kv_head * kChains * state;
    float2 scale{kNothing, 0};
    if (lane_ < chains) scale = __ldcg(reinterpret_cast<const float2*>(parts + lane_ * state + n + i / kDim * 2));
    float4 out[kChains / 4];
#pragma unroll
    for (int k = 0; k < kChains / 4; ++k)
      out[k] = __ldcg(reinterpret_cast<const float4*>(parts + min(k * 4 + lane_ / 8, chains - 1) * state + i));
    float largest = scale.x;
#pragma unroll
    for (int z = 8; z > 0; z /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, z));
    const float factor = sm90::exp2_fast(scale.x - largest);
    float total = factor * scale.y;
#pragma unroll
    for (int z = 8; z > 0; z /= 2) total += __shfl_xor_sync(~0u, total, z);
    const float inverse = __fdividef(1.f, __shfl_sync(~0u, total, 0));
    float4 y{0, 0, 0, 0};
#pragma unroll
    for (int k = 0; k < kChains / 4; ++k) {
      const float f = __shfl_sync(~0u, factor, k * 4 + lane_ / 8);
      y = {fmaf(f, out[k].x, y.x), fmaf(f, out[k].y, y.y), fmaf(f, out[k].z, y.z), fmaf(f, out[k].w, y.w)};
    }
#pragma unroll
    for (float* v : {&y.x, &y.y, &y.z, &y.w}) {
      *v += __shfl_xor_sync(~0u, *v, 8);
      *v += __shfl_xor_sync(~0u, *v, 16);
      *v *= inverse;
    }
    if (!rehearsal && lane_ < 8 && own < count)
      __stcg(reinterpret_cast<float4*>(launch_.arena + r.out + r.kv_head * n + i), y);
  }
  stamp(2);
  post();
  stamp(3);
}

}  // namespace fourfold::cuda::persistent
