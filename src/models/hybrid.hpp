// What configurations of hybrid families have in common.
#pragma once

#include "models/hyper.hpp"
#include "models/keys.hpp"

namespace fourfold {

// The "mamba_..." keys of a Mamba-2 mixer (Bamba, Falcon-H1, Granite).
void read_config_mamba_keys(Keys& keys, Hyper& hyper);
// Kinds by the names config.json gives them, older and newer: "attention" and "full_attention", ...
void read_layer_kinds(Keys& keys, const char* key, Hyper& hyper);

}  // namespace fourfold
