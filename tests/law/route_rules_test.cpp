// The rules in use, against what their papers write down, for the numbers of experts that published models have.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fourfold/route.hpp>
#include <numeric>
#include <set>

#include "random.hpp"
#include "route_case.hpp"

namespace fourfold {
namespace {

using test::choose;
using test::Chosen;
using test::Random;
constexpr auto kNone = Normalise::none, kSelected = Normalise::over_selected, kAll = Normalise::over_all;

// One row in double: scores, those allowed, the k best in order, weights.
struct Naive {
  std::vector<double> select, weight;
  std::vector<int> groups_kept{};  // experts allowed; empty: all

  void expect(const Chosen& got, int k, bool renormalise, double scale) const {
    std::vector<int> order(select.size());
    std::iota(order.begin(), order.end(), 0);
    const auto allowed = [&](int e) {
      return groups_kept.empty() || std::find(groups_kept.begin(), groups_kept.end(), e) != groups_kept.end();
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return allowed(a) != allowed(b) ? allowed(a) : select[a] > select[b]; });
    double sum = 0;
    for (int i = 0; i < k; ++i) sum += weight[order[i]];
    for (int i = 0; i < k; ++i) {
      EXPECT_EQ(got.ids[i], order[i]) << i;
      EXPECT_NEAR(got.weights[i], scale * weight[order[i]] / (renormalise ? sum + 1e-20 : 1), 1e-6 * scale);
    }
  }
};

std::vector<double> of(const std::vector<float>& z, double (*f)(double)) {
  std::vector<double> out;
  for (float x : z) out.push_back(f(static_cast<double>(x)));
  return out;
}
double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double root_softplus(double x) { return std::sqrt(std::log1p(std::exp(x))); }
std::vector<double> softmax(const std::vector<float>& z) {
  auto p = of(z, [](double x) { return std::exp(x); });
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

TEST(RouteRules, AreWhatTheirPapersSayForAnyNumberOfExperts) {
  Random random(61);
  for (int experts : {1, 7, 64, 256, 896})
    for (int k = 1; k <= std::min(22, experts); ++k) {
      const auto z = random.normals(experts), bias = random.normals(experts);
      const auto sigmoids = of(z, logistic), roots = of(z, root_softplus);
      auto biased = sigmoids, biased_roots = roots;
      for (int e = 0; e < experts; ++e) biased[e] += bias[e], biased_roots[e] += bias[e];
      for (const auto& on : {0, 1}) {
        const auto run = [&](const auto& rule) {
          return on ? choose(rule, k, z, experts, Team{2}) : choose(rule, k, z, experts, reference);
        };
        Naive{softmax(z), softmax(z)}.expect(run(Softmax<kAll>{}), k, false, 1);
        Naive{softmax(z), softmax(z)}.expect(run(Softmax<kSelected>{2.f}), k, true, 2);
        Naive{biased, sigmoids}.expect(run(BiasedSigmoid<kSelected>{bias, 2.5f}), k, true, 2.5);
        Naive{sigmoids, sigmoids}.expect(run(BiasedSigmoid<kNone>{}), k, false, 1);
        Naive{biased_roots, roots}.expect(run(BiasedSqrtSoftplus<kSelected>{bias}), k, true, 1);
      }
    }
}

// The experts of the groups with the largest sum of their `best` best.
std::vector<int> kept(const std::vector<double>& u, int groups, int keep, int best) {
  const int size = static_cast<int>(u.size()) / groups;
  std::vector<std::pair<double, int>> scores;
  for (int g = 0; g < groups; ++g) {
    std::vector<double> of_group(u.begin() + g * size, u.begin() + (g + 1) * size);
    std::sort(of_group.rbegin(), of_group.rend());
    scores.push_back({-std::accumulate(of_group.begin(), of_group.begin() + best, 0.0), g});
  }
  std::sort(scores.begin(), scores.end());
  std::vector<int> experts;
  for (int i = 0; i < keep; ++i)
    for (int e = 0; e < size; ++e) experts.push_back(scores[i].second * size + e);
  return experts;
}

TEST(RouteRules, GroupsAreKeptByTheirMaximumOrTheirTwoBest) {
  Random random(62);
  constexpr int kExperts = 256, kGroups = 8, kKept = 4, kChosen = 8;
  for (int row = 0; row < 20; ++row) {
    const auto z = random.normals(kExperts);
    auto bias = random.normals(kExperts);
    for (float& b : bias) b -= 5;  // every biased score is below 0: filling with 0 would choose a masked group
    const auto s = of(z, logistic);
    auto u = s;
    for (int e = 0; e < kExperts; ++e) u[e] += bias[e];
    const GroupLimited<BiasedSigmoid<kSelected>> third{{bias, 2.5f}, kGroups, kKept, 2};
    Naive{u, s, kept(u, kGroups, kKept, 2)}.expect(choose(third, kChosen, z, kExperts, Team{2}), kChosen, true, 2.5);
    const GroupLimited<Softmax<kAll>> second{{16.f}, kGroups, kKept, 1};
    const auto p = softmax(z);
    Naive{p, p, kept(p, kGroups, kKept, 1)}.expect(choose(second, kChosen, z, kExperts, reference), kChosen, false, 16);
  }
}

TEST(RouteRules, AGroupOfNaNIsKeptLastAndIdsStayDistinct) {
  std::vector<float> z(32, 1.f);
  std::fill_n(z.begin(), 8, kNaN<float>);
  const GroupLimited<BiasedSigmoid<kSelected>> rule{{}, 4, 2, 2};
  EXPECT_EQ(choose(rule, 3, z, 32, Team{1}).ids, (std::vector{8, 9, 10}));
  for (float x : {kNaN<float>, kInfinity<float>, -kInfinity<float>}) {
    const auto c = choose(rule, 22, std::vector<float>(32, x), 32, Team{1});
    EXPECT_EQ(std::set<int>(c.ids.begin(), c.ids.end()).size(), 22u);
    EXPECT_TRUE(*std::max_element(c.ids.begin(), c.ids.end()) < 32);
  }
}

// A weight taken back from a biased score, as (s + b) - b, would be 0.
TEST(RouteRules, ASmallScoreKeepsItsWeightUnderALargeBias) {
  const float z = std::log(1e-7f);
  const std::vector<float> logits{z, z, 3.f, 3.f}, bias{12, 12, 0, 0};
  const auto c = choose(BiasedSigmoid<kNone>{bias}, 2, logits, 4, Team{1});
  EXPECT_EQ(c.ids, (std::vector{0, 1}));
  for (float w : c.weights) EXPECT_NEAR(w, 1e-7f, 1e-12);
}

TEST(RouteRules, GroupsHaveToFit) {
  std::vector<float> z(12), weights(2);
  std::vector<int> ids(2);
  const auto refused = [&](int groups, int keep, int best) {
    return !Route{GroupLimited<Softmax<kAll>>{{}, groups, keep, best}, 2}
                .on(reference)
                .choose(Rows{z.data(), 1, 12}, {ids.data(), 1, 2}, {weights.data(), 1, 2})
                .ok();
  };
  EXPECT_FALSE(refused(3, 2, 1));
  EXPECT_TRUE(refused(5, 2, 1));
  EXPECT_TRUE(refused(3, 4, 1));
  EXPECT_TRUE(refused(3, 0, 1));
  EXPECT_TRUE(refused(3, 2, 0));
}

}  // namespace
}  // namespace fourfold
