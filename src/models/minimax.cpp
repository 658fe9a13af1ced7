// minimax: lightning attention (a scan with a decay per head) and softmax attention in turns, routed experts; the
// residual stream is taken behind each norm, both halves weighted.   MiniMax 2025 (MiniMax-01 report)
#include "models/minimax.hpp"

#include <algorithm>
#include <cmath>

#include "models/experts.hpp"
#include "models/hybrid.hpp"
#include "models/mixers.hpp"

namespace fourfold {
namespace {

constexpr float kNormEps = 1e-6f;  // of the norm behind lightning attention, whatever the file says

// Slopes halve from head to head in 8 / heads steps, and fade over the layers (section 2.2 of the report).
std::vector<float> decays(const Hyper& h, int layer) {
  const double fade = 1 - layer / (h.layers - 1 + 1e-5) + 1e-5;
  std::vector<float> out;
  for (int head = 1; head <= h.heads; ++head)
    out.push_back(static_cast<float>(-std::exp2(-8.0 * head / h.heads) * fade));
  return out;
}

Value lightning_mixer(Builder& b, Weights& w, const Hyper& h, int layer, Input in, Value x) {
  const int d = h.head_dim, inner = h.heads * d;
  const Value packed =
      b.project("lightning_qkv", in, w.dot("attn_qkv", 3 * inner, h.width, false), Store{.activation = h.activation});
  const Value gate = b.project("lightning_gate", in, w.dot("attn_gate", inner, h.width, false));
  const auto part = [&](int which) {
    return Columns{.value = packed, .first = which * d, .width = d, .runs = h.heads, .stride = 3 * d};
  };
  const Value read = b.scan({.mechanism = Mechanism::retention,
                             .heads = h.heads,
                             .key_heads = h.heads,
                             .query = part(0),
                             .key = part(1),
                             .value = part(2),
                             .rates = decays(h, layer)});
  const Value y = b.map("lightning_norm", {.in = b.columns(read),
                                           .gate = b.columns(gate),
                                           .activation = Activation::sigmoid,
                                           .norm = w.norm("ssm_norm", inner, kNormEps)});
  Dot out = w.dot("ssm_out", h.width, inner, false);
  out.scale = h.multipliers.scan_out;
  return b.project("lightning_out", {y}, out, AddTo{.x = x});
}

}  // namespace

void read_config_minimax(Keys& keys, Hyper& h) {
  h.rope.base = 1e6;
  h.kv_heads = 8;  // where the file does not say
  read_config_common(keys, h);
  h.tied = keys.flag("tie_word_embeddings", false);
  read_config_rope(keys, h);
  h.activation = read_activation(keys, "hidden_act", "silu");
  h.bias = {false, false, false};
  h.experts.count = 8, h.experts.rule.chosen = 2, h.experts.rule.renormalise = true;
  h.experts.ff = h.ff;
  read_config_experts(keys, h, "num_local_experts");
  Multipliers& m = h.multipliers;
  const auto factor = [&](const char* key) { return static_cast<float>(keys.number(key, 1.0)); };
  m.attention_in = factor("full_attn_alpha_factor"), m.attention_out = factor("full_attn_beta_factor");
  m.scan_in = factor("linear_attn_alpha_factor"), m.scan_out = factor("linear_attn_beta_factor");
  m.residual = factor("mlp_alpha_factor");
  h.experts.out_scale = factor("mlp_beta_factor");
  if (keys.has("layer_types")) {
    read_layer_kinds(keys, "layer_types", h);
  } else {
    for (int i = 0; i < h.layers; ++i) h.kinds.push_back(i % 2 == 0 ? LayerKind::attention : LayerKind::scan);
  }
  if (const int window = keys.count("sliding_window", 1, 1 << 30, 0); window > 0)
    h.windows.assign(static_cast<std::size_t>(h.layers), window);
  keys.ignore({"block_size", "shared_moe_mode", "postnorm", "attn_type_list"});
}

Program build_minimax(const Hyper& h, Weights& w) {
  const Multipliers& m = h.multipliers;
  for (const char* computed : {"*.slope_rate", "*.query_decay", "*.key_decay", "*.diagonal_decay"}) w.ignore(computed);
  Builder b{w.specs()};
  const int rope = b.rope(make_rope(h.rope));
  const Weight table = w.matrix("token_embd", h.vocab, h.width);
  Value x = b.embed(table);
  // The stream goes on from its norm, times `factor`; what the layer reads is normed in front of its projections.
  const auto behind = [&](const char* step, NormSpec norm, float factor) {
    norm.scale = factor;
    return b.map(step, {.in = b.columns(x), .norm = norm});
  };
  for (int i = 0; i < h.layers; ++i) {
    w.layer(i), b.layer(i);
    const NormSpec first = w.norm("attn_norm", h.width, h.eps), second = w.norm("ffn_norm", h.width, h.eps);
    const Value r = behind("attn_residual", first, h.attends(i) ? m.attention_in : m.scan_in);
    x = h.attends(i) ? attention_mixer(b, w, h, rms(x, first), r,
                                       {.rope = rope, .window = h.window(i), .out_scale = m.attention_out})
                     : lightning_mixer(b, w, h, i, rms(x, first), r);
    x = routed_mlp(b, w, h, rms(x, second), behind("ffn_residual", second, m.residual));
  }
  w.layer(-1);
  return std::move(b).logits(rms(x, w.norm("output_norm", h.width, h.eps)), w.output_or_tied(h.tied, table));
}

}  // namespace fourfold
