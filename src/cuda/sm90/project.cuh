// A Project of one token: bound by the memory's read rate; the ring keeps 48-96 KB per multiprocessor in flight.
//
// A block of threads owns neighbouring row groups. One producer warp streams their tiles through a ring of bulk
// copies and starts before the kernel before this one ends; eight consumer warps then bring their strips of the
// activation (times the norm's weight) to shared memory and walk the tiles, slice after slice for up to kGroups row
// groups, sums in registers. A row is the sum over slices in order of each strip, then over strips in order; the norm's
// scalar follows the dot: no result depends on how rows are shared out. One block fits a multiprocessor (decision 11).
#pragma once

#include "cuda/project.hpp"
#include "cuda/sm90/async.cuh"
#include "cuda/sm90/heads.cuh"
#include "cuda/sm90/launch.cuh"
#include "cuda/sm90/tile.cuh"
#include "program/activation.hpp"

namespace fourfold::cuda::sm90 {

template <class T>
struct ProjectShape {
  static constexpr int kPair = T::kBytes <= 12288 ? 2 : 1;  // tiles of a slot: at least about 16 KB
  static constexpr int kGroups = kPair == 1 ? 14 : 8;       // row groups walked together, sums in registers
  static constexpr int kSlotBytes = kPair * T::kBytes;
  static constexpr int kConsumers = 32 * kTileStrips;
  static constexpr int kThreads = kConsumers + 32;
  static constexpr int kMostSlots = 12;
  // One block to a multiprocessor, so that a kernel's blocks spread evenly while the one before it ends; `beside`: with
  // room for a block of attention.
  static constexpr int kSharedBeside = 120 * 1024, kSharedMost = 208 * 1024;
  static constexpr int kFixedBytes = 2 * kMostSlots * 8 + (kTileStrips * kGroups * kTileRows + 2 * kTileStrips) * 4;

  static int activation_bytes(int slices) { return slices * T::kColumns * 4; }
  static int slots(int slices, bool beside) {
    const int fit = ((beside ? kSharedBeside : kSharedMost) - kFixedBytes - activation_bytes(slices)) / kSlotBytes;
    return fit > kMostSlots ? kMostSlots : fit;
  }
  // Never so little that two blocks of one kernel fit a multiprocessor.
  static int shared_bytes(int slices, int slots) {
    const int needed = slots * kSlotBytes + activation_bytes(slices) + kFixedBytes;
    return needed > kSharedBeside ? needed : kSharedBeside;
  }
};

// Slots of shared memory in use order; the phase of a barrier changes each time around.
struct TileRing {
  std::uint32_t barriers;  // shared address: `slots` full, `slots` empty
  int slots;
  int slot = 0;
  std::uint32_t phase = 0;

  __device__ Barrier full() const { return {barriers + 8 * static_cast<std::uint32_t>(slot)}; }
  __device__ Barrier empty() const { return {barriers + 8 * static_cast<std::uint32_t>(slots + slot)}; }
  __device__ void next() {
    if (++slot == slots) slot = 0, phase ^= 1;
  }
};

// Row groups [begin, end) of this block of threads.
struct GroupRange {
  int begin, end;
};
__device__ __forceinline__ GroupRange own_groups(const DeviceProject& p, int unit) {
  const int units = (p.order.groups + unit - 1) / unit;
  const int per = (units + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);
  const int begin = min(static_cast<int>(blockIdx.x) * per * unit, p.order.groups);
  return {begin, min(begin + per * unit, p.order.groups)};
}

// Lane i of the producer warp brings tile i of each slot.
template <class T>
__device__ __forceinline__ void produce(const DeviceProject& p, GroupRange own, std::uint8_t* slots, TileRing ring) {
  using Shape = ProjectShape<T>;
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int first = own.begin; first < own.end; first += Shape::kGroups) {
    const int last = min(first + Shape::kGroups, own.end);
    for (int slice = 0; slice < p.order.slices; ++slice)
      for (int group = first; group < last; group += Shape::kPair) {
        const int tiles = min(Shape::kPair, last - group);
        if (lane == 0) {
          ring.empty().wait(ring.phase ^ 1);
          ring.full().expect(tiles * T::kBytes);
        }
        __syncwarp();
        if (lane < tiles)
          copy_bulk(shared_address(slots + ring.slot * Shape::kSlotBytes + lane * T::kBytes),
                    p.tiles + p.order.index(group + lane, slice) * T::kBytes, T::kBytes, ring.full());
        ring.next();
      }
  }
}

