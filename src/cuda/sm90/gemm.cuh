// The prefill product: 128 weight rows by 128 tokens in a block of threads, bound by the matrix units.
//
// A producer warp streams stages of 64 columns through a ring: a panel of the tokens (16 KB, one bulk copy) and the
// strips of eight row groups (2 KB each). Two warpgroups take four row groups each: weights are left operands from
// registers, as their tiles have them, tokens right operands from shared memory. Finished sums pass through shared
// memory, so that an epilogue sees four neighbouring rows of one token and writes whole lines. Blocks that share
// weights follow each other.
#pragma once

#include <fourfold/epilogue.hpp>

#include "cuda/gemm.hpp"
#include "cuda/sm90/async.cuh"
#include "cuda/sm90/launch.cuh"
#include "cuda/sm90/wgmma.cuh"

namespace fourfold::cuda::sm90 {

struct GemmShape {
  static constexpr int kGroupWarps = 4;
  static constexpr int kConsumers = 2 * kGroupWarps * 32;
  static constexpr int kThreads = kConsumers + 32;
  static constexpr int kSteps = kPanelColumns / 16;
  static constexpr int kPanelBytes = kTokenTile * 128;
  static constexpr int kStripBytes = Tile<Storage::bf16>::kBytes / kTileStrips;
  static constexpr int kStageBytes = kPanelBytes + kTileGroups * kStripBytes;
  static constexpr int kSlots = 6;
  static constexpr int kRows = kTileGroups * kTileRows;
  static constexpr int kRowFloats = kRows + 4;  // of one token's sums in shared memory: no bank conflicts
  static constexpr int kSharedBytes = kSlots * kStageBytes + Ring<kSlots>::kBarrierBytes + 1024;  // to align
  static_assert(kTokenTile * kRowFloats * 4 <= kSlots * kStageBytes);
  static_assert(Tile<Storage::bf16>::kStripColumns == kPanelColumns);
};

class Gemm {
  using Shape = GemmShape;

 public:
  __device__ Gemm(const Product& p, char* memory)
      : p_(p),
        memory_(memory + (1024 - shared_address(memory) % 1024) % 1024),
        first_token_(static_cast<int>(blockIdx.x) * kTokenTile),
        first_group_(static_cast<int>(blockIdx.y) * kTileGroups) {}

  __device__ void run() {
    Ring<Shape::kSlots> ring{shared_address(memory_) + Shape::kSlots * Shape::kStageBytes};
    if (threadIdx.x == 0) ring.init(Shape::kConsumers / 32);
    __syncthreads();
    if (threadIdx.x >= Shape::kConsumers) {
      produce(ring);
      return;
    }
    wait_for_previous_kernel();
    let_next_kernel_start();
    consume(ring);
    finish();
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
    const std::byte* tokens = p_.x.data + std::int64_t{first_token_} * 128;
    for (int panel = 0; panel < p_.x.panels(); ++panel) {
      ring.acquire();
      const std::uint32_t slot = slots + ring.slot * Shape::kStageBytes;
      if (lane_ == 0) ring.full().expect(Shape::kStageBytes);
      __syncwarp();
      if (lane_ < kTileGroups) {
        copy_bulk(slot + Shape::kPanelBytes + lane_ * Shape::kStripBytes,
                  strip + panel / kTileStrips * next_tile + panel % kTileStrips * Shape::kStripBytes,
                  Shape::kStripBytes, ring.full());
      } else if (lane_ == kTileGroups) {
        if (panel == 0) wait_for_previous_kernel();  // which makes the tokens; weights are there
        copy_bulk(slot, tokens, Shape::kPanelBytes, ring.full());
        tokens += std::int64_t{p_.x.padded_tokens()} * 128;
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
    const int panels = p_.x.panels();
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
    for (int i = 0; i < 64; ++i) {
      const int token = i / 4 * 8 + lane_ % 4 * 2 + i % 2, row = warp_ * 16 + lane_ / 4 + i / 2 % 2 * 8;
      sums[token * Shape::kRowFloats + row] = sums_[i];
    }
    sync_consumers();
    const int end = min(kTokenTile, p_.x.tokens - first_token_);
    for (int token = warp_; token < end; token += Shape::kConsumers / 32) {
      const float* row = sums + token * Shape::kRowFloats;
      p_.finish == Finish::gate ? gate(first_token_ + token, row) : store(first_token_ + token, row);
    }
  }

  __device__ float4 dots(int token, const float* sums, int row) const {
    const float4 y = *reinterpret_cast<const float4*>(sums + row);
    const float scale = p_.scale != nullptr ? p_.scale[token] : 1;
    float bias[4] = {};
    if (p_.bias != nullptr)
      for (int i = 0; i < 4; ++i)
        if (first_row() + row + i < p_.rows) bias[i] = p_.bias[first_row() + row + i];
    return {fmaf(y.x, scale, bias[0]), fmaf(y.y, scale, bias[1]), fmaf(y.z, scale, bias[2]), fmaf(y.w, scale, bias[3])};
  }
  __device__ int first_row() const { return first_group_ * kTileRows; }

  // Four rows of a lane from `row` on, as many as there are.
  __device__ void put(int token, int row, float4 y) const {
    float* out = p_.out + std::int64_t{token} * p_.out_width + row;
    if (p_.out_width % 4 == 0 && row + 4 <= p_.out_width) {
      *reinterpret_cast<float4*>(out) = y;
      return;
    }
    const float values[] = {y.x, y.y, y.z, y.w};
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (row + i < p_.out_width) out[i] = values[i];
  }

  __device__ void store(int token, const float* sums) const {
    const int row = first_row() + 4 * lane_;
    if (row >= p_.out_width) return;
    float4 y = dots(token, sums, 4 * lane_);
    if (p_.finish == Finish::add) {
      const float* x = p_.residual + std::int64_t{token} * p_.out_width + row;
      const auto at = [&](int i) { return row + i < p_.out_width ? x[i] : 0.f; };
      y = {at(0) + y.x, at(1) + y.y, at(2) + y.z, at(3) + y.w};
    }
    if (p_.soft_cap > 0) {
      const SoftCap cap{p_.soft_cap};
      y = {cap(y.x, 0, 0), cap(y.y, 0, 0), cap(y.z, 0, 0), cap(y.w, 0, 0)};
    }
    put(token, row, y);
  }

  __device__ void gate(int token, const float* sums) const {
    if (lane_ >= 16) return;
    const int pair = lane_ / 4, row = lane_ % 4 * 4;
    const float4 gate = dots(token, sums, pair * 32 + row), up = dots(token, sums, pair * 32 + 16 + row);
    const auto act = [&](float x) { return p_.activation == Activation::silu ? Silu{}(x, 0, 0) : GeluTanh{}(x, 0, 0); };
    put(token, (first_group_ / 2 + pair) * kTileRows + row,
        {act(gate.x) * up.x, act(gate.y) * up.y, act(gate.z) * up.z, act(gate.w) * up.w});
  }

  const Product& p_;
  char* memory_;
  int first_token_, first_group_;
  int warp_ = static_cast<int>(threadIdx.x) / 32, lane_ = static_cast<int>(threadIdx.x) % 32;
  float sums_[64] = {};
};

__global__ void __launch_bounds__(GemmShape::kThreads, 1) gemm_kernel(const __grid_constant__ Product product) {
  extern __shared__ __align__(1024) char memory[];
  Gemm(product, memory).run();
}

}  // namespace fourfold::cuda::sm90
