#include "cuda/persistent/instance.cuh"

namespace fourfold::cuda::persistent {
Instance int4_128() { return make_instance<Storage::int4, 128>(); }
}  // namespace fourfold::cuda::persistent