// The activation's strips of this warp, [slice][kStripColumns]; every warp reads its own ones only.
template <class T>
class Activations {
 public:
  static constexpr int kQuads = T::kStripColumns / 4;

  __device__ Activations(const DeviceProject& p, float* all)
      : p_(p), own_(reinterpret_cast<float4*>(all) + warp() * p.order.slices * kQuads) {}

  __device__ const float* strip(int slice) const { return reinterpret_cast<const float*>(own_ + slice * kQuads); }

  // Before the activation is known: puts the norm's weights in its place.
  __device__ void prepare() {
    if (p_.norm.weight == nullptr) return;
    each([&](int place, int column) { own_[place] = at(p_.norm.weight, column); });
  }

  // Brings the activation; returns this lane's part of its sum of squares.
  __device__ float bring() {
    float squares = 0;
    if (p_.add_y == nullptr) {
      each4([&](int column) { return cached(p_.in, column); }, squares);
      return squares;
    }
    const float factor = add_factor();
    each4(
        [&](int column) {
          const float4 x = cached(p_.add_x, column), y = cached(p_.add_y, column), w = at(p_.add_norm.weight, column);
          const float4 sum = {x.x + y.x * factor * w.x, x.y + y.y * factor * w.y, x.z + y.z * factor * w.z,
                              x.w + y.w * factor * w.w};
          if (blockIdx.x == 0 && column < p_.columns) *reinterpret_cast<float4*>(p_.add_out + column) = sum;
          return sum;
        },
        squares);
    return squares;
  }

 private:
  static __device__ int warp() { return static_cast<int>(threadIdx.x / 32); }
  __device__ int column_of(int place) const {
    return place / kQuads * T::kColumns + warp() * T::kStripColumns + place % kQuads * 4;
  }
  __device__ float4 at(const float* x, int column) const {
    return column < p_.columns ? *reinterpret_cast<const float4*>(x + column) : float4{0, 0, 0, 0};
  }
  __device__ float4 cached(const float* x, int column) const {
    return column < p_.columns ? __ldcg(reinterpret_cast<const float4*>(x + column)) : float4{0, 0, 0, 0};
  }
  template <class F>
  __device__ void each(F f) const {
    for (int place = threadIdx.x % 32; place < p_.order.slices * kQuads; place += 32) f(place, column_of(place));
  }
  // Four loads in flight per lane.
  template <class F>
  __device__ void each4(F load, float& squares) {
    const int count = p_.order.slices * kQuads;
    for (int first = threadIdx.x % 32; first < count; first += 128) {
      float4 x[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (first + 32 * i < count) x[i] = load(column_of(first + 32 * i));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (first + 32 * i >= count) continue;
        squares = fmaf(x[i].x, x[i].x, fmaf(x[i].y, x[i].y, fmaf(x[i].z, x[i].z, fmaf(x[i].w, x[i].w, squares))));
        float4& to = own_[first + 32 * i];
        to = p_.norm.weight == nullptr ? x[i] : float4{x[i].x * to.x, x[i].y * to.y, x[i].z * to.z, x[i].w * to.w};
      }
    }
  }
  __device__ float add_factor() const;

  const DeviceProject& p_;
  float4* own_;
};

// Sum over the consumers of one number per lane, the same for all of them: lanes, then warps, in order.
__device__ __forceinline__ float sum_over_consumers(float x, float* scratch) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
  asm volatile("bar.sync 1, %0;" ::"n"(32 * kTileStrips) : "memory");
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kTileStrips; ++w) sum += scratch[w];
  return sum;
}

