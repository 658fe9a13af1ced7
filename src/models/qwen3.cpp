// qwen3: llama with an RMS norm over each query and key head, no biases by default.   Yang et al. 2025 (Qwen3 report)
#include "models/qwen3.hpp"

#include "models/experts.hpp"
#include "models/windows.hpp"
#include "program/builder.hpp"

namespace fourfold {

void read_gguf_qwen3(Keys& keys, Hyper& h) { read_gguf_common(keys, h); }

void read_config_qwen3(Keys& keys, Hyper& h) {
  h.head_dim = 128;  // where the file does not say
  read_config_common(keys, h);
  h.tied = keys.flag("tie_word_embeddings", false);
  read_config_rope(keys, h);
  h.activation = read_activation(keys, "hidden_act", "silu");
  h.bias.qkv = h.bias.out = keys.flag("attention_bias", false);
  h.bias.mlp = false;
  read_qwen_windows(keys, h);
}

Program build_qwen3(const Hyper& h, Weights& w) {
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
                                  Append{.cache = cache,
                                         .heads = h.heads,
                                         .rope = rope,
                                         .query_norm = w.norm("attn_q_norm", h.head_dim, h.eps),
                                         .key_norm = w.norm("attn_k_norm", h.head_dim, h.eps)});
    const Value a = b.attend(query, cache, h.heads, h.scale());
    x = b.project("attn_out", {a}, w.dot("attn_output", h.width, q, h.bias.out), AddTo{.x = x});
    x = feed_forward(b, w, h, i, rms(x, w.norm("ffn_norm", h.width, h.eps)), x);
  }
  w.layer(-1);
  return std::move(b).logits(rms(x, w.norm("output_norm", h.width, h.eps)), w.output_or_tied(h.tied, table));
}

}  // namespace fourfold
