// The sampling chain. Each filter shortens candidates_; sums of probabilities are double. A filter's result, order
// included, depends only on its input, so that one seed gives one text on every machine.
#include "text/sampling.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <random>
#include <string>

namespace fourfold {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The largest of n values, NaN apart; -inf when there is none. Sixteen running maxima, so that it vectorises.
float largest(const float* x, std::size_t n) {
  constexpr std::size_t kLanes = 16;
  float lanes[kLanes];
  std::fill(std::begin(lanes), std::end(lanes), -kInfinity);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::size_t j = 0; j < kLanes; ++j) lanes[j] = x[i + j] > lanes[j] ? x[i + j] : lanes[j];
  for (; i < n; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  return *std::max_element(std::begin(lanes), std::end(lanes));
}

// Puts the k that rank first into out, in order: a heap whose top ranks last, and blocks skipped by their maximum.
void select_top_k(std::span<const float> logits, std::size_t k, std::vector<Candidate>& out) {
  constexpr std::size_t kBlock = 64;
  out.clear();
  if (k == 0) return;
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, logits.size());
    if (out.size() == k && largest(&logits[begin], end - begin) <= out.front().logit) continue;
    for (std::size_t i = begin; i < end; ++i) {
      const Candidate candidate{static_cast<int>(i), logits[i]};
      if (out.size() == k) {
        if (!ranks_before(candidate, out.front())) continue;
        std::pop_heap(out.begin(), out.end(), ranks_before);
        out.pop_back();
      }
      out.push_back(candidate);
      std::push_heap(out.begin(), out.end(), ranks_before);
    }
  }
  std::sort_heap(out.begin(), out.end(), ranks_before);
}

// The logit n standard deviations below the best; infinite logits do not count towards the deviation.
float sigma_threshold(std::span<const float> logits, float n) {
  double sum = 0, squares = 0;
  std::size_t count = 0;
  for (float x : logits)
    if (std::isfinite(x)) sum += x, ++count;
  if (count == 0) return -kInfinity;
  const double mean = sum / static_cast<double>(count);
  for (float x : logits)
    if (std::isfinite(x)) squares += (x - mean) * (x - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(count));
  return static_cast<float>(largest(logits.data(), logits.size()) - n * deviation);
}

float best_of(std::span<const Candidate> candidates) {
  float best = -kInfinity;
  for (const auto& c : candidates) best = c.logit > best ? c.logit : best;
  return best;
}

// exp(x) for x <= 0, within 2 units in the last place; below -708: 0. Without a branch, so that loops of it vectorise,
// and the same on every machine. x = k ln 2 + r, |r| <= ln 2 / 2; Taylor's polynomial of degree 13 is off by 4e-18.
inline double exp_of_negative(double x) {
  constexpr double kRound = 0x1.8p52, kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;
  const double clamped = x > -708 ? x : -708;
  const double shifted = clamped * 0x1.71547652b82fep0 + kRound, k = shifted - kRound;
  const double r = (clamped - k * kLn2High) - k * kLn2Low;
  double p = 1.0 / 6227020800;
  for (const double factorial :
       {479001600.0, 39916800.0, 3628800.0, 362880.0, 40320.0, 5040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0})
    p = p * r + 1 / factorial;
  const auto exponent = (std::bit_cast<std::uint64_t>(shifted) + 1023) << 52;
  return x > -708 ? p * std::bit_cast<double>(exponent) : 0;
}

constexpr std::size_t kBlock = 256;   // candidates weighed together
constexpr std::size_t kFitted = 100;  // of mirostat: likeliest tokens that show how probabilities fall

float logit_of(const Candidate& c) { return c.logit; }
float logit_of(float logit) { return logit; }

// exp((logit - best) / temperature) of up to kBlock candidates, or logits; 1 for the best, also when it is infinite.
template <class T>
double weigh(std::span<T> candidates, float best, double temperature, double* out) {
  double lanes[8] = {}, x[kBlock];
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const float logit = logit_of(candidates[i]);
    x[i] = logit == best ? 0 : (static_cast<double>(logit) - best) / temperature;
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) out[i] = exp_of_negative(x[i]);
  for (std::size_t i = 0; i < candidates.size(); ++i) lanes[i % 8] += out[i];
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

template <class T>
double total_weight(std::span<T> candidates, float best) {
  double weights[kBlock], total = 0;
  for (std::size_t i = 0; i < candidates.size(); i += kBlock)
    total += weigh(candidates.subspan(i, std::min(kBlock, candidates.size() - i)), best, 1, weights);
  return total;
}

