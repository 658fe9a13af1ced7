#include "models/family.hpp"

#include <array>
#include <charconv>

#include "formats/checkpoint.hpp"
#include "formats/message.hpp"
#include "fourfold/blocks.hpp"
#include "models/bamba.hpp"
#include "models/deepseek.hpp"
#include "models/falcon_h1.hpp"
#include "models/gemma3.hpp"
#include "models/glm4_moe.hpp"
#include "models/gpt_oss.hpp"
#include "models/hybrid.hpp"
#include "models/kimi_linear.hpp"
#include "models/lfm2.hpp"
#include "models/llama.hpp"
#include "models/mamba2.hpp"
#include "models/minimax.hpp"
#include "models/mixtral.hpp"
#include "models/names.hpp"
#include "models/nemotron_h.hpp"
#include "models/olmo_hybrid.hpp"
#include "models/qwen2.hpp"
#include "models/qwen3.hpp"
#include "models/qwen3_next.hpp"
#include "models/qwen_moe.hpp"
#include "models/rwkv.hpp"
#include "models/shapes.hpp"

namespace fourfold {
namespace {

constexpr std::array<std::string_view, 1> kLlamaConfigs = {"llama"};
constexpr std::array<std::string_view, 1> kQwen2Configs = {"qwen2"};
constexpr std::array<std::string_view, 1> kQwen3Configs = {"qwen3"};
constexpr std::array<std::string_view, 2> kGemma3Configs = {"gemma3_text", "gemma3"};

constexpr std::array<std::string_view, 1> kMambaConfigs = {"mamba"};
constexpr std::array<std::string_view, 1> kMamba2Configs = {"mamba2"};
constexpr std::array<std::string_view, 1> kQwen3NextConfigs = {"qwen3_next"};
constexpr std::array<std::string_view, 2> kQwen35Configs = {"qwen3_5_text", "qwen3_5"};
constexpr std::array<std::string_view, 2> kQwen35MoeConfigs = {"qwen3_5_moe_text", "qwen3_5_moe"};
constexpr std::array<std::string_view, 1> kKimiLinearConfigs = {"kimi_linear"};
constexpr std::array<std::string_view, 1> kBailingHybridConfigs = {"bailing_hybrid"};
constexpr std::array<std::string_view, 1> kRwkvConfigs = {"rwkv"};
constexpr std::array<std::string_view, 1> kMiniMaxConfigs = {"minimax"};
constexpr std::array<std::string_view, 1> kBambaConfigs = {"bamba"};
constexpr std::array<std::string_view, 1> kGraniteHybridConfigs = {"granitemoehybrid"};
constexpr std::array<std::string_view, 1> kNemotronHConfigs = {"nemotron_h"};
constexpr std::array<std::string_view, 1> kOlmoHybridConfigs = {"olmo_hybrid"};
constexpr std::array<std::string_view, 1> kLfm2Configs = {"lfm2"};
constexpr std::array<std::string_view, 1> kFalconH1Configs = {"falcon_h1"};

constexpr std::array<std::string_view, 1> kGptOssConfigs = {"gpt_oss"};
constexpr std::array<std::string_view, 1> kGlm4MoeConfigs = {"glm4_moe"};
constexpr std::array<std::string_view, 1> kMixtralConfigs = {"mixtral"};
constexpr std::array<std::string_view, 1> kQwen2MoeConfigs = {"qwen2_moe"};
constexpr std::array<std::string_view, 1> kQwen3MoeConfigs = {"qwen3_moe"};

constexpr std::array<std::string_view, 1> kDeepseekV2Configs = {"deepseek_v2"};
constexpr std::array<std::string_view, 1> kDeepseekV3Configs = {"deepseek_v3"};
constexpr std::array<std::string_view, 1> kDeepseekV32Configs = {"deepseek_v32"};

constexpr std::array kFamilies = {
    Family{"llama", "llama", kLlamaConfigs, read_gguf_llama, read_config_llama, build_llama, nullptr, {}},
    Family{"qwen2", "qwen2", kQwen2Configs, read_gguf_qwen2, read_config_qwen2, build_llama, nullptr, {}},
    Family{"qwen3", "qwen3", kQwen3Configs, read_gguf_qwen3, read_config_qwen3, build_qwen3, nullptr, {}},
    Family{"gemma3", "gemma3", kGemma3Configs, read_gguf_gemma3, read_config_gemma3, build_gemma3, complete_gemma3,
           kGemma3Names},
    Family{"mamba", "mamba", kMambaConfigs, read_gguf_mamba, read_config_mamba, build_mamba, nullptr, kMambaNames},
    Family{"lfm2", "lfm2", kLfm2Configs, read_gguf_lfm2, read_config_lfm2, build_lfm2, nullptr, kLfm2Names},
    Family{"falcon_h1", "falcon-h1", kFalconH1Configs, read_gguf_falcon_h1, read_config_falcon_h1, build_falcon_h1,
           nullptr, kMambaAttentionNames},
    Family{"qwen3_next", "qwen3next", kQwen3NextConfigs, read_gguf_qwen3_next, read_config_qwen3_next, build_qwen3_next,
           complete_qwen3_next, kQwen3NextNames},
    Family{"qwen3_5", "qwen35", kQwen35Configs, read_gguf_qwen3_5, read_config_qwen3_5, build_qwen3_5, nullptr,
           kQwen3NextNames},
    Family{"qwen3_5_moe", "qwen35moe", kQwen35MoeConfigs, read_gguf_qwen3_5_moe, read_config_qwen3_5_moe, build_qwen3_5,
           nullptr, kQwen3NextNames},
    Family{"kimi_linear", "kimi-linear", kKimiLinearConfigs, read_gguf_kimi_linear, read_config_kimi_linear,
           build_kimi_linear, nullptr, kKimiLinearNames},
    Family{"bailing_hybrid", "", kBailingHybridConfigs, nullptr, read_config_bailing_hybrid, build_bailing_hybrid,
           nullptr, kBailingHybridNames},
    Family{"rwkv", "", kRwkvConfigs, nullptr, read_config_rwkv, build_rwkv, nullptr, kRwkvNames},
    Family{"minimax", "", kMiniMaxConfigs, nullptr, read_config_minimax, build_minimax, nullptr, kMiniMaxNames},
    Family{"bamba", "", kBambaConfigs, nullptr, read_config_bamba, build_bamba, nullptr, kMambaAttentionNames},
    Family{"granitemoehybrid", "granitehybrid", kGraniteHybridConfigs, read_gguf_granite_hybrid,
           read_config_granite_hybrid, build_granite_hybrid, nullptr, kGraniteHybridNames},
    Family{"nemotron_h", "nemotron_h", kNemotronHConfigs, read_gguf_nemotron_h, read_config_nemotron_h,
           build_nemotron_h, nullptr, kNemotronHNames},
    Family{"nemotron_h",
           "nemotron_h_moe",
           {},
           read_gguf_nemotron_h_moe,
           nullptr,
           build_nemotron_h,
           nullptr,
           kNemotronHNames},
    Family{"olmo_hybrid", "", kOlmoHybridConfigs, nullptr, read_config_olmo_hybrid, build_olmo_hybrid, nullptr,
           kOlmoHybridNames},
    Family{"mamba2", "mamba2", kMamba2Configs, read_gguf_mamba2, read_config_mamba2, build_mamba2, nullptr,
           kMamba2Names},
    Family{"deepseek_v2", "deepseek2", kDeepseekV2Configs, read_gguf_deepseek2, read_config_deepseek_v2, build_deepseek,
           nullptr, kDeepseekNames},
    Family{"deepseek_v3", "", kDeepseekV3Configs, nullptr, read_config_deepseek_v3, build_deepseek, nullptr,
           kDeepseekNames},
    Family{"deepseek_v32", "", kDeepseekV32Configs, nullptr, read_config_deepseek_v32, build_deepseek, nullptr,
           kDeepseekNames},
    Family{"mixtral", "", kMixtralConfigs, nullptr, read_config_mixtral, build_llama, nullptr, kMixtralNames},
    Family{"gpt-oss", "gpt-oss", kGptOssConfigs, read_gguf_gpt_oss, read_config_gpt_oss, build_gpt_oss, nullptr,
           kGptOssNames},
    Family{"glm4moe", "glm4moe", kGlm4MoeConfigs, read_gguf_glm4_moe, read_config_glm4_moe, build_glm4_moe, nullptr,
           kGlm4MoeNames},
    Family{"qwen2moe", "qwen2moe", kQwen2MoeConfigs, read_gguf_qwen2_moe, read_config_qwen2_moe, build_llama, nullptr,
           kQwen2MoeNames},
    Family{"qwen3moe",
           "qwen3moe",
           kQwen3MoeConfigs,
           read_gguf_qwen3_moe,
           read_config_qwen3_moe,
           build_qwen3,
           complete_qwen3_moe,
           {}},
};

class CheckpointSource : public TensorSource {
 public:
  CheckpointSource(const Checkpoint& checkpoint, const Family& family)
      : checkpoint_(checkpoint), names_(family.names, checkpoint) {}

