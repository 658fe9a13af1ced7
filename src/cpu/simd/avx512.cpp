// The avx512 level: exports one symbol, its table.
#include "cpu/simd/avx512.hpp"

#include "cpu/simd/table.hpp"

namespace fourfold::simd {

extern const Kernels kAvx512Kernels;
constinit const Kernels kAvx512Kernels = make_table<Avx512>();

}  // namespace fourfold::simd
