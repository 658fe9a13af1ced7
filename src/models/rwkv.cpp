// rwkv: version 4. Each half of a layer mixes a token with the one before it, number by number; the first then reads a
// fading mean of values weighted by keys, the second squares ReLUs; both pass a sigmoid gate.   Peng et al. 2023
#include "models/rwkv.hpp"

#include "program/builder.hpp"

namespace fourfold {
namespace {

constexpr float kLastEps = 1e-5f;  // of the norm in front of the output matrix, whatever the file says

class Layers {
 public:
  Layers(Builder& b, Weights& w, const Hyper& h) : b_(b), w_(w), h_(h) {}

  Value norm(const char* name, Value x, float eps) {
    NormSpec spec = w_.norm(name, h_.width, eps);
    spec.bias = w_.tensor(std::string(name) + ".bias", 1, h_.width);
    return b_.map(name, {.in = b_.columns(x), .norm = spec});
  }

  Value time_mix(Value x) {
    const int inner = h_.scan.heads;
    const Value in = norm("attn_norm", x, h_.eps);
    const Value k = mixed("time_mix_lerp_k", in, "time_mix_key", inner, h_.width);
    const Value v = mixed("time_mix_lerp_v", in, "time_mix_value", inner, h_.width);
    const Value r = mixed("time_mix_lerp_r", in, "time_mix_receptance", inner, h_.width);
    const Value mean = b_.scan({.mechanism = Mechanism::rwkv4,
                                .heads = inner,
                                .key_heads = inner,
                                .key = b_.columns(k),
                                .value = b_.columns(v),
                                .rate = w_.tensor("time_mix_decay", 1, inner),
                                .skip = w_.tensor("time_mix_first", 1, inner)});
    const Value y =
        b_.map("time_mix_gate", {.in = b_.columns(mean), .gate = b_.columns(r), .activation = Activation::sigmoid});
    return b_.project("time_mix_output", {y}, w_.dot("time_mix_output", h_.width, inner, false), AddTo{.x = x});
  }

  Value channel_mix(Value x) {
    const Value in = norm("ffn_norm", x, h_.eps);
    const Value k = mixed("channel_mix_lerp_k", in, "channel_mix_key", h_.ff, h_.width, Activation::relu_squared);
    const Value r = mixed("channel_mix_lerp_r", in, "channel_mix_receptance", h_.width, h_.width);
    const Value v = b_.project("channel_mix_value", {k}, w_.dot("channel_mix_value", h_.width, h_.ff, false));
    return b_.map("channel_mix_gate",
                  {.in = b_.columns(v), .gate = b_.columns(r), .activation = Activation::sigmoid, .plus = x});
  }

 private:
  Value mixed(const char* lerp, Value in, const char* matrix, int rows, int cols,
              Activation activation = Activation::none) {
    const Value shifted = b_.conv({.in = {b_.columns(in)}, .weights = w_.tensor(lerp, 1, cols), .mix = true});
    return b_.project(matrix, {shifted}, w_.dot(matrix, rows, cols, false), Store{.activation = activation});
  }

  Builder& b_;
  Weights& w_;
  const Hyper& h_;
};

}  // namespace

void read_config_rwkv(Keys& keys, Hyper& h) {
  h.heads = h.kv_heads = 1;
  h.context = keys.count("context_length", 1, 1 << 30, 1024);
  const int width = keys.count("hidden_size", 1, 1 << 24, 4096);
  h.ff = 4 * width;  // where the file does not say
  read_config_common(keys, h);
  h.eps = static_cast<float>(keys.number("layer_norm_epsilon", 1e-5));
  h.tied = keys.flag("tie_word_embeddings", false);
  h.scan.heads = keys.count("attention_hidden_size", 1, 1 << 24, h.width);
  keys.ignore({"rescale_every"});  // powers of two that keep half precision in range, and cancel
}

Program build_rwkv(const Hyper& h, Weights& w) {
  Builder b{w.specs()};
  Layers layers{b, w, h};
  const Weight table = w.matrix("token_embd", h.vocab, h.width);
  Value x = b.embed(table);
  for (int i = 0; i < h.layers; ++i) {
    w.layer(i), b.layer(i);
    if (i == 0) x = layers.norm("token_embd_norm", x, h.eps);
    x = layers.channel_mix(layers.time_mix(x));
  }
  w.layer(-1);
  return std::move(b).logits({layers.norm("output_norm", x, kLastEps)}, w.output_or_tied(h.tied, table));
}

}  // namespace fourfold
