// What the device benchmarks share: checked calls, memory of random numbers, event timing.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace bench {

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call) bench::check(call, #call)

template <class T>
T* allocate(std::size_t count) {
  void* data = nullptr;
  CHECK(cudaMalloc(&data, count * sizeof(T)));
  return static_cast<T*>(data);
}

// Random bits of which `keep` stay: 0xbfff in each half are 16-bit numbers in (-2, 2), 0xbfffffff a float32 there.
__global__ static void fill(unsigned* out, std::size_t words, unsigned keep) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < words;
       i += std::size_t{gridDim.x} * blockDim.x) {
    unsigned x = static_cast<unsigned>(i) * 2654435761u ^ static_cast<unsigned>(i >> 32) * 40503u;
    x = (x ^ (x >> 15)) * 2246822519u;
    x = (x ^ (x >> 13)) * 3266489917u;
    out[i] = (x ^ (x >> 16)) & keep;
  }
}
template <class T>
T* random(std::size_t count, unsigned keep, cudaStream_t stream) {
  T* data = allocate<T>(count);
  fill<<<1024, 256, 0, stream>>>(reinterpret_cast<unsigned*>(data), count * sizeof(T) / 4, keep);
  return data;
}

inline double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

// Median microseconds of f(), which launches into the stream.
template <class F>
double time(cudaStream_t stream, int rounds, F&& f) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<double> all;
  for (int i = 0; i < rounds + 3; ++i) {
    CHECK(cudaEventRecord(begin, stream));
    f();
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaEventSynchronize(end));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    if (i >= 3) all.push_back(ms * 1e3);
  }
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaEventDestroy(end));
  return median(all);
}

}  // namespace bench
