#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "models/hyper.hpp"
#include "models/keys.hpp"
#include "models/weights.hpp"

namespace fourfold {

void read_gguf_gpt_oss(Keys& keys, Hyper& hyper);
void read_config_gpt_oss(Keys& keys, Hyper& hyper);
Program build_gpt_oss(const Hyper& hyper, Weights& weights);

inline constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kGptOssNames = {{
    {"attn_sinks.weight", "self_attn.sinks"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_gate_inp", "mlp.router"},
}};

}  // namespace fourfold
