#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "models/hyper.hpp"
#include "models/keys.hpp"
#include "models/weights.hpp"

namespace fourfold {

void read_gguf_nemotron_h(Keys& keys, Hyper& hyper);
void read_gguf_nemotron_h_moe(Keys& keys, Hyper& hyper);
void read_config_nemotron_h(Keys& keys, Hyper& hyper);
Program build_nemotron_h(const Hyper& hyper, Weights& weights);

inline constexpr std::array<std::pair<std::string_view, std::string_view>, 24> kNemotronHNames = {{
    {"token_embd", "embeddings"},
    {"output_norm", "norm_f"},
    {"attn_norm", "norm"},
    {"attn_q", "mixer.q_proj"},
    {"attn_k", "mixer.k_proj"},
    {"attn_v", "mixer.v_proj"},
    {"attn_output", "mixer.o_proj"},
    {"ffn_up", "mixer.up_proj"},
    {"ffn_down", "mixer.down_proj"},
    {"ffn_gate_inp", "mixer.gate"},
    {"exp_probs_b.bias", "mixer.gate.e_score_correction_bias"},
    {"ffn_up_exps", "mixer.experts.*.up_proj"},
    {"ffn_down_exps", "mixer.experts.*.down_proj"},
    {"ffn_up_shexp", "mixer.shared_experts.up_proj"},
    {"ffn_down_shexp", "mixer.shared_experts.down_proj"},
    {"ffn_latent_down", "mixer.fc1_latent_proj"},
    {"ffn_latent_up", "mixer.fc2_latent_proj"},
    {"ssm_in", "mixer.in_proj"},
    {"ssm_conv1d", "mixer.conv1d"},
    {"ssm_dt.bias", "mixer.dt_bias"},
    {"ssm_a", "mixer.A_log"},
    {"ssm_d", "mixer.D"},
    {"ssm_norm", "mixer.norm"},
    {"ssm_out", "mixer.out_proj"},
}};

}  // namespace fourfold
