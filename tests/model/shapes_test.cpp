// The named shapes: their sizes are those their names and model cards state.
#include "models/shapes.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "models/family.hpp"

namespace fourfold {
namespace {

// Numbers in all tensors of the Program.
double held(const NamedShape& shape) {
  const auto spec = make_shape_model(shape.name, Storage::bf16);
  EXPECT_TRUE(spec.ok()) << spec.error().message();
  double numbers = 0;
  for (const TensorSpec& t : spec->program.tensors)
    numbers += static_cast<double>(t.stack) * static_cast<double>(t.rows) * static_cast<double>(t.cols);
  return numbers;
}

TEST(Shapes, HoldThePublishedNumberOfWeights) {
  const std::map<std::string_view, double> millions = {
      {"smollm2-135m", 134.5},  {"smollm2-360m", 361.8},    {"smollm2-1.7b", 1711.4},       {"llama-3.2-1b", 1235.8},
      {"llama-3.2-3b", 3212.7}, {"llama-3-8b", 8030.3},     {"llama-3-70b", 70553.7},       {"qwen2.5-0.5b", 494.0},
      {"qwen2.5-1.5b", 1543.7}, {"qwen2.5-7b", 7615.6},     {"qwen3-0.6b", 596.0},          {"qwen3-1.7b", 1720.6},
      {"qwen3-4b", 4022.5},     {"qwen3-8b", 8190.7},       {"gemma-3-270m", 268.1},        {"gemma-3-1b", 999.9},
      {"gemma-3-4b", 3880.1},   {"qwen3-30b-a3b", 30532.1}, {"qwen3-next-80b-a3b", 79674.4}};
  EXPECT_EQ(millions.size(), kNamedShapes.size());
  for (const NamedShape& s : kNamedShapes) {
    ASSERT_TRUE(millions.count(s.name)) << s.name;
    EXPECT_NEAR(held(s) / 1e6, millions.at(s.name), millions.at(s.name) * 1e-3) << s.name;
  }
}

TEST(Shapes, AreConsistentAndFound) {
  std::set<std::string_view> names;
  for (const NamedShape& s : kNamedShapes) {
    EXPECT_TRUE(names.insert(s.name).second) << s.name;
    EXPECT_EQ(s.heads % s.kv_heads, 0) << s.name;
    EXPECT_EQ(s.window != 0, s.family == "gemma3") << s.name;
    EXPECT_EQ(find_shape(s.name), &s);
    EXPECT_NE(shape_names().find(s.name), std::string::npos);
  }
  EXPECT_EQ(find_shape("llama-9-1b"), nullptr);
  EXPECT_EQ(find_shape(""), nullptr);
}

}  // namespace
}  // namespace fourfold
