// Maps against f64 on every level, on sizes around the vector length, with values across the whole range.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "kernels_fixture.hpp"

namespace fourfold::simd::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Sizes 1 .. 2 vectors + 1, and some larger.
std::vector<int> sizes() {
  std::vector<int> all = {0, 255, 256, 257, 1000};
  for (int n = 1; n <= 33; ++n) all.push_back(n);
  return all;
}

struct Row {
  Guarded<float> x;
  Row(int n, Random& random, float spread = 4) : x(static_cast<std::size_t>(n)) {
    for (float& v : x) v = spread * normal(random);
  }
};

void expect_map(const char* what, const Row& out, const std::function<double(std::size_t)>& wanted, double relative,
                double absolute = 0) {
  for (std::size_t i = 0; i < out.x.size(); ++i) {
    const double w = wanted(i);
    ASSERT_NEAR(out.x[i], w, relative * std::fabs(w) + absolute) << what << " at " << i << " of " << out.x.size();
  }
}

TEST(Map, MatchesF64) {
  Random random(21);
  for (const Kernels* t : levels()) {
    SCOPED_TRACE(t->name);
    for (const int n : sizes()) {
      const Row a(n, random), b(n, random);
      Row out(n, random);
      t->add(a.x.data(), b.x.data(), n, out.x.data());
      expect_map(
          "add", out, [&](std::size_t i) { return double{a.x[i]} + b.x[i]; }, 0x1p-23);
      t->norm(a.x.data(), b.x.data(), 0.3f, n, out.x.data());
      expect_map(
          "norm", out, [&](std::size_t i) { return double{a.x[i]} * 0.3f * b.x[i]; }, 0x1p-22);
      t->silu_gate(a.x.data(), b.x.data(), n, out.x.data());
      expect_map(
          "silu", out, [&](std::size_t i) { return a.x[i] / (1 + std::exp(-double{a.x[i]})) * b.x[i]; }, 1e-6);
      t->gelu_gate(a.x.data(), b.x.data(), n, out.x.data());
      expect_map(
          "gelu", out,
          [&](std::size_t i) {
            const double x = a.x[i], z = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
            return x / (1 + std::exp(-2 * z)) * b.x[i];
          },
          4e-6, 1e-12);
      std::memcpy(out.x.data(), a.x.data(), a.x.size() * sizeof(float));
      t->soft_cap(out.x.data(), 3.0f, n);
      expect_map(
          "soft cap", out, [&](std::size_t i) { return 3 * std::tanh(a.x[i] / 3.0); }, 1e-6);
      std::memcpy(out.x.data(), a.x.data(), a.x.size() * sizeof(float));
      t->scale(out.x.data(), 1.5f, n);
      expect_map(
          "scale", out, [&](std::size_t i) { return 1.5 * a.x[i]; }, 0x1p-24);
      t->step_sizes(a.x.data(), 0.01f, 5, n, out.x.data());
      expect_map(
          "step size", out, [&](std::size_t i) { return std::clamp(std::log1p(std::exp(double{a.x[i]})), 0.01, 5.0); },
          4e-7);
      t->step_sizes(a.x.data(), 0, kInfinity, n, out.x.data());
      expect_map(
          "softplus", out, [&](std::size_t i) { return std::log1p(std::exp(double{a.x[i]})); }, 4e-7);
      t->exps(a.x.data(), 0.5f, n, out.x.data());
      expect_map(
          "exp", out, [&](std::size_t i) { return std::exp(0.5 * a.x[i]); }, 4e-7);
      t->sigmoids(a.x.data(), -0.5f, n, out.x.data());
      expect_map(
          "sigmoid", out, [&](std::size_t i) { return 1 / (1 + std::exp(0.5 * a.x[i])); }, 4e-7);
      double squares = 0;
      for (const float v : std::vector<float>(a.x.data(), a.x.data() + n)) squares += double{v} * v;
      EXPECT_NEAR(t->sum_squares(a.x.data(), n), squares, 1e-5 * squares);
    }
  }
}

TEST(Map, SumOfSquaresAddsPartialsOf256) {
  Random random(22);
  for (const Kernels* t : levels()) {
    const Row a(1000, random);
    float total = 0;
    for (int i = 0; i < 1000; i += 256) total += t->sum_squares(a.x.data() + i, std::min(256, 1000 - i));
    EXPECT_EQ(t->sum_squares(a.x.data(), 1000), total);
  }
}

