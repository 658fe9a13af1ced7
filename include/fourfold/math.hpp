// The functions scores, monoids and epilogues use, for float and double, on host and device.
//
// In float, exp, exp2 and tanh are short polynomials without branches, so that a loop over them vectorises; within
// 2 units in the last place (tests/law). In double they are the standard library's. Only this header asks for the
// device.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace fourfold {

template <class T>
inline constexpr T kInfinity = std::numeric_limits<T>::infinity();
template <class T>
inline constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();

// The larger of two numbers; NaN if either is.
template <class T>
constexpr T larger(T a, T b) {
  return a != a || a > b ? a : b;
}

namespace polynomial {

inline constexpr float kNearest = 12582912.f;  // 1.5 x 2^23: adding it to |x| < 2^22 rounds x to an integer

// e^r for |r| <= ln(2) / 2 (Chebyshev interpolation of the remainder; relative error 1e-8 before rounding).
constexpr float exp_near_zero(float r) {
  const float p = 0.5f + r * (0.16666577f + r * (0.041666555f + r * (0.0083631791f + r * 0.0013926184f)));
  return 1.f + (r + r * r * p);
}

// p x 2^n, in two factors so that each stays a normal number for -252 <= n <= 254.
constexpr float times_power_of_two(float p, std::uint32_t n) {
  const std::uint32_t half = static_cast<std::uint32_t>(static_cast<std::int32_t>(n) >> 1);
  return p * std::bit_cast<float>((half + 127) << 23) * std::bit_cast<float>((n - half + 127) << 23);
}

constexpr float exp(float x) {
  const float bounded = x < -104.f ? -104.f : x > 89.f ? 89.f : x;  // beyond: 0 and infinity
  const float shifted = bounded * 1.44269504f + kNearest;
  const float n = shifted - kNearest;
  const float r = (bounded - n * 0.693145752f) - n * 1.42860677e-6f;  // ln 2, its high part exact in n's range
  return times_power_of_two(exp_near_zero(r), std::bit_cast<std::uint32_t>(shifted) - 0x4b400000u);
}

constexpr float exp2(float x) {
  const float bounded = x < -151.f ? -151.f : x > 129.f ? 129.f : x;
  const float shifted = bounded + kNearest;
  const float r = (bounded - (shifted - kNearest)) * 0.693147181f;
  return times_power_of_two(exp_near_zero(r), std::bit_cast<std::uint32_t>(shifted) - 0x4b400000u);
}

constexpr float tanh(float x) {
  const float size = x < 0 ? -x : x, u = x * x;
  const float p = -0.33333328f + u * (0.133327697f + u * (-0.05385091f + u * (0.020997177f - u * 0.0060967147f)));
  const float t = exp(-2.f * size), far = (1.f - t) / (1.f + t);
  return size < 0.625f ? x * (1.f + u * p) : x < 0 ? -far : far;  // 1 - t cancels near 0
}

}  // namespace polynomial

template <class T>
constexpr T exp(T x) {
#ifdef __CUDA_ARCH__
  return ::exp(x);
#else
  if constexpr (std::is_same_v<T, float>) {
    return polynomial::exp(x);
  } else {
    return std::exp(x);
  }
#endif
}

template <class T>
constexpr T exp2(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return polynomial::exp2(x);
  } else {
    return std::exp2(x);
  }
}

template <class T>
constexpr T tanh(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return polynomial::tanh(x);
  } else {
    return std::tanh(x);
  }
}

template <class T>
constexpr T log(T x) {
  return std::log(x);
}
template <class T>
constexpr T sqrt(T x) {
  return std::sqrt(x);
}
template <class T>
constexpr T rsqrt(T x) {
  return T(1) / std::sqrt(x);
}
template <class T>
constexpr T sin(T x) {
  return std::sin(x);
}
template <class T>
constexpr T cos(T x) {
  return std::cos(x);
}
template <class T>
constexpr T pow(T x, T y) {
  return std::pow(x, y);
}

// 1 / (1 + e^-x)
template <class T>
constexpr T sigmoid(T x) {
  return T(1) / (T(1) + fourfold::exp(-x));
}

// e^(x - reference); 1 where both are the same infinity, so that an empty or saturated state stays a number.
template <class T>
constexpr T rescale(T x, T reference) {
  return x == reference ? T(1) : fourfold::exp(x - reference);
}

// Sum of a[i] b[i] in 16 interleaved chains, halves added to halves.
template <class T>
constexpr T dot(const T* a, const T* b, int n) {
  T lane[16]{};
  int i = 0;
  for (; i + 16 <= n; i += 16)
    for (int j = 0; j < 16; ++j) lane[j] += a[i + j] * b[i + j];
  for (int j = 0; i + j < n; ++j) lane[j] += a[i + j] * b[i + j];
  for (int half = 8; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) lane[j] += lane[j + half];
  return lane[0];
}

}  // namespace fourfold
