// Route: which inputs an output needs is known at run time only. A rule turns logits into choices; a dispatch
// (dispatch.hpp) turns choices into dense tiles that a fold or a map walks; route_rules.hpp has the rules in use,
// balance.hpp how their loads are kept even.
//
// Rule:
//   select(z, expert) -> number      what the choice is made by: the k largest, ties to the lower expert, NaN last
//   weight(z, expert) -> number      how much the chosen one counts; or
//   log_weight(z, expert) -> number  the same as a logarithm, where a quotient of exponentials is meant
//   static constexpr Normalise normalise     what the weights are divided by
//   float scale                      optional; multiplies the final weights, once
#pragma once

#include <algorithm>
#include <cstdint>
#include <fourfold/balance.hpp>
#include <fourfold/dispatch.hpp>
#include <fourfold/executor.hpp>
#include <fourfold/fold_checks.hpp>
#include <fourfold/load.hpp>
#include <fourfold/monoid.hpp>
#include <fourfold/route_rules.hpp>
#include <vector>

namespace fourfold {

template <class R>
concept HasSelect = requires(const R& rule, float z) {
  { rule.select(z, 0) } -> std::convertible_to<float>;
};
template <class R>
concept HasLogWeight = requires(const R& rule, float z) {
  { rule.log_weight(z, 0) } -> std::convertible_to<float>;
};
template <class R>
concept HasWeight = HasLogWeight<R> || requires(const R& rule, float z) {
  { rule.weight(z, 0) } -> std::convertible_to<float>;
};
template <class R>
concept HasNormalise = requires {
  { R::normalise } -> std::convertible_to<Normalise>;
};
template <class R>
concept Rule = HasSelect<R> && HasWeight<R> && HasNormalise<R>;

// Optional: experts lie in `groups` equal groups of neighbours. The `kept_groups` groups with the largest sum of their
// `group_best` best select() values stay; experts of the others are chosen only when no other is left.
template <class R>
concept HasGroups = requires(const R& rule) {
  { rule.groups } -> std::convertible_to<int>;
  { rule.kept_groups } -> std::convertible_to<int>;
  { rule.group_best } -> std::convertible_to<int>;
};

// What choosing needs besides its result: kept from row to row so that a row allocates nothing.
template <class T>
struct RouteScratch {
  std::vector<Pick<T>> experts, groups;
};

namespace detail {

constexpr auto kBefore = [](const auto& a, const auto& b) { return a.before(b); };

// Sum of the `best` first of n picks in order; reorders them.
template <class T>
T best_sum(Pick<T>* picks, int n, int best) {
  best = std::min(best, n);
  std::partial_sort(picks, picks + best, picks + n, kBefore);
  T sum = 0;
  for (int i = 0; i < best; ++i) sum += picks[i].value;
  return sum;
}

// Sets the values of all experts outside the kept groups to -inf. experts[e] is expert e's pick, before and after.
template <class R, class T>
void mask_groups(const R& rule, RouteScratch<T>& scratch) {
  const int n = static_cast<int>(scratch.experts.size()), size = n / rule.groups;
  scratch.groups.resize(static_cast<std::size_t>(rule.groups));
  for (int g = 0; g < rule.groups; ++g)
    scratch.groups[g] = {best_sum(scratch.experts.data() + g * size, size, rule.group_best), g};
  std::sort(scratch.groups.begin(), scratch.groups.end(), kBefore);
  for (int i = rule.kept_groups; i < rule.groups; ++i)
    for (int e = 0; e < size; ++e) scratch.experts[scratch.groups[i].index * size + e].value = -kInfinity<T>;
}

template <class R, class T>
void select(const R& rule, std::span<const T> z, std::span<int> ids, RouteScratch<T>& scratch) {
  std::vector<Pick<T>>& picks = scratch.experts;
  picks.resize(z.size());
  for (int e = 0; e < static_cast<int>(z.size()); ++e) picks[e] = {static_cast<T>(rule.select(z[e], e)), e};
  if constexpr (HasGroups<R>)
    if (rule.groups > 1) mask_groups(rule, scratch);
  std::partial_sort(picks.begin(), picks.begin() + ids.size(), picks.end(), kBefore);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = picks[i].index;
}

// Calls f(expert) for every expert the weights are normalised over.
template <class R, class F>
void each_normalised(const R&, std::span<const int> ids, int experts, F f) {
  if constexpr (R::normalise == Normalise::over_all) {
    for (int e = 0; e < experts; ++e) f(e);
  } else {
    for (int e : ids) f(e);
  }
}

template <class R, class T>
void weigh(const R& rule, std::span<const T> z, std::span<const int> ids, std::span<float> weights) {
  T scale = 1;
  if constexpr (requires { rule.scale; }) scale = static_cast<T>(rule.scale);
  const int experts = static_cast<int>(z.size());
  if constexpr (HasLogWeight<R>) {
    const auto log_weight = [&](int e) { return static_cast<T>(rule.log_weight(z[e], e)); };
    T most = 0, total = 1;  // weights are e^(log weight - most) / total
    if constexpr (R::normalise != Normalise::none) {
      most = -kInfinity<T>, total = 0;
      each_normalised(rule, ids, experts, [&](int e) { most = larger(most, log_weight(e)); });
      each_normalised(rule, ids, experts, [&](int e) { total += rescale(log_weight(e), most); });
    }
    for (std::size_t i = 0; i < ids.size(); ++i)
      weights[i] = static_cast<float>(scale * rescale(log_weight(ids[i]), most) / total);
  } else {
    const auto weight = [&](int e) { return static_cast<T>(rule.weight(z[e], e)); };
    T total = 1;
    if constexpr (R::normalise != Normalise::none) {
      total = T(1e-20);  // all weights may underflow. DeepSeek-V3's guard
      each_normalised(rule, ids, experts, [&](int e) { total += weight(e); });
    }
    for (std::size_t i = 0; i < ids.size(); ++i) weights[i] = static_cast<float>(scale * weight(ids[i]) / total);
  }
}

}  // namespace detail

// One token: logits z [experts] -> ids [k], best first, distinct, in [0, experts), and their weights [k]; k up to the
// experts. In arithmetic T.
template <class R, class T>
void choose_row(const R& rule, std::span<const T> z, std::span<int> ids, std::span<float> weights,
                RouteScratch<T>& scratch) {
  detail::select(rule, z, ids, scratch);
  detail::weigh(rule, z, std::span<const int>(ids), weights);
}

template <class R, class X>
class RouteOn;

template <class R>
struct Route {
  static_assert(HasSelect<R>, "Rule needs `select(float z, int expert)` -> number");
  static_assert(HasWeight<R>,
                "Rule needs `weight(float z, int expert)` or `log_weight(float z, int expert)` -> number");
  static_assert(HasNormalise<R>, "Rule needs `static constexpr Normalise normalise`");

