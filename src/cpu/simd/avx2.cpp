// The avx2 level: exports one symbol, its table.
#include "cpu/simd/avx2.hpp"

#include "cpu/simd/table.hpp"

namespace fourfold::simd {

extern const Kernels kAvx2Kernels;
constinit const Kernels kAvx2Kernels = make_table<Avx2>();

}  // namespace fourfold::simd
