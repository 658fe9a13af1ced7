// Instances of the token's Project kernel.
#include "cuda/sm90/project.cuh"

namespace fourfold::cuda::sm90 {

template cudaError_t launch_project<Tile<Storage::bf16>>(const DeviceProject&, int, bool, cudaStream_t);
template cudaError_t launch_project<Tile<Storage::f16>>(const DeviceProject&, int, bool, cudaStream_t);
template cudaError_t launch_project<Tile<Storage::f32>>(const DeviceProject&, int, bool, cudaStream_t);

}  // namespace fourfold::cuda::sm90
