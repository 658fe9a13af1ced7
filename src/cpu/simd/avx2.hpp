// 16 lanes as two ymm registers. Needs AVX2, FMA and F16C. Only avx2.cpp includes this header.
//
// int8 products go through vpmaddubsw, whose sums of two saturate at 32767: unsigned weights here stay below 64, and
// centred ones are multiplied as |w| by a with w's sign, at most 2 * 128 * 127.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "cpu/simd/inline.hpp"

namespace fourfold::simd {
namespace {

struct Avx2 {
  struct F {
    __m256 a, b;
  };
  struct I {
    __m256i a, b;
  };

  static constexpr const char* kName = "avx2";
  // 16 registers of half a vector: 2 float and 2 integer accumulators take 8, weights 2, activation and products 3.
  static constexpr int kRows = 1, kTokens = 2;
  static constexpr int kFloatRows = 1, kFloatTokens = 3;
  static constexpr int kQueries = 3, kColumns = 2;
  static constexpr int kScanRows = 2, kScanColumns = 2, kScanRow = 2;
  static constexpr bool kBiased = false;
  static constexpr bool kBf16Dot = false;

  // ---- float lanes ----
  FOURFOLD_INLINE F zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  FOURFOLD_INLINE F set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  FOURFOLD_INLINE F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  FOURFOLD_INLINE void store(float* p, F x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
  }
  FOURFOLD_INLINE F fma(F x, F y, F z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
  FOURFOLD_INLINE F add(F x, F y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  FOURFOLD_INLINE F sub(F x, F y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
  FOURFOLD_INLINE F mul(F x, F y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  FOURFOLD_INLINE F div(F x, F y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
  FOURFOLD_INLINE F max(F x, F y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
  FOURFOLD_INLINE F min(F x, F y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
  FOURFOLD_INLINE F round(F x) { return {nearest(x.a), nearest(x.b)}; }
  FOURFOLD_INLINE F if_less(F x, F y, F yes, F no) {
    return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)),
            _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
  }
  FOURFOLD_INLINE F keep(F x, int first, int last, F other) {
    return {_mm256_blendv_ps(other.a, x.a, lanes_between(first, last)),
            _mm256_blendv_ps(other.b, x.b, lanes_between(first - 8, last - 8))};
  }
  FOURFOLD_INLINE F times_pow2(F x, F n) { return {shift_exponent(x.a, n.a), shift_exponent(x.b, n.b)}; }
  FOURFOLD_INLINE float sum(F x) {
    const __m256 a = _mm256_add_ps(x.a, x.b);
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
  }
  FOURFOLD_INLINE float maximum(F x) {
    const __m256 a = _mm256_max_ps(x.a, x.b);
    const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
  }

  // ---- 16 stored numbers <-> lanes ----
  FOURFOLD_INLINE F load_f16(const std::uint8_t* p) {
    return {_mm256_cvtph_ps(load128(p)), _mm256_cvtph_ps(load128(p + 16))};
  }
  FOURFOLD_INLINE F load_bf16(const std::uint8_t* p) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load128(p)), 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load128(p + 16)), 16))};
  }
  FOURFOLD_INLINE F load_s8(const std::uint8_t* p) {
    const __m128i x = load128(p);
    return to_float({_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8))});
  }
  FOURFOLD_INLINE F splat_f16(const std::uint8_t* p) {
    const __m256 x = _mm256_cvtph_ps(_mm_set1_epi16(load_as<std::int16_t>(p)));
    return {x, x};
  }
  FOURFOLD_INLINE void store_f16(std::uint8_t* p, F x) {
    store128(p, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    store128(p + 16, _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  FOURFOLD_INLINE void store_bf16(std::uint8_t* p, F x) {
    const __m256i words = _mm256_packus_epi32(to_bf16(x.a), to_bf16(x.b));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(words, 0xd8));
  }
  FOURFOLD_INLINE void store_s8(std::int8_t* p, F x) {
    const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b));
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
  }

  // ---- integer lanes ----
  FOURFOLD_INLINE I zero_i() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  FOURFOLD_INLINE I set_i(int x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  FOURFOLD_INLINE I load_i(const std::uint8_t* p) { return {load256(p), load256(p + 32)}; }
  FOURFOLD_INLINE void store_i(std::uint8_t* p, I x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.a);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), x.b);
  }
  FOURFOLD_INLINE I load_u8_i(const std::uint8_t* p) {
    const __m128i x = load128(p);
    return {_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8))};
  }
  FOURFOLD_INLINE I add_i(I x, I y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
  FOURFOLD_INLINE I max_i(I x, I y) { return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)}; }
  FOURFOLD_INLINE I and_i(I x, I y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
  FOURFOLD_INLINE I or_i(I x, I y) { return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
  FOURFOLD_INLINE I xor_i(I x, I y) { return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)}; }
  template <int N>
  FOURFOLD_INLINE I shl(I x) {
    return {_mm256_slli_epi32(x.a, N), _mm256_slli_epi32(x.b, N)};
  }
  template <int N>
  FOURFOLD_INLINE I shr(I x) {
    return {_mm256_srli_epi32(x.a, N), _mm256_srli_epi32(x.b, N)};
  }
  FOURFOLD_INLINE F to_float(I x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
  FOURFOLD_INLINE F as_float(I x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
  FOURFOLD_INLINE I as_int(F x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
  FOURFOLD_INLINE int maximum_i(I x) {
    const __m256i a = _mm256_max_epi32(x.a, x.b);
    const __m128i b = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    const __m128i c = _mm_max_epi32(b, _mm_shuffle_epi32(b, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(c, _mm_shuffle_epi32(c, 0xb1)));
  }

  FOURFOLD_INLINE I lookup(const std::uint8_t (&table)[16], I indices) {
    const __m256i t = _mm256_broadcastsi128_si256(load128(table));
    return {_mm256_shuffle_epi8(t, indices.a), _mm256_shuffle_epi8(t, indices.b)};
  }
  template <int First>
  FOURFOLD_INLINE I bits_to_bytes(I lanes) {
    return {spread<First>(lanes.a), spread<First>(lanes.b)};
  }

  FOURFOLD_INLINE I dot_unsigned(I acc, I u, I x) { return {dot(acc.a, u.a, x.a), dot(acc.b, u.b, x.b)}; }
  FOURFOLD_INLINE I dot_centred(I acc, I w, I x) { return {dot_signed(acc.a, w.a, x.a), dot_signed(acc.b, w.b, x.b)}; }

 private:
  FOURFOLD_INLINE __m128i load128(const std::uint8_t* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  FOURFOLD_INLINE __m256i load256(const std::uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  FOURFOLD_INLINE void store128(std::uint8_t* p, __m128i x) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), x); }
  FOURFOLD_INLINE __m256 nearest(__m256 x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  FOURFOLD_INLINE __m256 lanes_between(int first, int last) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i below = _mm256_cmpgt_epi32(_mm256_set1_epi32(first), lane);
    return _mm256_castsi256_ps(_mm256_andnot_si256(below, _mm256_cmpgt_epi32(_mm256_set1_epi32(last), lane)));
  }
  FOURFOLD_INLINE __m256 shift_exponent(__m256 x, __m256 n) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23)));
  }
  FOURFOLD_INLINE __m256i to_bf16(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    return _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, _mm256_castps_si256(nan)), 16);
  }
  template <int First>
  FOURFOLD_INLINE __m256i spread(__m256i lanes) {
    const __m256i four = _mm256_and_si256(_mm256_srli_epi32(lanes, First), _mm256_set1_epi32(15));
    const __m256i bytes = _mm256_mullo_epi32(four, _mm256_set1_epi32(0x00204081));  // bit b goes to byte b
    return _mm256_slli_epi32(_mm256_and_si256(bytes, _mm256_set1_epi8(1)), 4);
  }
  FOURFOLD_INLINE __m256i dot(__m256i acc, __m256i u, __m256i x) {
    return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(u, x), _mm256_set1_epi16(1)));
  }
  FOURFOLD_INLINE __m256i dot_signed(__m256i acc, __m256i w, __m256i x) {
    const __m256i centred = _mm256_xor_si256(w, _mm256_set1_epi8(static_cast<char>(0x80)));
    return dot(acc, _mm256_abs_epi8(centred), _mm256_sign_epi8(x, centred));
  }
};

}  // namespace
}  // namespace fourfold::simd