  std::string file_name(const std::string& name) const override {
    return checkpoint_.format() == Checkpoint::Format::gguf ? name : names_.file_name(name);
  }
  std::optional<Found> find(const std::string& name, const std::vector<std::int64_t>&, bool) const override {
    return find_file(file_name(name));
  }
  std::optional<Found> find_file(const std::string& file_name) const override {
    const TensorInfo* tensor = checkpoint_.find(file_name);
    if (!tensor) return {};
    return Found{tensor->name, tensor->storage, tensor->type_name, tensor->shape};
  }
  std::vector<std::string> all() const override {
    std::vector<std::string> names;
    for (const TensorInfo& tensor : checkpoint_.tensors()) names.push_back(tensor.name);
    return names;
  }
  result<std::vector<float>> floats(const std::string& file_name) const override {
    const TensorInfo& tensor = *checkpoint_.find(file_name);
    if (!tensor.storage) return status{Code::unsupported, "tensor '" + file_name + "' has type " + tensor.type_name};
    std::vector<std::byte> bytes(tensor.bytes);
    FOURFOLD_TRY(checkpoint_.read(tensor, 0, bytes));
    const auto& row = info(*tensor.storage);
    std::vector<float> out(bytes.size() / static_cast<std::size_t>(row.block_bytes) *
                           static_cast<std::size_t>(row.block_elements));
    const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] =
          decode(*tensor.storage,
                 data + i / static_cast<std::size_t>(row.block_elements) * static_cast<std::size_t>(row.block_bytes),
                 static_cast<int>(i % static_cast<std::size_t>(row.block_elements)));
    return out;
  }

