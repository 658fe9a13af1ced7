#pragma once

#include "models/hyper.hpp"
#include "models/keys.hpp"

namespace fourfold {

// The Program is llama's: build_llama finds the biases in the file.
void read_gguf_qwen2(Keys& keys, Hyper& hyper);
void read_config_qwen2(Keys& keys, Hyper& hyper);

}  // namespace fourfold
