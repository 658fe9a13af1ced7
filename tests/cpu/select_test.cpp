// Which level runs: forced, unknown, and with each feature masked.
#include "kernels_fixture.hpp"

namespace fourfold::simd::test {
namespace {

constexpr CpuFeatures kAll = {true, true, true, true, true, true, true, true, true, true, true, true};

std::string best(const CpuFeatures& features) { return select_kernels(nullptr, features).value()->name; }

TEST(Select, TakesTheBestLevel) {
  EXPECT_EQ(best(kAll), "avx512");
  EXPECT_EQ(best({}), "scalar");
}

TEST(Select, AMaskedFeatureLowersTheLevel) {
  for (const auto masked : {&CpuFeatures::f, &CpuFeatures::bw, &CpuFeatures::dq, &CpuFeatures::vl, &CpuFeatures::vnni,
                            &CpuFeatures::bf16, &CpuFeatures::vbmi, &CpuFeatures::os_zmm}) {
    CpuFeatures features = kAll;
    features.*masked = false;
    EXPECT_EQ(best(features), "avx2");
    EXPECT_FALSE(select_kernels("avx512", features).ok());
  }
  for (const auto masked : {&CpuFeatures::avx2, &CpuFeatures::fma, &CpuFeatures::f16c, &CpuFeatures::os_ymm}) {
    CpuFeatures features = kAll;
    features.*masked = false;
    EXPECT_EQ(best(features), "scalar");
  }
}

TEST(Select, ForcedLevels) {
  EXPECT_STREQ(select_kernels("avx2", kAll).value()->name, "avx2");
  EXPECT_STREQ(select_kernels("scalar", kAll).value()->name, "scalar");
  EXPECT_STREQ(select_kernels("", kAll).value()->name, "avx512");
  const auto unknown = select_kernels("sse9", kAll);
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().message(), "FOURFOLD_ISA: 'sse9' is not a level this machine runs (avx512, avx2, scalar)");
  EXPECT_FALSE(select_kernels("avx512", CpuFeatures{}).ok());
}

TEST(Select, ScalarAlwaysRuns) { EXPECT_STREQ(levels().back()->name, "scalar"); }

}  // namespace
}  // namespace fourfold::simd::test
