// kimi_linear: Kimi delta attention in most layers, latent attention without positions in the others, routed experts.
// bailing_hybrid: the same with positions, a gate for each head of the latent attention, and bounded decays.
// Kimi Team 2025 (Kimi Linear report); Ling Team 2026 (Ling 3)
#include "models/kimi_linear.hpp"

#include <algorithm>

#include "models/experts.hpp"
#include "models/hybrid.hpp"
#include "models/latent.hpp"
#include "models/mixers.hpp"

namespace fourfold {
namespace {

constexpr std::int64_t kMaxHeads = 1 << 16, kMaxDim = 1 << 12, kMaxWidth = 1 << 24;

// The key that the file has, of two that say the same.
const char* either(Keys& keys, const char* own, const char* common) { return keys.has(own) ? own : common; }

// What both families' files say.
void read_common(Keys& keys, Hyper& h) {
  h.context = keys.count("model_max_length", 1, 1 << 30, h.context);
  read_config_common(keys, h);
  h.tied = keys.flag("tie_word_embeddings", false);
  h.latent = {.rank = 512, .nope = 128, .rotary = 64, .columns = 128};  // where the file does not say
  read_config_latent(keys, h);
  h.activation = read_activation(keys, "hidden_act", "silu");
  h.bias.qkv = h.bias.out = keys.flag("attention_bias", false);
  h.bias.mlp = false;
  ExpertsHyper& e = h.experts;
  RouteRule& rule = e.rule;
  rule.score = RouteRule::Score::sigmoid;
  rule.group_best = 2;
  rule.chosen = keys.count("num_experts_per_token", 1, kMaxExperts, 8);
  rule.renormalise = keys.flag(either(keys, "moe_renormalize", "norm_topk_prob"), true);
  rule.groups = keys.count(either(keys, "num_expert_group", "n_group"), 1, kMaxExperts, rule.groups);
  rule.kept_groups = keys.count("topk_group", 1, kMaxExperts, rule.kept_groups);
  rule.scale = static_cast<float>(keys.number("routed_scaling_factor", static_cast<double>(rule.scale)));
  e.selection_bias = true;
  e.ff = keys.count("moe_intermediate_size", 1, kMaxWidth, e.ff);
  e.shared_ff = shared_width(keys, either(keys, "num_shared_experts", "n_shared_experts"), 1, e);
  read_config_experts(keys, h, either(keys, "num_experts", "num_local_experts"));
  keys.expect("moe_router_activation_func", "sigmoid");
  keys.ignore({"pretraining_tp", "head_dim", "qk_head_dim", "num_nextn_predict_layers", "num_mtp_layers",
               "mtp_loss_scaling_factor", "use_grouped_topk", "moe_layer_freq", "v_head_dim", "topk_method"});
}

void read_kinds(Keys& keys, Hyper& h) {
  if (keys.has("layer_types")) return read_layer_kinds(keys, "layer_types", h);
  const auto attending = keys.integers("linear_attn_config.full_attn_layers");  // counted from 1
  h.kinds.assign(static_cast<std::size_t>(h.layers), LayerKind::scan);
  for (int i = 0; i < h.layers; ++i) {
    const bool listed = std::find(attending.begin(), attending.end(), i + 1) != attending.end();
    if (attending.empty() ? i > 0 && i % 4 == 0 : listed) h.kinds[static_cast<std::size_t>(i)] = LayerKind::attention;
  }
}

Value value_of(Builder& b, Weights& w, const char* name, Input in, int rows) {
  return b.project(name, in, w.dot(name, rows, b.width(in.value), false));
}

Value kimi_mixer(Builder& b, Weights& w, const Hyper& h, Input in, Value x) {
  const int inner = h.scan.inner(), d = h.scan.value_dim;
  const auto p = project_pieces(b, w, "ssm_in", in,
                                {{"attn_q", inner}, {"attn_k", inner}, {"attn_v", inner}, {"ssm_beta", h.scan.heads}});
  const Value decay = value_of(b, w, "ssm_f_b", {value_of(b, w, "ssm_f_a", in, d)}, inner);
  const Value gate = value_of(b, w, "ssm_g_b", {value_of(b, w, "ssm_g_a", in, d)}, inner);
  return delta_mixer(
      b, w, h,
      {.query = p[0], .key = p[1], .value = p[2], .gate = b.columns(gate), .decay = b.columns(decay), .strength = p[3]},
      x, {Mechanism::kimi_delta, Activation::sigmoid, h.eps, "attn_output"});
}

Value bailing_mixer(Builder& b, Weights& w, const Hyper& h, Input in, Value x) {
  const int inner = h.scan.inner();
  const auto p = project_pieces(b, w, "ssm_in", in,
                                {{"attn_q", inner},
                                 {"attn_k", inner},
                                 {"attn_v", inner},
                                 {"ssm_f", inner},
                                 {"attn_gate", inner},
                                 {"ssm_beta", h.scan.heads}});
  return delta_mixer(b, w, h,
                     {.query = p[0], .key = p[1], .value = p[2], .gate = p[4], .decay = p[3], .strength = p[5]}, x,
                     {Mechanism::kimi_delta, Activation::sigmoid, h.eps, "attn_output"});
}

// The dense layers of some files lie where others keep the experts.
Value dense_mlp(Builder& b, Weights& w, const Hyper& h, Input in, Value x) {
  if (!w.has("ffn_sparse.gate_proj.weight")) return gated_mlp(b, w, h, in, x);
  const Value m = b.project(
      "gate_up", in,
      {Dot{w.matrix("ffn_sparse.gate_proj", h.ff, h.width)}, Dot{w.matrix("ffn_sparse.up_proj", h.ff, h.width)}},
      Gated{h.activation});
  return b.project("down", {m}, Dot{w.matrix("ffn_sparse.down_proj", h.width, h.ff)}, AddTo{.x = x});
}

using Mixer = Value (*)(Builder&, Weights&, const Hyper&, Input, Value);

Program build(const Hyper& h, Weights& w, Mixer mixer) {
  Builder b{w.specs()};
  const LatentRopes ropes = h.positions ? latent_ropes(b, h) : LatentRopes{};
  const Weight table = w.matrix("token_embd", h.vocab, h.width);
  Value x = b.embed(table);
  for (int i = 0; i < h.layers; ++i) {
    w.layer(i), b.layer(i);
    const Input in = rms(x, w.norm("attn_norm", h.width, h.eps));
    x = h.attends(i) ? latent_attention(b, w, h, ropes, in, x) : mixer(b, w, h, in, x);
    const Input then = rms(x, w.norm("ffn_norm", h.width, h.eps));
    x = h.experts.in_layer(i) ? routed_mlp(b, w, h, then, x) : dense_mlp(b, w, h, then, x);
  }
  w.layer(-1);
  return std::move(b).logits(rms(x, w.norm("output_norm", h.width, h.eps)), w.output_or_tied(h.tied, table));
}

}  // namespace

void read_gguf_kimi_linear(Keys& keys, Hyper& h) {
  h.kv_heads = read_gguf_layers(keys, "attention.head_count_kv", LayerKind::attention, h);
  read_gguf_latent(keys, h);
  h.positions = false;
  h.bias = {false, false, false};
  ExpertsHyper& e = h.experts;
  e.rule = {.score = RouteRule::Score::sigmoid, .chosen = 8, .renormalise = true, .group_best = 2};
  e.selection_bias = true;
  read_gguf_experts(keys, h);
  ScanHyper& s = h.scan;
  s.heads = s.key_heads = h.heads;
  s.key_dim = s.value_dim = keys.count("kda.head_dim", 1, kMaxDim);
  s.kernel = keys.count("ssm.conv_kernel", 2, 16);
  s.rate_is_log = false;
}

void read_config_kimi_linear(Keys& keys, Hyper& h) {
  h.context = 1048576, h.ff = 9216;  // where the file does not say
  h.experts.ff = 1024, h.experts.count = 256, h.experts.rule.scale = 2.446f;
  read_common(keys, h);
  read_kinds(keys, h);
  read_config_routed_layers(keys, h, 1);
  h.positions = false;
  ScanHyper& s = h.scan;
  const auto count = [&](const char* nested, const char* flat, std::int64_t high, int preset) {
    return keys.count(flat, 1, high, keys.count(std::string("linear_attn_config.") + nested, 1, high, preset));
  };
  s.heads = s.key_heads = count("num_heads", "linear_num_heads", kMaxHeads, 32);
  s.key_dim = s.value_dim = count("head_dim", "linear_head_dim", kMaxDim, 128);
  s.kernel = count("short_conv_kernel_size", "linear_conv_kernel_dim", 16, 4);
  keys.expect("mla_use_nope", true);
  keys.ignore({"linear_attn_config.", "rope_theta", "rope_scaling.", "rope_parameters."});
}

void read_config_bailing_hybrid(Keys& keys, Hyper& h) {
  h.context = 262144, h.ff = 6144;  // where the file does not say
  h.experts.ff = 768, h.experts.count = 512;
  h.experts.rule.scale = 2.5f, h.experts.rule.groups = 8, h.experts.rule.kept_groups = 4;
  h.rope.base = 6e6, h.rope.interleaved = true;
  read_common(keys, h);
  read_config_rope(keys, h);
  h.rope.dims = h.latent.rotary;
  h.latent.head_gate = true;
  const int group = keys.count("layer_group_size", 1, 1 << 16, 6);
  if (keys.has("layer_types")) {
    read_layer_kinds(keys, "layer_types", h);
  } else {
    for (int i = 0; i < h.layers; ++i) h.kinds.push_back((i + 1) % group == 0 ? LayerKind::attention : LayerKind::scan);
  }
  read_config_routed_layers(keys, h, 2);
  ScanHyper& s = h.scan;
  s.heads = s.key_heads = keys.count("linear_num_heads", 1, kMaxHeads, h.heads);
  const int older = keys.count("short_conv_kernel_size", 2, 16, 4);
  s.key_dim = s.value_dim = keys.count("linear_head_dim", 1, kMaxDim, h.head_dim);
  s.kernel = keys.count("linear_conv_kernel_dim", 2, 16, older);
  const auto bound = static_cast<float>(keys.number("kda_lower_bound", -5.0));
  if (keys.flag("kda_safe_gate", true)) s.floor = bound;
  keys.ignore({"rope_interleave"});
}

Program build_kimi_linear(const Hyper& h, Weights& w) { return build(h, w, kimi_mixer); }
Program build_bailing_hybrid(const Hyper& h, Weights& w) { return build(h, w, bailing_mixer); }

}  // namespace fourfold
