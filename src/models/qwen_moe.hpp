#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "models/hyper.hpp"
#include "models/keys.hpp"

namespace fourfold {

struct NamedShape;

// Numbers of experts, whether weights are renormalised (`renormalise` where the file does not say), layers without.
void read_config_qwen_experts(Keys& keys, Hyper& hyper, bool renormalise);
// The Programs are qwen2's (llama's) and qwen3's.
void read_gguf_qwen2_moe(Keys& keys, Hyper& hyper);
void read_config_qwen2_moe(Keys& keys, Hyper& hyper);
void read_gguf_qwen3_moe(Keys& keys, Hyper& hyper);
void read_config_qwen3_moe(Keys& keys, Hyper& hyper);
void complete_qwen3_moe(const NamedShape& shape, Hyper& hyper);

inline constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kQwen2MoeNames = {{
    {"ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
}};

}  // namespace fourfold
