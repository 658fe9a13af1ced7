// The prefill product: 128 weight rows by 128 or 256 tokens in a block of threads, bound by reads from L2 and the
// matrix units.
//
// A producer warp streams stages of 64 columns through a ring: a panel of the tokens (16 or 32 KB, one bulk copy) and
// the strips of eight row groups (2 KB each). Two warpgroups take four row groups each: weights are left operands from
// registers, as their tiles have them, tokens right operands from shared memory. Finished sums pass through shared
// memory, so that an epilogue sees four neighbouring rows of one token and writes whole lines. Blocks that share
// weights follow each other.
#pragma once

#include "cuda/gemm.hpp"
#include "cuda/sm90/activation.cuh"
#include "cuda/sm90/async.cuh"
#include "cuda/sm90/launch.cuh"
#include "cuda/sm90/wgmma.cuh"

namespace fourfold::cuda::sm90 {

template <int kTokens_>
struct GemmShape {
  static constexpr int kTokens = kTokens_;
  static constexpr int kGroupWarps = 4;
  static constexpr int kConsumers = 2 * kGroupWarps * 32;
  static constexpr int kThreads = kConsumers + 128;  // the producers hand their registers on
  static constexpr int kSteps = kPanelColumns / 16;
  static constexpr int kPanelBytes = kTokens * 128;
  static constexpr int kStripBytes = Tile<Storage::bf16>::kBytes / kTileStrips;
  static constexpr int kStageBytes = kPanelBytes + kTileGroups * kStripBytes;
  static constexpr int kSlots = 192 * 1024 / kStageBytes;
  static constexpr int kRows = kTileGroups * kTileRows;
  static constexpr int kRowFloats = kRows + 4;  // of one token's sums in shared memory: no bank conflicts
  static constexpr int kSharedBytes = kSlots * kStageBytes + Ring<kSlots>::kBarrierBytes + 1024;  // to align
  static_assert(kTokens * kRowFloats * 4 <= kSlots * kStageBytes);
  static_assert(Tile<Storage::bf16>::kStripColumns == kPanelColumns);
};

template <int kTokens>
class Gemm {
  using Shape = GemmShape<kTokens>;

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
    constexpr int kTile = Tile<Storage::bf16>::kBytes;
    const std::uint32_t slots = shared_address(memory_);
    const int group = min(first_group_ + lane_, p_.order.groups - 1);  // rows beyond the matrix are never stored
    const std::uint8_t* strip = p_.tiles + p_.order.index(group, 0) * kTile;
    const std::int64_t next_tile =
        p_.order.slices > 1 ? (p_.order.index(group, 1) - p_.order.index(group, 0)) * kTile : 0;
    const std::byte* tokens = x_.data + std::int64_t{first_token_} * 128;
    const int token_bytes = min(kTokens, x_.padded_tokens() - first_token_) * 128;  // more would not be stored
    for (int panel = 0; panel < x_.panels(); ++panel) {
      ring.acquire();
      const std::uint32_t slot = slots + ring.slot * Shape::kStageBytes;
      if (lane_ == 0) ring.full().expect(Shape::kStageBytes - Shape::kPanelBytes + token_bytes);
      __syncwarp();
      if (lane_ < kTileGroups) {
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
    const int end = min(kTokens, x_.tokens - first_token_);
    for (int token = warp_; token < end; token += Shape::kConsumers / 32) {
      const float* row = sums + token * Shape::kRowFloats;
      p_.epilogue == DeviceEpilogue::gated ? gate(first_token_ + token, row) : store(first_token_ + token, row);
    }
  }

  // Row `row` of a dot, from its sum.
  __device__ float scaled(const DeviceDot& dot, int row, float sum) const {
    if (row >= dot.rows) return 0;
    const float y = dot.scales != nullptr ? sum * dot.scales[row] : sum;
    return dot.scale * (dot.bias != nullptr ? y + dot.bias[row] : y);
  }

  // Four rows of a lane from `column` on, as many as there are before `end`.
  __device__ void put(float* row, int column, int end, float4 y) const {
    if (column + 4 <= end && reinterpret_cast<std::uintptr_t>(row + column) % 16 == 0) {
      *reinterpret_cast<float4*>(row + column) = y;
      return;
    }
    const float values[] = {y.x, y.y, y.z, y.w};
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (column + i < end) row[column + i] = values[i];
  }

  __device__ void store(int token, const float* sums) const {
    const int group = first_group_ + lane_ / 4;
    if (group >= p_.order.groups) return;
    const int d = p_.dot_count > 2 && group >= p_.dots[2].first_group   ? 2
                  : p_.dot_count > 1 && group >= p_.dots[1].first_group ? 1
                                                                        : 0;
    const DeviceDot& dot = p_.dots[d];
    const int row = (group - dot.first_group) * kTileRows + lane_ % 4 * 4;
    const float factor = scale_[token];
    const std::int64_t at = std::int64_t{token} * row_of(p_);
    float y[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      y[i] = scaled(dot, row + i, sums[4 * lane_ + i] * factor);
      if (p_.epilogue == DeviceEpilogue::add) {
        if (row + i < dot.rows) y[i] = fmaf(p_.residual_scale, p_.residual[at + row + i], y[i]);
      } else if (p_.epilogue == DeviceEpilogue::store) {
        y[i] = activated(p_.activation, p_.soft_cap > 0 ? p_.soft_cap * fourfold::tanh(y[i] / p_.soft_cap) : y[i]);
      }
    }
    float* out = p_.epilogue == DeviceEpilogue::append ? p_.heads.raw : p_.out;
    put(out + at, dot.first_row + row, dot.first_row + dot.rows, {y[0], y[1], y[2], y[3]});
  }

  // Groups alternate between gate and up.
  __device__ void gate(int token, const float* sums) const {
    if (lane_ >= 16) return;
    const int pair = lane_ / 4, row = (first_group_ / 2 + pair) * kTileRows + lane_ % 4 * 4;
    const float* own = sums + pair * 2 * kTileRows + lane_ % 4 * 4;
    const float factor = scale_[token];
    float y[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      y[i] = activated(p_.activation, scaled(p_.dots[0], row + i, own[i] * factor)) *
             scaled(p_.dots[1], row + i, own[kTileRows + i] * factor);
    put(p_.out + std::int64_t{token} * row_of(p_), row, p_.dots[0].rows, {y[0], y[1], y[2], y[3]});
  }

  const DeviceProject& p_;
  const Panels& x_;
  const float* scale_;
  char* memory_;
  int first_token_, first_group_;
  int warp_ = static_cast<int>(threadIdx.x) / 32, lane_ = static_cast<int>(threadIdx.x) % 32;
  float sums_[kTokens / 2] = {};
};

template <int kTokens>
__global__ void __launch_bounds__(GemmShape<kTokens>::kThreads, 1)
    gemm_kernel(const __grid_constant__ DeviceProject project, const __grid_constant__ Panels x, const float* scale) {
  extern __shared__ __align__(1024) char memory[];
  Gemm<kTokens>(project, x, scale, memory).run();
}

template <int kTokens>
cudaError_t launch_gemm(const DeviceProject& project, const Panels& x, const float* scale, bool programmatic,
                        cudaStream_t stream) {
  using Shape = GemmShape<kTokens>;
  const dim3 grid(static_cast<unsigned>((x.tokens + kTokens - 1) / kTokens),
                  static_cast<unsigned>((project.order.groups + kTileGroups - 1) / kTileGroups));
  return launch(gemm_kernel<kTokens>, {grid, Shape::kThreads, Shape::kSharedBytes, programmatic}, stream, project, x,
                scale);
}

}  // namespace fourfold::cuda::sm90
