// glm4_moe: rotary embedding over half of each head, optional norms over heads, a few dense layers, then experts chosen
// by a biased sigmoid beside shared ones.   GLM-4.5 Team 2025
#include "models/glm4_moe.hpp"

#include "models/experts.hpp"
#include "models/mixers.hpp"

namespace fourfold {
namespace {

constexpr std::int64_t kMaxWidth = 1 << 24;

void set_constants(ExpertsHyper& e) {
  e.rule.score = RouteRule::Score::sigmoid;
  e.rule.renormalise = true;
  e.rule.group_best = 2;
  e.selection_bias = true;
}

}  // namespace

void read_gguf_glm4_moe(Keys& keys, Hyper& h) {
  read_gguf_common(keys, h, true);
  set_constants(h.experts);
  h.layers -= keys.count("nextn_predict_layers", 0, h.layers - 1, 0);  // the last ones predict further tokens
  read_gguf_experts(keys, h);
}

void read_config_glm4_moe(Keys& keys, Hyper& h) {
  h.kv_heads = 8, h.experts.count = 128, h.experts.rule.chosen = 8;  // where the file does not say
  h.rope.partial = 1;
  read_config_common(keys, h);
  h.tied = keys.flag("tie_word_embeddings", false);
  read_config_rope(keys, h);
  if (!keys.has("partial_rotary_factor") && !keys.has("rope_parameters.partial_rotary_factor"))
    h.rope.dims = h.head_dim / 2;
  h.activation = read_activation(keys, "hidden_act", "silu");
  h.bias.qkv = keys.flag("attention_bias", false);
  h.bias.out = h.bias.mlp = false;
  h.head_norms = keys.flag("use_qk_norm", false);
  ExpertsHyper& e = h.experts;
  set_constants(e);
  e.ff = keys.count("moe_intermediate_size", 1, kMaxWidth, 1408);
  e.shared_ff = shared_width(keys, "n_shared_experts", 1, e);
  e.rule.renormalise = keys.flag("norm_topk_prob", true);
  e.rule.scale = static_cast<float>(keys.number("routed_scaling_factor", 1.0));
  e.rule.groups = keys.count("n_group", 1, kMaxExperts, 1);
  e.rule.kept_groups = keys.count("topk_group", 1, kMaxExperts, 1);
  read_config_experts(keys, h, "n_routed_experts");
  const int dense = keys.count("first_k_dense_replace", 0, 1 << 16, 1);
  for (int i = 0; i < h.layers; ++i) e.routed.push_back(i >= dense);
  keys.ignore({"num_nextn_predict_layers", "num_mtp_layers"});
}

Program build_glm4_moe(const Hyper& h, Weights& w) {
  Builder b{w.specs()};
  const int rope = b.rope(make_rope(h.rope));
  const Weight table = w.matrix("token_embd", h.vocab, h.width);
  Value x = b.embed(table);
  for (int i = 0; i < h.layers; ++i) {
    w.layer(i), b.layer(i);
    const bool norms = h.head_norms.value_or(w.has("attn_q_norm.weight"));
    x = attention_mixer(b, w, h, rms(x, w.norm("attn_norm", h.width, h.eps)), x, {.rope = rope, .norms = norms});
    x = feed_forward(b, w, h, i, rms(x, w.norm("post_attention_norm", h.width, h.eps)), x);
  }
  w.layer(-1);
  w.ignore("blk." + std::to_string(h.layers) + ".*");
  w.ignore("model.layers." + std::to_string(h.layers) + ".*");
  return std::move(b).logits(rms(x, w.norm("output_norm", h.width, h.eps)), w.output_or_tied(h.tied, table));
}

}  // namespace fourfold
