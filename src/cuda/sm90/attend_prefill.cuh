// Prefill attention: tiles of 64 tokens of one query head against the leaves they see, bound by the matrix units and by
// shared memory's bandwidth (each warp reads every leaf for its 16 tokens).
//
// A producer thread streams leaves through a ring; four warps hold 16 tokens each: queries, running states and outputs
// in registers. A row meets its leaves in ascending order and masked keys change nothing, so its bits depend neither on
// the tile it is in nor on how the prompt is cut. Late tiles, which see most keys, start first.
#pragma once

#include <type_traits>

#include "cuda/sm90/async.cuh"
#include "cuda/sm90/attend.cuh"
#include "cuda/sm90/launch.cuh"

namespace fourfold::cuda::sm90 {

template <class Kv, int kDim_>
struct PrefillShape {
  static constexpr int kDim = kDim_;  // stored
  static constexpr int kWarps = 4;
  static constexpr int kThreads = (kWarps + 1) * 32;
  static constexpr int kTokens = kWarps * 16;
  static constexpr int kBlocksPerSm = kDim <= 128 ? 2 : 1;
  static constexpr int kKeys = kDim <= 64 ? 64 : kDim <= 128 ? 32 : 16;  // of which a warp holds the scores at a time
  static constexpr int kPartBytes = kLeafKeys * kDim * Kv::kBytes;
  static constexpr int kRoom = kBlocksPerSm == 2 ? 96 * 1024 : 192 * 1024;
  static constexpr int kSlots = kRoom / kPartBytes < 8 ? kRoom / kPartBytes : 8;
  static constexpr int kSharedBytes = kSlots * kPartBytes + Ring<kSlots>::kBarrierBytes;
  static_assert(kSlots >= 4, "keys and values of one leaf are held while those of the next arrive");
};

template <class Kv, int kDim, class W, class S>
class Prefill {
  using Shape = PrefillShape<Kv, kDim>;
  using Operand = typename Kv::Operand;
  static constexpr int kKeys = Shape::kKeys;

 public:
  __device__ Prefill(const Attention& a, const W& walk, const S& score, char* memory)
      : a_(a), walk_(walk), score_(score), memory_(memory) {}

  __device__ void run() {
    Ring<Shape::kSlots> ring{shared_address(memory_) + Shape::kSlots * Shape::kPartBytes};
    if (threadIdx.x == 0) ring.init(Shape::kWarps);
    __syncthreads();
    wait_for_previous_kernel();
    let_next_kernel_start();
    head_ = static_cast<int>(blockIdx.x);
    token_ = static_cast<int>(gridDim.y - 1 - blockIdx.y) * Shape::kTokens;
    position_ = *a_.position;
    const int end = position_ + min(token_ + Shape::kTokens, a_.tokens);
    queries_ = {position_ + token_, end};
    keys_ = visited(walk_, queries_, min(end, a_.layout.positions));
    begin_ = keys_.first / kLeafKeys;
    end_ = (keys_.end + kLeafKeys - 1) / kLeafKeys;
    if (threadIdx.x < Shape::kWarps * 32) {
      consume(ring);
      finish();
    } else if (threadIdx.x == Shape::kWarps * 32) {
      produce(ring);
    }
  }

 private:
  __device__ bool has_leaf(int leaf) const { return visits(walk_, queries_, leaf_keys(leaf)); }

  __device__ void produce(Ring<Shape::kSlots> ring) {
    const int kv_head = head_ / (a_.heads / a_.layout.kv_heads);
    const std::uint32_t slots = shared_address(memory_);
    for (int leaf = begin_; leaf < end_; ++leaf) {
      if (!has_leaf(leaf)) continue;
      for (Part part : {Part::key, Part::value}) {
        ring.acquire();
        ring.full().expect(Shape::kPartBytes);
        copy_bulk(slots + ring.slot * Shape::kPartBytes, a_.cache + a_.layout.leaf(kv_head, leaf, part),
                  Shape::kPartBytes, ring.full());
        ring.next();
      }
    }
  }

  // This lane's two tokens: of rows g and g + 8 of the warp's 16.
  __device__ int token(int half) const { return token_ + 16 * warp_ + lane_ / 4 + 8 * half; }

