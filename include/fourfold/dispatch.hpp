// Dispatch: choices sorted by expert, cut into dense tiles of one expert's rows each.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>
#include <fourfold/fold_checks.hpp>
#include <fourfold/load.hpp>
#include <fourfold/status.hpp>
#include <span>
#include <string>
#include <vector>

namespace fourfold {

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

  int experts() const { return static_cast<int>(offsets_.size()) - 1; }
  std::int64_t tokens() const { return choices_ > 0 ? static_cast<std::int64_t>(rows_.size()) / choices_ : 0; }
  std::span<const Tile> tiles() const { return tiles_; }
  std::span<const int> slots() const { return slots_; }
  std::span<const int> offsets() const { return offsets_; }  // [experts + 1] into the sorted rows
  // The sorted row of a token's choice; -1: an empty slot.
  int row_of(std::int64_t token, std::int64_t choice) const { return rows_[token * choices_ + choice]; }

  // A tile's rows of x [tokens, columns]: row r is that of the token whose slot stands at tile.first + r.
  template <class M>
  auto rows_of(const Tile& tile, const M& x) const {
    struct TileRows {
      const M& x;
      const int* slots;
      std::int64_t choices, rows, columns;
      auto operator()(std::int64_t row, std::int64_t column) const { return x(slots[row] / choices, column); }
    };
    return TileRows{x, slots_.data() + tile.first, choices_, tile.rows, x.columns};
  }

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
