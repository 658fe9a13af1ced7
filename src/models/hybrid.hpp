// What configurations of hybrid families have in common.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "models/hyper.hpp"
#include "models/keys.hpp"

namespace fourfold {

// Names of tensors in safetensors: Bamba, Falcon-H1.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kMambaAttentionNames = {{
    {"output_norm", "final_layernorm"},
    {"ffn_norm", "pre_ff_layernorm"},
    {"ffn_gate", "feed_forward.gate_proj"},
    {"ffn_up", "feed_forward.up_proj"},
    {"ffn_down", "feed_forward.down_proj"},
    {"ssm_in", "mamba.in_proj"},
    {"ssm_conv1d", "mamba.conv1d"},
    {"ssm_dt.bias", "mamba.dt_bias"},
    {"ssm_a", "mamba.A_log"},
    {"ssm_d", "mamba.D"},
    {"ssm_norm", "mamba.norm"},
    {"ssm_out", "mamba.out_proj"},
}};

// GGUF's "ssm." keys of a scan with heads: Mamba-2 and the delta rules. Norms are over groups; the file stores -A.
void read_gguf_scan(Keys& keys, Hyper& hyper);
// GGUF's KEY as a list with a number for each layer, 0 where the layer has none of them: marks the others as `kind`
// (h.kinds, where layers not marked by anything scan) and returns their number, which has to be the same for all.
int read_gguf_layers(Keys& keys, const char* key, LayerKind kind, Hyper& hyper);
// Refuses heads of values that those of keys cannot share evenly; `key` says how many the latter are.
void check_key_heads(Keys& keys, const char* key, const ScanHyper& scan);
// The "mamba_..." keys of a Mamba-2 mixer (Bamba, Falcon-H1, Granite).
void read_config_mamba_keys(Keys& keys, Hyper& hyper);
// Kinds by the names config.json gives them, older and newer: "attention" and "full_attention", ...
void read_layer_kinds(Keys& keys, const char* key, Hyper& hyper);

}  // namespace fourfold
