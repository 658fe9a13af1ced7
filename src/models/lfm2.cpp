// lfm2: gated short convolutions, and attention with normed heads in some layers.   Liquid AI 2025 (LFM2 report)
#include "models/lfm2.hpp"

#include <algorithm>

#include "models/hybrid.hpp"
#include "models/mixers.hpp"

namespace fourfold {
namespace {

constexpr int kKernel = 3;  // where a file does not say

// The feed-forward width that is meant by the one config.json states.
int adjusted(Keys& keys, int stated) {
  const double factor = keys.number("block_ffn_dim_multiplier", 1.0);
  const int multiple = keys.count("block_multiple_of", 1, 1 << 20, 256);
  if (!keys.flag("block_auto_adjust_ff_dim", true)) return stated;
  const int width = keys.derived("block_ffn_dim_multiplier x two thirds of block_ff_dim",
                                 factor * static_cast<int>(2.0 * stated / 3), 1, 1 << 24);
  return (width + multiple - 1) / multiple * multiple;
}

Value conv_mixer(Builder& b, Weights& w, const Hyper& h, Input in, Value x) {
  const int n = h.width;
  const Value packed = b.project("conv_in", in, w.dot("shortconv.in_proj", 3 * n, n, h.scan.bias));  // [B, C, x]
  const auto part = [&](int i) { return Columns{.value = packed, .first = i * n, .width = n}; };
  const Dot conv = w.dot("shortconv.conv", n, h.scan.kernel, h.scan.bias);
  const Value y =
      b.conv({.in = {part(2)}, .gate_in = part(0), .gate_out = part(1), .weights = conv.weight, .bias = conv.bias});
  return b.project("conv_out", {y}, w.dot("shortconv.out_proj", n, n, h.scan.bias), AddTo{.x = x});
}

}  // namespace

void read_gguf_lfm2(Keys& keys, Hyper& h) {
  h.kv_heads = read_gguf_layers(keys, "attention.head_count_kv", LayerKind::attention, h);
  read_gguf_common(keys, h);
  h.scan.kernel = keys.count("shortconv.l_cache", 2, 16);
}

void read_config_lfm2(Keys& keys, Hyper& h) {
  h.rope.base = 1e6;
  h.ff = keys.count("block_ff_dim", 1, 1 << 24, 12288);
  h.context = 128000;
  read_config_common(keys, h);
  h.eps = static_cast<float>(keys.number("norm_eps", 1e-5));
  h.tied = keys.flag("tie_embedding", keys.flag("tie_word_embeddings", true));
  read_config_rope(keys, h);
  h.ff = adjusted(keys, h.ff);
  h.bias.qkv = h.bias.out = h.bias.mlp = false;
  h.scan.kernel = keys.count("conv_L_cache", 2, 16, kKernel);
  h.scan.bias = keys.flag("conv_bias", false);
  read_layer_kinds(keys, "layer_types", h);
  const auto attending = keys.integers("full_attn_idxs");
  if (!keys.has("layer_types"))
    for (int i = 0; i < h.layers; ++i)
      if (attending.empty() || std::find(attending.begin(), attending.end(), i) != attending.end())
        h.kinds[static_cast<std::size_t>(i)] = LayerKind::attention;
  keys.ignore({"block_dim", "block_mlp_init_scale", "block_norm_eps", "block_out_init_scale", "block_use_swiglu",
               "block_use_xavier_init", "conv_dim", "conv_dim_out", "conv_use_xavier_init", "num_attention_heads",
               "num_heads", "use_pos_enc"});
}

Program build_lfm2(const Hyper& h, Weights& w) {
  Builder b{w.specs()};
  const int rope = b.rope(make_rope(h.rope));
  const Weight table = w.matrix("token_embd", h.vocab, h.width);
  Value x = b.embed(table);
  for (int i = 0; i < h.layers; ++i) {
    w.layer(i), b.layer(i);
    const Input in = rms(x, w.norm("attn_norm", h.width, h.eps));
    x = h.attends(i) ? attention_mixer(b, w, h, in, x, {.rope = rope, .norms = true}) : conv_mixer(b, w, h, in, x);
    x = gated_mlp(b, w, h, rms(x, w.norm("ffn_norm", h.width, h.eps)), x);
  }
  w.layer(-1);
  return std::move(b).logits(rms(x, w.norm("token_embd_norm", h.width, h.eps)), w.output_or_tied(h.tied, table));
}

}  // namespace fourfold
