#include "models/names.hpp"

#include <algorithm>
#include <tuple>

#include "formats/checkpoint.hpp"

namespace fourfold {
namespace {

using Name = std::pair<std::string_view, std::string_view>;

// GGUF stem -> safetensors stem; a stem inside a layer omits "blk.N." and "model.layers.N.".
constexpr std::array kCommonNames = {
    Name{"token_embd", "embed_tokens"},
    Name{"output_norm", "norm"},
    Name{"output", "lm_head"},
    Name{"attn_norm", "input_layernorm"},
    Name{"attn_q", "self_attn.q_proj"},
    Name{"attn_k", "self_attn.k_proj"},
    Name{"attn_v", "self_attn.v_proj"},
    Name{"attn_output", "self_attn.o_proj"},
    Name{"attn_q_norm", "self_attn.q_norm"},
    Name{"attn_k_norm", "self_attn.k_norm"},
    Name{"ffn_norm", "post_attention_layernorm"},
    Name{"ffn_gate", "mlp.gate_proj"},
    Name{"ffn_up", "mlp.up_proj"},
    Name{"ffn_down", "mlp.down_proj"},
    Name{"ffn_gate_inp", "mlp.gate"},
    Name{"exp_probs_b.bias", "mlp.gate.e_score_correction_bias"},
    Name{"ffn_gate_exps", "mlp.experts.*.gate_proj"},
    Name{"ffn_up_exps", "mlp.experts.*.up_proj"},
    Name{"ffn_down_exps", "mlp.experts.*.down_proj"},
    Name{"ffn_gate_up_exps", "mlp.experts.gate_up_proj"},
    Name{"ffn_gate_up_exps_bias", "mlp.experts.gate_up_proj_bias"},
    Name{"ffn_down_exps_fused", "mlp.experts.down_proj"},
    Name{"ffn_down_exps_bias", "mlp.experts.down_proj_bias"},
    Name{"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
    Name{"ffn_up_shexp", "mlp.shared_experts.up_proj"},
    Name{"ffn_down_shexp", "mlp.shared_experts.down_proj"},
};

// Where the text model lies: {in front of everything, in front of the output matrix}.
constexpr std::array kRoots = {
    Name{"model.", ""},
    Name{"model.language_model.", ""},
    Name{"language_model.model.", "language_model."},
    Name{"backbone.", ""},
    Name{"rwkv.", ""},
    Name{"", ""},
};

std::string_view lookup(SafetensorsNames::Pairs own, std::string_view stem) {
  for (const auto& [gguf, file] : own)
    if (gguf == stem) return file;
  for (const auto& [gguf, file] : kCommonNames)
    if (gguf == stem) return file;
  return {};
}

}  // namespace

SafetensorsNames::SafetensorsNames(Pairs own, const Checkpoint& checkpoint) : own_(own) {
  std::tie(root_, head_) = kRoots[0];
  for (const auto& [root, head] : kRoots)
    if (checkpoint.find(std::string(root) + std::string(lookup(own_, "token_embd")) + ".weight")) {
      std::tie(root_, head_) = std::tie(root, head);
      return;
    }
}

std::string SafetensorsNames::file_name(const std::string& name) const {
  std::string_view rest = name;
  std::string layer;
  if (rest.starts_with("blk.")) {
    rest.remove_prefix(4);
    const auto word = lookup(own_, "blk");
    layer = std::string(word.empty() ? "layers" : word) + "." + std::string(rest.substr(0, rest.find('.'))) + ".";
    rest.remove_prefix(rest.find('.') + 1);
  }
  const auto placed = [&](std::string_view stem, std::string_view suffix) {
    return std::string(rest.starts_with("output.") ? head_ : root_) + layer + std::string(stem) + std::string(suffix);
  };
  if (const auto whole = lookup(own_, rest); !whole.empty()) return placed(whole, "");
  const std::size_t dot = std::min(rest.rfind('.'), rest.size());
  const auto stem = lookup(own_, rest.substr(0, dot));
  return stem.empty() ? name : placed(stem, rest.substr(dot));
}

}  // namespace fourfold
