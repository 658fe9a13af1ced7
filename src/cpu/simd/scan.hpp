// Maps of layers with running states: Mamba-1's channels, convolutions, gates. Scans of heads: scan_steps.hpp and
// scan_chunk.hpp.
#pragma once

#include "cpu/simd/exp.hpp"
#include "cpu/simd/kernels.hpp"

namespace fourfold::simd {
namespace {

// One channel of Mamba-1, lanes are keys: s <- e^(d A) s + d v k, out = sum of q s.
template <class V>
float scan_channel(float* state, const float* rate, const float* k, const float* q, float d, float v, int keys) {
  const auto step = V::set(d), in = V::set(d * v);
  const auto lanes = [&](auto s, auto a, auto key) { return V::fma(in, key, V::mul(exp<V>(V::mul(step, a)), s)); };
  auto sum = V::zero();
  int i = 0;
  for (; i + 16 <= keys; i += 16) {
    const auto s = lanes(V::load(state + i), V::load(rate + i), V::load(k + i));
    V::store(state + i, s);
    sum = V::fma(V::load(q + i), s, sum);
  }
  if (i < keys) {
    float row[4][16] = {};
    const auto rest = static_cast<std::size_t>(keys - i) * sizeof(float);
    __builtin_memcpy(row[0], state + i, rest);
    __builtin_memcpy(row[1], rate + i, rest);
    __builtin_memcpy(row[2], k + i, rest);
    __builtin_memcpy(row[3], q + i, rest);
    const auto s = lanes(V::load(row[0]), V::load(row[1]), V::load(row[2]));
    sum = V::fma(V::load(row[3]), s, sum);
    V::store(row[0], s);
    __builtin_memcpy(state + i, row[0], rest);
  }
  return V::sum(sum);
}

// sum[c] <- sum[c] + weight[c] x[c]
template <class V>
void multiply_add(const float* weight, const float* x, int n, float* sum) {
  int i = 0;
  for (; i + 16 <= n; i += 16) V::store(sum + i, V::fma(V::load(weight + i), V::load(x + i), V::load(sum + i)));
  for (; i < n; ++i) sum[i] = __builtin_fmaf(weight[i], x[i], sum[i]);
}

// x * sigmoid(gate), x and gate may be the same row.
template <class V>
void sigmoid_gate(const float* gate, const float* x, int n, float* out) {
  map_rows<V>(gate, x, n, out, [](auto g, auto v) { return times_sigmoid<V>(v, g); });
}

}  // namespace
}  // namespace fourfold::simd
