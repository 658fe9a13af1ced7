#include "cuda/device.hpp"

namespace fourfold::cuda {

status checked(cudaError_t error, const std::string& doing) {
  if (error == cudaSuccess) return {};
  return {error == cudaErrorMemoryAllocation ? Code::resource : Code::io,
          "cuda: " + doing + ": " + cudaGetErrorString(error)};
}

result<DeviceInfo> open_device(int index) {
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found == cudaErrorInsufficientDriver || found == cudaErrorNoDevice || (found == cudaSuccess && count == 0))
    return status{Code::not_found, "cuda: no usable GPU driver on this machine; the CPU executors work without one"};
  FOURFOLD_TRY(checked(found, "looking for devices"));
  if (index < 0 || index >= count)
    return status{Code::not_found, "cuda: device " + std::to_string(index) + " is not there; accepted: 0 to " +
                                       std::to_string(count - 1)};
  cudaDeviceProp properties{};
  FOURFOLD_TRY(checked(cudaGetDeviceProperties(&properties, index), "reading the device's properties"));
  DeviceInfo device{index,
                    properties.name,
                    properties.multiProcessorCount,
                    0,
                    properties.totalGlobalMem,
                    properties.l2CacheSize,
                    properties.major,
                    properties.minor};
  FOURFOLD_TRY(checked(cudaDriverGetVersion(&device.driver), "reading the driver's version"));
  if (device.major != 9 || device.minor != 0)
    return status{Code::unsupported, "cuda: device " + device.name + " has compute capability " +
                                         std::to_string(device.major) + "." + std::to_string(device.minor) +
                                         "; this build is for 9.0"};
  FOURFOLD_TRY(checked(cudaSetDevice(index), "opening the device"));
  return device;
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) static_cast<void>(cudaFree(data_));
}

result<DeviceMemory> DeviceMemory::allocate(std::size_t bytes, const std::string& what) {
  DeviceMemory memory;
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, bytes == 0 ? 1 : bytes);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    std::size_t free = 0, total = 0;
    FOURFOLD_TRY(checked(cudaMemGetInfo(&free, &total), "asking for free memory"));
    return status{Code::resource, "cuda: " + what + " needs " + std::to_string(bytes >> 20) + " MiB; " +
                                      std::to_string(free >> 20) + " of " + std::to_string(total >> 20) +
                                      " MiB are free"};
  }
  FOURFOLD_TRY(checked(error, "allocating " + what));
  memory.data_ = static_cast<std::byte*>(data);
  memory.bytes_ = bytes;
  FOURFOLD_TRY(checked(cudaMemset(data, 0, bytes), "clearing " + what));
  return memory;
}

PinnedMemory::~PinnedMemory() {
  if (data_ != nullptr) static_cast<void>(cudaFreeHost(data_));
}

result<PinnedMemory> PinnedMemory::allocate(std::size_t bytes) {
  PinnedMemory memory;
  FOURFOLD_TRY(checked(cudaHostAlloc(&memory.data_, bytes, cudaHostAllocMapped), "allocating host memory"));
  return memory;
}

}  // namespace fourfold::cuda
