// The table of one ISA level V: every kernel instantiated. Included by one translation unit per level.
#pragma once

#include "cpu/simd/attend.hpp"
#include "cpu/simd/dot_float.hpp"
#include "cpu/simd/map.hpp"
#include "cpu/simd/prepare.hpp"
#include "cpu/simd/scan.hpp"
#include "cpu/simd/scan_chunk.hpp"

namespace fourfold::simd {
namespace {

template <class V>
consteval Kernels make_table() {
  constexpr auto q15 = Rounding::q15, f32 = Rounding::f32;
  constexpr auto bf16 = V::kBf16Dot ? Rounding::bf16 : Rounding::f32;
  constexpr auto dot_f32 = dot_float<V, F32Panel<V>, Fma<V>, 1, 64>;
  constexpr auto dot_f16 = dot_float<V, F16Panel<V>, Fma<V>, 1, 32>;
  constexpr auto dot_wide_bf16 = dot_float<V, Bf16Panel<V>, Fma<V>, 2, 64>;
  void (*dot_bf16)(const DotArgs&) = dot_wide_bf16;
  if constexpr (V::kBf16Dot) dot_bf16 = dot_float<V, RawPanel<V>, Bf16Pair<V>, 2, 64>;
  return {
      .name = V::kName,
      .rounding = {f32, f32, bf16, q15, q15, q15, q15, q15, q15, q15, q15, q15},
      .prepare = {prepare_f32<V>, prepare_bf16<V>, prepare_q15<V>},
      .dot = {dot_f32, dot_f16, dot_bf16, dot_quant<V, Q4_0Load<V>>, dot_quant<V, Q4_1Load<V>>,
              dot_quant<V, Q5_0Load<V>>, dot_quant<V, Q5_1Load<V>>, dot_quant<V, Q8_0Load<V>>,
              dot_quant<V, Q4_KLoad<V>>, dot_quant<V, Q5_KLoad<V>>, dot_quant<V, Q6_KLoad<V>>,
              dot_quant<V, MXFP4Load<V>>},
      .dot_f32 = {dot_f32, dot_f16, dot_wide_bf16, dot_decoded<V, Q4_0Load<V>>, dot_decoded<V, Q4_1Load<V>>,
                  dot_decoded<V, Q5_0Load<V>>, dot_decoded<V, Q5_1Load<V>>, dot_decoded<V, Q8_0Load<V>>,
                  dot_decoded<V, Q4_KLoad<V>>, dot_decoded<V, Q5_KLoad<V>>, dot_decoded<V, Q6_KLoad<V>>,
                  dot_decoded<V, MXFP4Load<V>>},
      .kv_append = kv_append<V>,
      .attend = attend<V>,
      .index_scores = index_scores<V>,
      .merge = merge<V>,
      .finish = finish<V>,
      .sum_squares = sum_squares<V>,
      .norm = norm<V>,
      .scale = scale<V>,
      .add = add<V>,
      .soft_cap = soft_cap<V>,
      .silu_gate = silu_gate<V>,
      .gelu_gate = gelu_gate<V>,
      .clamped_swiglu = clamped_swiglu<V>,
      .situ_gate = situ_gate<V>,
      .add_scaled = add_scaled<V>,
      .rope = rope<V>,
      .argmax = argmax<V>,
      .scan_steps = scan_steps<V>,
      .scan_chunks = scan_chunks<V>,
      .scan_channels = scan_channels<V>,
      .step_sizes = step_sizes<V>,
      .exps = exps<V>,
      .sigmoids = sigmoids<V>,
      .multiply_add = multiply_add<V>,
      .sigmoid_gate = sigmoid_gate<V>,
  };
}

}  // namespace
}  // namespace fourfold::simd
