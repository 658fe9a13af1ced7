// Mixers: what stands in the place of attention in families with running states, as steps. Weights have GGUF's names.
#pragma once

#include "models/hyper.hpp"
#include "models/weights.hpp"
#include "program/builder.hpp"

namespace fourfold {

// Factors that some families put on the parts of a Mamba-2 mixer.
struct MixerScales {
  float z = 1, x = 1, b = 1, c = 1, dt = 1;
  float out = 1;
};

// x + the Mamba-2 mixer of `in`: one projection to [z, x, B, C, dt], a convolution over x, B and C, the scan with a
// skip, the gate, the norm of groups (where there is one), the way back.              Dao and Gu 2024
Value mamba2_mixer(Builder& b, Weights& w, const Hyper& h, Input in, Value x, const MixerScales& scales = {});

// x + the Mamba-1 mixer of `in`: steps of each channel come from `step_rank` numbers, B and C serve all channels.
// Gu and Dao 2023
Value mamba_mixer(Builder& b, Weights& w, const Hyper& h, Input in, Value x);

// x + softmax attention of `in` with rotary embedding `rope` (-1: none).
struct AttentionParts {
  int rope = -1;
  int window = 0;
  bool norms = false;   // over query and key heads
  float key_scale = 1;  // on keys
  float out_scale = 1;  // on what comes back
};
Value attention_mixer(Builder& b, Weights& w, const Hyper& h, Input in, Value x, const AttentionParts& parts);

// x + the gated feed-forward part of `in`.
struct FeedForwardScales {
  float gate = 1, out = 1;
};
Value gated_mlp(Builder& b, Weights& w, const Hyper& h, Input in, Value x, const FeedForwardScales& scales = {});

}  // namespace fourfold
