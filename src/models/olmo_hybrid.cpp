// olmo_hybrid: Gated DeltaNet with a norm in front in three layers of four; in the fourth attention with norms behind
// it and behind its feed-forward part, its queries and keys normed over all heads together. Ai2 2026 (OLMo Hybrid);
// Transformers' OlmoHybrid
#include "models/olmo_hybrid.hpp"

#include "models/hybrid.hpp"
#include "models/mixers.hpp"

namespace fourfold {
namespace {

constexpr std::int64_t kMaxHeads = 1 << 16, kMaxDim = 1 << 12;
constexpr int kInterval = 4;           // every fourth layer attends, where a file does not say
constexpr float kScanNormEps = 1e-5f;  // of the norm behind the scan, whatever the file says of the others

Value scan_layer(Builder& b, Weights& w, const Hyper& h, Input x) {
  const ScanHyper& s = h.scan;
  const auto p = project_pieces(b, w, "ssm_in", rms(x, w.norm("attn_norm", h.width, h.eps)),
                                {{"ssm_q", s.keys()},
                                 {"ssm_k", s.keys()},
                                 {"ssm_v", s.inner()},
                                 {"ssm_gate", s.inner()},
                                 {"ssm_alpha", s.heads},
                                 {"ssm_beta", s.heads}});
  const Value y =
      delta_mixer(b, w, h, {.query = p[0], .key = p[1], .value = p[2], .gate = p[3], .decay = p[4], .strength = p[5]},
                  x.value, {.norm_eps = kScanNormEps});
  return gated_mlp(b, w, h, rms(y, w.norm("ffn_norm", h.width, h.eps)), y);
}

Input attention_layer(Builder& b, Weights& w, const Hyper& h, int rope, Input x) {
  const int q = h.heads * h.head_dim, kv = h.kv_heads * h.head_dim;
  const int cache = b.cache({h.kv_heads, h.head_dim});
  const Value query = b.project("qkv", x,
                                {w.dot("attn_q", q, h.width, h.bias.qkv), w.dot("attn_k", kv, h.width, h.bias.qkv),
                                 w.dot("attn_v", kv, h.width, h.bias.qkv)},
                                Append{.cache = cache,
                                       .heads = h.heads,
                                       .rope = rope,
                                       .query_norm = w.norm("attn_q_norm", q, h.eps),
                                       .key_norm = w.norm("attn_k_norm", kv, h.eps)});
  const Value a = b.attend(query, cache, h.heads, h.scale());
  const Value o = b.project("attn_out", {a}, w.dot("attn_output", h.width, q, h.bias.out));
  // Files that Transformers has written call it what they call the scan layers' second norm.
  const char* post = w.has("post_attention_norm.weight") ? "post_attention_norm" : "ffn_norm";
  x = b.add_norm(x.value, o, w.norm(post, h.width, h.eps));
  const Value m =
      b.project("gate_up", x, {w.dot("ffn_gate", h.ff, h.width, false), w.dot("ffn_up", h.ff, h.width, false)},
                Gated{h.activation});
  const Value d = b.project("down", {m}, w.dot("ffn_down", h.width, h.ff, false));
  return b.add_norm(x.value, d, w.norm("post_ffw_norm", h.width, h.eps));
}

}  // namespace

void read_config_olmo_hybrid(Keys& keys, Hyper& h) {
  read_config_common(keys, h);
  h.tied = keys.flag("tie_word_embeddings", false);
  h.positions = keys.has("rope_parameters.rope_theta") || keys.has("rope_theta");
  read_config_rope(keys, h);
  h.activation = read_activation(keys, "hidden_act", "silu");
  h.bias.qkv = h.bias.out = keys.flag("attention_bias", false);
  h.bias.mlp = false;
  ScanHyper& s = h.scan;
  s.heads = keys.count("linear_num_value_heads", 1, kMaxHeads, h.heads);
  s.key_heads = keys.count("linear_num_key_heads", 1, s.heads, h.heads);
  s.key_dim = keys.count("linear_key_head_dim", 1, kMaxDim, std::max(1, 3 * h.width / (4 * s.key_heads)));
  s.value_dim = keys.count("linear_value_head_dim", 1, kMaxDim, 2 * s.key_dim);
  s.kernel = keys.count("linear_conv_kernel_dim", 2, 16, 4);
  s.strength_scale = keys.flag("linear_allow_neg_eigval", true) ? 2 : 1;
  check_key_heads(keys, "linear_num_key_heads", s);
  if (keys.has("layer_types")) {
    read_layer_kinds(keys, "layer_types", h);
  } else {
    for (int i = 0; i < h.layers; ++i)
      h.kinds.push_back(i % kInterval == kInterval - 1 ? LayerKind::attention : LayerKind::scan);
    if (h.layers < kInterval) h.kinds.back() = LayerKind::attention;
  }
  keys.ignore({"linear_a_log_min", "linear_a_log_max", "linear_dt_min", "linear_dt_max", "linear_dt_init_floor"});
}

Program build_olmo_hybrid(const Hyper& h, Weights& w) {
  Builder b{w.specs()};
  const int rope = h.positions ? b.rope(make_rope(h.rope)) : -1;
  const Weight table = w.matrix("token_embd", h.vocab, h.width);
  Input x{b.embed(table)};
  for (int i = 0; i < h.layers; ++i) {
    w.layer(i), b.layer(i);
    x = h.attends(i) ? attention_layer(b, w, h, rope, x) : Input{scan_layer(b, w, h, x)};
  }
  w.layer(-1);
  return std::move(b).logits(rms(x, w.norm("output_norm", h.width, h.eps)), w.output_or_tied(h.tied, table));
}

}  // namespace fourfold
