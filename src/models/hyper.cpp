#include "models/hyper.hpp"

#include <cmath>
#include <numbers>

#include "models/keys.hpp"

namespace fourfold {
namespace {

constexpr std::int64_t kMaxLayers = 4096, kMaxWidth = 1 << 24, kMaxHeads = 1 << 14, kMaxContext = 1 << 30;

// Llama 3's blend: wavelengths beyond the trained context are stretched, short ones kept, the band between blended.
double llama3(double frequency, const RopeStretch& s) {
  const double turns = s.original_context * frequency / (2 * std::numbers::pi);  // within the trained context
  if (turns < s.low_freq_factor) return frequency / s.factor;
  if (turns > s.high_freq_factor) return frequency;
  const double blend = (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - blend) * frequency / s.factor + blend * frequency;
}

void check_heads(Keys& keys, const Hyper& h) {
  if (h.kv_heads > 0 && h.heads % h.kv_heads != 0)
    keys.refuse("key/value heads", std::to_string(h.kv_heads),
                "a divisor of the " + std::to_string(h.heads) + " query heads");
  if (h.rope.dims > h.head_dim || h.rope.dims % 2 != 0)
    keys.refuse("rotary dimensions", std::to_string(h.rope.dims),
                "an even number up to the head's " + std::to_string(h.head_dim));
}

}  // namespace

float Hyper::scale() const {
  return attention_scale > 0 ? attention_scale : 1 / std::sqrt(static_cast<float>(head_dim));
}

RopeSpec make_rope(const RopeHyper& rope) {
  RopeSpec out{rope.dims, rope.interleaved, {}};
  for (int i = 0; i < rope.dims / 2; ++i) {
    double f = std::pow(rope.base, -2.0 * i / rope.dims);
    if (rope.scaling.kind == RopeStretch::Kind::linear) f /= rope.scaling.factor;
    if (rope.scaling.kind == RopeStretch::Kind::llama3) f = llama3(f, rope.scaling);
    if (!rope.divisors.empty()) f /= static_cast<double>(rope.divisors[static_cast<std::size_t>(i)]);
    out.inverse_frequency.push_back(f);
  }
  return out;
}

void read_gguf_common(Keys& keys, Hyper& h) {
  h.layers = keys.count("block_count", 1, kMaxLayers);
  h.context = keys.count("context_length", 1, kMaxContext);
  h.width = keys.count("embedding_length", 1, kMaxWidth);
  h.ff = keys.count("feed_forward_length", 1, kMaxWidth);
  h.heads = keys.count("attention.head_count", 1, kMaxHeads);
  h.kv_heads = keys.count("attention.head_count_kv", 1, kMaxHeads, h.heads);
  h.head_dim = keys.count("attention.key_length", 1, kMaxWidth, h.heads > 0 ? h.width / h.heads : 0);
  if (keys.count("attention.value_length", 1, kMaxWidth, h.head_dim) != h.head_dim)
    keys.refuse("attention.value_length", keys.text("attention.value_length"), "attention.key_length");
  h.eps = static_cast<float>(keys.number("attention.layer_norm_rms_epsilon"));
  h.vocab = keys.count("vocab_size", 1, kMaxWidth, 0);
  h.rope.dims = keys.count("rope.dimension_count", 2, kMaxWidth, h.head_dim);
  h.rope.base = keys.number("rope.freq_base", 10000.0);
  const std::string scaling = keys.text("rope.scaling.type", "none");
  if (scaling == "linear") {
    h.rope.scaling.kind = RopeStretch::Kind::linear;
    h.rope.scaling.factor = keys.number("rope.scaling.factor");
  } else if (scaling != "none") {
    keys.refuse("rope.scaling.type", scaling, "none or linear");
  }
  keys.ignore({"rope.scaling.original_context_length", "rope.scaling.finetuned"});
  if (scaling == "none") keys.ignore({"rope.scaling.factor"});
  check_heads(keys, h);
}

void read_config_rope(Keys& keys, const std::string& parameters, RopeHyper& rope) {
  if (keys.has(parameters + "rope_theta")) rope.base = keys.number(parameters + "rope_theta");
  const double part = keys.number(parameters + "partial_rotary_factor", 1.0);
  if (part != 1.0) rope.dims = static_cast<int>(rope.dims * part);
  const std::string older = keys.text(parameters + "type", "default");
  const std::string kind = keys.text(parameters + "rope_type", older);
  if (kind == "linear") {
    rope.scaling.kind = RopeStretch::Kind::linear;
    rope.scaling.factor = keys.number(parameters + "factor");
  } else if (kind == "llama3") {
    rope.scaling = {RopeStretch::Kind::llama3, keys.number(parameters + "factor"),
                    keys.number(parameters + "low_freq_factor"), keys.number(parameters + "high_freq_factor"),
                    keys.number(parameters + "original_max_position_embeddings")};
  } else if (kind != "default") {
    keys.refuse(parameters + "rope_type", kind, "default, linear or llama3");
  }
}

void read_config_common(Keys& keys, Hyper& h) {
  const auto count = [&](const char* key, std::int64_t high, int preset) {
    return keys.count(key, 1, high, preset > 0 ? std::optional<std::int64_t>(preset) : std::nullopt);
  };
  h.layers = count("num_hidden_layers", kMaxLayers, h.layers);
  h.context = count("max_position_embeddings", kMaxContext, h.context);
  h.width = count("hidden_size", kMaxWidth, h.width);
  h.ff = count("intermediate_size", kMaxWidth, h.ff);
  h.heads = count("num_attention_heads", kMaxHeads, h.heads);
  h.kv_heads = count("num_key_value_heads", kMaxHeads, h.kv_heads > 0 ? h.kv_heads : h.heads);
  h.head_dim = count("head_dim", kMaxWidth, h.head_dim > 0 || h.heads == 0 ? h.head_dim : h.width / h.heads);
  h.eps = static_cast<float>(keys.number("rms_norm_eps", 1e-6));
  h.vocab = count("vocab_size", kMaxWidth, h.vocab);
  h.rope.dims = h.head_dim;
  h.rope.base = keys.number("rope_theta", h.rope.base);
  h.rope.dims = static_cast<int>(h.head_dim * keys.number("partial_rotary_factor", 1.0));
  read_config_rope(keys, "rope_scaling.", h.rope);
  read_config_rope(keys, "rope_parameters.", h.rope);
  keys.ignore({"architectures", "model_type", "torch_dtype", "dtype", "transformers_version", "use_cache",
               "initializer_range", "attention_dropout", "bos_token_id", "eos_token_id", "pad_token_id",
               "_name_or_path", "rope_scaling."});
  check_heads(keys, h);
}

}  // namespace fourfold
