#include "text/sampling.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace fourfold {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Every filter off: samples from the plain softmax.
SamplingOptions plain() {
  SamplingOptions o;
  o.temperature = 1;
  o.top_k = 0;
  o.top_p = 1;
  o.min_p = 0;
  o.seed = 1;
  return o;
}

std::vector<float> random_logits(std::size_t n, std::uint64_t seed, int distinct = 0) {
  Random random(seed);
  std::vector<float> out(n);
  for (auto& x : out) {
    const double u = random.uniform();
    x = static_cast<float>(distinct ? std::floor(u * distinct) : 12 * u - 6);
  }
  return out;
}

std::map<int, int> histogram(const SamplingOptions& options, const std::vector<float>& logits, int draws) {
  Sampler sampler(options, static_cast<int>(logits.size()));
  std::map<int, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[sampler.sample(logits)];
  return counts;
}

std::vector<int> ids_drawn(const SamplingOptions& options, const std::vector<float>& logits) {
  std::vector<int> ids;
  for (const auto& [id, count] : histogram(options, logits, 4000)) ids.push_back(id);
  return ids;
}

std::vector<float> logs(std::vector<double> probabilities) {
  std::vector<float> out;
  for (double p : probabilities) out.push_back(static_cast<float>(std::log(p)));
  return out;
}

TEST(Argmax, LowestIndexFirstAndNanLast) {
  EXPECT_EQ(argmax(std::vector<float>{1, 3, 3, 2}), 1);
  EXPECT_EQ(argmax(std::vector<float>{kNan, 1, kNan, 2}), 3);
  EXPECT_EQ(argmax(std::vector<float>{kNan, -kInfinity, -kInfinity}), 1);
  EXPECT_EQ(argmax(std::vector<float>{kNan, kNan}), 0);
  EXPECT_EQ(argmax(std::vector<float>{-0.0f, 0.0f}), 0);
  EXPECT_EQ(argmax(std::vector<float>{1, kInfinity, kInfinity}), 1);
  EXPECT_EQ(argmax({}), 0);
}

TEST(Argmax, FindsItAtEveryPlaceOfEverySize) {
  for (std::size_t n : {1, 2, 15, 16, 17, 1023, 1024, 1025, 2049, 5000})
    for (std::size_t at : {std::size_t{0}, n / 3, n / 2, n - 1}) {
      std::vector<float> logits(n, -5.0f);
      logits[at] = -4.0f;
      if (at + 1 < n) logits[n - 1] = -4.0f;
      EXPECT_EQ(argmax(logits), static_cast<int>(at)) << n;
    }
}

TEST(TopK, EqualsTheFrontOfAFullSort) {
  for (std::size_t n : {1, 2, 63, 64, 65, 1000, 4097})
    for (int distinct : {0, 1, 3, 50})
      for (int k : {0, 1, 2, 40, 64, 5000}) {
        auto logits = random_logits(n, n + static_cast<std::size_t>(distinct), distinct);
        for (std::size_t i = 0; i < n; i += 7) logits[i] = i % 2 ? kNan : -kInfinity;
        std::vector<Candidate> sorted;
        for (std::size_t i = 0; i < n; ++i) sorted.push_back({static_cast<int>(i), logits[i]});
        std::stable_sort(sorted.begin(), sorted.end(), [](const Candidate& a, const Candidate& b) {
          if (std::isnan(a.logit)) return false;
          return std::isnan(b.logit) || a.logit > b.logit;
        });
        const auto best = top_k(logits, k);
        ASSERT_EQ(best.size(), std::min(n, static_cast<std::size_t>(k)));
        for (std::size_t i = 0; i < best.size(); ++i) ASSERT_EQ(best[i].id, sorted[i].id) << n << ' ' << k << ' ' << i;
      }
}

TEST(Sampler, TemperatureZeroIsArgmaxWhateverTheRest) {  // fault P1
  const std::vector<float> logits{.5f, -1.2f, 3.1f, .8f};
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (float top_p : {0.0f, 0.95f, 1.0f}) {
      for (float temperature : {0.0f, -1.0f}) {
        SamplingOptions o;
        o.seed = seed;
        o.temperature = temperature;
        o.top_p = top_p;
        o.dynatemp_range = top_p;
        o.xtc_probability = 1;
        ASSERT_EQ(Sampler(o, 4).sample(logits), 2);
      }
    }
  }
}

TEST(Sampler, RepeatPenaltyOncePerTokenAndAwayFromZero) {  // fault P3
  SamplingOptions o;
  o.repeat_penalty = 1.5f;
  Sampler sampler(o, 3);
  for (int id : {0, 1, 1}) sampler.accept(id);
  const auto row = sampler.penalised(std::vector<float>{2, -1, .5f});
  EXPECT_FLOAT_EQ(row[0], 1.3333333f);
  EXPECT_FLOAT_EQ(row[1], -1.5f);
  EXPECT_FLOAT_EQ(row[2], .5f);
}

