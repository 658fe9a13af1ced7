// falcon_h1: attention and a Mamba-2 mixer side by side in every layer, with factors that were tuned on a small model
// and carried over.   Falcon-LLM Team 2025 (Falcon-H1 report)
#include "models/falcon_h1.hpp"

#include "models/hybrid.hpp"
#include "models/mixers.hpp"

namespace fourfold {
namespace {

std::vector<float> factors(Keys& keys, const char* key, std::size_t count) {
  const auto numbers = keys.numbers(key);
  if (!numbers.empty() && numbers.size() != count)
    keys.refuse(key, "a list of " + std::to_string(numbers.size()), std::to_string(count) + " numbers");
  std::vector<float> out(numbers.begin(), numbers.end());
  out.resize(count, 1);
  return out;
}

float factor(Keys& keys, const char* key) { return static_cast<float>(keys.number(key, 1.0)); }

}  // namespace

void read_gguf_falcon_h1(Keys& keys, Hyper& h) {  // converters multiply the factors into the weights
  read_gguf_common(keys, h);
  read_gguf_scan(keys, h);
  h.scan.optional_norm = true;
}

void read_config_falcon_h1(Keys& keys, Hyper& h) {
  read_config_llama_keys(keys, h);
  read_config_mamba_keys(keys, h);
  ScanHyper& s = h.scan;
  s.out_bias = keys.flag("projectors_bias", false);
  s.gate_first = !keys.flag("mamba_norm_before_gate", true);
  if (!keys.flag("mamba_rms_norm", false)) s.norm_group = 0;
  if (keys.count("mamba_d_ssm", 1, 1 << 24, s.inner()) != s.inner())
    keys.refuse("mamba_d_ssm", keys.text("mamba_d_ssm"), "mamba_n_heads x mamba_d_head");
  Multipliers& m = h.multipliers;
  h.embedding_scale = factor(keys, "embedding_multiplier");
  m.logits = factor(keys, "lm_head_multiplier");
  m.key = factor(keys, "key_multiplier");
  m.attention_in = factor(keys, "attention_in_multiplier");
  m.attention_out = factor(keys, "attention_out_multiplier");
  m.scan_in = factor(keys, "ssm_in_multiplier");
  m.scan_out = factor(keys, "ssm_out_multiplier");
  m.mlp = factors(keys, "mlp_multipliers", 2);
  m.scan = factors(keys, "ssm_multipliers", 5);
  keys.ignore({"mamba_use_mlp", "rope_theta_scaling", "attn_layer_indices", "layer_types", "layers_block_type"});
}

Program build_falcon_h1(const Hyper& h, Weights& w) {
  const Multipliers& m = h.multipliers;
  const auto norm = [&](const char* name, float scale) {
    NormSpec spec = w.norm(name, h.width, h.eps);
    spec.scale = scale;
    return spec;
  };
  Builder b{w.specs()};
  const int rope = b.rope(make_rope(h.rope));
  const Weight table = w.matrix("token_embd", h.vocab, h.width);
  Value x = b.embed(table, h.embedding_scale);
  for (int i = 0; i < h.layers; ++i) {
    w.layer(i), b.layer(i);
    const Value mixed = mamba2_mixer(b, w, h, rms(x, norm("attn_norm", m.scan_in)), x,
                                     {m.scan[0], m.scan[1], m.scan[2], m.scan[3], m.scan[4], m.scan_out});
    x = attention_mixer(b, w, h, rms(x, norm("attn_norm", m.attention_in)), mixed,
                        {.rope = rope, .key_scale = m.key, .out_scale = m.attention_out});
    const NormSpec second = w.has("ffn_norm") ? NormSpec{w.tensor("ffn_norm", 1, h.width), h.eps}  // GGUF's name
                                              : norm("ffn_norm", 1);
    x = gated_mlp(b, w, h, rms(x, second), x, {m.mlp[0], m.mlp[1]});
  }
  w.layer(-1);
  return std::move(b).logits(rms(x, norm("output_norm", m.logits)), w.output_or_tied(h.tied, table));
}

}  // namespace fourfold
