// Reading hyper-parameters: what changes a result is honoured or refused by name, what does not is left alone.
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/gguf_writer.hpp"
#include "support/models.hpp"
#include "support/reject.hpp"
#include "support/temp_folder.hpp"

namespace fourfold {
namespace {

using nlohmann::json;
using test::GgufWriter;
using test::TempFolder;

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A copy of one of the tiny models with keys of its config.json replaced (null: removed).
struct Edited {
  Edited(const std::string& name, const json& changes) {
    std::filesystem::copy(test::kModels + name, folder.path(), std::filesystem::copy_options::recursive);
    json config = json::parse(file_text(folder.path("config.json")));
    for (const auto& [pointer, value] : changes.items()) {
      const json::json_pointer at(pointer);
      if (value.is_null())
        config.at(at.parent_pointer()).erase(at.back());
      else
        config[at] = value;
    }
    folder.write("config.json", config.dump());
  }
  result<Model> open() const { return load(folder.path()); }
  TempFolder folder;
};

void expect_refused(const std::string& name, const json& changes, const std::string& part) {
  const auto model = Edited(name, changes).open();
  ASSERT_FALSE(model.ok()) << name << " " << changes;
  EXPECT_EQ(model.error().code(), Code::unsupported) << model.error().message();
  EXPECT_NE(model.error().message().find(part), std::string::npos) << changes << ": " << model.error().message();
}

void expect_accepted(const std::string& name, const json& changes) {
  const auto model = Edited(name, changes).open();
  EXPECT_TRUE(model.ok()) << name << " " << changes << ": " << model.error().message();
}

TEST(Families, RefuseByNameWhatChangesTheResult) {
  const std::string llama = "variants/llama_llama3", qwen2 = "variants/qwen2_list",
                    qwen3 = "variants/qwen3_window_bias", gemma = "variants/gemma3_list_cap",
                    wrapped = "variants/gemma3_wrapped";
  expect_refused(llama, {{"/model_type", "llamabis"}}, "architecture 'llamabis' is not known; known: llama");
  expect_refused(llama, {{"/no_such_key", 1}}, "unknown hyper-parameter no_such_key");
  expect_refused(llama, {{"/rope_parameters/rope_type", "longrope"}}, "rope_parameters.rope_type is longrope");
  expect_refused(llama, {{"/rope_parameters/rope_type", "dynamic"}}, "rope_parameters.rope_type is dynamic");
  expect_refused(llama, {{"/rope_parameters/no_such_key", 1}}, "unknown hyper-parameter rope_parameters.no_such_key");
  expect_refused(llama, {{"/rope_parameters/low_freq_factor", 3.0}}, "rope_parameters.low_freq_factor");
  expect_refused(llama, {{"/rope_parameters/factor", 0}}, "rope_parameters.factor");
  expect_refused(llama, {{"/rope_parameters/factor", nullptr}}, "rope_parameters.factor is missing");
  expect_refused(llama, {{"/partial_rotary_factor", 0.5}}, "partial_rotary_factor is 0.5");
  expect_refused(llama, {{"/rope_scaling", {{"type", "longrope"}}}}, "rope_scaling.rope_type is longrope");
  expect_refused(llama, {{"/hidden_act", "relu"}}, "hidden_act is \"relu\"");
  expect_refused(llama, {{"/pretraining_tp", 2}}, "pretraining_tp");
  expect_refused(llama, {{"/quantization_config", {{"quant_method", "gptq"}}}}, "quantization_config.quant_method");
  expect_refused(llama, {{"/is_encoder_decoder", true}}, "is_encoder_decoder");
  expect_refused(llama, {{"/attention_bias", true}}, "q_proj.bias' is missing");
  expect_refused(llama, {{"/num_key_value_heads", 3}}, "key/value heads");
  expect_refused(llama, {{"/head_dim", 16777216}}, "heads x head dimension");
  expect_refused(llama, {{"/num_hidden_layers", 5}}, "'model.layers.2.self_attn.q_proj.weight' is missing");
  expect_refused(llama, {{"/num_hidden_layers", 1}}, "not part of this family");
  expect_refused(llama, {{"/hidden_size", 80}}, "has shape [61, 40], expected [61, 80]");
  expect_refused(llama, {{"/hidden_size", "forty"}}, "hidden_size");
  expect_refused(llama, {{"/vocab_size", nullptr}}, "vocab_size is missing");
  expect_refused(llama, {{"/sliding_window", 8}}, "unknown hyper-parameter sliding_window");
  expect_refused(qwen2, {{"/use_mrope", true}}, "use_mrope");
  expect_refused(qwen2, {{"/sliding_window", nullptr}}, "sliding_window");
  expect_refused(qwen2, {{"/layer_types", {"full_attention"}}}, "layer_types is a list of 1");
  expect_refused(qwen2, {{"/layer_types/0", "chunked_attention"}}, "layer_types is \"chunked_attention\"");
  expect_refused(qwen3, {{"/attention_bias", false}}, "self_attn.q_proj.bias' is not part of this family");
  expect_refused(gemma, {{"/use_bidirectional_attention", true}}, "use_bidirectional_attention");
  expect_refused(gemma, {{"/rope_parameters/rope_theta", 5.0}}, "unknown hyper-parameter rope_parameters.rope_theta");
  expect_refused(gemma, {{"/rope_parameters/full_attention/rope_type", "longrope"}},
                 "full_attention.rope_type is longrope");
  expect_refused(wrapped, {{"/text_config/no_such_key", 1}}, "unknown hyper-parameter text_config.no_such_key");
  expect_refused(wrapped, {{"/no_such_key", 1}}, "unknown hyper-parameter no_such_key");
}

TEST(Families, LeaveAloneWhatDoesNot) {
  const std::string llama = "variants/llama_llama3";
  expect_accepted(llama, {{"/id2label", {{"0", "A"}}}, {"/max_length", 20}, {"/_attn_implementation", "eager"}});
  expect_accepted(llama,
                  {{"/auto_map", {{"AutoModel", "x"}}}, {"/initializer_range", 0.5}, {"/torch_dtype", "float16"}});
  expect_accepted(llama, {{"/partial_rotary_factor", 1.0}, {"/rope_interleaved", false}});
  expect_accepted(llama, {{"/rope_parameters/attention_factor", 1.0}, {"/eos_token_id", {1, 2}}});
  expect_accepted("variants/gemma3_list_cap", {{"/cache_implementation", "hybrid"}, {"/hidden_act", "gelu"}});
}

std::vector<int> windows(const result<Model>& model) {
  std::vector<int> found;
  if (model.ok())
    for (const CacheSpec& cache : model->program().caches) found.push_back(cache.window);
  return found;
}

using Windows = std::vector<int>;

TEST(Families, ReadWindows) {
  EXPECT_EQ(windows(load(test::kModels + "variants/qwen2_window")), (Windows{0, 9, 9}));
  EXPECT_EQ(windows(load(test::kModels + "variants/qwen2_list")), (Windows{5, 0, 5}));
  EXPECT_EQ(windows(Edited("variants/qwen2_window", {{"/use_sliding_window", false}}).open()), (Windows{0, 0, 0}));
  EXPECT_EQ(windows(Edited("variants/qwen2_window", {{"/max_window_layers", nullptr}}).open()), (Windows{0, 0, 0}));
  EXPECT_EQ(windows(load(test::kModels + "variants/gguf_gemma3_bare.gguf")), (Windows{6, 6, 6, 6, 6, 0, 6}));
  EXPECT_EQ(windows(load(test::kModels + "variants/gguf_gemma3_pattern.gguf")), (Windows{6, 0, 6}));
  EXPECT_EQ(windows(Edited("variants/gemma3_list_cap", {{"/layer_types", nullptr}}).open()), (Windows{6, 6, 6}));
  EXPECT_EQ(
      windows(Edited("variants/gemma3_list_cap", {{"/layer_types", nullptr}, {"/sliding_window_pattern", 3}}).open()),
      (Windows{6, 6, 0}));
}

TEST(Families, RefuseTensorsNobodyKnows) {
  const Edited model("variants/llama_llama3", json::object());
  std::string bytes = file_text(model.folder.path("model.safetensors"));
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  bytes.replace(bytes.find(name), name.size(), "model.layers.1.mlp.up_poke.weight");
  model.folder.write("model.safetensors", bytes);
  const auto opened = model.open();
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message().find("'" + name + "' is missing"), std::string::npos);
  EXPECT_NE(opened.error().message().find("up_poke.weight' is not part of this family"), std::string::npos);
}

// Every folder of the tiny models whose config.json is strict JSON.
std::vector<std::string> folders() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test::kModels))
    if (entry.path().filename() == "config.json" && json::accept(file_text(entry.path().string())))
      names.push_back(std::filesystem::relative(entry.path().parent_path(), test::kModels).string());
  std::sort(names.begin(), names.end());
  return names;
}

