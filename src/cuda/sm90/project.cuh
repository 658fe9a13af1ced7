// A Project of one token: bound by the memory's read rate; the ring keeps up to 176 KB per multiprocessor in flight.
//
// A block of threads owns neighbouring row groups. One producer thread streams their tiles through a ring of bulk
// copies and starts before the kernel before this one ends; eight consumer warps then leave their strips of the
// activation (times the norm's weight) as operands in shared memory and walk the tiles, slice after slice for up to
// kGroups row groups, the next tiles in registers while these are added. A row is the sum over slices in order
// of each strip, then over strips in order; the norm's scalar follows the dot: no result depends on how rows are shared
// out.
#pragma once

#include <algorithm>

#include "cuda/project.hpp"
#include "cuda/sm90/async.cuh"
#include "cuda/sm90/heads.cuh"
#include "cuda/sm90/launch.cuh"
#include "cuda/sm90/tile.cuh"
#include "program/activation.hpp"

namespace fourfold::cuda::sm90 {

template <class T>
struct ProjectShape {
  using Parts = typename Strip<T>::Parts;
  static constexpr int kPair = T::kBytes <= 12288 ? 2 : 1;  // tiles of a slot: at least about 16 KB
  static constexpr int kGroups = 8;                         // row groups walked together, sums in registers
  // Two 16-bit tiles at a time, as the tensor cores' latency binds; and slices of the activation on their way to shared
  // memory: what registers leave room for.
  static constexpr int kTogether = kPair == 1 && sizeof(Strip<T>) <= 64 ? 2 : 1;
  static constexpr int kRoundColumns = sizeof(Strip<T>) > 64 ? 2048 : 4096;
  static constexpr int kSlotBytes = kPair * T::kBytes;
  static constexpr int kConsumers = 32 * kTileStrips;
  static constexpr int kThreads = kConsumers + 32;
  static constexpr int kRound = kRoundColumns / T::kColumns;  // slices of the activation in shared memory at a time
  static constexpr int kRoundBytes = kRound * kTileStrips * Parts::kStoredBytes;
  static constexpr int kRedFloats = kTileStrips * kGroups * kTileRows + kTileStrips;
  // One block to a multiprocessor, so that a kernel's blocks spread evenly while the one before it ends. Codes are
  // walked slower than 16-bit weights arrive, and gain nothing from more than 8 slots.
  static constexpr int kMostSlots = T::kBytes >= 2 * kTileRows * T::kColumns ? 12 : 8;
  static constexpr int kSharedMost = 205 * 1024, kSharedLeast = 114 * 1024;
  static constexpr int kFit = (kSharedMost - kRoundBytes - kRedFloats * 4) / (kSlotBytes + 16);
  static constexpr int kSlots = kFit > kMostSlots ? kMostSlots : kFit;
  static constexpr int kNeeded = kSlots * (kSlotBytes + 16) + kRoundBytes + kRedFloats * 4;
  static constexpr int kSharedBytes = kNeeded > kSharedLeast ? kNeeded : kSharedLeast;
  static_assert(kSlots >= 3 && kRoundBytes % 16 == 0 && kSlotBytes % 16 == 0 && kRedFloats % 2 == 0);
};

template <class T>
using ProjectRing = Ring<ProjectShape<T>::kSlots>;

// Row groups that stay together: a gate and its rows of up.
__host__ __device__ inline int unit_groups(const DeviceProject& p) {
  return p.epilogue == DeviceEpilogue::gated ? 2 : 1;
}

// Row groups [begin, end) of this block of threads, shared out evenly.
struct GroupRange {
  int begin, end;
};
__device__ __forceinline__ GroupRange own_groups(const DeviceProject& p) {
  const int unit = unit_groups(p);
  const auto units = static_cast<unsigned>((p.order.groups + unit - 1) / unit);
  const auto from = [&](unsigned block) {
    return min(static_cast<int>(block * units / gridDim.x) * unit, p.order.groups);
  };
  return {from(blockIdx.x), from(blockIdx.x + 1)};
}

// The tiles of a block of threads in the order they are walked, as one thread asks for them: batches of row groups,
// their slices, slot by slot.
template <class T>
class TileStream {
 public:
  __device__ TileStream(const DeviceProject& p, GroupRange own, std::uint8_t* slots, ProjectRing<T> ring)
      : p_(p), own_(own), slots_(slots), ring_(ring), batch_(own.begin), group_(own.begin) {}