// The factor of the AddNorm's norm.
template <class T>
__device__ float Activations<T>::add_factor() const {
  __shared__ float scratch[kTileStrips];
  float squares = 0;
  each([&](int, int column) {
    const float4 y = cached(p_.add_y, column);
    squares = fmaf(y.x, y.x, fmaf(y.y, y.y, fmaf(y.z, y.z, fmaf(y.w, y.w, squares))));
  });
  const float sum = sum_over_consumers(squares, scratch);
  return p_.add_norm.scale * rsqrtf(sum / static_cast<float>(p_.columns) + p_.add_norm.eps);
}

// Rows of the groups [first, first + count), from the strips' sums `red` [strip][kGroups * 16].
template <class T>
__device__ __forceinline__ void finish_rows(const DeviceProject& p, int first, int count, const float* red,
                                            float factor) {
  constexpr int kRows = ProjectShape<T>::kGroups * kTileRows;
  const int t = static_cast<int>(threadIdx.x), group = first + t / kTileRows;
  if (t >= count * kTileRows) return;
  const auto dot = [&](int index) {
    float sum = 0;
#pragma unroll
    for (int w = 0; w < kTileStrips; ++w) sum += red[w * kRows + index];
    return sum * factor;
  };
  if (p.epilogue == DeviceEpilogue::gated) {  // even groups hold gates, the odd one behind the same rows of up
    const int row = group / 2 * kTileRows + t % kTileRows;
    if (group % 2 != 0 || row >= p.dots[0].rows) return;
    const auto scaled = [&](const DeviceDot& d, float y) {
      if (d.scales != nullptr) y *= d.scales[row];
      return d.scale * (d.bias == nullptr ? y : y + d.bias[row]);
    };
    p.out[row] = activated(p.activation, scaled(p.dots[0], dot(t))) * scaled(p.dots[1], dot(t + kTileRows));
    return;
  }
  const int d = p.dot_count > 2 && group >= p.dots[2].first_group   ? 2
                : p.dot_count > 1 && group >= p.dots[1].first_group ? 1
                                                                    : 0;
  const DeviceDot& own = p.dots[d];
  const int row = (group - own.first_group) * kTileRows + t % kTileRows;
  if (row >= own.rows) return;
  float y = dot(t);
  if (own.scales != nullptr) y *= own.scales[row];
  y = own.scale * (own.bias == nullptr ? y : y + own.bias[row]);
  if (p.epilogue == DeviceEpilogue::append) {
    __stcg(p.heads.raw + own.first_row + row, y);
  } else if (p.epilogue == DeviceEpilogue::add) {
    p.out[row] = __fadd_rn(p.residual[row], y);
  } else {
    p.out[row] = activated(p.activation, p.soft_cap > 0 ? p.soft_cap * fourfold::tanh(y / p.soft_cap) : y);
  }
}

// Rows of an Append that this block wrote: dot by dot, they are neighbours in the raw row.
template <class T>
__device__ __forceinline__ void finish_append(const DeviceProject& p, GroupRange own, int position) {
  for (int d = 0; d < p.dot_count; ++d) {
    const DeviceDot& dot = p.dots[d];
    const int first = max((own.begin - dot.first_group) * kTileRows, 0);
    const int last = min((own.end - dot.first_group) * kTileRows, dot.rows);
    if (first < last)
      arrive_heads(p.heads, dot.first_row + first, dot.first_row + last, position, ProjectShape<T>::kConsumers);
  }
}

