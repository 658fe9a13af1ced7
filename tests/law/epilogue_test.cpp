#include <gtest/gtest.h>

#include <cmath>
#include <fourfold/epilogue.hpp>
#include <fourfold/fold.hpp>
#include <fourfold/map.hpp>
#include <fourfold/rope.hpp>

#include "random.hpp"

namespace fourfold {
namespace {

using test::Random;

// Fault A12: which coordinates pair up, at position 1, two frequencies: 1 and 10000^(-1/2) = 0.01.
TEST(Rope, PairsHalvesOrNeighbours) {
  const double c0 = std::cos(1.0), s0 = std::sin(1.0), c1 = std::cos(0.01), s1 = std::sin(0.01);
  std::vector<double> halves{1, 2, 3, 4}, neighbours = halves;
  Rope{.dim = 4, .rotary = 4, .pairing = Pairing::halves, .first = 1}.row(std::span(halves), 0);
  Rope{.dim = 4, .rotary = 4, .pairing = Pairing::interleaved, .first = 1}.row(std::span(neighbours), 0);
  const double want_halves[] = {1 * c0 - 3 * s0, 2 * c1 - 4 * s1, 1 * s0 + 3 * c0, 2 * s1 + 4 * c1};
  const double want_neighbours[] = {1 * c0 - 2 * s0, 1 * s0 + 2 * c0, 3 * c1 - 4 * s1, 3 * s1 + 4 * c1};
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(halves[i], want_halves[i], 1e-15);
    EXPECT_NEAR(neighbours[i], want_neighbours[i], 1e-15);
  }
}

TEST(Rope, TurnsOnlyTheRotaryPartOfEveryHead) {
  std::vector<float> row{1, 2, 3, 4, 5, 6, 7, 8};  // two heads of 4, of which 2 turn
  Rope{.dim = 4, .rotary = 2}.row(std::span(row), 3);
  const float c = std::cos(3.f), s = std::sin(3.f);
  EXPECT_NEAR(row[0], 1 * c - 2 * s, 1e-6);
  EXPECT_NEAR(row[1], 1 * s + 2 * c, 1e-6);
  EXPECT_NEAR(row[4], 5 * c - 6 * s, 1e-6);
  EXPECT_EQ(row[2], 3);
  EXPECT_EQ(row[7], 8);
}

TEST(Rope, PositionsAndDivisorsAreTheCallers) {
  const std::vector<int> positions{5, 2};
  const std::vector<float> divisors{4};
  std::vector<double> row{1, 0};
  Rope{.dim = 2, .rotary = 2, .positions = positions, .divisors = divisors}.row(std::span(row), 1);
  EXPECT_NEAR(row[0], std::cos(0.5), 1e-15);
  EXPECT_NEAR(row[1], std::sin(0.5), 1e-15);
}

// Fault A12: the Llama-3 ramp below, inside and above the band, and at its edges.
TEST(Rope, Llama3ScalingByWavelength) {
  const RopeScaling scaling{RopeScaling::Kind::llama3, 8, 1, 4, 8192};
  const auto at_wavelength = [&](double wavelength) {
    return scaling(2 * M_PI / wavelength) * wavelength / (2 * M_PI);
  };
  EXPECT_NEAR(at_wavelength(100), 1, 1e-15) << "shorter than 8192 / 4: kept";
  EXPECT_NEAR(at_wavelength(2048), 1, 1e-12);
  EXPECT_NEAR(at_wavelength(8192), 1.0 / 8, 1e-12);
  EXPECT_NEAR(at_wavelength(20000), 1.0 / 8, 1e-15) << "longer than 8192: slowed";
  const double kept = (8192.0 / 4096 - 1) / (4 - 1);  // a third of the way
  EXPECT_NEAR(at_wavelength(4096), (1 - kept) / 8 + kept, 1e-15);
  EXPECT_NEAR(RopeScaling({RopeScaling::Kind::linear, 4})(1.0), 0.25, 0);
}

TEST(Rope, LatePositionsKeepTheirPhase) {
  std::vector<float> row{1, 0};
  Rope{.dim = 2, .rotary = 2, .first = 1000003}.row(std::span(row), 0);
  EXPECT_NEAR(row[0], std::cos(1000003.0), 1e-7);
}

TEST(Epilogue, Activations) {
  for (double x : {-30.0, -2.0, -1e-3, 0.0, 0.5, 3.0, 40.0}) {
    const double silu = x / (1 + std::exp(-x));
    const double gelu = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    EXPECT_NEAR(Silu{}(x, 0, 0), silu, 1e-15 * (1 + std::abs(x)));
    EXPECT_NEAR(GeluTanh{}(x, 0, 0), gelu, 1e-14 * (1 + std::abs(x)));
    EXPECT_NEAR(Silu{}(static_cast<float>(x), 0, 0), silu, 3e-7 * (std::abs(silu) + 1e-9));
    EXPECT_NEAR(GeluTanh{}(static_cast<float>(x), 0, 0), gelu, 3e-7 * (std::abs(x) + 1e-9));
  }
}

TEST(Epilogue, ChainsRunFirstToLast) {
  const std::vector<float> bias{1, 2}, other{10, 20, 30, 40}, weight{1, 1};
  const auto chain = AddBias{bias.data()} | Scale{2} | Add{Rows{other.data(), 2, 2}};
  static_assert(Score<decltype(chain)>);
  EXPECT_EQ(chain(5.f, 1, 0), (5 + 1) * 2 + 30);
  const auto gate = Gate{Silu{}, Rows{other.data(), 2, 2}};
  EXPECT_NEAR(gate(1.0, 0, 1), 20 / (1 + std::exp(-1.0)), 1e-14);

  std::vector<double> row{3, 4};
  const auto norm_last = Scale{2} | RmsNorm{weight.data(), 0};
  static_assert(RowEpilogue<decltype(norm_last)> && !Score<decltype(norm_last)>);
  apply(norm_last | AddBias{bias.data()}, std::span(row), 0);
  EXPECT_NEAR(row[0], 3 / std::sqrt(12.5) + 1, 1e-15);
  EXPECT_NEAR(row[1], 4 / std::sqrt(12.5) + 2, 1e-15);
}

TEST(Epilogue, NormsOverTheRowOrEachHead) {
  Random random(30);
  const auto x = random.normals(600), weight = random.normals(600), bias = random.normals(600);
  std::vector<double> rms(x.begin(), x.end()), layer = rms, grouped = rms;
  RmsNorm{weight.data(), 1e-5f}.row(std::span(rms), 0);
  RmsNorm{weight.data(), 1e-5f, 200}.row(std::span(grouped), 0);
  LayerNorm{weight.data(), bias.data(), 1e-5f}.row(std::span(layer), 0);
  const auto moments = [&](int first, int n) {
    double sum = 0, squares = 0;
    for (int i = first; i < first + n; ++i) sum += double(x[i]), squares += double(x[i]) * double(x[i]);
    return std::pair{sum / n, squares / n};
  };
  const auto [mean, square] = moments(0, 600);
  for (int i = 0; i < 600; ++i) {
    const double epsilon = double(1e-5f), w = double(weight[i]);
    EXPECT_NEAR(rms[i], double(x[i]) * w / std::sqrt(square + epsilon), 1e-13);
    EXPECT_NEAR(layer[i], (double(x[i]) - mean) * w / std::sqrt(square - mean * mean + epsilon) + double(bias[i]),
                1e-12);
    const double head = moments(i / 200 * 200, 200).second;
    EXPECT_NEAR(grouped[i], double(x[i]) * double(weight[i % 200]) / std::sqrt(head + epsilon), 1e-13);
  }
}

TEST(Epilogue, FollowsAFoldOnEveryExecutor) {
  Random random(31);
  const auto a = random.normals(4 * 32), b = random.normals(8 * 32), weight = random.normals(8);
  std::vector<float> plain(4 * 8), got(4 * 8);
  const Rows<const float> x{a.data(), 4, 32}, w{b.data(), 8, 32};
  const auto finish = RmsNorm{weight.data(), 1e-6f} | Rope{.dim = 4, .rotary = 4, .first = 9};
  ASSERT_TRUE((Fold{Full{}, Sum{}}.on(reference_f32).multiply(x, w, Rows{plain.data(), 4, 8}).ok()));
  for (int row = 0; row < 4; ++row) apply(finish, std::span<float>(&plain[row * 8], 8), row);
  const Fold fused{Full{}, Plain{}, Sum{}, finish};
  ASSERT_TRUE(fused.on(reference_f32).multiply(x, w, Rows{got.data(), 4, 8}).ok());
  EXPECT_EQ(got, plain) << "fused must equal unfused";
  ASSERT_TRUE(fused.on(Team{2}).multiply(x, w, Rows{got.data(), 4, 8}).ok());
  EXPECT_EQ(got, plain);
}

TEST(Map, AppliesToEveryRowAndChecksShapes) {
  Random random(32);
  const auto x = random.normals(5 * 70);
  std::vector<float> out(5 * 70);
  const Map gelu{GeluTanh{}};
  for (int threads : {1, 3}) {
    ASSERT_TRUE(gelu.on(Team{threads}).run(Rows{x.data(), 5, 70}, Rows{out.data(), 5, 70}).ok());
    for (int i = 0; i < 350; ++i) EXPECT_EQ(out[i], GeluTanh{}(x[i], 0, 0));
  }
  ASSERT_TRUE(gelu.on(reference).run(Rows{x.data(), 5, 70}, Rows{out.data(), 5, 70}).ok());
  for (int i = 0; i < 350; ++i) EXPECT_EQ(out[i], static_cast<float>(GeluTanh{}(double(x[i]), 0, 0)));
  EXPECT_NE(gelu.on(reference).run(Rows{x.data(), 5, 70}, Rows{out.data(), 7, 50}).message().find("rows is 7, must be"),
            std::string::npos);
}

}  // namespace
}  // namespace fourfold
