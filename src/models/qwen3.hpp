#pragma once

#include "models/hyper.hpp"
#include "models/keys.hpp"
#include "models/weights.hpp"

namespace fourfold {

void read_gguf_qwen3(Keys& keys, Hyper& hyper);
void read_config_qwen3(Keys& keys, Hyper& hyper);
Program build_qwen3(const Hyper& hyper, Weights& weights);

}  // namespace fourfold
