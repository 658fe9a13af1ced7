// Maps on rows: one pass, memory or L1 binds. Sizes are any n >= 0; the last n % 16 elements go through a padded
// vector.
#pragma once

#include "cpu/simd/exp.hpp"

namespace fourfold::simd {
namespace {

// The first `count` lanes of a row, all 16 if there are more; the others are 0, and stay as they are in memory.
template <class V>
FOURFOLD_INLINE typename V::F load_some(const float* p, int count) {
  if (count >= 16) return V::load(p);
  float lanes[16] = {};
  if (count > 0) __builtin_memcpy(lanes, p, static_cast<std::size_t>(count) * sizeof(float));
  return V::load(lanes);
}
template <class V>
FOURFOLD_INLINE void store_some(float* p, int count, typename V::F x) {
  if (count >= 16) return V::store(p, x);
  float lanes[16];
  V::store(lanes, x);
  if (count > 0) __builtin_memcpy(p, lanes, static_cast<std::size_t>(count) * sizeof(float));
}

// out[i] = f(i-th lanes of a and b); b may equal a. Elements beyond n are never read or written.
template <class V, class Function>
FOURFOLD_INLINE void map_rows(const float* a, const float* b, int n, float* out, Function f) {
  int i = 0;
  for (; i + 16 <= n; i += 16) V::store(out + i, f(V::load(a + i), V::load(b + i)));
  if (i == n) return;
  float left[16] = {}, right[16] = {}, result[16];
  const auto rest = static_cast<std::size_t>(n - i) * sizeof(float);
  __builtin_memcpy(left, a + i, rest);
  __builtin_memcpy(right, b + i, rest);
  V::store(result, f(V::load(left), V::load(right)));
  __builtin_memcpy(out + i, result, rest);
}

template <class V>
float sum_squares(const float* x, int n) {
  float total = 0;
  for (int begin = 0; begin < n; begin += 256) {
    const int end = n - begin < 256 ? n : begin + 256;
    auto acc = V::zero();
    int i = begin;
    for (; i + 16 <= end; i += 16) {
      const auto v = V::load(x + i);
      acc = V::fma(v, v, acc);
    }
    if (i < end) {
      float lanes[16] = {};
      __builtin_memcpy(lanes, x + i, static_cast<std::size_t>(end - i) * sizeof(float));
      const auto v = V::load(lanes);
      acc = V::fma(v, v, acc);
    }
    total += V::sum(acc);
  }
  return total;
}

template <class V>
void norm(const float* x, const float* weight, float scale, int n, float* out) {
  const auto s = V::set(scale);
  map_rows<V>(x, weight, n, out, [=](auto v, auto w) { return V::mul(V::mul(v, s), w); });
}

template <class V>
void scale(float* x, float factor, int n) {
  const auto f = V::set(factor);
  map_rows<V>(x, x, n, x, [=](auto v, auto) { return V::mul(v, f); });
}

template <class V>
void add(const float* a, const float* b, int n, float* out) {
  map_rows<V>(a, b, n, out, [](auto v, auto w) { return V::add(v, w); });
}

template <class V>
FOURFOLD_INLINE typename V::F capped(typename V::F x, typename V::F cap) {
  return V::mul(cap, tanh<V>(V::div(x, cap)));
}

template <class V>
void soft_cap(float* x, float cap, int n) {
  const auto c = V::set(cap);
  map_rows<V>(x, x, n, x, [=](auto v, auto) { return capped<V>(v, c); });
}

// x * sigmoid(y)
template <class V>
FOURFOLD_INLINE typename V::F times_sigmoid(typename V::F x, typename V::F y) {
  return V::div(x, V::add(V::set(1.0f), exp<V>(V::sub(V::zero(), y))));
}

template <class V>
void silu_gate(const float* gate, const float* up, int n, float* out) {
  map_rows<V>(gate, up, n, out, [](auto g, auto u) { return V::mul(times_sigmoid<V>(g, g), u); });
}

// gelu(x) = x / 2 (1 + tanh z) = x sigmoid(2 z), z = sqrt(2 / pi) (x + 0.044715 x^3)
template <class V>
void gelu_gate(const float* gate, const float* up, int n, float* out) {
  map_rows<V>(gate, up, n, out, [](auto g, auto u) {
    const auto cubic = V::fma(V::mul(V::mul(g, g), g), V::set(0.044715f), g);
    return V::mul(times_sigmoid<V>(g, V::mul(cubic, V::set(1.5957691216f))), u);
  });
}

template <class V>
void clamped_swiglu(const float* gate, const float* up, float alpha, float limit, int n, float* out) {
  const auto high = V::set(limit), low = V::set(-limit), a = V::set(alpha);
  map_rows<V>(gate, up, n, out, [=](auto g, auto u) {
    g = V::min(high, g);  // the second where one is NaN
    u = V::max(low, V::min(high, u));
    return V::mul(times_sigmoid<V>(g, V::mul(a, g)), V::add(u, V::set(1.0f)));
  });
}

template <class V>
void situ_gate(const float* gate, const float* up, float alpha, float limit, int n, float* out) {
  const auto a = V::set(alpha), l = V::set(limit);
  map_rows<V>(gate, up, n, out,
              [=](auto g, auto u) { return V::mul(times_sigmoid<V>(capped<V>(g, a), g), capped<V>(u, l)); });
}

template <class V>
void add_scaled(const float* x, float factor, int n, float* sum) {
  const auto f = V::set(factor);
  map_rows<V>(x, sum, n, sum, [=](auto v, auto s) { return V::fma(v, f, s); });
}

template <class V>
void rope(float* head, const float* cos, const float* sin, int dims, bool interleaved) {
  const auto turn = [](float& a, float& b, float c, float s) {
    const float x = a, y = b;
    a = __builtin_fmaf(x, c, -(y * s));
    b = __builtin_fmaf(y, c, x * s);
  };
  const int half = dims / 2;
  if (interleaved) {
    for (int i = 0; i < half; ++i) turn(head[2 * i], head[2 * i + 1], cos[i], sin[i]);
    return;
  }
  int i = 0;
  for (; i + 16 <= half; i += 16) {
    const auto x = V::load(head + i), y = V::load(head + half + i), c = V::load(cos + i), s = V::load(sin + i);
    V::store(head + i, V::fma(x, c, V::sub(V::zero(), V::mul(y, s))));
    V::store(head + half + i, V::fma(y, c, V::mul(x, s)));
  }
  for (; i < half; ++i) turn(head[i], head[half + i], cos[i], sin[i]);
}

// The largest value of each run of 1024 first, then its first index in the best run. max(candidate, best) drops NaN.
template <class V>
int argmax(const float* x, int n) {
  float top = -__builtin_inff();
  int run = 0;
  for (int begin = 0; begin < n; begin += 1024) {
    const int end = n - begin < 1024 ? n : begin + 1024;
    auto best = V::set(-__builtin_inff());
    int i = begin;
    for (; i + 16 <= end; i += 16) best = V::max(V::load(x + i), best);
    float largest = V::maximum(best);
    for (; i < end; ++i) largest = x[i] > largest ? x[i] : largest;
    if (largest > top) {
      top = largest;
      run = begin;
    }
  }
  for (int i = run; i < n; ++i)
    if (x[i] == top) return i;
  return 0;  // all NaN
}

}  // namespace
}  // namespace fourfold::simd
