// Launching a kernel with dynamic shared memory, and as a programmatic dependent of the one before it in the stream.
#pragma once

#include <cuda_runtime.h>

namespace fourfold::cuda::sm90 {

struct Launch {
  dim3 grid;
  int threads;
  int shared_bytes;
  bool programmatic;
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
  if (ready != cudaSuccess) return ready;
  cudaLaunchAttribute dependent{};
  dependent.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  dependent.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = how.grid;
  config.blockDim = dim3(static_cast<unsigned>(how.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(how.shared_bytes);
  config.stream = stream;
  config.attrs = &dependent;
  config.numAttrs = how.programmatic ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace fourfold::cuda::sm90
