// DRY by its definition, written a second time as a search; mirostat by the formulas of its paper.
#include "text/dry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "text/sampling.hpp"

namespace fourfold {
namespace {

SamplingOptions dry(float multiplier = 0.8f) {
  SamplingOptions o;
  o.dry_multiplier = multiplier;
  o.seed = 1;
  return o;
}

std::vector<float> penalties(const SamplingOptions& options, std::vector<int> text, int vocab,
                             DryBreakers breakers = {}) {
  Dry sampler(options, std::move(breakers));
  for (int id : text) sampler.accept(id);
  std::vector<float> logits(static_cast<std::size_t>(vocab), 0.0f);
  sampler.penalise(logits);
  return logits;
}

// The longest L such that the last L tokens also stand right before an earlier `token`.
int repetition(const std::vector<int>& text, int token) {
  int longest = 0;
  for (int at = 1; at < static_cast<int>(text.size()); ++at) {
    if (text[static_cast<std::size_t>(at)] != token) continue;
    int length = 0;
    while (length < at &&
           text[static_cast<std::size_t>(at - 1 - length)] == text[text.size() - 1 - static_cast<std::size_t>(length)])
      ++length;
    longest = std::max(longest, length);
  }
  return longest;
}

TEST(Dry, PenaltyGrowsWithTheRepetition) {
  // "1 2 3 9 1 2 3": 9 would prolong a repetition of three tokens.
  const auto logits = penalties(dry(), {1, 2, 3, 9, 1, 2, 3}, 12);
  for (int id = 0; id < 12; ++id)
    EXPECT_FLOAT_EQ(logits[static_cast<std::size_t>(id)], id == 9 ? -0.8f * 1.75f : 0) << id;
  EXPECT_FLOAT_EQ(penalties(dry(), {7, 3, 9, 1, 3}, 12)[9], 0);         // one token may be repeated
  EXPECT_FLOAT_EQ(penalties(dry(), {2, 3, 9, 1, 2, 3}, 12)[9], -0.8f);  // two are the first to cost
  EXPECT_FLOAT_EQ(penalties(dry(0), {1, 2, 3, 9, 1, 2, 3}, 12)[9], 0);
}

TEST(Dry, EqualsItsDefinitionOnRandomText) {
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<int> text;
    for (int i = 0; i < 60; ++i) text.push_back(static_cast<int>(random.next() % 3));
    SamplingOptions o = dry();
    o.dry_allowed_length = static_cast<int>(random.next() % 5);
    if (round % 2) o.dry_penalty_last_n = 1 + static_cast<int>(random.next() % 60);
    const auto logits = penalties(o, text, 3);
    const std::size_t seen = o.dry_penalty_last_n < 0 ? text.size() : static_cast<std::size_t>(o.dry_penalty_last_n);
    const std::vector<int> window(text.end() - static_cast<std::ptrdiff_t>(seen), text.end());
    for (int id = 0; id < 3; ++id) {
      const bool met = std::find(window.begin() + (window.empty() ? 0 : 1), window.end(), id) != window.end() ||
                       o.dry_allowed_length > 0;
      const int length = repetition(window, id);
      const bool costs =
          met && static_cast<int>(window.size()) > o.dry_allowed_length && length >= o.dry_allowed_length;
      const float expected = costs ? -0.8f * std::pow(1.75f, static_cast<float>(length - o.dry_allowed_length)) : 0;
      ASSERT_FLOAT_EQ(logits[static_cast<std::size_t>(id)], expected) << round << " token " << id;
    }
  }
}

TEST(Dry, BreakersEndWhatIsRepeated) {
  const std::vector<int> text = {1, 2, 5, 3, 4, 9, 1, 2, 5, 3, 4};
  EXPECT_FLOAT_EQ(penalties(dry(), text, 12)[9], -0.8f * std::pow(1.75f, 3.0f));
  EXPECT_FLOAT_EQ(penalties(dry(), text, 12, {{5, {}}})[9], -0.8f);  // 3 4 after the breaker
  EXPECT_FLOAT_EQ(penalties(dry(), text, 12, {{5, {3}}})[9], 0);     // 5 3 is the breaker: only 4 after it
  EXPECT_FLOAT_EQ(penalties(dry(), text, 12, {{5, {4}}})[9], -0.8f * std::pow(1.75f, 3.0f));  // 5 4 is not there
  EXPECT_FLOAT_EQ(penalties(dry(), text, 12, {{4, {}}})[9], 0);
}

TEST(Dry, LongRepetitionsStayNumbers) {
  const auto logits = penalties(dry(), std::vector<int>(5000, 1), 3);
  EXPECT_TRUE(std::isfinite(logits[1]) || logits[1] == -std::numeric_limits<float>::infinity());
  EXPECT_LT(logits[1], -1e30f);
  EXPECT_EQ(logits[2], 0);
}

TEST(Dry, TheSamplerPenalisesBeforeItIsGreedy) {
  SamplingOptions o = dry(10);
  o.temperature = 0;
  Sampler sampler(o, 12);
  for (int id : {1, 2, 3, 9, 1, 2, 3}) sampler.accept(id);
  std::vector<float> logits(12, 0.0f);
  logits[9] = 5;
  logits[4] = 1;
  EXPECT_EQ(sampler.sample(logits), 4);
  sampler.reset();
  EXPECT_EQ(sampler.sample(logits), 9);
}

// A row whose probabilities fall as 1 / rank^s.
std::vector<float> zipf(std::size_t n, double s) {
  std::vector<float> logits;
  for (std::size_t i = 1; i <= n; ++i) logits.push_back(static_cast<float>(-s * std::log(static_cast<double>(i))));
  return logits;
}

class Mirostat : public testing::TestWithParam<int> {};

TEST_P(Mirostat, SteersTheSurprise) {
  const auto logits = zipf(5000, 1.1);
  for (const float tau : {2.0f, 4.0f, 6.0f}) {
    SamplingOptions o;
    o.temperature = 1;
    o.mirostat = GetParam();
    o.mirostat_tau = tau;
    o.seed = 7;
    Sampler sampler(o, static_cast<int>(logits.size()));
    double total = 0, sum = 0;
    for (float x : logits) total += std::exp(static_cast<double>(x));
    std::map<int, int> counts;
    constexpr int kDraws = 1500;
    for (int i = 0; i < kDraws; ++i) ++counts[sampler.sample(logits)];
    // What steers is the surprise among the tokens kept; that of the whole row is higher by what was cut.
    for (const auto& [id, count] : counts)
      sum -= count * std::log2(std::exp(static_cast<double>(logits[static_cast<std::size_t>(id)])) / total);
    EXPECT_GT(sum / kDraws, tau - 0.3);
    EXPECT_LT(sum / kDraws, tau + 2.5);
  }
}

TEST_P(Mirostat, CutsAtTwiceTheTargetFirst) {
  // mu is 2 tau at first: of probabilities 1/2, 1/4, 1/8, 1/8 those above 2 bits go for tau 1.
  std::vector<float> logits;
  for (const double p : {0.5, 0.25, 0.125, 0.125}) logits.push_back(static_cast<float>(std::log(p)));
  for (int seed = 0; seed < 100; ++seed) {
    SamplingOptions o;
    o.temperature = 1;
    o.mirostat = GetParam();
    o.mirostat_tau = 1;
    o.seed = static_cast<std::uint64_t>(seed);
    const int id = Sampler(o, 4).sample(logits);
    EXPECT_LT(id, GetParam() == 2 ? 2 : 4);
    o.mirostat_tau = 0;  // nothing may surprise
    EXPECT_EQ(Sampler(o, 4).sample(logits), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Versions, Mirostat, testing::Values(1, 2));

}  // namespace
}  // namespace fourfold
