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

// What a layer of the delta rule reads, each [T, as many numbers as its heads have].
struct DeltaInputs {
  Columns query{}, key{}, value{};  // in front of the convolution
  Columns gate{}, decay{}, strength{};
};
struct DeltaParts {
  Mechanism mechanism = Mechanism::gated_delta;
  Activation gate = Activation::silu;
  float norm_eps = 0;
  const char* out = "ssm_out";  // the matrix that leads back
};
// x + the way back of: a convolution, the delta rule with queries and keys of unit length, a norm of each head, a gate.
// Yang, Kautz and Hatamizadeh 2024 (Gated DeltaNet); Kimi Team 2025 (Kimi Linear)
Value delta_mixer(Builder& b, Weights& w, const Hyper& h, const DeltaInputs& in, Value x, const DeltaParts& parts);
// Several dots of one input: one step where the file lets their rows be joined.
std::vector<Columns> project_pieces(Builder& b, Weights& w, const char* name, Input in,
                                    const std::vector<Weights::Piece>& pieces);

// x + softmax attention of `in` with rotary embedding `rope` (-1: none).
struct AttentionParts {
  int rope = -1;
  int window = 0;
  bool norms = false;   // over query and key heads
  bool gate = false;    // the file packs a gate behind each query head
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