class HostileValues : public testing::TestWithParam<std::string> {};

// Whatever a number or its type is, the answer is a model that runs, or a refusal; quickly and without taking memory.
TEST_P(HostileValues, AreHonouredOrRefused) {
  const json values = {
      nullptr, 0,   1,      7,    4096,          -1,        16777216,      2147483647, 2147483648, 4611686018427387904,
      1e300,   0.5, "text", true, json::array(), {1, 2, 3}, json::object()};
  const std::vector<int> ids = {1, 2, 3};
  const json config = json::parse(file_text(test::kModels + GetParam() + "/config.json")), flat = config.flatten();
  const Edited model(GetParam(), json::object());
  const long before = test::peak_resident();
  int refused = 0;
  for (const auto& [pointer, unused] : flat.items())
    for (const json& value : values) {
      SCOPED_TRACE(pointer + ": " + value.dump());
      json changed = config;
      changed[json::json_pointer(pointer)] = value;
      model.folder.write("config.json", changed.dump());
      const std::clock_t start = std::clock();
      const auto opened = model.open();
      EXPECT_TRUE(test::kSanitized || std::clock() - start < CLOCKS_PER_SEC / 2);
      refused += !opened.ok();
      if (!opened.ok()) {
        EXPECT_FALSE(opened.error().message().empty());
      } else if (auto session = opened->session({.context = std::min(64, opened->context()), .threads = 1});
                 session.ok()) {
        EXPECT_TRUE(session->eval(ids).ok() || session->context() < 3);
      }
    }
  EXPECT_GT(refused, 100);
  EXPECT_TRUE(test::kSanitized || test::peak_resident() - before < 64L << 20) << test::peak_resident() - before;
}

