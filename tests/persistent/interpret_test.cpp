// The interpreter of persistent plans against the other executors: on tiny models of every family that the plan takes,
// and on a named shape, whatever the order of tasks and the grid.
#include "cuda/persistent/interpret.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "cuda/persistent/validate.hpp"
#include "engine/checkpoint_bytes.hpp"
#include "formats/checkpoint.hpp"
#include "models/family.hpp"
#include "models/random_weights.hpp"
#include "program/reference.hpp"
#include "support/models.hpp"

namespace fourfold::cuda::persistent {
namespace {

std::unique_ptr<Interpreter> interpreter_of(const Program& program, const WeightBytes& bytes, int grid, int slice) {
  auto plan = make_plan(program, {grid, slice});
  EXPECT_TRUE(plan.ok()) << plan.error().message();
  const status valid = validate(plan.value());
  EXPECT_TRUE(valid.ok()) << valid.message();
  auto made = Interpreter::make(program, std::move(plan).value(), bytes);
  EXPECT_TRUE(made.ok());
  return std::move(made).value();
}

// Greedy logits of `tokens` tokens behind `first`, [tokens, vocab], by the reference in float.
std::vector<float> reference_logits(const Program& program, const WeightBytes& bytes, int first,
                                    std::span<const int> then) {
  auto backend = make_reference(program, bytes, {}, false);
  auto executor = backend.value()->plan({.context = 64, .batch = 1, .cache = Storage::bf16});
  std::vector<float> logits(then.size() * static_cast<std::size_t>(program.vocab));
  for (std::size_t t = 0; t < then.size(); ++t) {
    const int id = t == 0 ? first : then[t - 1];
    const status done = executor.value()->forward(std::span(&id, 1), static_cast<int>(t), 1,
                                                  logits.data() + t * static_cast<std::size_t>(program.vocab));
    EXPECT_TRUE(done.ok()) << done.message();
  }
  return logits;
}

double relative(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - want[i], 2);
    norm += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(error / norm);
}

class FamilyTest : public testing::TestWithParam<const char*> {};

TEST_P(FamilyTest, AgreesWithTheReference) {
  auto checkpoint = open_checkpoint(test::kModels + GetParam());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message();
  auto spec = read_model(checkpoint.value());
  ASSERT_TRUE(spec.ok()) << spec.error().message();
  const Program& program = spec->program;
  const CheckpointBytes bytes(checkpoint.value());
  const Attend* attend = nullptr;
  for (const Step& step : program.steps)
    if (const auto* found = std::get_if<Attend>(&step.op)) attend = found;
  const CacheSpec& cache = program.caches[0];
  auto interpreter = interpreter_of(program, bytes, 7, attend->heads / cache.kv_heads * cache.head_dim);
  std::vector<float> logits, again;
  auto ids = interpreter->run(3, 0, 12, 1, &logits);
  ASSERT_TRUE(ids.ok()) << ids.error().message();
  // The cache holds bf16 here and float there.
  EXPECT_LT(relative(logits, reference_logits(program, bytes, 3, ids.value())), 1e-2);
  for (std::uint64_t seed : {2, 3, 4}) {
    ASSERT_TRUE(interpreter->run(3, 0, 12, seed, &again).ok());
    EXPECT_EQ(logits, again) << "the order of tasks shows, seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, FamilyTest, testing::Values("llama.f32.gguf", "qwen2", "qwen3"),
                         [](const auto& info) { return test::test_name(info.param); });

// A named shape at its own widths, one layer of it: 16 chains of keys, grids that divide nothing evenly.
TEST(Interpreter, ComputesANamedShapeOnAnyGrid) {
  auto spec = make_shape_model("qwen3-0.6b", Storage::bf16);
  ASSERT_TRUE(spec.ok()) << spec.error().message();
  Program program = spec->program;
  std::erase_if(program.steps,
                [](const Step& step) { return step.name.starts_with("blk.") && !step.name.starts_with("blk.0."); });
  auto& head = std::get<Project>(program.steps.back().op);
  head.in = std::get<AddTo>(std::get<Project>(program.steps[program.steps.size() - 2].op).epilogue).out;
  const RandomWeights bytes(7);
  std::vector<float> want;
  for (int grid : {132, 20}) {
    std::vector<float> logits;
    auto ids = interpreter_of(program, bytes, grid, 512)->run(5, 0, 2, 9, &logits);
    ASSERT_TRUE(ids.ok()) << ids.error().message();
    if (want.empty()) {
      want = logits;
      EXPECT_LT(relative(logits, reference_logits(program, bytes, 5, ids.value())), 2e-3);
    }
    EXPECT_EQ(logits, want) << "the grid shows";
  }
}

}  // namespace
}  // namespace fourfold::cuda::persistent
