// Times attention on the device: 32 query and 8 KV heads of 128, bf16. One line of JSON a case.
//
// Decode: a graph of one launch per cache, as many caches as exceed four times the L2; microseconds a launch, median;
// `floor_us`: its bytes at the read rate given as argument (TB/s). Prefill: causal, TFLOP/s of the visible half.
#include "cuda/attend.hpp"
#include "device.hpp"

namespace {

using namespace fourfold::cuda;
using bench::allocate;

constexpr int kHeads = 32, kKvHeads = 8, kDim = 128;
constexpr double kEnough = 240e6;  // bytes
constexpr AttentionKind kKind{0, 0.0883883f, 0};

int* on_device(int value) {
  int* data = allocate<int>(1);
  CHECK(cudaMemcpy(data, &value, sizeof value, cudaMemcpyHostToDevice));
  return data;
}

void decode(int context, bool programmatic, double rate, cudaStream_t stream) {
  const CacheLayout layout{kKvHeads, kDim, 2, context};
  const auto bytes = static_cast<std::size_t>(layout.bytes());
  const int caches = std::max(2, static_cast<int>(kEnough / static_cast<double>(bytes)) + 1);
  float* query = bench::random<float>(kHeads * kDim, 0xbfffffffu, stream);
  float* out = allocate<float>(kHeads * kDim);
  int* start = on_device(context - 1);
  void* scratch = allocate<std::byte>(attend_scratch_bytes(layout, kHeads));
  CHECK(cudaMemset(scratch, 0, attend_scratch_bytes(layout, kHeads)));
  std::vector<std::byte*> all;
  for (int i = 0; i < caches; ++i) all.push_back(bench::random<std::byte>(bytes, 0xbfffbfffu, stream));
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (std::byte* cache : all) {
    const Attention a{query, out, cache, layout, KvType::bf16, kHeads, 1, start, nullptr, scratch};
    CHECK(attend_decode(a, kKind, programmatic, stream));
  }
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&ready, graph, 0));
  const double us = bench::time(stream, 20, [&] { CHECK(cudaGraphLaunch(ready, stream)); }) / caches;
  std::printf("{\"attend\": \"decode\", \"context\": %d, \"programmatic\": %s, \"us\": %.2f, \"floor_us\": %.2f}\n",
              context, programmatic ? "true" : "false", us, static_cast<double>(bytes) / rate * 1e-6);
  CHECK(cudaGraphExecDestroy(ready));
  CHECK(cudaGraphDestroy(graph));
  for (std::byte* cache : all) cudaFree(cache);
  cudaFree(query), cudaFree(out), cudaFree(start), cudaFree(scratch);
}

void prefill(int tokens, int position, cudaStream_t stream) {
  const CacheLayout layout{kKvHeads, kDim, 2, position + tokens};
  const auto width = std::size_t{kHeads} * kDim * static_cast<std::size_t>(tokens);
  std::byte* cache = bench::random<std::byte>(static_cast<std::size_t>(layout.bytes()), 0xbfffbfffu, stream);
  float* query = bench::random<float>(width, 0xbfffffffu, stream);
  float* out = allocate<float>(width);
  int* start = on_device(position);
  const Attention a{query, out, cache, layout, KvType::bf16, kHeads, tokens, start};
  const double us = bench::time(stream, 10, [&] { CHECK(attend_prefill(a, kKind, false, stream)); });
  const double flops = 4.0 * kHeads * kDim * (0.5 * tokens * tokens + static_cast<double>(position) * tokens);
  std::printf("{\"attend\": \"prefill\", \"tokens\": %d, \"position\": %d, \"us\": %.1f, \"tflops\": %.0f}\n", tokens,
              position, us, flops / us * 1e-6);
  cudaFree(cache), cudaFree(query), cudaFree(out), cudaFree(start);
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
