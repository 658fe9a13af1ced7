// qwen3: llama with an RMS norm over each query and key head, no biases by default.   Yang et al. 2025 (Qwen3 report)
#include "models/qwen3.hpp"

#include "models/llama.hpp"
#include "models/windows.hpp"

namespace fourfold {

void read_gguf_qwen3(Keys& keys, Hyper& h) { read_gguf_common(keys, h); }

void read_config_qwen3(Keys& keys, Hyper& h) {
  h.head_dim = 128;  // where the file does not say
  read_config_common(keys, h);
  h.tied = keys.flag("tie_word_embeddings", false);
  read_config_rope(keys, h);
  h.activation = read_activation(keys, "hidden_act", "silu");
  h.bias.qkv = h.bias.out = keys.flag("attention_bias", false);
  h.bias.mlp = false;
  read_qwen_windows(keys, h);
}

Program build_qwen3(const Hyper& h, Weights& w) {
  Hyper normed = h;
  normed.head_norms = true;
  return build_llama(normed, w);
}

}  // namespace fourfold
