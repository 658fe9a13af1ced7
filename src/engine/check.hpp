// An executor against the reference, step by step: each step is recomputed in double from the executor's own inputs and
// its own rounding of activations, so that an error shows where it is made and only float32 rounding is left.
#pragma once

#include <fourfold/session.hpp>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "program/backend.hpp"

namespace fourfold {

// One output of one step. The distance is 1 - 2<x,y> / (|x|^2 + |y|^2), about half the squared relative error.
struct StepCheck {
  std::string step;    // "blk.3.qkv"
  std::string output;  // "query", "key", "value", or the Value's name
  double distance = 0;
  double tolerance = 0;  // of the distance: float32 rounding; of keys and values, what their storage costs
  struct Mismatch {
    int token = 0, column = 0;
    double got = 0, expected = 0;
  };
  std::optional<Mismatch> worst;  // the first NaN or infinity out of place, else the largest difference, if it fails
  bool ok() const { return !worst.has_value(); }
};

// Evaluates `ids` (at least 2) in a fresh debug Session of `model`: all but the last at once, then the last alone; both
// are compared. `bytes` holds the model's weights. `progress` gets the fraction of the comparison that is done.
result<std::vector<StepCheck>> check_against_reference(const Model& model, SessionOptions options,
                                                       const WeightBytes& bytes, std::span<const int> ids,
                                                       const std::function<void(double)>& progress = {});

// Whether two runs over the same ids gave the same bits.
struct RepeatCheck {
  int steps = 0;
  std::optional<int> logits_differ;  // the first step whose logits did
  std::optional<int> ids_differ;     // the same of ids that the executor sampled by itself, at temperature 1
  bool ok() const { return !logits_differ && !ids_differ; }
};

// Decodes `steps` tokens (at least 1) one by one in a fresh Session, then all again; each id is drawn from the checksum
// of the logits before it. Where the executor chooses ids by itself, it samples as many, twice.
result<RepeatCheck> check_repeats(const Model& model, SessionOptions options, int steps,
                                  const std::function<void(double)>& progress = {});

}  // namespace fourfold
