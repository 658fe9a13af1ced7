// The consumers: eight warps multiply tiles as they land, each its strip of columns, and finish what a task makes.
//
// Sums of a project's row groups stay in registers over all its slices; the warps' sums meet in the task's last slot of
// the ring, each warp writing over its own strip. Bits depend on the order of slices, which the plan fixes, on nothing
// else. Memory binds: a tile takes a warp about 0.1 us, the stream brings one in 0.47 us.
#pragma once

#include "cuda/persistent/machine.cuh"
#include "program/random_bytes.hpp"

namespace fourfold::cuda::persistent {

// A float as an unsigned number of the same order; NaN comes before all.
__device__ __forceinline__ std::uint32_t ordered(float x) {
  const std::uint32_t bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0;
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// Gumbel noise of (seed, position, id): as the kernels of the other arms make it.
__device__ __forceinline__ float gumbel(std::uint64_t seed, int position, int id) {
  const std::uint64_t place = static_cast<std::uint64_t>(position) << 32 | static_cast<std::uint32_t>(id);
  const std::uint64_t bits = RandomBytes::mix(RandomBytes::mix(seed) + place);
  const float uniform = (static_cast<float>(bits >> 40) + 0.5f) * 0x1p-24f;
  return -logf(-logf(uniform));
}

template <class S>
class Consumer {
 public:
  __device__ Consumer(const Launch& launch, Shared<S>& shared)
      : launch_(launch),
        shared_(shared),
        watch_{launch, shared},
        thread_(threadIdx.x),
        warp_(threadIdx.x / 32),
        lane_(threadIdx.x % 32),
        full_(sm90::shared_address(shared.full)),
        empty_(sm90::shared_address(shared.empty)) {
    posts_.parity = 1;
  }

  __device__ void run(Tasks tasks);

 private:
  using Tile = typename S::Tile;
  static constexpr int kDim = S::kDim;
  // Where a warp's strip begins in a tile, and where it leaves its sums.
  static constexpr int kStripBytes = Tile::Low::kBytes / kTileStrips;
  static_assert(kStripBytes >= kMaxGroups * kGroupRows * 4);

  // ---- Rings ----
  __device__ std::uint8_t* stage() const { return shared_.ring + ring_.at * S::kSlotBytes; }
  __device__ void wait_stage() { watch_.barrier(sm90::shared_address(&shared_.full[ring_.at]), ring_.parity); }
  __device__ void free_stage(int at, int arrivals = 1) {
    __syncwarp();
    if (lane_ == 0) sm90::Barrier{empty_ + at * 8}.arrive(arrivals);
  }
  __device__ void pass_stage() {
    free_stage(ring_.at);
    ring_.next();
  }
  // The same of a slot that was written to: the next bulk copy has to see that.
  __device__ void free_written_stage(int at) {
    sm90::fence_bulk_shared();
    free_stage(at);
  }
  __device__ const float* wait_slice() {
    watch_.barrier(sm90::shared_address(&shared_.slice_full[slices_.at]), slices_.parity);
    return shared_.slices[slices_.at];
  }
  __device__ void pass_slice() {
    __syncwarp();
    if (lane_ == 0) sm90::Barrier{sm90::shared_address(&shared_.slice_empty[slices_.at])}.arrive();
    slices_.next();
  }

  // When the last token's tasks were taken up, had their first input, had all of it, were announced.
  __device__ void stamp(int which) {
    if (launch_.trace == nullptr || thread_ != 0 || watch_.token + 1 != launch_.tokens) return;
    launch_.trace[(static_cast<std::int64_t>(blockIdx.x) * launch_.stride + task_) * kStamps + which] =
        sm90::global_nanoseconds();
  }

  // This warp's part of the task is written.
  __device__ void post() {
    __syncwarp();
    if (lane_ == 0) {
      watch_.barrier(sm90::shared_address(&shared_.announced[posts_.at]), posts_.parity);
      sm90::Barrier{sm90::shared_address(&shared_.posted[posts_.at])}.arrive();
    }
    posts_.next();
  }

  // ---- Project ----
  __device__ void project(const Record& r);
  __device__ void finish(const Record& r, float y, float residual, int row);
  __device__ float residual_of(const Record& r, int row) const;
  __device__ void keep_best(float logit, int id);
  __device__ void sample();

  // ---- Attend ----
  static constexpr float kNothing = -1e30f;  // largest score of no keys
  struct State {
    float largest, sum;  // of the head in this lane's rows; `sum` of this lane's keys only
    float out[kDim / 8][4];
  };
  __device__ void attend(const Record& r);
  __device__ void split_queries(const Record& r, const float* queries);
  __device__ int attend_chain(const Record& r, int chain);
  __device__ void attend_leaf(const Record& r, int first_key, State& state);
  __device__ void take_stages(int count);
  __device__ void free_leaf(int first);
  __device__ std::uint8_t* panel_at(int first, int panel) const;
  __device__ void append(int stage, int first_panel);
  __device__ void softmax_step(int key, int position, float (&scores)[kWarpKeys / 4], State& state);
  __device__ float* scratch(int first_stage, int warp) const;
  __device__ void merge_warps(const Record& r, int chain, const State& state, int first_stage);
  __device__ void merge(const Record& r);

  const Launch& launch_;
  Shared<S>& shared_;
  Watch<S> watch_;
  int thread_, warp_, lane_, task_ = 0;
  Place<S::kStages> ring_;
  Place<S::kSlices> slices_;
  Place<kPosts> posts_;
  unsigned long long best_ = 0;
  std::uint32_t full_, empty_;  // addresses of the ring's barriers
};

template <class S>
__device__ void Consumer<S>::run(Tasks tasks) {
  for (watch_.token = 0; watch_.token < launch_.tokens; ++watch_.token)
    for (int i = 0; i < tasks.count(); ++i) {
      const Record& r = tasks.take();
      watch_.phase = r.phase;
      task_ = i;
      stamp(0);
      switch (static_cast<Kind>(r.kind)) {
        case Kind::project:
          project(r);
          break;
        case Kind::attend:
          attend(r);
          break;
        case Kind::merge:
          merge(r);
          break;
        case Kind::sample:
          sample();
          break;
      }
    }
}

template <class S>
__device__ float Consumer<S>::residual_of(const Record& r, int row) const {
  if (r.residual != kEmbedding) return __ldcg(launch_.arena + r.residual + row);
  return embedded<Tile>(launch_, token_id(launch_, watch_.token), static_cast<int>(r.rows), row);
}

template <class S>
__device__ void Consumer<S>::project(const Record& r) {
  const int groups = r.groups, slices = r.slices, first_row = static_cast<int>(r.first_group) * kGroupRows;
  const int row = first_row + thread_;
  const bool gated = r.finish == static_cast<std::uint8_t>(Finish::gated);
  const bool own = thread_ < groups * kGroupRows && (gated || row < static_cast<int>(r.rows));
  float residual = 0, squares = 0;
  float acc[kMaxGroups][4];
#pragma unroll
  for (int g = 0; g < kMaxGroups; ++g)
#pragma unroll
    for (int i = 0; i < 4; ++i) acc[g][i] = 0;

  for (int s = 0; s < slices; ++s) {
    typename sm90::Strip<Tile>::Parts x;
    x.make(wait_slice() + warp_ * Tile::kStripColumns);
    if (s == 0) stamp(1);
    squares += shared_.squares[slices_.at];
    pass_slice();
    if (s == 0 && own && r.finish == static_cast<std::uint8_t>(Finish::add)) residual = residual_of(r, row);
      // Two tiles at a time: the tensor cores' latency, 0.1 us a tile, binds otherwise.
#pragma unroll
    for (int g = 0; g < kMaxGroups; g += 2) {
      if (g >= groups) break;
      sm90::Strip<Tile> first, second;
      wait_stage();
      first.template read<sm90::Shared>(stage(), warp_);
      if (s + 1 < slices || g + 1 < groups) pass_stage();
      if (g + 1 < groups) {
        wait_stage();
        second.template read<sm90::Shared>(stage(), warp_);
        if (s + 1 < slices || g + 2 < groups) pass_stage();
        first.accumulate(acc[g], x);
        second.accumulate(acc[g + 1], x);
      } else {
        first.accumulate(acc[g], x);
      }
    }
  }
  auto* sums = reinterpret_cast<float*>(stage() + warp_ * kStripBytes);
#pragma unroll
  for (int g = 0; g < kMaxGroups; ++g) {
    if (g >= groups) break;
    const float2 two = sm90::row_sums(acc[g]);
    if (lane_ % 4 == 0) {
      sums[g * kGroupRows + lane_ / 4] = two.x;
      sums[g * kGroupRows + 8 + lane_ / 4] = two.y;
    }
  }
  sm90::meet<kConsumers>();
  float y = 0;
#pragma unroll
  for (int w = 0; w < kConsumerWarps; ++w)
    y += *reinterpret_cast<const float*>(stage() + w * kStripBytes + (thread_ < groups * kGroupRows ? thread_ : 0) * 4);
  if (r.norm != 0) y *= rsqrtf(squares / static_cast<float>(r.columns) + r.eps);
  if (own && r.scales != 0) y *= __ldg(reinterpret_cast<const float*>(r.scales) + row);
  if (own && r.extra != 0) y += __ldg(reinterpret_cast<const float*>(r.extra) + row);
  stamp(2);
  finish(r, y, residual, row);
  post();
  stamp(3);
  free_written_stage(ring_.at);
  ring_.next();
}

template <class S>
__device__ void Consumer<S>::finish(const Record& r, float y, float residual, int row) {
  const int mine = min(static_cast<int>(r.groups) * kGroupRows - warp_ * 32, 32);  // rows of this warp
  const bool own = lane_ < mine && row < static_cast<int>(r.rows);
  const int first = static_cast<int>(r.first_group) * kGroupRows + warp_ * 32;
  switch (static_cast<Finish>(r.finish)) {
    case Finish::store:
      if (own) __stcg(launch_.arena + r.out + row, y);
      break;
    case Finish::add:
      if (own) __stcg(launch_.arena + r.out + row, residual + y);
      break;
    case Finish::gated: {
      const float up = __shfl_down_sync(~0u, y, 16);
      if (lane_ < min(mine, 16) && first / 2 + lane_ < static_cast<int>(r.rows))
        __stcg(launch_.arena + r.out + first / 2 + lane_, y / (1 + __expf(-y)) * up);
      break;
    }
    case Finish::logits:
      if (!own) return;
      if (launch_.logits != nullptr) __stcs(launch_.logits + static_cast<std::int64_t>(watch_.token) * r.rows + row, y);
      keep_best(y, row);
  }
}

// With a temperature, the largest of logit / temperature + Gumbel noise is a sample of the softmax.   Maddison et al.
// 2014
template <class S>
__device__ void Consumer<S>::keep_best(float logit, int id) {
  if (launch_.inverse_temperature > 0)
    logit = fmaf(logit, launch_.inverse_temperature, gumbel(launch_.seed, launch_.position + watch_.token, id));
  const auto key = static_cast<unsigned long long>(ordered(logit)) << 32 | ~static_cast<std::uint32_t>(id);
  best_ = max(best_, key);
}

template <class S>
__device__ void Consumer<S>::sample() {
#pragma unroll
  for (int z = 16; z > 0; z /= 2) best_ = max(best_, __shfl_xor_sync(~0u, best_, z));
  if (lane_ == 0) shared_.best[warp_] = best_;
  best_ = 0;
  sm90::meet<kConsumers>();
  if (thread_ == 0) {
    unsigned long long best = 0;
    for (int w = 0; w < kConsumerWarps; ++w) best = max(best, shared_.best[w]);
    atomicMax(launch_.best + watch_.token, best);
  }
  post();
}

}  // namespace fourfold::cuda::persistent
