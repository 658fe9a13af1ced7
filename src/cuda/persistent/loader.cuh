// The loaders: each warp takes every kLoaders-th slice of the CTA's tasks, polls the slice's counter, and brings it to
// shared memory: times its norm's weights, as the operands that the consumers' lanes read, with its sum of squares;
// queries and keys normed and turned.
#pragma once

#include "cuda/persistent/machine.cuh"
#include "cuda/sm90/matrix.cuh"

namespace fourfold::cuda::persistent {

template <class S>
class Loader {
 public:
  __device__ Loader(const Launch& launch, Shared<S>& shared, int index)
      : launch_(launch), shared_(shared), watch_{launch, shared}, index_(index), lane_(threadIdx.x % 32) {
    room_.parity = 1;
  }

  __device__ void run(Tasks tasks) {
    for (watch_.token = 0; watch_.token < launch_.tokens && !watch_.dead(); ++watch_.token)
      for (int i = 0; i < tasks.count() && !watch_.dead(); ++i) {
        const Record& r = tasks.take();
        watch_.phase = r.phase;
        if (r.kind == static_cast<std::uint8_t>(Kind::project)) project(r);
        if (r.kind == static_cast<std::uint8_t>(Kind::attend)) attend(r);
      }
    if (index_ == 0 && blockIdx.x == 0) show_last();
  }

 private:
  static constexpr int kVectors = S::Tile::kColumns / 128;  // of four columns, per lane

  // Whether the next slice is this warp's; then its slot is free.
  __device__ bool mine() {
    const bool own = turn_ == index_;
    turn_ = turn_ + 1 == S::kWorkingLoaders ? 0 : turn_ + 1;
    return own;
  }
  __device__ float* slot() {
    if (lane_ == 0) watch_.barrier(sm90::shared_address(&shared_.slice_empty[room_.at]), room_.parity);
    __syncwarp();
    return shared_.slices[room_.at];
  }
  __device__ void done() {
    __syncwarp();
    if (lane_ == 0) sm90::Barrier{sm90::shared_address(&shared_.slice_full[room_.at])}.arrive();
  }
  // For one counter, or two, which two lanes poll.
  __device__ void wait(int counter, int version, int second = -1) {
    const int own = lane_ == 0 ? counter : lane_ == 1 ? second : -1;
    if (own >= 0) watch_.counter(own, version);
    __syncwarp();  // the others' loads stay behind the wait
  }

  __device__ void project(const Record& r) {
    int slice = r.first_slice;
    for (int s = 0; s < r.slices; ++s) {
      if (mine()) bring(r, slice);
      room_.next();
      slice = slice + 1 == r.slices ? 0 : slice + 1;
    }
  }

