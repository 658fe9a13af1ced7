#include <gtest/gtest.h>

#include <cmath>
#include <fourfold/math.hpp>

namespace fourfold {
namespace {

// Largest relative error of a float function against the double one, over [first, last].
template <class F, class G>
double worst(F f, G exact, float first, float last) {
  double error = 0;
  for (int i = 0; i <= 400000; ++i) {
    const float x = first + (last - first) * static_cast<float>(i) / 400000.f;
    const double want = exact(static_cast<double>(x));
    if (std::abs(want) < 1.2e-38) continue;  // subnormal results are checked apart
    error = std::max(error, std::abs(static_cast<double>(f(x)) / want - 1));
  }
  return error;
}

constexpr double kTwoUlp = 2 * 0x1p-23;

TEST(Math, FloatFunctionsStayWithinTwoUnits) {
  EXPECT_LE(worst([](float x) { return exp(x); }, [](double x) { return std::exp(x); }, -87.3f, 88.7f), kTwoUlp);
  EXPECT_LE(worst([](float x) { return exp2(x); }, [](double x) { return std::exp2(x); }, -126.f, 127.9f), kTwoUlp);
  EXPECT_LE(worst([](float x) { return tanh(x); }, [](double x) { return std::tanh(x); }, -12.f, 12.f), kTwoUlp);
  EXPECT_LE(worst([](float x) { return tanh(x); }, [](double x) { return std::tanh(x); }, 1e-6f, 0.7f), kTwoUlp);
}

TEST(Math, FloatFunctionsAtTheirEnds) {
  const float inf = kInfinity<float>;
  EXPECT_EQ(exp(-inf), 0.f);
  EXPECT_EQ(exp(inf), inf);
  EXPECT_EQ(exp(0.f), 1.f);
  EXPECT_EQ(exp(-104.f), 0.f);
  EXPECT_EQ(exp(88.8f), inf);
  EXPECT_NEAR(exp(-100.f), std::exp(-100.f), 0x1p-149f);
  EXPECT_EQ(exp2(-149.f), 0x1p-149f);
  EXPECT_EQ(exp2(127.f), 0x1p127f);
  EXPECT_EQ(exp2(128.f), inf);
  EXPECT_EQ(exp2(-3.f), 0.125f);
  EXPECT_EQ(tanh(inf), 1.f);
  EXPECT_EQ(tanh(-inf), -1.f);
  EXPECT_TRUE(std::signbit(tanh(-0.f)));
  for (float (*f)(float) : {exp<float>, exp2<float>, tanh<float>, sigmoid<float>})
    EXPECT_TRUE(std::isnan(f(kNaN<float>)));
  EXPECT_EQ(sigmoid(-inf), 0.f);
  EXPECT_EQ(sigmoid(inf), 1.f);
}

TEST(Math, LargerKeepsNaN) {
  EXPECT_TRUE(std::isnan(larger(kNaN<float>, 1.f)));
  EXPECT_TRUE(std::isnan(larger(1.f, kNaN<float>)));
  EXPECT_EQ(larger(-kInfinity<float>, 1.f), 1.f);
}

TEST(Math, RescaleOfEqualInfinitiesIsOne) {
  EXPECT_EQ(rescale(-kInfinity<float>, -kInfinity<float>), 1.f);
  EXPECT_EQ(rescale(kInfinity<float>, kInfinity<float>), 1.f);
  EXPECT_EQ(rescale(-kInfinity<float>, 0.f), 0.f);
}

static_assert(exp(0.f) == 1.f && exp2(3.f) == 8.f, "the float functions are constant expressions");

}  // namespace
}  // namespace fourfold
