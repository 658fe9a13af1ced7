// The llama family's parts, which qwen2 shares.
#pragma once

#include "models/hyper.hpp"
#include "models/keys.hpp"
#include "models/weights.hpp"

namespace fourfold {

void read_gguf_llama(Keys& keys, Hyper& hyper);
void read_config_llama(Keys& keys, Hyper& hyper);
Program build_llama(const Hyper& hyper, Weights& weights);

}  // namespace fourfold
