// Decode attention: one token against a long cache, bound by the memory's read rate.
//
// A block of threads takes one block of keys of one kv head and up to 8 of its query heads. A producer thread streams
// leaves through a ring; four warps take 16 keys of each leaf, with a state of their own. Query heads are the rows of a
// 16-row matrix product: rows 0-7 hold a query's (or a weight's) high part, rows 8-15 what rounding left, so that only
// the cache's own rounding remains. States merge in order: warps in shared memory, then blocks in scratch by the one
// that ends last. Leaves without this token's key are fetched before the kernel before this one ends.
#pragma once

#include "cuda/sm90/async.cuh"
#include "cuda/sm90/attend.cuh"
#include "cuda/sm90/launch.cuh"

namespace fourfold::cuda::sm90 {

// How the leaves a token sees are cut: `count` blocks of `leaves` each, from leaf `first` on.
struct Cut {
  int first, leaves, count;
};
__device__ __forceinline__ Cut cut(Range keys, int most) {
  const int first = keys.first / kLeafKeys, all = (keys.end + kLeafKeys - 1) / kLeafKeys - first;
  const int leaves = (all + most - 1) / most;
  return {first, leaves, all > 0 ? (all + leaves - 1) / leaves : 0};
}

// kDeep: a ring for long caches, which leaves no room for another block of threads beside.
template <class Kv, int kDim_, bool kDeep>
struct DecodeShape {
  static constexpr int kDim = kDim_;  // stored
  static constexpr int kWarps = 4;
  static constexpr int kThreads = (kWarps + 1) * 32;
  static constexpr int kPartBytes = kLeafKeys * kDim * Kv::kBytes;
  static constexpr int kRoom = (kDeep ? 192 : 112) * 1024;
  static constexpr int kSlots = kRoom / kPartBytes < 14 ? kRoom / kPartBytes : 14;
  static constexpr int kRow = kDim + 4;  // floats between states: no bank conflicts
  static constexpr int kStates = kWarps * kUnitHeads;
  static constexpr int kStateBytes = kStates * (kRow + 2) * 4;
  static constexpr int kRingBytes = kSlots * kPartBytes > kStateBytes ? kSlots* kPartBytes : kStateBytes;
  static constexpr int kSharedBytes = kRingBytes + Ring<kSlots>::kBarrierBytes;
};

// The heads one block of threads works on.
struct Unit {
  int index, kv_head, first_head, heads;
  __device__ Unit(const Attention& a, int index) : index(index) {
    const int group = a.heads / a.layout.kv_heads, parts = (group + kUnitHeads - 1) / kUnitHeads;
    kv_head = index / parts;
    first_head = kv_head * group + index % parts * kUnitHeads;
    heads = min(kUnitHeads, group - index % parts * kUnitHeads);
  }
};

template <class Shape>
struct Partials {     // in scratch
  unsigned* arrived;  // [units]
  float2* sums;       // [unit][block][head]{m, l}
  float* outputs;     // [unit][block][head][kDim]

  __device__ Partials(const Attention& a, int units, int blocks) {
    arrived = static_cast<unsigned*>(a.scratch);
    sums = reinterpret_cast<float2*>(arrived + (units + 63) / 64 * 64);
    outputs = reinterpret_cast<float*>(sums + units * blocks * kUnitHeads);
  }
};

template <class Kv, int kDim, bool kDeep, class W, class S>
class Decode {
  using Shape = DecodeShape<Kv, kDim, kDeep>;
  using Operand = typename Kv::Operand;

 public:
  __device__ Decode(const Attention& a, const W& walk, const S& score, char* memory)
      : a_(a), walk_(walk), score_(score), unit_(a, blockIdx.y), memory_(memory) {
    position_ = *a.position;
  }

  __device__ void run() {
    Ring<Shape::kSlots> ring{shared_address(memory_) + Shape::kRingBytes};
    if (threadIdx.x == 0) ring.init(Shape::kWarps);
    __syncthreads();
    if (threadIdx.x >= Shape::kWarps * 32) {
      if (threadIdx.x > Shape::kWarps * 32) return;
      find_leaves();
      produce(ring);
      return;
    }
    wait_for_previous_kernel();
    let_next_kernel_start();
    load_query();
    find_leaves();
    if (static_cast<int>(blockIdx.x) >= blocks_) return;
    consume(ring);
    merge();
  }

