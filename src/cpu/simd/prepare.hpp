// Activations for the dots: x times an optional norm weight, as floats, bf16, or 15-bit blocks of 32.
#pragma once

#include "cpu/simd/inline.hpp"
#include "cpu/simd/kernels.hpp"

namespace fourfold::simd {
namespace {

template <class V>
FOURFOLD_INLINE typename V::F weighted(const float* x, const float* weight, int i) {
  const auto v = V::load(x + i);
  return weight ? V::mul(v, V::load(weight + i)) : v;
}

// The last k % 16 elements, zero padded.
template <class V>
FOURFOLD_INLINE typename V::F weighted_tail(const float* x, const float* weight, int i, int k) {
  float lanes[16] = {};
  for (int j = i; j < k; ++j) lanes[j - i] = weight ? x[j] * weight[j] : x[j];
  return V::load(lanes);
}

template <class V>
void prepare_f32(const float* x, const float* weight, int k, void* out) {
  auto* y = static_cast<float*>(out);
  int i = 0;
  for (; i + 16 <= k; i += 16) V::store(y + i, weighted<V>(x, weight, i));
  for (; i < k; ++i) y[i] = weight ? x[i] * weight[i] : x[i];
}

template <class V>
void prepare_bf16(const float* x, const float* weight, int k, void* out) {
  auto* y = static_cast<std::uint8_t*>(out);
  int i = 0;
  for (; i + 16 <= k; i += 16) V::store_bf16(y + 2 * i, weighted<V>(x, weight, i));
  if (i == k) return;
  std::uint8_t lanes[32];
  V::store_bf16(lanes, weighted_tail<V>(x, weight, i, k));
  __builtin_memcpy(y + 2 * i, lanes, static_cast<std::size_t>(2 * ((k - i + 1) / 2 * 2)));
}

// v = x * 16256 / max |x|, nearest even; high = v / 128, nearest even, low = the rest. A block without a value of at
// least 1e-30 is zero; one with NaN or infinity gives NaN or infinity through its scale.
template <class V>
FOURFOLD_INLINE void quantise(typename V::F first, typename V::F second, QuantBlock& out) {
  constexpr float kLargest = 127 * 128;
  const auto magnitude = V::set_i(0x7fffffff);
  const int largest =
      V::maximum_i(V::max_i(V::and_i(V::as_int(first), magnitude), V::and_i(V::as_int(second), magnitude)));
  const float amax = __builtin_bit_cast(float, largest);  // bits of magnitudes order as their values, NaN last
  const bool zero = amax < 1e-30f;
  const auto inverse = V::set(zero ? 0.0f : kLargest / amax);
  const typename V::F halves[2] = {first, second};
  int sums[2];
  for (int h = 0; h < 2; ++h) {
    const auto v = V::round(V::mul(halves[h], inverse));
    const auto high = V::round(V::mul(v, V::set(1.0f / 128)));
    V::store_s8(out.high + 16 * h, high);
    V::store_s8(out.low + 16 * h, V::fma(high, V::set(-128.0f), v));
    const float sum = V::sum(v);  // of integers below 2^18: exact
    sums[h] = sum == sum ? static_cast<int>(sum) : 0;
  }
  out.scale = zero ? 0.0f : amax / kLargest;
  out.sum = out.scale * static_cast<float>(sums[0] + sums[1]);
  out.half[0] = -128 * sums[0];
  out.half[1] = -128 * sums[1];
  out.bias = out.half[0] + out.half[1];
}

template <class V>
void prepare_q15(const float* x, const float* weight, int k, void* out) {
  auto* block = static_cast<QuantBlock*>(out);
  for (int i = 0; i < k; i += 32, ++block)
    quantise<V>(weighted<V>(x, weight, i), weighted<V>(x, weight, i + 16), *block);
}

}  // namespace
}  // namespace fourfold::simd
