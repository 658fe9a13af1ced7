// Session::State: the ids evaluated so far, the executor that holds their keys and values, and the last logits.
#pragma once

#include <memory>
#include <vector>

#include "engine/model_state.hpp"

namespace fourfold {

struct FOURFOLD_LOCAL Session::State {
  Model model;
  std::shared_ptr<Backend> backend;
  SessionOptions options;  // as asked for, `context` and `cache` resolved
  PlanOptions plan;
  std::unique_ptr<Executor> executor;
  std::vector<int> ids;
  std::vector<float> logits;  // [wanted, vocab]

  static result<std::unique_ptr<State>> make(const Model& model, std::shared_ptr<Backend> backend,
                                             const SessionOptions& options);
};

// What runs a Session's Program, for those who look at Values and weights: check, and the probes of the program.
Executor& executor_of(Session& session);

}  // namespace fourfold
