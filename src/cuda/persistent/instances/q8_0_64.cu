#include "cuda/persistent/instance.cuh"

namespace fourfold::cuda::persistent {
Instance q8_0_64() { return make_instance<Storage::q8_0, 64>(); }
}  // namespace fourfold::cuda::persistent