  __device__ void load_query() {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const bool there = token(row) < a_.tokens;
      const float* query = a_.query + (std::int64_t{token(row)} * a_.heads + head_) * a_.layout.head_dim;
#pragma unroll
      for (int step = 0; step < kDim / 16; ++step)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int dim = Kv::query_dim(step, half, lane_ % 4);
          const float x = there && dim < a_.layout.head_dim ? query[dim] : 0;
          const float y = there && dim + 1 < a_.layout.head_dim ? query[dim + 1] : 0;
          query_[step][2 * half + row] = Operand::pack(x, y);
        }
    }
  }

  __device__ void consume(Ring<Shape::kSlots> ring) {
    load_query();
    const std::uint32_t slots = shared_address(memory_);
    const auto score = at_head(score_, head_);
    const Range rows = queries_ & Range{position_ + token_ + 16 * warp_, position_ + token_ + 16 * warp_ + 16};
    for (int leaf = begin_; leaf < end_; ++leaf) {
      if (!has_leaf(leaf)) continue;
      const Range keys = leaf_keys(leaf);
      const bool all = !rows.empty() && keys.end <= keys_.end && every(walk_, rows, keys);
      const Ring<Shape::kSlots> key_ring = ring;
      ring.next();
      key_ring.wait();
#pragma unroll 1
      for (int first = 0; first < kLeafKeys; first += kKeys) {
        float x[kKeys / 8][4] = {};
#pragma unroll
        for (int unit = 0; unit < kDim / 32; ++unit)
#pragma unroll
          for (int k = 0; k < kKeys / 16; ++k) {
            std::uint32_t b[2][2][2];
            Kv::keys(b, slots + key_ring.slot * Shape::kPartBytes, first + 16 * k, unit);
#pragma unroll
            for (int step = 0; step < 2; ++step)
#pragma unroll
              for (int j = 0; j < 2; ++j)
                mma<Operand>(x[2 * k + j], query_[2 * unit + step], b[step][j][0], b[step][j][1]);
          }
        if (first + kKeys == kLeafKeys) release(key_ring);
        all ? map_scores<true>(x, score, keys.first + first) : map_scores<false>(x, score, keys.first + first);
        weigh(x);
        if (first == 0) ring.wait();
        add_values(x, slots + ring.slot * Shape::kPartBytes, first, all, keys.first);
      }
      release(ring);
      ring.next();
    }
  }

  __device__ void release(const Ring<Shape::kSlots>& ring) const {
    __syncwarp();
    if (lane_ == 0) ring.empty().arrive();
  }

  template <bool kAll, class AtHead>
  __device__ void map_scores(float (&x)[kKeys / 8][4], const AtHead& score, int first_key) const {
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int query = position_ + token(i / 2), key = first_key + 8 * j + lane_ % 4 * 2 + i % 2;
        const bool counts = kAll || (key < keys_.end && walk_.visible(query, key));
        x[j][i] = counts ? log2_score(score, x[j][i], query, key) : -kInfinity<float>;
      }
  }

  // Joins scores to the states of this lane's rows: rescales what is there; scores become weights.
  __device__ void weigh(float (&x)[kKeys / 8][4]) {
    float keep[2];
    bool moved = false;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float m = fmaxf(x[0][2 * row], x[0][2 * row + 1]);
#pragma unroll
      for (int j = 1; j < kKeys / 8; ++j) m = fmaxf(m, fmaxf(x[j][2 * row], x[j][2 * row + 1]));
      m = fmaxf(sum_[row].m, quad_max(m));
      keep[row] = weight(sum_[row].m, m);
      moved |= m != sum_[row].m;
      const float reference = m == -kInfinity<float> ? 0.f : m;
      float l = 0;
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j) {
        x[j][2 * row] = exp2_fast(x[j][2 * row] - reference);
        x[j][2 * row + 1] = exp2_fast(x[j][2 * row + 1] - reference);
        l += x[j][2 * row] + x[j][2 * row + 1];
      }
      sum_[row] = {m, sum_[row].l * keep[row] + l};
    }
    if (!__any_sync(~0u, moved)) return;
#pragma unroll
    for (auto& tile : out_)
#pragma unroll
      for (int i = 0; i < 4; ++i) tile[i] *= keep[i / 2];
  }

  // out += weights x values. Where not all keys count, those past the last one may hold anything, and a value that is
  // not finite may belong to a key that some rows do not see.
  __device__ void add_values(const float (&w)[kKeys / 8][4], std::uint32_t leaf, int first, bool all, int leaf_key) {
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      const std::uint32_t p[4] = {Operand::pack(w[2 * k][0], w[2 * k][1]), Operand::pack(w[2 * k][2], w[2 * k][3]),
                                  Operand::pack(w[2 * k + 1][0], w[2 * k + 1][1]),
                                  Operand::pack(w[2 * k + 1][2], w[2 * k + 1][3])};
      const int key = leaf_key + first + 16 * k + lane_ % 4 * 2;
      std::uint32_t mask[2] = {~0u, ~0u};
      if (!all) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
          mask[half] = (key + 8 * half < keys_.end ? 0xffffu : 0) | (key + 8 * half + 1 < keys_.end ? 0xffff0000u : 0);
      }