  __device__ bool done() const { return batch_ >= own_.end; }
  // Fills the ring's next slot as soon as it is empty.
  __device__ void fill() {
    const int end = min(batch_ + Shape::kGroups, own_.end), tiles = min(Shape::kPair, end - group_);
    ring_.acquire();
    ring_.full().expect(tiles * T::kBytes);
    for (int i = 0; i < tiles; ++i)
      copy_bulk(shared_address(slots_ + ring_.slot * Shape::kSlotBytes + i * T::kBytes),
                p_.tiles + p_.order.index(group_ + i, slice_) * T::kBytes, T::kBytes, ring_.full());
    ring_.next();
    group_ += Shape::kPair;
    if (group_ < end) return;
    group_ = batch_;
    if (++slice_ < p_.order.slices) return;
    slice_ = 0;
    group_ = batch_ = end;
  }

 private:
  using Shape = ProjectShape<T>;
  const DeviceProject& p_;
  GroupRange own_;
  std::uint8_t* slots_;
  ProjectRing<T> ring_;
  int batch_, slice_ = 0, group_;
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

// The activation of this warp's strips, kRound slices at a time: in registers as it comes, four columns in each of a
// lane's four places, then as operands in shared memory. Every warp reads what it stored alone.
template <class T>
class Activations {
 public:
  using Parts = typename Strip<T>::Parts;

  __device__ Activations(const DeviceProject& p, std::uint8_t* all)
      : p_(p), own_(all + warp() * kRound * Parts::kStoredBytes) {}

  __device__ const std::uint8_t* strip(int slice) const { return own_ + slice % kRound * Parts::kStoredBytes; }

  // What does not depend on the kernel before this one: brings the norm's weights close.
  __device__ void fetch_weights() {
    if (p_.norm.weight == nullptr) return;
    for (int round = 0; round * kRound < p_.order.slices; ++round)
      each(round, [&](int, int column) {
        float4 w;
        if (column < p_.columns)
          asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"
                       : "=f"(w.x), "=f"(w.y), "=f"(w.z), "=f"(w.w)
                       : "l"(p_.norm.weight + column));
      });
  }
  // After that kernel: the factor of the AddNorm's norm.
  __device__ void begin() {
    if (p_.add_y == nullptr) return;
    __shared__ float scratch[kTileStrips];
    float squares = 0;
    for (int round = 0; round * kRound < p_.order.slices; ++round)
      each(round, [&](int, int column) { squares = squared(cached(p_.add_y, column), squares); });
    const float sum = sum_over_consumers(squares, scratch);
    add_factor_ = p_.add_norm.scale * rsqrtf(sum / static_cast<float>(p_.columns) + p_.add_norm.eps);
  }
  __device__ void load(int round) {
    if (p_.add_y == nullptr) return each(round, [&](int i, int column) { x_[i] = cached(p_.in, column); });
    each(round, [&](int i, int column) {
      const float4 x = cached(p_.add_x, column), y = cached(p_.add_y, column), w = at(p_.add_norm.weight, column);
      x_[i] = {x.x + y.x * add_factor_ * w.x, x.y + y.y * add_factor_ * w.y, x.z + y.z * add_factor_ * w.z,
               x.w + y.w * add_factor_ * w.w};
      if (blockIdx.x == 0 && column < p_.columns) *reinterpret_cast<float4*>(p_.add_out + column) = x_[i];
    });
  }
  // Leaves the round that was loaded as operands, times the norm's weights; adds its squares to `squares`.
  __device__ void store(int round, float& squares) {
    each(round, [&](int i, int column) {
      squares = squared(x_[i], squares);
      if (p_.norm.weight != nullptr) {
        const float4 w = at(p_.norm.weight, column);
        x_[i] = {x_[i].x * w.x, x_[i].y * w.y, x_[i].z * w.z, x_[i].w * w.w};
      }
      put(place(i) / kQuads, place(i) % kQuads, x_[i]);
    });
    __syncwarp();
  }

