// From a row of logits to one token id.
//
// The chain, its order and its default values are llama.cpp's: penalties, DRY, top-n-sigma, top-k, typical-p, top-p,
// min-p, XTC, temperature (fixed or dynamic), then one draw; or temperature, mirostat, one draw. Order among logits,
// here and everywhere: value descending, index ascending, NaN last. Greedy decoding reads the row once (4 bytes per
// entry of the vocabulary: memory binds).
#pragma once

#include <array>
#include <cstdint>
#include <fourfold/sampling.hpp>
#include <fourfold/status.hpp>
#include <span>
#include <utility>
#include <vector>

#include "text/dry.hpp"

namespace fourfold {

// Whether nothing but the temperature, top-k, top-p and min-p is in force.
bool only_filters(const SamplingOptions& options);
// The one asked for, or a random one.
std::uint64_t seed_of(const SamplingOptions& options);

// Ok, or invalid_argument naming the first field that is out of its range.
status validate(const SamplingOptions& options);

struct Candidate {
  int id;
  float logit;
};

// Value descending, index ascending, NaN last.
bool ranks_before(const Candidate& a, const Candidate& b);

// The id that ranks first; 0 for an empty row.
int argmax(std::span<const float> logits);

// The min(k, size) candidates that rank first, in order. Selects, never sorts the whole row.
std::vector<Candidate> top_k(std::span<const float> logits, int k);

// xoshiro256++ 1.0 (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021), its state filled by
// SplitMix64 from one seed. The same seed gives the same numbers on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed);
  std::uint64_t next();
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }  // [0, 1)

 private:
  std::array<std::uint64_t, 4> state_;
};

// Needs validate(options).ok(). Not safe to share between threads. After the constructor only a window
// beyond 65536 tokens allocates, and DRY the tokens it penalises.
class Sampler {
 public:
  // `breakers`: of options.dry_sequence_breakers, for a vocabulary that has texts.
  Sampler(const SamplingOptions& options, int vocab, DryBreakers breakers = {});

  // One id for logits [vocab]. NaN is never drawn unless every logit is NaN, which gives id 0.
  int sample(std::span<const float> logits);

  // Adds a token, of the prompt or generated, to the window of the penalties; ids outside the vocabulary are ignored.
  void accept(int id);

  // Forgets accepted tokens; the generator goes on.
  void reset();

  // The logits after repeat, frequency, presence and DRY penalties: the argument itself when none is in force, else a
  // view that the next call overwrites.
  std::span<const float> penalised(std::span<const float> logits);

  std::uint64_t seed() const { return seed_; }

 private:
  void select(std::span<const float> logits);
  void keep_likeliest(double mass, double total);
  void keep_most_typical(double mass);
  void keep_at_least(float logit);
  void drop_top_choices();
  float dynamic_temperature() const;
  const Candidate& draw(float temperature);
  int sample_by_surprise(std::span<const float> logits);
  std::size_t likeliest_by_zipf(double total) const;
  std::size_t min_keep() const { return options_.min_keep > 1 ? static_cast<std::size_t>(options_.min_keep) : 1; }

  SamplingOptions options_;
  std::uint64_t seed_;
  Random random_;
  std::vector<int> counts_;     // [vocab] occurrences in the window
  std::vector<int> window_;     // accepted ids: a ring when repeat_last_n > 0
  std::size_t oldest_ = 0;      // index into the full ring
  std::vector<float> scratch_;  // [vocab] penalised logits
  Dry dry_;
  float most_surprise_;                              // mirostat's mu, in bits
  std::vector<double> blocks_;                       // a draw's weights, summed by blocks of candidates
  std::vector<Candidate> candidates_;                // what the filters have left
  std::vector<std::pair<double, Candidate>> order_;  // typical-p: distance from the expected surprise
};

}  // namespace fourfold