template <class T>
__device__ __forceinline__ void consume(const DeviceProject& p, GroupRange own, const std::uint8_t* slots,
                                        TileRing ring, float* activations, float* red) {
  using Shape = ProjectShape<T>;
  constexpr int kGroups = Shape::kGroups, kPair = Shape::kPair, kRows = kGroups * kTileRows;
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  Activations<T> x(p, activations);
  x.prepare();
  wait_for_previous_kernel();
  const float squares = sum_over_consumers(x.bring(), red + kTileStrips * kRows);
  const float factor =
      p.norm.weight == nullptr ? 1.f : p.norm.scale * rsqrtf(squares / static_cast<float>(p.columns) + p.norm.eps);
  for (int first = own.begin; first < own.end; first += kGroups) {
    const int count = min(kGroups, own.end - first);
    float acc[kGroups][4] = {};
    for (int slice = 0; slice < p.order.slices; ++slice) {
      typename Strip<T>::Parts parts;
      parts.make(x.strip(slice));
#pragma unroll
      for (int g = 0; g < kGroups; g += kPair) {
        if (g >= count) continue;
        ring.full().wait(ring.phase);
#pragma unroll
        for (int i = 0; i < kPair; ++i) {
          if (g + i >= count) continue;
          Strip<T> strip;
          strip.template read<Shared>(slots + ring.slot * Shape::kSlotBytes + i * T::kBytes, warp);
          strip.accumulate(acc[g + i], parts);
        }
        __syncwarp();
        if (lane == 0) ring.empty().arrive();
        ring.next();
      }
    }
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (g >= count) continue;
      const float2 sums = row_sums(acc[g]);
      if (lane % 4 != 0) continue;
      red[warp * kRows + g * kTileRows + lane / 4] = sums.x;
      red[warp * kRows + g * kTileRows + 8 + lane / 4] = sums.y;
    }
    asm volatile("bar.sync 1, %0;" ::"n"(Shape::kConsumers) : "memory");
    finish_rows<T>(p, first, count, red, factor);
    asm volatile("bar.sync 1, %0;" ::"n"(Shape::kConsumers) : "memory");
  }
  if (p.epilogue == DeviceEpilogue::append) finish_append<T>(p, own, *p.position);
}

template <class T>
__global__ void __launch_bounds__(ProjectShape<T>::kThreads, 1)
    project_kernel(const __grid_constant__ DeviceProject p, int slots) {
  using Shape = ProjectShape<T>;
  extern __shared__ __align__(128) std::uint8_t memory[];
  let_next_kernel_start();
  float* activations = reinterpret_cast<float*>(memory + slots * Shape::kSlotBytes);
  float* red = activations + p.order.slices * T::kColumns;
  const TileRing ring{shared_address(red + kTileStrips * Shape::kGroups * kTileRows + 2 * kTileStrips), slots};
  if (threadIdx.x == 0) {
    for (int i = 0; i < slots; ++i) {
      Barrier{ring.barriers + 8 * i}.init(1);
      Barrier{ring.barriers + 8 * (slots + i)}.init(kTileStrips);
    }
    publish_barriers();
  }
  __syncthreads();
  const GroupRange own = own_groups(p, p.epilogue == DeviceEpilogue::gated || Shape::kPair == 2 ? 2 : 1);
  if (threadIdx.x >= Shape::kConsumers) {
    produce<T>(p, own, memory, ring);
    return;
  }
  consume<T>(p, own, memory, ring, activations, red);
}

template <class T>
cudaError_t launch_project(const DeviceProject& p, int multiprocessors, bool programmatic, cudaStream_t stream) {
  using Shape = ProjectShape<T>;
  const int unit = p.epilogue == DeviceEpilogue::gated || Shape::kPair == 2 ? 2 : 1;
  const int units = (p.order.groups + unit - 1) / unit, per = (units + multiprocessors - 1) / multiprocessors;
  int slots = Shape::slots(p.order.slices, p.beside_attention);
  if (slots < 3) slots = Shape::slots(p.order.slices, false);
  if (slots < 2) return cudaErrorInvalidValue;
  const Launch how{dim3((units + per - 1) / per), Shape::kThreads, Shape::shared_bytes(p.order.slices, slots),
                   programmatic};
  return launch(project_kernel<T>, how, stream, p, slots);
}

}  // namespace fourfold::cuda::sm90
