#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "models/hyper.hpp"
#include "models/keys.hpp"
#include "models/weights.hpp"

namespace fourfold {

void read_config_rwkv(Keys& keys, Hyper& hyper);
Program build_rwkv(const Hyper& hyper, Weights& weights);

// Names of GGUF where it has some for later versions.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 21> kRwkvNames = {{
    {"blk", "blocks"},
    {"token_embd", "embeddings"},
    {"token_embd_norm", "pre_ln"},
    {"output_norm", "ln_out"},
    {"output", "head"},
    {"attn_norm", "ln1"},
    {"ffn_norm", "ln2"},
    {"time_mix_decay", "attention.time_decay"},
    {"time_mix_first", "attention.time_first"},
    {"time_mix_lerp_k", "attention.time_mix_key"},
    {"time_mix_lerp_v", "attention.time_mix_value"},
    {"time_mix_lerp_r", "attention.time_mix_receptance"},
    {"time_mix_key", "attention.key"},
    {"time_mix_value", "attention.value"},
    {"time_mix_receptance", "attention.receptance"},
    {"time_mix_output", "attention.output"},
    {"channel_mix_lerp_k", "feed_forward.time_mix_key"},
    {"channel_mix_lerp_r", "feed_forward.time_mix_receptance"},
    {"channel_mix_key", "feed_forward.key"},
    {"channel_mix_value", "feed_forward.value"},
    {"channel_mix_receptance", "feed_forward.receptance"},
}};

}  // namespace fourfold