  __device__ void bring(const Record& r, int slice) {
    if (r.in == kEmbedding) return bring_embedding(r, slice);
    slot();
    float4 x[kVectors], weights[kVectors];
    // The norm's weights are on their way while the counter is polled.
#pragma unroll
    for (int i = 0; i < kVectors; ++i) weights[i] = weights_of(r, column_of(slice, i));
    wait(r.in_counter + slice, r.in_version);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int column = column_of(slice, i);
      x[i] = float4{0, 0, 0, 0};
      if (column < static_cast<int>(r.columns))
        x[i] = __ldcg(reinterpret_cast<const float4*>(launch_.arena + r.in + column));
    }
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) squares += weigh(x[i], weights[i]);
    hand_over(r, squares, x);
  }

  __device__ void bring_embedding(const Record& r, int slice) {
    float4* to = reinterpret_cast<float4*>(slot());
    if (watch_.token > 0) wait(launch_.sampled, -1);
    const int id = token_id(launch_, watch_.token);
    if (blockIdx.x == 0 && slice == r.first_slice && watch_.token > 0) show(watch_.token - 1, id);
#pragma unroll 1
    for (int i = 0; i < kVectors; ++i) {
      const int column = column_of(slice, i), columns = static_cast<int>(r.columns);
      float4 x{0, 0, 0, 0};
      if (column < columns)
        x = {embedded<typename S::Tile>(launch_, id, columns, column),
             embedded<typename S::Tile>(launch_, id, columns, column + 1),
             embedded<typename S::Tile>(launch_, id, columns, column + 2),
             embedded<typename S::Tile>(launch_, id, columns, column + 3)};
      to[i * 32 + lane_] = x;
    }
    float4 x[kVectors];
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      x[i] = to[i * 32 + lane_];
      squares += weigh(x[i], weights_of(r, column_of(slice, i)));
    }
    hand_over(r, squares, x);
  }

  // First of the four columns in this lane's vector i of a slice.
  __device__ int column_of(int slice, int i) const { return slice * S::Tile::kColumns + (i * 32 + lane_) * 4; }
  __device__ static float4 weights_of(const Record& r, int column) {
    if (r.norm == 0 || column >= static_cast<int>(r.columns)) return {1, 1, 1, 1};
    return __ldg(reinterpret_cast<const float4*>(reinterpret_cast<const float*>(r.norm) + column));
  }
  // x times its norm's weights; the sum of squares of x as it was.
  __device__ static float weigh(float4& x, float4 w) {
    const float squares = x.x * x.x + x.y * x.y + (x.z * x.z + x.w * x.w);
    x = {x.x * w.x, x.y * w.y, x.z * w.z, x.w * w.w};
    return squares;
  }
  // The slice as operands. A lane's numbers: four columns of each vector of 128.
  __device__ void hand_over(const Record& r, float squares, float4 (&x)[kVectors]) {
    using Parts = typename S::Parts;
    auto* slot = reinterpret_cast<std::uint8_t*>(shared_.slices[room_.at]);
    __syncwarp();  // all lanes have taken their weights out of the slot
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int column = (i * 32 + lane_) * 4, in_strip = column % S::Tile::kStripColumns;
      std::uint8_t* strip = slot + column / S::Tile::kStripColumns * Parts::kStoredBytes;
      if constexpr (Parts::kScaled) scale<Parts>(strip, x[i]);
      Parts::store(strip, in_strip, float2{x[i].x, x[i].y});
      Parts::store(strip, in_strip + 2, float2{x[i].z, x[i].w});
    }
    if (r.norm != 0) {
#pragma unroll
      for (int z = 16; z > 0; z /= 2) squares += __shfl_xor_sync(~0u, squares, z);
      if (lane_ == 0) shared_.squares[room_.at] = squares;
    }
    done();
  }
  // By a power of two that a strip, a vector of this warp, has in common.
  template <class Parts>
  __device__ void scale(std::uint8_t* strip, float4& x) const {
    static_assert(S::Tile::kStripColumns == 128);
    using sm90::StripScale;
    const std::uint32_t own = max(max(StripScale::magnitude(x.x), StripScale::magnitude(x.y)),
                                  max(StripScale::magnitude(x.z), StripScale::magnitude(x.w)));
    const StripScale scale(__reduce_max_sync(~0u, own));
    x = times(x, scale.factor);
    if (lane_ == 0) Parts::store_inverse(strip, scale.inverse);
  }

  __device__ void show(int token, int id) const {
    if (lane_ != 0 || launch_.ids == nullptr) return;
    *static_cast<volatile int*>(launch_.ids + token) = id;
    __threadfence_system();
  }
  __device__ void show_last() {
    watch_.token = launch_.tokens;
    wait(launch_.sampled, -1);
    show(launch_.tokens - 1, token_id(launch_, launch_.tokens));
  }

  __device__ void attend(const Record& r) {
    const int position = launch_.position + watch_.token;
    const int n = r.queries * S::kDim, own_slice = r.kv_head * n / S::Tile::kColumns;
    if (r.share >= chains_in_use(position)) return;
    if (mine()) {
      const Turn turn = turn_of(r, r.norm, position);
      float* to = slot();
      for (int s = own_slice; s * S::Tile::kColumns < (r.kv_head + 1) * n; ++s) wait(r.in_counter + s, r.in_version);
      const float* queries = launch_.arena + r.in + r.kv_head * n;
      float4 q[kVectors];
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        const int at = (i * 32 + lane_) * 4;
        q[i] = at < n ? __ldcg(reinterpret_cast<const float4*>(queries + at)) : float4{0, 0, 0, 0};
      }
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        const int at = (i * 32 + lane_) * 4;
        const float4 turned_q = turned(r, q[i], r.norm != 0, turn);
        if (at < n) reinterpret_cast<float4*>(to)[i * 32 + lane_] = times(turned_q, r.scale);
      }
      done();
    }
    room_.next();
    if (chain_of(position) % r.sharers != r.share) return;
    if (mine()) {
      const Turn turn = turn_of(r, r.extra, position);
      auto* to = reinterpret_cast<std::uint8_t*>(slot());
      const int key = r.kv_heads * n + r.kv_head * S::kDim, value = key + r.kv_heads * S::kDim;
      wait(r.in_counter + key / S::Tile::kColumns, r.in_version, r.in_counter + value / S::Tile::kColumns);
      const int at = lane_ * 4 % S::kDim;
      const float4 k = __ldcg(reinterpret_cast<const float4*>(launch_.arena + r.in + key + at));
      const float4 v = __ldcg(reinterpret_cast<const float4*>(launch_.arena + r.in + value + at));
      const uint2 rows[2] = {packed(turned(r, k, r.extra != 0, turn)), packed(v)};
#pragma unroll
      for (int i = 0; i < 2; ++i) *reinterpret_cast<uint2*>(to + (i * S::kDim + at) * 2) = rows[i];
      done();
      append(r, position, at, rows);
    }
    room_.next();
  }

  static __device__ uint2 packed(float4 x) { return {sm90::Bf16::pack(x.x, x.y), sm90::Bf16::pack(x.z, x.w)}; }

  // Four dims, from `dim` on, of this token's key and value into the cache, for bulk copies of the next token to read.
  __device__ void append(const Record& r, int position, int dim, const uint2 (&rows)[2]) {
    constexpr int kPartBytes = S::kPanels * kPanelBytes;
    std::uint8_t* at = reinterpret_cast<std::uint8_t*>(r.tiles) + r.kv_head * launch_.cache_head_bytes +
                       static_cast<std::int64_t>(position / kLeafKeys) * 2 * kPartBytes +
                       CacheLayout::within(position % kLeafKeys, dim, 2);
#pragma unroll
    for (int i = 0; i < 2; ++i) *reinterpret_cast<uint2*>(at + i * kPartBytes) = rows[i];
    sm90::fence_bulk();
    __syncwarp();
    if (lane_ == 0)
      atomicMax(&shared_.appended, static_cast<unsigned>(watch_.token * kTokenAttends + r.in_version + 1));
  }

  static __device__ float4 times(float4 x, float f) { return {x.x * f, x.y * f, x.z * f, x.w * f}; }

  // What four numbers of a head, which S::kDim / 4 lanes hold, are normed and turned with: loaded before they arrive.
  struct Turn {
    float4 weights, first, second;  // {cos, sin} of two dims each
  };
  __device__ Turn turn_of(const Record& r, std::uint64_t norm, int position) const {
    const int dim = lane_ * 4 % S::kDim;
    Turn out{};
    if (norm != 0) out.weights = __ldg(reinterpret_cast<const float4*>(reinterpret_cast<const float*>(norm) + dim));
    if (r.turns == 0) return out;
    const auto* turns = reinterpret_cast<const float2*>(r.turns) + static_cast<std::int64_t>(position) * (S::kDim / 2);
    const auto* own = reinterpret_cast<const float4*>(turns + (r.interleaved != 0 ? dim / 2 : dim % (S::kDim / 2)));
    out.first = __ldg(own);
    if (r.interleaved == 0) out.second = __ldg(own + 1);
    return out;
  }
  __device__ float4 turned(const Record& r, float4 x, bool normed, const Turn& turn) const {
    if (normed) {
      float squares = x.x * x.x + x.y * x.y + (x.z * x.z + x.w * x.w);
#pragma unroll
      for (int z = 1; z < S::kDim / 4; z *= 2) squares += __shfl_xor_sync(~0u, squares, z);
      const float f = rsqrtf(squares / S::kDim + r.eps);
      const float4 w = turn.weights;
      x = {x.x * f * w.x, x.y * f * w.y, x.z * f * w.z, x.w * f * w.w};
    }
    if (r.turns == 0) return x;
    const float4 t = turn.first, u = turn.second;
    if (r.interleaved != 0)
      return {x.x * t.x - x.y * t.y, x.x * t.y + x.y * t.x, x.z * t.z - x.w * t.w, x.z * t.w + x.w * t.z};
    const float sign = lane_ * 4 % S::kDim < S::kDim / 2 ? -1.f : 1.f;
    const float4 y{partner(x.x), partner(x.y), partner(x.z), partner(x.w)};
    return {x.x * t.x + sign * y.x * t.y, x.y * t.z + sign * y.y * t.w, x.z * u.x + sign * y.z * u.y,
            x.w * u.z + sign * y.w * u.w};
  }
  static __device__ float partner(float x) { return __shfl_xor_sync(~0u, x, S::kDim / 8); }

  const Launch& launch_;
  Shared<S>& shared_;
  Watch<S> watch_;
  int index_, lane_, turn_ = 0;
  Place<S::kSlices> room_;
};

}  // namespace fourfold::cuda::persistent
