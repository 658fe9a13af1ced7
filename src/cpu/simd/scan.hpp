// Layers with running states: Mamba-1's channels; maps of convolutions, step sizes, decays and gates. Scans of heads:
// scan_steps.hpp and scan_chunk.hpp.
#pragma once

#include <fourfold/scan_kernel.hpp>

#include "cpu/simd/kernels.hpp"
#include "cpu/simd/map.hpp"

namespace fourfold::simd {
namespace {

// The channels [first, first + 16) through all tokens; kWhole: there are as many. state and rate: theirs, of the first
// key; rows are a stride apart.
template <class V, bool kWhole>
void scan_lanes(const ChannelRun& run, int first, float* state, std::int64_t state_stride, const float* rate,
                std::int64_t rate_stride) {
  const int count = run.channels - first;
  const auto load = [count](const float* p) __attribute__((always_inline)) {
    return kWhole ? V::load(p) : load_some<V>(p, count);
  };
  for (int t = 0; t < run.count; ++t) {
    const ChannelToken& token = run.tokens[t];
    const auto d = load(token.d + first), in = V::mul(d, load(token.v + first));
    auto out = V::zero();
    for (int i = 0; i < run.keys; ++i) {
      float* const s = state + i * state_stride;
      const auto left = V::mul(exp<V>(V::mul(d, load(rate + i * rate_stride))), load(s));
      const auto now = V::fma(in, V::set(token.k[i]), left);
      kWhole ? V::store(s, now) : store_some<V>(s, count, now);
      out = V::fma(V::set(token.q[i]), now, out);
    }
    kWhole ? V::store(token.out + first, out) : store_some<V>(token.out + first, count, out);
  }
}

// Several tokens work on copies whose rows lie together: rows of all channels are often a power of two apart, where an
// L1 holds a dozen of them.
template <class V>
void scan_channels(const ChannelRun& run) {
  constexpr int kMost = 64;
  alignas(64) float state[kMost * 16], rate[kMost * 16];
  const bool copied = run.count > 1 && run.keys <= kMost;
  for (int first = 0; first < run.channels; first += 16) {
    float* const own = run.state + first;
    const float* const rates = run.rate + first;
    const auto lanes = first + 16 <= run.channels ? scan_lanes<V, true> : scan_lanes<V, false>;
    if (!copied) {
      lanes(run, first, own, run.state_stride, rates, run.rate_stride);
      continue;
    }
    const auto bytes = static_cast<std::size_t>(run.channels - first < 16 ? run.channels - first : 16) * sizeof(float);
    for (int i = 0; i < run.keys; ++i) {
      __builtin_memcpy(state + 16 * i, own + i * run.state_stride, bytes);
      __builtin_memcpy(rate + 16 * i, rates + i * run.rate_stride, bytes);
    }
    lanes(run, first, state, 16, rate, 16);
    for (int i = 0; i < run.keys; ++i) __builtin_memcpy(own + i * run.state_stride, state + 16 * i, bytes);
  }
}

template <class V>
void step_sizes(const float* x, float low, float high, int n, float* out) {
  const auto least = V::set(low), most = V::set(high);
  map_rows<V>(x, x, n, out, [=](auto v, auto) { return V::min(most, V::max(least, softplus<V>(v))); });
}
template <class V>
void exps(const float* x, float factor, int n, float* out) {
  const auto f = V::set(factor);
  map_rows<V>(x, x, n, out, [=](auto v, auto) { return exp<V>(V::mul(f, v)); });
}
template <class V>
void sigmoids(const float* x, float factor, int n, float* out) {
  const auto f = V::set(factor);
  map_rows<V>(x, x, n, out, [=](auto v, auto) { return times_sigmoid<V>(V::set(1), V::mul(f, v)); });
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
