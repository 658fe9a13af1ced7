// Streaming read: every multiprocessor keeps 128 KB of bulk copies in flight and uses nothing of them. Memory binds.
#include <algorithm>

#include "cuda/probe.hpp"
#include "cuda/sm90/async.cuh"
#include "cuda/sm90/launch.cuh"

namespace fourfold::cuda {
namespace {

constexpr std::size_t kProbeBytes = std::size_t{4} << 30;
constexpr int kProbeSlots = 8, kProbeCopy = 16 << 10;

__global__ void read_all(const std::byte* data, int copies) {
  extern __shared__ __align__(128) std::byte slots[];
  __shared__ __align__(8) std::uint64_t barriers[kProbeSlots];
  if (threadIdx.x != 0) return;
  for (int i = 0; i < kProbeSlots; ++i) sm90::Barrier{sm90::shared_address(barriers + i)}.init(1);
  sm90::publish_barriers();
  const int per = (copies + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);
  const int first = static_cast<int>(blockIdx.x) * per, last = min(first + per, copies);
  for (int done = first, issued = first; done < last; ++done) {
    for (; issued < last && issued - done < kProbeSlots; ++issued) {
      const int slot = (issued - first) % kProbeSlots;
      const sm90::Barrier full{sm90::shared_address(barriers + slot)};
      full.expect(kProbeCopy);
      sm90::copy_bulk(sm90::shared_address(slots + slot * kProbeCopy),
                      data + static_cast<std::int64_t>(issued) * kProbeCopy, kProbeCopy, full);
    }
    const int slot = (done - first) % kProbeSlots;
    sm90::Barrier{sm90::shared_address(barriers + slot)}.wait(
        static_cast<std::uint32_t>((done - first) / kProbeSlots % 2));
  }
}

struct Events {
  cudaEvent_t begin = nullptr, end = nullptr;
  ~Events() {
    if (begin != nullptr) static_cast<void>(cudaEventDestroy(begin));
    if (end != nullptr) static_cast<void>(cudaEventDestroy(end));
  }
};

}  // namespace

result<ReadProbe> ReadProbe::create(const DeviceInfo& device) {
  auto memory = DeviceMemory::allocate(kProbeBytes, "the read probe");
  if (!memory.ok()) return memory.error();
  ReadProbe probe;
  probe.device_ = device;
  probe.memory_ = std::move(memory).value();
  return result<ReadProbe>(std::move(probe));
}

result<double> ReadProbe::sample() {
  Events events;
  FOURFOLD_TRY(checked(cudaEventCreate(&events.begin), "creating an event"));
  FOURFOLD_TRY(checked(cudaEventCreate(&events.end), "creating an event"));
  const sm90::Launch how{dim3(static_cast<unsigned>(device_.multiprocessors)), 32, kProbeSlots * kProbeCopy, false};
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    FOURFOLD_TRY(checked(cudaEventRecord(events.begin), "timing the read probe"));
    FOURFOLD_TRY(checked(sm90::launch(read_all, how, nullptr, static_cast<const std::byte*>(memory_.data()),
                                      static_cast<int>(kProbeBytes / kProbeCopy)),
                         "launching the read probe"));
    FOURFOLD_TRY(checked(cudaEventRecord(events.end), "timing the read probe"));
    FOURFOLD_TRY(checked(cudaEventSynchronize(events.end), "running the read probe"));
    float ms = 0;
    FOURFOLD_TRY(checked(cudaEventElapsedTime(&ms, events.begin, events.end), "timing the read probe"));
    best = std::max(best, static_cast<double>(kProbeBytes) / (1e-3 * static_cast<double>(ms)));
  }
  return best;
}

}  // namespace fourfold::cuda
