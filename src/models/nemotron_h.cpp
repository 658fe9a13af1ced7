// nemotron_h: each layer is one thing: a Mamba-2 mixer, attention without positions, a feed-forward part of squared
// ReLUs, or experts of that kind, which may work on fewer numbers than the residual stream has.
// NVIDIA 2025 (Nemotron-H report); latent experts: Elango et al. 2026 (LatentMoE)
#include "models/nemotron_h.hpp"

#include <algorithm>

#include "models/experts.hpp"
#include "models/hybrid.hpp"
#include "models/mixers.hpp"

namespace fourfold {
namespace {

constexpr std::int64_t kMaxHeads = 1 << 16, kMaxDim = 1 << 12, kMaxWidth = 1 << 24;
constexpr float kLowestStep = 0.001f;  // of scans, where a file does not say

// "M-*E": one letter a layer.
void read_pattern(Keys& keys, Hyper& h) {
  const char* key = "hybrid_override_pattern";
  for (char letter : keys.text(key, "")) {
    constexpr std::string_view kLetters = "M*-E";
    constexpr LayerKind kKinds[] = {LayerKind::scan, LayerKind::attention, LayerKind::feed_forward, LayerKind::experts};
    const std::size_t at = kLetters.find(letter);
    if (at == std::string_view::npos) return keys.refuse(key, std::string(1, letter), "a text of M, *, - and E");
    h.kinds.push_back(kKinds[at]);
  }
}

void read_scan(Keys& keys, ScanHyper& s) {
  s.heads = keys.count("mamba_num_heads", 1, kMaxHeads, 128);
  s.value_dim = keys.count("mamba_head_dim", 1, kMaxDim, 64);
  const int groups = keys.count("mamba_n_groups", 1, s.heads, 8);
  s.key_heads = keys.count("n_groups", 1, s.heads, groups);
  s.key_dim = keys.count("ssm_state_size", 1, kMaxDim, 128);
  const int older = keys.count("mamba_d_conv", 2, 16, 4);
  s.kernel = keys.count("conv_kernel", 2, 16, older);
  s.conv_bias = keys.flag("use_conv_bias", keys.flag("mamba_conv_bias", true));
  s.bias = s.out_bias = keys.flag("use_bias", false);
  s.step_low = static_cast<float>(keys.number("time_step_min", keys.number("mamba_dt_min", double{kLowestStep})));
  s.norm_group = s.inner() / s.key_heads;
  check_key_heads(keys, "n_groups", s);
}

void read_experts(Keys& keys, Hyper& h) {
  ExpertsHyper& e = h.experts;
  e.ff = keys.count("moe_intermediate_size", 1, kMaxWidth, 7688);
  e.shared_ff = keys.count("moe_shared_expert_intermediate_size", 1, kMaxWidth, 7688);
  e.latent = keys.count("moe_latent_size", 0, kMaxWidth, 0);
  RouteRule& rule = e.rule;
  rule = {.score = RouteRule::Score::sigmoid, .chosen = 2, .group_best = 2};
  rule.renormalise = keys.flag("norm_topk_prob", true);
  rule.scale = static_cast<float>(keys.number("routed_scaling_factor", 1.0));
  rule.groups = keys.count("n_group", 1, kMaxExperts, 1);
  rule.kept_groups = keys.count("topk_group", 1, rule.groups, 1);
  e.count = 8;
  if (std::find(h.kinds.begin(), h.kinds.end(), LayerKind::experts) != h.kinds.end())
    read_config_experts(keys, h, "n_routed_experts");
}

Value squared_mlp(Builder& b, Weights& w, const Hyper& h, Input in, Value x) {
  const Value m = b.project("up", in, w.dot("ffn_up", h.ff, h.width, h.bias.mlp), Store{.activation = h.activation});
  return b.project("down", {m}, w.dot("ffn_down", h.width, h.ff, h.bias.mlp), AddTo{.x = x});
}

Value squared_experts(Builder& b, Weights& w, const Hyper& h, Input in, Value x) {
  const ExpertsHyper& e = h.experts;
  const Builder::Routed routed =
      b.route(in, w.dot("ffn_gate_inp", e.count, h.width, false), e.rule, w.tensor("exp_probs_b.bias", 1, e.count));
  const int width = e.latent > 0 ? e.latent : h.width;
  const Input to{
      e.latent > 0 ? Input{b.project("latent_down", in, w.dot("ffn_latent_down", width, h.width, h.bias.mlp))} : in};
  const Value m = b.experts("experts_up", to, routed, {{w.experts("ffn_up_exps", e.count, e.ff, width)}},
                            {.activation = h.activation});
  const Value made = b.experts("experts_down", {m}, routed, {{w.experts("ffn_down_exps", e.count, width, e.ff)}},
                               {.per_choice = true});
  const Value s = b.project("shared_up", in, w.dot("ffn_up_shexp", e.shared_ff, h.width, h.bias.mlp),
                            Store{.activation = h.activation});
  const Dot down = w.dot("ffn_down_shexp", h.width, e.shared_ff, h.bias.mlp);
  if (e.latent == 0) return b.combine(made, routed, {.x = x, .shared = b.project("shared_down", {s}, down)});
  const Value latent = b.combine(made, routed);
  const Value sum = b.project("latent_up", {latent}, w.dot("ffn_latent_up", h.width, width, h.bias.mlp), AddTo{.x = x});
  return b.project("shared_down", {s}, down, AddTo{.x = sum});
}

// GGUF says layer by layer how many key heads and feed-forward rows there are, and nothing of the lowest step.
void read_gguf(Keys& keys, Hyper& h, LayerKind feed_forward) {
  h.kv_heads = read_gguf_layers(keys, "attention.head_count_kv", LayerKind::attention, h);
  h.ff = read_gguf_layers(keys, "feed_forward_length", feed_forward, h);
  read_gguf_common(keys, h, true);
  read_gguf_scan(keys, h);
  h.scan.step_low = kLowestStep;
  h.bias.qkv = h.bias.out = false;
  h.activation = Activation::silu;
}

}  // namespace

void read_gguf_nemotron_h(Keys& keys, Hyper& h) { read_gguf(keys, h, LayerKind::feed_forward); }

void read_gguf_nemotron_h_moe(Keys& keys, Hyper& h) {
  read_gguf(keys, h, LayerKind::experts);
  RouteRule& rule = h.experts.rule;
  rule = {.score = RouteRule::Score::sigmoid, .renormalise = true, .group_best = 2};
  read_gguf_experts(keys, h);
  h.experts.latent = keys.count("moe_latent_size", 0, kMaxWidth, 0);
}

void read_config_nemotron_h(Keys& keys, Hyper& h) {
  read_pattern(keys, h);
  if (keys.has("layers_block_type")) {
    h.kinds.clear();
    h.layers = 0;
    read_layer_kinds(keys, "layers_block_type", h);
  }
  h.layers = keys.derived("the number of layers", static_cast<double>(h.kinds.size()), 1, kMaxLayers);
  h.ff = 21504, h.head_dim = 128;  // where the file does not say
  keys.ignore({"num_hidden_layers"});
  const int layers = h.layers;
  read_config_common(keys, h);
  h.layers = layers;
  h.eps = static_cast<float>(keys.number("layer_norm_epsilon", 1e-5));
  h.tied = keys.flag("tie_word_embeddings", false);
  h.bias.qkv = h.bias.out = false;
  h.bias.mlp = keys.flag("mlp_bias", false);
  h.activation = Activation::silu;
  keys.expect("mlp_hidden_act", "relu2");
  keys.expect("mamba_hidden_act", "silu");
  read_scan(keys, h.scan);
  read_experts(keys, h);
  keys.ignore({"n_routed_experts",
               "num_experts_per_tok",
               "n_shared_experts",
               "output_router_logits",
               "attention_bias",
               "hidden_dropout",
               "expand",
               "chunk_size",
               "mamba_chunk_size",
               "mamba_expand",
               "mamba_proj_bias",
               "mamba_ssm_cache_dtype",
               "moe_shared_expert_overlap",
               "mtp_layers_block_type",
               "mtp_hybrid_override_pattern",
               "num_nextn_predict_layers",
               "num_logits_to_keep",
               "rescale_prenorm_residual",
               "residual_in_fp32",
               "sliding_window",
               "time_step_floor",
               "time_step_limit",
               "time_step_max",
               "mamba_dt_max",
               "mamba_dt_limit",
               "mamba_dt_init_floor",
               "use_mamba_kernels",
               "layer_norm_epsilon",
               "rope_theta",
               "rope_parameters.",
               "partial_rotary_factor"});
}

Program build_nemotron_h(const Hyper& h, Weights& w) {
  Hyper squared = h;
  squared.activation = Activation::relu_squared;
  Builder b{w.specs()};
  const Weight table = w.matrix("token_embd", h.vocab, h.width);
  Value x = b.embed(table);
  for (int i = 0; i < h.layers; ++i) {
    w.layer(i), b.layer(i);
    const Input in = rms(x, w.norm("attn_norm", h.width, h.eps));
    switch (h.kinds[static_cast<std::size_t>(i)]) {
      case LayerKind::scan:
        x = mamba2_mixer(b, w, h, in, x);
        break;
      case LayerKind::attention:
        x = attention_mixer(b, w, h, in, x, {});
        break;
      case LayerKind::feed_forward:
        x = squared_mlp(b, w, squared, in, x);
        break;
      case LayerKind::experts:
        x = squared_experts(b, w, squared, in, x);
        break;
    }
  }
  w.layer(-1);
  return std::move(b).logits(rms(x, w.norm("output_norm", h.width, h.eps)), w.output_or_tied(h.tied, table));
}

}  // namespace fourfold
