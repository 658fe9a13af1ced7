// The simulation of MATH's section on routing rules: medians over 20 seeds.
#include "lab/balance.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace fourfold {
namespace {

using Rule = BalanceOptions::Rule;

// The median of each step's violation.
std::vector<double> medians(Rule rule, int steps, int shards = 1) {
  std::vector<std::vector<double>> by_step(static_cast<std::size_t>(steps));
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto violations = simulate_balance({.rule = rule, .steps = steps, .shards = shards, .seed = seed});
    EXPECT_TRUE(violations.ok());
    for (std::size_t i = 0; i < by_step.size(); ++i) by_step[i].push_back((*violations)[i]);
  }
  std::vector<double> out;
  for (auto& found : by_step) {
    std::nth_element(found.begin(), found.begin() + 10, found.end());
    out.push_back(found[10]);
  }
  return out;
}

TEST(Balance, WithoutARuleStaysUneven) { EXPECT_GT(medians(Rule::none, 3)[2], 2.5); }
TEST(Balance, QuantilesLevelAtOnce) {
  const auto violation = medians(Rule::quantile, 6);
  EXPECT_GT(violation[0], 2.5) << "the first batch is chosen before any update";
  EXPECT_LT(violation[1], 0.6);
  EXPECT_LT(violation[5], 0.4);
}
TEST(Balance, QuantilesOfShardsLevelToo) { EXPECT_LT(medians(Rule::quantile, 3, 8)[2], 0.6); }
TEST(Balance, SignsLevelSlowly) {
  const auto violation = medians(Rule::sign, 300);
  EXPECT_GT(violation[49], 2.5);
  EXPECT_LT(violation[299], 0.4);
}

TEST(Balance, RefusesWhatDoesNotFit) {
  EXPECT_FALSE(simulate_balance({.chosen = 32}).ok());
  EXPECT_FALSE(simulate_balance({.chosen = 0}).ok());
  EXPECT_FALSE(simulate_balance({.tokens = 0}).ok());
  EXPECT_FALSE(simulate_balance({.shards = 3}).ok());
}

}  // namespace
}  // namespace fourfold
