// One element of the affine family as numbers: the map S -> M S + B, and how maps combine.
//
// M is kept as what its class needs: nothing, one number, a diagonal (of the keys, or of all entries of S), a diagonal
// plus U V^T with a rank that grows by one a token, or a matrix once that rank would exceed the keys. B is
// [keys, values]. combine is associative and the empty map its identity, both up to rounding (tests/law).
// A combine of low rank costs keys x rank x values; of matrices keys^2 (keys + values).
#pragma once

#include <algorithm>
#include <fourfold/affine.hpp>
#include <vector>

namespace fourfold {

template <class T = float>
class AffineMap {
 public:
  // The identity, S -> S.
  AffineMap(int keys, int values)
      : keys_(keys), values_(values), b_(static_cast<std::size_t>(keys) * static_cast<std::size_t>(values)) {}

  Transition kind() const { return kind_; }
  int rank() const { return rank_; }
  Rows<const T> b() const { return {b_.data(), keys_, values_}; }
  Rows<T> b() { return {b_.data(), keys_, values_}; }

  // This map, then one token's.
  template <TransitionOperator Op>
  void absorb(const Op& op, const RankOne& update) {
    op.apply(b());
    update.add_to(b());
    absorb(op);
  }
  template <TransitionOperator Op>
  void absorb(const Op& op) {
    act(op);
  }

  // s <- M s + B.   s [keys, values]
  void apply(Rows<T> s) const {
    act_on(s);
    for (int i = 0; i < keys_; ++i)
      for (int j = 0; j < values_; ++j) s(i, j) += b()(i, j);
  }

  // `first`, then `then`. Both are of one rule: a diagonal over the entries of S combines with its like only.
  static AffineMap combine(AffineMap first, AffineMap then) {
    first.promote(then.kind_, then.d_.size());
    then.promote(first.kind_, first.d_.size());
    if (first.kind_ == Transition::diagonal_low_rank && first.rank_ + then.rank_ > first.keys_)
      first.promote(Transition::dense, 0), then.promote(Transition::dense, 0);
    then.act_on(first.b());
    for (std::size_t i = 0; i < first.b_.size(); ++i) first.b_[i] += then.b_[i];
    if (first.kind_ == Transition::dense) {
      then.act_on({first.m_.data(), first.keys_, first.keys_});
      return first;
    }
    if (first.kind_ == Transition::diagonal_low_rank) first.join(then);
    for (std::size_t i = 0; i < first.d_.size(); ++i) first.d_[i] *= then.d_[i];
    return first;
  }

 private:
  // (D2 + U2 V2^T)(D1 + U1 V1^T) = D2 D1 + (M2 U1) V1^T + U2 (D1 V2)^T: all but the first term.
  void join(const AffineMap& then) {
    then.act_on(u());
    for (int r = 0; r < then.rank_; ++r) {
      for (int i = 0; i < keys_; ++i) {
        u_[i * keys_ + rank_] = then.u_[i * keys_ + r];
        v_[rank_ * keys_ + i] = d_[i] * then.v_[r * keys_ + i];
      }
      ++rank_;
    }
  }

