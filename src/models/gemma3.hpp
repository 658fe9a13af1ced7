#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "models/hyper.hpp"
#include "models/keys.hpp"
#include "models/shapes.hpp"
#include "models/weights.hpp"

namespace fourfold {

void read_gguf_gemma3(Keys& keys, Hyper& hyper);
void read_config_gemma3(Keys& keys, Hyper& hyper);
void complete_gemma3(const NamedShape& shape, Hyper& hyper);
Program build_gemma3(const Hyper& hyper, Weights& weights);

// Gemma's four norms per layer, where safetensors files name them otherwise than llama's two.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kGemma3Names = {{
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
}};

}  // namespace fourfold
