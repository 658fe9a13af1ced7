#include "new_files.hpp"

namespace fourfold::cli {
namespace {

constexpr std::string_view kWalk =
    R"(// @Name@: the last `window` keys. Say here what it is for, and cite where it comes from.
#pragma once

#include <fourfold/fold.hpp>

struct @Name@ {
  int window = 64;

  // Does this pair of positions count? The definition: `reference` asks nothing else.
  constexpr bool visible(int query, int key) const { return key <= query && query - key < window; }
  // Ascending, disjoint ranges that hold every key visible to one of these queries; more costs time only.
  constexpr auto tiles(fourfold::Range queries) const {
    return fourfold::ranges({queries.first - window + 1, queries.end});
  }
};
)";

constexpr std::string_view kScore =
    R"(// @Name@: scores are soft-capped. Say here what it is for, and cite where it comes from.
#pragma once

#include <fourfold/fold.hpp>

struct @Name@ {
  float cap = 30;

  // A score of a query and a key, given their scaled dot product; positions are absolute. Pure: no state, any order.
  template <class T>
  constexpr T operator()(T s, int /*query*/, int /*key*/) const {
    return static_cast<T>(cap) * fourfold::tanh(s / static_cast<T>(cap));
  }
};
)";

constexpr std::string_view kAttentionTest =
    R"(// The law of @Name@, and attention with it against a softmax in double, written out here.
#include "@file@.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

using namespace fourfold;

namespace {

std::vector<float> numbers(int n, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> all(n);
  for (float& x : all) x = normal(engine);
  return all;
}

@Law@
TEST(@Name@, AttentionEqualsASoftmaxInDouble) {
  const int n = 150, d = 32;
  const auto q = numbers(n * d, 1), k = numbers(n * d, 2), v = numbers(n * d, 3);
  const auto view = [&](const std::vector<float>& x) { return Heads{Rows{x.data(), n, d}, 1}; };
  std::vector<float> exact(n * d), team(n * d);
  const Fold attention{@Parts@, OnlineSoftmax{}};
  ASSERT_TRUE(attention.on(reference).attend(view(q), view(k), view(v), Heads{Rows{exact.data(), n, d}, 1}).ok());
  ASSERT_TRUE(attention.on(Team{2}).attend(view(q), view(k), view(v), Heads{Rows{team.data(), n, d}, 1}).ok());
  for (int query = 0; query < n; ++query) {
    std::vector<double> out(d);
    double sum = 0;
    for (int key = 0; key < n; ++key) {
      if (!@Visible@) continue;
      double dot = 0;
      for (int i = 0; i < d; ++i) dot += double(q[query * d + i]) * double(k[key * d + i]);
      const double weight = std::exp(@Score@);
      sum += weight;
      for (int i = 0; i < d; ++i) out[i] += weight * double(v[key * d + i]);
    }
    for (int i = 0; i < d; ++i) {
      const double want = sum == 0 ? 0 : out[i] / sum;
      ASSERT_NEAR(exact[query * d + i], want, 1e-5) << query;
      ASSERT_NEAR(team[query * d + i], want, 1e-4) << query;
    }
  }
}

}  // namespace
)";

constexpr std::string_view kAttentionBench =
    R"(// @Name@: 64 queries behind 4096 keys, head dim 64; pairs a second over all of them, seen or not.
#include "@file@.hpp"

#include <benchmark/benchmark.h>

#include <vector>

using namespace fourfold;

static void attend(benchmark::State& state) {
  const int queries = 64, keys = 4096, d = 64;
  const std::vector<float> q(queries * d, 0.1f), k(keys * d, 0.1f), v(keys * d, 0.1f);
  std::vector<float> out(queries * d);
  const Fold attention{@Parts@, OnlineSoftmax{}};
  for (auto _ : state) {
    const status s =
        attention.on(Team{static_cast<int>(state.range(0))})
            .attend(Heads{Rows{q.data(), queries, d}, 1}, Heads{Rows{k.data(), keys, d}, 1},
                    Heads{Rows{v.data(), keys, d}, 1}, Heads{Rows{out.data(), queries, d}, 1});
    if (!s) state.SkipWithError(s.message().c_str());
  }
  state.SetItemsProcessed(state.iterations() * queries * keys);
}
BENCHMARK(attend)->Arg(1)->Arg(2)->UseRealTime();
)";

constexpr std::string_view kGate =
    R"(// @Name@: S <- alpha (I - beta k k^T) S + beta k v^T. Say here what it is for, and cite where it comes from.
#pragma once

#include <fourfold/scan.hpp>

struct @Name@ {
  // M of S <- M S + B: Identity, Scaled, Diagonal, their products, and what is added to them; see affine.hpp.
  constexpr auto transition(const fourfold::Token& t) const {
    return fourfold::Scaled{t.alpha} * (fourfold::Identity{} - fourfold::RankOne{t.beta, t.k, t.k});
  }
  // B = b u v^T
  constexpr auto update(const fourfold::Token& t) const { return fourfold::RankOne{t.beta, t.k, t.v}; }
};
)";

constexpr std::string_view kGateTest =
    R"(// The laws of @Name@, and its scan against the recurrence in double, written out here.
