#include "cuda/persistent/instance.cuh"

namespace fourfold::cuda::persistent {
Instance mxfp4_128() { return make_instance<Storage::mxfp4, 128>(); }
}  // namespace fourfold::cuda::persistent
