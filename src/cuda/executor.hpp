// CudaExecutor: one sequence on a device. A token is a chain of launches: the stream arm launches them one after the
// other, the graph arm captured them once, with programmatic launches, so that kernels fetch weights while the one
// before them ends. Id and position live on the device; a token that samples needs nothing from the host. Two tokens
// and more run as a Prompt.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "cuda/plan.hpp"
#include "cuda/prompt.hpp"

namespace fourfold::cuda {

namespace persistent {
class Decoder;
struct Traced;
}  // namespace persistent

struct CudaModel {
  Program program;
  DeviceInfo device;
  DeviceWeights weights;
};

class CudaExecutor : public Executor {
 public:
  static result<std::unique_ptr<Executor>> make(std::shared_ptr<const CudaModel> model, const PlanOptions& options);
  ~CudaExecutor() override;

  status forward(std::span<const int> ids, int position, int wanted, float* logits) override;
  bool decodes(const Choice& choice) const override;
  status decode(int id, int position, const Choice& choice, std::span<int> ids) override;

  int rewind(int position) override { return position; }
  result<std::unique_ptr<Executor>> fork() const override;
  std::size_t cache_bytes() const override;
  void read_states(std::span<float>) const override {}
  void write_states(std::span<const float>) override {}
  std::string_view row_format() const override;
  std::size_t row_bytes(int cache) const override;
  void read_rows(int cache, int first, int count, std::byte* out) const override;
  status jump(int) override { return {}; }
  void write_rows(int cache, int first, int count, const std::byte* in) override;
  status randomize_cache(int positions, std::uint64_t seed) override;
  // The last of a few tokens behind `position` on the persistent kernel. unsupported: another executor.
  result<persistent::Traced> trace(int id, int position);
  const float* value(Value v) const override;
  void cached(int cache, int position, int head, float* key, float* value) const override;

 private:
  // What a token ends with.
  enum class End { caches, logits, sample };
  static constexpr int kIds = 1024;  // sampled ids that the host's memory holds

  CudaExecutor(std::shared_ptr<const CudaModel> model, const PlanOptions& options);
  status prepare();
  void note(cudaError_t error, const char* doing) const;
  void run_token(End end);
  cudaError_t launch_token(End end, bool programmatic);
  cudaError_t capture(End end, cudaGraphExec_t& graph);
  void choose_by(const Choice& choice);
  void set_state(TokenState state);
  void keep_values(std::size_t tokens);
  void run_prompt(std::span<const int> ids, int wanted, float* logits);
  void run_persistent(int id, int position, int wanted, float* logits);
  void take_logits(float* to);
  template <class F>
  void each_row(int cache, int first, int count, bool write, F f) const;

  std::shared_ptr<const CudaModel> model_;
  PlanOptions options_;
  bool graph_;
  std::unique_ptr<persistent::Decoder> persistent_;  // decodes, when asked for
  mutable status health_;                            // not ok once the device has failed
  SequenceMemory memory_;
  DevicePlan plan_;
  Prompt prompt_;
  Choice choice_;  // of the graph that samples
  Filter filter_;
  Sampling sampling_;
  cudaStream_t stream_ = nullptr;
  std::array<cudaGraphExec_t, 3> graphs_{};  // by End; captured when first run
  // The next token's state; a prompt's ids; sampled ids; logits.
  PinnedMemory staging_, prompt_ids_, ids_, row_;
  std::vector<std::vector<float>> values_;  // debug: per Value, of the last forward
};

}  // namespace fourfold::cuda
