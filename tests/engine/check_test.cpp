// check_against_reference finds a fault where it is made, and only there.
#include "engine/check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "engine/checkpoint_bytes.hpp"

namespace fourfold {
namespace {

const std::string kModel = FOURFOLD_TEST_DATA "/models/llama";
const std::vector<int> kIds = {5, 6, 7, 8, 9};

// Flips the sign bit of one bfloat16 of one tensor, as a wrong layout or kernel would.
class Flipped : public WeightBytes {
 public:
  Flipped(const WeightBytes& bytes, std::string tensor, std::uint64_t element)
      : bytes_(bytes), tensor_(std::move(tensor)), at_(2 * element + 1) {}
  status read(const TensorSpec& tensor, std::uint64_t offset, std::span<std::byte> out) const override {
    FOURFOLD_TRY(bytes_.read(tensor, offset, out));
    if (tensor.name == tensor_ && at_ >= offset && at_ - offset < out.size()) out[at_ - offset] ^= std::byte{0x80};
    return {};
  }

 private:
  const WeightBytes& bytes_;
  std::string tensor_;
  std::uint64_t at_;
};

class CheckTest : public testing::Test {
 protected:
  CheckTest() : model(load(kModel).value()), checkpoint(open_checkpoint(kModel).value()), bytes(checkpoint) {}
  std::vector<StepCheck> check(const WeightBytes& weights, SessionOptions options = {}) const {
    options.threads = 2;
    return check_against_reference(model, options, weights, kIds).value();
  }
  Model model;
  Checkpoint checkpoint;
  CheckpointBytes bytes;
};

TEST_F(CheckTest, EveryStepAgreesInEveryPrecision) {
  for (const bool f32 : {false, true})
    for (const auto cache : {Storage::f32, Storage::f16, Storage::bf16})
      for (const StepCheck& c : check(bytes, {.f32 = f32, .cache = cache}))
        EXPECT_TRUE(c.ok()) << c.step << " " << c.output << " " << c.distance << " > " << c.tolerance;
}

TEST_F(CheckTest, CoversEveryStepForThePromptAndForOneToken) {
  const auto checks = check(bytes);
  std::size_t outputs = 0;
  for (const Step& step : model.program().steps) {
    const auto* project = std::get_if<Project>(&step.op);
    outputs += uses(step).writes.size();
    if (project != nullptr && std::holds_alternative<Append>(project->epilogue)) outputs += 2;
  }
  EXPECT_EQ(checks.size(), 2 * outputs);
}

TEST_F(CheckTest, NamesTheStepAndTheColumnOfAFault) {
  const std::string name = "model.layers.1.mlp.down_proj.weight";
  const TensorInfo* tensor = checkpoint.find(name);
  ASSERT_NE(tensor, nullptr);
  const std::int64_t width = tensor->shape[1], row = 3;
  // The weight of the largest influence in row 3, so that the fault shows.
  std::vector<std::byte> row_bytes(static_cast<std::size_t>(2 * width));
  ASSERT_TRUE(checkpoint.read(*tensor, static_cast<std::uint64_t>(2 * width * row), row_bytes).ok());
  std::int64_t largest = 0;
  const auto magnitude = [&](std::int64_t i) {
    return std::to_integer<int>(row_bytes[static_cast<std::size_t>(2 * i + 1)]) & 0x7f;
  };
  for (std::int64_t i = 1; i < width; ++i)
    if (magnitude(i) > magnitude(largest)) largest = i;
  const auto checks = check(Flipped(bytes, name, static_cast<std::uint64_t>(row * width + largest)), {.f32 = true});
  int failed = 0;
  for (const StepCheck& c : checks) {
    if (c.ok()) continue;
    ++failed;
    EXPECT_EQ(c.step, "blk.1.down");
    EXPECT_EQ(c.worst->column, row);
    EXPECT_GT(c.distance, c.tolerance);
  }
  EXPECT_EQ(failed, 2);  // the prompt and the single token
}

// The bound of a step that rounds inside itself is wider; one wrong weight is still beyond it.
TEST(CheckLatent, NamesTheStepOfAFaultBesideItsRounding) {
  const std::string folder = FOURFOLD_TEST_DATA "/models/variants/deepseek_v3_yarn";
  const Model model = load(folder).value();
  const Checkpoint checkpoint = open_checkpoint(folder).value();
  const CheckpointBytes bytes(checkpoint);
  const Flipped flipped(bytes, "model.layers.1.self_attn.kv_b_proj.weight", 5);
  const auto checks = check_against_reference(model, {.threads = 2}, flipped, kIds).value();
  int failed = 0;
  for (const StepCheck& c : checks) {
    if (c.ok()) continue;
    ++failed;
    EXPECT_EQ(c.step, "blk.1.attend");
    EXPECT_GT(c.distance, c.tolerance);
  }
  EXPECT_EQ(failed, 2);  // the prompt and the single token
}

TEST_F(CheckTest, ProgressRisesToOneStepByStep) {
  std::vector<double> seen;
  const auto checks =
      check_against_reference(model, {.threads = 2}, bytes, kIds, [&](double fraction) { seen.push_back(fraction); });
  ASSERT_TRUE(checks.ok());
  EXPECT_EQ(seen.size(), 2 * model.program().steps.size());  // the prompt and the single token
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_GT(seen.front(), 0);
  EXPECT_DOUBLE_EQ(seen.back(), 1);
}

TEST_F(CheckTest, ASingleTokenIsRefused) {
  EXPECT_EQ(check_against_reference(model, {}, bytes, std::vector<int>{1}).error().code(), Code::invalid_argument);
}

TEST_F(CheckTest, RepeatsGiveTheSameBits) {
  int calls = 0;
  const auto check = check_repeats(model, {.threads = 2}, 6, [&](double) { ++calls; });
  ASSERT_TRUE(check.ok()) << check.error().message();
  EXPECT_TRUE(check->ok());
  EXPECT_EQ(check->steps, 6);
  EXPECT_EQ(calls, 12);
  EXPECT_EQ(check_repeats(model, {}, 0).error().code(), Code::invalid_argument);
  EXPECT_FALSE(check_repeats(model, {}, model.context() + 1).ok());
}

}  // namespace
}  // namespace fourfold