 private:
  static constexpr int kUnits = kDim / 32;

  __device__ void find_leaves() {
    keys_ = visited(walk_, {position_, position_ + 1}, min(position_ + 1, a_.layout.positions));
    const Cut all = cut(keys_, gridDim.x);
    blocks_ = max(all.count, 1);
    begin_ = all.first + static_cast<int>(blockIdx.x) * all.leaves;
    end_ = min(begin_ + all.leaves, (keys_.end + kLeafKeys - 1) / kLeafKeys);
  }

  __device__ bool has_leaf(int leaf) const { return visits(walk_, {position_, position_ + 1}, leaf_keys(leaf)); }

  __device__ void produce(Ring<Shape::kSlots> ring) {
    const std::uint32_t slots = shared_address(memory_);
    bool waited = false;
    for (int leaf = begin_; leaf < end_; ++leaf) {
      if (!has_leaf(leaf)) continue;
      if (!waited && leaf >= position_ / kLeafKeys) wait_for_previous_kernel(), waited = true;
      for (Part part : {Part::key, Part::value}) {
        ring.acquire();
        ring.full().expect(Shape::kPartBytes);
        copy_bulk(slots + ring.slot * Shape::kPartBytes, a_.cache + a_.layout.leaf(unit_.kv_head, leaf, part),
                  Shape::kPartBytes, ring.full());
        ring.next();
      }
    }
  }

  // A pair of dims of this lane's query, high and low part.
  __device__ void split(float x, float y, std::uint32_t& high, std::uint32_t& low) const {
    high = Operand::pack(x, y);
    const float2 kept = Operand::unpack(high);
    low = Operand::pack(x - kept.x, y - kept.y);
  }

  __device__ void load_query() {
    const int g = lane_ / 4, t = lane_ % 4;
    const float* row = a_.query + std::int64_t{unit_.first_head + g} * a_.layout.head_dim;
#pragma unroll
    for (int step = 0; step < kDim / 16; ++step)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int dim = Kv::query_dim(step, half, t);
        const bool there = g < unit_.heads;
        const float x = there && dim < a_.layout.head_dim ? row[dim] : 0;
        const float y = there && dim + 1 < a_.layout.head_dim ? row[dim + 1] : 0;
        split(x, y, query_[step][2 * half], query_[step][2 * half + 1]);
      }
  }

