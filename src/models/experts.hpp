// Feed-forward parts with routed experts, as steps. Weights have GGUF's names.
#pragma once

#include <string_view>

#include "models/hyper.hpp"
#include "models/keys.hpp"
#include "models/weights.hpp"
#include "program/builder.hpp"

namespace fourfold {

inline constexpr std::int64_t kMaxExperts = 1 << 16;

// The width of so many shared experts, each as wide as a routed one, side by side.
int shared_width(Keys& keys, const char* count, int preset, const ExpertsHyper& e);
// GGUF's keys; a model without experts has none. What a family has set in h.experts stands where the file does not say.
void read_gguf_experts(Keys& keys, Hyper& h);
// config.json: `count` is the key of the number of experts. Reads num_experts_per_tok and drops what training used.
void read_config_experts(Keys& keys, Hyper& h, std::string_view count);
// config.json: which layers have experts: those that "mlp_layer_types" calls sparse, or all behind the first
// "first_k_dense_replace" (`dense` where the file does not say).
void read_config_routed_layers(Keys& keys, Hyper& h, int dense);

// x + experts of `in` that each token chooses, and the shared ones where there are any.
Value routed_mlp(Builder& b, Weights& w, const Hyper& h, Input in, Value x);
// The same, or the dense feed-forward part where the layer is not routed.
Value feed_forward(Builder& b, Weights& w, const Hyper& h, int layer, Input in, Value x);

}  // namespace fourfold
