// The scalar level: exports one symbol, its table.
#include "cpu/simd/scalar.hpp"

#include "cpu/simd/table.hpp"

namespace fourfold::simd {

extern const Kernels kScalarKernels;
constinit const Kernels kScalarKernels = make_table<Scalar>();

}  // namespace fourfold::simd
