// Weights of any storage as bf16 tiles, for products of many tokens: bound by memory, some four instructions a weight.
//
// A warp takes a strip of a tile as its decode does; both orders hold an element of a 16 x 16 piece in the same lane.
#pragma once

#include "cuda/sm90/async.cuh"
#include "cuda/sm90/matrix.cuh"
#include "cuda/sm90/tile.cuh"

namespace fourfold::cuda::sm90 {

// What the operands of a piece are multiplied with, in rows g (x) and g + 8 (y).
template <class T>
__device__ __forceinline__ float2 scales_of(const Strip<T>& strip, int step) {
  if constexpr (T::kStorage == Storage::f16) return {1, 1};
  if constexpr (T::kStorage == Storage::fp8) return {strip.scale, strip.scale};
  if constexpr (T::kStorage == Storage::int4) return strip.scale;
  if constexpr (T::kStorage == Storage::nvfp4) return {128, 128};
  if constexpr (requires { strip.scales(0); }) return strip.scales(T::kStorage == Storage::q6_k ? step : step / 2);
}

// The eight weights of this lane's pairs in piece `step`: to the bit what T::value says.
template <class T>
__device__ __forceinline__ void weights_of(const Strip<T>& strip, int step, float (&w)[8]) {
  if constexpr (T::kStorage == Storage::f32) {
#pragma unroll
    for (int i = 0; i < 8; ++i) w[i] = __uint_as_float(strip.word(step * 8 + i));
  } else if constexpr (T::kStorage == Storage::bf16) {
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      const float2 two = Bf16::unpack(strip.word(step * 4 + pair));
      w[2 * pair] = two.x, w[2 * pair + 1] = two.y;
    }
  } else {
    std::uint32_t codes[4];
    strip.operands(step, codes);
    const float2 scale = scales_of<T>(strip, step);
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      // Codes of mxfp4 are 2^-14 of their value.
      const float2 two = F16::unpack(T::kStorage == Storage::mxfp4 ? mul2(codes[pair], twice(16384)) : codes[pair]);
      const float own = pair % 2 == 0 ? scale.x : scale.y;
      w[2 * pair] = __fmul_rn(own, two.x), w[2 * pair + 1] = __fmul_rn(own, two.y);
      if constexpr (requires { strip.minima(0); }) {
        const float2 minima = strip.minima(step / 2);
        const float minimum = pair % 2 == 0 ? minima.x : minima.y;
        w[2 * pair] = __fadd_rn(w[2 * pair], minimum), w[2 * pair + 1] = __fadd_rn(w[2 * pair + 1], minimum);
      }
    }
  }
}

// One block of threads unpacks a tile, a warp a strip.
template <class T>
__global__ void __launch_bounds__(kTileStrips* kLanes)
    unpack_kernel(const std::uint8_t* from, TileOrder order, std::uint8_t* to, TileOrder to_order) {
  using To = Tile<Storage::bf16>;
  const int group = static_cast<int>(blockIdx.y), slice = static_cast<int>(blockIdx.x);
  const int lane = static_cast<int>(threadIdx.x) % kLanes, number = static_cast<int>(threadIdx.x) / kLanes;
  Strip<T> strip;
  strip.template read<Global>(from + order.index(group, slice) * T::kBytes, number);
  wait_for_previous_kernel();  // whose product may still read `to`
  let_next_kernel_start();
#pragma unroll
  for (int step = 0; step < T::kSteps; ++step) {
    const int column = slice * T::kColumns + number * T::kStripColumns + step * 16;
    if (column >= to_order.slices * To::kColumns) return;
    float w[8];
    weights_of<T>(strip, step, w);
    const int to_strip = column % To::kColumns / To::kStripColumns, to_step = column % To::kStripColumns / 16;
    std::uint8_t* at = to + to_order.index(group, column / To::kColumns) * To::kBytes +
                       To::Low::word_place(to_strip, to_step * 4, lane);
    *reinterpret_cast<uint4*>(at) = {Bf16::pack(w[0], w[1]), Bf16::pack(w[2], w[3]), Bf16::pack(w[4], w[5]),
                                     Bf16::pack(w[6], w[7])};
  }
}

}  // namespace fourfold::cuda::sm90