  void act(Identity) {}
  void act(Scaled op) { act_diagonal(op, Transition::scalar, 1, 1); }
  void act(Diagonal op) { act_diagonal(op, Transition::diagonal, keys_, 1); }
  void act(const Discretised& op) { act_diagonal(op, Transition::diagonal, keys_, values_); }
  void act(const Dense& op) {
    promote(Transition::dense, 0);
    op.apply(Rows<T>(m_.data(), keys_, keys_));
  }
  template <class A, class B>
  void act(const Product<A, B>& op) {
    act(op.first);
    act(op.second);
  }
  template <class D>
  void act(const PlusRankOne<D>& op) {
    promote(rank_ < keys_ ? Transition::diagonal_low_rank : Transition::dense, 0);
    if (kind_ == Transition::dense) return op.apply(Rows<T>(m_.data(), keys_, keys_));
    op.apply(u());
    for (int i = 0; i < keys_; ++i) {
      u_[i * keys_ + rank_] = static_cast<T>(op.plus.b) * static_cast<T>(op.plus.u[i]);
      v_[rank_ * keys_ + i] = d_[i] * static_cast<T>(op.plus.v[i]);
    }
    op.d.apply(Rows<T>(d_.data(), keys_, 1));
    ++rank_;
  }
  template <class Op>
  void act_diagonal(const Op& op, Transition kind, int rows, int columns) {
    promote(kind, static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
    if (kind_ == Transition::dense) return op.apply(Rows<T>(m_.data(), keys_, keys_));
    if (kind_ == Transition::diagonal_low_rank) op.apply(u());
    const bool entries = kind_ == Transition::diagonal && d_.size() == b_.size() && columns > 1;
    op.apply(Rows<T>(d_.data(), kind_ == Transition::scalar ? 1 : keys_, entries ? values_ : 1));
  }

  // Keeps M in the form of a wider class.
  void promote(Transition kind, std::size_t diagonal) {
    if (kind == Transition::dense && kind_ != Transition::dense) {
      m_.assign(static_cast<std::size_t>(keys_) * static_cast<std::size_t>(keys_), T(0));
      for (int i = 0; i < keys_; ++i) m_[i * keys_ + i] = 1;
      act_on({m_.data(), keys_, keys_});
      kind_ = kind, rank_ = 0, d_.clear();
      return;
    }
    if (kind_ == Transition::dense || kind == Transition::none) return;
    const std::size_t wanted = kind == Transition::scalar     ? 1
                               : kind == Transition::diagonal ? diagonal
                                                              : static_cast<std::size_t>(keys_);
    if (d_.size() < wanted) d_.resize(wanted, d_.empty() ? T(1) : d_[0]);
    if (kind == Transition::diagonal_low_rank && u_.empty())
      u_.resize(static_cast<std::size_t>(keys_) * static_cast<std::size_t>(keys_)), v_.resize(u_.size());
    kind_ = std::max(kind_, kind);
  }

  // s <- M s for any s with `keys` rows (and as many columns as a diagonal over entries has)
  void act_on(Rows<T> s) const {
    if (kind_ == Transition::dense) {
      std::vector<T> before(static_cast<std::size_t>(keys_));
      for (std::int64_t j = 0; j < s.columns; ++j) {
        for (int i = 0; i < keys_; ++i) before[i] = s(i, j);
        for (int i = 0; i < keys_; ++i) {
          T sum = 0;
          for (int l = 0; l < keys_; ++l) sum += m_[i * keys_ + l] * before[l];
          s(i, j) = sum;
        }
      }
      return;
    }
    std::vector<T> along(static_cast<std::size_t>(rank_));
    for (std::int64_t j = 0; j < s.columns; ++j) {
      for (int r = 0; r < rank_; ++r) {
        along[r] = 0;
        for (int i = 0; i < keys_; ++i) along[r] += v_[r * keys_ + i] * s(i, j);
      }
      for (int i = 0; i < keys_; ++i) {
        T sum = s(i, j) * factor(i, j);
        for (int r = 0; r < rank_; ++r) sum += u_[i * keys_ + r] * along[r];
        s(i, j) = sum;
      }
    }
  }
  T factor(int i, std::int64_t j) const {
    if (kind_ == Transition::none) return 1;
    if (kind_ == Transition::scalar) return d_[0];
    return static_cast<int>(d_.size()) == keys_ ? d_[i] : d_[static_cast<std::size_t>(i * values_ + j)];
  }
  Rows<T> u() { return {u_.data(), keys_, rank_, keys_}; }

  int keys_, values_, rank_ = 0;
  Transition kind_ = Transition::none;
  std::vector<T> d_, u_, v_, m_;  // diagonal; U [keys, room for keys], V [rank, keys]; matrix [keys, keys]
  std::vector<T> b_;
};

}  // namespace fourfold
