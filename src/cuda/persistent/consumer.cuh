// The consumers: eight warps multiply tiles as they land, each its strip of columns, and finish what a task makes.
//
// Each warp's sums of a project's rows stay in shared memory over all its slices and meet at the end. Bits depend on
// the order of slices, which the plan fixes, on nothing else. Memory binds.
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

  // ---- Rings ----
  __device__ std::uint8_t* stage(int at) const { return shared_.ring + at * S::kSlotBytes; }
  __device__ void wait_stage() { watch_.barrier(full_ + ring_.at * 8, ring_.parity); }
  __device__ int take_stage() {
    wait_stage();
    const int at = ring_.at;
    ring_.next();
    return at;
  }
  __device__ void free_stage(int at, int arrivals = 1) {
    __syncwarp();
    if (lane_ == 0) sm90::Barrier{empty_ + at * 8}.arrive(arrivals);
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
  __device__ float walk(const Record& r);
  __device__ void add_sums(const float (&acc)[2][4], int group, int groups);
  __device__ void finish(const Record& r, float y, float residual, int row);
  __device__ void begin(const Record& r);
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
  float residual_ = 0;  // of this thread's row
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

// A project's first slice has arrived, and the residual before it: what this thread will add is fetched meanwhile.
template <class S>
__device__ void Consumer<S>::begin(const Record& r) {
  stamp(1);
  const int row = static_cast<int>(r.first_group) * kGroupRows + thread_;
  const bool adds = r.finish == static_cast<std::uint8_t>(Finish::add);
  if (!adds || thread_ >= r.groups * kGroupRows || row >= static_cast<int>(r.rows)) return;
  residual_ = r.residual != kEmbedding
                  ? __ldcg(launch_.arena + r.residual + row)
                  : embedded<Tile>(launch_, token_id(launch_, watch_.token), static_cast<int>(r.rows), row);
}

// The dots of a task: this warp's sums over its strips, slice after slice, go to shared memory. Two tiles at a time,
// and their sums while the next two are read, so that latencies hide in one another; one loop for any number of row
// groups, because instructions that are used once a task have to be fetched from afar.
template <class S>
__device__ float Consumer<S>::walk(const Record& r) {
  const int slices = r.slices, groups = r.groups;
  for (int i = lane_; i < groups * kGroupRows; i += 32) shared_.sums[warp_][i] = 0;
  __syncwarp();
  float squares = 0, acc[2][4] = {};
  int group = 0;  // of the sums in acc
#pragma unroll 1
  for (int s = 0; s < slices; ++s) {
    typename S::Parts x;
    x.read(reinterpret_cast<const std::uint8_t*>(wait_slice()) + warp_ * S::Parts::kStoredBytes);
    squares += shared_.squares[slices_.at];
    pass_slice();
#pragma unroll 1
    for (int g = 0; g < groups; g += 2) {
      const bool both = g + 1 < groups;
      const int first = take_stage(), second = both && S::kSlotTiles == 1 ? take_stage() : first;
      sm90::Strip<Tile> strips[2];
      strips[0].template read<sm90::Shared>(stage(first), warp_);
      strips[1].template read<sm90::Shared>(stage(second) + (S::kSlotTiles - 1) * Tile::kBytes, warp_);
      add_sums(acc, group, groups);
      free_stage(first);
      if (second != first) free_stage(second);
#pragma unroll
      for (int i = 0; i < 4; ++i) acc[0][i] = acc[1][i] = 0;
      strips[0].accumulate(acc[0], x);
      strips[1].accumulate(acc[1], x);
      group = g;
    }
  }
  add_sums(acc, group, groups);
  return squares;
}

// Of row groups `group` and the next, where there is one.
template <class S>
__device__ void Consumer<S>::add_sums(const float (&acc)[2][4], int group, int groups) {
  const float2 first = sm90::row_sums(acc[0]), second = sm90::row_sums(acc[1]);
  if (lane_ % 4 != 0) return;
  float* own = shared_.sums[warp_] + group * kGroupRows + lane_ / 4;
  own[0] += first.x;
  own[8] += first.y;
  if (group + 1 == groups) return;
  own[kGroupRows] += second.x;
  own[kGroupRows + 8] += second.y;
}

template <class S>
__device__ void Consumer<S>::project(const Record& r) {
  const int groups = r.groups, row = static_cast<int>(r.first_group) * kGroupRows + thread_;
  const bool gated = r.finish == static_cast<std::uint8_t>(Finish::gated);
  const bool own = thread_ < groups * kGroupRows && (gated || row < static_cast<int>(r.rows));
  wait_slice();
  begin(r);
  const float squares = walk(r);
  sm90::meet<kConsumers>();
  float y = 0;
  if (thread_ < groups * kGroupRows)
#pragma unroll
    for (int w = 0; w < kConsumerWarps; ++w) y += shared_.sums[w][thread_];
  sm90::meet<kConsumers>();  // the next task's sums go to the same place
  if (r.norm != 0) y *= rsqrtf(squares / static_cast<float>(r.columns) + r.eps);
  if (own && r.scales != 0) y *= __ldg(reinterpret_cast<const float*>(r.scales) + row);
  if (own && r.extra != 0) y += __ldg(reinterpret_cast<const float*>(r.extra) + row);
  stamp(2);
  finish(r, y, residual_, row);
  post();
  stamp(3);
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
