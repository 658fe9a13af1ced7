#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "models/hyper.hpp"
#include "models/keys.hpp"
#include "models/weights.hpp"

namespace fourfold {

void read_config_bamba(Keys& keys, Hyper& hyper);
void read_gguf_granite_hybrid(Keys& keys, Hyper& hyper);  // Bamba, too
void read_config_granite_hybrid(Keys& keys, Hyper& hyper);
Program build_bamba(const Hyper& hyper, Weights& weights);
Program build_granite_hybrid(const Hyper& hyper, Weights& weights);

inline constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kGraniteHybridNames = {{
    {"ffn_gate_up_shexp", "shared_mlp.input_linear.weight"},
    {"ffn_down_shexp", "shared_mlp.output_linear"},
    {"ffn_gate_inp", "block_sparse_moe.router.layer"},
    {"ffn_gate_up_exps", "block_sparse_moe.input_linear.weight"},
    {"ffn_down_exps", "block_sparse_moe.output_linear"},
    {"ssm_in", "mamba.in_proj"},
    {"ssm_conv1d", "mamba.conv1d"},
    {"ssm_dt.bias", "mamba.dt_bias"},
    {"ssm_a", "mamba.A_log"},
    {"ssm_d", "mamba.D"},
    {"ssm_norm", "mamba.norm"},
    {"ssm_out", "mamba.out_proj"},
}};

}  // namespace fourfold
