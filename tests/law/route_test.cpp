#include <gtest/gtest.h>

#include <cmath>
#include <fourfold/fold.hpp>
#include <fourfold/route.hpp>
#include <numeric>

#include "random.hpp"
#include "route_case.hpp"

namespace fourfold {
namespace {

using test::choose;
using test::Chosen;
using test::Random;

// Selection may differ from weight. DeepSeek-V3 report, section 2.1.2
struct SigmoidBias {
  std::span<const float> bias;
  float scale;
  static constexpr auto normalise = Normalise::over_selected;
  constexpr float select(float z, int expert) const { return sigmoid(z) + bias[expert]; }
  constexpr float weight(float z, int /*expert*/) const { return sigmoid(z); }
};
struct Sigmoid {
  static constexpr auto normalise = Normalise::none;
  constexpr float select(float z, int) const { return z; }
  constexpr float weight(float z, int) const { return sigmoid(z); }
};

// Fault M4: the order of softmax and selection, and the gating function, are the rule's.
TEST(Route, GatingAndRenormalisationAsTheRuleSays) {
  const std::vector<float> logits{2, 1, 0, -1};
  const auto expect = [&](const auto& rule, float first, float second) {
    for (const Chosen& c : {choose(rule, 2, logits, 4, reference), choose(rule, 2, logits, 4, Team{2})}) {
      EXPECT_EQ(c.ids, (std::vector{0, 1}));
      EXPECT_NEAR(c.weights[0], first, 5e-5 * (1 + first));  // four digits are given
      EXPECT_NEAR(c.weights[1], second, 5e-5 * (1 + first));
    }
  };
  expect(Softmax<Normalise::over_all>{}, 0.6439f, 0.2369f);
  expect(Softmax<Normalise::over_selected>{}, 0.7311f, 0.2689f);
  expect(Softmax<Normalise::over_selected>{2.5f}, 1.8276f, 0.6724f);
  expect(Sigmoid{}, 0.8808f, 0.7311f);
  const std::vector<float> bias(4, 0.f);
  expect(SigmoidBias{bias, 2.5f}, 1.3661f, 1.1339f);
}

TEST(Route, BiasSelectsAndDoesNotWeigh) {
  const std::vector<float> logits{2, 1, 0, -1}, bias{0, 0, 0, 12};
  const Chosen c = choose(SigmoidBias{bias, 1}, 2, logits, 4, Team{1});
  EXPECT_EQ(c.ids, (std::vector{3, 0}));
  const double a = 1 / (1 + std::exp(1.0)), b = 1 / (1 + std::exp(-2.0));
  EXPECT_NEAR(c.weights[0], a / (a + b), 1e-6);
  EXPECT_NEAR(c.weights[1], b / (a + b), 1e-6);
}

TEST(Route, UnderflownSigmoidsGiveNoNaN) {
  const std::vector<float> bias(4, 0.f);
  for (float x : choose(SigmoidBias{bias, 1}, 2, std::vector<float>(4, -200.f), 4, Team{1}).weights) EXPECT_EQ(x, 0);
}

// Fault M1: rows of NaN and infinities choose distinct experts in range, and the other rows keep their bits.
TEST(Route, NaNAndInfiniteRowsStayInRange) {
  constexpr int kExperts = 128, kChosen = 8;
  Random random(50);
  auto logits = random.normals(5 * kExperts);
  const auto clean = choose(Softmax<Normalise::over_selected>{}, kChosen, logits, kExperts, Team{2});
  const auto fill = [&](int row, float x) { std::fill_n(logits.begin() + row * kExperts, kExperts, x); };
  fill(0, kNaN<float>), fill(1, kInfinity<float>), fill(2, -kInfinity<float>);
  logits[3 * kExperts + 70] = kNaN<float>;
  const auto c = choose(Softmax<Normalise::over_selected>{}, kChosen, logits, kExperts, Team{2});
  for (int row = 0; row < 5; ++row) {
    std::vector<bool> seen(kExperts);
    for (int i = 0; i < kChosen; ++i) {
      const int id = c.ids[row * kChosen + i];
      ASSERT_TRUE(id >= 0 && id < kExperts && !seen[id]) << row;
      seen[id] = true;
    }
    if (row == 3) {
      EXPECT_FALSE(seen[70]) << "NaN is chosen last";
    }
  }
  for (int i = 0; i < kChosen; ++i) {
    EXPECT_EQ(c.weights[1 * kChosen + i], 1.f / kChosen);
    EXPECT_EQ(c.weights[2 * kChosen + i], 1.f / kChosen);
    EXPECT_EQ(c.ids[4 * kChosen + i], clean.ids[4 * kChosen + i]);
    EXPECT_EQ(c.weights[4 * kChosen + i], clean.weights[4 * kChosen + i]);
  }
}

// Fault M6: equal scores choose the lowest experts, each time, for any threads.
TEST(Route, TiesGoToTheLowestExperts) {
  std::vector<int> want(2048);
  std::iota(want.begin(), want.end(), 0);
  const std::vector<float> logits(4096, 0.25f);
  for (int threads : {1, 2, 7})
    for (int repeat = 0; repeat < 20; ++repeat)
      ASSERT_EQ(choose(Softmax<Normalise::over_selected>{}, 2048, logits, 4096, Team{threads}).ids, want);
}

TEST(Route, RefusesWhatDoesNotFit) {
  const std::vector<float> logits(8);
  std::vector<int> ids(4);
  std::vector<float> weights(4);
  const Route none{Softmax<Normalise::over_all>{}, 0}, many{Softmax<Normalise::over_all>{}, 5};
  const Rows rows{logits.data(), 2, 4};
  EXPECT_FALSE(none.on(reference).choose(rows, {ids.data(), 2, 0}, {weights.data(), 2, 0}).ok());
  EXPECT_NE(many.on(reference)
                .choose(rows, {ids.data(), 2, 2}, {weights.data(), 2, 2})
                .message()
                .find("k is 5, must be in [1, 4]"),
            std::string::npos);
}

// Fault M5: one expert takes more than a tile of tokens, others none; empty slots add nothing; no token at all.
TEST(Dispatch, EqualsTheDenseSum) {
  Random random(51);
  constexpr int kExperts = 5, kIn = 12, kOut = 7;
  const auto experts = random.normals(kExperts * kOut * kIn);  // [experts, out, in]
  const auto check = [&](int tokens, int k, auto id_of) {
    const auto x = random.normals(std::size_t(tokens) * kIn), weights = random.normals(std::size_t(tokens) * k);
    std::vector<int> ids(tokens * k);
    for (int slot = 0; slot < tokens * k; ++slot) ids[slot] = id_of(slot / k, slot % k);
    const auto dispatch = Dispatch::make({ids.data(), tokens, k}, kExperts, 64);
    ASSERT_TRUE(dispatch.ok()) << dispatch.error().message();

    const int rows = static_cast<int>(dispatch->slots().size());
    std::vector<float> made(std::size_t(rows) * kOut), out(std::size_t(tokens) * kOut);
    int covered = 0;
    for (const auto& tile : dispatch->tiles()) {
      EXPECT_EQ(tile.first, covered) << "tiles cover the sorted rows in order";
      EXPECT_TRUE(tile.rows >= 1 && tile.rows <= 64);
      covered += tile.rows;
    }
    EXPECT_EQ(covered, rows);
    const Rows stack(experts.data(), kExperts * kOut, kIn), tokens_in(x.data(), tokens, kIn);
    ASSERT_TRUE(
        Fold(Full{}, Sum{}).on(Team{2}).multiply(tokens_in, stack, *dispatch, Rows{made.data(), rows, kOut}).ok());
    ASSERT_TRUE(
        dispatch->combine({made.data(), rows, kOut}, {weights.data(), tokens, k}, {out.data(), tokens, kOut}).ok());

    for (int token = 0; token < tokens; ++token)
      for (int c = 0; c < kOut; ++c) {
        double want = 0;
        for (int choice = 0; choice < k; ++choice) {
          const int e = ids[token * k + choice];
          if (e < 0) continue;
          for (int i = 0; i < kIn; ++i)
            want += double(weights[token * k + choice]) * double(x[token * kIn + i]) *
                    double(experts[(e * kOut + c) * kIn + i]);
        }
        ASSERT_NEAR(out[token * kOut + c], want, 2e-5);
      }
  };
  check(257, 1, [](int, int) { return 3; });
  check(257, 2, [](int, int choice) { return choice ? -1 : 3; });
  check(100, 2, [](int token, int choice) { return (token * 7 + choice) % kExperts; });
  check(10, 2, [](int, int) { return -1; });
  check(10, 2, [](int, int) { return 4; });  // both choices the same expert
  check(0, 2, [](int, int) { return 0; });
}

TEST(Dispatch, RefusesExpertsOutOfRange) {
  const std::vector<int> ids{0, 5}, below{0, -2};
  EXPECT_NE(Dispatch::make({ids.data(), 1, 2}, 5, 64).error().message().find("expert 5 of token 0"), std::string::npos);
  EXPECT_FALSE(Dispatch::make({below.data(), 1, 2}, 5, 64).ok());
  EXPECT_FALSE(Dispatch::make({ids.data(), 1, 2}, 6, 0).ok());
  const auto good = Dispatch::make({ids.data(), 1, 2}, 6, 4);
  std::vector<float> made(2 * 3), weights(2), out(3);
  EXPECT_TRUE(good->combine({made.data(), 2, 3}, {weights.data(), 1, 2}, {out.data(), 1, 3}).ok());
  EXPECT_FALSE(good->combine({made.data(), 1, 3}, {weights.data(), 1, 2}, {out.data(), 1, 3}).ok());
  EXPECT_FALSE(good->combine({made.data(), 2, 3}, {weights.data(), 2, 1}, {out.data(), 1, 3}).ok());
  EXPECT_FALSE(good->combine({made.data(), 2, 2}, {weights.data(), 1, 2}, {out.data(), 1, 3}).ok());
  const std::vector<float> x(4), experts(6 * 3 * 4);
  const auto fits = [&](int tokens, int rows, int sorted) {
    return Fold(Full{}, Sum{})
        .on(reference)
        .multiply(Rows{x.data(), tokens, 4}, Rows{experts.data(), rows, 4}, *good, Rows{made.data(), sorted, 3})
        .ok();
  };
  EXPECT_TRUE(fits(1, 18, 2));
  EXPECT_FALSE(fits(0, 18, 2));
  EXPECT_FALSE(fits(1, 15, 2));
  EXPECT_FALSE(fits(1, 18, 1));
}

}  // namespace
}  // namespace fourfold
