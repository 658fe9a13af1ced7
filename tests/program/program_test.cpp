// Programs of the published shapes: arenas that never let two live Values share bytes, and costs that add up.
#include "fourfold/program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/family.hpp"
#include "models/shapes.hpp"
#include "program/arena.hpp"

namespace fourfold {
namespace {

Program program_of(const NamedShape& shape, Storage storage = Storage::q4_0) {
  auto spec = make_shape_model(shape.name, storage);
  EXPECT_TRUE(spec.ok()) << spec.error().message();
  return std::move(spec).value().program;
}

// The first and last step that touches a Value.
std::pair<int, int> life(const Program& program, int value) {
  int first = -1, last = -1;
  for (int s = 0; s < static_cast<int>(program.steps.size()); ++s) {
    const StepUses u = uses(program.steps[static_cast<std::size_t>(s)]);
    for (const auto* list : {&u.reads, &u.writes})
      if (std::find(list->begin(), list->end(), Value{value}) != list->end()) {
        first = first < 0 ? s : first;
        last = s;
      }
  }
  return {first, last};
}

bool share(const Program& program, const ArenaPlan& plan, std::size_t a, std::size_t b) {
  return plan.offset[a] < plan.offset[b] + program.values[b].width &&
         plan.offset[b] < plan.offset[a] + program.values[a].width;
}

TEST(Arena, ValuesAliveTogetherLieApart) {
  for (const NamedShape& shape : kNamedShapes) {
    const Program program = program_of(shape);
    const ArenaPlan plan = plan_arena(program);
    std::vector<std::pair<int, int>> lives;
    for (std::size_t v = 0; v < program.values.size(); ++v) lives.push_back(life(program, static_cast<int>(v)));
    std::int64_t separate = 0;
    for (std::size_t a = 0; a < program.values.size(); ++a) {
      if (static_cast<int>(a) == program.logits.id) continue;
      separate += program.values[a].width;
      EXPECT_GE(plan.offset[a], 0);
      EXPECT_LE(plan.offset[a] + program.values[a].width, plan.width);
      for (std::size_t b = a + 1; b < program.values.size(); ++b) {
        const bool together = lives[a].first <= lives[b].second && lives[b].first <= lives[a].second;
        if (static_cast<int>(b) == program.logits.id || !together) continue;
        EXPECT_FALSE(share(program, plan, a, b))
            << shape.name << ": " << program.values[a].name << ", " << program.values[b].name;
      }
    }
    EXPECT_LT(plan.width * shape.layers, separate * 2) << "layers reuse each other's places";
    EXPECT_EQ(plan.offset[static_cast<std::size_t>(program.logits.id)], -1);
  }
}

TEST(Arena, WithoutReuseEveryValueHasItsOwnPlace) {
  const Program program = program_of(*find_shape("gemma-3-270m"));
  const ArenaPlan plan = plan_arena(program, false);
  const auto logits = static_cast<std::size_t>(program.logits.id);
  for (std::size_t a = 0; a < program.values.size(); ++a)
    for (std::size_t b = a + 1; b < program.values.size(); ++b)
      EXPECT_TRUE(a == logits || b == logits || !share(program, plan, a, b));
}

TEST(Program, WritesEveryValueBeforeItIsRead) {
  for (const NamedShape& shape : kNamedShapes) {
    const Program program = program_of(shape);
    std::vector<bool> written(program.values.size(), false);
    for (const Step& step : program.steps) {
      const StepUses u = uses(step);
      for (Value v : u.reads) EXPECT_TRUE(written[static_cast<std::size_t>(v.id)]) << shape.name << " " << step.name;
      for (Value v : u.writes) written[static_cast<std::size_t>(v.id)] = true;
    }
    EXPECT_TRUE(written[static_cast<std::size_t>(program.logits.id)]);
  }
}

TEST(Cost, CountsEveryWeightOnceAndTheKeysInSight) {
  for (const NamedShape& shape : kNamedShapes) {
    if (shape.family == "qwen3next") continue;  // see below
    const Program program = program_of(shape, Storage::bf16);
    const double active = static_cast<double>(weight_count(shape, shape.chosen));
    // Matrices without the embedding's rows, of which a token reads one; norms are in float32.
    const double gathered = shape.tied ? 0 : 1.0 * shape.vocab * shape.d_model;
    const double matrices = 2 * (active - gathered + shape.d_model);
    const StepCost one = cost(program, 1, 1000, Storage::f16, 1);
    EXPECT_NEAR(one.weight_bytes / matrices, 1, 2e-3) << shape.name;
    double keys = 0;
    for (const CacheSpec& cache : program.caches) keys += cache.window > 0 ? std::min(cache.window, 1000) : 1000;
    EXPECT_EQ(one.cache_bytes, keys * 2 * 2 * shape.kv_heads * shape.head_dim) << shape.name;
    const double sums = 2.0 * shape.layers * shape.d_model * shape.chosen;  // of what experts make
    EXPECT_DOUBLE_EQ(one.flops, 2 * (active - gathered) + keys * 4 * shape.heads * shape.head_dim + sums) << shape.name;
  }
}

// Of 48 layers 36 keep a state for each of 32 heads, 128 x 128, and the last 3 tokens of 8192 channels; 12 keep keys
// and values of 2 heads of 256. A token reads a part of the cache, and reads and writes every state.
TEST(Cost, SetsStatesAgainstKeysByContext) {
  const Program program = program_of(*find_shape("qwen3-next-80b-a3b"));
  constexpr double kStates = 36 * 4.0 * (32 * 128 * 128 + 3 * 8192), kPosition = 12 * 2 * 2 * 2 * 256;
  for (const std::int64_t context : {1 << 10, 1 << 15, 1 << 20}) {
    const StepCost one = cost(program, 1, context, Storage::f16, 1);
    EXPECT_EQ(one.cache_bytes, kPosition * static_cast<double>(context));
    EXPECT_EQ(one.state_bytes, 2 * kStates);
  }
  EXPECT_EQ(static_cast<double>(program.state_numbers()) * 4, kStates);
}

// 8 of 128 experts a layer for one token, and for 32 tokens 128 (1 - (15/16)^32) = 111.77 of them: 3 matrices each,
// behind the norm's 2048 numbers.
TEST(Cost, CountsTheExpertsThatTokensTouch) {
  const Program program = program_of(*find_shape("qwen3-30b-a3b"), Storage::bf16);
  constexpr double kExpert = 3.0 * 768 * 2048 * 2;
  for (const auto& [tokens, distinct] : {std::pair{1, 8.0}, {32, 128 * (1 - std::pow(15.0 / 16, 32))}}) {
    double bytes = 0;
    for (const Step& step : program.steps)
      if (std::holds_alternative<Experts>(step.op))
        bytes += cost(program, step, tokens, 4096, Storage::f16, 1).weight_bytes;
    EXPECT_NEAR(bytes, 48 * (distinct * kExpert + 4 * 2048), 1) << tokens;
  }
}

TEST(Cost, PromptsReadWeightsOnceAndSkipUnwantedLogits) {
  const Program program = program_of(*find_shape("llama-3-8b"), Storage::q8_0);
  const StepCost one = cost(program, 1, 512, Storage::f16, 1), many = cost(program, 512, 512, Storage::f16, 1);
  const double table = static_cast<double>(program.tensor({0}).bytes());
  EXPECT_NEAR(many.weight_bytes, one.weight_bytes + 511 * table / 128256, 1);  // 511 more rows of the embedding
  EXPECT_EQ(many.cache_bytes, one.cache_bytes);
  const StepCost silent = cost(program, 512, 512, Storage::f16, 0);
  EXPECT_LT(silent.weight_bytes, many.weight_bytes);
  EXPECT_LT(silent.flops, many.flops);
}

}  // namespace
}  // namespace fourfold
