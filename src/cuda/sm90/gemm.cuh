// The prefill product: 128 weight rows by 128 or 256 tokens in a block of threads, bound by reads from L2 and the
// matrix units.
//
// A producer warp streams stages of 64 columns through a ring: a panel of the tokens (16 or 32 KB, one bulk copy) and
// the strips of eight row groups (2 KB each). Two warpgroups take four row groups each: weights are left operands from
// registers, as their tiles have them, tokens right operands from shared memory. Weights of other storages do not go
// through the ring: each warp reads its own rows' strips, one ahead, and makes bf16 of them while the matrix units work
// on the stage before. Finished sums pass through shared memory, so that an epilogue sees four neighbouring rows of one
// token and writes whole lines. Blocks that share weights follow each other.
#pragma once

#include "cuda/gemm.hpp"
#include "cuda/sm90/async.cuh"
#include "cuda/sm90/launch.cuh"
#include "cuda/sm90/registers.cuh"
#include "cuda/sm90/unpack.cuh"
#include "cuda/sm90/wgmma.cuh"
#include "program/activation.hpp"

namespace fourfold::cuda::sm90 {

template <int kTokens_, class T>
struct GemmShape {
  static constexpr bool kDecodes = T::kStorage != Storage::bf16;
  static constexpr int kTokens = kTokens_;
  static constexpr int kGroupWarps = 4;
  static constexpr int kConsumers = 2 * kGroupWarps * 32;
  static constexpr int kThreads = kConsumers + 128;  // the producers hand their registers on
  static constexpr int kSteps = kPanelColumns / 16;
  static constexpr int kPanelBytes = kTokens * 128;
  static constexpr int kStripBytes = kDecodes ? 0 : T::kBytes / kTileStrips;
  static constexpr int kStageBytes = kPanelBytes + kTileGroups * kStripBytes;
  static constexpr int kSlots = 192 * 1024 / kStageBytes;
  static constexpr int kRows = kTileGroups * kTileRows;
  static constexpr int kRowFloats = kRows + 4;  // of one token's sums in shared memory: no bank conflicts
  static constexpr int kSharedBytes = kSlots * kStageBytes + Ring<kSlots>::kBarrierBytes + 1024;  // to align
  static_assert(kTokens * kRowFloats * 4 <= kSlots * kStageBytes);
  static_assert(T::kStripColumns == (kDecodes ? 2 : 1) * kPanelColumns);
};

// T: the weights' tile.
template <int kTokens, class T>
class Gemm {
  using Shape = GemmShape<kTokens, T>;

 public:
  __device__ Gemm(const DeviceProject& p, const Panels& x, const float* scale, char* memory)
      : p_(p),
        x_(x),
        scale_(scale),
        memory_(memory + (1024 - shared_address(memory) % 1024) % 1024),
        first_token_(static_cast<int>(blockIdx.x) * kTokens),
        first_group_(static_cast<int>(blockIdx.y) * kTileGroups) {}

  __device__ void run() {
    Ring<Shape::kSlots> ring{shared_address(memory_) + Shape::kSlots * Shape::kStageBytes};
    if (threadIdx.x == 0) ring.init(Shape::kConsumers / 32);
    __syncthreads();
    if (threadIdx.x >= Shape::kConsumers) {
      give_registers<40>();
      if (threadIdx.x < Shape::kConsumers + 32) produce(ring);
    } else {
      take_registers<232>();
      wait_for_previous_kernel();
      let_next_kernel_start();
      consume(ring);
      finish();
    }
  }

