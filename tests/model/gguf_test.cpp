// The tiny models as GGUF (data/make_ggufs.py) against their safetensors files: names, keys, and what converters change
// in tensors, all undone, give the same logits.
#include <cstring>
#include <filesystem>
#include <fstream>

#include "support/gguf_writer.hpp"
#include "support/golden.hpp"
#include "support/models.hpp"
#include "support/temp_folder.hpp"

namespace fourfold {
namespace {

constexpr double kRounding = 2e-6;  // converters multiply factors and exponentials into float32

struct Case {
  const char *gguf, *folder;
};

class GgufOfFamily : public testing::TestWithParam<Case> {
 protected:
  static void expect_same(const SessionOptions& options) {
    const Model gguf = test::open_model("gguf/" + std::string(GetParam().gguf) + ".gguf"),
                folder = test::open_model(GetParam().folder);
    const auto ids = test::some_ids(70, folder.vocab());
    EXPECT_LE(test::relative_rms(test::all_logits(gguf, options, ids, 64), test::all_logits(folder, options, ids, 64)),
              kRounding);
  }
};

TEST_P(GgufOfFamily, HasTheLogitsOfSafetensorsInTheReference) { expect_same({.executor = "reference"}); }
TEST_P(GgufOfFamily, HasTheLogitsOfSafetensorsInTheTeam) { expect_same({.threads = 2, .f32 = true}); }

INSTANTIATE_TEST_SUITE_P(
    Families, GgufOfFamily,
    testing::Values(Case{"mamba", "hybrids/mamba"}, Case{"mamba2", "mamba2"}, Case{"falcon_h1", "hybrids/falcon_h1"},
                    Case{"bamba", "hybrids/bamba_whole"}, Case{"granitemoehybrid", "hybrids/granitemoehybrid"},
                    Case{"granitemoehybrid_dense", "hybrids/granitemoehybrid_dense"},
                    Case{"nemotron_h", "hybrids/nemotron_h_step"},
                    Case{"nemotron_h_latent", "hybrids/nemotron_h_latent"}, Case{"qwen3_next", "hybrids/qwen3_next"},
                    Case{"qwen3_5", "hybrids/qwen3_5"}, Case{"qwen3_5_moe", "hybrids/qwen3_5_moe"},
                    Case{"kimi_linear", "hybrids/kimi_linear"}, Case{"lfm2", "hybrids/lfm2"},
                    Case{"qwen2_moe", "variants/qwen2_moe_norm"}, Case{"qwen3_moe", "variants/qwen3_moe_plain"},
                    Case{"qwen3_moe_fused", "variants/qwen3_moe_plain"}, Case{"glm4_moe", "variants/glm4_moe_groups"},
                    Case{"gpt_oss", "variants/gpt_oss_yarn"}, Case{"gpt_oss_mxfp4", "variants/gpt_oss_mxfp4"}),
    [](const auto& info) { return std::string(info.param.gguf); });

// The message with which a file of `arch` is refused that says `values` of layers, and no more.
std::string refusal(const std::string& arch, const std::string& key, const std::vector<std::int32_t>& values) {
  test::GgufWriter w;
  const std::string at = arch + ".";
  w.string("general.architecture", arch).u32(at + "block_count", 3).u32(at + "context_length", 64);
  w.u32(at + "embedding_length", 8).u32(at + "attention.head_count", 2).f32(at + "attention.layer_norm_rms_epsilon", 1);
  w.array<std::int32_t>(at + key, test::kI32, values);
  const test::TempFolder folder;
  const auto model = load(folder.write("model.gguf", w.bytes()));
  return model.ok() ? "accepted" : model.error().message();
}

TEST(GgufLayers, AreRefusedByLayerAndNumber) {
  const auto expect = [](const std::string& found, const std::string& part) {
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  const std::string heads = "attention.head_count_kv";
  expect(refusal("lfm2", heads, {0, 2}), "lfm2.attention.head_count_kv is a list of 2; accepted: one number for each");
  expect(refusal("lfm2", heads, {0, 2, 1}), "lfm2.attention.head_count_kv is 1 in layer 2; accepted: 0, or one number");
  expect(refusal("granitehybrid", heads, {0, -2, 0}), "head_count_kv is -2 in layer 1");
  expect(refusal("nemotron_h", "feed_forward_length", {0, 16777217, 0}), "feed_forward_length is 16777217 in layer 1");
  expect(refusal("kimi-linear", heads, {}), "kimi-linear.attention.head_count_kv is a list of 0");
}

// Where the 4-byte numbers of a file's keys lie, elements of arrays among them.
std::vector<std::size_t> numbers_of_keys(const std::string& bytes) {
  constexpr std::size_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  constexpr std::uint32_t kString = 8, kArray = 9;
  std::size_t at = 16;
  const auto read = [&]<class T>(T) {
    T x{};
    std::memcpy(&x, bytes.data() + at, sizeof x);
    at += sizeof x;
    return x;
  };
  std::vector<std::size_t> found;
  for (auto keys = read(std::uint64_t{}); keys > 0; --keys) {
    at += read(std::uint64_t{});
    std::uint32_t type = read(std::uint32_t{});
    std::uint64_t count = 1;
    if (type == kArray) type = read(std::uint32_t{}), count = read(std::uint64_t{});
    for (; count > 0; --count) {
      if (kSizes[type] == 4) found.push_back(at);
      at += type == kString ? read(std::uint64_t{}) : kSizes[type];
    }
  }
  return found;
}

// Whatever a number is, the answer is a model or a refusal.
TEST(GgufNumbers, NeverCrash) {
  constexpr std::uint32_t kHostile[] = {0,          1,          3,          17,          0x7fffffff,
                                        0xffffffff, 0x80000000, 0x7f800000, 0x7fc00000u, 0x00fffffe};
  const test::TempFolder folder;
  int refused = 0, accepted = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::kModels + "gguf")) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    for (const std::size_t at : numbers_of_keys(bytes))
      for (const std::uint32_t hostile : kHostile) {
        std::string changed = bytes;
        std::memcpy(changed.data() + at, &hostile, sizeof hostile);
        const auto model = load(folder.write("model.gguf", changed));
        model.ok() ? ++accepted : ++refused;
        EXPECT_TRUE(model.ok() || !model.error().message().empty());
      }
  }
  EXPECT_GT(refused, 2 * accepted) << "what is left are contexts, factors and bases that any number fits";
}

}  // namespace
}  // namespace fourfold
