#include "cuda/persistent/instance.cuh"

namespace fourfold::cuda::persistent {
Instance q8_0_128() { return make_instance<Storage::q8_0, 128>(); }
}  // namespace fourfold::cuda::persistent