TEST(Map, ExtremeInputsStayInRange) {
  for (const Kernels* t : levels()) {
    SCOPED_TRACE(t->name);
    const float one[] = {1, 1, 1, 1, 1, 1, 1}, x[] = {-kInfinity, -1e30f, -200, 0, 200, 1e30f, kNan};
    float out[7];
    t->silu_gate(x, one, 7, out);
    EXPECT_EQ(out[3], 0.0f);
    EXPECT_EQ(out[4], 200.0f);
    EXPECT_EQ(out[5], 1e30f);
    EXPECT_NEAR(out[2], 0.0f, 1e-30f);
    EXPECT_TRUE(std::isnan(out[6]));
    t->step_sizes(x, 0, kInfinity, 7, out);
    EXPECT_EQ(out[0], 0.0f);
    EXPECT_EQ(out[1], 0.0f);
    EXPECT_EQ(out[4], 200.0f);
    EXPECT_EQ(out[5], 1e30f);
    EXPECT_TRUE(std::isnan(out[6]));
    t->exps(x, 1, 7, out);
    EXPECT_EQ(out[0], 0.0f);
    EXPECT_EQ(out[2], 0.0f);
    EXPECT_EQ(out[3], 1.0f);
    EXPECT_TRUE(std::isnan(out[6]));
    std::memcpy(out, x, sizeof x);
    t->soft_cap(out, 30, 7);
    EXPECT_EQ(out[0], -30.0f);
    EXPECT_EQ(out[1], -30.0f);
    EXPECT_EQ(out[3], 0.0f);
    EXPECT_EQ(out[5], 30.0f);
    EXPECT_TRUE(std::isnan(out[6]));
  }
}

TEST(Map, RopeTurnsBothPairings) {
  Random random(23);
  for (const Kernels* t : levels())
    for (const int dims : {2, 4, 20, 32, 64, 96})
      for (const bool interleaved : {false, true}) {
        Row head(dims + 3, random), cos(dims / 2, random, 1), sin(dims / 2, random, 1);
        const std::vector<float> before(head.x.begin(), head.x.end());
        t->rope(head.x.data(), cos.x.data(), sin.x.data(), dims, interleaved);
        for (std::size_t i = 0; i < static_cast<std::size_t>(dims / 2); ++i) {
          const std::size_t a = interleaved ? 2 * i : i,
                            b = interleaved ? a + 1 : i + static_cast<std::size_t>(dims / 2);
          const double x = before[a], y = before[b], c = cos.x[i], s = sin.x[i];
          EXPECT_NEAR(head.x[a], x * c - y * s, 4e-7 * (std::fabs(x * c) + std::fabs(y * s)));
          EXPECT_NEAR(head.x[b], y * c + x * s, 4e-7 * (std::fabs(y * c) + std::fabs(x * s)));
        }
        for (std::size_t i = static_cast<std::size_t>(dims); i < before.size(); ++i) EXPECT_EQ(head.x[i], before[i]);
      }
}

TEST(Map, ArgmaxTakesTheLowestIndexAndNanLast) {
  Random random(24);
  for (const Kernels* t : levels()) {
    SCOPED_TRACE(t->name);
    for (const int n : {1, 15, 16, 17, 1023, 1024, 1025, 5000}) {
      Guarded<float> x(static_cast<std::size_t>(n));
      for (float& v : x) v = std::floor(4 * normal(random));
      int wanted = 0;
      for (int i = 0; i < n; ++i)
        if (x[static_cast<std::size_t>(i)] > x[static_cast<std::size_t>(wanted)]) wanted = i;
      EXPECT_EQ(t->argmax(x.data(), n), wanted);
      for (float& v : x) v = kNan;
      EXPECT_EQ(t->argmax(x.data(), n), 0);
      x[static_cast<std::size_t>(n - 1)] = -kInfinity;
      EXPECT_EQ(t->argmax(x.data(), n), n - 1);
      for (float& v : x) v = -kInfinity;
      EXPECT_EQ(t->argmax(x.data(), n), 0);
    }
    const float logits[] = {.5f, -1.2f, 3.1f, .8f};
    EXPECT_EQ(t->argmax(logits, 4), 2);
  }
}

}  // namespace
}  // namespace fourfold::simd::test
