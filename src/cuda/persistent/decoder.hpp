// Decoder: the persistent arm of one sequence. One cooperative launch evaluates and samples many tokens; ids appear in
// host memory as they are sampled. It shares weights and caches with the arms that launch kernels step by step.
#pragma once

#include <memory>
#include <span>

#include "cuda/executor.hpp"
#include "cuda/persistent/records.hpp"
#include "cuda/persistent/timeline.hpp"

namespace fourfold::cuda::persistent {

struct Instance;

class Decoder {
 public:
  // unsupported: lists, one a line, what the persistent kernels do not run, or says that a grid of options.grid CTAs
  // would not be resident at once. `memory` outlives the Decoder.
  static result<std::unique_ptr<Decoder>> make(const CudaModel& model, const SequenceMemory& memory,
                                               const PlanOptions& options);

  // As Executor::decode, on `stream`; returns when every id is known. A launch that stops moving for `kPatience` ends
  // with a status that names the step, the CTA and what it waited for. logits: [ids.size(), vocab] on the device, or
  // null.
  status decode(int id, int position, float temperature, std::uint64_t seed, std::span<int> ids, cudaStream_t stream,
                float* logits = nullptr);
  // The last of a few tokens from `position` on, measured.
  result<Traced> trace(int id, int position, cudaStream_t stream);

 private:
  static constexpr int kLaunchTokens = 1024;
  static constexpr int kTracedTokens = 8;
  static constexpr std::uint64_t kPatience = 2'000'000'000;  // nanoseconds

  Decoder(const Program& program, const Instance& instance, Plan plan)
      : program_(program), instance_(instance), plan_(std::move(plan)) {}
  status prepare(const CudaModel& model, const SequenceMemory& memory);
  status join_vectors(const CudaModel& model, Weight Dot::*what, std::vector<std::uint64_t>& places);
  status stalled(cudaStream_t stream) const;

  const Program& program_;
  const Instance& instance_;
  Plan plan_;
  Launch launch_{};
  std::vector<DeviceMemory> memory_;
  PinnedMemory ids_;
};

}  // namespace fourfold::cuda::persistent
