// qwen3_next: Gated DeltaNet in three layers of four, gated attention in the fourth, routed experts with a shared one.
// qwen3_5: the same with projections of their own for the parts; dense, or (qwen3_5_moe) routed.
// Qwen Team 2025 (Qwen3-Next), 2026 (Qwen3.5)
#include "models/qwen3_next.hpp"

#include "models/experts.hpp"
#include "models/hybrid.hpp"
#include "models/mixers.hpp"
#include "models/qwen_moe.hpp"

namespace fourfold {
namespace {

constexpr std::int64_t kMaxHeads = 1 << 16, kMaxDim = 1 << 12, kMaxWidth = 1 << 24;
constexpr int kInterval = 4;  // every fourth layer attends, where a file does not say
constexpr int kValueHeads = 32, kKeyHeads = 16, kHeadDim = 128, kKernel = 4;  // of the others, likewise

void mark_attending(Hyper& h, int interval) {
  h.kinds.assign(static_cast<std::size_t>(h.layers), LayerKind::scan);
  for (int i = interval - 1; i < h.layers; i += interval) h.kinds[static_cast<std::size_t>(i)] = LayerKind::attention;
}

void read_common(Keys& keys, Hyper& h) {
  h.head_dim = 256;  // where the file does not say
  h.rope.partial = 1;
  read_config_common(keys, h);
  h.tied = keys.flag("tie_word_embeddings", false);
  h.norm_add = 1;
  read_config_rope(keys, h);
  if (!keys.has("partial_rotary_factor") && !keys.has("rope_parameters.partial_rotary_factor"))
    h.rope.dims = h.head_dim / 4;
  keys.ignore({"rope_parameters.mrope_section", "rope_parameters.mrope_interleaved", "rope_scaling.mrope_section",
               "rope_scaling.mrope_interleaved"});  // text has one position for all sections
  h.activation = read_activation(keys, "hidden_act", "silu");
  h.bias = {keys.flag("attention_bias", false), h.bias.qkv, false};
  h.bias.out = h.bias.qkv;
  ScanHyper& s = h.scan;
  s.heads = keys.count("linear_num_value_heads", 1, kMaxHeads, kValueHeads);
  s.key_heads = keys.count("linear_num_key_heads", 1, s.heads, kKeyHeads);
  s.key_dim = keys.count("linear_key_head_dim", 1, kMaxDim, kHeadDim);
  s.value_dim = keys.count("linear_value_head_dim", 1, kMaxDim, kHeadDim);
  s.kernel = keys.count("linear_conv_kernel_dim", 2, 16, kKernel);
  check_key_heads(keys, "linear_num_key_heads", s);
  const int interval = keys.count("full_attention_interval", 1, 1 << 16, kInterval);
  if (keys.has("layer_types"))
    read_layer_kinds(keys, "layer_types", h);
  else
    mark_attending(h, interval);
  keys.ignore({"mtp_num_hidden_layers", "mtp_use_dedicated_embeddings", "mamba_ssm_dtype", "attn_output_gate"});
}

void read_experts(Keys& keys, Hyper& h, int count, int chosen) {
  ExpertsHyper& e = h.experts;
  e.count = count, e.rule.chosen = chosen;
  e.ff = keys.count("moe_intermediate_size", 1, kMaxWidth, 512);
  e.shared_ff = keys.count("shared_expert_intermediate_size", 1, kMaxWidth, 512);
  e.shared_gate = true;
  read_config_qwen_experts(keys, h, true);
}

DeltaInputs heads_in_a_row(const ScanHyper& s, const Columns& qkv, const Columns& gate, const Columns& decay,
                           const Columns& strength) {
  const auto part = [&](int first, int width) {
    return Columns{.value = qkv.value, .first = qkv.first + first, .width = width};
  };
  return {.query = part(0, s.keys()),
          .key = part(s.keys(), s.keys()),
          .value = part(2 * s.keys(), s.inner()),
          .gate = gate,
          .decay = decay,
          .strength = strength};
}

// What a layer of the delta rule reads, from the form the family's files have.
using Inputs = DeltaInputs (*)(Builder&, Weights&, const ScanHyper&, Input);

// Per key head: q, k, the value heads that share it, their gates; and b, a for those value heads. Newer GGUF files have
// all heads' q, k, v in one tensor and the gates in another.
DeltaInputs packed_inputs(Builder& b, Weights& w, const ScanHyper& s, Input in) {
  const int group = s.heads / s.key_heads, values = group * s.value_dim, stride = 2 * (s.key_dim + values);
  const int width = b.width(in.value);
  const Value gates = b.project("ssm_ba", in, w.dot("ssm_ba", 2 * s.heads, width, false));
  const auto gate = [&](int first) {
    return Columns{.value = gates, .first = first, .width = group, .runs = s.key_heads, .stride = 2 * group};
  };
  if (w.has("attn_qkv.weight")) {
    const auto parts =
        project_pieces(b, w, "ssm_in", in, {{"attn_qkv", 2 * s.keys() + s.inner()}, {"attn_gate", s.inner()}});
    return heads_in_a_row(s, parts[0], parts[1], gate(group), gate(0));
  }
  const Value packed = b.project("ssm_in", in, w.dot("ssm_in", s.key_heads * stride, width, false));
  const auto part = [&](int first, int columns) {
    return Columns{.value = packed, .first = first, .width = columns, .runs = s.key_heads, .stride = stride};
  };
  return {.query = part(0, s.key_dim),
          .key = part(s.key_dim, s.key_dim),
          .value = part(2 * s.key_dim, values),
          .gate = part(2 * s.key_dim + values, values),
          .decay = gate(group),
          .strength = gate(0)};
}

DeltaInputs separate_inputs(Builder& b, Weights& w, const ScanHyper& s, Input in) {
  const auto parts = project_pieces(b, w, "ssm_in", in,
                                    {{"attn_qkv", 2 * s.keys() + s.inner()},
                                     {"attn_gate", s.inner()},
                                     {"ssm_beta", s.heads},
                                     {"ssm_alpha", s.heads}});
  return heads_in_a_row(s, parts[0], parts[1], parts[3], parts[2]);
}

Program build(const Hyper& h, Weights& w, Inputs inputs) {
  Builder b{w.specs()};
  const int rope = b.rope(make_rope(h.rope));
  const Weight table = w.matrix("token_embd", h.vocab, h.width);
  w.ignore("model.visual.*");
  Value x = b.embed(table);
  for (int i = 0; i < h.layers; ++i) {
    w.layer(i), b.layer(i);
    const Input in = rms(x, w.norm("attn_norm", h.width, h.eps, h.norm_add));
    x = h.attends(i) ? attention_mixer(b, w, h, in, x, {.rope = rope, .norms = true, .gate = true})
                     : delta_mixer(b, w, h, inputs(b, w, h.scan, in), x, {.norm_eps = h.eps});
    x = feed_forward(b, w, h, i, rms(x, w.norm("post_attention_norm", h.width, h.eps, h.norm_add)), x);
  }
  w.layer(-1);
  return std::move(b).logits(rms(x, w.norm("output_norm", h.width, h.eps, h.norm_add)),
                             w.output_or_tied(h.tied, table));
}

void read_gguf_rest(Keys& keys, Hyper& h) {
  read_gguf_scan(keys, h);
  mark_attending(h, keys.count("full_attention_interval", 1, 1 << 16, kInterval));
  h.bias = {false, false, false};
  keys.ignore({"feed_forward_length", "rope.dimension_sections"});  // text has one position for all sections
}

void read_gguf_shared_experts(Keys& keys, Hyper& h) {
  h.experts.rule.renormalise = true;
  h.experts.shared_ff = 512;
  h.experts.shared_gate = true;
  read_gguf_experts(keys, h);
}

}  // namespace

void read_gguf_qwen3_next(Keys& keys, Hyper& h) {  // norm weights have their 1 already
  read_gguf_common(keys, h, true);
  read_gguf_rest(keys, h);
  read_gguf_shared_experts(keys, h);
}

void read_gguf_qwen3_5(Keys& keys, Hyper& h) {
  read_gguf_common(keys, h);
  read_gguf_rest(keys, h);
  h.scan.tiled = true;
}

void read_gguf_qwen3_5_moe(Keys& keys, Hyper& h) {
  h.ff = 1;  // no layer is dense
  read_gguf_qwen3_next(keys, h);
  h.scan.tiled = true;
}

void complete_qwen3_next(const NamedShape&, Hyper& h) {
  ScanHyper& s = h.scan;
  s.heads = kValueHeads, s.key_heads = kKeyHeads, s.key_dim = s.value_dim = kHeadDim, s.kernel = kKernel;
  mark_attending(h, kInterval);
  h.rope.dims = h.head_dim / 4;
  h.experts.rule.renormalise = true;
  h.experts.shared_gate = true;
}

void read_config_qwen3_next(Keys& keys, Hyper& h) {
  h.ff = 5120;  // where the file does not say
  read_common(keys, h);
  read_experts(keys, h, 512, 10);
}

void read_config_qwen3_5(Keys& keys, Hyper& h) { read_common(keys, h); }

void read_config_qwen3_5_moe(Keys& keys, Hyper& h) {
  h.ff = 1;  // no layer is dense
  read_common(keys, h);
  read_experts(keys, h, 256, 8);
}

Program build_qwen3_next(const Hyper& h, Weights& w) { return build(h, w, packed_inputs); }
Program build_qwen3_5(const Hyper& h, Weights& w) { return build(h, w, separate_inputs); }

}  // namespace fourfold
