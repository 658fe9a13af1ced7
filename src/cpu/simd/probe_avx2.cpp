// Probe loops for AVX2 and FMA.
#include <immintrin.h>

#include "cpu/simd/probe_loops.hpp"

namespace fourfold::simd {
namespace {

using Bytes = std::uint64_t __attribute__((vector_size(32)));

void int8_dot(std::int64_t n) {
  const __m256i ones = _mm256_set1_epi16(1);
  chains(_mm256_set1_epi8(1), _mm256_set1_epi8(1), n, [&](__m256i c, __m256i a, __m256i b) {
    return _mm256_add_epi32(c, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), ones));
  });
}

void f32_fma(std::int64_t n) {
  chains(_mm256_set1_ps(0.5f), _mm256_set1_ps(0.5f), n,
         [](__m256 c, __m256 a, __m256 b) { return _mm256_fmadd_ps(c, a, b); });
}

void flush(const void* data, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 64) _mm_clflush(static_cast<const char*>(data) + at);
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
    {"4 streams, prefetch 1 KiB ahead", walk<Bytes, 4, Hint::near, 1024>},
    {"8 streams", walk<Bytes, 8, Hint::none, 0>},
    {"8 streams, prefetch once 2 KiB ahead", walk<Bytes, 8, Hint::once, 2048>},
};

}  // namespace

extern const ProbeKernels kProbeAvx2;
const ProbeKernels kProbeAvx2 = {"avx2",
                                 flush,
                                 kWalks,
                                 static_cast<int>(sizeof kWalks / sizeof *kWalks),
                                 4,
                                 {"vpmaddubsw, vpmaddwd, vpaddd", kChains * 2 * 32, int8_dot},
                                 {nullptr, 0, nullptr},
                                 {"vfmadd ymm", kChains * 2 * 8, f32_fma}};

}  // namespace fourfold::simd