double weight(float logit, float best) {
  return logit == best ? 1.0 : exp_of_negative(static_cast<double>(logit) - best);
}

struct Softmax {
  float best;
  double total;

  explicit Softmax(std::span<const Candidate> candidates)
      : best(best_of(candidates)), total(total_weight(candidates, best)) {}
  double operator()(const Candidate& c) const { return weight(c.logit, best) / total; }
};

double entropy(std::span<const Candidate> candidates, const Softmax& probability) {
  double sum = 0;
  for (const auto& c : candidates) {
    const double p = probability(c);
    if (p > 0) sum -= p * std::log(p);
  }
  return sum;
}

std::uint64_t random_seed() {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

}  // namespace

bool counts_tokens(const SamplingOptions& o) {
  return o.repeat_last_n != 0 && (o.repeat_penalty != 1 || o.frequency_penalty != 0 || o.presence_penalty != 0);
}

bool only_filters(const SamplingOptions& o) {
  if (counts_tokens(o) || o.dry_multiplier != 0) return false;
  return o.temperature <= 0 || (o.mirostat == 0 && o.dynatemp_range == 0 && o.typical_p >= 1 && o.top_n_sigma <= 0 &&
                                o.xtc_probability == 0 && o.min_keep <= 1);
}

std::uint64_t seed_of(const SamplingOptions& o) { return o.seed ? *o.seed : random_seed(); }

status validate(const SamplingOptions& o) {
  constexpr float kMost = std::numeric_limits<float>::max();
  constexpr float kLeast = std::numeric_limits<float>::min();
  const struct {
    const char* field;
    float value, low, high;
    const char* accepted;
  } rows[] = {
      {"temperature", o.temperature, -kMost, kMost, "a finite number (0 or less: greedy)"},
      {"dynatemp_range", o.dynatemp_range, 0, kMost, "a finite number of at least 0 (0: fixed temperature)"},
      {"dynatemp_exponent", o.dynatemp_exponent, kLeast, kMost, "a finite number above 0"},
      {"top_p", o.top_p, 0, 1, "a number from 0 to 1 (1: off)"},
      {"min_p", o.min_p, 0, 1, "a number from 0 to 1 (0: off)"},
      {"typical_p", o.typical_p, 0, 1, "a number from 0 to 1 (1: off)"},
      {"top_n_sigma", o.top_n_sigma, -kMost, kMost, "a finite number (0 or less: off)"},
      {"xtc_probability", o.xtc_probability, 0, 1, "a number from 0 to 1 (0: off)"},
      {"xtc_threshold", o.xtc_threshold, 0, 1, "a number from 0 to 1 (above 0.5: off)"},
      {"repeat_last_n", static_cast<float>(o.repeat_last_n), -1, kMost, "0 (off), -1 (all tokens) or a count"},
      {"repeat_penalty", o.repeat_penalty, kLeast, kMost, "a finite number above 0 (1: off)"},
      {"frequency_penalty", o.frequency_penalty, -kMost, kMost, "a finite number (0: off)"},
      {"presence_penalty", o.presence_penalty, -kMost, kMost, "a finite number (0: off)"},
      {"dry_multiplier", o.dry_multiplier, 0, kMost, "a finite number of at least 0 (0: off)"},
      {"dry_base", o.dry_base, 0, kMost, "a finite number of at least 0 (below 1: off)"},
      {"dry_allowed_length", static_cast<float>(o.dry_allowed_length), 0, kMost, "a count of at least 0"},
      {"dry_penalty_last_n", static_cast<float>(o.dry_penalty_last_n), -1, kMost,
       "0 (off), -1 (all tokens) or a count"},
      {"mirostat", static_cast<float>(o.mirostat), 0, 2, "0 (off), 1 or 2"},
      {"mirostat_tau", o.mirostat_tau, 0, kMost, "a finite number of bits, at least 0"},
      {"mirostat_eta", o.mirostat_eta, 0, kMost, "a finite number of at least 0"},
      {"min_keep", static_cast<float>(o.min_keep), 0, kMost, "a count of at least 0"},
  };
  for (const auto& row : rows) {
    if (row.value >= row.low && row.value <= row.high) continue;
    char value[32];
    std::snprintf(value, sizeof value, "%g", static_cast<double>(row.value));
    return {Code::invalid_argument, std::string(row.field) + " is " + value + "; give " + row.accepted};
  }
  return {};
}

