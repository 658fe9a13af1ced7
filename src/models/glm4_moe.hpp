#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "models/hyper.hpp"
#include "models/keys.hpp"
#include "models/weights.hpp"

namespace fourfold {

void read_gguf_glm4_moe(Keys& keys, Hyper& hyper);
void read_config_glm4_moe(Keys& keys, Hyper& hyper);
Program build_glm4_moe(const Hyper& hyper, Weights& weights);

inline constexpr std::array<std::pair<std::string_view, std::string_view>, 1> kGlm4MoeNames = {{
    {"post_attention_norm", "post_attention_layernorm"},
}};

}  // namespace fourfold
