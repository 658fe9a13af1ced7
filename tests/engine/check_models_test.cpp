// check on models of every kind: the executor agrees, and an error planted in any kind of step is found there.
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/check.hpp"
#include "engine/checkpoint_bytes.hpp"
#include "support/models.hpp"

namespace fourfold {
namespace {

// A checkpoint's bytes, with one float32 number of one tensor changed.
class Planted : public WeightBytes {
 public:
  Planted(const Checkpoint& checkpoint, std::string tensor, std::uint64_t element, float factor)
      : bytes_(checkpoint), tensor_(std::move(tensor)), at_(element * sizeof(float)), factor_(factor) {}

  status read(const TensorSpec& tensor, std::uint64_t offset, std::span<std::byte> out) const override {
    FOURFOLD_TRY(bytes_.read(tensor, offset, out));
    if (tensor.name != tensor_ || at_ < offset || at_ >= offset + out.size()) return {};
    float number = 0;
    std::memcpy(&number, out.data() + (at_ - offset), sizeof number);
    number *= factor_;
    std::memcpy(out.data() + (at_ - offset), &number, sizeof number);
    return {};
  }

 private:
  CheckpointBytes bytes_;
  std::string tensor_;
  std::uint64_t at_;
  float factor_;
};

std::vector<StepCheck> failures(const Model& model, const SessionOptions& options, const WeightBytes& bytes) {
  const auto checks = check_against_reference(model, options, bytes, test::some_ids(21, model.vocab()));
  EXPECT_TRUE(checks.ok()) << checks.error().message();
  std::vector<StepCheck> failed;
  for (const StepCheck& check : checks.ok() ? *checks : std::vector<StepCheck>{})
    if (!check.ok()) failed.push_back(check);
  return failed;
}

TEST(CheckModels, EveryModelAgrees) {
  for (const char* name :
       {"llama", "qwen2", "qwen3", "gemma3", "variants/gguf_llama_blocks.gguf", "variants/gguf_gemma3_pattern.gguf",
        "variants/llama_bias_linear", "variants/qwen2_moe", "variants/glm4_moe_groups", "variants/gpt_oss_mxfp4",
        "variants/mixtral_window", "variants/deepseek_v2_plain", "variants/deepseek_v3_yarn", "variants/deepseek_v32",
        "variants/gguf_deepseek2_split.gguf"}) {
    const Checkpoint file = std::move(open_checkpoint(test::kModels + name)).value();
    const Model model = test::open_model(name);
    for (const bool f32 : {false, true})
      for (const StepCheck& bad : failures(model, {.threads = 2, .f32 = f32}, CheckpointBytes(file)))
        ADD_FAILURE() << name << (f32 ? " f32: " : ": ") << bad.step << " " << bad.output << " " << bad.distance;
  }
}

TEST(CheckModels, NamesTheStepOfAPlantedError) {
  const std::string name = "variants/qwen3_window_bias";  // stored in float32
  const Checkpoint file = std::move(open_checkpoint(test::kModels + name)).value();
  const Model model = test::open_model(name);
  const std::pair<const char*, const char*> planted[] = {
      {"model.layers.1.mlp.down_proj.weight", "blk.1.down"},
      {"model.layers.0.self_attn.k_norm.weight", "blk.0.qkv"},
      {"model.layers.1.self_attn.o_proj.bias", "blk.1.attn_out"},
      {"model.layers.0.post_attention_layernorm.weight", "blk.0.gate_up"},
      {"model.norm.weight", "logits"},
  };
  for (const auto& [tensor, step] : planted) {
    const auto failed = failures(model, {.threads = 2, .f32 = true}, Planted(file, tensor, 5, 1.01f));
    ASSERT_FALSE(failed.empty()) << tensor;
    for (const StepCheck& bad : failed) EXPECT_EQ(bad.step, step) << tensor;
  }
}

TEST(CheckModels, PutsNanFirst) {
  const std::string name = "variants/qwen3_window_bias";
  const Checkpoint file = std::move(open_checkpoint(test::kModels + name)).value();
  const auto failed =
      failures(test::open_model(name), {.threads = 2, .f32 = true},
               Planted(file, "model.layers.1.self_attn.o_proj.bias", 17, std::numeric_limits<float>::quiet_NaN()));
  ASSERT_FALSE(failed.empty());
  EXPECT_EQ(failed[0].step, "blk.1.attn_out");
  EXPECT_EQ(failed[0].worst->token, 0);
  EXPECT_EQ(failed[0].worst->column, 17);
  EXPECT_TRUE(std::isnan(failed[0].worst->expected));
}

}  // namespace
}  // namespace fourfold