bool ranks_before(const Candidate& a, const Candidate& b) {
  if (a.logit != b.logit && !(std::isnan(a.logit) && std::isnan(b.logit)))
    return std::isnan(b.logit) || a.logit > b.logit;
  return a.id < b.id;
}

int argmax(std::span<const float> logits) {
  constexpr std::size_t kBlock = 1024;
  float best = -kInfinity;
  std::size_t block = logits.size();
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const float most = largest(&logits[begin], std::min(kBlock, logits.size() - begin));
    if (most > best) best = most, block = begin;
  }
  if (block == logits.size()) block = 0;  // nothing above -inf: the first -inf, or 0 when all are NaN
  const auto hit = std::find(logits.begin() + static_cast<std::ptrdiff_t>(block), logits.end(), best);
  return hit == logits.end() ? 0 : static_cast<int>(hit - logits.begin());
}

std::vector<Candidate> top_k(std::span<const float> logits, int k) {
  std::vector<Candidate> out;
  select_top_k(logits, static_cast<std::size_t>(std::max(k, 0)), out);
  return out;
}

Random::Random(std::uint64_t seed) {
  for (auto& word : state_) {  // SplitMix64
    std::uint64_t z = (seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    word = z ^ (z >> 31);
  }
}

std::uint64_t Random::next() {
  auto& s = state_;
  const std::uint64_t out = std::rotl(s[0] + s[3], 23) + s[0];
  const std::uint64_t t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = std::rotl(s[3], 45);
  return out;
}

Sampler::Sampler(const SamplingOptions& options, int vocab, DryBreakers breakers)
    : options_(options),
      seed_(seed_of(options)),
      random_(seed_),
      dry_(options, std::move(breakers)),
      most_surprise_(2 * options.mirostat_tau) {
  const auto size = static_cast<std::size_t>(std::max(vocab, 0));
  counts_.resize(size);
  scratch_.reserve(size);
  if (options_.temperature > 0) candidates_.reserve(size);
  if (options_.temperature > 0) blocks_.reserve(size / kBlock + 1);
  if (options_.temperature > 0 && options_.typical_p < 1) order_.reserve(size);
  constexpr int kLongestReserved = 1 << 16;
  window_.reserve(static_cast<std::size_t>(std::clamp(options_.repeat_last_n, 0, kLongestReserved)));
}

void Sampler::accept(int id) {
  if (id < 0 || static_cast<std::size_t>(id) >= counts_.size()) return;
  dry_.accept(id);
  if (options_.repeat_last_n == 0) return;
  ++counts_[static_cast<std::size_t>(id)];
  if (options_.repeat_last_n < 0 || window_.size() < static_cast<std::size_t>(options_.repeat_last_n)) {
    window_.push_back(id);
    return;
  }
  --counts_[static_cast<std::size_t>(window_[oldest_])];
  window_[oldest_] = id;
  oldest_ = (oldest_ + 1) % window_.size();
}

void Sampler::reset() {
  for (int id : window_) counts_[static_cast<std::size_t>(id)] = 0;
  window_.clear();
  oldest_ = 0;
  dry_.reset();
}

std::span<const float> Sampler::penalised(std::span<const float> logits) {
  const auto& o = options_;
  if ((!counts_tokens(o) || window_.empty()) && !dry_.on()) return logits;
  scratch_.assign(logits.begin(), logits.end());
  for (int id : window_) {  // a repeated id is computed anew from its logit, so each is penalised once
    const auto i = static_cast<std::size_t>(id);
    if (i >= logits.size()) continue;
    const float x = logits[i];
    scratch_[i] = (x > 0 ? x / o.repeat_penalty : x * o.repeat_penalty) -
                  static_cast<float>(counts_[i]) * o.frequency_penalty - o.presence_penalty;
  }
  dry_.penalise(scratch_);
  return scratch_;
}

int Sampler::sample(std::span<const float> logits) {
  if (options_.mirostat > 0 && options_.temperature > 0) return sample_by_surprise(logits);
  const auto row = penalised(logits);
  if (options_.temperature <= 0) return argmax(row);
  const auto& o = options_;
  double total = 1;  // of weights, for top-p
  if (o.top_k <= 0 && o.top_n_sigma <= 0 && o.typical_p >= 1 && o.min_p > 0 && min_keep() == 1) {
    // Top-p and min-p keep a leading part of the ranking: what min-p is to drop need not be looked at twice.
    const float best = largest(row.data(), row.size()), least = best + std::log(o.min_p);
    candidates_.clear();
    for (std::size_t i = 0; i < row.size(); ++i)
      if (row[i] >= least) candidates_.push_back({static_cast<int>(i), row[i]});
    if (o.top_p < 1) total = total_weight(row, best);
  } else {
    select(row);
    if (o.typical_p < 1) keep_most_typical(o.typical_p);
    if (o.top_p < 1) total = Softmax(candidates_).total;
  }
  if (candidates_.empty()) return 0;
  if (o.top_p < 1) keep_likeliest(o.top_p, total);
  if (o.min_p > 0) keep_at_least(best_of(candidates_) + std::log(o.min_p));
  drop_top_choices();
  return draw(o.dynatemp_range > 0 ? dynamic_temperature() : o.temperature).id;
}

// Top-n-sigma and top-k. They commute: both keep a leading part of the ranking.
void Sampler::select(std::span<const float> logits) {
  if (options_.top_k > 0 && static_cast<std::size_t>(options_.top_k) < logits.size()) {
    select_top_k(logits, std::max(static_cast<std::size_t>(options_.top_k), min_keep()), candidates_);
  } else {
    candidates_.clear();
    for (std::size_t i = 0; i < logits.size(); ++i) candidates_.push_back({static_cast<int>(i), logits[i]});
  }
  std::erase_if(candidates_, [](const Candidate& c) { return std::isnan(c.logit); });
  if (options_.top_n_sigma > 0) {
    const float threshold = sigma_threshold(logits, options_.top_n_sigma);
    std::erase_if(candidates_, [=](const Candidate& c) { return c.logit < threshold; });
  }
}

// Top-p of a row whose weights sum to `total`: sorts no more candidates than it has to look at.
void Sampler::keep_likeliest(double mass, double total) {
  const float best = best_of(candidates_);
  double sum = 0;
  std::size_t sorted = 0;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (i == sorted) {
      sorted = std::min(candidates_.size(), std::max<std::size_t>(64, 4 * sorted));
      std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(sorted),
                        candidates_.end(), ranks_before);
    }
    sum += weight(candidates_[i].logit, best) / total;
    if (sum >= mass && i + 1 >= min_keep()) return candidates_.resize(i + 1);
  }
}