#include "@file@.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fourfold/affine_map.hpp>
#include <random>
#include <vector>

using namespace fourfold;

namespace {

constexpr int T = 70, K = 16, V = 24;  // tokens, key dim, value dim

struct Case {
  std::vector<float> q, k, v, alpha, beta, out, state;

  explicit Case(unsigned seed) : q(T * K), k(T * K), v(T * V), alpha(T), beta(T), out(T * V), state(K * V) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<float> share(0.2f, 1);
    for (auto* all : {&q, &v, &state})
      for (float& x : *all) x = normal(engine);
    for (float& x : k) x = normal(engine) / std::sqrt(float(K));
    for (auto* all : {&alpha, &beta})
      for (float& x : *all) x = share(engine);
  }
  Token token(int t) const {
    const auto row = [t](const std::vector<float>& x, int n) { return std::span(&x[t * n], std::size_t(n)); };
    return {.k = row(k, K), .v = row(v, V), .alpha = alpha[t], .beta = beta[t], .q = row(q, K)};
  }
  template <class X>
  status run(const X& executor) {
    const auto heads = [](const std::vector<float>& x, int n) { return Heads{Rows{x.data(), T, n}, 1}; };
    return Scan{@Name@{}}.on(executor).run(
        ScanTokens{heads(q, K), heads(k, K), heads(v, V), Rows<const float>{alpha.data(), T, 1},
                   Rows<const float>{beta.data(), T, 1}},
        Heads{Rows{out.data(), T, V}, 1}, Rows{state.data(), 1, K * V});
  }
};

TEST(@Name@, EqualsTheRecurrenceInDouble) {
  const Case start(1);
  Case exact = start, team = start;
  ASSERT_TRUE(exact.run(reference).ok());
  ASSERT_TRUE(team.run(Team{2}).ok());
  std::vector<double> s(start.state.begin(), start.state.end());
  for (int t = 0; t < T; ++t)
    for (int j = 0; j < V; ++j) {
      const auto at = [&](int i) -> double& { return s[i * V + j]; };
      const double a = start.alpha[t], b = start.beta[t];
      double found = 0, out = 0;
      for (int i = 0; i < K; ++i) found += double(start.k[t * K + i]) * a * at(i);
      for (int i = 0; i < K; ++i) {
        at(i) = a * at(i) + b * double(start.k[t * K + i]) * (double(start.v[t * V + j]) - found);
        out += double(start.q[t * K + i]) * at(i);
      }
      ASSERT_NEAR(exact.out[t * V + j], out, 1e-5 * (1 + std::abs(out))) << t;
      ASSERT_NEAR(team.out[t * V + j], out, 1e-4 * (1 + std::abs(out))) << t;
    }
}

// The run is a fold of its tokens' elements (M, B), and combining them is associative.
TEST(@Name@, IsAnAffineFamily) {
  using Element = AffineMap<double>;
  const @Name@ rule;
  const Case c(2);
  const auto element = [&](int first, int end) {
    Element made(K, V);
    for (int t = first; t < end; ++t) made.absorb(rule.transition(c.token(t)), rule.update(c.token(t)));
    return made;
  };
  const auto applied = [&](const Element& all) {
    std::vector<double> s(c.state.begin(), c.state.end());
    all.apply({s.data(), K, V});
    return s;
  };
  const Element x = element(0, 5), y = element(5, 40), z = element(40, T);
  const auto left = applied(Element::combine(Element::combine(x, y), z));
  const auto right = applied(Element::combine(x, Element::combine(y, z)));
  Case run = c;
  ASSERT_TRUE(run.run(reference).ok());
  for (int i = 0; i < K * V; ++i) {
    ASSERT_NEAR(left[i], right[i], 1e-9);
    ASSERT_NEAR(left[i], run.state[i], 1e-5 * (1 + std::abs(left[i])));
  }
}

}  // namespace
)";

constexpr std::string_view kGateBench =
    R"(// @Name@: 1024 tokens of 4 heads of 128, operations (7 keys values a token and head) a second.
#include "@file@.hpp"

#include <benchmark/benchmark.h>

#include <vector>

using namespace fourfold;

static void prefill(benchmark::State& state) {
  const int tokens = 1024, heads = 4, d = 128;
  const std::vector<float> x(tokens * heads * d, 0.05f), gates(tokens * heads, 0.9f);
  std::vector<float> out(x.size()), states(heads * d * d);
  const Heads all{Rows{x.data(), tokens, heads * d}, heads};
  const Rows gate(gates.data(), tokens, heads);
  for (auto _ : state) {
    const status s = Scan{@Name@{}}
                         .on(Team{static_cast<int>(state.range(0))})
                         .run(ScanTokens{all, all, all, gate, gate}, Heads{Rows{out.data(), tokens, heads * d}, heads},
                              Rows{states.data(), heads, d * d});
    if (!s) state.SkipWithError(s.message().c_str());
  }
  state.counters["flops"] =
      benchmark::Counter(7.0 * tokens * heads * d * d, benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(prefill)->Arg(1)->Arg(2)->UseRealTime();
)";

constexpr std::string_view kRule =
    R"(// @Name@: sigmoid scores, normalised over the chosen. Say here what it is for, and cite where it comes from.
#pragma once

#include <fourfold/route.hpp>

struct @Name@ {
  static constexpr auto normalise = fourfold::Normalise::over_selected;

  // What experts are chosen by: the k largest, ties to the lower expert. It may differ from the weight.
  constexpr float select(float z, int /*expert*/) const { return z; }
  constexpr float weight(float z, int /*expert*/) const { return fourfold::sigmoid(z); }
};
)";

