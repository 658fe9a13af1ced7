#include "models/experts.hpp"

#include "models/mixers.hpp"

namespace fourfold {
namespace {

constexpr std::int64_t kMaxWidth = 1 << 24;

// GGUF's gate and up in one tensor: all of gate's rows first.
Dot joined_dot(Weights& w, const Hyper& h, int which) {
  const ExpertsHyper& e = h.experts;
  Weights::Fused rows{"ffn_gate_up_exps.weight", 2 * e.ff, which * e.ff, 1, false};
  const Weight weight = w.fused(rows, e.count, e.ff, h.width);
  if (!e.bias) return {weight};
  rows.tensor = "ffn_gate_up_exps.bias";
  return {weight, w.fused(rows, e.count, e.ff, 1)};
}

// The same in safetensors, or in turns where experts have biases (gpt-oss).
Dot fused_dot(Weights& w, const Hyper& h, int which) {
  const ExpertsHyper& e = h.experts;
  Weights::Fused rows{"ffn_gate_up_exps", 2 * e.ff, which * e.ff, 1, false};
  if (e.bias) rows = {"ffn_gate_up_exps", 2 * e.ff, which, 2, true};
  const Weight weight = w.fused(rows, e.count, e.ff, h.width);
  if (!e.bias) return {weight};
  rows.tensor = "ffn_gate_up_exps_bias";
  return {weight, w.fused(rows, e.count, e.ff, 1)};
}

Dot down_dot(Weights& w, const Hyper& h) {
  const ExpertsHyper& e = h.experts;
  Weights::Fused rows{"ffn_down_exps_fused", h.width, 0, 1, e.bias};
  const Weight weight = w.fused(rows, e.count, h.width, e.ff);
  if (!e.bias) return {weight};
  rows.tensor = "ffn_down_exps_bias";
  return {weight, w.fused(rows, e.count, h.width, 1)};
}

Dot stacked_dot(Weights& w, const Hyper& h, const char* name, int rows, int cols) {
  const Weight weight = w.experts(name, h.experts.count, rows, cols);
  return {weight, h.experts.bias ? w.experts_bias(name, h.experts.count, rows) : Weight{}};
}

void check(Keys& keys, const ExpertsHyper& e, const char* groups) {
  const RouteRule& rule = e.rule;
  if (e.count % rule.groups != 0 || rule.kept_groups > rule.groups ||
      rule.chosen > e.count / rule.groups * rule.kept_groups)
    keys.refuse(groups, std::to_string(rule.groups) + " of which " + std::to_string(rule.kept_groups) + " are kept",
                "a divisor of the " + std::to_string(e.count) + " experts that keeps at least the " +
                    std::to_string(rule.chosen) + " chosen");
}

}  // namespace

int shared_width(Keys& keys, const char* count, int preset, const ExpertsHyper& e) {
  const double width = static_cast<double>(keys.count(count, 0, kMaxExperts, preset)) * e.ff;
  return keys.derived(std::string(count) + " x width of an expert", width, 0, kMaxWidth);
}

void read_gguf_experts(Keys& keys, Hyper& h) {
  ExpertsHyper& e = h.experts;
  RouteRule& rule = e.rule;
  e.count = keys.count("expert_count", 0, kMaxExperts, 0);
  rule.chosen = keys.count("expert_used_count", e.count > 0 ? 1 : 0, e.count, e.count > 0 ? 1 : 0);
  if (e.count == 0) return;
  e.ff = keys.count("expert_feed_forward_length", 1, kMaxWidth, h.ff);
  const int shared = shared_width(keys, "expert_shared_count", 0, e);
  e.shared_ff = keys.count("expert_shared_feed_forward_length", 0, kMaxWidth, shared > 0 ? shared : e.shared_ff);
  switch (keys.count("expert_gating_func", 0, 3, 0)) {
    case 1:
      rule.score = RouteRule::Score::softmax;
      break;
    case 2:
      rule.score = RouteRule::Score::sigmoid;
      break;
    case 3:  // the softmax of those chosen
      rule.score = RouteRule::Score::softmax, rule.renormalise = true;
      break;
    default:  // as the family has it
      break;
  }
  rule.renormalise = keys.flag("expert_weights_norm", rule.renormalise);
  rule.scale = static_cast<float>(keys.number("expert_weights_scale", rule.scale));
  if (rule.scale == 0) rule.scale = 1;  // some converters write 0 for none
  rule.groups = keys.count("expert_group_count", 1, e.count, rule.groups);
  rule.kept_groups = keys.count("expert_group_used_count", 1, e.count, rule.kept_groups);
  const int dense = keys.count("leading_dense_block_count", 0, h.layers, 0);
  for (int i = 0; i < h.layers; ++i) e.routed.push_back(i >= dense);
  check(keys, e, "expert_group_count");
}

void read_config_experts(Keys& keys, Hyper& h, std::string_view count) {
  ExpertsHyper& e = h.experts;
  e.count = keys.count(count, 1, kMaxExperts, e.count > 0 ? std::optional<std::int64_t>(e.count) : std::nullopt);
  e.rule.chosen = keys.count("num_experts_per_tok", 1, e.count,
                             e.rule.chosen > 0 ? std::optional<std::int64_t>(e.rule.chosen) : std::nullopt);
  check(keys, e, "n_group");
  keys.ignore({"router_aux_loss_coef", "output_router_logits", "router_jitter_noise", "aux_loss_alpha", "seq_aux",
               "router_dtype", "ep_size", "experts_implementation", "_experts_implementation"});
}

void read_config_routed_layers(Keys& keys, Hyper& h, int dense) {
  const auto types = keys.texts("mlp_layer_types");
  dense = keys.count("first_k_dense_replace", 0, 1 << 30, dense);
  if (!types.empty() && static_cast<int>(types.size()) != h.layers)
    keys.refuse("mlp_layer_types", "a list of " + std::to_string(types.size()),
                "one entry for each of the " + std::to_string(h.layers) + " layers");
  for (int i = 0; i < h.layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (at < types.size() && types[at] != "dense" && types[at] != "sparse")
      keys.refuse("mlp_layer_types", '"' + types[at] + '"', "dense, sparse");
    h.experts.routed.push_back(at < types.size() ? types[at] == "sparse" : i >= dense);
  }
}

Value routed_mlp(Builder& b, Weights& w, const Hyper& h, Input in, Value x) {
  const ExpertsHyper& e = h.experts;
  const Dot router = w.dot("ffn_gate_inp", e.count, h.width, e.bias);
  const Builder::Routed routed =
      b.route(in, router, e.rule, e.selection_bias ? w.tensor("exp_probs_b.bias", 1, e.count) : Weight{});
  const bool fused = w.has("ffn_gate_up_exps");
  const std::vector<Dot> gate_up = fused ? std::vector{fused_dot(w, h, 0), fused_dot(w, h, 1)}
                                   : w.has("ffn_gate_up_exps.weight")
                                       ? std::vector{joined_dot(w, h, 0), joined_dot(w, h, 1)}
                                       : std::vector{stacked_dot(w, h, "ffn_gate_exps", e.ff, h.width),
                                                     stacked_dot(w, h, "ffn_up_exps", e.ff, h.width)};
  const Value m = b.experts("experts_gate_up", in, routed, gate_up,
                            {.activation = h.activation, .gate = e.gate, .alpha = e.alpha, .limit = e.limit});
  const Dot down = fused ? down_dot(w, h) : stacked_dot(w, h, "ffn_down_exps", h.width, e.ff);
  const Value made = b.experts("experts_down", {m}, routed, {down}, {.per_choice = true});
  Combine sum{.x = x, .scale = e.out_scale};
  if (e.shared_ff > 0) {
    const Value s = b.project(
        "shared_gate_up", in,
        {w.dot("ffn_gate_shexp", e.shared_ff, h.width, false), w.dot("ffn_up_shexp", e.shared_ff, h.width, false)},
        Gated{h.activation});
    sum.shared = b.project("shared_down", {s}, w.dot("ffn_down_shexp", h.width, e.shared_ff, false));
    if (e.shared_gate)
      sum.shared_gate = b.project("shared_gate", in, {w.tensor("ffn_gate_inp_shexp.weight", 1, h.width)});
  }
  return b.combine(made, routed, sum);
}

Value feed_forward(Builder& b, Weights& w, const Hyper& h, int layer, Input in, Value x) {
  return h.experts.in_layer(layer) ? routed_mlp(b, w, h, in, x) : gated_mlp(b, w, h, in, x);
}

}  // namespace fourfold
