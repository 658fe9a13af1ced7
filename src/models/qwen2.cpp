// qwen2: llama with biases on query, key and value, and a window on later layers where the file asks for one.
// Yang et al. 2024 (Qwen2 report)
#include "models/qwen2.hpp"

#include "models/llama.hpp"
#include "models/windows.hpp"

namespace fourfold {

void read_gguf_qwen2(Keys& keys, Hyper& h) { read_gguf_common(keys, h); }

void read_config_qwen2(Keys& keys, Hyper& h) {
  read_config_common(keys, h);
  h.tied = keys.flag("tie_word_embeddings", false);
  read_config_rope(keys, h);
  h.bias = {true, false, false};
  h.activation = read_activation(keys, "hidden_act", "silu");
  keys.expect("use_mrope", false);
  read_qwen_windows(keys, h);
}

}  // namespace fourfold
