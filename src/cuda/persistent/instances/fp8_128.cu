#include "cuda/persistent/instance.cuh"

namespace fourfold::cuda::persistent {
Instance fp8_128() { return make_instance<Storage::fp8, 128>(); }
}  // namespace fourfold::cuda::persistent