#pragma unroll
      for (int unit = 0; unit < kDim / 32; ++unit) {
        std::uint32_t b[4][2];
        Kv::values(b, leaf, first + 16 * k, unit);
        if (!all && !keep_finite(b, mask)) {
          add_row_by_row(p, b, unit, key);
          continue;
        }
#pragma unroll
        for (int tile = 0; tile < 4; ++tile) mma<Operand>(out_[4 * unit + tile], p, b[tile][0], b[tile][1]);
      }
    }
  }

  // Whether neither half of a pair has all bits of its exponent: one more in the lowest carries to the sign.
  static __device__ __forceinline__ bool is_finite(std::uint32_t pair) {
    constexpr std::uint32_t kExponents = std::is_same_v<Operand, Bf16> ? 0x7f807f80u : 0x7c007c00u;
    constexpr std::uint32_t kLowest = kExponents & ~(kExponents << 1);
    return (((pair & kExponents) + kLowest) & 0x80008000u) == 0;
  }

  // Clears values of keys that are not in `mask`; whether all others of the warp are finite.
  static __device__ __forceinline__ bool keep_finite(std::uint32_t (&b)[4][2], const std::uint32_t (&mask)[2]) {
    bool finite = true;
#pragma unroll
    for (int tile = 0; tile < 4; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        b[tile][half] &= mask[half];
        finite &= is_finite(b[tile][half]);
      }
    return __all_sync(~0u, finite);
  }

  // The same, to the bit, but that each row meets the values of the keys it sees only. `key`: this lane's first one.
  __device__ __forceinline__ void add_row_by_row(const std::uint32_t (&p)[4], const std::uint32_t (&b)[4][2], int unit,
                                                 int key) {
    const auto seen = [&](int query, int half) {
      return (walk_.visible(query, key + 8 * half) ? 0xffffu : 0) |
             (walk_.visible(query, key + 8 * half + 1) ? 0xffff0000u : 0);
    };
#pragma unroll
    for (int tile = 0; tile < 4; ++tile) {
      float(&out)[4] = out_[4 * unit + tile];
#pragma unroll 1
      for (int row = 0; row < 16; ++row) {
        const int query = position_ + token_ + 16 * warp_ + row;
        float sum[4] = {out[0], out[1], out[2], out[3]};
        mma<Operand>(sum, p, b[tile][0] & seen(query, 0), b[tile][1] & seen(query, 1));
#pragma unroll
        for (int i = 0; i < 4; ++i) out[i] = row == lane_ / 4 + i / 2 * 8 ? sum[i] : out[i];
      }
    }
  }

  __device__ void finish() {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float m = sum_[row].m, l = quad_sum(sum_[row].l), keep = 1;
      if (a_.sinks != nullptr) {  // one more weight, without a value
        const float sink = a_.sinks[head_] * kLog2E, larger = fmaxf(m, sink);
        keep = weight(m, larger);
        l = l * keep + weight(sink, larger);
      }
      const float scale = keep / l;
      if (token(row) >= a_.tokens) continue;
      float* out = a_.out + (std::int64_t{token(row)} * a_.heads + head_) * a_.layout.head_dim;
#pragma unroll
      for (int tile = 0; tile < kDim / 8; ++tile)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int dim = Kv::value_dim(tile, lane_ % 4, i);
          if (dim < a_.layout.head_dim) out[dim] = l == 0 ? 0 : out_[tile][2 * row + i] * scale;
        }
    }
  }

  const Attention& a_;
  const W& walk_;
  const S& score_;
  char* memory_;
  int head_ = 0, token_ = 0, position_ = 0, begin_ = 0, end_ = 0;
  Range queries_{}, keys_{};
  int warp_ = static_cast<int>(threadIdx.x) / 32, lane_ = static_cast<int>(threadIdx.x) % 32;
  std::uint32_t query_[kDim / 16][4];
  float out_[kDim / 8][4] = {};
  RunningSum sum_[2];
};

template <class Kv, int kDim, class W, class S>
__global__ void __launch_bounds__(PrefillShape<Kv, kDim>::kThreads, PrefillShape<Kv, kDim>::kBlocksPerSm)
    prefill_kernel(const __grid_constant__ Attention a, const __grid_constant__ W walk,
                   const __grid_constant__ S score) {
  extern __shared__ __align__(1024) char memory[];
  Prefill<Kv, kDim, W, S>(a, walk, score, memory).run();
}

template <class Kv, int kDim, class W, class S>
cudaError_t launch_prefill(const Attention& a, const W& walk, const S& score, bool programmatic, cudaStream_t stream) {
  using Shape = PrefillShape<Kv, kDim>;
  const dim3 grid(static_cast<unsigned>(a.heads),
                  static_cast<unsigned>((a.tokens + Shape::kTokens - 1) / Shape::kTokens));
  return launch(prefill_kernel<Kv, kDim, W, S>, {grid, Shape::kThreads, Shape::kSharedBytes, programmatic}, stream, a,
                walk, score);
}

}  // namespace fourfold::cuda::sm90
