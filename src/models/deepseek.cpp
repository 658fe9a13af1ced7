// deepseek_v2, deepseek_v3, deepseek_v32: latent attention, routed experts beside shared ones, dense first layers; the
// last one also chooses the keys it attends to.   DeepSeek-AI 2024 (V2, V3), 2025 (V3.2)
#include "models/deepseek.hpp"

#include <cmath>

#include "models/experts.hpp"
#include "models/latent.hpp"

namespace fourfold {
namespace {

// With any scaling of positions the attention's scale carries the square of YaRN's factor for all dimensions.
void scale_attention(Keys& keys, Hyper& h) {
  const char* prefix = keys.has("rope_scaling.mscale_all_dim") ? "rope_scaling." : "rope_parameters.";
  const double weight = keys.number(std::string(prefix) + "mscale_all_dim", 0.0);
  if (h.rope.scaling.kind == RopeScaling::Kind::none || weight == 0) return;
  const double scale = yarn_scale(h.rope.scaling.factor, weight);
  h.attention_scale *= static_cast<float>(scale * scale);
}

// What the three share; `dense`: first layers without experts where the file does not say.
void read_common(Keys& keys, Hyper& h, int dense) {
  h.head_dim = 64;  // where the file does not say; no size follows from it
  read_config_common(keys, h);
  h.tied = keys.flag("tie_word_embeddings", false);
  read_config_latent(keys, h);
  read_config_rope(keys, h);
  h.rope.dims = h.latent.rotary;
  scale_attention(keys, h);
  h.activation = read_activation(keys, "hidden_act", "silu");
  h.bias.qkv = h.bias.out = keys.flag("attention_bias", false);
  h.bias.mlp = false;
  read_config_routed_layers(keys, h, dense);
  ExpertsHyper& e = h.experts;
  e.ff = keys.count("moe_intermediate_size", 1, 1 << 24, e.ff);
  e.shared_ff = shared_width(keys, "n_shared_experts", 1, e);
  e.rule.groups = keys.count("n_group", 1, kMaxExperts, e.rule.groups);
  e.rule.kept_groups = keys.count("topk_group", 1, kMaxExperts, e.rule.kept_groups);
  e.rule.scale = static_cast<float>(keys.number("routed_scaling_factor", static_cast<double>(e.rule.scale)));
  read_config_experts(keys, h, keys.has("num_local_experts") ? "num_local_experts" : "n_routed_experts");
  keys.ignore({"num_nextn_predict_layers", "num_hidden_groups", "pretraining_tp", "mlp_bias", "moe_layer_freq"});
  keys.expect("moe_layer_freq", 1.0);
}

// DeepSeek-V3's rule: sigmoids that a bias selects by, groups by the sum of their two best.
void set_rule_v3(Keys& keys, Hyper& h) {
  RouteRule& rule = h.experts.rule;
  h.experts.selection_bias = true;
  rule = {
      .score = RouteRule::Score::sigmoid, .chosen = 8, .scale = 2.5f, .groups = 8, .kept_groups = 4, .group_best = 2};
  rule.renormalise = keys.flag("norm_topk_prob", true);
  keys.expect("scoring_func", "sigmoid");
  keys.expect("topk_method", "noaux_tc");
}

}  // namespace

void read_gguf_deepseek2(Keys& keys, Hyper& h) {
  ExpertsHyper& e = h.experts;
  e.rule.chosen = 1;
  read_gguf_latent(keys, h);
  read_gguf_experts(keys, h);
  e.selection_bias = e.rule.score == RouteRule::Score::sigmoid;
  e.rule.group_best = e.selection_bias ? 2 : 1;
  h.rope.interleaved = true;
  h.rope.scale = 1;  // the two weights of YaRN's factor are equal in these models
  const double weight = keys.number("rope.scaling.yarn_log_multiplier", 0.0);  // a tenth of mscale_all_dim
  if (h.rope.scaling.kind == RopeScaling::Kind::yarn) {
    const double scale = yarn_scale(h.rope.scaling.factor, weight / 0.1);
    h.attention_scale *= static_cast<float>(scale * scale);
  }
  h.bias = {false, false, false};
  h.layers -= keys.count("nextn_predict_layers", 0, h.layers - 1, 0);
}

void read_config_deepseek_v2(Keys& keys, Hyper& h) {
  h.experts.ff = 1407, h.experts.count = 64;  // where the file does not say
  RouteRule& rule = h.experts.rule;
  rule = {.score = RouteRule::Score::softmax, .chosen = 6};
  h.rope.interleaved = true;
  read_common(keys, h, 0);
  const std::string method = keys.text("topk_method", "greedy");
  if (method == "greedy")
    rule.groups = rule.kept_groups = 1;
  else if (method != "group_limited_greedy")
    keys.refuse("topk_method", '"' + method + '"', "greedy, group_limited_greedy");
  keys.expect("scoring_func", "softmax");
  keys.expect("mlp_bias", false);
  keys.ignore({"norm_topk_prob"});  // never applied
}

void read_config_deepseek_v3(Keys& keys, Hyper& h) {
  h.experts.ff = 2048, h.experts.count = 256;
  set_rule_v3(keys, h);
  h.rope.interleaved = keys.flag("rope_interleave", true);
  read_common(keys, h, 3);
}

void read_config_deepseek_v32(Keys& keys, Hyper& h) {
  read_config_deepseek_v3(keys, h);
  LatentHyper& l = h.latent;
  l.index_heads = keys.count("index_n_heads", 1, 1 << 14, 64);
  l.index_dim = keys.count("index_head_dim", 1, 1 << 14, 128);
  l.index_count = keys.count("index_topk", 1, 1 << 30, 2048);
  if (l.query_rank == 0) keys.refuse("q_lora_rank", "absent", "a rank: the indexer's queries come from it");
  if (l.index_dim < l.rotary)
    keys.refuse("index_head_dim", std::to_string(l.index_dim),
                "at least qk_rope_head_dim, " + std::to_string(l.rotary));
  for (const std::string& type : keys.texts("layer_types"))
    if (type != "indexed_attention") keys.refuse("layer_types", '"' + type + '"', "indexed_attention");
}

Program build_deepseek(const Hyper& h, Weights& w) {
  Builder b{w.specs()};
  const LatentRopes ropes = latent_ropes(b, h);
  const Weight table = w.matrix("token_embd", h.vocab, h.width);
  Value x = b.embed(table);
  for (int i = 0; i < h.layers; ++i) {
    w.layer(i), b.layer(i);
    x = latent_attention(b, w, h, ropes, rms(x, w.norm("attn_norm", h.width, h.eps)), x);
    x = feed_forward(b, w, h, i, rms(x, w.norm("ffn_norm", h.width, h.eps)), x);
  }
  w.layer(-1);
  for (const char* layers : {"model.layers.", "blk."})  // that predict several tokens at once
    w.ignore(layers + std::to_string(h.layers) + ".*");
  return std::move(b).logits(rms(x, w.norm("output_norm", h.width, h.eps)), w.output_or_tied(h.tied, table));
}

}  // namespace fourfold
