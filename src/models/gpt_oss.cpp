// gpt_oss: attention with a sink for each head, every other layer with a window; experts with biases and a clamped
// gate. OpenAI 2025 (gpt-oss model card)
#include "models/gpt_oss.hpp"

#include "models/experts.hpp"
#include "models/windows.hpp"

namespace fourfold {
namespace {

constexpr std::int64_t kMaxWindow = 1 << 30;
constexpr float kAlpha = 1.702f, kLimit = 7;  // of the gate, where a file does not say

void set_constants(Hyper& h) {
  h.bias.qkv = h.bias.out = true;
  ExpertsHyper& e = h.experts;
  e.ff = h.ff;
  e.bias = true;
  e.gate = ExpertGate::clamped_swiglu;
  e.alpha = kAlpha, e.limit = kLimit;
  e.rule.renormalise = true;  // the softmax of those chosen
}

void set_windows(Hyper& h, int window) {
  h.windows.clear();
  for (int i = 0; i < h.layers; ++i) h.windows.push_back(i % 2 == 0 ? window : 0);
}

}  // namespace

void read_gguf_gpt_oss(Keys& keys, Hyper& h) {
  read_gguf_common(keys, h, true);
  h.rope.scaling.whole_pairs = false;
  set_constants(h);
  read_gguf_experts(keys, h);
  set_windows(h, keys.count("attention.sliding_window", 1, kMaxWindow));
}

void read_config_gpt_oss(Keys& keys, Hyper& h) {
  h.layers = 36, h.vocab = 201088, h.width = h.ff = 2880, h.heads = 64, h.kv_heads = 8, h.head_dim = 64;
  h.context = 131072;  // where the file does not say, as with the experts
  h.experts.count = 128, h.experts.rule.chosen = 4;
  read_config_common(keys, h);
  set_constants(h);
  h.tied = keys.flag("tie_word_embeddings", false);
  h.rope.base = keys.number("rope_theta", 150000.0);
  read_config_rope(keys, h);
  h.bias.qkv = h.bias.out = keys.flag("attention_bias", true);
  h.experts.alpha = static_cast<float>(keys.number("swiglu_alpha", kAlpha));
  h.experts.limit = static_cast<float>(keys.number("swiglu_limit", kLimit));
  read_config_experts(keys, h, "num_local_experts");
  keys.expect("hidden_act", "silu");
  keys.ignore({"quantization_config.", "experts_per_token", "initial_context_length"});  // as other keys and types say
  const int window = keys.count("sliding_window", 1, kMaxWindow, 128);
  if (!read_layer_types(keys, window, h)) set_windows(h, window);
}

Program build_gpt_oss(const Hyper& h, Weights& w) {
  const int q = h.heads * h.head_dim, kv = h.kv_heads * h.head_dim;
  Builder b{w.specs()};
  const int rope = b.rope(make_rope(h.rope));
  const Weight table = w.matrix("token_embd", h.vocab, h.width);
  Value x = b.embed(table);
  for (int i = 0; i < h.layers; ++i) {
    w.layer(i), b.layer(i);
    const int cache = b.cache({h.kv_heads, h.head_dim, h.window(i)});
    const Value query = b.project("qkv", rms(x, w.norm("attn_norm", h.width, h.eps)),
                                  {w.dot("attn_q", q, h.width, h.bias.qkv), w.dot("attn_k", kv, h.width, h.bias.qkv),
                                   w.dot("attn_v", kv, h.width, h.bias.qkv)},
                                  Append{.cache = cache, .heads = h.heads, .rope = rope});
    const Value a = b.attend({.query = query,
                              .cache = cache,
                              .heads = h.heads,
                              .scale = h.scale(),
                              .out = {},
                              .sinks = w.tensor("attn_sinks.weight", 1, h.heads)});
    x = b.project("attn_out", {a}, w.dot("attn_output", h.width, q, h.bias.out), AddTo{.x = x});
    x = routed_mlp(b, w, h, rms(x, w.norm("post_attention_norm", h.width, h.eps)), x);
  }
  w.layer(-1);
  return std::move(b).logits(rms(x, w.norm("output_norm", h.width, h.eps)), w.output_or_tied(h.tied, table));
}

}  // namespace fourfold
