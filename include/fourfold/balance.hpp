// Balance: how experts' loads are counted, limited and kept even, and choices that look at no logits or at all tokens.
// T tokens, n experts, k chosen by each token. An id of -1 is an empty slot.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fourfold/fold_checks.hpp>
#include <fourfold/load.hpp>
#include <fourfold/math.hpp>
#include <fourfold/monoid.hpp>
#include <fourfold/status.hpp>
#include <span>
#include <string>
#include <vector>

namespace fourfold {

// Tokens sent to each of `experts` experts. ids [T, k]: -1 or in [0, experts).
inline std::vector<int> count_choices(Rows<const int> ids, int experts) {
  std::vector<int> counts(static_cast<std::size_t>(experts), 0);
  for (std::int64_t t = 0; t < ids.rows; ++t)
    for (int id : ids.row(t))
      if (id >= 0) ++counts[static_cast<std::size_t>(id)];
  return counts;
}

// The largest load over the mean load, less 1; 0 where nothing is sent. DeepSeek-AI 2024 (auxiliary-loss-free), eq. 5
inline double max_violation(std::span<const int> counts) {
  double sum = 0, most = 0;
  for (int c : counts) sum += c, most = std::max<double>(most, c);
  return sum > 0 ? most * static_cast<double>(counts.size()) / sum - 1 : 0;
}

// b_j += rate * sign(mean(c) - c_j), once for a batch's counts c; `centre` keeps the mean of b where it was.
// DeepSeek-V3, section 2.1.2
inline void update_by_sign(std::span<const int> counts, float rate, std::span<float> bias, bool centre = false) {
  double mean = 0, moved = 0;
  for (int c : counts) mean += static_cast<double>(c) / static_cast<double>(counts.size());
  const auto step = [&](int c) { return c < mean ? rate : c > mean ? -rate : 0.f; };
  for (int c : counts) moved += static_cast<double>(step(c)) / static_cast<double>(counts.size());
  for (std::size_t j = 0; j < bias.size(); ++j) bias[j] += step(counts[j]) - (centre ? static_cast<float>(moved) : 0.f);
}

namespace detail {

// The value that stands at `place` (0 first) when all are sorted from the largest, NaN last.
inline float value_at(std::vector<Pick<float>>& picks, std::int64_t place) {
  const auto before = [](const Pick<float>& a, const Pick<float>& b) { return a.before(b); };
  std::nth_element(picks.begin(), picks.begin() + place, picks.end(), before);
  return picks[static_cast<std::size_t>(place)].value;
}

}  // namespace detail

// One exact step of quantile balancing. Tokens were chosen by the k largest s_ij - beta_j with the old beta:
// alpha_i = the (k + 1)-th largest of s_ij - beta_j over j; beta_j = the (floor(T k / n) + 1)-th largest of
// s_ij - alpha_i over i. No rate, no clamp. scores [T, n], 1 <= k < n, T >= 1.             Su 2026, kexue.fm/11619
inline status update_by_quantile(Rows<const float> scores, int k, std::span<float> beta) {
  const std::int64_t tokens = scores.rows, experts = scores.columns;
  if (static_cast<std::int64_t>(beta.size()) != experts)
    return detail::mismatch("quantile balancing: beta", static_cast<std::int64_t>(beta.size()), "the experts", experts);
  if (k < 1 || k >= experts)
    return {Code::invalid_argument, "quantile balancing: k is " + std::to_string(k) + ", must be in [1, " +
                                        std::to_string(experts - 1) + "], fewer than the experts"};
  if (tokens < 1) return {Code::invalid_argument, "quantile balancing: a batch of 0 tokens has no quantiles"};
  std::vector<float> alpha(static_cast<std::size_t>(tokens));
  std::vector<Pick<float>> picks(static_cast<std::size_t>(experts));
  for (std::int64_t i = 0; i < tokens; ++i) {
    for (int j = 0; j < experts; ++j) picks[j] = {scores(i, j) - beta[j], j};
    alpha[i] = detail::value_at(picks, k);
  }
  picks.resize(static_cast<std::size_t>(tokens));
  for (int j = 0; j < experts; ++j) {
    for (int i = 0; i < tokens; ++i) picks[i] = {scores(i, j) - alpha[i], i};
    beta[j] = detail::value_at(picks, tokens * k / experts);
  }
  return {};
}

// The mean of what shards of a batch made of beta (or of a bias), in order.
inline void average(std::span<const std::vector<float>> shards, std::span<float> mean) {
  for (std::size_t j = 0; j < mean.size(); ++j) {
    double sum = 0;
    for (const auto& shard : shards) sum += static_cast<double>(shard[j]);
    mean[j] = static_cast<float>(sum / static_cast<double>(shards.size()));
  }
}

// coefficient * n * sum over j of f_j P_j: f_j the share of slots sent to j, P_j the mean probability. probabilities
// [T, n], ids [T, k]. 1 * coefficient when loads and probabilities are even.            Fedus et al. 2021, eq. 4 to 6
inline double auxiliary_loss(Rows<const float> probabilities, Rows<const int> ids, double coefficient) {
  const auto counts = count_choices(ids, static_cast<int>(probabilities.columns));
  double sum = 0;
  for (std::int64_t j = 0; j < probabilities.columns && ids.rows > 0; ++j) {
    double mean = 0;
    for (std::int64_t t = 0; t < probabilities.rows; ++t) mean += static_cast<double>(probabilities(t, j));
    sum += counts[static_cast<std::size_t>(j)] * mean / static_cast<double>(probabilities.rows);
  }
  const auto slots = static_cast<double>(ids.rows * ids.columns);
  return slots > 0 ? coefficient * static_cast<double>(probabilities.columns) * sum / slots : 0;
}

// Which of an expert's slots go when it has more than its capacity.
enum class Drop {
  by_position,  // later tokens first; every token's first choice comes before any second one. Lepikhin et al. 2020
  by_weight,    // smaller weights first; ties: later slots
};

// Empties slots (id -1) until no expert has more than `capacity`; returns how many. Without this call nothing is
// dropped. ids, weights [T, k]; ids -1 or in [0, experts).
inline int limit_capacity(Rows<int> ids, Rows<const float> weights, int experts, int capacity, Drop drop) {
  struct Slot {
    std::int64_t token, choice;
  };
  std::vector<std::vector<Slot>> slots(static_cast<std::size_t>(experts));
  for (std::int64_t c = 0; c < ids.columns; ++c)
    for (std::int64_t t = 0; t < ids.rows; ++t)
      if (ids(t, c) >= 0) slots[static_cast<std::size_t>(ids(t, c))].push_back({t, c});
  int dropped = 0;
  for (auto& list : slots) {
    if (drop == Drop::by_weight)
      std::stable_sort(list.begin(), list.end(), [&](const Slot& a, const Slot& b) {
        return Pick<float>{weights(a.token, a.choice), 0}.before({weights(b.token, b.choice), 0});
      });
    for (std::size_t i = static_cast<std::size_t>(std::max(0, capacity)); i < list.size(); ++i, ++dropped)
      ids(list[i].token, list[i].choice) = -1;
  }
  return dropped;
}

// Expert choice: each expert takes the `tokens.columns` tokens that give it the largest probability, softmax over the
// experts; its weights are those. logits [T, n]   tokens [n, capacity], best first   weights [n, capacity].
// Zhou et al. 2022, section 3.2
inline status choose_tokens(Rows<const float> logits, Rows<int> tokens, Rows<float> weights) {
  if (tokens.rows != logits.columns)
    return detail::mismatch("expert choice: rows of tokens", tokens.rows, "the experts", logits.columns);
  if (tokens.columns < 1 || tokens.columns > logits.rows)
    return {Code::invalid_argument, "expert choice: a capacity of " + std::to_string(tokens.columns) +
                                        " must be in [1, " + std::to_string(logits.rows) + "], the tokens"};
  if (weights.rows != tokens.rows || weights.columns != tokens.columns)
    return detail::mismatch("expert choice: weights", weights.rows * weights.columns, "the tokens chosen",
                            tokens.rows * tokens.columns);
  std::vector<double> most(static_cast<std::size_t>(logits.rows)), total(most.size(), 0);
  for (std::int64_t t = 0; t < logits.rows; ++t) {
    const auto z = logits.row(t);
    most[t] = -kInfinity<double>;
    for (float x : z) most[t] = larger(most[t], static_cast<double>(x));
    for (float x : z) total[t] += rescale(static_cast<double>(x), most[t]);
  }
  std::vector<Pick<float>> picks(most.size());
  for (std::int64_t e = 0; e < logits.columns; ++e) {
    for (int t = 0; t < logits.rows; ++t)
      picks[t] = {static_cast<float>(rescale(static_cast<double>(logits(t, e)), most[t]) / total[t]), t};
    std::partial_sort(picks.begin(), picks.begin() + tokens.columns, picks.end(),
                      [](const auto& a, const auto& b) { return a.before(b); });
    for (std::int64_t i = 0; i < tokens.columns; ++i) tokens(e, i) = picks[i].index, weights(e, i) = picks[i].value;
  }
  return {};
}

// Hash routing: a token's vocabulary id alone says its experts, k distinct ones, each with weight 1 / k.
// tokens [T]   ids, weights [T, k], k in [1, experts].                                            Roller et al. 2021
inline status choose_by_hash(std::span<const int> tokens, int experts, std::uint64_t seed, Rows<int> ids,
                             Rows<float> weights) {
  if (ids.rows != static_cast<std::int64_t>(tokens.size()))
    return detail::mismatch("hash routing: rows of ids", ids.rows, "the tokens",
                            static_cast<std::int64_t>(tokens.size()));
  if (ids.columns < 1 || ids.columns > experts)
    return {Code::invalid_argument, "hash routing: k is " + std::to_string(ids.columns) + ", must be in [1, " +
                                        std::to_string(experts) + "], the experts"};
  for (std::int64_t t = 0; t < ids.rows; ++t) {
    std::uint64_t state = seed ^ (static_cast<std::uint64_t>(tokens[t]) * 0x9e3779b97f4a7c15u);
    for (int c = 0; c < ids.columns; ++c) {
      state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u + 0x9e3779b97f4a7c15u;  // SplitMix64: Steele et al. 2014
      const auto mixed = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
      // The rank among the experts not yet chosen, then the expert of that rank.
      int id = static_cast<int>((mixed >> 33) % static_cast<std::uint64_t>(experts - c));
      std::vector<int> earlier(ids.row(t).begin(), ids.row(t).begin() + c);
      std::sort(earlier.begin(), earlier.end());
      for (int other : earlier) id += id >= other;
      ids(t, c) = id;
      weights(t, c) = 1.f / static_cast<float>(ids.columns);
    }
  }
  return {};
}

}  // namespace fourfold