  __device__ void consume(Ring<Shape::kSlots> ring) {
    const std::uint32_t slots = shared_address(memory_);
    const auto score = at_head(score_, unit_.first_head + lane_ / 4);
    for (int leaf = begin_; leaf < end_; ++leaf) {
      if (!has_leaf(leaf)) continue;
      ring.wait();
      float dots[2][4] = {};
#pragma unroll
      for (int unit = 0; unit < kUnits; ++unit) {
        std::uint32_t b[2][2][2];
        Kv::keys(b, slots + ring.slot * Shape::kPartBytes, 16 * warp_, unit);
#pragma unroll
        for (int step = 0; step < 2; ++step)
#pragma unroll
          for (int j = 0; j < 2; ++j) mma<Operand>(dots[j], query_[2 * unit + step], b[step][j][0], b[step][j][1]);
      }
      release(ring);
      float x[2][2];
      std::uint32_t mask[2];  // of the values of keys that count
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        mask[j] = 0;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int key = leaf * kLeafKeys + 16 * warp_ + 8 * j + lane_ % 4 * 2 + i;
          const bool counts = key < keys_.end && walk_.visible(position_, key);
          x[j][i] = counts ? log2_score(score, dots[j][i] + dots[j][2 + i], position_, key) : -kInfinity<float>;
          mask[j] |= counts ? 0xffffu << (16 * i) : 0;
        }
      }
      std::uint32_t p[4];
      weigh(x, p);
      ring.wait();
#pragma unroll
      for (int unit = 0; unit < kUnits; ++unit) {
        std::uint32_t b[4][2];
        Kv::values(b, slots + ring.slot * Shape::kPartBytes, 16 * warp_, unit);
#pragma unroll
        for (int tile = 0; tile < 4; ++tile)
          mma<Operand>(out_[4 * unit + tile], p, b[tile][0] & mask[0], b[tile][1] & mask[1]);
      }
      release(ring);
    }
  }

  // Joins 16 scores of each row to its state: rescales what is there, returns the weights.
  __device__ void weigh(const float (&x)[2][2], std::uint32_t (&p)[4]) {
    const float m = fmaxf(sum_.m, quad_max(fmaxf(fmaxf(x[0][0], x[0][1]), fmaxf(x[1][0], x[1][1]))));
    const float keep = weight(sum_.m, m);
    float w[2][2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      w[j][0] = weight(x[j][0], m), w[j][1] = weight(x[j][1], m);
      split(w[j][0], w[j][1], p[2 * j], p[2 * j + 1]);
    }
    sum_.l = sum_.l * keep + ((w[0][0] + w[0][1]) + (w[1][0] + w[1][1]));
    if (__any_sync(~0u, m != sum_.m)) {
#pragma unroll
      for (auto& tile : out_)
#pragma unroll
        for (float& o : tile) o *= keep;
    }
    sum_.m = m;
  }

  __device__ void release(Ring<Shape::kSlots>& ring) const {
    __syncwarp();
    if (lane_ == 0) ring.empty().arrive();
    ring.next();
  }

  static __device__ void sync_consumers() { asm volatile("bar.sync 1, %0;" ::"n"(Shape::kWarps * 32) : "memory"); }

  // A state in this block's shared memory.
  __device__ float* output(int state) const { return reinterpret_cast<float*>(memory_) + state * Shape::kRow; }
  __device__ float2* sum(int state) const { return reinterpret_cast<float2*>(output(Shape::kStates)) + state; }

  __device__ void merge() {
    sum_.l = quad_sum(sum_.l);
    sync_consumers();  // the ring is empty
    const int g = lane_ / 4, t = lane_ % 4, mine = warp_ * kUnitHeads + g;
#pragma unroll
    for (int tile = 0; tile < kDim / 8; ++tile)
#pragma unroll
      for (int i = 0; i < 2; ++i) output(mine)[Kv::value_dim(tile, t, i)] = out_[tile][i] + out_[tile][2 + i];
    if (t == 0) *sum(mine) = {sum_.m, sum_.l};
    sync_consumers();
    const Partials<Shape> partials(a_, gridDim.y, gridDim.x);
    const int first_state = unit_.index * static_cast<int>(gridDim.x) * kUnitHeads;  // of the unit
    for (int item = threadIdx.x; item < items(); item += Shape::kWarps * 32) {
      const int head = item / (kDim / 4), dim = item % (kDim / 4) * 4;
      RunningSum total;
      float4 o;
      join<Shape::kWarps>(
          Shape::kWarps, [&](int w) { return *sum(w * kUnitHeads + head); },
          [&](int w) { return *reinterpret_cast<const float4*>(output(w * kUnitHeads + head) + dim); }, total, o);
      if (blocks_ == 1) {
        finish(head, dim, total, o);
        continue;
      }
      const int state = first_state + static_cast<int>(blockIdx.x) * kUnitHeads + head;
      __stcg(reinterpret_cast<float4*>(partials.outputs + std::int64_t{state} * kDim + dim), o);
      if (dim == 0) __stcg(partials.sums + state, float2{total.m, total.l});
    }
    if (blocks_ > 1 && is_last(partials.arrived + unit_.index)) merge_blocks(partials, first_state);
  }

  // Four neighbouring dims of a head are an item.
  __device__ int items() const { return unit_.heads * kDim / 4; }

  // Whether all other blocks of the unit have written their states.
  __device__ bool is_last(unsigned* arrived) {
    sync_consumers();
    if (threadIdx.x == 0) {
      unsigned before;
      asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(arrived) : "memory");
      *reinterpret_cast<unsigned*>(memory_) = before;                  // over a warp's state, which is merged
      if (before + 1 == static_cast<unsigned>(blocks_)) *arrived = 0;  // for the next launch
    }
    sync_consumers();
    return *reinterpret_cast<const unsigned*>(memory_) + 1 == static_cast<unsigned>(blocks_);
  }

  __device__ void merge_blocks(const Partials<Shape>& partials, int first_state) {
    for (int item = threadIdx.x; item < items(); item += Shape::kWarps * 32) {
      const int head = item / (kDim / 4), dim = item % (kDim / 4) * 4;
      const auto state = [&](int block) { return std::int64_t{first_state} + block * kUnitHeads + head; };
      RunningSum total;
      float4 o;
      join<16>(
          blocks_, [&](int block) { return __ldcg(partials.sums + state(block)); },
          [&](int block) {
            return __ldcg(reinterpret_cast<const float4*>(partials.outputs + state(block) * kDim + dim));
          },
          total, o);
      finish(head, dim, total, o);
    }
  }

  // Merges `count` states left to right, kAtOnce loads of each kind under way together.
  template <int kAtOnce, class Sums, class Outputs>
  __device__ void join(int count, Sums sum_of, Outputs output_of, RunningSum& sum, float4& o) const {
    sum = {};
    o = {};
    for (int first = 0; first < count; first += kAtOnce) {
      float2 s[kAtOnce];
      float4 v[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i >= count) continue;
        s[i] = sum_of(first + i);
        v[i] = output_of(first + i);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (first + i < count) add(sum, o, {s[i].x, s[i].y}, v[i]);
    }
  }
  static __device__ void add(RunningSum& sum, float4& o, RunningSum next, float4 v) {
    const float m = fmaxf(sum.m, next.m), a = weight(sum.m, m), b = weight(next.m, m);
    sum = {m, a * sum.l + b * next.l};
    o = {a * o.x + b * v.x, a * o.y + b * v.y, a * o.z + b * v.z, a * o.w + b * v.w};
  }

  __device__ void finish(int head, int dim, RunningSum sum, float4 o) const {
    const int h = unit_.first_head + head;
    if (a_.sinks != nullptr) add(sum, o, {a_.sinks[h] * kLog2E, 1}, {0, 0, 0, 0});
    const float scale = sum.l == 0 ? 0 : 1 / sum.l;
    const float values[] = {o.x, o.y, o.z, o.w};
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (dim + i < a_.layout.head_dim) a_.out[h * a_.layout.head_dim + dim + i] = sum.l == 0 ? 0 : values[i] * scale;
  }

  const Attention& a_;
  const W& walk_;
  const S& score_;
  Unit unit_;
  char* memory_;
  int position_, blocks_ = 1, begin_ = 0, end_ = 0;
  Range keys_{};
  int warp_ = static_cast<int>(threadIdx.x) / 32, lane_ = static_cast<int>(threadIdx.x) % 32;
  std::uint32_t query_[kDim / 16][4];
  float out_[kDim / 8][4] = {};
  RunningSum sum_;
};

