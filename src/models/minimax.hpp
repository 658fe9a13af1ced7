#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "models/hyper.hpp"
#include "models/keys.hpp"
#include "models/weights.hpp"

namespace fourfold {

void read_config_minimax(Keys& keys, Hyper& hyper);
Program build_minimax(const Hyper& hyper, Weights& weights);

inline constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kMiniMaxNames = {{
    {"ffn_gate_inp", "block_sparse_moe.gate"},
    {"ffn_gate_exps", "block_sparse_moe.experts.*.w1"},
    {"ffn_down_exps", "block_sparse_moe.experts.*.w2"},
    {"ffn_up_exps", "block_sparse_moe.experts.*.w3"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_gate", "self_attn.output_gate"},
    {"ssm_norm", "self_attn.norm"},
    {"ssm_out", "self_attn.out_proj"},
}};

}  // namespace fourfold