// Locally typical sampling (Meister et al., 2022): first what is about as surprising as the entropy predicts.
void Sampler::keep_most_typical(double mass) {
  const Softmax probability(candidates_);
  const double expected = entropy(candidates_, probability);
  order_.clear();
  for (const auto& c : candidates_) order_.emplace_back(std::abs(-std::log(probability(c)) - expected), c);
  std::sort(order_.begin(), order_.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : ranks_before(a.second, b.second);
  });
  double sum = 0;
  std::size_t kept = 0;
  for (const auto& [distance, candidate] : order_) {
    candidates_[kept++] = candidate;
    sum += probability(candidate);
    if (sum > mass && kept >= min_keep()) break;
  }
  candidates_.resize(kept);
}

// Min-p.
void Sampler::keep_at_least(float logit) {
  const auto below = [=](const Candidate& c) { return c.logit < logit; };
  const auto kept = static_cast<std::size_t>(std::count_if(candidates_.begin(), candidates_.end(), std::not_fn(below)));
  if (kept >= min_keep()) {
    std::erase_if(candidates_, below);
  } else if (min_keep() < candidates_.size()) {
    const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(min_keep());
    std::partial_sort(candidates_.begin(), end, candidates_.end(), ranks_before);
    candidates_.erase(end, candidates_.end());
  }
}

// XTC ("exclude top choices"): with some chance, every candidate above the threshold but the last of them goes.
void Sampler::drop_top_choices() {
  const auto& o = options_;
  if (o.xtc_probability <= 0 || o.xtc_threshold > 0.5f || candidates_.size() < 2) return;
  if (random_.uniform() > o.xtc_probability) return;
  const Softmax probability(candidates_);
  const auto is_top = [&](const Candidate& c) { return probability(c) >= o.xtc_threshold; };
  const Candidate* last = nullptr;
  std::size_t tops = 0;
  for (const auto& c : candidates_) {
    if (!is_top(c)) continue;
    ++tops;
    if (!last || ranks_before(*last, c)) last = &c;
  }
  if (tops < 2 || candidates_.size() - (tops - 1) < min_keep()) return;
  const int spared = last->id;
  std::erase_if(candidates_, [&](const Candidate& c) { return c.id != spared && is_top(c); });
}

