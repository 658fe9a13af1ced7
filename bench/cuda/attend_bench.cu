// Times attention on the device: 32 query and 8 KV heads of 128, bf16. One line of JSON a case.
//
// Decode: a graph of one launch per cache, as many caches as exceed four times the L2; microseconds a launch, median of
// rounds; `floor_us`: its bytes at the read rate given as argument (TB/s). Prefill: causal, TFLOP/s of the visible
// half.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cuda/attend.hpp"

namespace {

using namespace fourfold::cuda;

constexpr int kHeads = 32, kKvHeads = 8, kDim = 128;
constexpr double kEnough = 240e6;  // bytes

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

template <class T>
T* allocate(std::size_t count) {
  void* data = nullptr;
  CHECK(cudaMalloc(&data, count * sizeof(T)));
  return static_cast<T*>(data);
}

__global__ void fill(unsigned* out, std::size_t words, bool halves) {  // numbers in (-2, 2), of 16 or 32 bits
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < words;
       i += std::size_t{gridDim.x} * blockDim.x) {
    const unsigned x = static_cast<unsigned>(i * 2654435761u) ^ static_cast<unsigned>(i >> 7) * 40503u;
    out[i] = halves ? (x & 0xbfffbfffu) : (x & 0xbfffffffu);
  }
}

struct Timer {
  cudaEvent_t begin, end;
  Timer() {
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
  }
  template <class F>
  double microseconds(cudaStream_t stream, F&& f) {
    CHECK(cudaEventRecord(begin, stream));
    f();
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaEventSynchronize(end));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    return ms * 1e3;
  }
};

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

void decode(int context, bool programmatic, double rate, cudaStream_t stream) {
  const CacheLayout layout{kKvHeads, kDim, 2, context};
  const int caches = std::max(2, static_cast<int>(kEnough / static_cast<double>(layout.bytes())) + 1);
  const auto bytes = static_cast<std::size_t>(layout.bytes());
  const int position = context - 1;
  auto* query = allocate<float>(kHeads * kDim);
  auto* out = allocate<float>(kHeads * kDim);
  auto* start = allocate<int>(1);
  void* scratch = allocate<std::byte>(attend_scratch_bytes(layout, kHeads));
  fill<<<4, 256, 0, stream>>>(reinterpret_cast<unsigned*>(query), kHeads * kDim, false);
  CHECK(cudaMemcpy(start, &position, 4, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(scratch, 0, attend_scratch_bytes(layout, kHeads)));
  std::vector<Attention> all;
  for (int i = 0; i < caches; ++i) {
    auto* cache = allocate<std::byte>(bytes);
    fill<<<1024, 256, 0, stream>>>(reinterpret_cast<unsigned*>(cache), bytes / 4, true);
    all.push_back({query, out, cache, layout, KvType::bf16, kHeads, 1, start, nullptr, scratch});
  }
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (const Attention& a : all) CHECK(attend_decode(a, {0, 0.0883883f, 0}, programmatic, stream));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&ready, graph, 0));
  Timer timer;
  std::vector<double> rounds;
  for (int i = 0; i < 25; ++i) {
    const double us = timer.microseconds(stream, [&] { CHECK(cudaGraphLaunch(ready, stream)); });
    if (i >= 5) rounds.push_back(us / caches);
  }
  std::printf(
      "{\"attend\": \"decode\", \"context\": %d, \"programmatic\": %s, \"caches\": %d, \"us\": %.2f, \"min\": %.2f, "
      "\"floor_us\": %.2f}\n",
      context, programmatic ? "true" : "false", caches, median(rounds), *std::min_element(rounds.begin(), rounds.end()),
      static_cast<double>(bytes) / rate * 1e-6);
  CHECK(cudaGraphExecDestroy(ready));
  CHECK(cudaGraphDestroy(graph));
  for (const Attention& a : all) cudaFree(const_cast<std::byte*>(a.cache));
  for (void* p : {static_cast<void*>(query), static_cast<void*>(out), static_cast<void*>(start), scratch}) cudaFree(p);
}

void prefill(int tokens, int position, cudaStream_t stream) {
  const CacheLayout layout{kKvHeads, kDim, 2, position + tokens};
  const auto bytes = static_cast<std::size_t>(layout.bytes()),
             width = std::size_t{kHeads} * kDim * static_cast<std::size_t>(tokens);
  auto* cache = allocate<std::byte>(bytes);
  auto* query = allocate<float>(width);
  auto* start = allocate<int>(1);
  fill<<<1024, 256, 0, stream>>>(reinterpret_cast<unsigned*>(cache), bytes / 4, true);
  fill<<<1024, 256, 0, stream>>>(reinterpret_cast<unsigned*>(query), width, false);
  CHECK(cudaMemcpy(start, &position, 4, cudaMemcpyHostToDevice));
  const Attention a{query,  allocate<float>(width), cache, layout, KvType::bf16, kHeads, tokens, start, nullptr,
                    nullptr};
  Timer timer;
  std::vector<double> rounds;
  for (int i = 0; i < 13; ++i) {
    const double us = timer.microseconds(stream, [&] { CHECK(attend_prefill(a, {0, 0.0883883f, 0}, false, stream)); });
    if (i >= 3) rounds.push_back(us);
  }
  const double flops = 4.0 * kHeads * kDim * (0.5 * tokens * tokens + static_cast<double>(position) * tokens);
  std::printf("{\"attend\": \"prefill\", \"tokens\": %d, \"position\": %d, \"us\": %.1f, \"tflops\": %.0f}\n", tokens,
              position, median(rounds), flops / median(rounds) * 1e-6);
  cudaFree(cache), cudaFree(query), cudaFree(start), cudaFree(a.out);
}

}  // namespace

int main(int argc, char** argv) {
  const double rate = argc > 1 ? std::atof(argv[1]) : 4.62;
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  for (bool programmatic : {false, true})
    for (int context : {128, 1024, 4096, 16384, 65536}) decode(context, programmatic, rate, stream);
  for (int tokens : {512, 4096, 16384}) prefill(tokens, 0, stream);
  prefill(512, 3584, stream);
  return 0;
}