TEST(Sampler, FrequencyCountsAndPresenceDoesNot) {
  SamplingOptions o;
  o.frequency_penalty = 0.5f;
  o.presence_penalty = 0.25f;
  Sampler sampler(o, 3);
  for (int id : {0, 1, 1, 1, -7, 3, 1 << 30}) sampler.accept(id);
  const auto row = sampler.penalised(std::vector<float>{2, -1, .5f});
  EXPECT_FLOAT_EQ(row[0], 1.25f);
  EXPECT_FLOAT_EQ(row[1], -2.75f);
  EXPECT_FLOAT_EQ(row[2], .5f);
}

TEST(Sampler, WindowForgetsTheOldest) {
  SamplingOptions o;
  o.presence_penalty = 1;
  const std::vector<float> zeros(5, 0.0f);
  for (int last_n : {-1, 0, 1, 2, 3}) {
    o.repeat_last_n = last_n;
    Sampler sampler(o, 5);
    for (int id : {0, 1, 2, 3, 3, 4}) sampler.accept(id);
    const auto row = sampler.penalised(zeros);
    const std::vector<int> order{4, 3, 3, 2, 1, 0};
    for (int id = 0; id < 5; ++id) {
      const auto reach = last_n < 0 ? order.end() : order.begin() + last_n;
      const bool inside = std::find(order.begin(), reach, id) != reach;
      EXPECT_EQ(row[static_cast<std::size_t>(id)], inside ? -1.0f : 0.0f) << last_n << ' ' << id;
    }
    sampler.reset();
    EXPECT_EQ(sampler.penalised(zeros)[4], 0.0f);
  }
}

TEST(Sampler, PenaltyReachesGreedy) {
  SamplingOptions o;
  o.temperature = 0;
  o.repeat_penalty = 2;
  Sampler sampler(o, 3);
  const std::vector<float> logits{2, 1.5f, 0};
  EXPECT_EQ(sampler.sample(logits), 0);
  sampler.accept(0);
  EXPECT_EQ(sampler.sample(logits), 1);
}

TEST(Sampling, KnowsWhenNothingButFiltersIsInForce) {
  EXPECT_TRUE(only_filters({}));
  EXPECT_TRUE(only_filters({.temperature = 0}));
  EXPECT_TRUE(only_filters({.temperature = 0, .repeat_last_n = 0, .repeat_penalty = 2}));
  EXPECT_TRUE(only_filters({.temperature = 0, .mirostat = 2}));
  EXPECT_TRUE(only_filters({.temperature = 0.5f, .top_k = 3, .top_p = 0.5f, .min_p = 0.5f}));
  for (const float temperature : {0.f, 0.5f}) {
    EXPECT_FALSE(only_filters({.temperature = temperature, .repeat_penalty = 1.1f}));
    EXPECT_FALSE(only_filters({.temperature = temperature, .frequency_penalty = 0.1f}));
    EXPECT_FALSE(only_filters({.temperature = temperature, .presence_penalty = 0.1f}));
    EXPECT_FALSE(only_filters({.temperature = temperature, .dry_multiplier = 0.8f}));
  }
  EXPECT_FALSE(only_filters({.dynatemp_range = 0.1f}));
  EXPECT_FALSE(only_filters({.typical_p = 0.9f}));
  EXPECT_FALSE(only_filters({.top_n_sigma = 1}));
  EXPECT_FALSE(only_filters({.xtc_probability = 0.1f}));
  EXPECT_FALSE(only_filters({.mirostat = 1}));
  EXPECT_FALSE(only_filters({.min_keep = 2}));
}