 private:
  static constexpr int kRound = ProjectShape<T>::kRound;
  static constexpr int kQuads = T::kStripColumns / 4;  // lanes that hold a strip
  static constexpr int kPlaces = kRound * kQuads / 32;
  static_assert(32 % kQuads == 0);

  static __device__ int warp() { return static_cast<int>(threadIdx.x / 32); }
  static __device__ int place(int i) { return static_cast<int>(threadIdx.x % 32) + 32 * i; }
  static __device__ float squared(const float4& x, float sum) {
    return fmaf(x.x, x.x, fmaf(x.y, x.y, fmaf(x.z, x.z, fmaf(x.w, x.w, sum))));
  }
  __device__ float4 at(const float* x, int column) const {
    return column < p_.columns ? __ldg(reinterpret_cast<const float4*>(x + column)) : float4{0, 0, 0, 0};
  }
  __device__ float4 cached(const float* x, int column) const {
    return column < p_.columns ? __ldcg(reinterpret_cast<const float4*>(x + column)) : float4{0, 0, 0, 0};
  }
  template <class F>
  __device__ void each(int round, F f) {
#pragma unroll
    for (int i = 0; i < kPlaces; ++i)
      f(i, (round * kRound + place(i) / kQuads) * T::kColumns + warp() * T::kStripColumns + place(i) % kQuads * 4);
  }
  // Four columns of a strip; all lanes that hold it take part.
  __device__ void put(int slice, int quad, float4 x) const {
    std::uint8_t* to = own_ + slice * Parts::kStoredBytes;
    if constexpr (Parts::kScaled) {
      std::uint32_t largest = max(max(StripScale::magnitude(x.x), StripScale::magnitude(x.y)),
                                  max(StripScale::magnitude(x.z), StripScale::magnitude(x.w)));
#pragma unroll
      for (int step = 1; step < kQuads; step *= 2) largest = max(largest, __shfl_xor_sync(~0u, largest, step));
      const StripScale scale(largest);
      x = {x.x * scale.factor, x.y * scale.factor, x.z * scale.factor, x.w * scale.factor};
      if (quad == 0) Parts::store_inverse(to, scale.inverse);
      if constexpr (Parts::kSumBlocks > 0) {
        float sum = (x.x + x.y) + (x.z + x.w);
#pragma unroll
        for (int step = 1; step < 8; step *= 2) sum += __shfl_xor_sync(~0u, sum, step);
        if (quad % 8 == 0) Parts::store_sum(to, quad / 8, sum);
      }
    }
    Parts::store(to, 4 * quad, float2{x.x, x.y});
    Parts::store(to, 4 * quad + 2, float2{x.z, x.w});
  }

  const DeviceProject& p_;
  std::uint8_t* own_;
  float add_factor_ = 0;
  float4 x_[kPlaces];
};

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

// Tiles in the order of the ring, as the registers of one warp.
template <class T>
struct TileReader {
  using Shape = ProjectShape<T>;
  const std::uint8_t* slots;
  ProjectRing<T> ring;

  // Those of row groups `group` and behind, of `count` walked together.
  __device__ __forceinline__ void read(Strip<T> (&to)[Shape::kTogether], int group, int count) {
#pragma unroll
    for (int i = 0; i < Shape::kTogether; ++i)
      if (group + i < count) read(to[i], group + i, group + i + 1 == count);
  }

