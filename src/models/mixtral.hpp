#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "models/hyper.hpp"
#include "models/keys.hpp"

namespace fourfold {

// The Program is llama's; GGUF files of mixtral call themselves llama.
void read_config_mixtral(Keys& keys, Hyper& hyper);

inline constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kMixtralNames = {{
    {"ffn_gate_inp", "block_sparse_moe.gate"},
    {"ffn_gate_exps", "block_sparse_moe.experts.*.w1"},
    {"ffn_up_exps", "block_sparse_moe.experts.*.w3"},
    {"ffn_down_exps", "block_sparse_moe.experts.*.w2"},
}};

}  // namespace fourfold
