#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "models/hyper.hpp"
#include "models/keys.hpp"
#include "models/weights.hpp"

namespace fourfold {

void read_gguf_mamba(Keys& keys, Hyper& hyper);
void read_config_mamba(Keys& keys, Hyper& hyper);
Program build_mamba(const Hyper& hyper, Weights& weights);

void read_gguf_mamba2(Keys& keys, Hyper& hyper);
void read_config_mamba2(Keys& keys, Hyper& hyper);
Program build_mamba2(const Hyper& hyper, Weights& weights);

inline constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kMamba2Names = {{
    {"token_embd", "embeddings"},
    {"output_norm", "norm_f"},
    {"attn_norm", "norm"},
    {"ssm_in", "mixer.in_proj"},
    {"ssm_conv1d", "mixer.conv1d"},
    {"ssm_dt.bias", "mixer.dt_bias"},
    {"ssm_a", "mixer.A_log"},
    {"ssm_d", "mixer.D"},
    {"ssm_norm", "mixer.norm"},
    {"ssm_out", "mixer.out_proj"},
}};
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kMambaNames = {{
    {"token_embd", "embeddings"},
    {"output_norm", "norm_f"},
    {"attn_norm", "norm"},
    {"ssm_in", "mixer.in_proj"},
    {"ssm_conv1d", "mixer.conv1d"},
    {"ssm_x", "mixer.x_proj"},
    {"ssm_dt", "mixer.dt_proj"},
    {"ssm_a", "mixer.A_log"},
    {"ssm_d", "mixer.D"},
    {"ssm_out", "mixer.out_proj"},
}};

}  // namespace fourfold
