// gemma3: norms before and behind each half of a layer, norms over query and key heads, five layers with a window for
// each one without, two rotary bases.   Gemma Team 2025 (Gemma 3 report)
#include "models/gemma3.hpp"

#include <cmath>

#include "models/windows.hpp"
#include "program/builder.hpp"

namespace fourfold {
namespace {

constexpr int kPattern = 6;             // every sixth layer sees everything, where a file does not say
constexpr double kLocalBase = 10000.0;  // of the layers with a window, likewise
constexpr int kLayers27B = 62;          // the one size whose attention scale is not 1 / sqrt(head_dim)

void set_windows(Hyper& h, int window, int pattern) {
  h.windows.clear();
  for (int i = 0; i < h.layers; ++i) h.windows.push_back((i + 1) % pattern == 0 ? 0 : window);
}

void set_constants(Hyper& h) {
  h.activation = Activation::gelu_tanh;
  h.embedding_scale = std::sqrt(static_cast<float>(h.width));
  h.local_rope = {kLocalBase, h.rope.dims, h.rope.interleaved, {}, {}};
}

}  // namespace

void read_gguf_gemma3(Keys& keys, Hyper& h) {
  read_gguf_common(keys, h);
  set_constants(h);
  h.local_rope.base = keys.number("rope.freq_base_swa", kLocalBase);
  if (h.layers == kLayers27B)
    h.attention_scale = 1 / std::sqrt(static_cast<float>(h.width) / static_cast<float>(h.heads));
  h.logit_soft_cap = static_cast<float>(keys.number("final_logit_softcapping", 0.0));
  keys.ignore({"attn_logit_softcapping"});  // gemma2's: carried along, never applied
  const int window = keys.count("attention.sliding_window", 1, 1 << 30);
  const char* pattern = "attention.sliding_window_pattern";  // every n-th layer sees everything, or a list
  if (!keys.has_list(pattern)) return set_windows(h, window, keys.count(pattern, 1, 1 << 16, kPattern));
  const auto slides = keys.integers(pattern);
  if (static_cast<int>(slides.size()) != h.layers)
    keys.refuse(pattern, "a list of " + std::to_string(slides.size()),
                "one entry for each of the " + std::to_string(h.layers) + " layers");
  for (std::int64_t slide : slides) h.windows.push_back(slide ? window : 0);
  h.windows.resize(static_cast<std::size_t>(h.layers));
}

void read_config_gemma3(Keys& keys, Hyper& h) {
  h.width = 2304, h.ff = 9216, h.layers = 26, h.heads = 8, h.kv_heads = 4,
  h.head_dim = 256;  // where the file does not say
  h.vocab = 262208, h.context = 131072;
  h.rope.base = 1e6;
  read_config_common(keys, h);
  set_constants(h);
  h.norm_add = 1;
  h.tied = keys.flag("tie_word_embeddings", true);
  h.local_rope.base = keys.number("rope_local_base_freq", kLocalBase);
  read_config_rope(keys, "rope_parameters.full_attention.", h.context, h.rope);
  read_config_rope(keys, "rope_parameters.sliding_attention.", h.context, h.local_rope);
  read_config_rope(keys, "rope_scaling.", h.context, h.rope);
  h.attention_scale = 1 / std::sqrt(static_cast<float>(keys.number("query_pre_attn_scalar", 256.0)));
  h.logit_soft_cap = static_cast<float>(keys.number("final_logit_softcapping", 0.0));
  h.activation = read_activation(keys, "hidden_activation", "gelu_pytorch_tanh");
  h.bias.qkv = h.bias.out = keys.flag("attention_bias", false);
  h.bias.mlp = false;
  keys.expect("use_bidirectional_attention", false);
  keys.ignore({"hidden_act", "attn_logit_softcapping"});  // the second is gemma2's: carried along, never applied
  const int window = keys.count("sliding_window", 1, 1 << 30, 4096);
  const int older = keys.count("_sliding_window_pattern", 1, 1 << 16, kPattern);
  const int pattern = keys.count("sliding_window_pattern", 1, 1 << 16, older);
  if (!read_layer_types(keys, window, h)) set_windows(h, window, pattern);
}

void complete_gemma3(const NamedShape& shape, Hyper& h) {
  set_constants(h);
  set_windows(h, shape.window, kPattern);
}

Program build_gemma3(const Hyper& h, Weights& w) {
  const int q = h.heads * h.head_dim, kv = h.kv_heads * h.head_dim;
  const auto norm = [&](const char* name, int width) { return w.norm(name, width, h.eps, h.norm_add); };
  Builder b{w.specs()};
  const int global = b.rope(make_rope(h.rope)), local = b.rope(make_rope(h.local_rope));
  const Weight table = w.matrix("token_embd", h.vocab, h.width);
  Input x{b.embed(table, h.embedding_scale)};
  for (int i = 0; i < h.layers; ++i) {
    w.layer(i), b.layer(i);
    const int cache = b.cache({h.kv_heads, h.head_dim, h.window(i)});
    const Value query = b.project("qkv", rms(x, norm("attn_norm", h.width)),
                                  {w.dot("attn_q", q, h.width, h.bias.qkv), w.dot("attn_k", kv, h.width, h.bias.qkv),
                                   w.dot("attn_v", kv, h.width, h.bias.qkv)},
                                  Append{.cache = cache,
                                         .heads = h.heads,
                                         .rope = h.window(i) > 0 ? local : global,
                                         .query_norm = norm("attn_q_norm", h.head_dim),
                                         .key_norm = norm("attn_k_norm", h.head_dim)});
    const Value a = b.attend(query, cache, h.heads, h.scale());
    const Value o = b.project("attn_out", {a}, w.dot("attn_output", h.width, q, h.bias.out));
    x = b.add_norm(x.value, o, norm("post_attention_norm", h.width));
    const Value m =
        b.project("gate_up", rms(x, norm("ffn_norm", h.width)),
                  {w.dot("ffn_gate", h.ff, h.width, h.bias.mlp), w.dot("ffn_up", h.ff, h.width, h.bias.mlp)},
                  Gated{h.activation});
    const Value d = b.project("down", {m}, w.dot("ffn_down", h.width, h.ff, h.bias.mlp));
    x = b.add_norm(x.value, d, norm("post_ffw_norm", h.width));
  }
  w.layer(-1);
  return std::move(b).logits(rms(x, norm("output_norm", h.width)), w.output_or_tied(h.tied, table), h.logit_soft_cap);
}

}  // namespace fourfold
