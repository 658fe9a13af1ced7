// DeepSeek-AI 2024 (DeepSeek-V2), section 2.1; the indexer: DeepSeek-AI 2025 (DeepSeek-V3.2), section 2.1
#include "models/latent.hpp"

#include <cmath>

namespace fourfold {
namespace {

constexpr float kLatentEps = 1e-6f;  // of the latents' norms, whatever the file says of the others
constexpr std::int64_t kMaxWidth = 1 << 24;

// Queries of the indexer and the weights of its heads; its keys go to a cache of their own.
TopKeys top_keys(Builder& b, Weights& w, const Hyper& h, int rope, Input in, Input query_latent) {
  const LatentHyper& l = h.latent;
  const int cache = b.cache({.kv_heads = 1, .head_dim = l.index_dim, .keys_only = true});
  TopKeys top;
  top.cache = cache;
  top.heads = l.index_heads;
  top.count = l.index_count;
  top.query =
      b.project("index_q", query_latent, w.dot("indexer.attn_q_b", l.index_heads * l.index_dim, l.query_rank, false),
                Turn{.heads = l.index_heads, .rope = rope});
  NormSpec norm = w.norm("indexer.k_norm", l.index_dim, kLatentEps);
  norm.bias = w.tensor("indexer.k_norm.bias", 1, l.index_dim);
  b.project("index_k", in, w.dot("indexer.attn_k", l.index_dim, h.width, false),
            AppendKey{.cache = cache, .rope = rope, .norm = norm});
  top.weights = b.project("index_weights", in, w.dot("indexer.proj", l.index_heads, h.width, false));
  top.scale = 1 / std::sqrt(static_cast<float>(l.index_dim) * static_cast<float>(l.index_heads));
  return top;
}

// One tensor holds what makes keys and values, head by head.
Latent latent_of_one(Weights& w, const Hyper& h) {
  const LatentHyper& l = h.latent;
  const Weights::HeadRows keys{h.heads, l.nope + l.columns, 0, l.nope},
      values{h.heads, l.nope + l.columns, l.nope, l.columns};
  return {w.heads("attn_kv_b", keys, l.rank), w.heads("attn_kv_b", keys, l.rank, true),
          w.heads("attn_kv_b", values, l.rank)};
}

// GGUF files split it, with the keys' half transposed.
Latent latent_of_two(Weights& w, const Hyper& h) {
  const Weight key_down = w.experts("attn_k_b", h.heads, h.latent.rank, h.latent.nope);
  return {w.turned(key_down), key_down, w.experts("attn_v_b", h.heads, h.latent.columns, h.latent.rank)};
}

void check_latent(Keys& keys, const Hyper& h) {
  const LatentHyper& l = h.latent;
  const std::int64_t each = std::int64_t{l.nope} + l.rotary + l.columns;
  if (h.heads * each > kMaxWidth)
    keys.refuse("heads x head dimension", std::to_string(h.heads) + " x " + std::to_string(each),
                "up to " + std::to_string(kMaxWidth) + " in all");
}

}  // namespace

void read_config_latent(Keys& keys, Hyper& h) {
  LatentHyper& l = h.latent;
  const auto count = [&](const char* key, int preset) {
    return keys.count(key, 1, kMaxWidth, preset > 0 ? std::optional<std::int64_t>(preset) : std::nullopt);
  };
  l.query_rank = keys.count("q_lora_rank", 1, kMaxWidth, 0);
  l.rank = count("kv_lora_rank", l.rank);
  l.nope = count("qk_nope_head_dim", l.nope);
  l.rotary = count("qk_rope_head_dim", l.rotary);
  l.columns = count("v_head_dim", l.columns);
  if (l.rotary % 2 != 0) keys.refuse("qk_rope_head_dim", std::to_string(l.rotary), "an even number");
  check_latent(keys, h);
  keys.ignore({"qk_head_dim"});
  h.rope.dims = l.rotary;
  h.attention_scale = 1 / std::sqrt(static_cast<float>(l.nope + l.rotary));
}

void read_gguf_latent(Keys& keys, Hyper& h) {
  LatentHyper& l = h.latent;
  l.rank = keys.count("attention.kv_lora_rank", 1, kMaxWidth);
  l.query_rank = keys.count("attention.q_lora_rank", 0, kMaxWidth, 0);
  read_gguf_common(keys, h, true);
  l.rotary = h.rope.dims;
  const int key = keys.count("attention.key_length_mla", 1, kMaxWidth, h.head_dim);
  const int older = keys.count("attention.value_length", 1, kMaxWidth, h.head_dim);
  l.columns = keys.count("attention.value_length_mla", 1, kMaxWidth, older);
  l.nope = key - l.rotary;
  if (l.nope < 1) keys.refuse("attention.key_length", std::to_string(key), "more than rope.dimension_count");
  check_latent(keys, h);
  h.attention_scale = 1 / std::sqrt(static_cast<float>(key));
}

LatentRopes latent_ropes(Builder& b, const Hyper& h) {
  if (!h.positions) return {};
  const auto rope = [&](int skip, bool interleaved) {
    RopeHyper turned = h.rope;
    turned.skip = skip;
    turned.interleaved = interleaved;
    return b.rope(make_rope(turned));
  };
  LatentRopes ropes{.query = rope(h.latent.nope, h.rope.interleaved),
                    .latent = rope(h.latent.rank, h.rope.interleaved)};
  if (h.latent.index_count > 0) ropes.index = rope(0, false);
  return ropes;
}

Value latent_attention(Builder& b, Weights& w, const Hyper& h, const LatentRopes& ropes, Input in, Value x) {
  const LatentHyper& l = h.latent;
  const int query_rows = h.heads * (l.nope + l.rotary);
  Input query_in = in;
  if (l.query_rank > 0)
    query_in = rms(b.project("q_a", in, w.dot("attn_q_a", l.query_rank, h.width, h.bias.qkv)),
                   w.norm("attn_q_a_norm", l.query_rank, kLatentEps));
  const Value query = b.project("q", query_in,
                                l.query_rank > 0 ? w.dot("attn_q_b", query_rows, l.query_rank, false)
                                                 : w.dot("attn_q", query_rows, h.width, false),
                                Turn{.heads = h.heads, .rope = ropes.query});
  const int cache = b.cache({.kv_heads = 1, .head_dim = l.rank + l.rotary, .value_dim = l.rank, .keys_only = true});
  b.project("kv_a", in, w.dot("attn_kv_a_mqa", l.rank + l.rotary, h.width, h.bias.qkv),
            AppendKey{.cache = cache, .rope = ropes.latent, .norm = w.norm("attn_kv_a_norm", l.rank, kLatentEps)});
  Attend attend{.query = query, .cache = cache, .heads = h.heads, .scale = h.scale(), .out = {}};
  attend.latent = w.has("attn_k_b.weight") ? latent_of_two(w, h) : latent_of_one(w, h);
  if (l.index_count > 0) attend.top_keys = top_keys(b, w, h, ropes.index, in, query_in);
  Value a = b.attend(attend);
  if (l.head_gate) {
    const Value gate = b.project("attn_gate", in, w.dot("attn_gate", h.heads, h.width, false));
    a = b.map("attn_gated",
              {.in = b.columns(a), .gate = b.columns(gate), .activation = Activation::sigmoid, .group = l.columns});
  }
  return b.project("attn_out", {a}, w.dot("attn_output", h.width, h.heads * l.columns, h.bias.qkv), AddTo{.x = x});
}

}  // namespace fourfold
