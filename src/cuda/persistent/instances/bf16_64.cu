#include "cuda/persistent/instance.cuh"

namespace fourfold::cuda::persistent {
Instance bf16_64() { return make_instance<Storage::bf16, 64>(); }
}  // namespace fourfold::cuda::persistent
