// Buffers and noise for device tests.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace fourfold::cuda::test {

// Skips its tests where there is no device.
class DeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no CUDA device";
  }
};

// Device memory, filled with bytes 0xff (NaN as a number of any kind) unless told otherwise.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::size_t count, int fill = 0xff) : count_(count) {
    if (cudaMalloc(&data_, count * sizeof(T)) != cudaSuccess)
      ADD_FAILURE() << "no room for " << count * sizeof(T) << " bytes";
    clear(fill);
  }
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) {
    cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(data_); }

  void clear(int fill) { cudaMemset(data_, fill, count_ * sizeof(T)); }
  T* get() const { return data_; }
  std::vector<T> host() const {
    std::vector<T> out(count_);
    cudaMemcpy(out.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost);
    return out;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

// Close to a standard normal, from a counter.
__host__ __device__ inline float noise(std::uint64_t seed, std::uint64_t index) {
  float sum = 0;
  for (int i = 0; i < 4; ++i) {
    std::uint64_t x = (seed * 4 + i) * 0x9e3779b97f4a7c15ull + index * 0xd1342543de82ef95ull;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
    sum += static_cast<float>((x >> 40) & 0xffffff) * 0x1p-24f - 0.5f;
  }
  return sum * 1.7320508f;
}
inline std::vector<float> noise_vector(std::size_t count, std::uint64_t seed) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = noise(seed, i);
  return out;
}

inline double rms(const std::vector<double>& x) {
  double sum = 0;
  for (double v : x) sum += v * v;
  return std::sqrt(sum / static_cast<double>(std::max<std::size_t>(x.size(), 1)));
}

}  // namespace fourfold::cuda::test
