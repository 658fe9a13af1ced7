// 16 lanes as one zmm register. Needs F, BW, DQ, VL, VNNI, BF16 and VBMI.
//
// Zen 5 figures that the tile sizes use: vpdpbusd and fma 2 per clock, latency 4; conversions and integer adds run on
// the other two pipes; two 64-byte loads per clock. Only avx512.cpp includes this header.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "cpu/simd/inline.hpp"

namespace fourfold::simd {
namespace {

struct Avx512 {
  using F = __m512;
  using I = __m512i;

  static constexpr const char* kName = "avx512";
  // Register budget of a quantised tile: 2 x 6 float and 2 x 6 integer accumulators, 2 weights, 1 activation, scales.
  static constexpr int kRows = 2, kTokens = 6;
  // Of a float tile: 2 x 6 outputs in two chains each, 2 weights, 1 activation.
  static constexpr int kFloatRows = 2, kFloatTokens = 6;
  // Of attention: 6 queries x 4 vectors of keys (or dimensions), the 4 vectors, 1 broadcast.
  static constexpr int kQueries = 6, kColumns = 4;
  static constexpr int kScanRows = 4, kScanColumns = 4, kScanRow = 8;  // of a scan's tile; of one token's pass
  static constexpr bool kBiased = true;   // dot_centred takes w + 128 and leaves 128 * sum(a) to its caller
  static constexpr bool kBf16Dot = true;  // bf16 weights meet bf16 activations

  // ---- float lanes ----
  FOURFOLD_INLINE F zero() { return _mm512_setzero_ps(); }
  FOURFOLD_INLINE F set(float x) { return _mm512_set1_ps(x); }
  FOURFOLD_INLINE F load(const float* p) { return _mm512_loadu_ps(p); }
  FOURFOLD_INLINE void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  FOURFOLD_INLINE F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  FOURFOLD_INLINE F add(F a, F b) { return _mm512_add_ps(a, b); }
  FOURFOLD_INLINE F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  FOURFOLD_INLINE F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  FOURFOLD_INLINE F div(F a, F b) { return _mm512_div_ps(a, b); }
  FOURFOLD_INLINE F max(F a, F b) { return _mm512_max_ps(a, b); }
  FOURFOLD_INLINE F min(F a, F b) { return _mm512_min_ps(a, b); }
  FOURFOLD_INLINE F round(F x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  FOURFOLD_INLINE F if_less(F a, F b, F yes, F no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
  }
  // Lanes first..last-1 of x, `other` elsewhere.
  FOURFOLD_INLINE F keep(F x, int first, int last, F other) {
    return _mm512_mask_blend_ps(lanes_below(last) & static_cast<__mmask16>(~lanes_below(first)), other, x);
  }
  // x * 2^n for whole n, where both x and the product are normal.
  FOURFOLD_INLINE F times_pow2(F x, F n) {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), _mm512_slli_epi32(_mm512_cvtps_epi32(n), 23)));
  }
  // Lane sums and maxima, by halves: the same order at every level.
  FOURFOLD_INLINE float sum(F x) {
    const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
  }
  FOURFOLD_INLINE float maximum(F x) {
    const __m256 a = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
  }

