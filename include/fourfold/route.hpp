// Route: which inputs an output needs is known at run time only. A rule turns logits into choices; a dispatch turns
// choices into dense tiles that a fold or a map walks.
//
// Rule:
//   select(z, expert) -> number      what the choice is made by: the k largest, ties to the lower expert, NaN last
//   weight(z, expert) -> number      how much the chosen one counts; or
//   log_weight(z, expert) -> number  the same as a logarithm, where a quotient of exponentials is meant
//   static constexpr Normalise normalise     what the weights are divided by
//   float scale                      optional; multiplies the final weights, once
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>
#include <fourfold/executor.hpp>
#include <fourfold/fold_checks.hpp>
#include <fourfold/load.hpp>
#include <fourfold/monoid.hpp>
#include <vector>

namespace fourfold {

enum class Normalise {
  none,
  over_selected,  // the sum of the chosen weights
  over_all,       // the sum of every expert's weight
};

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

// over_all: softmax, then the k largest. over_selected: the k largest, then softmax; equal to the first renormalised.
// Shazeer et al. 2017.
template <Normalise N>
struct Softmax {
  static constexpr Normalise normalise = N;
  float scale = 1;

  template <class T>
  constexpr T select(T z, int) const {
    return z;
  }
  template <class T>
  constexpr T log_weight(T z, int) const {
    return z;
  }
};

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
    using T = real_on<X, float>;
    for_each(executor_, static_cast<int>(logits.rows), [&](int token) {
      std::vector<T> z(static_cast<std::size_t>(logits.columns));
      read(logits, token, 0, static_cast<int>(z.size()), z.data());
      select(std::span<const T>(z), ids.row(token));
      weigh(std::span<const T>(z), ids.row(token), weights.row(token));
    });
    return {};
  }

 private:
  template <class T>
  void select(std::span<const T> z, std::span<int> ids) const {
    std::vector<Pick<T>> picks(z.size());
    for (int e = 0; e < static_cast<int>(z.size()); ++e) picks[e] = {static_cast<T>(route_.rule.select(z[e], e)), e};
    std::partial_sort(picks.begin(), picks.begin() + ids.size(), picks.end(),
                      [](const Pick<T>& a, const Pick<T>& b) { return a.before(b); });
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = picks[i].index;
  }

  // Calls f(expert) for every expert the weights are normalised over.
  template <class F>
  static void each_normalised(std::span<const int> ids, int experts, F f) {
    if constexpr (R::normalise == Normalise::over_all) {
      for (int e = 0; e < experts; ++e) f(e);
    } else {
      for (int e : ids) f(e);
    }
  }

  template <class T>
  void weigh(std::span<const T> z, std::span<const int> ids, std::span<float> weights) const {
    const R& rule = route_.rule;
    T scale = 1;
    if constexpr (requires { rule.scale; }) scale = static_cast<T>(rule.scale);
    const int experts = static_cast<int>(z.size());
    if constexpr (HasLogWeight<R>) {
      const auto log_weight = [&](int e) { return static_cast<T>(rule.log_weight(z[e], e)); };
      T most = 0, total = 1;  // weights are e^(log weight - most) / total
      if constexpr (R::normalise != Normalise::none) {
        most = -kInfinity<T>, total = 0;
        each_normalised(ids, experts, [&](int e) { most = larger(most, log_weight(e)); });
        each_normalised(ids, experts, [&](int e) { total += rescale(log_weight(e), most); });
      }
      for (std::size_t i = 0; i < ids.size(); ++i)
        weights[i] = static_cast<float>(scale * rescale(log_weight(ids[i]), most) / total);
    } else {
      const auto weight = [&](int e) { return static_cast<T>(rule.weight(z[e], e)); };
      T total = 1;
      if constexpr (R::normalise != Normalise::none) {
        total = T(1e-20);  // all weights may underflow. DeepSeek-V3's guard
        each_normalised(ids, experts, [&](int e) { total += weight(e); });
      }
      for (std::size_t i = 0; i < ids.size(); ++i) weights[i] = static_cast<float>(scale * weight(ids[i]) / total);
    }
  }

  Route<R> route_;
  Held<X> executor_;
};