 private:
  __device__ __forceinline__ void read(Strip<T>& to, int group, bool last) {
    const int place = group % Shape::kPair;
    if (place == 0) ring.wait();
    to.template read<Shared>(slots + ring.slot * Shape::kSlotBytes + place * T::kBytes,
                             static_cast<int>(threadIdx.x / 32));
    if (place + 1 < Shape::kPair && !last) return;
    __syncwarp();
    if (threadIdx.x % 32 == 0) ring.empty().arrive();
    ring.next();
  }
};

template <class T>
__device__ __forceinline__ void consume(const DeviceProject& p, GroupRange own, const std::uint8_t* slots,
                                        ProjectRing<T> ring, std::uint8_t* activations, float* red) {
  using Shape = ProjectShape<T>;
  constexpr int kGroups = Shape::kGroups, kTogether = Shape::kTogether, kRows = kGroups * kTileRows;
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int slices = p.order.slices, rounds = (slices + Shape::kRound - 1) / Shape::kRound;
  Activations<T> x(p, activations);
  x.fetch_weights();
  wait_for_previous_kernel();
  x.begin();
  x.load(0);
  TileReader<T> tiles{slots, ring};
  float squares = 0, factor = 1;
  for (int first = own.begin; first < own.end; first += kGroups) {
    const int count = min(kGroups, own.end - first);
    float acc[kGroups][4] = {};
    Strip<T> now[kTogether];
    tiles.read(now, 0, count);
    for (int round = 0; round < rounds; ++round) {
      float more = 0;
      if (rounds > 1 || first == own.begin) x.store(round, more);
      if (first == own.begin) squares += more;
      const bool last = round + 1 == rounds;
      if (rounds > 1 && !(last && first + kGroups >= own.end)) x.load(last ? 0 : round + 1);
      for (int slice = round * Shape::kRound; slice < min(slices, (round + 1) * Shape::kRound); ++slice) {
        typename Strip<T>::Parts parts;
        parts.read(x.strip(slice));
#pragma unroll
        for (int step = 0; step < kGroups / kTogether; ++step) {
          const int g = step * kTogether;
          if (kTogether > 1 && g >= count) break;
          if (g < count) {
            Strip<T> next[kTogether];
            if (g + kTogether < count)
              tiles.read(next, g + kTogether, count);
            else if (slice + 1 < slices)
              tiles.read(next, 0, count);
#pragma unroll
            for (int i = 0; i < kTogether; ++i) {
              if (g + i < count) now[i].accumulate(acc[g + i], parts);
              now[i] = next[i];
            }
          }
        }
      }
      __syncwarp();
    }
    if (p.norm.weight != nullptr && first == own.begin) {
      squares = sum_over_consumers(squares, red + kTileStrips * kRows);
      factor = p.norm.scale * rsqrtf(squares / static_cast<float>(p.columns) + p.norm.eps);
    }
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (g >= count) break;
      const float2 sums = row_sums(acc[g]);
      if (lane % 4 != 0) continue;
      red[warp * kRows + g * kTileRows + lane / 4] = sums.x;
      red[warp * kRows + g * kTileRows + 8 + lane / 4] = sums.y;
    }
    asm volatile("bar.sync 1, %0;" ::"n"(Shape::kConsumers) : "memory");
    finish_rows<T>(p, first, count, red, factor);
    if (first + kGroups < own.end) asm volatile("bar.sync 1, %0;" ::"n"(Shape::kConsumers) : "memory");
  }
  if (p.epilogue == DeviceEpilogue::append) finish_append<T>(p, own, *p.position);
}

template <class T>
__global__ void __launch_bounds__(ProjectShape<T>::kThreads, 1)
    project_kernel(const __grid_constant__ DeviceProject p) {
  using Shape = ProjectShape<T>;
  extern __shared__ __align__(128) std::uint8_t memory[];
  let_next_kernel_start();
  std::uint8_t* activations = memory + Shape::kSlots * Shape::kSlotBytes;
  float* red = reinterpret_cast<float*>(activations + Shape::kRoundBytes);
  const ProjectRing<T> ring{shared_address(red + Shape::kRedFloats)};
  const GroupRange own = own_groups(p);
  if (threadIdx.x == Shape::kConsumers) ring.init(kTileStrips);
  __syncthreads();
  if (threadIdx.x < Shape::kConsumers) {
    consume<T>(p, own, memory, ring, activations, red);
  } else if (threadIdx.x == Shape::kConsumers) {
    for (TileStream<T> stream(p, own, memory, ring); !stream.done();) stream.fill();
  }
}

template <class T>
cudaError_t launch_project(const DeviceProject& p, int multiprocessors, bool programmatic, cudaStream_t stream) {
  using Shape = ProjectShape<T>;
  const int unit = unit_groups(p), units = (p.order.groups + unit - 1) / unit;
  const Launch how{dim3(static_cast<unsigned>(std::min(units, multiprocessors))), Shape::kThreads, Shape::kSharedBytes,
                   programmatic};
  return launch(project_kernel<T>, how, stream, p);
}

}  // namespace fourfold::cuda::sm90
