// mamba and mamba2: nothing but mixers behind their norms; the whole past lives in states of one size.
// Gu and Dao 2023; Dao and Gu 2024
#include "models/mamba2.hpp"

#include "models/hybrid.hpp"
#include "models/mixers.hpp"

namespace fourfold {
namespace {

constexpr int kContext = 1 << 20;  // the state has no limit; positions are counted to here
constexpr std::int64_t kMaxHeads = 1 << 16, kMaxDim = 1 << 12;

// What both of the library's configurations have.
void read_config_common_mamba(Keys& keys, Hyper& h, bool tied) {
  h.heads = h.ff = 1, h.context = kContext;
  read_config_common(keys, h);
  h.eps = static_cast<float>(keys.number("layer_norm_epsilon", 1e-5));
  h.tied = keys.flag("tie_word_embeddings", tied);
  h.activation = read_activation(keys, "hidden_act", "silu");
  h.scan.kernel = keys.count("conv_kernel", 2, 16, 4);
  h.scan.conv_bias = keys.flag("use_conv_bias", true);
  h.scan.bias = h.scan.out_bias = keys.flag("use_bias", false);
  keys.ignore({"residual_in_fp32", "rescale_prenorm_residual", "time_step_floor", "time_step_max", "time_step_min",
               "layer_types", "layers_block_type"});
}

using Mixer = Value (*)(Builder&, Weights&, const Hyper&, Input, Value);

Program build(const Hyper& h, Weights& w, Mixer mixer) {
  Builder b{w.specs()};
  const Weight table = w.matrix("token_embd", h.vocab, h.width);
  Value x = b.embed(table);
  for (int i = 0; i < h.layers; ++i) {
    w.layer(i), b.layer(i);
    x = mixer(b, w, h, rms(x, w.norm("attn_norm", h.width, h.eps)), x);
  }
  w.layer(-1);
  return std::move(b).logits(rms(x, w.norm("output_norm", h.width, h.eps)), w.output_or_tied(h.tied, table));
}

}  // namespace

void read_gguf_mamba(Keys& keys, Hyper& h) {
  read_gguf_no_attention(keys, h);
  h.scan.heads = keys.count("ssm.inner_size", 1, kMaxHeads);
  h.scan.value_dim = 1;
  h.scan.key_dim = keys.count("ssm.state_size", 1, kMaxDim);
  h.scan.step_rank = keys.count("ssm.time_step_rank", 1, kMaxHeads);
  h.scan.kernel = keys.count("ssm.conv_kernel", 2, 16);
  h.scan.rate_is_log = false;
  keys.expect("ssm.dt_b_c_rms", false);
}

void read_config_mamba(Keys& keys, Hyper& h) {
  read_config_common_mamba(keys, h, true);
  ScanHyper& s = h.scan;
  const int expanded = keys.derived("expand x hidden_size", keys.number("expand", 2.0) * h.width, 1, kMaxHeads);
  s.heads = keys.count("intermediate_size", 1, kMaxHeads, expanded);
  s.value_dim = 1;
  s.key_dim = keys.count("state_size", 1, kMaxDim, 16);
  const std::int64_t automatic = (h.width + 15) / 16;
  s.step_rank = keys.count("time_step_rank", 1, kMaxHeads, automatic);
  keys.ignore({"time_step_scale", "time_step_init_scheme", "use_mambapy", "use_associative_scan", "d_inner", "d_model",
               "n_layer", "ssm_cfg.", "rms_norm", "fused_add_norm", "pad_vocab_size_multiple"});
}

Program build_mamba(const Hyper& h, Weights& w) { return build(h, w, mamba_mixer); }

void read_gguf_mamba2(Keys& keys, Hyper& h) {
  read_gguf_no_attention(keys, h);
  read_gguf_scan(keys, h);
}

void read_config_mamba2(Keys& keys, Hyper& h) {
  read_config_common_mamba(keys, h, false);
  ScanHyper& s = h.scan;
  s.heads = keys.count("num_heads", 1, kMaxHeads, 128);
  s.value_dim = keys.count("head_dim", 1, kMaxDim, 64);
  s.key_heads = keys.count("n_groups", 1, s.heads, 8);
  s.key_dim = keys.count("state_size", 1, kMaxDim, 128);
  s.norm_group = s.inner() / s.key_heads;
  check_key_heads(keys, "n_groups", s);
  read_step_limits(keys, "time_step_limit", s);
  if (keys.number("expand", 2.0) * h.width != s.inner())
    keys.refuse("expand", "not heads x head dimension over width", "num_heads x head_dim / hidden_size");
  keys.ignore({"chunk_size", "time_step_rank"});
}

Program build_mamba2(const Hyper& h, Weights& w) {
  return build(h, w, [](Builder& b, Weights& weights, const Hyper& hyper, Input in, Value x) {
    return mamba2_mixer(b, weights, hyper, in, x);
  });
}

}  // namespace fourfold
