#include <gtest/gtest.h>

#include <cmath>
#include <fourfold/scan.hpp>

#include "scan_case.hpp"

namespace fourfold {
namespace {

using test::Random;
using test::relative_rms;
using test::ScanCase;

TEST(Scan, ReferenceIsTheDecayedSum) {
  Random random(40);
  ScanCase c(random, 30, 2, 8, 6);
  const auto start = c.state;
  ASSERT_TRUE(c.run(ScalarDecay{}, reference).ok());
  for (int t = 0; t < 30; ++t)
    for (int h = 0; h < 2; ++h)
      for (int j = 0; j < 6; ++j) {
        double want = 0, w = 1;  // w: product of the decays after token u, up to t
        for (int u = t; u >= 0; --u) {
          double dot = 0;
          for (int i = 0; i < 8; ++i) dot += double(c.q[(t * 2 + h) * 8 + i]) * double(c.k[(u * 2 + h) * 8 + i]);
          want += w * dot * double(c.v[(u * 2 + h) * 6 + j]);
          w *= double(c.alpha[u * 2 + h]);
        }
        for (int i = 0; i < 8; ++i) want += w * double(c.q[(t * 2 + h) * 8 + i]) * double(start[(h * 8 + i) * 6 + j]);
        EXPECT_NEAR(c.out[(t * 2 + h) * 6 + j], want, 1e-6 * (1 + std::abs(want)));
      }
}

TEST(Scan, ChunksAgreeWithTheDefinition) {
  Random random(41);
  for (int tokens : {1, 63, 64, 65, 129, 300}) {
    ScanCase c(random, tokens, 3, 16, 20), want = c;
    ASSERT_TRUE(c.run(ScalarDecay{}, Team{2}).ok());
    ASSERT_TRUE(want.run(ScalarDecay{}, reference).ok());
    EXPECT_LE(relative_rms(c.out, want.out), 1e-6) << tokens;
    EXPECT_LE(relative_rms(c.state, want.state), 1e-6) << tokens;
  }
}

// A rule beyond the scalar class, as a user writes it.
struct GatedDelta {  // S <- a (I - b k k^T) S + b k v^T        Yang et al. 2024, eq. 10
  constexpr auto transition(const Token& t) const { return Scaled{t.alpha} * (Identity{} - RankOne{t.beta, t.k, t.k}); }
  constexpr auto update(const Token& t) const { return RankOne{t.beta, t.k, t.v}; }
};

TEST(Scan, DeltaRuleStoresWhatItIsTold) {
  static_assert(kTransition<GatedDelta> == Transition::diagonal_low_rank &&
                kTransition<ScalarDecay> == Transition::scalar);
  Random random(42);
  ScanCase c(random, 1, 1, 8, 8);
  float norm = 0;
  for (float x : c.k) norm += x * x;
  for (float& x : c.k) x /= std::sqrt(norm);
  c.q = c.k, c.beta = {1}, c.alpha = {1};  // with |k| = 1 and beta = 1 the state answers k with v, whatever it held
  for (int executor = 0; executor < 2; ++executor) {
    ASSERT_TRUE((executor ? c.run(GatedDelta{}, Team{2}) : c.run(GatedDelta{}, reference)).ok());
    for (int j = 0; j < 8; ++j) EXPECT_NEAR(c.out[j], c.v[j], 2e-6);
  }
  ScanCase long_one(random, 200, 2, 8, 8), want = long_one;
  ASSERT_TRUE(long_one.run(GatedDelta{}, Team{2}).ok());
  ASSERT_TRUE(want.run(GatedDelta{}, reference).ok());
  EXPECT_LE(relative_rms(long_one.out, want.out), 1e-5);
}

// Fault S1: very negative gates beside gates of 0; no prefix product, no difference of logarithms.
TEST(Scan, StrongDecaysLoseNothing) {
  Random random(43);
  ScanCase c(random, 256, 1, 8, 8);
  const float gates[] = {0, -1e-3f, -1, -1e3f, -3e7f};
  for (float& a : c.alpha) a = std::exp(gates[random.chance(0.7) ? random.integer(0, 1) : random.integer(0, 4)]);
  auto want = c;
  ASSERT_TRUE(c.run(ScalarDecay{}, Team{1}).ok());
  ASSERT_TRUE(want.run(ScalarDecay{}, reference).ok());
  EXPECT_LE(relative_rms(c.out, want.out), 1e-6);
}

// Fault S5: packed sequences equal separate runs, bit for bit, states too.
TEST(Scan, PackedSequencesDoNotLeak) {
  Random random(44);
  const std::vector<int> offsets{0, 5, 6, 70, 70, 77};
  ScanCase all(random, 77, 2, 8, 8);
  all.state = random.normals(5 * 2 * 64);
  const auto start = all.state;
  ASSERT_TRUE(Scan{ScalarDecay{}}.on(Team{2}).run(all.input(), all.out_view(), all.state_view(5), offsets).ok());
  for (int s = 0; s < 5; ++s) {
    const int n = offsets[s + 1] - offsets[s];
    ScanCase one(random, n, 2, 8, 8);
    const auto part = [&](const std::vector<float>& from, std::vector<float>& to) {
      const std::size_t width = from.size() / 77;
      std::copy_n(from.begin() + offsets[s] * width, n * width, to.begin());
    };
    part(all.q, one.q), part(all.k, one.k), part(all.v, one.v), part(all.alpha, one.alpha);
    std::copy_n(start.begin() + s * 128, 128, one.state.begin());
    ASSERT_TRUE(one.run(ScalarDecay{}, Team{1}).ok());
    for (std::size_t i = 0; i < one.out.size(); ++i) ASSERT_EQ(one.out[i], all.out[offsets[s] * 16 + i]);
    for (int i = 0; i < 128; ++i) ASSERT_EQ(one.state[i], all.state[s * 128 + i]);
  }
}

TEST(Scan, EqualChunkingKeepsBitsForAnyThreads) {
  Random random(45);
  ScanCase whole(random, 192, 4, 8, 8), parts = whole;
  ASSERT_TRUE(whole.run(ScalarDecay{}, Team{1}).ok());
  std::vector<float> out;
  for (int first = 0; first < 192; first += 64) {
    ScanCase part(random, 64, 4, 8, 8);
    std::copy_n(parts.q.begin() + first * 32, part.q.size(), part.q.begin());
    std::copy_n(parts.k.begin() + first * 32, part.k.size(), part.k.begin());
    std::copy_n(parts.v.begin() + first * 32, part.v.size(), part.v.begin());
    std::copy_n(parts.alpha.begin() + first * 4, part.alpha.size(), part.alpha.begin());
    part.state = parts.state;
    ASSERT_TRUE(part.run(ScalarDecay{}, Team{7}).ok());
    parts.state = part.state;
    out.insert(out.end(), part.out.begin(), part.out.end());
  }
  EXPECT_EQ(out, whole.out);
  EXPECT_EQ(parts.state, whole.state);
}

// Fault S7: a float32 state goes on where a 16-bit one stalls at 0.25.
TEST(Scan, SmallStepsStillMoveTheState) {
  constexpr int kSteps = 10000;
  const std::vector<float> ones(kSteps, 1.f), steps(kSteps, 1e-3f), decay(kSteps, 0.999f);
  std::vector<float> out(kSteps);
  const auto column = [&](const std::vector<float>& x) { return Heads{Rows{x.data(), kSteps, 1}, 1}; };
  float state = 0;
  for (int t = 0; t < kSteps; ++t)  // one token at a time, as decoding does
    ASSERT_TRUE(Scan{ScalarDecay{}}
                    .on(Team{1})
                    .run(ScanTokens{Heads{Rows{&ones[t], 1, 1}, 1}, Heads{Rows{&ones[t], 1, 1}, 1},
                                    Heads{Rows{&steps[t], 1, 1}, 1}, Rows{&decay[t], 1, 1}},
                         Heads{Rows{&out[t], 1, 1}, 1}, Rows{&state, 1, 1})
                    .ok());
  EXPECT_NEAR(state, 0.99995, 5e-5);
  std::vector<float> chunked(kSteps);
  ASSERT_TRUE(Scan{ScalarDecay{}}
                  .on(Team{1})
                  .run(ScanTokens{column(ones), column(ones), column(steps), Rows{decay.data(), kSteps, 1}},
                       Heads{Rows{chunked.data(), kSteps, 1}, 1})
                  .ok());
  EXPECT_NEAR(chunked.back(), 0.99995, 5e-5);
}

TEST(Scan, RefusesOperandsThatDoNotFit) {
  Random random(46);
  ScanCase c(random, 4, 2, 8, 8);
  const std::vector<int> short_offsets{0, 3};
  const Scan scan{ScalarDecay{}};
  EXPECT_NE(scan.on(reference)
                .run(c.input(), c.out_view(), c.state_view(), short_offsets)
                .message()
                .find("must be the number of tokens, 4"),
            std::string::npos);
  EXPECT_FALSE(scan.on(reference).run(c.input(), c.out_view(), Rows{c.state.data(), 2, 63}).ok());
  EXPECT_FALSE(scan.on(reference).run(c.input(), Heads{Rows{c.out.data(), 4, 16}, 1}).ok());
}

}  // namespace
}  // namespace fourfold
