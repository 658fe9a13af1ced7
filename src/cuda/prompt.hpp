// Prompt: the launches of a plan for many tokens at once. Each step is one tiled kernel, or a few; the head stays a
// Project of one token, for the tokens whose logits are wanted.
#pragma once

#include <span>

#include "cuda/gemm.hpp"
#include "cuda/plan.hpp"

namespace fourfold::cuda {

class Prompt {
 public:
  // For up to `batch` tokens at once; `memory` outlives it.
  static result<Prompt> make(const Program& program, const DeviceWeights& weights, const SequenceMemory& memory,
                             const ArenaPlan& arena, int batch);

  // All steps but the head; the sequence's state holds the position of ids[0]. The stream reads `ids` later: they lie
  // in page-locked memory.
  cudaError_t run(std::span<const int> ids, cudaStream_t stream) const;
  // The head for token `token` of the last run.
  DeviceProject head(int token) const;
  // Value [tokens, width] of the last run, on the device; null for the logits.
  const float* value(std::size_t v) const;

 private:
  cudaError_t launch(const DeviceStep& step, int tokens, bool programmatic, cudaStream_t stream) const;

  int batch_ = 0;
  DevicePlan plan_;
  DeviceMemory arena_, raw_, panels_, scale_, tiles_, ids_;
};

// out[t] = scale * row ids[t] of the table.
cudaError_t embed_prompt(const WeightRun& table, float scale, const int* ids, int tokens, float* out, bool programmatic,
                         cudaStream_t stream);

}  // namespace fourfold::cuda