 private:
  // By a warp: lanes 0-7 bring a row group's strips each, lane 8 the tokens.
  __device__ void produce(Ring<Shape::kSlots> ring) const {
    const std::uint32_t slots = shared_address(memory_);
    const int group = group_of(lane_);
    const std::uint8_t* strip = tile_of(group, 0);
    const std::int64_t next_tile = p_.order.slices > 1 ? tile_of(group, 1) - strip : 0;
    const std::byte* tokens = x_.data + std::int64_t{first_token_} * 128;
    const int token_bytes = min(kTokens, x_.padded_tokens() - first_token_) * 128;  // more would not be stored
    for (int panel = 0; panel < x_.panels(); ++panel) {
      ring.acquire();
      const std::uint32_t slot = slots + ring.slot * Shape::kStageBytes;
      if (lane_ == 0) ring.full().expect(Shape::kStageBytes - Shape::kPanelBytes + token_bytes);
      __syncwarp();
      if (lane_ < kTileGroups && Shape::kDecodes) {
        constexpr int kTilePanels = T::kColumns / kPanelColumns;
        const int slice = panel / kTilePanels + 1;
        if (panel % kTilePanels == 0 && slice < p_.order.slices) prefetch_bulk(strip + slice * next_tile, T::kBytes);
      } else if (lane_ < kTileGroups) {
        copy_bulk(slot + Shape::kPanelBytes + lane_ * Shape::kStripBytes,
                  strip + panel / kTileStrips * next_tile + panel % kTileStrips * Shape::kStripBytes,
                  Shape::kStripBytes, ring.full());
      } else if (lane_ == kTileGroups) {
        if (panel == 0) wait_for_previous_kernel();  // which makes the tokens; weights are there
        copy_bulk(slot, tokens, token_bytes, ring.full());
        tokens += std::int64_t{x_.padded_tokens()} * 128;
      }
      ring.next();
    }
  }

  // Brings `bytes`, a multiple of 16 at a multiple of 16, to L2.
  static __device__ __forceinline__ void prefetch_bulk(const void* from, int bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
  }

  // Rows beyond the matrix are never stored.
  __device__ int group_of(int i) const { return min(first_group_ + i, p_.order.groups - 1); }
  __device__ const std::uint8_t* tile_of(int group, int slice) const {
    return p_.tiles + p_.order.index(group, slice) * T::kBytes;
  }

  // The weights of a stage that this lane multiplies with.
  __device__ void load_weights(std::uint32_t (&a)[Shape::kSteps][4], int slot) const {
    const char* strip = memory_ + slot * Shape::kStageBytes + Shape::kPanelBytes + warp_ * Shape::kStripBytes;
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
      const uint4 v = *reinterpret_cast<const uint4*>(strip + (step * 32 + lane_) * 16);
      a[step][0] = v.x, a[step][1] = v.y, a[step][2] = v.z, a[step][3] = v.w;
    }
  }

