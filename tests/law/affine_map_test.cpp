// The laws of the affine family for each class of transitions, and the segmented form.
#include <gtest/gtest.h>

#include <fourfold/affine_map.hpp>
#include <fourfold/scan_segments.hpp>

#include "scan_case.hpp"

namespace fourfold {
namespace {

using test::Random;
using test::relative_rms;
using test::ScanCase;

struct DenseRule {  // S <- M S + k v^T with one matrix for all tokens
  Rows<const float> m;
  constexpr auto transition(const Token&) const { return Dense{m}; }
  constexpr auto update(const Token& t) const { return RankOne{1, t.k, t.v}; }
};

Token token_of(const ScanCase& c, int t) {
  const auto part = [&](const std::vector<float>& x, int width) {
    return std::span<const float>(&x[std::size_t(t) * width], std::size_t(width));
  };
  return {.k = part(c.k, c.keys),
          .v = part(c.v, c.values),
          .alpha = c.alpha[t],
          .beta = c.beta[t],
          .q = part(c.q, c.keys),
          .gate = part(c.gate, c.keys),
          .a = part(c.a, c.keys),
          .b = part(c.b, c.keys),
          .dt = part(c.dt, c.values)};
}
template <class R>
AffineMap<double> element(const R& rule, const ScanCase& c, int first, int end) {
  AffineMap<double> map(c.keys, c.values);
  for (int t = first; t < end; ++t) map.absorb(rule.transition(token_of(c, t)), rule.update(token_of(c, t)));
  return map;
}
std::vector<float> applied(const AffineMap<double>& map, const ScanCase& c) {
  std::vector<double> s(c.state.begin(), c.state.end());
  map.apply({s.data(), c.keys, c.values});
  return {s.begin(), s.end()};
}

template <class R>
void expect_laws(const R& rule, Transition one, Transition many) {
  using Element = AffineMap<double>;
  Random random(80);
  const ScanCase c(random, 24, 1, 9, 7);
  EXPECT_EQ(element(rule, c, 0, 1).kind(), one);
  EXPECT_EQ(element(rule, c, 0, 24).kind(), many);
  ScanCase want = c;
  ASSERT_TRUE(want.run(rule, reference).ok());
  const Element none(c.keys, c.values);
  for (const auto& [a, b] : {std::pair(1, 2), {5, 16}, {8, 11}, {23, 24}, {0, 24}}) {
    const Element x = element(rule, c, 0, a), y = element(rule, c, a, b), z = element(rule, c, b, 24);
    const auto left = Element::combine(Element::combine(x, y), z), right = Element::combine(x, Element::combine(y, z));
    EXPECT_LE(relative_rms(applied(left, c), want.state), 1e-7) << a << ' ' << b;  // the run is a fold of its tokens
    EXPECT_LE(relative_rms(applied(right, c), applied(left, c)), 1e-7);            // associative
    EXPECT_LE(relative_rms(applied(Element::combine(none, left), c), applied(left, c)), 1e-7);
    EXPECT_LE(relative_rms(applied(Element::combine(left, none), c), applied(left, c)), 1e-7);
  }
}

TEST(AffineMap, LawsOfEachClass) {
  Random random(81);
  std::vector<float> rate(7 * 9), m(81);
  for (float& x : rate) x = -random.uniform(0.1f, 2);
  for (float& x : m) x = random.normal(0.3f);
  expect_laws(LinearAttention{}, Transition::none, Transition::none);
  expect_laws(ScalarDecay{}, Transition::scalar, Transition::scalar);
  expect_laws(Gla{}, Transition::diagonal, Transition::diagonal);
  expect_laws(Mamba1{Rows<const float>{rate.data(), 7, 9}}, Transition::diagonal, Transition::diagonal);
  expect_laws(DeltaNet{}, Transition::diagonal_low_rank, Transition::dense);
  expect_laws(GatedDeltaNet{}, Transition::diagonal_low_rank, Transition::dense);
  expect_laws(KimiDelta{}, Transition::diagonal_low_rank, Transition::dense);
  expect_laws(Rwkv7{}, Transition::diagonal_low_rank, Transition::dense);
  expect_laws(DenseRule{Rows<const float>{m.data(), 9, 9}}, Transition::dense, Transition::dense);
}

TEST(AffineMap, RankGrowsByOneATokenUntilAMatrixIsSmaller) {
  Random random(82);
  const ScanCase c(random, 12, 1, 9, 7);
  EXPECT_EQ(element(KimiDelta{}, c, 0, 4).rank(), 4);
  EXPECT_EQ(element(KimiDelta{}, c, 0, 9).rank(), 9);
  EXPECT_EQ(element(KimiDelta{}, c, 0, 10).kind(), Transition::dense);
}

template <class R>
void expect_segments_equal_the_run(const R& rule) {
  Random random(83);
  for (const auto& [tokens, segments] : {std::pair(1, 1), {1, 3}, {0, 2}, {100, 3}, {257, 7}}) {
    ScanCase c(random, tokens, 2, 16, 20), want = c;
    ASSERT_TRUE(run_segmented(Scan{rule}, Team{3}, segments, c.input(), c.out_view(), c.state_view()).ok());
    ASSERT_TRUE(want.run(rule, reference).ok());
    if (tokens > 0) {
      EXPECT_LE(relative_rms(c.out, want.out), 1e-5) << tokens;
    }
    EXPECT_LE(relative_rms(c.state, want.state), 1e-5) << tokens << ' ' << segments;
  }
}

TEST(Segments, EqualTheRunInOnePiece) {
  Random random(84);
  std::vector<float> rate(2 * 20 * 16);
  for (float& x : rate) x = -random.uniform(0.1f, 2);
  expect_segments_equal_the_run(LinearAttention{});
  expect_segments_equal_the_run(ScalarDecay{});
  expect_segments_equal_the_run(Gla{});
  expect_segments_equal_the_run(Mamba1{Rows<const float>{rate.data(), 40, 16}});
  expect_segments_equal_the_run(GatedDeltaNet{});
  expect_segments_equal_the_run(KimiDelta{});
  expect_segments_equal_the_run(Rwkv7{});
}

TEST(Segments, RefusesNone) {
  Random random(85);
  ScanCase c(random, 4, 1, 8, 8);
  EXPECT_NE(run_segmented(Scan{ScalarDecay{}}, Team{1}, 0, c.input(), c.out_view()).message().find("at least 1"),
            std::string::npos);
}

}  // namespace
}  // namespace fourfold
