#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "models/hyper.hpp"
#include "models/keys.hpp"
#include "models/weights.hpp"

namespace fourfold {

void read_gguf_kimi_linear(Keys& keys, Hyper& hyper);
void read_config_kimi_linear(Keys& keys, Hyper& hyper);
void read_config_bailing_hybrid(Keys& keys, Hyper& hyper);
Program build_kimi_linear(const Hyper& hyper, Weights& weights);
Program build_bailing_hybrid(const Hyper& hyper, Weights& weights);

inline constexpr std::array<std::pair<std::string_view, std::string_view>, 28> kKimiLinearNames = {{
    {"attn_q_a", "self_attn.q_a_proj"},
    {"attn_q_a_norm", "self_attn.q_a_layernorm"},
    {"attn_q_b", "self_attn.q_b_proj"},
    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
    {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
    {"attn_kv_b", "self_attn.kv_b_proj"},
    {"ssm_conv1d_q", "self_attn.q_conv1d"},
    {"ssm_conv1d_k", "self_attn.k_conv1d"},
    {"ssm_conv1d_v", "self_attn.v_conv1d"},
    {"ssm_beta", "self_attn.b_proj"},
    {"ssm_f_a", "self_attn.f_a_proj"},
    {"ssm_f_b", "self_attn.f_b_proj"},
    {"ssm_g_a", "self_attn.g_a_proj"},
    {"ssm_g_b", "self_attn.g_b_proj"},
    {"ssm_dt.bias", "self_attn.dt_bias"},
    {"ssm_a", "self_attn.A_log"},
    {"ssm_norm", "self_attn.o_norm"},
    {"ffn_gate_inp", "block_sparse_moe.gate"},
    {"exp_probs_b.bias", "block_sparse_moe.gate.e_score_correction_bias"},
    {"ffn_gate_exps", "block_sparse_moe.experts.*.w1"},
    {"ffn_down_exps", "block_sparse_moe.experts.*.w2"},
    {"ffn_up_exps", "block_sparse_moe.experts.*.w3"},
    {"ffn_gate_shexp", "block_sparse_moe.shared_experts.gate_proj"},
    {"ffn_up_shexp", "block_sparse_moe.shared_experts.up_proj"},
    {"ffn_down_shexp", "block_sparse_moe.shared_experts.down_proj"},
    {"ffn_sparse.gate_proj", "block_sparse_moe.gate_proj"},  // where some files keep the dense layers, too
    {"ffn_sparse.up_proj", "block_sparse_moe.up_proj"},
    {"ffn_sparse.down_proj", "block_sparse_moe.down_proj"},
}};
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 21> kBailingHybridNames = {{
    {"token_embd", "word_embeddings"},
    {"attn_q", "attention.q_proj"},
    {"attn_k", "attention.k_proj"},
    {"attn_v", "attention.v_proj"},
    {"attn_output", "attention.dense"},
    {"attn_q_a", "attention.q_a_proj"},
    {"attn_q_a_norm", "attention.q_a_layernorm"},
    {"attn_q_b", "attention.q_b_proj"},
    {"attn_kv_a_mqa", "attention.kv_a_proj_with_mqa"},
    {"attn_kv_a_norm", "attention.kv_a_layernorm"},
    {"attn_kv_b", "attention.kv_b_proj"},
    {"ssm_conv1d_q", "attention.q_conv1d"},
    {"ssm_conv1d_k", "attention.k_conv1d"},
    {"ssm_conv1d_v", "attention.v_conv1d"},
    {"ssm_beta", "attention.b_proj"},
    {"ssm_f", "attention.f_proj"},
    {"attn_gate", "attention.g_proj"},
    {"ssm_dt.bias", "attention.dt_bias"},
    {"ssm_a", "attention.A_log"},
    {"ssm_norm", "attention.o_norm"},
    {"exp_probs_b.bias", "mlp.gate.expert_bias"},
}};

}  // namespace fourfold
