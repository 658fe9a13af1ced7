#include "models/hyper.hpp"

#include <algorithm>
#include <cmath>

#include "models/keys.hpp"

namespace fourfold {
namespace {

constexpr std::int64_t kMaxWidth = 1 << 24, kMaxHeads = 1 << 14, kMaxContext = 1 << 30;

void check_heads(Keys& keys, Hyper& h) {
  if (h.head_dim < 1 || std::int64_t{h.heads} * h.head_dim > kMaxWidth) {
    keys.refuse("heads x head dimension", std::to_string(h.heads) + " x " + std::to_string(h.head_dim),
                "1 to " + std::to_string(kMaxWidth) + " in all");
    h.head_dim = 1;
  }
  if (h.kv_heads > 0 && h.heads % h.kv_heads != 0)
    keys.refuse("key/value heads", std::to_string(h.kv_heads),
                "a divisor of the " + std::to_string(h.heads) + " query heads");
  if (h.rope.dims > h.head_dim || h.rope.dims % 2 != 0)
    keys.refuse("rotary dimensions", std::to_string(h.rope.dims),
                "an even number up to the head's " + std::to_string(h.head_dim));
}

// What the library that writes config.json stores with every model; none of it changes logits.
void ignore_library_keys(Keys& keys) {
  keys.ignore({"architectures",
               "model_type",
               "torch_dtype",
               "dtype",
               "transformers_version",
               "transformers.js_config.",
               "_name_or_path",
               "name_or_path",
               "auto_map.",
               "_attn_implementation",
               "attn_implementation",
               "_attn_implementation_autoset",
               "use_cache",
               "cache_implementation",
               "initializer_range",
               "attention_dropout",
               "hidden_dropout",
               "resid_pdrop",
               "embd_pdrop",
               "bos_token_id",
               "eos_token_id",
               "pad_token_id",
               "sep_token_id",
               "unk_token_id",
               "decoder_start_token_id",
               "tokenizer_class",
               "prefix"});
  keys.ignore({"chunk_size_feed_forward", "id2label.", "label2id.", "num_labels", "problem_type", "finetuning_task",
               "task_specific_params.", "is_decoder", "output_attentions", "output_hidden_states", "output_scores",
               "return_dict", "return_dict_in_generate", "torchscript", "tf_legacy_loss", "use_bfloat16",
               "gradient_checkpointing", "unsloth_fixed", "unsloth_version"});
  keys.ignore({"max_length",
               "min_length",
               "max_new_tokens",
               "do_sample",
               "early_stopping",
               "num_beams",
               "num_beam_groups",
               "diversity_penalty",
               "temperature",
               "top_k",
               "top_p",
               "typical_p",
               "repetition_penalty",
               "length_penalty",
               "no_repeat_ngram_size",
               "encoder_no_repeat_ngram_size",
               "bad_words_ids",
               "num_return_sequences",
               "forced_bos_token_id",
               "forced_eos_token_id",
               "remove_invalid_values",
               "exponential_decay_length_penalty",
               "suppress_tokens",
               "begin_suppress_tokens"});
  for (const char* other : {"is_encoder_decoder", "add_cross_attention", "tie_encoder_decoder"})
    keys.expect(other, false);  // another architecture
}

double positive(Keys& keys, const std::string& key, std::optional<double> preset = {}) {
  const double value = keys.number(key, preset);
  if (value > 0) return value;
  if (keys.has(key)) keys.refuse(key, std::to_string(value), "a number above 0");
  return 1;
}

}  // namespace

float Hyper::scale() const {
  return attention_scale > 0 ? attention_scale : 1 / std::sqrt(static_cast<float>(head_dim));
}

RopeSpec make_rope(const RopeHyper& rope) {
  RopeSpec out{rope.dims, rope.interleaved, {}, rope.skip, rope.scale};
  const Rope turn{
      .dim = rope.dims, .rotary = rope.dims, .base = rope.base, .scaling = rope.scaling, .divisors = rope.divisors};
  for (int i = 0; i < rope.dims / 2; ++i) out.inverse_frequency.push_back(turn.frequency(i));
  return out;
}

namespace {

// A factor without a type scales linearly, as it did before types had names.
void read_gguf_scaling(Keys& keys, RopeHyper& rope, int context) {
  const std::string kind = keys.text("rope.scaling.type", "linear");
  const double older = keys.number("rope.scale_linear", 1.0);
  const double factor = keys.number("rope.scaling.factor", older);
  if (kind == "linear") {
    rope.scaling = {.kind = RopeScaling::Kind::linear, .factor = factor > 0 ? factor : 1};
  } else if (kind == "yarn") {
    rope.scaling = {.kind = RopeScaling::Kind::yarn,
                    .factor = factor > 0 ? factor : 1,
                    .low = keys.number("rope.scaling.yarn_beta_slow", 1.0),
                    .high = keys.number("rope.scaling.yarn_beta_fast", 32.0),
                    .original_context = keys.number("rope.scaling.original_context_length", context)};
    rope.scale = yarn_scale(rope.scaling.factor);
    if (!(rope.scaling.low > 0 && rope.scaling.low < rope.scaling.high && rope.scaling.original_context > 0))
      keys.refuse("rope.scaling.yarn_beta_slow", std::to_string(rope.scaling.low), "a positive number below beta_fast");
  } else if (kind != "none") {
    keys.refuse("rope.scaling.type", kind, "none, linear or yarn");
  }
}

}  // namespace

namespace {

void read_gguf_sizes(Keys& keys, Hyper& h) {
  h.layers = keys.count("block_count", 1, kMaxLayers);
  h.context = keys.count("context_length", 1, kMaxContext);
  h.width = keys.count("embedding_length", 1, kMaxWidth);
  h.eps = static_cast<float>(keys.number("attention.layer_norm_rms_epsilon"));
  h.vocab = keys.count("vocab_size", 1, kMaxWidth, 0);
  keys.ignore({"tensor_data_layout"});
}

}  // namespace

void read_gguf_no_attention(Keys& keys, Hyper& h) {
  read_gguf_sizes(keys, h);
  h.heads = h.kv_heads = 1;
  keys.ignore({"feed_forward_length", "attention.head_count", "attention.head_count_kv", "rope.dimension_count"});
}

void read_gguf_common(Keys& keys, Hyper& h, bool routed) {
  read_gguf_sizes(keys, h);
  if (h.ff == 0) h.ff = keys.count("feed_forward_length", 1, kMaxWidth);
  h.heads = keys.count("attention.head_count", 1, kMaxHeads);
  if (h.kv_heads == 0) h.kv_heads = keys.count("attention.head_count_kv", 1, kMaxHeads, h.heads);
  h.head_dim = keys.count("attention.key_length", 1, kMaxWidth, h.heads > 0 ? h.width / h.heads : 0);
  const int values = keys.count("attention.value_length", 1, kMaxWidth, h.head_dim);
  if (values != h.head_dim && h.latent.rank == 0)
    keys.refuse("attention.value_length", keys.text("attention.value_length"), "attention.key_length");
  h.rope.dims = keys.count("rope.dimension_count", 2, kMaxWidth, h.head_dim);
  h.rope.base = keys.number("rope.freq_base", 10000.0);
  read_gguf_scaling(keys, h.rope, h.context);
  keys.expect("rope.scaling.attn_factor", 1.0);
  keys.expect("attention.causal", true);
  if (!routed) {
    keys.expect("expert_count", 0.0);
    keys.expect("expert_used_count", 0.0);
  }
  keys.ignore({"rope.scaling.original_context_length", "rope.scaling.finetuned"});
  check_heads(keys, h);
}

namespace {

// How much of each head turns, where a family lets its files say.
void read_partial_rotary(Keys& keys, const std::string& prefix, RopeHyper& rope) {
  const std::string key = prefix + "partial_rotary_factor";
  if (rope.partial == 0) return keys.expect(key, 1.0);
  if (!keys.has(key)) return;
  const double part = positive(keys, key);
  rope.dims = static_cast<int>(std::min(part, 1.0) * rope.partial);
  if (part > 1 || rope.dims < 2 || rope.dims % 2 != 0)
    keys.refuse(key, std::to_string(part),
                "a part of the head's " + std::to_string(rope.partial) + " entries that makes an even number of them");
}

// Peng et al. 2023 (YaRN); the weights of the attention factor: DeepSeek-AI 2024 (DeepSeek-V2).
void read_yarn(Keys& keys, const std::string& prefix, int context, RopeHyper& rope) {
  const double trained = keys.number(prefix + "original_max_position_embeddings", context);
  const double factor = keys.has(prefix + "factor") ? positive(keys, prefix + "factor") : context / trained;
  const double fast = keys.number(prefix + "beta_fast", 32.0), slow = keys.number(prefix + "beta_slow", 1.0);
  rope.scaling = {.kind = RopeScaling::Kind::yarn,
                  .factor = factor,
                  .low = slow != 0 ? slow : 1,
                  .high = fast != 0 ? fast : 32,
                  .original_context = trained,
                  .whole_pairs = keys.flag(prefix + "truncate", true)};
  if (!(rope.scaling.low > 0 && rope.scaling.low < rope.scaling.high))
    keys.refuse(prefix + "beta_slow", std::to_string(rope.scaling.low), "a positive number below beta_fast");
  if (!(trained > 0 && rope.base > 1))
    keys.refuse(prefix + "original_max_position_embeddings", std::to_string(trained), "a number above 0");
  const double mscale = keys.number(prefix + "mscale", 0.0), all = keys.number(prefix + "mscale_all_dim", 0.0);
  rope.scale =
      keys.number(prefix + "attention_factor",
                  mscale != 0 && all != 0 ? yarn_scale(factor, mscale) / yarn_scale(factor, all) : yarn_scale(factor));
}

}  // namespace

void read_config_rope(Keys& keys, const std::string& prefix, int context, RopeHyper& rope) {
  if (keys.has(prefix + "rope_theta")) rope.base = positive(keys, prefix + "rope_theta");
  const std::string older = keys.text(prefix + "type", "default");
  const std::string kind = keys.text(prefix + "rope_type", older);
  if (kind == "linear") {
    rope.scaling = {.kind = RopeScaling::Kind::linear, .factor = positive(keys, prefix + "factor")};
  } else if (kind == "llama3") {
    rope.scaling = {RopeScaling::Kind::llama3, positive(keys, prefix + "factor"),
                    positive(keys, prefix + "low_freq_factor"), positive(keys, prefix + "high_freq_factor"),
                    keys.number(prefix + "original_max_position_embeddings", context)};
    if (rope.scaling.low >= rope.scaling.high)
      keys.refuse(prefix + "low_freq_factor", std::to_string(rope.scaling.low), "a number below high_freq_factor");
  } else if (kind == "yarn") {
    read_yarn(keys, prefix, context, rope);
  } else if (kind != "default") {
    keys.refuse(prefix + "rope_type", kind, "default, linear, llama3 or yarn");
  }
  read_partial_rotary(keys, prefix, rope);
  for (const char* unused : {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings",
                             "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"})
    keys.ignore({prefix + unused});  // by the kinds above
}

void read_config_rope(Keys& keys, Hyper& h) {
  const int context = keys.count("original_max_position_embeddings", 1, kMaxContext, h.context);
  const bool older = keys.has("rope_scaling.rope_type") || keys.has("rope_scaling.type");
  read_config_rope(keys, older ? "rope_scaling." : "rope_parameters.", context, h.rope);
  if (older) keys.ignore({"rope_parameters."});
}

void read_config_llama_keys(Keys& keys, Hyper& h) {
  read_config_common(keys, h);
  h.tied = keys.flag("tie_word_embeddings", false);
  read_config_rope(keys, h);
  h.activation = read_activation(keys, "hidden_act", "silu");
  h.bias.qkv = h.bias.out = keys.flag("attention_bias", false);
  h.bias.mlp = keys.flag("mlp_bias", false);
}

bool has_text_config(const Metadata& metadata) {
  return std::any_of(metadata.entries().begin(), metadata.entries().end(),
                     [](const auto& entry) { return entry.key.starts_with("text_config."); });
}

status read_config_wrapper(const Metadata& metadata, Hyper& h) {
  Keys keys{metadata, ""};
  ignore_library_keys(keys);
  if (keys.has("tie_word_embeddings")) h.tied = keys.flag("tie_word_embeddings");
  keys.ignore({"text_config.", "vision_config.", "mm_tokens_per_image", "boi_token_index", "eoi_token_index",
               "image_token_index", "video_token_id", "vision_start_token_id", "vision_end_token_id", "boi_token_id",
               "eoi_token_id", "image_token_id"});
  return keys.finish();
}

void read_step_limits(Keys& keys, const char* key, ScanHyper& scan) {
  const auto limits = keys.numbers(key);
  if (limits.empty()) return;
  if (limits.size() != 2 || !(limits[0] <= limits[1])) return keys.refuse(key, "no interval", "two numbers, ascending");
  scan.step_low = static_cast<float>(limits[0]);
  scan.step_high = static_cast<float>(limits[1]);
}

Activation read_activation(Keys& keys, const char* key, const char* preset) {
  const std::string name = keys.text(key, preset);
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") return Activation::gelu_tanh;
  if (name != "silu" && name != "swish")
    keys.refuse(key, '"' + name + '"', "silu, swish, gelu_pytorch_tanh or gelu_new");
  return Activation::silu;
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
  if (h.rope.partial != 0) h.rope.partial = h.head_dim;
  h.rope.base = positive(keys, "rope_theta", h.rope.base);
  read_partial_rotary(keys, "", h.rope);
  ignore_library_keys(keys);
  check_heads(keys, h);
}

}  // namespace fourfold
