// Probe loops for AVX-512 with VNNI and BF16.
#include <immintrin.h>

#include "cpu/simd/probe_loops.hpp"

namespace fourfold::simd {
namespace {

using Bytes = std::uint64_t __attribute__((vector_size(64)));

void int8_dot(std::int64_t n) {
  chains(_mm512_set1_epi8(1), _mm512_set1_epi8(1), n,
         [](__m512i c, __m512i a, __m512i b) { return _mm512_dpbusd_epi32(c, a, b); });
}

void bf16_dot(std::int64_t n) {
  const __m512 half = _mm512_castsi512_ps(_mm512_set1_epi16(0x3f00));
  chains(half, half, n, [](__m512 c, __m512 a, __m512 b) {
    return _mm512_dpbf16_ps(c, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  });
}

void f32_fma(std::int64_t n) {
  chains(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.5f), n,
         [](__m512 c, __m512 a, __m512 b) { return _mm512_fmadd_ps(c, a, b); });
}

// What a decode step does with 4-bit weights of 16 interleaved rows: split each byte, two dot products a vector.
template <Hint kHint, std::size_t Ahead>
void walk_dot(const void* data, std::size_t bytes) {
  const auto* const base = static_cast<const char*>(data);
  const __m512i low = _mm512_set1_epi8(15), x = _mm512_set1_epi8(1);
  __m512i sum[8] = {};
  for (std::size_t at = 0; at < bytes; at += 256) {
    for (int i = 0; i < 4; ++i) {
      const char* const p = base + at + 64 * i;
      if constexpr (kHint == Hint::near) __builtin_prefetch(p + Ahead, 0, 3);
      if constexpr (kHint == Hint::once) __builtin_prefetch(p + Ahead, 0, 0);
      const __m512i w = _mm512_load_si512(p);
      sum[2 * i] = _mm512_dpbusd_epi32(sum[2 * i], _mm512_and_si512(w, low), x);
      sum[2 * i + 1] = _mm512_dpbusd_epi32(sum[2 * i + 1], _mm512_and_si512(_mm512_srli_epi16(w, 4), low), x);
    }
  }
  for (__m512i& s : sum) keep(s);
}

void flush(const void* data, std::size_t bytes) {
  auto* const base = static_cast<char*>(const_cast<void*>(data));
  for (std::size_t at = 0; at < bytes; at += 64) _mm_clflushopt(base + at);
  _mm_mfence();
}

constexpr ReadWalk kWalks[] = {
    {"4 streams", walk<Bytes, 4, Hint::none, 0>},
    {"2 streams, prefetch once 2 KiB ahead", walk<Bytes, 2, Hint::once, 2048>},
    {"4 streams, prefetch once 2 KiB ahead", walk<Bytes, 4, Hint::once, 2048>},
    {"1 stream, prefetch once 4 KiB ahead", walk<Bytes, 1, Hint::once, 4096>},
    {"1 stream", walk<Bytes, 1, Hint::none, 0>},
    {"1 stream, prefetch 1 KiB ahead", walk<Bytes, 1, Hint::near, 1024>},
    {"1 stream, prefetch 4 KiB ahead", walk<Bytes, 1, Hint::near, 4096>},
    {"2 streams", walk<Bytes, 2, Hint::none, 0>},
    {"2 streams, prefetch 4 KiB ahead", walk<Bytes, 2, Hint::near, 4096>},
    {"2 streams, prefetch once 4 KiB ahead", walk<Bytes, 2, Hint::once, 4096>},
    {"4 streams, prefetch 1 KiB ahead", walk<Bytes, 4, Hint::near, 1024>},
    {"4 streams, prefetch once 4 KiB ahead", walk<Bytes, 4, Hint::once, 4096>},
    {"8 streams", walk<Bytes, 8, Hint::none, 0>},
    {"8 streams, prefetch once 2 KiB ahead", walk<Bytes, 8, Hint::once, 2048>},
    {"int8 dot, prefetch 2 KiB ahead", walk_dot<Hint::near, 2048>},
    {"int8 dot, prefetch once 2 KiB ahead", walk_dot<Hint::once, 2048>},
    {"int8 dot, prefetch once 4 KiB ahead", walk_dot<Hint::once, 4096>},
};

}  // namespace

extern const ProbeKernels kProbeAvx512;
const ProbeKernels kProbeAvx512 = {"avx512",
                                   flush,
                                   kWalks,
                                   static_cast<int>(sizeof kWalks / sizeof *kWalks),
                                   4,
                                   {"vpdpbusd zmm", kChains * 2 * 64, int8_dot},
                                   {"vdpbf16ps zmm", kChains * 2 * 32, bf16_dot},
                                   {"vfmadd zmm", kChains * 2 * 16, f32_fma}};

}  // namespace fourfold::simd