TEST(Sampler, OptionsOutOfRangeAreNamed) {  // fault P3
  struct Case {
    const char* field;
    float SamplingOptions::*member;
    std::vector<float> bad;
  };
  const std::vector<Case> cases = {
      {"temperature", &SamplingOptions::temperature, {kNan, kInfinity, -kInfinity}},
      {"dynatemp_range", &SamplingOptions::dynatemp_range, {kNan, -1, kInfinity}},
      {"dynatemp_exponent", &SamplingOptions::dynatemp_exponent, {kNan, 0, -1}},
      {"top_p", &SamplingOptions::top_p, {kNan, -0.1f, 1.1f}},
      {"min_p", &SamplingOptions::min_p, {kNan, -0.1f, 1.1f}},
      {"typical_p", &SamplingOptions::typical_p, {kNan, -0.1f, 1.1f}},
      {"top_n_sigma", &SamplingOptions::top_n_sigma, {kNan, kInfinity}},
      {"xtc_probability", &SamplingOptions::xtc_probability, {kNan, -1, 2}},
      {"xtc_threshold", &SamplingOptions::xtc_threshold, {kNan, -1, 2}},
      {"repeat_penalty", &SamplingOptions::repeat_penalty, {kNan, 0, -1, kInfinity}},
      {"frequency_penalty", &SamplingOptions::frequency_penalty, {kNan, kInfinity}},
      {"presence_penalty", &SamplingOptions::presence_penalty, {kNan, -kInfinity}},
  };
  EXPECT_TRUE(validate({}).ok());
  for (const auto& c : cases)
    for (float value : c.bad) {
      SamplingOptions o;
      o.*c.member = value;
      const auto s = validate(o);
      EXPECT_EQ(s.code(), Code::invalid_argument) << c.field << ' ' << value;
      EXPECT_EQ(s.message().rfind(std::string(c.field) + " is ", 0), 0u) << s.message();
    }
  SamplingOptions o;
  o.repeat_last_n = -2;
  EXPECT_EQ(validate(o).message(), "repeat_last_n is -2; give 0 (off), -1 (all tokens) or a count");
  o = {};
  o.min_keep = -1;
  EXPECT_FALSE(validate(o).ok());
}

TEST(Random, IsXoshiro256PlusPlusSeededBySplitMix64) {
  Random random(0);
  EXPECT_EQ(random.next(), 5987356902031041503u);
  EXPECT_EQ(random.next(), 7051070477665621255u);
  EXPECT_EQ(random.next(), 6633766593972829180u);
}

TEST(Sampler, SameSeedSameTokens) {
  const auto logits = random_logits(1000, 3);
  SamplingOptions o;
  o.seed = 42;
  Sampler a(o, 1000), b(o, 1000);
  o.seed = 43;
  Sampler c(o, 1000);
  int different = 0;
  for (int i = 0; i < 200; ++i) {
    const int id = a.sample(logits);
    ASSERT_EQ(id, b.sample(logits));
    different += id != c.sample(logits);
  }
  EXPECT_GT(different, 0);
  EXPECT_EQ(a.seed(), 42u);
}

// Chi-square of 20 candidates at 100000 draws: 19 degrees of freedom, 43.8 is the 0.1% point.
TEST(Sampler, DrawsFollowTheProbabilities) {
  for (float temperature : {0.5f, 1.0f, 2.0f}) {
    const auto logits = random_logits(20, 9);
    auto o = plain();
    o.temperature = temperature;
    std::vector<double> p;
    for (float x : logits) p.push_back(std::exp(x / temperature));
    const double total = std::accumulate(p.begin(), p.end(), 0.0);
    constexpr int kDraws = 100000;
    auto counts = histogram(o, logits, kDraws);
    double chi = 0, rare_expected = 0, rare_seen = 0;
    for (int i = 0; i < 20; ++i) {
      const double expected = kDraws * p[static_cast<std::size_t>(i)] / total;
      if (expected < 5) {
        rare_expected += expected, rare_seen += counts[i];
      } else {
        chi += (counts[i] - expected) * (counts[i] - expected) / expected;
      }
    }
    if (rare_expected > 0) chi += (rare_seen - rare_expected) * (rare_seen - rare_expected) / rare_expected;
    EXPECT_LT(chi, 43.8) << temperature;
  }
}

TEST(Sampler, TopKKeepsTiesByLowestIndex) {
  auto o = plain();
  o.top_k = 3;
  EXPECT_EQ(ids_drawn(o, {0, 1, 0, 0, 0}), (std::vector<int>{0, 1, 2}));
}

TEST(Sampler, TopPKeepsTheSmallestSetOfThatMass) {
  auto o = plain();
  const auto logits = logs({.1, .4, .2, .3});
  for (const auto& [top_p, ids] : std::vector<std::pair<float, std::vector<int>>>{
           {0.0f, {1}}, {.39f, {1}}, {.5f, {1, 3}}, {.75f, {1, 2, 3}}, {.95f, {0, 1, 2, 3}}, {1.0f, {0, 1, 2, 3}}}) {
    o.top_p = top_p;
    EXPECT_EQ(ids_drawn(o, logits), ids) << top_p;
  }
  o.top_p = 0;
  o.min_keep = 2;
  EXPECT_EQ(ids_drawn(o, logits), (std::vector<int>{1, 3}));
}

