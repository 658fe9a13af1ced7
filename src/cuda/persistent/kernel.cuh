// The persistent kernel: one CTA on each SM interprets its list of tasks, for as many tokens as a launch asks for.
// Memory binds: the weights, and the keys and values in sight, are read once a token.
#pragma once

#include "cuda/persistent/announcer.cuh"
#include "cuda/persistent/attend.cuh"
#include "cuda/persistent/consumer.cuh"
#include "cuda/persistent/loader.cuh"
#include "cuda/persistent/producer.cuh"
#include "cuda/sm90/registers.cuh"

namespace fourfold::cuda::persistent {

template <class S>
__device__ void prepare(const Launch& launch, Shared<S>& shared) {
  if (threadIdx.x == 0) {
    for (int i = 0; i < S::kStages; ++i) {
      sm90::Barrier{sm90::shared_address(&shared.full[i])}.init(1);
      sm90::Barrier{sm90::shared_address(&shared.empty[i])}.init(kConsumerWarps);
    }
    for (int i = 0; i < S::kSlices; ++i) {
      sm90::Barrier{sm90::shared_address(&shared.slice_full[i])}.init(1);
      sm90::Barrier{sm90::shared_address(&shared.slice_empty[i])}.init(kConsumerWarps);
    }
    for (int i = 0; i < kPosts; ++i) {
      sm90::Barrier{sm90::shared_address(&shared.posted[i])}.init(kConsumerWarps);
      sm90::Barrier{sm90::shared_address(&shared.announced[i])}.init(1);
    }
    sm90::publish_barriers();
    shared.appended = 0;
    shared.dead = 0;
  }
  for (int i = threadIdx.x; i < launch.counters; i += kThreads) shared.targets[i] = launch.targets[i];
  __syncthreads();
}

template <class S>
__global__ void __launch_bounds__(kThreads, 1) persistent_step(const __grid_constant__ Launch launch) {
  extern __shared__ std::uint8_t bytes[];
  auto& shared = *reinterpret_cast<Shared<S>*>(bytes);
  prepare<S>(launch, shared);
  const int warp = threadIdx.x / 32;
  const Tasks tasks(launch.records + static_cast<std::int64_t>(blockIdx.x) * launch.stride, launch.counts[blockIdx.x],
                    shared.records[warp]);
  if (warp < kConsumerWarps) {
    sm90::take_registers<S::kConsumerRegisters>();
    Consumer<S>(launch, shared).run(tasks);
  } else {
    sm90::give_registers<S::kHelperRegisters>();
    if (warp < kConsumerWarps + S::kWorkingLoaders) {
      Loader<S>(launch, shared, warp - kConsumerWarps).run(tasks);
    } else if (warp == kAnnouncer) {
      Announcer<S>(launch, shared).run(tasks);
    } else if (warp == kProducer) {
      Producer<S>(launch, shared).run(tasks);
    }
  }
}

}  // namespace fourfold::cuda::persistent
