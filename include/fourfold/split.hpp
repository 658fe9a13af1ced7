// Attention over keys that several owners hold: split-KV inside a machine, a ring of machines around it.
//
//   SplitAttend mine{attention, queries, heads, columns};      // on each owner
//   mine.absorb(q, k, v, first, position);                     // its keys, at positions first, first + 1, ...
//   mine.take(std::move(theirs));                              // as they arrive, in any order
//   mine.finish(out, lse);
//
// A fold keeps a fresh state for each block of kBlock absolute positions and merges them left to right
// (fold_tiles.hpp). Here every block's states travel unmerged, so where owners' keys begin at multiples of kBlock the
// result has the bits of one fold over all keys, whoever held them. The seed (a sink) joins in finish(), once.
#pragma once

#include <fourfold/fold_tiles.hpp>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace fourfold {

template <class F>
class SplitAttend {
  using Monoid = decltype(F::monoid);
  using T = real_of<Monoid>;
  using ByRows = decltype(detail::by_rows(std::declval<Monoid>()));

 public:
  static constexpr int kBlock = detail::kBlock;

  SplitAttend(const F& fold, int queries, int heads, int columns)
      : fold_(fold), rows_(detail::by_rows(fold.monoid)), queries_(queries), heads_(heads), columns_(columns) {}

  // q [queries, heads, dim], the first at `position`   k [keys, kv heads, dim]   v [keys, kv heads, columns]; key i at
  // first + i. Each position is absorbed once, by one owner; invalid_argument where shapes or `first` do not fit.
  template <class Q, class K, class V>
  status absorb(const Heads<Q>& q, const Heads<K>& k, const Heads<V>& v, int first, int position) {
    if (first < 0 || first % kBlock != 0)
      return {Code::invalid_argument, "split attend: first key at " + std::to_string(first) +
                                          ", must be a multiple of " + std::to_string(kBlock)};
    if (q.tokens() != queries_ || q.heads != heads_ || v.dim() != columns_ || k.dim() != q.dim() ||
        k.tokens() != v.tokens() || k.heads != v.heads || k.heads == 0 || heads_ % k.heads != 0)
      return {Code::invalid_argument, "split attend: the shapes of q, k and v do not fit each other"};
    for (int key = 0; key < k.tokens(); key += kLeaf) absorb_leaf(q, k, v, first, key, position);
    return {};
  }

  // Blocks of another owner that attended with the same queries.
  void take(SplitAttend&& other) { blocks_.merge(other.blocks_); }

  // out [queries, heads, columns]   lse [queries, heads], may be absent. Once: it uses the states up.
  template <class O>
  void finish(const Heads<O>& out, LseRows lse = {}) {
    if (blocks_.empty()) blocks_.try_emplace(0, rows_, queries_ * heads_, columns_);
    for (int row = 0; row < queries_ * heads_; ++row) {
      auto& total = blocks_.begin()->second.states[static_cast<std::size_t>(row)];
      for (auto block = std::next(blocks_.begin()); block != blocks_.end(); ++block)
        rows_.merge(total, block->second.states[static_cast<std::size_t>(row)]);
      const int token = row / heads_, head = row % heads_;
      for (int c = 0; c < columns_; ++c) {
        const auto done = detail::complete(fold_.monoid, rows_.column(total, c), head);
        out.matrix(token, std::int64_t{head} * columns_ + c) = static_cast<element_of<O>>(fold_.monoid.finish(done));
        if constexpr (requires { fold_.monoid.lse(done); })
          if (lse.data && c == 0) lse(token, head) = static_cast<float>(fold_.monoid.lse(done));
      }
    }
  }

 private:
  struct Block {
    std::vector<typename ByRows::Column> columns;  // [rows, columns]
    std::vector<typename ByRows::Row> states;      // [rows]

    Block(const ByRows& rows, int count, int width)
        : columns(static_cast<std::size_t>(count) * static_cast<std::size_t>(width)) {
      for (int i = 0; i < count; ++i) states.push_back(rows.row(columns.data() + std::ptrdiff_t{i} * width, width));
    }
  };

  // The leaf of keys first + at, first + at + 1, ...
  template <class Q, class K, class V>
  void absorb_leaf(const Heads<Q>& q, const Heads<K>& k, const Heads<V>& v, int first, int at, int position) {
    const int count = std::min(kLeaf, k.tokens() - at), leaf = first + at, group = heads_ / k.heads, dim = q.dim();
    Block& block = blocks_.try_emplace(leaf / kBlock, rows_, queries_ * heads_, columns_).first->second;
    std::vector<T> keys(static_cast<std::size_t>(kLeaf * dim)), values(static_cast<std::size_t>(kLeaf * columns_));
    std::vector<T> query(static_cast<std::size_t>(dim));
    for (int head = 0; head < heads_; ++head) {
      for (int j = 0; j < count && head % group == 0; ++j) {
        read(k.matrix, at + j, std::int64_t{head / group} * dim, dim, &keys[static_cast<std::size_t>(j * dim)]);
        read(v.matrix, at + j, std::int64_t{head / group} * columns_, columns_,
             &values[static_cast<std::size_t>(j * columns_)]);
      }
      const auto score = at_head(fold_.score, head);
      for (int t = 0; t < queries_; ++t) {
        read(q.matrix, t, std::int64_t{head} * dim, dim, query.data());
        T scores[kLeaf]{};
        std::uint64_t visible = 0;
        for (int j = 0; j < count; ++j) {
          if (!fold_.walk.visible(position + t, leaf + j)) continue;
          visible |= std::uint64_t{1} << j;
          const T s = dot(query.data(), &keys[static_cast<std::size_t>(j * dim)], dim);
          scores[j] = static_cast<T>(score(s, position + t, leaf + j));
        }
        if (visible != 0)
          rows_.absorb(block.states[static_cast<std::size_t>(t * heads_ + head)], ScoreTile<T>{scores, visible},
                       ValueTile<T>{values.data(), columns_});
      }
    }
  }

  F fold_;
  ByRows rows_;
  int queries_, heads_, columns_;
  std::map<int, Block> blocks_;  // by absolute position / kBlock
};

}  // namespace fourfold