 private:
  const Checkpoint& checkpoint_;
  SafetensorsNames names_;
};

class ShapeSource : public TensorSource {
 public:
  explicit ShapeSource(Storage storage) : storage_(storage) {}
  std::string file_name(const std::string& name) const override { return name; }
  std::optional<Found> find(const std::string& name, const std::vector<std::int64_t>& shape,
                            bool optional) const override {
    if (optional) return {};
    const bool whole_blocks = shape.back() % info(storage_).block_elements == 0;  // not in kernels of convolutions
    return Found{name, shape.size() == 1 || !whole_blocks ? Storage::f32 : storage_, {}, shape};
  }
  std::optional<Found> find_file(const std::string&) const override { return {}; }
  std::vector<std::string> all() const override { return {}; }
  result<std::vector<float>> floats(const std::string& name) const override {
    return status{Code::not_found, "a named shape has no tensor '" + name + "'"};
  }

 private:
  Storage storage_;
};

std::string known_architectures(Checkpoint::Format format) {
  std::string list;
  for (const Family& family : kFamilies) {
    if (format == Checkpoint::Format::gguf) {
      if (!family.gguf.empty()) list += (list.empty() ? "" : ", ") + std::string(family.gguf);
    } else {
      for (std::string_view type : family.configs) list += (list.empty() ? "" : ", ") + std::string(type);
    }
  }
  return list;
}

const Family* find_family(Checkpoint::Format format, std::string_view architecture) {
  for (const Family& family : kFamilies) {
    if (format == Checkpoint::Format::gguf && family.gguf == architecture && family.read_gguf) return &family;
    if (format == Checkpoint::Format::safetensors)
      for (std::string_view type : family.configs)
        if (type == architecture) return &family;
  }
  return nullptr;
}

result<ModelSpec> build(const Family& family, const Hyper& hyper, const TensorSource& source) {
  Weights weights{source};
  for (const char* decoy : kDecoys) weights.ignore(decoy);
  ModelSpec spec{&family, hyper, family.build(hyper, weights)};
  FOURFOLD_TRY(weights.finish());
  spec.program.family = family.name;
  spec.program.context = hyper.context;
  return spec;
}

}  // namespace