TEST(Sampler, TopPOverAWholeVocabularyEqualsTheSortedPrefix) {
  const auto logits = random_logits(3000, 5);
  const auto sorted = top_k(logits, 3000);
  double total = 0, sum = 0;
  for (const auto& c : sorted) total += std::exp(static_cast<double>(c.logit));
  std::size_t n = 0;
  while (sum < 0.7 * total) sum += std::exp(static_cast<double>(sorted[n++].logit));
  auto o = plain();
  o.top_p = 0.7f;
  std::vector<bool> allowed(3000);
  for (std::size_t i = 0; i < n; ++i) allowed[static_cast<std::size_t>(sorted[i].id)] = true;
  Sampler sampler(o, 3000);
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(allowed[static_cast<std::size_t>(sampler.sample(logits))]);
  o.top_k = static_cast<int>(n);
  o.top_p = 1;
  Sampler same(o, 3000);
  o = plain(), o.top_p = 0.7f;
  Sampler again(o, 3000);
  for (int i = 0; i < 200; ++i) ASSERT_EQ(again.sample(logits), same.sample(logits));
}

TEST(Sampler, MinPKeepsAShareOfTheBest) {
  auto o = plain();
  const auto logits = logs({.4, .3, .19, .11});
  o.min_p = 0.5f;
  EXPECT_EQ(ids_drawn(o, logits), (std::vector<int>{0, 1}));
  o.min_keep = 3;
  EXPECT_EQ(ids_drawn(o, logits), (std::vector<int>{0, 1, 2}));
}

TEST(Sampler, TypicalPrefersTheExpectedSurprise) {
  auto o = plain();
  const auto logits = logs({.5, .2, .2, .1});  // entropy 1.22; surprises .69, 1.61, 1.61, 2.30
  o.typical_p = 0.3f;
  EXPECT_EQ(ids_drawn(o, logits), (std::vector<int>{1, 2}));
  o.typical_p = 0.5f;
  EXPECT_EQ(ids_drawn(o, logits), (std::vector<int>{0, 1, 2}));
}

TEST(Sampler, TopNSigmaCountsDeviationsFromTheBest) {
  auto o = plain();
  o.temperature = 3;
  const std::vector<float> logits{4, 3, 2, 1, 0, -kInfinity, kNan};  // deviation 1.414
  o.top_n_sigma = 1;
  EXPECT_EQ(ids_drawn(o, logits), (std::vector<int>{0, 1}));
  o.top_n_sigma = 1.5f;
  EXPECT_EQ(ids_drawn(o, logits), (std::vector<int>{0, 1, 2}));
}

TEST(Sampler, XtcSparesTheLastTopChoice) {
  auto o = plain();
  const auto logits = logs({.4, .3, .2, .1});
  o.xtc_probability = 1;
  o.xtc_threshold = 0.15f;
  EXPECT_EQ(ids_drawn(o, logits), (std::vector<int>{2, 3}));
  o.xtc_threshold = 0.45f;
  EXPECT_EQ(ids_drawn(o, logits), (std::vector<int>{0, 1, 2, 3}));
  o.xtc_threshold = 0.15f;
  o.xtc_probability = 0;
  EXPECT_EQ(ids_drawn(o, logits), (std::vector<int>{0, 1, 2, 3}));
}

TEST(Sampler, DynamicTemperatureIsColdWhereTheModelIsSure) {
  auto o = plain();
  o.dynatemp_range = 1;  // 0 .. 2
  const auto sure = logs({.97, .01, .01, .01});
  const auto counts = histogram(o, sure, 4000);
  EXPECT_GT(counts.at(0), 3995);
  const auto even = histogram(o, logs({.26, .26, .24, .24}), 4000);
  for (const auto& [id, count] : even) EXPECT_NEAR(count, 1000, 120) << id;
}

TEST(Sampler, ExtremeRowsGiveAnIdInRange) {
  SamplingOptions all = plain();
  all.top_p = 0.9f;
  all.min_p = 0.1f;
  all.typical_p = 0.9f;
  all.top_n_sigma = 1;
  all.xtc_probability = 0.5f;
  all.dynatemp_range = 1;
  for (const auto& o : {SamplingOptions{.seed = 1}, plain(), all}) {
    EXPECT_EQ(Sampler(o, 1).sample(std::vector<float>{0}), 0);
    EXPECT_EQ(Sampler(o, 0).sample({}), 0);
    EXPECT_EQ(Sampler(o, 2).sample(std::vector<float>{kNan, kNan}), 0);
    EXPECT_EQ(Sampler(o, 3).sample(std::vector<float>{kNan, 1, kNan}), 1);
    EXPECT_EQ(Sampler(o, 3).sample(std::vector<float>{0, kInfinity, 1}), 1);
    const int id = Sampler(o, 2).sample(std::vector<float>{-kInfinity, -kInfinity});
    EXPECT_TRUE(id == 0 || id == 1);
    Sampler smaller(o, 2);  // a row longer than the vocabulary promised
    smaller.accept(1);
    EXPECT_LT(smaller.sample(std::vector<float>{1, 2, 3}), 3);
  }
}

}  // namespace
}  // namespace fourfold
