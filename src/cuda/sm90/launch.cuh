// Launching a kernel with dynamic shared memory, in clusters, as a programmatic dependent of the one before it in the
// stream.
#pragma once

#include <cuda_runtime.h>

namespace fourfold::cuda::sm90 {

struct Launch {
  dim3 grid;
  int threads;
  int shared_bytes;
  bool programmatic;
  int cluster = 1;  // blocks, along x
};

template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), const Launch& how, cudaStream_t stream,
                   const Arguments&... arguments) {
  const auto set = [&](cudaFuncAttribute attribute, int value) {
    return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
  };
  cudaError_t ready = set(cudaFuncAttributeMaxDynamicSharedMemorySize, how.shared_bytes);
  // One division of L1 for all kernels: a multiprocessor has to be idle to change it.
  if (ready == cudaSuccess) ready = set(cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  if (ready == cudaSuccess && how.cluster > 8) ready = set(cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  if (ready != cudaSuccess) return ready;
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config{};
  config.gridDim = how.grid;
  config.blockDim = dim3(static_cast<unsigned>(how.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(how.shared_bytes);
  config.stream = stream;
  config.attrs = attributes;
  if (how.cluster > 1) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = static_cast<unsigned>(how.cluster);
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  }
  if (how.programmatic) {
    cudaLaunchAttribute& dependent = attributes[config.numAttrs++];
    dependent.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    dependent.val.programmaticStreamSerializationAllowed = 1;
  }
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace fourfold::cuda::sm90
