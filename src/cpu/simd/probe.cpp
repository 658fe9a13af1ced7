#include "cpu/simd/probe.hpp"

#include <initializer_list>

namespace fourfold::simd {

extern const ProbeKernels kProbeScalar, kProbeAvx2, kProbeAvx512;

const ProbeKernels* probe_kernels(std::string_view level) {
  for (const ProbeKernels* kernels : {&kProbeScalar, &kProbeAvx2, &kProbeAvx512}) {
    if (kernels->name == level) return kernels;
  }
  return nullptr;
}

}  // namespace fourfold::simd