// Temperature between temperature - range and temperature + range, by the share of the highest possible entropy.
float Sampler::dynamic_temperature() const {
  if (candidates_.size() < 2) return options_.temperature;
  const double share = entropy(candidates_, Softmax(candidates_)) / std::log(static_cast<double>(candidates_.size()));
  const double low = std::max(0.0, static_cast<double>(options_.temperature) - options_.dynatemp_range);
  const double high = static_cast<double>(options_.temperature) + options_.dynatemp_range;
  return static_cast<float>(low + (high - low) * std::pow(share, static_cast<double>(options_.dynatemp_exponent)));
}

const Candidate& Sampler::draw(float temperature) {
  const std::span<const Candidate> all(candidates_);
  const float best = best_of(all);
  const auto block = [&](std::size_t i) { return all.subspan(i * kBlock, std::min(kBlock, all.size() - i * kBlock)); };
  double weights[kBlock], total = 0;
  blocks_.clear();
  for (std::size_t i = 0; i * kBlock < all.size(); ++i) {
    blocks_.push_back(weigh(block(i), best, static_cast<double>(temperature), weights));
    total += blocks_.back();
  }
  double left = random_.uniform() * total;
  std::size_t hit = 0;
  while (hit + 1 < blocks_.size() && left >= blocks_[hit]) left -= blocks_[hit++];
  weigh(block(hit), best, static_cast<double>(temperature), weights);
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < block(hit).size() && left >= 0; ++i)
    if (weights[i] > 0) chosen = i, left -= weights[i];
  return block(hit)[chosen];
}

// How many tokens to keep so that the expected surprise is most_surprise_, if probabilities follow Zipf's law with the
// exponent that fits the 100 likeliest: eq. 30 and theorem 2 of Basu et al. 2021. The
// first kFitted candidates_ are in order.
std::size_t Sampler::likeliest_by_zipf(double total) const {
  double products = 0, squares = 0;
  const float best = candidates_.front().logit;
  for (std::size_t i = 0; i + 1 < std::min(kFitted, candidates_.size()); ++i) {
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    const double p = weight(candidates_[i].logit, best) / total, q = weight(candidates_[i + 1].logit, best) / total;
    if (!(q > 0)) break;
    products += t * std::log(p / q);
    squares += t * t;
  }
  if (!(squares > 0)) return 1;
  const double s = products / squares, e = s - 1;
  const double k = std::pow(
      e * std::exp2(static_cast<double>(most_surprise_)) / (1 - std::pow(static_cast<double>(counts_.size()), -e)),
      1 / s);
  if (std::isnan(k)) return candidates_.size();  // probabilities that hardly fall: every token
  return static_cast<std::size_t>(std::clamp(k, 1.0, static_cast<double>(candidates_.size())));
}

// Mirostat (Basu et al. 2021) and its second version: cuts what is too surprising, and moves the cut so that the
// surprise of the tokens drawn comes to mirostat_tau bits.
int Sampler::sample_by_surprise(std::span<const float> logits) {
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (!std::isnan(logits[i])) candidates_.push_back({static_cast<int>(i), logits[i] / options_.temperature});
  if (candidates_.empty()) return 0;
  const Softmax all(candidates_);
  if (options_.mirostat == 1) {
    const auto at = [&](std::size_t i) { return candidates_.begin() + static_cast<std::ptrdiff_t>(i); };
    std::partial_sort(at(0), at(std::min(kFitted, candidates_.size())), candidates_.end(), ranks_before);
    const std::size_t kept = likeliest_by_zipf(all.total);
    if (kept > kFitted) std::nth_element(at(0), at(kept - 1), candidates_.end(), ranks_before);
    candidates_.resize(kept);
  } else {
    const auto surprises = [&](const Candidate& c) { return -std::log2(all(c)) > static_cast<double>(most_surprise_); };
    if (std::all_of(candidates_.begin(), candidates_.end(), surprises)) {
      candidates_ = {*std::min_element(candidates_.begin(), candidates_.end(), ranks_before)};
    } else {
      std::erase_if(candidates_, surprises);
    }
  }
  const Candidate& drawn = draw(1);
  const double surprise = -std::log2(Softmax(candidates_)(drawn));
  most_surprise_ -= options_.mirostat_eta * (static_cast<float>(surprise) - options_.mirostat_tau);
  return drawn.id;
}

}  // namespace fourfold
