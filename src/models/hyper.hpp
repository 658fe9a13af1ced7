// Hyper: the hyper-parameters every family here shares, in one form whatever file they came from.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "fourfold/program.hpp"
#include "fourfold/rope.hpp"
#include "fourfold/status.hpp"

namespace fourfold {

inline constexpr std::int64_t kMaxLayers = 4096;

struct RopeHyper {
  double base = 10000;
  int dims = 0;  // rotated entries of each head
  bool interleaved = false;
  RopeScaling scaling{};
  std::vector<float> divisors{};  // per frequency, when the file stores them as a tensor
  int skip = 0;                   // entries of a head in front of those that turn
  double scale = 1;               // of the turned entries
  int partial = 0;                // not 0: a family's files may turn a part; then all entries of a head
};

// Of layers with a running state.
struct ScanHyper {
  int heads = 0, key_heads = 0;  // of values; of keys and queries (Mamba's groups)
  int key_dim = 0, value_dim = 0;
  int kernel = 0;                                       // of the short convolution
  int step_rank = 0;                                    // of Mamba-1's steps
  std::optional<bool> conv_bias{}, bias{}, out_bias{};  // of the convolution and the projections there and back
  bool rate_is_log = true;                              // the file stores log(-A)
  float step_low = 0, step_high = std::numeric_limits<float>::infinity();
  float strength_scale = 1;
  float floor = 0;             // of decays (program.hpp, ScanStep)
  int norm_group = 0;          // numbers that the gated norm takes together; 0: there is none
  bool optional_norm = false;  // there is one where the file has it
  bool gate_first = true;
  bool tiled = false;  // value head v reads key head v % key_heads, and not v / (heads / key_heads)

  int inner() const { return heads * value_dim; }
  int keys() const { return key_heads * key_dim; }
};

// Of layers with routed experts.
struct ExpertsHyper {
  int count = 0;  // 0: the model has none
  RouteRule rule{};
  int ff = 0;
  int latent = 0;               // numbers that routed experts work on; 0: the width of the residual stream
  float out_scale = 1;          // of what experts add to the residual stream
  int shared_ff = 0;            // of all shared experts together; 0: there are none
  bool shared_gate = false;     // each token weighs them
  bool bias = false;            // of router and experts
  bool selection_bias = false;  // the router's, that only selects
  ExpertGate gate = ExpertGate::plain;
  float alpha = 0, limit = 0;
  std::vector<bool> routed{};  // per layer; empty: all are

  bool in_layer(int layer) const { return count > 0 && (routed.empty() || routed[static_cast<std::size_t>(layer)]); }
};

// Factors that some families put between the parts of a layer.
struct Multipliers {
  float logits = 1, key = 1, attention_in = 1, attention_out = 1, scan_in = 1, scan_out = 1, residual = 1;
  std::vector<float> mlp{1, 1};            // on the gate, and on what comes back
  std::vector<float> scan{1, 1, 1, 1, 1};  // on z, x, B, C and the steps
};

// What stands in a layer of a hybrid family.
enum class LayerKind : std::uint8_t { attention, scan, feed_forward, experts };

// Multi-head latent attention, and the indexer that chooses its keys.
struct LatentHyper {
  int query_rank = 0;  // 0: queries come straight from the residual stream
  int rank = 0, nope = 0, rotary = 0, columns = 0;
  bool head_gate = false;                               // each head's output passes a sigmoid
  int index_heads = 0, index_dim = 0, index_count = 0;  // 0: every key counts
};

struct Hyper {
  int layers = 0;
  int width = 0;  // of the residual stream
  int heads = 0, kv_heads = 0, head_dim = 0;
  int ff = 0;  // feed-forward width
  int vocab = 0;
  int context = 0;  // longest the model was made for
  float eps = 1e-6f;
  float norm_add = 0;  // 1 where files store norm weights as w for 1 + w
  Activation activation = Activation::silu;
  RopeHyper rope{};            // of layers that see everything
  RopeHyper local_rope{};      // of layers with a window, where a family tells them apart
  std::vector<int> windows{};  // per layer; 0: sees everything. Empty: all do
  float attention_scale = 0;   // 0: 1 / sqrt(head_dim)
  float embedding_scale = 1;
  float logit_soft_cap = 0;  // 0: none
  struct {
    std::optional<bool> qkv{}, out{}, mlp{};
  } bias;                      // which projections have one; unset: those with one in the file
  std::optional<bool> tied{};  // the output matrix is the embedding table; unset: when the file has no other

  ScanHyper scan{};
  ExpertsHyper experts{};
  LatentHyper latent{};
  Multipliers multipliers{};
  bool positions = true;             // attention turns its heads
  std::vector<LayerKind> kinds{};    // per layer, of hybrid families
  std::optional<bool> head_norms{};  // over query and key heads; unset: where the file has them
  bool attends(int layer) const { return kinds[static_cast<std::size_t>(layer)] == LayerKind::attention; }

  int window(int layer) const { return windows.empty() ? 0 : windows[static_cast<std::size_t>(layer)]; }
  float scale() const;
};

// Inverse frequencies base^(-2i/dims), scaled as the file says (rope.hpp).
RopeSpec make_rope(const RopeHyper& rope);

class Keys;
class Metadata;

// The keys all families share, from GGUF ("llama.block_count", ...) or config.json ("num_hidden_layers", ...). Sizes a
// family has set beforehand stand where config.json does not say; in GGUF a width or a number of key/value heads set
// beforehand stands for the file's, which says them layer by layer.
// `routed`: the family reads the keys of experts itself; others refuse files that have some.
void read_gguf_common(Keys& keys, Hyper& hyper, bool routed = false);
// The same of families that never attend: their files give 0 heads.
void read_gguf_no_attention(Keys& keys, Hyper& hyper);
void read_config_common(Keys& keys, Hyper& hyper);
// The rotary parameters of a family with one set of them: `rope_theta` and `rope_scaling`, or `rope_parameters`.
void read_config_rope(Keys& keys, Hyper& hyper);
// One set in a config.json, under "rope_scaling.", "rope_parameters." or "rope_parameters.KIND.".
void read_config_rope(Keys& keys, const std::string& prefix, int context, RopeHyper& rope);
// What llama's config.json says and several families say as it does: the common keys, tied embeddings, rotary
// parameters, the activation, biases.
void read_config_llama_keys(Keys& keys, Hyper& hyper);
// A multimodal model's config.json keeps the text model's keys under "text_config."; the rest is read by this.
bool has_text_config(const Metadata& metadata);
status read_config_wrapper(const Metadata& metadata, Hyper& hyper);
// [low, high] of a scan's steps.
void read_step_limits(Keys& keys, const char* key, ScanHyper& scan);
// The gate's activation by the name config.json gives it.
Activation read_activation(Keys& keys, const char* key, const char* preset);

}  // namespace fourfold
