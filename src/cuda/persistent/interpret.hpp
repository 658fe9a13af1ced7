// Interpreter of a plan on the host: the same tasks, counters, buffers and chains as the persistent kernel, in float,
// in any order that the counters allow. Shows that a plan computes what its Program says, with no GPU.
#pragma once

#include <memory>

#include "cuda/persistent/plan.hpp"
#include "program/backend.hpp"

namespace fourfold::cuda::persistent {

class Interpreter {
 public:
  // `plan` has passed validate().
  static result<std::unique_ptr<Interpreter>> make(const Program& program, Plan plan, const WeightBytes& bytes);
  virtual ~Interpreter() = default;

  // Greedy tokens behind `first_id` at `position`; of the tasks that are ready, `seed` picks the next. `logits`, when
  // set, gets [tokens, vocab]. malformed when no task is ready, or when it reads what was never written.
  virtual result<std::vector<int>> run(int first_id, int position, int tokens, std::uint64_t seed,
                                       std::vector<float>* logits = nullptr) = 0;
};

}  // namespace fourfold::cuda::persistent