std::span<const Family> families() { return kFamilies; }

result<ModelSpec> read_model(const Checkpoint& checkpoint) {
  const bool gguf = checkpoint.format() == Checkpoint::Format::gguf;
  const Family* family = find_family(checkpoint.format(), checkpoint.architecture());
  if (!family)
    return status{Code::unsupported, "architecture " + quote(checkpoint.architecture()) +
                                         " is not known; known: " + known_architectures(checkpoint.format())};
  const bool nested = !gguf && has_text_config(checkpoint.metadata());
  Keys keys{checkpoint.metadata(), gguf ? checkpoint.architecture() + "." : nested ? "text_config." : ""};
  Hyper hyper;
  (gguf ? family->read_gguf : family->read_config)(keys, hyper);
  FOURFOLD_TRY(keys.finish());
  if (nested) FOURFOLD_TRY(read_config_wrapper(checkpoint.metadata(), hyper));
  const CheckpointSource source{checkpoint, *family};
  if (gguf && hyper.vocab == 0)
    if (const TensorInfo* table = checkpoint.find("token_embd.weight"); table && table->shape.size() == 2)
      hyper.vocab = static_cast<int>(table->shape[0]);
  if (const std::size_t held = checkpoint.tensors().size(); static_cast<std::size_t>(hyper.layers) > held)
    return status{Code::unsupported, std::to_string(held) + " tensors are too few for " + std::to_string(hyper.layers) +
                                         " layers: each has at least one"};
  return build(*family, hyper, source);
}

result<ModelSpec> make_shape_model(std::string_view name, Storage storage) {
  const NamedShape* shape = find_shape(name);
  if (!shape) return status{Code::not_found, "shape '" + std::string(name) + "' is not known; known: " + shape_names()};
  return make_shape_model(*shape, storage);
}

result<ModelSpec> make_shape_model(const NamedShape& shape, Storage storage) {
  const Family* family = find_family(Checkpoint::Format::gguf, shape.family);
  if (!family)
    return status{Code::unsupported,
                  "shape '" + std::string(shape.name) + "' is of family " + std::string(shape.family)};
  Hyper h;
  h.layers = shape.layers;
  h.width = shape.d_model;
  h.heads = shape.heads;
  h.kv_heads = shape.kv_heads;
  h.head_dim = shape.head_dim;
  h.ff = shape.ff;
  h.vocab = shape.vocab;
  h.tied = shape.tied;
  h.context = shape.context;
  h.rope.dims = shape.head_dim;
  h.rope.base = shape.rope_base;
  h.experts.count = shape.experts;
  h.experts.rule.chosen = shape.chosen;
  h.experts.ff = shape.expert_ff;
  h.experts.shared_ff = shape.shared_ff;
  if (family->complete) family->complete(shape, h);
  return build(*family, h, ShapeSource{storage});
}

}  // namespace fourfold
