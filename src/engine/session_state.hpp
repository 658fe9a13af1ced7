// Session::State: the ids evaluated so far, the executor that holds their keys and values, and the last logits.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "engine/model_state.hpp"

namespace fourfold {

struct FOURFOLD_LOCAL Session::State {
  Model model;
  std::shared_ptr<Backend> backend;
  const WeightBytes* weights;  // the model's
  SessionOptions options;      // as asked for, `context` and `cache` resolved
  PlanOptions plan;
  std::unique_ptr<Executor> executor;
  std::vector<int> ids;
  std::vector<float> logits;  // [wanted, vocab]
  int filled = 0;             // so many positions hold random values, not what their ids give

  // Evaluates ids in batches; the logits of the last `wanted` go to `out`.
  status advance(std::span<const int> more, int wanted, float* out, const std::atomic<bool>* cancel);

  static result<std::unique_ptr<State>> make(const Model& model, const WeightBytes& weights,
                                             std::shared_ptr<Backend> backend, const SessionOptions& options);
};

// What runs a Session's Program, for those who look at Values and weights: check, and the probes of the program.
Executor& executor_of(Session& session);

}  // namespace fourfold