  R rule;
  int k;  // experts per token

  constexpr Route(R rule, int k) : rule(rule), k(k) {}

  template <class X>
  constexpr RouteOn<R, X> on(const X& executor) const {
    return {*this, executor};
  }
};

template <class R, class X>
class RouteOn {
 public:
  constexpr RouteOn(const Route<R>& route, const X& executor) : route_(route), executor_(executor) {}

  // logits [tokens, experts]   ids [tokens, k], best first, distinct, in [0, experts)   weights [tokens, k]
  template <class L>
  status choose(const L& logits, Rows<int> ids, Rows<float> weights) const {
    static_assert(Matrix<L>, "Load needs `operator()(row, column)`, `rows` and `columns`");
    if (route_.k < 1 || route_.k > logits.columns)
      return {Code::invalid_argument, "route: k is " + std::to_string(route_.k) + ", must be in [1, " +
                                          std::to_string(logits.columns) + "], the experts"};
    for (std::int64_t rows : {ids.rows, weights.rows})
      if (rows != logits.rows)
        return detail::mismatch("route: rows of ids or weights", rows, "the tokens", logits.rows);
    for (std::int64_t columns : {ids.columns, weights.columns})
      if (columns != route_.k) return detail::mismatch("route: columns of ids or weights", columns, "k", route_.k);
    if constexpr (HasGroups<R>) {
      const R& r = route_.rule;
      if (r.groups < 1 || logits.columns % r.groups != 0)
        return {Code::invalid_argument, "route: " + std::to_string(r.groups) + " groups must divide the " +
                                            std::to_string(logits.columns) + " experts"};
      if (r.kept_groups < 1 || r.kept_groups > r.groups || r.group_best < 1)
        return {Code::invalid_argument, "route: " + std::to_string(r.kept_groups) + " kept groups must be in [1, " +
                                            std::to_string(r.groups) + "], by at least 1 score each"};
    }
    using T = real_on<X, float>;
    for_each(executor_, static_cast<int>(logits.rows), [&](int token) {
      std::vector<T> z(static_cast<std::size_t>(logits.columns));
      RouteScratch<T> scratch;
      read(logits, token, 0, static_cast<int>(z.size()), z.data());
      choose_row(route_.rule, std::span<const T>(z), ids.row(token), weights.row(token), scratch);
    });
    return {};
  }

 private:
  Route<R> route_;
  Held<X> executor_;
};

}  // namespace fourfold
