// SamplingOptions: how a row of logits becomes one token id. Names, order and default values are llama.cpp's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fourfold {

struct SamplingOptions {
  float temperature = 0.8f;        // <= 0: the best logit after penalties, whatever the other options say
  float dynatemp_range = 0.0f;     // temperature moves within +-range with the entropy; 0: fixed
  float dynatemp_exponent = 1.0f;  // how the normalised entropy maps to that interval
  int top_k = 40;                  // keep the k best; <= 0: all
  float top_p = 0.95f;             // keep the smallest set of this mass; 1: all
  float min_p = 0.05f;             // keep what has at least this share of the best probability; 0: all
  float typical_p = 1.0f;          // keep the most typical set of this mass; 1: all
  float top_n_sigma = -1.0f;       // keep what lies within n standard deviations of the best logit; <= 0: all
  float xtc_probability = 0.0f;    // chance per token that the top choices but the last are dropped
  float xtc_threshold = 0.1f;      // probability that makes a top choice; above 0.5: off
  int repeat_last_n = 64;          // accepted tokens that penalties look at; 0: none, -1: all
  float repeat_penalty = 1.0f;     // divides positive and multiplies other logits of tokens in the window
  float frequency_penalty = 0.0f;  // subtracted once per occurrence in the window
  float presence_penalty = 0.0f;   // subtracted once per token in the window
  float dry_multiplier = 0.0f;     // DRY: penalty of a token that prolongs a repetition; 0: off
  float dry_base = 1.75f;          // by which it grows with each token of the repetition
  int dry_allowed_length = 2;      // tokens that may be repeated
  int dry_penalty_last_n = -1;     // tokens it looks at; 0: none, -1: all
  std::vector<std::string> dry_sequence_breakers = {"\n", ":", "\"", "*"};  // end what can be repeated
  int mirostat = 0;                     // 1 or 2: the version that takes the place of penalties and filters; 0: off
  float mirostat_tau = 5.0f;            // surprise to steer for, in bits
  float mirostat_eta = 0.1f;            // how fast
  int min_keep = 0;                     // filters leave at least this many candidates
  std::optional<std::uint64_t> seed{};  // none: a random one
};

}  // namespace fourfold