template <class Kv, int kDim, bool kDeep, class W, class S>
__global__ void __launch_bounds__(DecodeShape<Kv, kDim, kDeep>::kThreads, kDeep ? 1 : 2)
    decode_kernel(const __grid_constant__ Attention a, const __grid_constant__ W walk,
                  const __grid_constant__ S score) {
  extern __shared__ __align__(1024) char memory[];
  Decode<Kv, kDim, kDeep, W, S>(a, walk, score, memory).run();
}

template <class Kv, int kDim, bool kDeep, class W, class S>
cudaError_t launch_decode_as(const Attention& a, const W& walk, const S& score, bool programmatic,
                             cudaStream_t stream) {
  using Shape = DecodeShape<Kv, kDim, kDeep>;
  const int units = attend_units(a.layout, a.heads);
  const dim3 grid(static_cast<unsigned>(attend_blocks(units)), static_cast<unsigned>(units));
  return launch(decode_kernel<Kv, kDim, kDeep, W, S>, {grid, Shape::kThreads, Shape::kSharedBytes, programmatic},
                stream, a, walk, score);
}

// The depth of the ring changes times only.
template <class Kv, int kDim, class W, class S>
cudaError_t launch_decode(const Attention& a, const W& walk, const S& score, bool programmatic, cudaStream_t stream) {
  constexpr int kLongCache = 8192;
  if constexpr (kDim > 128) {
    return launch_decode_as<Kv, kDim, true>(a, walk, score, programmatic, stream);
  } else {
    return a.layout.positions > kLongCache ? launch_decode_as<Kv, kDim, true>(a, walk, score, programmatic, stream)
                                           : launch_decode_as<Kv, kDim, false>(a, walk, score, programmatic, stream);
  }
}

}  // namespace fourfold::cuda::sm90
