// A simulation of load balancing: a skewed stream of tokens, a router that learns nothing, a rule that shifts choices.
#pragma once

#include <cstdint>
#include <fourfold/status.hpp>
#include <string_view>
#include <vector>

namespace fourfold {

// Scores are sigmoids of independent normal logits plus a normal offset of each expert that stays, times `skew`.
struct BalanceOptions {
  enum class Rule { none, sign, quantile };
  Rule rule = Rule::quantile;
  int tokens = 1024, experts = 32, chosen = 4, steps = 20;
  int shards = 1;  // parts of a batch that update by themselves and are averaged
  float rate = 1e-3f, skew = 1;
  std::uint64_t seed = 1;
};

// Maximum violation (balance.hpp) of each step; choices are made before the update. Refuses sizes that do not fit.
result<std::vector<double>> simulate_balance(const BalanceOptions& options);

}  // namespace fourfold