  // ---- 16 stored numbers <-> lanes ----
  FOURFOLD_INLINE F load_f16(const std::uint8_t* p) { return _mm512_cvtph_ps(load256(p)); }
  FOURFOLD_INLINE F load_bf16(const std::uint8_t* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load256(p)), 16));
  }
  FOURFOLD_INLINE F load_s8(const std::uint8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  // One stored half in every lane.
  FOURFOLD_INLINE F splat_f16(const std::uint8_t* p) {
    return _mm512_cvtph_ps(_mm256_set1_epi16(load_as<std::int16_t>(p)));
  }
  FOURFOLD_INLINE void store_f16(std::uint8_t* p, F x) {
    store256(p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  FOURFOLD_INLINE void store_bf16(std::uint8_t* p, F x) {  // nearest even by integers: subnormals kept, NaN stays NaN
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    up = _mm512_mask_or_epi32(up, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), bits, _mm512_set1_epi32(0x400000));
    store256(p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16)));
  }
  FOURFOLD_INLINE void store_s8(std::int8_t* p, F x) {  // rounds to nearest even, saturates
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x)));
  }

  // ---- integer lanes ----
  FOURFOLD_INLINE I zero_i() { return _mm512_setzero_si512(); }
  FOURFOLD_INLINE I set_i(int x) { return _mm512_set1_epi32(x); }
  FOURFOLD_INLINE I load_i(const std::uint8_t* p) { return _mm512_loadu_si512(p); }
  FOURFOLD_INLINE void store_i(std::uint8_t* p, I x) { _mm512_storeu_si512(p, x); }
  // 16 bytes, one per lane, zero- or sign-extended.
  FOURFOLD_INLINE I load_u8_i(const std::uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  FOURFOLD_INLINE I add_i(I a, I b) { return _mm512_add_epi32(a, b); }
  FOURFOLD_INLINE I max_i(I a, I b) { return _mm512_max_epi32(a, b); }
  FOURFOLD_INLINE I and_i(I a, I b) { return _mm512_and_si512(a, b); }
  FOURFOLD_INLINE I or_i(I a, I b) { return _mm512_or_si512(a, b); }
  FOURFOLD_INLINE I xor_i(I a, I b) { return _mm512_xor_si512(a, b); }
  template <int N>
  FOURFOLD_INLINE I shl(I a) {
    return _mm512_slli_epi32(a, N);
  }
  template <int N>
  FOURFOLD_INLINE I shr(I a) {
    return _mm512_srli_epi32(a, N);
  }
  FOURFOLD_INLINE F to_float(I a) { return _mm512_cvtepi32_ps(a); }
  FOURFOLD_INLINE F as_float(I a) { return _mm512_castsi512_ps(a); }
  FOURFOLD_INLINE I as_int(F a) { return _mm512_castps_si512(a); }
  FOURFOLD_INLINE int maximum_i(I x) { return _mm512_reduce_max_epi32(x); }

  // Each byte of `indices`, 0..15, as the byte of `table` that it names.
  FOURFOLD_INLINE I lookup(const std::uint8_t (&table)[16], I indices) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table))),
                               indices);
  }
  // Bits First..First+3 of each lane as its four bytes, 0x10 or 0.
  template <int First>
  FOURFOLD_INLINE I bits_to_bytes(I lanes) {
    constexpr auto from = [](int bit) { return static_cast<long long>((bit + 60) & 63); };  // so that it lands on bit 4
    constexpr auto four = [=](int bit) {
      return from(bit) | from(bit + 1) << 8 | from(bit + 2) << 16 | from(bit + 3) << 24;
    };
    const I control = _mm512_set1_epi64(four(First) | four(32 + First) << 32);
    return _mm512_and_si512(_mm512_multishift_epi64_epi8(control, lanes), _mm512_set1_epi8(0x10));
  }

  // acc + the four products of each lane: weight bytes u (0..255) or w (as w + 128) by the four int8 at a.
  FOURFOLD_INLINE I dot_unsigned(I acc, I u, I a) { return _mm512_dpbusd_epi32(acc, u, a); }
  FOURFOLD_INLINE I dot_centred(I acc, I w, I a) { return _mm512_dpbusd_epi32(acc, w, a); }
  // acc + the products of each lane's pair of bf16.
  FOURFOLD_INLINE F dot_bf16(F acc, I w, I x) {
    return _mm512_dpbf16_ps(acc, reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(x));
  }

 private:
  FOURFOLD_INLINE __m256i load256(const std::uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  FOURFOLD_INLINE void store256(std::uint8_t* p, __m256i x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x); }
  FOURFOLD_INLINE __mmask16 lanes_below(int n) {
    return static_cast<__mmask16>(n >= 16 ? 0xffff : n <= 0 ? 0 : (1 << n) - 1);
  }
};

}  // namespace
}  // namespace fourfold::simd
