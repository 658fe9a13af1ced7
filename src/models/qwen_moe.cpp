// qwen2_moe: qwen2 with routed experts and one shared expert, which each token weighs. qwen3_moe: qwen3 with routed
// experts. Some layers may stay dense.   Yang et al. 2024 (Qwen2 report), 2025 (Qwen3 report)
#include "models/qwen_moe.hpp"

#include <algorithm>

#include "models/experts.hpp"
#include "models/qwen2.hpp"
#include "models/qwen3.hpp"

namespace fourfold {
namespace {

constexpr std::int64_t kMaxWidth = 1 << 24;

}  // namespace

void read_config_qwen_experts(Keys& keys, Hyper& h, bool renormalise) {
  const bool older = !keys.has("num_experts") && keys.has("num_local_experts");
  read_config_experts(keys, h, older ? "num_local_experts" : "num_experts");
  if (!older) keys.ignore({"num_local_experts"});
  h.experts.rule.renormalise = keys.flag("norm_topk_prob", renormalise);
  const int step = keys.count("decoder_sparse_step", 1, 1 << 16, 1);
  const auto dense = keys.integers("mlp_only_layers");
  for (int i = 0; i < h.layers; ++i)
    h.experts.routed.push_back((i + 1) % step == 0 && std::find(dense.begin(), dense.end(), i) == dense.end());
}

void read_gguf_qwen2_moe(Keys& keys, Hyper& h) {
  read_gguf_common(keys, h, true);
  h.experts.shared_ff = h.ff;
  h.experts.shared_gate = true;
  read_gguf_experts(keys, h);
}

void read_config_qwen2_moe(Keys& keys, Hyper& h) {
  h.experts.count = 60, h.experts.rule.chosen = 4;  // where the file does not say
  read_config_qwen2(keys, h);
  h.bias.qkv = keys.flag("qkv_bias", true);
  h.experts.ff = keys.count("moe_intermediate_size", 1, kMaxWidth, 1408);
  h.experts.shared_ff = keys.count("shared_expert_intermediate_size", 1, kMaxWidth, 5632);
  h.experts.shared_gate = true;
  read_config_qwen_experts(keys, h, false);
}

void read_gguf_qwen3_moe(Keys& keys, Hyper& h) {
  read_gguf_common(keys, h, true);
  h.experts.rule.renormalise = true;
  read_gguf_experts(keys, h);
}

void complete_qwen3_moe(const NamedShape&, Hyper& h) { h.experts.rule.renormalise = true; }

void read_config_qwen3_moe(Keys& keys, Hyper& h) {
  h.experts.count = 128, h.experts.rule.chosen = 8;  // where the file does not say
  read_config_qwen3(keys, h);
  h.experts.ff = keys.count("moe_intermediate_size", 1, kMaxWidth, 768);
  read_config_qwen_experts(keys, h, false);
}

}  // namespace fourfold
