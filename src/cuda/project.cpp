#include "cuda/project.hpp"

namespace fourfold::cuda {
namespace sm90 {

template <class T>
cudaError_t launch_project(const DeviceProject& project, int multiprocessors, bool programmatic, cudaStream_t stream);

}  // namespace sm90

cudaError_t project_token(const DeviceProject& project, int multiprocessors, bool programmatic, cudaStream_t stream) {
  switch (project.storage) {
    case Storage::q5_1:
    case Storage::q5_k:
      return cudaErrorInvalidValue;  // weights of these are resident as f32
    default:
      return with_tile(project.storage, [&](auto tile) {
        return sm90::launch_project<Tile<decltype(tile)::kStorage>>(project, multiprocessors, programmatic, stream);
      });
  }
}

}  // namespace fourfold::cuda
