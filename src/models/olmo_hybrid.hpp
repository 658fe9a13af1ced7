#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "models/hyper.hpp"
#include "models/keys.hpp"
#include "models/weights.hpp"

namespace fourfold {

void read_config_olmo_hybrid(Keys& keys, Hyper& hyper);
Program build_olmo_hybrid(const Hyper& hyper, Weights& weights);

inline constexpr std::array<std::pair<std::string_view, std::string_view>, 17> kOlmoHybridNames = {{
    {"attn_norm", "attention_layer_norm"},
    {"ffn_norm", "feedforward_layer_norm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {"ssm_q", "linear_attn.q_proj"},
    {"ssm_k", "linear_attn.k_proj"},
    {"ssm_v", "linear_attn.v_proj"},
    {"ssm_gate", "linear_attn.g_proj"},
    {"ssm_alpha", "linear_attn.a_proj"},
    {"ssm_beta", "linear_attn.b_proj"},
    {"ssm_conv1d_q", "linear_attn.q_conv1d"},
    {"ssm_conv1d_k", "linear_attn.k_conv1d"},
    {"ssm_conv1d_v", "linear_attn.v_conv1d"},
    {"ssm_dt.bias", "linear_attn.dt_bias"},
    {"ssm_a", "linear_attn.A_log"},
    {"ssm_norm", "linear_attn.o_norm"},
    {"ssm_out", "linear_attn.o_proj"},
}};

}  // namespace fourfold
