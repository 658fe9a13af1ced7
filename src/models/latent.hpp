// Multi-head latent attention as steps. Weights have GGUF's names.
#pragma once

#include "models/hyper.hpp"
#include "models/keys.hpp"
#include "models/weights.hpp"
#include "program/builder.hpp"

namespace fourfold {

// config.json's sizes of latents and heads: q_lora_rank (may be absent), kv_lora_rank, qk_nope_head_dim,
// qk_rope_head_dim, v_head_dim. What a family has set stands where the file does not say.
void read_config_latent(Keys& keys, Hyper& h);

// GGUF's common keys and those sizes, which it calls attention.{kv,q}_lora_rank, key_length_mla, value_length_mla
// (older files: key_length, value_length) and rope.dimension_count.
void read_gguf_latent(Keys& keys, Hyper& h);

// The three ways in which a layer turns what it caches; -1: not at all.
struct LatentRopes {
  int query = -1, latent = -1, index = -1;
};
LatentRopes latent_ropes(Builder& b, const Hyper& h);

// x + the attention of `in`.
Value latent_attention(Builder& b, Weights& w, const Hyper& h, const LatentRopes& ropes, Input in, Value x);

}  // namespace fourfold
