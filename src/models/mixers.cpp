#include "models/mixers.hpp"

#include <cmath>
#include <tuple>

namespace fourfold {
namespace {

// `width` columns of a Value from `first` on.
Columns part(Value value, int first, int width, float scale = 1) {
  return {.value = value, .first = first, .width = width, .scale = scale};
}

constexpr float kUnitEps = 1e-6f;  // of queries and keys of unit length

Dot scaled(Dot dot, float scale) {
  dot.scale = scale;
  return dot;
}

}  // namespace

Value mamba2_mixer(Builder& b, Weights& w, const Hyper& h, Input in, Value x, const MixerScales& scales) {
  const ScanHyper& s = h.scan;
  const int inner = s.inner(), keys = s.keys(), channels = inner + 2 * keys;
  const Value packed = b.project("ssm_in", in, w.dot("ssm_in", inner + channels + s.heads, h.width, s.bias));
  const Dot conv = w.dot("ssm_conv1d", channels, s.kernel, s.conv_bias);
  const Value mixed = b.conv({.in = {part(packed, inner, inner, scales.x), part(packed, 2 * inner, keys, scales.b),
                                     part(packed, 2 * inner + keys, keys, scales.c)},
                              .weights = conv.weight,
                              .bias = conv.bias,
                              .activation = h.activation});
  const Value read = b.scan({.mechanism = Mechanism::mamba2,
                             .heads = s.heads,
                             .key_heads = s.key_heads,
                             .query = part(mixed, inner + keys, keys),
                             .key = part(mixed, inner, keys),
                             .value = part(mixed, 0, inner),
                             .decay = part(packed, inner + channels, s.heads, scales.dt),
                             .rate = w.tensor("ssm_a", 1, s.heads),
                             .rate_is_log = s.rate_is_log,
                             .decay_bias = w.tensor("ssm_dt.bias", 1, s.heads),
                             .skip = w.tensor("ssm_d", 1, s.heads),
                             .step_low = s.step_low,
                             .step_high = s.step_high});
  MapStep gated{.in = b.columns(read), .gate = part(packed, 0, inner, scales.z), .gate_first = s.gate_first};
  if (s.norm_group > 0 && (!s.optional_norm || w.has("ssm_norm.weight"))) {
    gated.norm = w.norm("ssm_norm", inner, h.eps);
    gated.group = s.norm_group;
  }
  const Value y = b.map("ssm_norm", gated);
  return b.project("ssm_out", {y}, scaled(w.dot("ssm_out", h.width, inner, s.out_bias), scales.out), AddTo{.x = x});
}

Value mamba_mixer(Builder& b, Weights& w, const Hyper& h, Input in, Value x) {
  const ScanHyper& s = h.scan;
  const int inner = s.heads, keys = s.key_dim;
  const Value packed = b.project("ssm_in", in, w.dot("ssm_in", 2 * inner, h.width, s.bias));
  const Dot conv = w.dot("ssm_conv1d", inner, s.kernel, s.conv_bias);
  const Value mixed =
      b.conv({.in = {part(packed, 0, inner)}, .weights = conv.weight, .bias = conv.bias, .activation = h.activation});
  const Value selected = b.project("ssm_x", {mixed}, w.dot("ssm_x", s.step_rank + 2 * keys, inner, false));
  const Value rank = b.map("ssm_rank", {.in = part(selected, 0, s.step_rank)});
  const Value dt = b.project("ssm_dt", {rank}, Dot{w.matrix("ssm_dt", inner, s.step_rank)});
  const Value read = b.scan({.mechanism = Mechanism::mamba,
                             .heads = inner,
                             .key_heads = 1,
                             .query = part(selected, s.step_rank + keys, keys),
                             .key = part(selected, s.step_rank, keys),
                             .value = b.columns(mixed),
                             .decay = b.columns(dt),
                             .rate = w.tensor("ssm_a", inner, keys),
                             .rate_is_log = s.rate_is_log,
                             .decay_bias = w.tensor("ssm_dt.bias", 1, inner),
                             .skip = w.tensor("ssm_d", 1, inner)});
  const Value y = b.map("ssm_gate", {.in = b.columns(read), .gate = part(packed, inner, inner), .gate_first = true});
  return b.project("ssm_out", {y}, w.dot("ssm_out", h.width, inner, s.out_bias), AddTo{.x = x});
}

std::vector<Columns> project_pieces(Builder& b, Weights& w, const char* name, Input in,
                                    const std::vector<Weights::Piece>& pieces) {
  const int width = b.width(in.value);
  std::vector<Columns> out;
  const Weight joined = w.joined(pieces, width);
  if (!joined.valid()) {
    for (const Weights::Piece& piece : pieces)
      out.push_back(b.columns(b.project(piece.name, in, w.dot(piece.name, piece.rows, width, false))));
    return out;
  }
  const Value all = b.project(name, in, Dot{joined});
  int first = 0;
  for (const Weights::Piece& piece : pieces) {
    out.push_back(part(all, first, static_cast<int>(piece.rows)));
    first += static_cast<int>(piece.rows);
  }
  return out;
}

Value delta_mixer(Builder& b, Weights& w, const Hyper& h, const DeltaInputs& in, Value x, const DeltaParts& parts) {
  const ScanHyper& s = h.scan;
  const int inner = s.inner(), keys = s.keys();
  const Weight apart = w.joined({{"ssm_conv1d_q", keys}, {"ssm_conv1d_k", keys}, {"ssm_conv1d_v", inner}}, s.kernel);
  const Value mixed = b.conv({.in = {in.query, in.key, in.value},
                              .weights = apart.valid() ? apart : w.matrix("ssm_conv1d", 2 * keys + inner, s.kernel),
                              .activation = h.activation});
  const bool per_key = parts.mechanism == Mechanism::kimi_delta;
  const int repeats = s.tiled ? s.heads / s.key_heads : 1;
  const auto repeated = [&](int first) {
    return Columns{.value = mixed, .first = first, .width = keys, .runs = repeats, .stride = 0};
  };
  const Value read = b.scan({.mechanism = parts.mechanism,
                             .heads = s.heads,
                             .key_heads = s.key_heads * repeats,
                             .query = repeated(0),
                             .key = repeated(keys),
                             .value = part(mixed, 2 * keys, inner),
                             .decay = in.decay,
                             .strength = in.strength,
                             .rate = w.tensor("ssm_a", 1, s.heads),
                             .rate_is_log = s.rate_is_log,
                             .decay_bias = w.tensor("ssm_dt.bias", 1, per_key ? s.heads * s.key_dim : s.heads),
                             .floor = s.floor,
                             .query_scale = 1 / std::sqrt(static_cast<float>(s.key_dim)),
                             .strength_scale = s.strength_scale,
                             .unit_eps = kUnitEps});
  const Value y = b.map("ssm_norm", {.in = b.columns(read),
                                     .gate = in.gate,
                                     .activation = parts.gate,
                                     .norm = w.norm("ssm_norm", s.value_dim, parts.norm_eps),
                                     .group = s.value_dim});
  return b.project("ssm_out", {y}, w.dot(parts.out, h.width, inner, false), AddTo{.x = x});
}

Value attention_mixer(Builder& b, Weights& w, const Hyper& h, Input in, Value x, const AttentionParts& parts) {
  const int q = h.heads * h.head_dim, kv = h.kv_heads * h.head_dim;
  const int cache = b.cache({h.kv_heads, h.head_dim, parts.window});
  Append append{.cache = cache, .heads = h.heads, .rope = parts.rope};
  if (parts.norms) {
    append.query_norm = w.norm("attn_q_norm", h.head_dim, h.eps, h.norm_add);
    append.key_norm = w.norm("attn_k_norm", h.head_dim, h.eps, h.norm_add);
  }
  const auto half = [&](int which) {
    return Dot{w.head_rows("attn_q", {h.heads, 2 * h.head_dim, which * h.head_dim, h.head_dim}, h.width)};
  };
  std::vector<Dot> dots{parts.gate ? half(0) : w.dot("attn_q", q, h.width, h.bias.qkv),
                        scaled(w.dot("attn_k", kv, h.width, h.bias.qkv), parts.key_scale),
                        w.dot("attn_v", kv, h.width, h.bias.qkv)};
  if (parts.gate) dots.push_back(half(1));
  Attend attend{};
  attend.cache = cache, attend.heads = h.heads, attend.scale = h.scale();
  if (parts.gate)
    std::tie(attend.query, attend.gate) = b.project_gated("qkv", in, std::move(dots), append);
  else
    attend.query = b.project("qkv", in, std::move(dots), append);
  const Value a = b.attend(attend);
  return b.project("attn_out", {a}, scaled(w.dot("attn_output", h.width, q, h.bias.out), parts.out_scale),
                   AddTo{.x = x});
}

Value gated_mlp(Builder& b, Weights& w, const Hyper& h, Input in, Value x, const FeedForwardScales& scales) {
  const Value m = b.project(
      "gate_up", in,
      {scaled(w.dot("ffn_gate", h.ff, h.width, h.bias.mlp), scales.gate), w.dot("ffn_up", h.ff, h.width, h.bias.mlp)},
      Gated{h.activation});
  return b.project("down", {m}, scaled(w.dot("ffn_down", h.width, h.ff, h.bias.mlp), scales.out), AddTo{.x = x});
}

}  // namespace fourfold
