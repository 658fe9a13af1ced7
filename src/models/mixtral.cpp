// mixtral: llama whose feed-forward part is a choice of experts, weighted by the softmax of those chosen.
// Jiang et al. 2024
#include "models/mixtral.hpp"

#include "models/experts.hpp"
#include "models/llama.hpp"

namespace fourfold {

void read_config_mixtral(Keys& keys, Hyper& h) {
  h.kv_heads = 8;  // where the file does not say, as with the numbers of experts
  h.experts.count = 8, h.experts.rule.chosen = 2, h.experts.rule.renormalise = true;
  read_config_common(keys, h);
  h.tied = keys.flag("tie_word_embeddings", false);
  read_config_rope(keys, h);
  h.activation = read_activation(keys, "hidden_act", "silu");
  h.bias = {false, false, false};
  h.experts.ff = h.ff;
  read_config_experts(keys, h, "num_local_experts");
  if (const int window = keys.count("sliding_window", 1, 1 << 30, 0); window > 0)
    h.windows.assign(static_cast<std::size_t>(h.layers), window);
}

}  // namespace fourfold