constexpr std::string_view kRuleTest =
    R"(// The laws of @Name@, and its choices against a sort in double, written out here.
#include "@file@.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

using namespace fourfold;

namespace {

constexpr int T = 50, E = 24, K = 5;  // tokens, experts, chosen

struct Choices {
  std::vector<int> ids;
  std::vector<float> weights;
};
template <class X>
Choices choose(const std::vector<float>& logits, const X& executor) {
  Choices c{std::vector<int>(T * K), std::vector<float>(T * K)};
  const status s = Route(@Name@{}, K)
                       .on(executor)
                       .choose(Rows{logits.data(), T, E}, Rows{c.ids.data(), T, K}, Rows{c.weights.data(), T, K});
  EXPECT_TRUE(s.ok()) << s.message();
  return c;
}
std::vector<float> normals() {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> all(T * E);
  for (float& x : all) x = normal(engine);
  return all;
}

// Whatever the logits, ids are distinct and in range; the same for any number of threads.
TEST(@Name@, ChoosesDistinctExperts) {
  auto logits = normals();
  std::fill_n(logits.begin(), E, std::numeric_limits<float>::quiet_NaN());
  std::fill_n(logits.begin() + E, E, -std::numeric_limits<float>::infinity());
  std::fill_n(logits.begin() + 2 * E, E, 1.f);
  const auto one = choose(logits, Team{1});
  EXPECT_EQ(one.ids, choose(logits, Team{3}).ids);
  for (int t = 0; t < T; ++t) {
    const std::set<int> ids(one.ids.begin() + t * K, one.ids.begin() + (t + 1) * K);
    EXPECT_EQ(ids.size(), std::size_t(K)) << t;
    EXPECT_TRUE(*ids.begin() >= 0 && *ids.rbegin() < E) << t;
  }
}

TEST(@Name@, EqualsASortInDouble) {
  const auto logits = normals();
  const auto got = choose(logits, reference);
  for (int t = 0; t < T; ++t) {
    const float* z = &logits[t * E];
    std::vector<int> order(E);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return z[a] > z[b]; });
    const auto weight = [&](int e) { return 1 / (1 + std::exp(-double(z[e]))); };
    double sum = 0;
    for (int i = 0; i < K; ++i) sum += weight(order[i]);
    for (int i = 0; i < K; ++i) {
      ASSERT_EQ(got.ids[t * K + i], order[i]) << t;
      ASSERT_NEAR(got.weights[t * K + i], weight(order[i]) / sum, 1e-6) << t;
    }
  }
}

}  // namespace
)";

constexpr std::string_view kRuleBench = R"(// @Name@: 4096 tokens choose 8 of 128 experts; tokens a second.
#include "@file@.hpp"

#include <benchmark/benchmark.h>

#include <random>
#include <vector>

using namespace fourfold;

static void choose(benchmark::State& state) {
  const int tokens = 4096, experts = 128, k = 8;
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> logits(tokens * experts), weights(tokens * k);
  for (float& x : logits) x = normal(engine);
  std::vector<int> ids(tokens * k);
  for (auto _ : state) {
    const status s =
        Route(@Name@{}, k)
            .on(Team{static_cast<int>(state.range(0))})
            .choose(Rows{logits.data(), tokens, experts}, Rows{ids.data(), tokens, k}, Rows{weights.data(), tokens, k});
    if (!s) state.SkipWithError(s.message().c_str());
  }
  state.SetItemsProcessed(state.iterations() * tokens);
}
BENCHMARK(choose)->Arg(1)->Arg(2)->UseRealTime();
)";

}  // namespace

const NewKind kNewKinds[4] = {{"walk", "which keys a query sees", kWalk, kAttentionTest, kAttentionBench},
                              {"score", "a map on attention scores", kScore, kAttentionTest, kAttentionBench},
                              {"gate", "a scan's rule", kGate, kGateTest, kGateBench},
                              {"rule", "a routing rule", kRule, kRuleTest, kRuleBench}};

const std::string_view kNewProject = R"(cmake_minimum_required(VERSION 3.25)
project(@Name@ LANGUAGES CXX)
find_package(Fourfold REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)

add_executable(@file@_test @file@_test.cpp)
target_link_libraries(@file@_test PRIVATE Fourfold::fourfold_static GTest::gtest_main)
add_executable(@file@_bench @file@_bench.cpp)
target_link_libraries(@file@_bench PRIVATE Fourfold::fourfold_static benchmark::benchmark_main)

enable_testing()
include(GoogleTest)
gtest_discover_tests(@file@_test)
)";

}  // namespace fourfold::cli
