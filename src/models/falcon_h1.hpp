#pragma once

#include "models/hyper.hpp"
#include "models/keys.hpp"
#include "models/weights.hpp"

namespace fourfold {

void read_gguf_falcon_h1(Keys& keys, Hyper& hyper);
void read_config_falcon_h1(Keys& keys, Hyper& hyper);
Program build_falcon_h1(const Hyper& hyper, Weights& weights);

}  // namespace fourfold