// Choices sorted by expert, cut into tiles of at most `tile_rows` rows. A slot is token * k + choice; an id of -1 is an
// empty slot. Row r of the sorted order belongs to slot slots()[r].
class Dispatch {
 public:
  struct Tile {
    int expert, first, rows;  // sorted rows [first, first + rows)
  };

  // ids [tokens, k], each -1 or in [0, experts); at most 2^31 - 1 of them
  static result<Dispatch> make(Rows<const int> ids, int experts, int tile_rows) {
    if (experts < 0 || tile_rows < 1)
      return status(Code::invalid_argument, "dispatch: experts must not be negative, tile rows at least 1");
    if (ids.rows * ids.columns > INT_MAX)
      return status(Code::invalid_argument, "dispatch: " + std::to_string(ids.rows * ids.columns) +
                                                " slots, must be at most " + std::to_string(INT_MAX));
    Dispatch d;
    d.choices_ = ids.columns;
    d.offsets_.assign(static_cast<std::size_t>(experts) + 1, 0);
    for (std::int64_t token = 0; token < ids.rows; ++token)
      for (int id : ids.row(token)) {
        if (id < -1 || id >= experts)
          return status(Code::invalid_argument, "dispatch: expert " + std::to_string(id) + " of token " +
                                                    std::to_string(token) + " must be -1 or in [0, " +
                                                    std::to_string(experts) + ")");
        if (id >= 0) ++d.offsets_[id + 1];
      }
    for (int e = 0; e < experts; ++e) d.offsets_[e + 1] += d.offsets_[e];
    d.slots_.resize(d.offsets_[experts]);
    d.rows_.assign(static_cast<std::size_t>(ids.rows * ids.columns), -1);
    std::vector<int> next(d.offsets_.begin(), d.offsets_.end() - 1);
    for (std::size_t slot = 0; slot < d.rows_.size(); ++slot) {
      const int id = ids(static_cast<std::int64_t>(slot) / ids.columns, static_cast<std::int64_t>(slot) % ids.columns);
      if (id < 0) continue;
      d.rows_[slot] = next[id]++;
      d.slots_[d.rows_[slot]] = static_cast<int>(slot);
    }
    for (int e = 0; e < experts; ++e)
      for (int first = d.offsets_[e]; first < d.offsets_[e + 1]; first += tile_rows)
        d.tiles_.push_back({e, first, std::min(tile_rows, d.offsets_[e + 1] - first)});
    return d;
  }

  std::span<const Tile> tiles() const { return tiles_; }
  std::span<const int> slots() const { return slots_; }
  std::span<const int> offsets() const { return offsets_; }  // [experts + 1] into the sorted rows
  // The sorted row of a token's choice; -1: an empty slot.
  int row_of(std::int64_t token, std::int64_t choice) const { return rows_[token * choices_ + choice]; }

  // out(token) = sum over its choices, in order, of weight * the row its expert made; empty slots add nothing.
  // made [sorted rows, columns]   weights [tokens, k]   out [tokens, columns]
  status combine(Rows<const float> made, Rows<const float> weights, Rows<float> out) const {
    const auto rows = static_cast<std::int64_t>(slots_.size()), slots = static_cast<std::int64_t>(rows_.size());
    if (made.rows != rows) return detail::mismatch("combine: made rows", made.rows, "the sorted rows", rows);
    if (weights.columns != choices_) return detail::mismatch("combine: weights", weights.columns, "k", choices_);
    for (std::int64_t tokens : {weights.rows, out.rows})
      if (tokens * choices_ != slots)
        return detail::mismatch("combine: slots of weights or output", tokens * choices_, "those dispatched", slots);
    if (out.columns != made.columns)
      return detail::mismatch("combine: output columns", out.columns, "the made columns", made.columns);
    for (std::int64_t token = 0; token < out.rows; ++token) {
      const std::span<float> sum = out.row(token);
      std::fill(sum.begin(), sum.end(), 0.f);
      for (std::int64_t choice = 0; choice < choices_; ++choice) {
        const int row = row_of(token, choice);
        for (std::size_t c = 0; row >= 0 && c < sum.size(); ++c)
          sum[c] += weights(token, choice) * made(row, static_cast<std::int64_t>(c));
      }
    }
    return {};
  }

 private:
  std::vector<Tile> tiles_;
  std::vector<int> slots_, offsets_, rows_;
  std::int64_t choices_ = 0;  // k
};

}  // namespace fourfold
