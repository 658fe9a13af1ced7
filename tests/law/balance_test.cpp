// Loads of experts: counted, limited, kept even; choices by hash and by experts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fourfold/balance.hpp>
#include <fourfold/dispatch.hpp>
#include <set>

#include "random.hpp"

namespace fourfold {
namespace {

using test::Random;

TEST(Balance, CountsAndViolation) {
  const std::vector<int> ids{0, 1, 0, 3, -1, 0};
  const auto counts = count_choices({ids.data(), 3, 2}, 4);
  EXPECT_EQ(counts, (std::vector{3, 1, 0, 1}));
  EXPECT_DOUBLE_EQ(max_violation(counts), 3 / 1.25 - 1);
  EXPECT_EQ(max_violation(std::vector<int>(5, 0)), 0);
  EXPECT_EQ(max_violation(std::vector<int>(5, 9)), 0);
}

TEST(Balance, SignsPushTowardsTheMean) {
  const std::vector<int> counts{4, 2, 0, 2};
  std::vector<float> bias{1, 1, 1, 1};
  update_by_sign(counts, 0.25f, bias);
  EXPECT_EQ(bias, (std::vector<float>{0.75f, 1, 1.25f, 1}));
  const std::vector<int> uneven{8, 0, 0, 0};
  update_by_sign(uneven, 0.5f, bias, true);
  EXPECT_FLOAT_EQ(bias[0] + bias[1] + bias[2] + bias[3], 4) << "the mean stays";
  EXPECT_FLOAT_EQ(bias[0], 0.75f - 0.75f);
}

// From the definition, by sorting.
std::vector<float> quantile_by_sorting(const std::vector<float>& s, int tokens, int n, int k, std::vector<float> beta) {
  std::vector<float> alpha(tokens);
  for (int i = 0; i < tokens; ++i) {
    std::vector<float> row(n);
    for (int j = 0; j < n; ++j) row[j] = s[i * n + j] - beta[j];
    std::sort(row.rbegin(), row.rend());
    alpha[i] = row[k];
  }
  for (int j = 0; j < n; ++j) {
    std::vector<float> column(tokens);
    for (int i = 0; i < tokens; ++i) column[i] = s[i * n + j] - alpha[i];
    std::sort(column.rbegin(), column.rend());
    beta[j] = column[tokens * k / n];
  }
  return beta;
}

TEST(Balance, QuantilesAreExact) {
  Random random(70);
  for (const auto& [tokens, n, k] :
       {std::tuple(64, 8, 2), std::tuple(1, 7, 3), std::tuple(100, 7, 6), std::tuple(9, 64, 22)}) {
    const auto scores = random.normals(tokens * n);
    std::vector<float> beta = random.normals(n);
    const auto want = quantile_by_sorting(scores, tokens, n, k, beta);
    ASSERT_TRUE(update_by_quantile({scores.data(), tokens, n}, k, beta).ok());
    EXPECT_EQ(beta, want);
  }
  std::vector<float> scores(8), beta(4);
  EXPECT_FALSE(update_by_quantile({scores.data(), 2, 4}, 4, beta).ok());
  EXPECT_FALSE(update_by_quantile({scores.data(), 2, 4}, 0, beta).ok());
  EXPECT_FALSE(update_by_quantile({scores.data(), 0, 4}, 2, beta).ok());
  EXPECT_FALSE(update_by_quantile({scores.data(), 1, 8}, 2, beta).ok());
}

TEST(Balance, ShardsAreAveraged) {
  const std::vector<std::vector<float>> shards{{1, 2}, {3, 6}, {5, 1}};
  std::vector<float> mean(2);
  average(shards, mean);
  EXPECT_EQ(mean, (std::vector<float>{3, 3}));
}

TEST(Balance, AuxiliaryLossIsTheCoefficientWhenEven) {
  const std::vector<float> even(4 * 4, 0.25f);
  const std::vector<int> ids{0, 1, 2, 3, 0, 1, 2, 3}, all_first(8, 0);
  EXPECT_NEAR(auxiliary_loss({even.data(), 4, 4}, {ids.data(), 4, 2}, 0.01), 0.01, 1e-12);
  std::vector<float> certain(16, 0.f);
  for (int t = 0; t < 4; ++t) certain[t * 4] = 1;
  EXPECT_NEAR(auxiliary_loss({certain.data(), 4, 4}, {all_first.data(), 4, 2}, 0.01), 0.04, 1e-12);
  EXPECT_EQ(auxiliary_loss({even.data(), 0, 4}, {ids.data(), 0, 2}, 0.01), 0);
}

TEST(Balance, CapacityDropsByPositionOrByWeight) {
  const std::vector<float> weights{0.9f, 0.1f, 0.5f, 0.5f, 0.2f, 0.8f};
  const std::vector<int> ids{0, 1, 1,
                             0, 0, 1};  // expert 0: tokens 0, 1 (second choice), 2; expert 1: 0 (second), 1, 2 (second)
  std::vector<int> limited = ids;
  EXPECT_EQ(limit_capacity({limited.data(), 3, 2}, {weights.data(), 3, 2}, 2, 2, Drop::by_position), 2);
  EXPECT_EQ(limited, (std::vector{0, 1, 1, -1, 0, -1})) << "first choices go in front of second ones";
  limited = ids;
  EXPECT_EQ(limit_capacity({limited.data(), 3, 2}, {weights.data(), 3, 2}, 2, 2, Drop::by_weight), 2);
  EXPECT_EQ(limited, (std::vector{0, -1, 1, 0, -1, 1}));
  limited = ids;
  EXPECT_EQ(limit_capacity({limited.data(), 3, 2}, {weights.data(), 3, 2}, 2, 3, Drop::by_weight), 0);
  EXPECT_EQ(limited, ids) << "within capacity nothing is dropped";
  EXPECT_EQ(limit_capacity({limited.data(), 3, 2}, {weights.data(), 3, 2}, 2, 0, Drop::by_position), 6);
  const auto dispatch = Dispatch::make({limited.data(), 3, 2}, 2, 4);
  EXPECT_TRUE(dispatch.ok() && dispatch->tiles().empty()) << "empty experts have no tiles";
}

TEST(Balance, ExpertsChooseTheirTokens) {
  const std::vector<float> logits{5, 0, 0, 5, 5, 5};  // three tokens, two experts
  std::vector<int> tokens(4);
  std::vector<float> weights(4);
  ASSERT_TRUE(choose_tokens({logits.data(), 3, 2}, {tokens.data(), 2, 2}, {weights.data(), 2, 2}).ok());
  EXPECT_EQ(tokens, (std::vector{0, 2, 1, 2}));
  EXPECT_NEAR(weights[0], 1 / (1 + std::exp(-5.0)), 1e-6);
  EXPECT_NEAR(weights[1], 0.5, 1e-6);
  EXPECT_FALSE(choose_tokens({logits.data(), 1, 2}, {tokens.data(), 2, 2}, {weights.data(), 2, 2}).ok());
}

TEST(Balance, HashesAreDistinctAndTheTokensOwn) {
  const std::vector<int> tokens{7, 8, 7, 123456};
  for (const auto& [experts, k] : {std::pair(1, 1), std::pair(7, 7), std::pair(896, 16)}) {
    std::vector<int> ids(4 * k), other(4 * k);
    std::vector<float> weights(4 * k);
    ASSERT_TRUE(choose_by_hash(tokens, experts, 1, {ids.data(), 4, k}, {weights.data(), 4, k}).ok());
    ASSERT_TRUE(choose_by_hash(tokens, experts, 2, {other.data(), 4, k}, {weights.data(), 4, k}).ok());
    EXPECT_TRUE(std::equal(ids.begin(), ids.begin() + k, ids.begin() + 2 * k));
    if (experts > 7) {
      EXPECT_NE(ids, other) << "the seed counts";
    }
    for (int t = 0; t < 4; ++t) {
      const std::set<int> row(ids.begin() + t * k, ids.begin() + (t + 1) * k);
      EXPECT_EQ(static_cast<int>(row.size()), k);
      EXPECT_TRUE(*row.begin() >= 0 && *row.rbegin() < experts);
    }
  }
  std::vector<int> many(20000), ids(20000);
  for (int t = 0; t < 20000; ++t) many[t] = t;
  std::vector<float> weights(20000);
  ASSERT_TRUE(choose_by_hash(many, 16, 3, {ids.data(), 20000, 1}, {weights.data(), 20000, 1}).ok());
  EXPECT_LT(max_violation(count_choices({ids.data(), 20000, 1}, 16)), 0.1);
}

// All tokens to one expert, none to most others.
TEST(Balance, LoadsOfAnyNumberOfExpertsCoverTheirTiles) {
  for (int experts : {1, 7, 64, 256, 896})
    for (int only : {0, experts - 1}) {
      const std::vector<int> ids(300, only);
      const auto dispatch = Dispatch::make({ids.data(), 300, 1}, experts, 64);
      ASSERT_TRUE(dispatch.ok());
      EXPECT_EQ(dispatch->tiles().size(), 5u);
      for (const auto& tile : dispatch->tiles()) EXPECT_EQ(tile.expert, only);
      EXPECT_DOUBLE_EQ(max_violation(count_choices({ids.data(), 300, 1}, experts)), experts - 1.0);
    }
}

}  // namespace
}  // namespace fourfold
