// Loads: how a tile of each block storage becomes weight bytes and scales, 32 columns (a "sub") at a time.
//
// quants<S>(block, u) gives eight vectors: u[g] holds columns 4g..4g+3 of 16 rows. scales<S>(block) gives their scales.
// Form::minimum   x = a * u + b
// Form::centred   x = a * (w - 128), w a byte: offsets 8, 16, 32 become 128 by shifting the bits up and scaling a down
// Form::halves    the same with a for columns 0..15 and b for 16..31
// Field offsets are 16 times the file's (tile.hpp); a block of 16 rows takes kBytes.
#pragma once

#include "cpu/simd/inline.hpp"

namespace fourfold::simd {
namespace {

enum class Form { minimum, centred, halves };

template <class V>
struct Scales {
  typename V::F a, b;
};

template <class V>
FOURFOLD_INLINE typename V::I splat_byte(int byte) {
  return V::set_i(static_cast<int>(static_cast<std::uint32_t>(byte) * 0x01010101u));
}

template <class V>
struct Q4_0Load {  // d, 16 bytes of two columns: j low, j + 16 high
  static constexpr Form kForm = Form::centred;
  static constexpr int kSubs = 1, kBytes = 16 * 18;
  template <int>
  FOURFOLD_INLINE void quants(const std::uint8_t* block, typename V::I (&u)[8]) {
    const auto high = splat_byte<V>(0xf0);
    FOURFOLD_UNROLL for (int g = 0; g < 4; ++g) {
      const auto q = V::load_i(block + 32 + 64 * g);
      u[g] = V::and_i(V::template shl<4>(q), high);
      u[g + 4] = V::and_i(q, high);
    }
  }
  template <int>
  FOURFOLD_INLINE Scales<V> scales(const std::uint8_t* block) {
    return {V::mul(V::load_f16(block), V::set(1.0f / 16)), V::zero()};
  }
};

// The low and the high nibbles of four vectors, as columns 0..15 and 16..31.
template <class V>
FOURFOLD_INLINE void nibbles(const std::uint8_t* q, typename V::I (&u)[8]) {
  const auto low = splat_byte<V>(15);
  FOURFOLD_UNROLL for (int g = 0; g < 4; ++g) {
    const auto both = V::load_i(q + 64 * g);
    u[g] = V::and_i(both, low);
    u[g + 4] = V::and_i(V::template shr<4>(both), low);
  }
}

template <class V>
struct Q4_1Load {  // d, m, nibbles
  static constexpr Form kForm = Form::minimum;
  static constexpr int kSubs = 1, kBytes = 16 * 20;
  template <int>
  FOURFOLD_INLINE void quants(const std::uint8_t* block, typename V::I (&u)[8]) {
    nibbles<V>(block + 64, u);
  }
  template <int>
  FOURFOLD_INLINE Scales<V> scales(const std::uint8_t* block) {
    return {V::load_f16(block), V::load_f16(block + 32)};
  }
};

// Adds the fifth bits: bit 4g + i of a row's word belongs to column 4g + i.
template <class V, int... G>
FOURFOLD_INLINE void fifth_bits(typename V::I bits, typename V::I (&u)[8]) {
  ((u[G] = V::or_i(u[G], V::template bits_to_bytes<4 * G>(bits))), ...);
}

template <class V>
struct Q5_0Load {  // d, 32 high bits, nibbles
  static constexpr Form kForm = Form::centred;
  static constexpr int kSubs = 1, kBytes = 16 * 22;
  template <int>
  FOURFOLD_INLINE void quants(const std::uint8_t* block, typename V::I (&u)[8]) {
    nibbles<V>(block + 96, u);
    fifth_bits<V, 0, 1, 2, 3, 4, 5, 6, 7>(V::load_i(block + 32), u);
    FOURFOLD_UNROLL for (int g = 0; g < 8; ++g) u[g] = V::template shl<3>(u[g]);  // 5 bits: no byte overflows
  }
  template <int>
  FOURFOLD_INLINE Scales<V> scales(const std::uint8_t* block) {
    return {V::mul(V::load_f16(block), V::set(1.0f / 8)), V::zero()};
  }
};

template <class V>
struct Q5_1Load {  // d, m, 32 high bits, nibbles
  static constexpr Form kForm = Form::minimum;
  static constexpr int kSubs = 1, kBytes = 16 * 24;
  template <int>
  FOURFOLD_INLINE void quants(const std::uint8_t* block, typename V::I (&u)[8]) {
    nibbles<V>(block + 128, u);
    fifth_bits<V, 0, 1, 2, 3, 4, 5, 6, 7>(V::load_i(block + 64), u);
  }
  template <int>
  FOURFOLD_INLINE Scales<V> scales(const std::uint8_t* block) {
    return {V::load_f16(block), V::load_f16(block + 32)};
  }
};

template <class V>
struct Q8_0Load {  // d, 32 signed bytes
  static constexpr Form kForm = Form::centred;
  static constexpr int kSubs = 1, kBytes = 16 * 34;
  template <int>
  FOURFOLD_INLINE void quants(const std::uint8_t* block, typename V::I (&u)[8]) {
    const auto sign = splat_byte<V>(0x80);
    FOURFOLD_UNROLL for (int g = 0; g < 8; ++g) u[g] = V::xor_i(V::load_i(block + 32 + 64 * g), sign);
  }
  template <int>
  FOURFOLD_INLINE Scales<V> scales(const std::uint8_t* block) {
    return {V::load_f16(block), V::zero()};
  }
};

// Q4_K and Q5_K: d, dmin, then 12 bytes of 6-bit scales and minima. Sub S < 4 has its scale in the low six bits of
// byte S, its minimum in byte S + 4; S >= 4 has four bits of each in byte S + 4 and two in the tops of S - 4 and S.
template <class V, int S>
FOURFOLD_INLINE Scales<V> k_scales(const std::uint8_t* block) {
  const auto plane = [=](int byte) { return V::load_u8_i(block + 64 + 16 * byte); };
  typename V::I scale, minimum;
  if constexpr (S < 4) {
    scale = V::and_i(plane(S), V::set_i(63));
    minimum = V::and_i(plane(S + 4), V::set_i(63));
  } else {
    const auto low = plane(S + 4);
    const auto top_bits = [](typename V::I byte) { return V::template shl<4>(V::template shr<6>(byte)); };
    scale = V::or_i(V::and_i(low, V::set_i(15)), top_bits(plane(S - 4)));
    minimum = V::or_i(V::template shr<4>(low), top_bits(plane(S)));
  }
  const auto d = V::load_f16(block), dmin = V::sub(V::zero(), V::load_f16(block + 32));
  return {V::mul(d, V::to_float(scale)), V::mul(dmin, V::to_float(minimum))};
}

// Eight vectors hold 64 columns: an even sub in the low nibbles, an odd one in the high nibbles.
template <class V, int S>
FOURFOLD_INLINE void k_nibbles(const std::uint8_t* q, typename V::I (&u)[8]) {
  FOURFOLD_UNROLL for (int g = 0; g < 8; ++g) {
    const auto both = V::load_i(q + 64 * (8 * (S / 2) + g));
    u[g] = V::and_i(S % 2 ? V::template shr<4>(both) : both, splat_byte<V>(15));
  }
}

template <class V>
struct Q4_KLoad {
  static constexpr Form kForm = Form::minimum;
  static constexpr int kSubs = 8, kBytes = 16 * 144;
  template <int S>
  FOURFOLD_INLINE void quants(const std::uint8_t* block, typename V::I (&u)[8]) {
    k_nibbles<V, S>(block + 256, u);
  }
  template <int S>
  FOURFOLD_INLINE Scales<V> scales(const std::uint8_t* block) {
    return k_scales<V, S>(block);
  }
};

// Moves bits From.. of each byte to bit To (within 4-byte lanes; the caller masks what crosses bytes).
template <class V, int From, int To>
FOURFOLD_INLINE typename V::I move_bits(typename V::I x) {
  if constexpr (From > To)
    return V::template shr<From - To>(x);
  else
    return V::template shl<To - From>(x);
}

template <class V>
struct Q5_KLoad {  // as Q4_K, with 32 bytes whose bit S is sub S's fifth bit
  static constexpr Form kForm = Form::minimum;
  static constexpr int kSubs = 8, kBytes = 16 * 176;
  template <int S>
  FOURFOLD_INLINE void quants(const std::uint8_t* block, typename V::I (&u)[8]) {
    k_nibbles<V, S>(block + 768, u);
    FOURFOLD_UNROLL for (int g = 0; g < 8; ++g) {
      const auto fifth = move_bits<V, S, 4>(V::load_i(block + 256 + 64 * g));
      u[g] = V::or_i(u[g], V::and_i(fifth, splat_byte<V>(16)));
    }
  }
  template <int S>
  FOURFOLD_INLINE Scales<V> scales(const std::uint8_t* block) {
    return k_scales<V, S>(block);
  }
};

// Q6_K: 128 bytes of low nibbles, 64 of upper bit pairs, 16 signed scales (one per 16 columns), d. Each half of 128
// columns has 64 low bytes: subs 0 and 1 in the low nibbles, 2 and 3 in the high ones; bit pairs of sub i at bit 2i.
template <class V>
struct Q6_KLoad {
  static constexpr Form kForm = Form::halves;
  static constexpr int kSubs = 8, kBytes = 16 * 210;
  template <int S>
  FOURFOLD_INLINE void quants(const std::uint8_t* block, typename V::I (&u)[8]) {
    constexpr int half = S / 4, i = S % 4;
    FOURFOLD_UNROLL for (int g = 0; g < 8; ++g) {  // the six bits, at bits 2..7 of each byte
      const auto low = move_bits<V, i / 2 * 4, 2>(V::load_i(block + 64 * (16 * half + 8 * (i % 2) + g)));
      const auto high = move_bits<V, 2 * i, 6>(V::load_i(block + 2048 + 64 * (8 * half + g)));
      u[g] = V::or_i(V::and_i(low, splat_byte<V>(0x3c)), V::and_i(high, splat_byte<V>(0xc0)));
    }
  }
  template <int S>
  FOURFOLD_INLINE Scales<V> scales(const std::uint8_t* block) {
    const auto d = V::mul(V::load_f16(block + 3328), V::set(1.0f / 4));
    const std::uint8_t* signed_scales = block + 3072 + 32 * S;
    return {V::mul(d, V::load_s8(signed_scales)), V::mul(d, V::load_s8(signed_scales + 16))};
  }
};

// Twice the sixteen E2M1 values 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, plus 128.
inline constexpr std::uint8_t kE2m1Centred[16] = {128, 129, 130, 131, 132, 134, 136, 140,
                                                  128, 127, 126, 125, 124, 122, 120, 116};

template <class V>
struct MXFP4Load {  // a power of two, nibbles
  static constexpr Form kForm = Form::centred;
  static constexpr int kSubs = 1, kBytes = 16 * 17;
  template <int>
  FOURFOLD_INLINE void quants(const std::uint8_t* block, typename V::I (&u)[8]) {
    nibbles<V>(block + 16, u);
    FOURFOLD_UNROLL for (int g = 0; g < 8; ++g) u[g] = V::lookup(kE2m1Centred, u[g]);
  }
  // 2^(e - 128), as the product of two powers that no exponent of 0..254 takes out of range; 255 is NaN.
  template <int>
  FOURFOLD_INLINE Scales<V> scales(const std::uint8_t* block) {
    const auto e = V::load_u8_i(block), ones = V::set_i(-1);
    const auto half = V::template shr<1>(e), rest = V::add_i(half, V::and_i(e, V::set_i(1)));
    const auto power = [](typename V::I n) { return V::template shl<23>(V::add_i(n, V::set_i(63))); };
    const auto top = V::template shr<8>(V::add_i(e, V::set_i(1)));  // 1 for 255, else 0
    const auto nan = V::and_i(V::xor_i(V::add_i(top, ones), ones), V::set_i(0x7fc00000));
    return {V::mul(V::as_float(power(half)), V::as_float(V::or_i(power(rest), nan))), V::zero()};
  }
};

}  // namespace
}  // namespace fourfold::simd