INSTANTIATE_TEST_SUITE_P(Models, HostileValues, testing::ValuesIn(folders()),
                         [](const auto& folder) { return test::test_name(folder.param); });

TEST(Families, RefuseMoreLayersThanTensors) {
  expect_refused("hybrids/rwkv", {{"/num_hidden_layers", 4096}}, "tensors are too few for 4096 layers");
}

// Products of numbers that are each in range.
TEST(Families, RefuseProductsThatNoTensorHas) {
  expect_refused("hybrids/kimi_linear", {{"/moe_intermediate_size", 1 << 24}, {"/num_shared_experts", 1 << 16}},
                 "num_shared_experts x width of an expert is 1.09951e+12");
  expect_refused("variants/glm4_moe_plain", {{"/moe_intermediate_size", 1 << 24}, {"/n_shared_experts", 1 << 16}},
                 "n_shared_experts x width of an expert is");
  expect_refused("variants/deepseek_v3_yarn", {{"/moe_intermediate_size", 1 << 24}, {"/n_shared_experts", 1 << 16}},
                 "n_shared_experts x width of an expert is");
  expect_refused("hybrids/bamba", {{"/mamba_expand", 1e20}}, "mamba_expand x hidden_size is");
  expect_refused("hybrids/bamba", {{"/mamba_d_head", "auto"}, {"/mamba_n_heads", 1 << 16}},
                 "mamba_expand x hidden_size / mamba_n_heads is 0");
  expect_refused("hybrids/mamba", {{"/expand", 1e20}, {"/intermediate_size", nullptr}}, "expand x hidden_size is");
  expect_refused("mamba2", {{"/n_groups", 3}}, "n_groups is 3; accepted: a divisor");
  expect_refused("hybrids/nemotron_h_latent",
                 {{"/layers_block_type", nullptr}, {"/hybrid_override_pattern", std::string(5000, 'M')}},
                 "the number of layers is 5000; accepted: 1 to 4096");
}

// ---- GGUF --------------------------------------------------------------------------------------------------------

// A model of one layer whose weights are zero, with further keys.
template <class More>
result<Model> open_gguf(const std::string& arch, More&& more, int layers = 1) {
  GgufWriter w;
  const std::string at = arch + ".";
  w.string("general.architecture", arch).u32(at + "block_count", 1).u32(at + "context_length", 64);
  w.u32(at + "embedding_length", 8).u32(at + "feed_forward_length", 12).u32(at + "attention.head_count", 2);
  w.u32(at + "attention.head_count_kv", 1).f32(at + "attention.layer_norm_rms_epsilon", 1e-5f);
  more(w, at);
  const auto tensor = [&](const std::string& name, std::vector<std::uint64_t> shape) {
    std::uint64_t count = 4;
    for (std::uint64_t n : shape) count *= n;
    w.tensor(name, shape, test::kF32, std::string(count, '\0'));
  };
  tensor("token_embd.weight", {5, 8}), tensor("output_norm.weight", {8});
  for (int i = 0; i < layers; ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".";
    tensor(blk + "attn_norm.weight", {8}), tensor(blk + "ffn_norm.weight", {8});
    tensor(blk + "attn_q.weight", {8, 8}), tensor(blk + "attn_k.weight", {4, 8}), tensor(blk + "attn_v.weight", {4, 8});
    tensor(blk + "attn_output.weight", {8, 8}), tensor(blk + "ffn_gate.weight", {12, 8});
    tensor(blk + "ffn_up.weight", {12, 8}), tensor(blk + "ffn_down.weight", {8, 12});
    if (arch == "gemma3") {
      tensor(blk + "post_attention_norm.weight", {8}), tensor(blk + "post_ffw_norm.weight", {8});
      tensor(blk + "attn_q_norm.weight", {4}), tensor(blk + "attn_k_norm.weight", {4});
    }
  }
  const TempFolder folder;
  return load(folder.write("model.gguf", w.bytes()));
}

