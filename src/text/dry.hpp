// DRY ("don't repeat yourself"): a penalty that grows with the length of the repetition a token would prolong.
//
// If the last L tokens stand earlier in the text too, and token t followed them there, t's logit loses
// multiplier * base^(L - allowed_length), for the longest such L of at least allowed_length. A sequence breaker ends
// what can be repeated. Names, defaults and rules are those of llama.cpp's sampler.
#pragma once

#include <fourfold/sampling.hpp>
#include <map>
#include <span>
#include <vector>

namespace fourfold {

class Tokenizer;

// The last token of a breaker's text begins a breaker when the tokens after it are one of these; by that token.
using DryBreakers = std::multimap<int, std::vector<int>>;

// Tokens whose text holds a breaker, and those whose text ends in the beginning of one, with the tokens of its rest.
DryBreakers dry_breakers(const Tokenizer& tokenizer, std::span<const std::string> breakers);

class Dry {
 public:
  Dry(const SamplingOptions& options, DryBreakers breakers);

  bool on() const { return multiplier_ != 0 && base_ >= 1 && last_n_ != 0; }
  void accept(int id);
  void reset() { tokens_.clear(); }
  // Subtracts the penalties from logits [vocab].
  void penalise(std::span<float> logits);

 private:
  int longest_repeatable(int n) const;

  float multiplier_, base_;
  int allowed_, last_n_;
  DryBreakers breakers_;
  std::vector<int> tokens_;  // accepted, oldest first
  std::vector<int> match_;   // by distance from the end: how long the text's end also ends there
};

}  // namespace fourfold
