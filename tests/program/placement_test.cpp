// Where experts go: by name, by layer, and by what fits.
#include "program/placement.hpp"

#include <gtest/gtest.h>

#include "support/models.hpp"

namespace fourfold {
namespace {

// Layers whose experts are on the GPU.
std::vector<std::string> on_gpu(const Program& program, const Placement& placement) {
  std::vector<std::string> found;
  for (std::size_t i = 0; i < program.steps.size(); ++i)
    if (program.steps[i].name.ends_with("experts_down") && placement.steps[i] == Place::gpu)
      found.push_back(program.steps[i].name);
  return found;
}

TEST(Placement, PutsExpertsWhereTheyAreAskedFor) {
  const Program program = test::open_model("qwen3_moe").program();  // layers 0, 2 and 3 are routed
  constexpr double kLarge = 1e12;
  const auto all = [&](ExpertsOn where, std::optional<int> layers, double bytes) {
    return on_gpu(program, place(program, where, layers, bytes));
  };
  const std::vector<std::string> every{"blk.0.experts_down", "blk.2.experts_down", "blk.3.experts_down"};
  EXPECT_EQ(all(ExpertsOn::gpu, {}, kLarge), every);
  EXPECT_EQ(all(ExpertsOn::automatic, {}, kLarge), every);
  EXPECT_TRUE(all(ExpertsOn::cpu, {}, kLarge).empty());
  EXPECT_EQ(all(ExpertsOn::cpu, 1, kLarge), (std::vector(every.begin() + 1, every.end())));
  EXPECT_TRUE(all(ExpertsOn::gpu, {}, 0).empty()) << "there is no GPU";
}

TEST(Placement, TakesTheLastLayersThatFit) {
  const Program program = test::open_model("qwen3_moe").program();
  const Placement whole = place(program, ExpertsOn::gpu, {}, 1e12);
  double weights = 0;
  for (const TensorSpec& tensor : program.tensors) weights += static_cast<double>(tensor.bytes());
  const double experts = whole.gpu_weight_bytes, layer = experts / 3;
  EXPECT_EQ(experts, 3.0 * 8 * 3 * 64 * 48 * 2) << "3 layers of 8 experts with 3 matrices in bf16";
  const Placement part = place(program, ExpertsOn::automatic, {}, weights - experts + 1.5 * layer);
  EXPECT_EQ(on_gpu(program, part), (std::vector<std::string>{"blk.3.experts_down"}));
  EXPECT_EQ(part.cpu_weight_bytes + part.gpu_weight_bytes, experts);
  EXPECT_TRUE(on_gpu(program, place(program, ExpertsOn::automatic, {}, weights - experts)).empty());
}

TEST(Placement, CountsDistinctExperts) {
  const Program program = test::open_model("qwen3_moe").program();
  for (const Step& step : program.steps)
    if (const auto* experts = std::get_if<Experts>(&step.op)) {
      EXPECT_DOUBLE_EQ(distinct_experts(program, *experts, 1), 3);
      EXPECT_DOUBLE_EQ(distinct_experts(program, *experts, 2), 8 * (1 - 25.0 / 64));
      EXPECT_NEAR(distinct_experts(program, *experts, 1000), 8, 1e-9);
    }
}

TEST(Placement, HasThreeNames) {
  EXPECT_EQ(experts_on("auto"), ExpertsOn::automatic);
  EXPECT_EQ(experts_on("cpu"), ExpertsOn::cpu);
  EXPECT_EQ(experts_on("gpu"), ExpertsOn::gpu);
  EXPECT_FALSE(experts_on("tpu"));
}

}  // namespace
}  // namespace fourfold
