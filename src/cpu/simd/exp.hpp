// exp, tanh and softplus on 16 lanes. 2^t = 2^n (1 + r q(r)), n = round(t), |r| <= 1/2; q is the degree-5 minimax
// polynomial (relative error of 2^r: 0.04 of a float's half ulp), so exp2 is within 1 ulp of its argument's exact
// power.
#pragma once

#include "cpu/simd/inline.hpp"

namespace fourfold::simd {
namespace {

inline constexpr float kLog2e = 0x1.715476p+0f;

// 2^r - 1 for |r| <= 1/2, with a small relative error near 0 too.
template <class V>
FOURFOLD_INLINE typename V::F exp2_minus_1(typename V::F r) {
  auto q = V::set(0x1.41fbcap-13f);
  q = V::fma(q, r, V::set(0x1.5f3e58p-10f));
  q = V::fma(q, r, V::set(0x1.3b2d4cp-7f));
  q = V::fma(q, r, V::set(0x1.c6aee8p-5f));
  q = V::fma(q, r, V::set(0x1.ebfbdcp-3f));
  q = V::fma(q, r, V::set(0x1.62e430p-1f));
  return V::mul(q, r);
}

// 2^t for t <= 126: exactly 0 below -125 (and for -inf), NaN for NaN.
template <class V>
FOURFOLD_INLINE typename V::F exp2(typename V::F t) {
  const auto low = V::set(-125.0f);
  const auto n = V::round(V::max(low, t));
  const auto p = V::add(exp2_minus_1<V>(V::sub(t, n)), V::set(1.0f));
  return V::if_less(t, low, V::zero(), V::times_pow2(p, n));
}

// e^x for any x, held to at most 2^126. The product x log2(e) is carried in two floats.
template <class V>
FOURFOLD_INLINE typename V::F exp(typename V::F x) {
  const auto t = V::min(V::set(126.0f), V::mul(x, V::set(kLog2e)));
  const auto n = V::round(V::max(V::set(-125.0f), t));
  auto r = V::fma(n, V::set(-0x1.62e400p-1f), V::min(x, V::set(87.33f)));  // ln 2 in two parts
  r = V::fma(n, V::set(-0x1.7f7d1cp-20f), r);
  const auto p = V::add(exp2_minus_1<V>(V::mul(r, V::set(kLog2e))), V::set(1.0f));
  return V::if_less(t, V::set(-125.0f), V::zero(), V::times_pow2(p, n));
}

// tanh x = e / (e + 2) with e = exp(2x) - 1: relative error a few 1e-7 everywhere. Beyond 9.02 it is 1.
template <class V>
FOURFOLD_INLINE typename V::F tanh(typename V::F x) {
  const auto limit = V::set(9.02f);
  const auto held = V::max(V::sub(V::zero(), limit), V::min(limit, x));
  const auto t = V::mul(held, V::set(2 * kLog2e));
  const auto n = V::round(t);
  const auto power = V::times_pow2(V::set(1.0f), n);
  const auto e = V::fma(exp2_minus_1<V>(V::sub(t, n)), power, V::sub(power, V::set(1.0f)));
  return V::div(e, V::add(e, V::set(2.0f)));
}

// log(1 + e^x) = max(x, 0) + log(1 + u), u = e^-|x|; the logarithm is 2 atanh z, z = u / (2 + u) <= 1/3, whose odd
// series is cut after z^15: a relative error of 2e-9.
template <class V>
FOURFOLD_INLINE typename V::F softplus(typename V::F x) {
  const auto u = exp<V>(V::min(V::sub(V::zero(), x), x));
  const auto z = V::div(u, V::add(V::set(2.0f), u)), square = V::mul(z, z);
  auto series = V::set(1.0f / 15);
  for (int n = 13; n > 0; n -= 2) series = V::fma(series, square, V::set(1.0f / static_cast<float>(n)));
  return V::fma(V::add(z, z), series, V::max(V::zero(), x));
}

}  // namespace
}  // namespace fourfold::simd
