// Each mechanism against its published equation, written out here in double without the library's operators.
#include <gtest/gtest.h>

#include <cmath>
#include <fourfold/rwkv4.hpp>
#include <fourfold/scan.hpp>
#include <fourfold/short_conv.hpp>
#include <functional>

#include "scan_case.hpp"

namespace fourfold {
namespace {

using test::Random;
using test::relative_rms;
using test::ScanCase;
using Matrix = std::vector<std::vector<double>>;  // S [key dim][value dim]

// One token of one head: changes S and returns what is read.
struct Now {
  const ScanCase& c;
  int t, h;
  double q(int i) const { return c.q[(t * c.key_heads + h / (c.heads / c.key_heads)) * c.keys + i]; }
  double k(int i) const { return c.k[(t * c.key_heads + h / (c.heads / c.key_heads)) * c.keys + i]; }
  double v(int j) const { return c.v[(t * c.heads + h) * c.values + j]; }
  double alpha() const { return c.alpha[t * c.heads + h]; }
  double beta() const { return c.beta[t * c.heads + h]; }
  double gate(int i) const { return c.gate[(t * c.heads + h) * c.keys + i]; }
  double a(int i) const { return c.a[(t * c.heads + h) * c.keys + i]; }
  double b(int i) const { return c.b[(t * c.heads + h) * c.keys + i]; }
  double dt(int j) const { return c.dt[(t * c.heads + h) * c.values + j]; }
};
using Equation = std::function<void(const Now&, int i, int j, const Matrix& old, double& entry)>;

// s(i, j) = equation of the old state; out_j = sum_i q_i s(i, j), with the old state and u if `u` is given.
ScanCase expected(const ScanCase& start, const Equation& equation, const std::vector<float>* u = nullptr) {
  ScanCase c = start;
  for (int h = 0; h < c.heads; ++h) {
    Matrix s(c.keys, std::vector<double>(c.values));
    for (int i = 0; i < c.keys; ++i)
      for (int j = 0; j < c.values; ++j) s[i][j] = c.state[(h * c.keys + i) * c.values + j];
    for (int t = 0; t < c.tokens; ++t) {
      const Now now{start, t, h};
      const Matrix old = s;
      for (int i = 0; i < c.keys; ++i)
        for (int j = 0; j < c.values; ++j) equation(now, i, j, old, s[i][j]);
      for (int j = 0; j < c.values; ++j) {
        double sum = 0;
        for (int i = 0; i < c.keys; ++i)
          sum += now.q(i) * (u ? old[i][j] + double((*u)[h * c.keys + i]) * now.k(i) * now.v(j) : s[i][j]);
        c.out[(t * c.heads + h) * c.values + j] = static_cast<float>(sum);
      }
    }
    for (int i = 0; i < c.keys; ++i)
      for (int j = 0; j < c.values; ++j) c.state[(h * c.keys + i) * c.values + j] = static_cast<float>(s[i][j]);
  }
  return c;
}

// sum over l of k_l x_l S(l, j)
double along(const Now& n, const Matrix& s, int j, const std::function<double(int)>& x) {
  double sum = 0;
  for (std::size_t l = 0; l < s.size(); ++l) sum += x(static_cast<int>(l)) * s[l][j];
  return n.c.keys > 0 ? sum : 0;
}

template <class R>
void expect_equation(const R& rule, const Equation& equation, const std::vector<float>* u = nullptr) {
  Random random(70);
  for (int tokens : {1, 7, 40, 131})
    for (int key_heads : {1, 3}) {
      ScanCase start(random, tokens, 3, 12, 70, key_heads);
      const ScanCase want = expected(start, equation, u);
      const auto near = [&](const auto& executor, double bound) {
        ScanCase got = start;
        ASSERT_TRUE(got.run(rule, executor).ok());
        EXPECT_LE(relative_rms(got.out, want.out), bound) << tokens;
        EXPECT_LE(relative_rms(got.state, want.state), bound) << tokens;
      };
      near(reference, 2e-7), near(reference_f32, 2e-6), near(Team{2}, 2e-6);
    }
}

TEST(Mechanisms, LinearAttention) {
  expect_equation(LinearAttention{},
                  [](const Now& n, int i, int j, const Matrix& s, double& x) { x = s[i][j] + n.k(i) * n.v(j); });
}
TEST(Mechanisms, Retention) {
  const std::vector<float> decay{0.5f, 0.9f, 0.99f};
  expect_equation(Retention{decay}, [&](const Now& n, int i, int j, const Matrix& s, double& x) {
    x = double(decay[n.h]) * s[i][j] + n.k(i) * n.v(j);
  });
}
TEST(Mechanisms, GatedLinearAttention) {
  expect_equation(
      Gla{}, [](const Now& n, int i, int j, const Matrix& s, double& x) { x = n.gate(i) * s[i][j] + n.k(i) * n.v(j); });
}
TEST(Mechanisms, Mamba1) {
  Random random(71);
  std::vector<float> rate(3 * 70 * 12);
  for (float& x : rate) x = -random.uniform(0.1f, 2);
  expect_equation(Mamba1{Rows<const float>{rate.data(), 3 * 70, 12}},
                  [&](const Now& n, int i, int j, const Matrix& s, double& x) {
                    const double a = rate[(n.h * 70 + j) * 12 + i];
                    x = std::exp(n.dt(j) * a) * s[i][j] + n.dt(j) * n.k(i) * n.v(j);
                  });
}
TEST(Mechanisms, Mamba2) {
  const std::vector<float> rate{-0.1f, -1.f, -0.3f};
  expect_equation(Mamba2{rate}, [&](const Now& n, int i, int j, const Matrix& s, double& x) {
    x = std::exp(n.beta() * double(rate[n.h])) * s[i][j] + n.beta() * n.k(i) * n.v(j);
  });
}
TEST(Mechanisms, DeltaNet) {
  expect_equation(DeltaNet{}, [](const Now& n, int i, int j, const Matrix& s, double& x) {
    x = s[i][j] + n.beta() * n.k(i) * (n.v(j) - along(n, s, j, [&](int l) { return n.k(l); }));
  });
}
TEST(Mechanisms, GatedDeltaNet) {
  expect_equation(GatedDeltaNet{}, [](const Now& n, int i, int j, const Matrix& s, double& x) {
    const double error = n.v(j) - n.alpha() * along(n, s, j, [&](int l) { return n.k(l); });
    x = n.alpha() * s[i][j] + n.beta() * n.k(i) * error;
  });
}
TEST(Mechanisms, KimiDelta) {
  expect_equation(KimiDelta{}, [](const Now& n, int i, int j, const Matrix& s, double& x) {
    const double error = n.v(j) - along(n, s, j, [&](int l) { return n.k(l) * n.gate(l); });
    x = n.gate(i) * s[i][j] + n.beta() * n.k(i) * error;
  });
}
TEST(Mechanisms, Rwkv6ReadsTheStateBeforeItsToken) {
  Random random(72);
  const auto u = random.normals(3 * 12);
  expect_equation(
      Rwkv6{Rows<const float>{u.data(), 3, 12}},
      [](const Now& n, int i, int j, const Matrix& s, double& x) { x = n.gate(i) * s[i][j] + n.k(i) * n.v(j); }, &u);
}
TEST(Mechanisms, Rwkv7) {
  expect_equation(Rwkv7{}, [](const Now& n, int i, int j, const Matrix& s, double& x) {
    x = n.gate(i) * s[i][j] + n.b(i) * along(n, s, j, [&](int l) { return n.a(l); }) + n.k(i) * n.v(j);
  });
}

TEST(Mechanisms, ClassesOfTransitions) {
  static_assert(kTransition<LinearAttention> == Transition::none && kTransition<Mamba2> == Transition::scalar);
  static_assert(kTransition<Gla> == Transition::diagonal && kTransition<Mamba1> == Transition::diagonal);
  static_assert(kTransition<KimiDelta> == Transition::diagonal_low_rank &&
                kTransition<Rwkv7> == Transition::diagonal_low_rank);
}

// The weights as the paper has them, with exponents small enough to need no reference.
TEST(Mechanisms, Rwkv4) {
  Random random(73);
  const int tokens = 30, channels = 70;
  const auto k = random.normals(tokens * channels), v = random.normals(tokens * channels), u = random.normals(channels);
  std::vector<float> w(channels);
  for (float& x : w) x = random.uniform(0, 1);
  const Rows keys(k.data(), tokens, channels), values(v.data(), tokens, channels);
  std::vector<float> want(tokens * channels), got(want.size()), states(3 * channels);
  for (int c = 0; c < channels; ++c)
    for (int t = 0; t < tokens; ++t) {
      double top = std::exp(double(u[c]) + double(keys(t, c))) * double(values(t, c)),
             bottom = std::exp(double(u[c]) + double(keys(t, c)));
      for (int i = 0; i < t; ++i) {
        const double weight = std::exp(double(keys(i, c)) - (t - 1 - i) * double(w[c]));
        top += weight * double(values(i, c)), bottom += weight;
      }
      want[t * channels + c] = static_cast<float>(top / bottom);
    }
  const Rwkv4 rule{w, u};
  ASSERT_TRUE(rule.on(reference).run(keys, values, Rows{got.data(), tokens, channels}).ok());
  EXPECT_LE(relative_rms(got, want), 2e-7);
  for (int t = 0; t < tokens;
       ++t)  // one token at a time, as decoding does, with keys that would overflow a float's exp
    ASSERT_TRUE(rule.on(Team{2})
                    .run(Rows{&k[t * channels], 1, channels}, Rows{&v[t * channels], 1, channels},
                         Rows{&got[t * channels], 1, channels}, Rows{states.data(), 1, 3 * channels})
                    .ok());
  EXPECT_LE(relative_rms(got, want), 2e-6);
  auto large = k, small = k;
  for (float& x : large) x += 200;
  for (float& x : small) x -= 300;
  for (const auto& shifted : {large, small}) {  // only differences of keys count
    ASSERT_TRUE(
        rule.on(Team{2}).run(Rows{shifted.data(), tokens, channels}, values, Rows{got.data(), tokens, channels}).ok());
    EXPECT_LE(relative_rms(got, want), 1e-4);
  }
}

TEST(Mechanisms, ShortConvRemembersItsLastInputs) {
  Random random(74);
  const int tokens = 77, channels = 70;
  const std::vector<int> offsets{0, 5, 6, 70, 70, 77};
  const auto x = random.normals(tokens * channels), taps = random.normals(channels * 4),
             bias = random.normals(channels);
  const auto start = random.normals(5 * 3 * channels);
  const ShortConvolution conv{Rows{taps.data(), channels, 4}, bias};
  auto states = start;
  std::vector<float> out(x.size()), want(x.size());
  ASSERT_TRUE(conv.on(Team{2})
                  .run(Rows{x.data(), tokens, channels}, Rows{out.data(), tokens, channels},
                       Rows{states.data(), 5, 3 * channels}, ScanSequences{offsets})
                  .ok());
  for (int s = 0; s < 5; ++s)
    for (int c = 0; c < channels; ++c) {
      const auto input = [&](int t) {  // t counts from the sequence's start; before it stands the state
        return t < 0 ? start[(s * 3 + 3 + t) * channels + c] : x[(offsets[s] + t) * channels + c];
      };
      const int n = offsets[s + 1] - offsets[s];
      for (int t = 0; t < n; ++t) {
        double sum = bias[c];
        for (int i = 0; i < 4; ++i) sum += double(taps[c * 4 + i]) * double(input(t - 3 + i));
        want[(offsets[s] + t) * channels + c] = static_cast<float>(sum);
      }
      for (int i = 0; i < 3; ++i) EXPECT_EQ(states[(s * 3 + i) * channels + c], input(n - 3 + i));
    }
  EXPECT_LE(relative_rms(out, want), 1e-6);
}

// The states of a batch live in slots; sequences name theirs.
TEST(Mechanisms, StatesAreSelectedBySlot) {
  Random random(75);
  ScanCase c(random, 9, 2, 8, 8);
  const std::vector<int> offsets{0, 4, 9}, slots{3, 1}, twice{1, 1}, beyond{0, 4};
  c.state = random.normals(4 * 2 * 64);
  auto plain = c;
  const auto before = c.state;
  const Scan scan{GatedDeltaNet{}};
  ASSERT_TRUE(scan.on(Team{2}).run(c.input(), c.out_view(), c.state_view(4), {offsets, slots}).ok());
  std::copy_n(before.begin() + 3 * 128, 128, plain.state.begin());
  plain.state.resize(2 * 128);
  std::copy_n(before.begin() + 1 * 128, 128, plain.state.begin() + 128);
  ASSERT_TRUE(scan.on(Team{1}).run(plain.input(), plain.out_view(), plain.state_view(2), offsets).ok());
  EXPECT_EQ(c.out, plain.out);
  for (int i = 0; i < 128; ++i) {
    EXPECT_EQ(c.state[3 * 128 + i], plain.state[i]);
    EXPECT_EQ(c.state[1 * 128 + i], plain.state[128 + i]);
    EXPECT_EQ(c.state[i], before[i]);
  }
  EXPECT_NE(scan.on(Team{2}).run(c.input(), c.out_view(), c.state_view(4), {offsets, twice}).message().find("twice"),
            std::string::npos);
  EXPECT_NE(scan.on(Team{2}).run(c.input(), c.out_view(), c.state_view(4), {offsets, beyond}).message().find("slot 4"),
            std::string::npos);
}

}  // namespace
}  // namespace fourfold
