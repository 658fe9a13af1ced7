// Probe loops of the level that runs everywhere: 16-byte vectors of the baseline instruction set.
#include <emmintrin.h>

#include "cpu/simd/probe_loops.hpp"

namespace fourfold::simd {
namespace {

using Bytes = std::uint64_t __attribute__((vector_size(16)));
using Words = std::int16_t __attribute__((vector_size(16)));
using Floats = float __attribute__((vector_size(16)));

// Without a byte product in the baseline, int8 is multiplied and added in 16-bit lanes.
void int8_dot(std::int64_t n) {
  const Words one = {1, 1, 1, 1, 1, 1, 1, 1};
  chains(one, one, n, [](Words c, Words a, Words b) { return static_cast<Words>(c + a * b); });
}

void f32_fma(std::int64_t n) {
  const Floats half = {0.5f, 0.5f, 0.5f, 0.5f};
  chains(half, half, n, [](Floats c, Floats a, Floats b) { return c * a + b; });
}

void flush(const void* data, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += 64) _mm_clflush(static_cast<const char*>(data) + at);
  _mm_mfence();
}

constexpr ReadWalk kWalks[] = {
    {"2 streams", walk<Bytes, 2, Hint::none, 0>},
    {"2 streams, prefetch 2 KiB ahead", walk<Bytes, 2, Hint::near, 2048>},
    {"1 stream", walk<Bytes, 1, Hint::none, 0>},
    {"1 stream, prefetch once 2 KiB ahead", walk<Bytes, 1, Hint::once, 2048>},
    {"2 streams, prefetch once 2 KiB ahead", walk<Bytes, 2, Hint::once, 2048>},
    {"4 streams", walk<Bytes, 4, Hint::none, 0>},
};

}  // namespace

extern const ProbeKernels kProbeScalar;
const ProbeKernels kProbeScalar = {"scalar",
                                   flush,
                                   kWalks,
                                   static_cast<int>(sizeof kWalks / sizeof *kWalks),
                                   2,
                                   {"16-bit multiply, add", kChains * 2 * 8, int8_dot},
                                   {nullptr, 0, nullptr},
                                   {"4-wide multiply, add", kChains * 2 * 4, f32_fma}};

}  // namespace fourfold::simd
