#include "models/hybrid.hpp"

#include <algorithm>

namespace fourfold {
namespace {

constexpr std::int64_t kMaxHeads = 1 << 16, kMaxDim = 1 << 12, kMaxWidth = 1 << 24;

}  // namespace

void read_gguf_scan(Keys& keys, Hyper& h) {
  ScanHyper& s = h.scan;
  s.heads = keys.count("ssm.time_step_rank", 1, kMaxHeads);
  s.key_heads = keys.count("ssm.group_count", 1, s.heads);
  s.key_dim = keys.count("ssm.state_size", 1, kMaxDim);
  const int inner = keys.count("ssm.inner_size", 1, kMaxWidth);
  s.value_dim = inner / s.heads;
  s.kernel = keys.count("ssm.conv_kernel", 2, 16);
  s.norm_group = s.inner() / s.key_heads;
  s.rate_is_log = false;
  if (s.inner() != inner || s.heads % s.key_heads != 0)
    keys.refuse("ssm.time_step_rank", std::to_string(s.heads),
                "a divisor of ssm.inner_size, " + std::to_string(inner) + ", and a multiple of ssm.group_count, " +
                    std::to_string(s.key_heads));
}

int read_gguf_layers(Keys& keys, const char* key, LayerKind kind, Hyper& h) {
  const auto layers = keys.integers(key);
  const auto expected = keys.count("block_count", 1, kMaxLayers);
  if (static_cast<int>(layers.size()) != expected) {
    keys.refuse(key, "a list of " + std::to_string(layers.size()),
                "one number for each of the " + std::to_string(expected) + " layers");
    return 1;
  }
  h.kinds.resize(layers.size(), LayerKind::scan);
  std::int64_t number = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] == 0) continue;
    if (layers[i] < 0 || layers[i] > kMaxWidth || (number != 0 && layers[i] != number))
      keys.refuse(key, std::to_string(layers[i]) + " in layer " + std::to_string(i),
                  "0, or one number for all other layers");
    number = layers[i];
    h.kinds[i] = kind;
  }
  return static_cast<int>(std::clamp<std::int64_t>(number, 1, kMaxWidth));
}

void check_key_heads(Keys& keys, const char* key, const ScanHyper& s) {
  if (s.heads % s.key_heads != 0)
    keys.refuse(key, std::to_string(s.key_heads), "a divisor of the " + std::to_string(s.heads) + " heads");
}

void read_config_mamba_keys(Keys& keys, Hyper& h) {
  ScanHyper& s = h.scan;
  const int inner =
      keys.derived("mamba_expand x hidden_size", keys.number("mamba_expand", 2.0) * h.width, 1, kMaxWidth);
  s.heads = keys.count("mamba_n_heads", 1, kMaxHeads, 128);
  const int share = inner / s.heads;
  if (keys.has_text("mamba_d_head")) keys.expect("mamba_d_head", "auto");
  s.value_dim = keys.has("mamba_d_head") && !keys.has_text("mamba_d_head")
                    ? keys.count("mamba_d_head", 1, kMaxDim)
                    : keys.derived("mamba_expand x hidden_size / mamba_n_heads", share, 1, kMaxDim);
  s.key_heads = keys.count("mamba_n_groups", 1, s.heads, 1);
  s.key_dim = keys.count("mamba_d_state", 1, kMaxDim, 256);
  s.kernel = keys.count("mamba_d_conv", 2, 16, 4);
  s.conv_bias = keys.flag("mamba_conv_bias", true);
  s.bias = s.out_bias = keys.flag("mamba_proj_bias", false);
  s.norm_group = s.inner() / s.key_heads;
  check_key_heads(keys, "mamba_n_groups", s);
  read_step_limits(keys, "time_step_limit", s);
  keys.ignore({"mamba_chunk_size", "num_logits_to_keep"});
}

void read_layer_kinds(Keys& keys, const char* key, Hyper& h) {
  h.kinds.clear();
  for (const std::string& type : keys.texts(key)) {
    if (type == "attention" || type == "full_attention")
      h.kinds.push_back(LayerKind::attention);
    else if (type == "mamba" || type == "conv" || type == "linear_attention")
      h.kinds.push_back(LayerKind::scan);
    else if (type == "mlp")
      h.kinds.push_back(LayerKind::feed_forward);
    else if (type == "moe")
      h.kinds.push_back(LayerKind::experts);
    else
      keys.refuse(key, '"' + type + '"', "full_attention, linear_attention, attention, mamba, conv, mlp, moe");
  }
  if (!h.kinds.empty() && h.layers > 0 && static_cast<int>(h.kinds.size()) != h.layers)
    keys.refuse(key, "a list of " + std::to_string(h.kinds.size()),
                "one entry for each of the " + std::to_string(h.layers) + " layers");
  if (h.layers > 0) h.kinds.resize(static_cast<std::size_t>(h.layers), LayerKind::scan);
}

}  // namespace fourfold
