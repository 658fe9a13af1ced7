// llama: pre-norm, grouped-query attention, SwiGLU.   Touvron et al. 2023; Llama 3: Grattafiori et al. 2024
#include "models/llama.hpp"

#include "models/experts.hpp"
#include "program/builder.hpp"

namespace fourfold {

void read_gguf_llama(Keys& keys, Hyper& h) {
  read_gguf_common(keys, h, true);
  h.experts.rule.renormalise = true;
  read_gguf_experts(keys, h);  // mixtral's
  h.rope.interleaved = true;   // converters reorder query and key rows so that pairs lie side by side
}

void read_config_llama(Keys& keys, Hyper& h) {
  read_config_llama_keys(keys, h);
  keys.expect("rope_interleaved", false);
  keys.ignore({"is_llama_config"});
  if (keys.count("pretraining_tp", 0, 1 << 16, 1) > 1) keys.refuse("pretraining_tp", "above 1", "1");
}

Program build_llama(const Hyper& h, Weights& w) {
  const int q = h.heads * h.head_dim, kv = h.kv_heads * h.head_dim;
  Builder b{w.specs()};
  RopeHyper turned = h.rope;
  const bool norms = h.head_norms.value_or(false);
  if (!norms) turned.divisors = w.values("rope_freqs", turned.dims / 2);  // of llama's own files
  const int rope = b.rope(make_rope(turned));
  const Weight table = w.matrix("token_embd", h.vocab, h.width);
  Value x = b.embed(table, h.embedding_scale);
  for (int i = 0; i < h.layers; ++i) {
    w.layer(i), b.layer(i);
    const int cache = b.cache({h.kv_heads, h.head_dim, h.window(i)});
    Append append{.cache = cache, .heads = h.heads, .rope = rope};
    if (norms) {
      append.query_norm = w.norm("attn_q_norm", h.head_dim, h.eps);
      append.key_norm = w.norm("attn_k_norm", h.head_dim, h.eps);
    }
    const Value query = b.project("qkv", rms(x, w.norm("attn_norm", h.width, h.eps)),
                                  {w.dot("attn_q", q, h.width, h.bias.qkv), w.dot("attn_k", kv, h.width, h.bias.qkv),
                                   w.dot("attn_v", kv, h.width, h.bias.qkv)},
                                  append);
    const Value a = b.attend(query, cache, h.heads, h.scale());
    x = b.project("attn_out", {a}, w.dot("attn_output", h.width, q, h.bias.out), AddTo{.x = x});
    x = feed_forward(b, w, h, i, rms(x, w.norm("ffn_norm", h.width, h.eps)), x);
  }
  w.layer(-1);
  return std::move(b).logits(rms(x, w.norm("output_norm", h.width, h.eps)), w.output_or_tied(h.tied, table));
}

}  // namespace fourfold
