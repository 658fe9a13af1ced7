// Scans token by token: a strip of the state's columns stays in L1 while its tokens pass.
//
// K key dim, V value dim; the state is [K, V], lanes are columns. Per token and column, in the order of the keys:
//   S_i <- a_i S_i, found = sum k_i S_i;   z = b (v - found);   S_i <- S_i + k_i z, out = sum q_i S_i
// Prefill: fma units and L1 bind. Decode: each element of the state is read and written once: memory binds.
#pragma once

#include "cpu/simd/exp.hpp"
#include "cpu/simd/kernels.hpp"

namespace fourfold::simd {
namespace {

// N vectors of columns from `column` on. `state` rows are `stride` floats apart; v and out likewise.
template <class V, int N, bool kDelta, bool kPerKey>
FOURFOLD_INLINE void scan_strip(const ScanArgs& args, float* state, std::size_t stride, const float* v,
                                std::size_t v_stride, float* out, std::size_t out_stride) {
  typename V::F z[N], sum[N];
  for (int t = 0; t < args.tokens; ++t) {
    const float* k = args.k + static_cast<std::ptrdiff_t>(t) * args.keys;
    const float* q = args.q + static_cast<std::ptrdiff_t>(t) * args.keys;
    const float* decay = args.decay + static_cast<std::ptrdiff_t>(t) * (kPerKey ? args.keys : 1);
    FOURFOLD_UNROLL for (int n = 0; n < N; ++n) {
      z[n] = V::load(v + static_cast<std::size_t>(t) * v_stride + 16 * n);
      sum[n] = V::zero();
    }
    if constexpr (kDelta) {
      for (int i = 0; i < args.keys; ++i) {
        const auto ki = V::set(k[i] * decay[kPerKey ? i : 0]);
        const float* row = state + static_cast<std::size_t>(i) * stride;
        FOURFOLD_UNROLL for (int n = 0; n < N; ++n) sum[n] = V::fma(ki, V::load(row + 16 * n), sum[n]);
      }
      FOURFOLD_UNROLL for (int n = 0; n < N; ++n) z[n] = V::sub(z[n], sum[n]);
    }
    const auto b = V::set(args.b[t]);
    FOURFOLD_UNROLL for (int n = 0; n < N; ++n) {
      z[n] = V::mul(b, z[n]);
      sum[n] = V::zero();
    }
    for (int i = 0; i < args.keys; ++i) {
      const auto a = V::set(decay[kPerKey ? i : 0]), ki = V::set(k[i]), qi = V::set(q[i]);
      float* row = state + static_cast<std::size_t>(i) * stride;
      FOURFOLD_UNROLL for (int n = 0; n < N; ++n) {
        const auto s = V::fma(ki, z[n], V::mul(a, V::load(row + 16 * n)));
        V::store(row + 16 * n, s);
        sum[n] = V::fma(qi, s, sum[n]);
      }
    }
    FOURFOLD_UNROLL for (int n = 0; n < N; ++n)
        V::store(out + static_cast<std::size_t>(t) * out_stride + 16 * n, sum[n]);
  }
}

// The last V % 16 columns, through padded copies.
template <class V, bool kDelta, bool kPerKey>
void scan_rest(const ScanArgs& args, int column) {
  const auto bytes = static_cast<std::size_t>(args.values - column) * sizeof(float);
  const auto values = static_cast<std::size_t>(args.values);
  alignas(64) float state[kMaxHeadDim * 16] = {}, v[kScanTokens * 16] = {}, out[kScanTokens * 16];
  for (int i = 0; i < args.keys; ++i)
    __builtin_memcpy(state + 16 * i, args.state + static_cast<std::size_t>(i) * values + column, bytes);
  for (int t = 0; t < args.tokens; ++t)
    __builtin_memcpy(v + 16 * t, args.v + static_cast<std::size_t>(t) * values + column, bytes);
  scan_strip<V, 1, kDelta, kPerKey>(args, state, 16, v, 16, out, 16);
  for (int i = 0; i < args.keys; ++i)
    __builtin_memcpy(args.state + static_cast<std::size_t>(i) * values + column, state + 16 * i, bytes);
  for (int t = 0; t < args.tokens; ++t)
    __builtin_memcpy(args.out + static_cast<std::size_t>(t) * args.out_stride + column, out + 16 * t, bytes);
}

template <class V, bool kDelta, bool kPerKey>
void scan_head(const ScanArgs& args) {
  const auto values = static_cast<std::size_t>(args.values);
  int column = 0;
  for (; column + 32 <= args.values; column += 32)
    scan_strip<V, 2, kDelta, kPerKey>(args, args.state + column, values, args.v + column, values, args.out + column,
                                      args.out_stride);
  for (; column + 16 <= args.values; column += 16)
    scan_strip<V, 1, kDelta, kPerKey>(args, args.state + column, values, args.v + column, values, args.out + column,
                                      args.out_stride);
  if (column < args.values) scan_rest<V, kDelta, kPerKey>(args, column);
}

template <class V>
void scan(const ScanArgs& args) {
  if (args.delta)
    args.decay_per_key ? scan_head<V, true, true>(args) : scan_head<V, true, false>(args);
  else
    args.decay_per_key ? scan_head<V, false, true>(args) : scan_head<V, false, false>(args);
}

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
