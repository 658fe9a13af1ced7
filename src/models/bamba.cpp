// bamba: Mamba-2 mixers, attention in a few layers. granitemoehybrid: the same with factors, without positions unless a
// file asks for them, and a feed-forward part of routed experts beside one that every token uses.
// IBM 2024 (Bamba report); IBM 2025 (Granite 4.0)
#include "models/bamba.hpp"

#include <algorithm>

#include "models/experts.hpp"
#include "models/hybrid.hpp"
#include "models/mixers.hpp"

namespace fourfold {
namespace {

void read_common(Keys& keys, Hyper& h) {
  read_config_llama_keys(keys, h);
  read_config_mamba_keys(keys, h);
}

// x + factor * (routed experts of `in` + the part that every token uses).
Value granite_mlp(Builder& b, Weights& w, const Hyper& h, Input in, Value x) {
  const ExpertsHyper& e = h.experts;
  if (!w.has("ffn_gate_up_shexp"))  // GGUF has the parts apart
    return e.count > 0 ? routed_mlp(b, w, h, in, x) : gated_mlp(b, w, h, in, x, {.out = h.multipliers.residual});
  const auto halves = [&](const char* name, int experts, int ff) {
    const auto half = [&](int first) {
      return Dot{w.fused({.tensor = name, .file_rows = 2 * ff, .first = first}, experts, ff, h.width)};
    };
    return std::vector{half(0), half(ff)};
  };
  const Value s = b.project("shared_gate_up", in, halves("ffn_gate_up_shexp", 1, e.shared_ff), Gated{h.activation});
  Dot down = w.dot("ffn_down_shexp", h.width, e.shared_ff, false);
  if (e.count == 0) {
    down.scale = h.multipliers.residual;
    return b.project("shared_down", {s}, down, AddTo{.x = x});
  }
  const Value shared = b.project("shared_down", {s}, down);
  const Builder::Routed routed = b.route(in, w.dot("ffn_gate_inp", e.count, h.width, false), e.rule);
  const Value m =
      b.experts("experts_gate_up", in, routed, halves("ffn_gate_up_exps", e.count, e.ff), {.activation = h.activation});
  const Value made = b.experts("experts_down", {m}, routed, {{w.experts("ffn_down_exps", e.count, h.width, e.ff)}},
                               {.per_choice = true});
  return b.combine(made, routed, {.x = x, .shared = shared, .scale = h.multipliers.residual});
}

}  // namespace

void read_config_bamba(Keys& keys, Hyper& h) {
  h.rope.partial = 1;
  read_common(keys, h);
  if (!keys.has("rope_parameters.partial_rotary_factor") && !keys.has("partial_rotary_factor"))
    h.rope.dims = h.head_dim / 2;  // as its code has it
  h.kinds.assign(static_cast<std::size_t>(h.layers), LayerKind::scan);
  for (std::int64_t layer : keys.integers("attn_layer_indices"))
    if (layer >= 0 && layer < h.layers) h.kinds[static_cast<std::size_t>(layer)] = LayerKind::attention;
  keys.ignore({"z_loss_coefficient", "attn_rotary_emb", "layer_types", "layers_block_type"});
}

void read_gguf_granite_hybrid(Keys& keys, Hyper& h) {
  h.kv_heads = read_gguf_layers(keys, "attention.head_count_kv", LayerKind::attention, h);
  read_gguf_common(keys, h, true);
  read_gguf_scan(keys, h);
  h.positions = keys.flag("rope.scaling.finetuned", true);  // what the family means by it
  h.rope.interleaved = true;                                // as of llama's
  const auto factor = [&](const char* key, double preset) {
    const double value = keys.number(key, preset);
    return static_cast<float>(value != 0 ? value : preset);
  };
  h.embedding_scale = factor("embedding_scale", 1);
  h.attention_scale = factor("attention.scale", 0);
  h.multipliers.residual = h.experts.out_scale = factor("residual_scale", 1);
  h.multipliers.logits = 1 / factor("logit_scale", 1);
  h.experts.rule.renormalise = true;
  read_gguf_experts(keys, h);
}

void read_config_granite_hybrid(Keys& keys, Hyper& h) {
  read_common(keys, h);
  read_layer_kinds(keys, keys.has("layer_types") ? "layer_types" : "layers_block_type", h);
  const std::string positions = keys.text("position_embedding_type", "nope");
  if (positions != "nope" && positions != "rope")
    keys.refuse("position_embedding_type", '"' + positions + '"', "rope, nope");
  h.positions = positions == "rope";
  h.embedding_scale = static_cast<float>(keys.number("embedding_multiplier", 1.0));
  h.multipliers.residual = static_cast<float>(keys.number("residual_multiplier", 1.0));
  h.multipliers.logits = static_cast<float>(1 / keys.number("logits_scaling", 1.0));
  h.attention_scale = static_cast<float>(keys.number("attention_multiplier", 1.0));
  ExpertsHyper& e = h.experts;
  e.ff = h.ff;
  e.shared_ff = keys.count("shared_intermediate_size", 1, 1 << 24, 1024);
  e.rule.renormalise = true;
  e.rule.chosen = 2;
  if (keys.count("num_local_experts", 0, kMaxExperts, 8) > 0) {
    e.count = 8;
    read_config_experts(keys, h, "num_local_experts");
  }
  keys.ignore({"num_experts_per_tok", "router_aux_loss_coef", "output_router_logits", "normalization_function",
               "init_method", "layer_types", "layers_block_type"});
}

Program build_bamba(const Hyper& h, Weights& w) {
  Builder b{w.specs()};
  const int rope = b.rope(make_rope(h.rope));
  const Weight table = w.matrix("token_embd", h.vocab, h.width);
  Value x = b.embed(table);
  for (int i = 0; i < h.layers; ++i) {
    w.layer(i), b.layer(i);
    const Input in = rms(x, w.norm("attn_norm", h.width, h.eps));
    x = h.attends(i) ? attention_mixer(b, w, h, in, x, {.rope = rope}) : mamba2_mixer(b, w, h, in, x);
    x = gated_mlp(b, w, h, rms(x, w.norm("ffn_norm", h.width, h.eps)), x);
  }
  w.layer(-1);
  return std::move(b).logits(rms(x, w.norm("output_norm", h.width, h.eps)), w.output_or_tied(h.tied, table));
}

Program build_granite_hybrid(const Hyper& h, Weights& w) {
  const float out = h.multipliers.residual;
  Builder b{w.specs()};
  const int rope = h.positions ? b.rope(make_rope(h.rope)) : -1;
  const Weight table = w.matrix("token_embd", h.vocab, h.width);
  Value x = b.embed(table, h.embedding_scale);
  for (int i = 0; i < h.layers; ++i) {
    w.layer(i), b.layer(i);
    const Input in = rms(x, w.norm("attn_norm", h.width, h.eps));
    x = h.attends(i) ? attention_mixer(b, w, h, in, x, {.rope = rope, .out_scale = out})
                     : mamba2_mixer(b, w, h, in, x, {.out = out});
    x = granite_mlp(b, w, h, rms(x, w.norm("ffn_norm", h.width, h.eps)), x);
  }
  w.layer(-1);
  NormSpec last = w.norm("output_norm", h.width, h.eps);
  last.scale = h.multipliers.logits;
  return std::move(b).logits(rms(x, last), w.output_or_tied(h.tied, table));
}

}  // namespace fourfold