  __device__ void multiply_stage(const std::uint32_t (&a)[Shape::kSteps][4], int slot) {
    const std::uint64_t tokens = swizzled_descriptor(shared_address(memory_) + slot * Shape::kStageBytes);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) wgmma_bf16(sums_, a[step], tokens + 2 * step);
    wgmma_commit();
  }

  // Two stages a turn, so that the weights of the next one arrive in registers while one is multiplied.
  __device__ void consume(Ring<Shape::kSlots> ring) {
    if constexpr (Shape::kDecodes)
      consume_decoding(ring);
    else
      consume_streamed(ring);
  }
  __device__ void consume_streamed(Ring<Shape::kSlots> ring) {
    std::uint32_t even[Shape::kSteps][4], odd[Shape::kSteps][4];
    const int panels = x_.panels();
    ring.wait();
    load_weights(even, ring.slot);
    for (int panel = 0; panel < panels; panel += 2) {
      advance(ring, even, odd, panel + 1 < panels);
      if (panel + 1 < panels) advance(ring, odd, even, panel + 2 < panels);
    }
  }
  __device__ void advance(Ring<Shape::kSlots>& ring, const std::uint32_t (&now)[Shape::kSteps][4],
                          std::uint32_t (&next)[Shape::kSteps][4], bool more) {
    multiply_stage(now, ring.slot);
    const Ring<Shape::kSlots> busy = ring;
    ring.next();
    if (more) {
      ring.wait();
      load_weights(next, ring.slot);
    }
    wgmma_wait<0>();
    if (lane_ == 0) busy.empty().arrive();
  }

  // A strip a turn, of two stages.
  __device__ void consume_decoding(Ring<Shape::kSlots> ring) {
    std::uint32_t even[Shape::kSteps][4], odd[Shape::kSteps][4];
    Strip<T> now, ahead;
    const int panels = x_.panels(), group = group_of(warp_);
    read_strip(now, group, 0);
    decode<0>(even, now);
    for (int panel = 0; panel < panels; panel += 2) {
      const bool more = panel + 2 < panels;
      if (more) read_strip(ahead, group, panel / 2 + 1);
      ring.wait();
      multiply_stage(even, ring.slot);
      decode<Shape::kSteps>(odd, now);
      release(ring);
      if (panel + 1 == panels) return;
      ring.wait();
      multiply_stage(odd, ring.slot);
      now = ahead;
      if (more) decode<0>(even, now);
      release(ring);
    }
  }
  __device__ void read_strip(Strip<T>& strip, int group, int number) const {
    strip.template read<Global>(tile_of(group, number / kTileStrips), number % kTileStrips);
  }
  // The strip's pieces from kFirst on, as a stage's operands.
  template <int kFirst>
  static __device__ void decode(std::uint32_t (&a)[Shape::kSteps][4], const Strip<T>& strip) {
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
      float w[8];
      weights_of<T>(strip, kFirst + step, w);
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) a[step][pair] = Bf16::pack(w[2 * pair], w[2 * pair + 1]);
    }
  }
  __device__ void release(Ring<Shape::kSlots>& ring) const {
    wgmma_wait<0>();
    if (lane_ == 0) ring.empty().arrive();
    ring.next();
  }

  static __device__ void sync_consumers() { asm volatile("bar.sync 1, %0;" ::"n"(Shape::kConsumers) : "memory"); }

  __device__ void finish() const {
    float* sums = reinterpret_cast<float*>(memory_);  // [token][kRowFloats]
    sync_consumers();                                 // the ring is empty
#pragma unroll
    for (int i = 0; i < kTokens / 2; ++i) {
      const int token = i / 4 * 8 + lane_ % 4 * 2 + i % 2, row = warp_ * 16 + lane_ / 4 + i / 2 % 2 * 8;
      sums[token * Shape::kRowFloats + row] = sums_[i];
    }
    sync_consumers();
    p_.epilogue == DeviceEpilogue::gated ? gate(sums) : store(sums);
  }

  // A warp finishes tokens warp, warp + 8, ..; `turn` counts them.
  static constexpr int kWarps = Shape::kConsumers / 32, kTurns = kTokens / kWarps;
  static_assert(kTurns <= 32);
  __device__ int token_of(int turn) const { return warp_ + kWarps * turn; }
  __device__ bool is_there(int turn) const { return first_token_ + token_of(turn) < x_.tokens; }
  // Lane `turn` holds the scalar of that token.
  __device__ float scalars() const {
    return lane_ < kTurns && is_there(lane_) ? scale_[first_token_ + token_of(lane_)] : 0;
  }

  // Four rows of a dot from `row` on: y = scale (by_row sum + bias).
  struct FourRows {
    float scale, by_row[4], bias[4];
    __device__ FourRows(const DeviceDot& dot, int row) : scale(dot.scale) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        by_row[i] = dot.scales != nullptr && row + i < dot.rows ? dot.scales[row + i] : 1;
        bias[i] = dot.bias != nullptr && row + i < dot.rows ? dot.bias[row + i] : 0;
      }
    }
    __device__ float operator()(int i, float sum) const { return scale * fmaf(sum, by_row[i], bias[i]); }
  };

  static __device__ bool is_whole(const float* at, int column, int end) {
    return column + 4 <= end && reinterpret_cast<std::uintptr_t>(at) % 16 == 0;
  }
  // Four numbers of a row from `column` on, as many as there are before `end`.
  static __device__ void get(const float* row, int column, int end, float (&y)[4]) {
    if (is_whole(row + column, column, end)) {
      const float4 v = *reinterpret_cast<const float4*>(row + column);
      y[0] = v.x, y[1] = v.y, y[2] = v.z, y[3] = v.w;
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) y[i] = column + i < end ? row[column + i] : 0;
  }
  static __device__ void put(float* row, int column, int end, const float (&y)[4]) {
    if (is_whole(row + column, column, end)) {
      *reinterpret_cast<float4*>(row + column) = {y[0], y[1], y[2], y[3]};
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (column + i < end) row[column + i] = y[i];
  }

  // Four tokens at once, so that their residuals are under way together.
  __device__ void store(const float* sums) const {
    constexpr int kAtOnce = 4;
    const int group = first_group_ + lane_ / 4;
    const int d = p_.dot_count > 2 && group >= p_.dots[2].first_group   ? 2
                  : p_.dot_count > 1 && group >= p_.dots[1].first_group ? 1
                                                                        : 0;
    const DeviceDot& dot = p_.dots[d];
    const int row = (group - dot.first_group) * kTileRows + lane_ % 4 * 4;
    const bool add = p_.epilogue == DeviceEpilogue::add, mine = group < p_.order.groups;
    const FourRows rows(dot, row);
    const float factors = scalars();
    float* out = p_.epilogue == DeviceEpilogue::append ? p_.heads.raw : p_.out;
    for (int first = 0; first < kTurns && is_there(first); first += kAtOnce) {
      float x[kAtOnce][4] = {};
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k)
        if (add && mine && is_there(first + k)) get(p_.residual + place(first + k), row, dot.rows, x[k]);
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const float factor = __shfl_sync(~0u, factors, first + k);
        if (!mine || !is_there(first + k)) continue;
        float y[4];
        get(sums + token_of(first + k) * Shape::kRowFloats, 4 * lane_, Shape::kRows, y);
#pragma unroll
        for (int i = 0; i < 4; ++i) y[i] = finished(rows(i, y[i] * factor), x[k][i]);
        put(out + place(first + k) + dot.first_row, row, dot.rows, y);
      }
    }
  }
  // Floats to a token's row.
  __device__ std::int64_t place(int turn) const { return std::int64_t{first_token_ + token_of(turn)} * row_of(p_); }
  __device__ float finished(float y, float residual) const {
    if (p_.epilogue == DeviceEpilogue::add) return __fadd_rn(residual, y);
    if (p_.epilogue == DeviceEpilogue::append) return y;
    return activated(p_.activation, p_.soft_cap > 0 ? p_.soft_cap * fourfold::tanh(y / p_.soft_cap) : y);
  }

  // Groups alternate between gate and up; each half of a warp takes a token.
  __device__ void gate(const float* sums) const {
    const int lane = lane_ % 16, half = lane_ / 16, pair = lane / 4;
    const int row = (first_group_ / 2 + pair) * kTileRows + lane % 4 * 4, column = pair * 2 * kTileRows + lane % 4 * 4;
    const FourRows gates(p_.dots[0], row), ups(p_.dots[1], row);
    const float factors = scalars();
    for (int first = 0; first < kTurns && is_there(first); first += 2) {
      const int turn = first + half;
      const float factor = __shfl_sync(~0u, factors, turn);
      if (!is_there(turn)) continue;
      const float* own = sums + token_of(turn) * Shape::kRowFloats;
      float gate[4], up[4];
      get(own, column, Shape::kRows, gate);
      get(own, column + kTileRows, Shape::kRows, up);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        gate[i] = activated(p_.activation, gates(i, gate[i] * factor)) * ups(i, up[i] * factor);
      put(p_.out + place(turn), row, p_.dots[0].rows, gate);
    }
  }

  const DeviceProject& p_;
  const Panels& x_;
  const float* scale_;
  char* memory_;
  int first_token_, first_group_;
  int warp_ = static_cast<int>(threadIdx.x) / 32, lane_ = static_cast<int>(threadIdx.x) % 32;
  float sums_[kTokens / 2] = {};
};

template <int kTokens, class T>
__global__ void __launch_bounds__(GemmShape<kTokens, T>::kThreads, 1)
    gemm_kernel(const __grid_constant__ DeviceProject project, const __grid_constant__ Panels x, const float* scale) {
  extern __shared__ __align__(1024) char memory[];
  Gemm<kTokens, T>(project, x, scale, memory).run();
}

template <int kTokens, class T>
cudaError_t launch_gemm(const DeviceProject& project, const Panels& x, const float* scale, bool programmatic,
                        cudaStream_t stream) {
  using Shape = GemmShape<kTokens, T>;
  const dim3 grid(static_cast<unsigned>((x.tokens + kTokens - 1) / kTokens),
                  static_cast<unsigned>((project.order.groups + kTileGroups - 1) / kTileGroups));
  return launch(gemm_kernel<kTokens, T>, {grid, Shape::kThreads, Shape::kSharedBytes, programmatic}, stream, project, x,
                scale);
}

}  // namespace fourfold::cuda::sm90
