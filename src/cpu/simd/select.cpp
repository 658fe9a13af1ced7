// Chooses the ISA level once, from what the processor and the operating system offer.
#include <cpuid.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "cpu/simd/kernels.hpp"

namespace fourfold::simd {

extern const Kernels kScalarKernels, kAvx2Kernels, kAvx512Kernels;

namespace {

// Which register states the operating system saves (XCR0); 0 where it says nothing.
std::uint64_t saved_state(unsigned ecx1) {
  if (!(ecx1 & bit_OSXSAVE)) return 0;
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

}  // namespace

CpuFeatures detect_features() {
  unsigned a, b, c, d;
  CpuFeatures found{};
  if (!__get_cpuid(1, &a, &b, &c, &d)) return found;
  const std::uint64_t saved = saved_state(c);
  found.os_ymm = (saved & 0x06) == 0x06;
  found.os_zmm = (saved & 0xe6) == 0xe6;
  found.fma = c & bit_FMA;
  found.f16c = c & bit_F16C;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return found;
  found.avx2 = b & bit_AVX2;
  found.f = b & bit_AVX512F;
  found.bw = b & bit_AVX512BW;
  found.dq = b & bit_AVX512DQ;
  found.vl = b & bit_AVX512VL;
  found.vnni = c & bit_AVX512VNNI;
  found.vbmi = c & bit_AVX512VBMI;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) found.bf16 = a & bit_AVX512BF16;
  return found;
}

Levels available_levels(const CpuFeatures& has) {
  Levels levels{};
  const bool avx2 = has.avx2 && has.fma && has.f16c && has.os_ymm;
  const bool avx512 = has.f && has.bw && has.dq && has.vl && has.vnni && has.bf16 && has.vbmi && has.os_zmm;
  if (avx2 && avx512) levels.table[levels.count++] = &kAvx512Kernels;
  if (avx2) levels.table[levels.count++] = &kAvx2Kernels;
  levels.table[levels.count++] = &kScalarKernels;
  return levels;
}

result<const Kernels*> select_kernels(const char* forced, const CpuFeatures& features) {
  const Levels levels = available_levels(features);
  if (!forced || !*forced) return levels.table[0];
  std::string accepted;
  for (int i = 0; i < levels.count; ++i) {
    if (std::string_view(levels.table[i]->name) == forced) return levels.table[i];
    accepted += (i ? ", " : "") + std::string(levels.table[i]->name);
  }
  return status(Code::unsupported,
                "FOURFOLD_ISA: '" + std::string(forced) + "' is not a level this machine runs (" + accepted + ")");
}

const result<const Kernels*>& selected_kernels() {
  static const result<const Kernels*> selected = select_kernels(std::getenv("FOURFOLD_ISA"));
  return selected;
}

const Kernels& kernels() {
  static const Kernels& chosen =
      selected_kernels().ok() ? *selected_kernels().value() : *select_kernels(nullptr).value();
  return chosen;
}

}  // namespace fourfold::simd
