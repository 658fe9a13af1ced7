#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "models/hyper.hpp"
#include "models/keys.hpp"
#include "models/weights.hpp"

namespace fourfold {

struct NamedShape;

void read_gguf_qwen3_next(Keys& keys, Hyper& hyper);
void read_config_qwen3_next(Keys& keys, Hyper& hyper);
void read_gguf_qwen3_5(Keys& keys, Hyper& hyper);
void read_gguf_qwen3_5_moe(Keys& keys, Hyper& hyper);
void read_config_qwen3_5(Keys& keys, Hyper& hyper);
void read_config_qwen3_5_moe(Keys& keys, Hyper& hyper);
void complete_qwen3_next(const NamedShape& shape, Hyper& hyper);
Program build_qwen3_next(const Hyper& hyper, Weights& weights);
Program build_qwen3_5(const Hyper& hyper, Weights& weights);

inline constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kQwen3NextNames = {{
    {"ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {"ssm_in", "linear_attn.in_proj_qkvz"},
    {"ssm_ba", "linear_attn.in_proj_ba"},
    {"attn_qkv", "linear_attn.in_proj_qkv"},
    {"attn_gate", "linear_attn.in_proj_z"},
    {"ssm_beta", "linear_attn.in_proj_b"},
    {"ssm_alpha", "linear_attn.in_proj_a"},
    {"ssm_conv1d", "linear_attn.conv1d"},
    {"ssm_dt.bias", "linear_attn.dt_bias"},
    {"ssm_a", "linear_attn.A_log"},
    {"ssm_norm", "linear_attn.norm"},
    {"ssm_out", "linear_attn.out_proj"},
    {"post_attention_norm", "post_attention_layernorm"},
}};

}  // namespace fourfold
