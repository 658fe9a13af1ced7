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

// exp(logit - best), also when both are infinite.
double weight(float logit, float best) { return logit == best ? 1.0 : std::exp(static_cast<double>(logit) - best); }

struct Softmax {
  float best = -kInfinity;
  double total = 0;

  explicit Softmax(std::span<const Candidate> candidates) {
    for (const auto& c : candidates) best = std::max(best, c.logit);
    for (const auto& c : candidates) total += weight(c.logit, best);
  }
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

Sampler::Sampler(const SamplingOptions& options, int vocab)
    : options_(options), seed_(options.seed ? *options.seed : random_seed()), random_(seed_) {
  const auto size = static_cast<std::size_t>(std::max(vocab, 0));
  counts_.resize(size);
  scratch_.reserve(size);
  if (options_.temperature > 0) candidates_.reserve(size);
  if (options_.temperature > 0 && options_.typical_p < 1) order_.reserve(size);
  constexpr int kLongestReserved = 1 << 16;
  window_.reserve(static_cast<std::size_t>(std::clamp(options_.repeat_last_n, 0, kLongestReserved)));
}

void Sampler::accept(int id) {
  if (id < 0 || static_cast<std::size_t>(id) >= counts_.size() || options_.repeat_last_n == 0) return;
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
}

std::span<const float> Sampler::penalised(std::span<const float> logits) {
  const auto& o = options_;
  const bool off = o.repeat_penalty == 1 && o.frequency_penalty == 0 && o.presence_penalty == 0;
  if (off || window_.empty()) return logits;
  scratch_.assign(logits.begin(), logits.end());
  for (int id : window_) {  // a repeated id is computed anew from its logit, so each is penalised once
    const auto i = static_cast<std::size_t>(id);
    if (i >= logits.size()) continue;
    const float x = logits[i];
    scratch_[i] = (x > 0 ? x / o.repeat_penalty : x * o.repeat_penalty) -
                  static_cast<float>(counts_[i]) * o.frequency_penalty - o.presence_penalty;
  }
  return scratch_;
}

int Sampler::sample(std::span<const float> logits) {
  const auto row = penalised(logits);
  if (options_.temperature <= 0) return argmax(row);
  select(row);
  if (candidates_.empty()) return 0;
  if (options_.typical_p < 1) keep_most_typical(options_.typical_p);
  if (options_.top_p < 1) keep_likeliest(options_.top_p);
  if (options_.min_p > 0) keep_at_least(Softmax(candidates_).best + std::log(options_.min_p));
  drop_top_choices();
  return draw(options_.dynatemp_range > 0 ? dynamic_temperature() : options_.temperature);
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

// Top-p: sorts no more candidates than it has to look at.
void Sampler::keep_likeliest(double mass) {
  const Softmax probability(candidates_);
  double sum = 0;
  std::size_t sorted = 0;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (i == sorted) {
      sorted = std::min(candidates_.size(), std::max<std::size_t>(64, 4 * sorted));
      std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(sorted),
                        candidates_.end(), ranks_before);
    }
    sum += probability(candidates_[i]);
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

int Sampler::draw(float temperature) {
  const float best = Softmax(candidates_).best;
  const auto heated = [&](const Candidate& c) {
    return c.logit == best ? 1.0 : std::exp((static_cast<double>(c.logit) - best) / temperature);
  };
  double total = 0;
  for (const auto& c : candidates_) total += heated(c);
  double left = random_.uniform() * total;
  int id = candidates_.front().id;
  for (const auto& c : candidates_) {
    const double share = heated(c);
    if (share > 0) id = c.id;
    left -= share;
    if (left < 0) break;
  }
  return id;
}

}  // namespace fourfold