std::string gguf_error(const std::string& arch, const std::function<void(GgufWriter&, const std::string&)>& more,
                       int layers = 1) {
  const auto model = open_gguf(arch, more, layers);
  return model.ok() ? "accepted" : model.error().message();
}

TEST(FamiliesOfGguf, RefuseByNameWhatChangesTheResult) {
  using Writer = GgufWriter&;
  using Text = const std::string&;
  EXPECT_EQ(gguf_error("llama", [](Writer, Text) {}), "accepted");
  const auto expect = [](const std::string& found, const std::string& part) {
    EXPECT_NE(found.find(part), std::string::npos) << found;
  };
  expect(gguf_error("llama", [](Writer w, Text at) { w.f32(at + "logit_scale", 2); }), "llama.logit_scale");
  expect(gguf_error("llama", [](Writer w, Text at) { w.f32(at + "attention.scale", 2); }), "llama.attention.scale");
  const auto experts = [](Writer w, Text at) { w.u32(at + "expert_count", 8); };
  expect(gguf_error("qwen2", experts), "qwen2.expert_count is 8");
  expect(gguf_error("llama", experts), "tensor 'blk.0.ffn_gate_exps.weight' is missing");
  expect(gguf_error("llama", [](Writer w, Text at) { w.boolean(at + "attention.causal", false); }), "attention.causal");
  expect(gguf_error("llama", [](Writer w, Text at) { w.string(at + "rope.scaling.type", "dynamic"); }),
         "llama.rope.scaling.type is dynamic; accepted: none, linear or yarn");
  expect(gguf_error("llama", [](Writer w, Text at) { w.f32(at + "rope.scaling.attn_factor", 1.5f); }),
         "rope.scaling.attn_factor is 1.5");
  expect(gguf_error("llama", [](Writer w, Text at) { w.u32(at + "rope.dimension_count", 6); }), "rotary dimensions");
  expect(gguf_error("llama", [](Writer w, Text at) { w.u32(at + "attention.value_length", 5); }), "value_length");
  expect(gguf_error("llama", [](Writer w, Text at) { w.u32(at + "attention.sliding_window", 5); }), "sliding_window");
  expect(gguf_error(
             "llama", [](Writer, Text) {}, 2),
         "tensor 'blk.1.attn_norm.weight' is not part of this family");
  expect(gguf_error(
             "llama", [](Writer, Text) {}, 0),
         "tensor 'blk.0.attn_norm.weight' is missing");
  expect(gguf_error("qwen3", [](Writer w, Text) { w.tensor("rope_freqs.weight", {2}, test::kF32, "01234567"); }),
         "tensor 'rope_freqs.weight' is not part of this family");
  expect(gguf_error("gemma3", [](Writer, Text) {}), "gemma3.attention.sliding_window is missing");
  expect(gguf_error("gptzero", [](Writer, Text) {}), "architecture 'gptzero' is not known; known: llama, ");
}

TEST(FamiliesOfGguf, TakeAListOfWindowsAndAFactorWithoutType) {
  const auto list = open_gguf("gemma3", [](GgufWriter& w, const std::string& at) {
    w.u32(at + "attention.sliding_window", 7);
    w.array<std::uint8_t>(at + "attention.sliding_window_pattern", test::kBool, {1});
  });
  ASSERT_TRUE(list.ok()) << list.error().message();
  EXPECT_EQ(windows(list), (Windows{7}));
  const auto scaled =
      open_gguf("llama", [](GgufWriter& w, const std::string& at) { w.f32(at + "rope.scaling.factor", 4); });
  ASSERT_TRUE(scaled.ok()) << scaled.error().message();
  EXPECT_EQ(scaled->program().ropes[0].inverse_frequency[0], 0.25);
  const auto plain = open_gguf("llama", [](GgufWriter& w, const std::string& at) {
    w.f32(at + "rope.scaling.factor", 4).string(at + "rope.scaling.type", "none").f32(at + "rope.freq_base", 100);
  });
  ASSERT_TRUE(plain.ok()) << plain.error().message();
  EXPECT_EQ(plain->program().ropes[0].inverse_frequency, (std::vector<double>{1, 0.1}));
}

}  // namespace
}  // namespace fourfold
