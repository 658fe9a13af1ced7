#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "models/hyper.hpp"
#include "models/keys.hpp"
#include "models/weights.hpp"

namespace fourfold {

void read_gguf_deepseek2(Keys& keys, Hyper& hyper);  // DeepSeek-V2 and V3
void read_config_deepseek_v2(Keys& keys, Hyper& hyper);
void read_config_deepseek_v3(Keys& keys, Hyper& hyper);
void read_config_deepseek_v32(Keys& keys, Hyper& hyper);
Program build_deepseek(const Hyper& hyper, Weights& weights);

inline constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kDeepseekNames = {{
    {"attn_q_a", "self_attn.q_a_proj"},
    {"attn_q_a_norm", "self_attn.q_a_layernorm"},
    {"attn_q_b", "self_attn.q_b_proj"},
    {"attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"},
    {"attn_kv_a_norm", "self_attn.kv_a_layernorm"},
    {"attn_kv_b", "self_attn.kv_b_proj"},
    {"indexer.attn_q_b", "self_attn.indexer.wq_b"},
    {"indexer.attn_k", "self_attn.indexer.wk"},
    {"indexer.k_norm", "self_attn.indexer.k_norm"},
    {"indexer.proj", "self_attn.indexer.weights_proj"},
}};

}  // namespace fourfold
