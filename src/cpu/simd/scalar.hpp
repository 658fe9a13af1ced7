// 16 lanes as plain arrays: the same primitives for every machine, and the readable definition of what they do.
// Only scalar.cpp includes this header.
#pragma once

#include <cstdint>

#include "cpu/simd/inline.hpp"

#undef FOURFOLD_UNROLL  // lanes are loops here: unrolling only costs compile time
#define FOURFOLD_UNROLL

namespace fourfold::simd {
namespace {

struct Scalar {
  struct F {
    float v[16];
  };
  struct I {
    std::uint32_t v[16];
  };

  static constexpr const char* kName = "scalar";
  static constexpr int kRows = 1, kTokens = 2;
  static constexpr int kFloatRows = 1, kFloatTokens = 2;
  static constexpr int kQueries = 2, kColumns = 1;
  static constexpr int kScanRows = 2, kScanColumns = 1, kScanRow = 1;
  static constexpr bool kBiased = false;
  static constexpr bool kBf16Dot = false;

  template <class R = F, class Lane>
  FOURFOLD_INLINE R each(Lane lane) {
    R r;
    for (int i = 0; i < 16; ++i) r.v[i] = lane(i);
    return r;
  }

  // ---- float lanes ----
  FOURFOLD_INLINE F zero() { return set(0.0f); }
  FOURFOLD_INLINE F set(float x) {
    return each([=](int) { return x; });
  }
  FOURFOLD_INLINE F load(const float* p) { return load_as<F>(p); }
  FOURFOLD_INLINE void store(float* p, const F& x) { store_as(p, x); }
  FOURFOLD_INLINE F fma(const F& a, const F& b, const F& c) {
    return each([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
  }
  FOURFOLD_INLINE F add(const F& a, const F& b) {
    return each([&](int i) { return a.v[i] + b.v[i]; });
  }
  FOURFOLD_INLINE F sub(const F& a, const F& b) {
    return each([&](int i) { return a.v[i] - b.v[i]; });
  }
  FOURFOLD_INLINE F mul(const F& a, const F& b) {
    return each([&](int i) { return a.v[i] * b.v[i]; });
  }
  FOURFOLD_INLINE F div(const F& a, const F& b) {
    return each([&](int i) { return a.v[i] / b.v[i]; });
  }
  FOURFOLD_INLINE F max(const F& a, const F& b) {
    return each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  FOURFOLD_INLINE F min(const F& a, const F& b) {
    return each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  FOURFOLD_INLINE F round(const F& x) {
    return each([&](int i) { return __builtin_nearbyintf(x.v[i]); });
  }
  FOURFOLD_INLINE F if_less(const F& a, const F& b, const F& yes, const F& no) {
    return each([&](int i) { return a.v[i] < b.v[i] ? yes.v[i] : no.v[i]; });
  }
  FOURFOLD_INLINE F keep(const F& x, int first, int last, const F& other) {
    return each([&](int i) { return i >= first && i < last ? x.v[i] : other.v[i]; });
  }
  FOURFOLD_INLINE F times_pow2(const F& x, const F& n) {
    return each([&](int i) {
      return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, x.v[i]) + (whole(n.v[i]) << 23));
    });
  }
  FOURFOLD_INLINE float sum(F x) {
    for (int half = 8; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) x.v[i] += x.v[i + half];
    return x.v[0];
  }
  FOURFOLD_INLINE float maximum(F x) {
    for (int half = 8; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) x.v[i] = x.v[i] > x.v[i + half] ? x.v[i] : x.v[i + half];
    return x.v[0];
  }

  // ---- 16 stored numbers <-> lanes ----
  FOURFOLD_INLINE F load_f16(const std::uint8_t* p) {
    return each([=](int i) { return from_f16(load_as<std::uint16_t>(p + 2 * i)); });
  }
  FOURFOLD_INLINE F load_bf16(const std::uint8_t* p) {
    return each(
        [=](int i) { return __builtin_bit_cast(float, std::uint32_t{load_as<std::uint16_t>(p + 2 * i)} << 16); });
  }
  FOURFOLD_INLINE F load_s8(const std::uint8_t* p) {
    return each([=](int i) { return static_cast<float>(static_cast<std::int8_t>(p[i])); });
  }
  FOURFOLD_INLINE F splat_f16(const std::uint8_t* p) { return set(from_f16(load_as<std::uint16_t>(p))); }
  FOURFOLD_INLINE void store_f16(std::uint8_t* p, const F& x) {
    for (int i = 0; i < 16; ++i) store_as(p + 2 * i, to_f16(x.v[i]));
  }
  FOURFOLD_INLINE void store_bf16(std::uint8_t* p, const F& x) {
    for (int i = 0; i < 16; ++i) {
      const auto bits = __builtin_bit_cast(std::uint32_t, x.v[i]);
      const std::uint32_t up = x.v[i] != x.v[i] ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1);
      store_as(p + 2 * i, static_cast<std::uint16_t>(up >> 16));
    }
  }
  FOURFOLD_INLINE void store_s8(std::int8_t* p, const F& x) {
    for (int i = 0; i < 16; ++i) {
      const float r = __builtin_nearbyintf(x.v[i]);
      p[i] = static_cast<std::int8_t>(r >= 127.0f ? 127 : r > -128.0f ? static_cast<int>(r) : -128);
    }
  }

  // ---- integer lanes ----
  FOURFOLD_INLINE I zero_i() { return set_i(0); }
  FOURFOLD_INLINE I set_i(int x) {
    return each<I>([=](int) { return static_cast<std::uint32_t>(x); });
  }
  FOURFOLD_INLINE I load_i(const std::uint8_t* p) { return load_as<I>(p); }
  FOURFOLD_INLINE void store_i(std::uint8_t* p, const I& x) { store_as(p, x); }
  FOURFOLD_INLINE I load_u8_i(const std::uint8_t* p) {
    return each<I>([=](int i) { return std::uint32_t{p[i]}; });
  }
  FOURFOLD_INLINE I add_i(const I& a, const I& b) {
    return each<I>([&](int i) { return a.v[i] + b.v[i]; });
  }
  FOURFOLD_INLINE I max_i(const I& a, const I& b) {
    return each<I>(
        [&](int i) { return static_cast<std::int32_t>(a.v[i]) > static_cast<std::int32_t>(b.v[i]) ? a.v[i] : b.v[i]; });
  }
  FOURFOLD_INLINE I and_i(const I& a, const I& b) {
    return each<I>([&](int i) { return a.v[i] & b.v[i]; });
  }
  FOURFOLD_INLINE I or_i(const I& a, const I& b) {
    return each<I>([&](int i) { return a.v[i] | b.v[i]; });
  }
  FOURFOLD_INLINE I xor_i(const I& a, const I& b) {
    return each<I>([&](int i) { return a.v[i] ^ b.v[i]; });
  }
  template <int N>
  FOURFOLD_INLINE I shl(const I& a) {
    return each<I>([&](int i) { return a.v[i] << N; });
  }
  template <int N>
  FOURFOLD_INLINE I shr(const I& a) {
    return each<I>([&](int i) { return a.v[i] >> N; });
  }
  FOURFOLD_INLINE F to_float(const I& a) {
    return each([&](int i) { return static_cast<float>(static_cast<std::int32_t>(a.v[i])); });
  }
  FOURFOLD_INLINE F as_float(const I& a) { return __builtin_bit_cast(F, a); }
  FOURFOLD_INLINE I as_int(const F& a) { return __builtin_bit_cast(I, a); }
  FOURFOLD_INLINE int maximum_i(const I& x) {
    int m = static_cast<int>(x.v[0]);
    for (int i = 1; i < 16; ++i) m = static_cast<int>(x.v[i]) > m ? static_cast<int>(x.v[i]) : m;
    return m;
  }

  FOURFOLD_INLINE I lookup(const std::uint8_t (&table)[16], const I& indices) {
    return each<I>([&](int i) {
      std::uint32_t four = 0;
      for (int b = 0; b < 4; ++b) four |= std::uint32_t{table[indices.v[i] >> 8 * b & 15]} << 8 * b;
      return four;
    });
  }
  template <int First>
  FOURFOLD_INLINE I bits_to_bytes(const I& lanes) {
    return each<I>([&](int i) {
      const std::uint32_t four = lanes.v[i] >> First & 15;
      return (four * 0x00204081u & 0x01010101u) << 4;  // bit b goes to byte b
    });
  }

  FOURFOLD_INLINE I dot_unsigned(const I& acc, const I& u, const I& a) { return dot<std::uint8_t>(acc, u, a); }
  FOURFOLD_INLINE I dot_centred(const I& acc, const I& w, const I& a) {
    return dot<std::int8_t>(acc, xor_i(w, set_i(static_cast<int>(0x80808080u))), a);
  }

  // ---- one number ----
  FOURFOLD_INLINE float from_f16(std::uint16_t h) {
    const std::uint32_t sign = std::uint32_t{h & 0x8000u} << 16, rest = h & 0x7fffu;
    if (rest >= 0x7c00) return __builtin_bit_cast(float, sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest >= 0x400) return __builtin_bit_cast(float, sign | ((rest << 13) + 0x38000000));
    const float magnitude = static_cast<float>(rest) * 0x1p-24f;  // zero or subnormal
    return sign ? -magnitude : magnitude;
  }
  FOURFOLD_INLINE std::uint16_t to_f16(float x) {  // nearest even
    const auto bits = __builtin_bit_cast(std::uint32_t, x);
    const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
    const std::uint32_t rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);  // rounds to 65536 or more
    if (rest < 0x38800000) {  // below 2^-14: adding 0.5 rounds to a multiple of 2^-24
      const float shifted = __builtin_bit_cast(float, rest) + 0.5f;
      return static_cast<std::uint16_t>(sign | (__builtin_bit_cast(std::uint32_t, shifted) - 0x3f000000));
    }
    return static_cast<std::uint16_t>(sign | ((rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13));
  }

 private:
  FOURFOLD_INLINE std::uint32_t whole(float n) { return n == n ? static_cast<std::uint32_t>(static_cast<int>(n)) : 0; }
  template <class W>
  FOURFOLD_INLINE I dot(const I& acc, const I& w, const I& a) {
    return each<I>([&](int i) {
      int s = 0;
      for (int b = 0; b < 4; ++b) s += static_cast<W>(w.v[i] >> 8 * b) * static_cast<std::int8_t>(a.v[i] >> 8 * b);
      return acc.v[i] + static_cast<std::uint32_t>(s);
    });
  }
};

}  // namespace
}  // namespace fourfold::simd
