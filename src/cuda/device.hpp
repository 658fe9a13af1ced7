// The device: finding one, its memory, and its errors as statuses.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <utility>

#include "fourfold/status.hpp"

namespace fourfold::cuda {

// ok, or what failed and why: "cuda: copying weights: out of memory".
status checked(cudaError_t error, const std::string& doing);

struct DeviceInfo {
  int index = 0;
  std::string name;
  int multiprocessors = 0;
  int driver = 0;  // 13000: 13.0; 0: no driver
  std::size_t bytes = 0;
  int l2_bytes = 0;
  int major = 0, minor = 0;  // compute capability
};

// Makes `index` the current device. not_found: no driver or no such device; unsupported: it is not of the 9.0 kind.
result<DeviceInfo> open_device(int index);

// Device memory; freed with the object.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory();

  // All zeros. resource: says how much was asked for and how much is free.
  static result<DeviceMemory> allocate(std::size_t bytes, const std::string& what);

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Page-locked host memory that the device can write to; freed with the object.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(PinnedMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~PinnedMemory();
  static result<PinnedMemory> allocate(std::size_t bytes);
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

}  // namespace fourfold::cuda
