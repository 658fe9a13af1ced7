#include "cuda/persistent/instance.cuh"

namespace fourfold::cuda::persistent {
Instance bf16_128() { return make_instance<Storage::bf16, 128>(); }
}  // namespace fourfold::cuda::persistent
