#include "lab/balance.hpp"

#include <cmath>
#include <fourfold/route.hpp>
#include <numbers>
#include <random>
#include <string>

namespace fourfold {
namespace {

// Box and Muller 1958, from a generator whose numbers the C++ standard fixes.
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : random_(seed) {}
  double operator()() {
    if (has_second_) return has_second_ = false, second_;
    const double radius = std::sqrt(-2 * std::log(uniform())), angle = 2 * std::numbers::pi * uniform();
    second_ = radius * std::sin(angle);
    has_second_ = true;
    return radius * std::cos(angle);
  }

 private:
  double uniform() { return (static_cast<double>(random_() >> 11) + 0.5) * 0x1p-53; }
  std::mt19937_64 random_;
  bool has_second_ = false;
  double second_ = 0;
};

status check(const BalanceOptions& o) {
  if (o.tokens < 1 || o.experts < 2 || o.steps < 1)
    return {Code::invalid_argument, "balance: needs at least 1 token, 2 experts and 1 step"};
  if (o.chosen < 1 || o.chosen >= o.experts)
    return {Code::invalid_argument, "balance: " + std::to_string(o.chosen) + " chosen must be in [1, " +
                                        std::to_string(o.experts - 1) + "], fewer than the experts"};
  if (o.shards < 1 || o.tokens % o.shards != 0)
    return {Code::invalid_argument,
            "balance: " + std::to_string(o.shards) + " shards must divide the " + std::to_string(o.tokens) + " tokens"};
  return {};
}

struct Batch {
  std::vector<float> logits, scores, weights;
  std::vector<int> ids;
};

status update(const BalanceOptions& o, const Batch& batch, std::span<const int> counts, std::vector<float>& bias) {
  if (o.rule == BalanceOptions::Rule::sign) update_by_sign(counts, o.rate, bias);
  if (o.rule != BalanceOptions::Rule::quantile) return {};
  const int rows = o.tokens / o.shards;
  std::vector<float> beta;
  for (float b : bias) beta.push_back(-b);
  std::vector<std::vector<float>> shards(static_cast<std::size_t>(o.shards), beta);
  for (int s = 0; s < o.shards; ++s)
    FOURFOLD_TRY(update_by_quantile({batch.scores.data() + std::ptrdiff_t{s} * rows * o.experts, rows, o.experts},
                                    o.chosen, shards[static_cast<std::size_t>(s)]));
  average(shards, beta);
  for (std::size_t j = 0; j < bias.size(); ++j) bias[j] = -beta[j];
  return {};
}

}  // namespace

result<std::vector<double>> simulate_balance(const BalanceOptions& o) {
  FOURFOLD_TRY(check(o));
  Normal normal(o.seed);
  std::vector<float> offsets, bias(static_cast<std::size_t>(o.experts), 0.f);
  for (int j = 0; j < o.experts; ++j) offsets.push_back(o.skew * static_cast<float>(normal()));
  const auto numbers = static_cast<std::size_t>(o.tokens) * static_cast<std::size_t>(o.experts);
  const auto slots = static_cast<std::size_t>(o.tokens) * static_cast<std::size_t>(o.chosen);
  Batch batch{std::vector<float>(numbers), std::vector<float>(numbers), std::vector<float>(slots),
              std::vector<int>(slots)};
  std::vector<double> violations;
  for (int step = 0; step < o.steps; ++step) {
    for (std::size_t i = 0; i < numbers; ++i) {
      batch.logits[i] = static_cast<float>(normal()) + offsets[i % offsets.size()];
      batch.scores[i] = sigmoid(batch.logits[i]);
    }
    FOURFOLD_TRY((Route{BiasedSigmoid<Normalise::over_selected>{bias}, o.chosen}
                      .on(reference_f32)
                      .choose(Rows<const float>{batch.logits.data(), o.tokens, o.experts},
                              {batch.ids.data(), o.tokens, o.chosen}, {batch.weights.data(), o.tokens, o.chosen})));
    const auto counts = count_choices({batch.ids.data(), o.tokens, o.chosen}, o.experts);
    violations.push_back(max_violation(counts));
    FOURFOLD_TRY(update(o, batch, counts, bias));
  }
  return violations;
}

}  // namespace fourfold
