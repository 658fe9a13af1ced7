// mamba2: nothing but Mamba-2 mixers behind their norms; no position is ever forgotten or kept whole.
// Dao and Gu 2024
#include "models/mamba2.hpp"

#include "models/mixers.hpp"

namespace fourfold {
namespace {

constexpr int kContext = 1 << 20;  // the state has no limit; positions are counted to here
constexpr std::int64_t kMaxHeads = 1 << 16, kMaxDim = 1 << 12;

}  // namespace

void read_gguf_mamba2(Keys& keys, Hyper& h) {
  h.heads = h.kv_heads = 1;
  read_gguf_common(keys, h);
  ScanHyper& s = h.scan;
  s.heads = keys.count("ssm.time_step_rank", 1, kMaxHeads);
  s.key_heads = keys.count("ssm.group_count", 1, s.heads);
  s.key_dim = keys.count("ssm.state_size", 1, kMaxDim);
  s.value_dim = keys.count("ssm.inner_size", 1, kMaxHeads * kMaxDim) / s.heads;
  s.kernel = keys.count("ssm.conv_kernel", 2, 16);
  s.norm_group = s.inner() / s.key_heads;
  s.rate_is_log = false;
}

void read_config_mamba2(Keys& keys, Hyper& h) {
  h.heads = h.ff = 1, h.context = kContext;
  read_config_common(keys, h);
  h.eps = static_cast<float>(keys.number("layer_norm_epsilon", 1e-5));
  h.tied = keys.flag("tie_word_embeddings", false);
  h.activation = read_activation(keys, "hidden_act", "silu");
  ScanHyper& s = h.scan;
  s.heads = keys.count("num_heads", 1, kMaxHeads, 128);
  s.value_dim = keys.count("head_dim", 1, kMaxDim, 64);
  s.key_heads = keys.count("n_groups", 1, s.heads, 8);
  s.key_dim = keys.count("state_size", 1, kMaxDim, 128);
  s.kernel = keys.count("conv_kernel", 2, 16, 4);
  s.conv_bias = keys.flag("use_conv_bias", true);
  s.bias = keys.flag("use_bias", false);
  s.norm_group = s.inner() / s.key_heads;
  read_step_limits(keys, "time_step_limit", s);
  if (keys.number("expand", 2.0) * h.width != s.inner())
    keys.refuse("expand", "not heads x head dimension over width", "num_heads x head_dim / hidden_size");
  keys.ignore({"chunk_size", "residual_in_fp32", "rescale_prenorm_residual", "time_step_floor", "time_step_max",
               "time_step_min", "time_step_rank", "layer_types", "layers_block_type"});
}

Program build_mamba2(const Hyper& h, Weights& w) {
  Builder b{w.specs()};
  const Weight table = w.matrix("token_embd", h.vocab, h.width);
  Value x = b.embed(table);
  for (int i = 0; i < h.layers; ++i) {
    w.layer(i), b.layer(i);
    x = mamba2_mixer(b, w, h, rms(x, w.norm("attn_norm", h.width, h.eps)), x);
  }
  w.layer(-1);
  return std::move(b).logits(rms(x, w.norm("output_norm", h.width, h.eps)), w.output_or_tied(h.tied, table));
}

}  // namespace fourfold
