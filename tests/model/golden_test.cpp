// Every tiny model against the logits stored beside it: the reference executor in double, the team executor with
// float32 and with its own activations, and greedy text.
#include "support/golden.hpp"

#include <cmath>
#include <fstream>

#include "support/models.hpp"

namespace fourfold {
namespace {

using test::Golden;
using test::relative_rms;

constexpr double kReference = 1e-5;  // the stored logits are float32, and some of their norms were
constexpr double kFloat32 = 1e-4;    // the bound the goldens were published with
constexpr double kDefault = 2e-2;    // likewise, or what bfloat16 costs where that is more

constexpr double kOtherKeys = 0.25;  // rounded scores choose other keys: few of many, but 7 of 45 here

struct Case {
  std::string model, golden;
  std::string prompt;      // in front of "ids" and "logits"
  double fair = kDefault;  // default arithmetic
  double extra = 0;        // for the reference and float32: the file rounds weights that the golden does not
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* name : {"llama", "qwen2", "qwen3", "gemma3", "qwen3_moe"}) {
    const std::string folder = test::kModels + name + "/";
    std::ifstream in(folder + "golden.json");
    const auto fair = nlohmann::json::parse(in).at("fair_bf16_tol");
    for (int p = 0; p < 3; ++p)
      all.push_back({name, std::string(name) + "/golden.safetensors", "prompt" + std::to_string(p) + ".", fair[p], 0});
  }
  all.push_back({"llama.f16.gguf", "llama/golden.safetensors", "prompt0.", kDefault, 1e-2});
  for (const char* name : {"llama_bias_linear",
                           "llama_llama3",
                           "qwen2_window",
                           "qwen2_list",
                           "qwen3_window_bias",
                           "gemma3_list_cap",
                           "gemma3_wrapped",
                           "gemma3_wrapped_older",
                           "gguf_llama_freqs.gguf",
                           "gguf_llama_linear.gguf",
                           "gguf_llama_blocks.gguf",
                           "gguf_qwen2.gguf",
                           "gguf_qwen3.gguf",
                           "gguf_gemma3_bare.gguf",
                           "gguf_gemma3_pattern.gguf",
                           "mixtral_window",
                           "gguf_mixtral.gguf",
                           "qwen2_moe",
                           "qwen2_moe_norm",
                           "qwen3_moe_plain",
                           "glm4_moe_groups",
                           "glm4_moe_plain",
                           "gpt_oss_yarn",
                           "gpt_oss_mxfp4",
                           "deepseek_v2_plain",
                           "deepseek_v3_yarn",
                           "deepseek_v3_halves",
                           "deepseek_v32",
                           "gguf_deepseek2_whole.gguf",
                           "gguf_deepseek2_split.gguf"}) {
    const std::string model = std::string("variants/") + name;
    const double fair = model.ends_with("v32") ? kOtherKeys : kDefault;
    all.push_back({model, model.substr(0, model.find(".gguf")) + ".golden.safetensors", "", fair, 0});
  }
  return all;
}

class GoldenLogits : public testing::TestWithParam<Case> {
 protected:
  double error(const SessionOptions& options) const {
    const Case& c = GetParam();
    const Golden golden(test::kModels + c.golden);
    const Model model = test::open_model(c.model);
    const auto ids = golden.integers(c.prompt + "ids");
    auto got = test::all_logits(model, options, ids, 512);
    const auto vocab = static_cast<std::size_t>(model.vocab());
    if (golden.has(c.prompt + "positions")) {
      std::vector<float> kept;
      for (int p : golden.integers(c.prompt + "positions")) {
        const auto row = got.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(p) * vocab);
        kept.insert(kept.end(), row, row + static_cast<std::ptrdiff_t>(vocab));
      }
      got = kept;
    }
    return relative_rms(got, golden.floats(c.prompt + "logits"));
  }
};

TEST_P(GoldenLogits, Reference) { EXPECT_LE(error({.executor = "reference"}), kReference + GetParam().extra); }
TEST_P(GoldenLogits, ReferenceInFloat) { EXPECT_LE(error({.executor = "reference-f32"}), kFloat32 + GetParam().extra); }
TEST_P(GoldenLogits, TeamWithFloat32) { EXPECT_LE(error({.threads = 2, .f32 = true}), kFloat32 + GetParam().extra); }
TEST_P(GoldenLogits, Team) { EXPECT_LE(error({.threads = 2}), GetParam().fair); }

INSTANTIATE_TEST_SUITE_P(Models, GoldenLogits, testing::ValuesIn(cases()),
                         [](const auto& info) { return test::test_name(info.param.model + info.param.prompt); });

class Greedy : public testing::TestWithParam<const char*> {};

TEST_P(Greedy, IdsAreTheStoredOnes) {
  const Golden golden(test::kModels + GetParam() + "/golden.safetensors");
  for (const char* executor : {"team", "reference"}) {
    auto session = test::open_model(GetParam()).session({.executor = executor, .threads = 2, .f32 = true});
    ASSERT_TRUE(session.ok()) << session.error().message();
    const auto prompt = golden.integers("prompt0.ids"), expected = golden.integers("prompt0.greedy");
    auto text = session->generate(
        std::span<const int>(prompt),
        {.max_tokens = static_cast<int>(expected.size()), .sampling = {.temperature = 0}, .ignore_eos = true});
    while (text.next()) continue;
    EXPECT_EQ(std::vector<int>(text.ids().begin(), text.ids().end()), expected) << executor;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Greedy, testing::Values("llama", "qwen2", "qwen3", "gemma3", "qwen3_moe"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace fourfold
