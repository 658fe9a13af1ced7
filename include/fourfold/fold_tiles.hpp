// The tile driver: a fold on threads, for any walk, score, load, monoid and epilogue.
//
// Keys fall into leaves of kLeaf at absolute positions and blocks of kBlock; each block starts from a fresh state and
// blocks merge left to right, so an output's bits depend on its own keys alone: not on threads, batch-mates or
// chunking. A job is one block for up to kQueries neighbouring queries and all query heads of one key head, so that a
// decoded leaf serves them all. Fits caches: a leaf of 64 x 128 floats is 32 KB; then the dot products bind.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fourfold/executor.hpp>
#include <fourfold/fold_checks.hpp>
#include <fourfold/fold_reference.hpp>
#include <fourfold/load.hpp>
#include <fourfold/math.hpp>
#include <fourfold/monoid.hpp>
#include <fourfold/walk.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace fourfold::detail {

inline constexpr int kBlock = 1024, kQueries = 8, kBlocksInFlight = 256;

// Row states for a monoid that keeps none: one state per column, each fed by `combine`.
template <class M>
struct ByColumn {
  using State = typename M::State;
  using Column = State;
  struct Row {
    State* states;
    int columns;
  };
  M monoid;

  constexpr Row row(State* storage, int columns) const {
    for (int c = 0; c < columns; ++c) storage[c] = monoid.identity();
    return {storage, columns};
  }
  template <class T>
  constexpr void absorb(Row& r, ScoreTile<T> tile, ValueTile<T> values) const {
    for (int j = 0; j < kLeaf; ++j)
      if (tile.visible >> j & 1)
        for (int c = 0; c < r.columns; ++c)
          r.states[c] = monoid.combine(r.states[c], monoid.lift(tile.scores[j], values.values[j * values.stride + c]));
  }
  constexpr void merge(Row& r, const Row& next) const {
    for (int c = 0; c < r.columns; ++c) r.states[c] = monoid.combine(r.states[c], next.states[c]);
  }
  constexpr State column(const Row& r, int c) const { return r.states[c]; }
};

template <class M>
constexpr auto by_rows(const M& monoid) {
  if constexpr (RowMonoid<M>) {
    return monoid;
  } else {
    return ByColumn<M>{monoid};
  }
}

template <class F, class Q, class K, class V, class O>
class TileAttend {
  using Monoid = decltype(F::monoid);
  using T = real_of<Monoid>;
  using ByRows = decltype(by_rows(std::declval<Monoid>()));
  using Row = typename ByRows::Row;
  using Column = typename ByRows::Column;

 public:
  TileAttend(const F& fold, const Heads<Q>& q, const Heads<K>& k, const Heads<V>& v, const Heads<O>& out, LseRows lse)
      : fold_(fold),
        rows_(by_rows(fold.monoid)),
        q_(q),
        k_(k),
        v_(v),
        out_(out),
        lse_(lse),
        dim_(q.dim()),
        width_(v.dim()),
        group_(q.heads / k.heads) {}

  template <class Pool>
  void run(const Pool& pool, const Sequences& sequences) {
    for (int s = 0; s < sequences.count(); ++s) {
      const Range keys{sequences.keys[s], sequences.keys[s + 1]};
      for (int first = sequences.queries[s]; first < sequences.queries[s + 1]; first += kQueries) {
        const int end = std::min(first + kQueries, sequences.queries[s + 1]);
        for (int head = 0; head < k_.heads; ++head) {
          jobs_.push_back({{first, end}, keys, keys.size() - sequences.queries[s + 1], head, blocks_});
          blocks_ += std::max(1, (keys.size() + kBlock - 1) / kBlock);
        }
        if (blocks_ >= kBlocksInFlight) flush(pool);  // bounds the memory for partial states
      }
    }
    flush(pool);
    if constexpr (!std::is_same_v<decltype(F::epilogue), Plain>)
      pool(out_.tokens(), [this](int token) { apply(fold_.epilogue, out_.matrix.row(token), token); });
  }

 private:
  struct Job {
    Range queries;    // tokens
    Range keys;       // tokens
    int shift;        // position = token + shift
    int head;         // of the keys
    int first_block;  // among all in flight
  };

  int states_per_block() const { return kQueries * group_; }

  template <class Pool>
  void flush(const Pool& pool) {
    const std::size_t states = static_cast<std::size_t>(blocks_) * states_per_block();
    partial_.resize(states);
    columns_.resize(states * width_);
    pool(blocks_, [this](int block) { fold_block(block); });
    pool(static_cast<int>(jobs_.size()), [this](int job) { finish(job); });
    jobs_.clear();
    blocks_ = 0;
  }

  Row* states_of(int block) { return partial_.data() + static_cast<std::size_t>(block) * states_per_block(); }

  void fold_block(int block) {
    const auto after =
        std::upper_bound(jobs_.begin(), jobs_.end(), block, [](int b, const Job& job) { return b < job.first_block; });
    const Job& job = *(after - 1);
    Row* states = states_of(block);
    Column* storage = columns_.data() + static_cast<std::size_t>(block) * states_per_block() * width_;
    for (int i = 0; i < states_per_block(); ++i) states[i] = rows_.row(storage + i * width_, width_);

    const int begin = (block - job.first_block) * kBlock;
    const Range mine = Range{begin, begin + kBlock} & Range{0, job.keys.size()};
    std::vector<T> q(static_cast<std::size_t>(states_per_block()) * dim_), k(kLeaf * dim_), v(kLeaf * width_);
    for (int i = 0; i < job.queries.size() * group_; ++i)
      read(q_.matrix, job.queries.first + i / group_, std::int64_t{head_of(job, i)} * dim_, dim_, &q[i * dim_]);

    const auto tiles = fold_.walk.tiles({job.queries.first + job.shift, job.queries.end + job.shift});
    for (int leaf = mine.first; leaf < mine.end; leaf += kLeaf) {
      std::uint64_t visited = 0;  // by any of the queries
      const Range whole = mine & Range{leaf, leaf + kLeaf};
      for (Range r = first_from(tiles, leaf) & whole; !r.empty(); r = first_from(tiles, r.end) & whole)
        for (int key = r.first; key < r.end; ++key) visited |= std::uint64_t{1} << (key - leaf);
      if (visited == 0) continue;
      for (int j = 0; j < kLeaf; ++j) {
        if (!(visited >> j & 1)) continue;
        const std::int64_t key = job.keys.first + leaf + j;
        read(k_.matrix, key, std::int64_t{job.head} * dim_, dim_, &k[j * dim_]);
        read(v_.matrix, key, std::int64_t{job.head} * width_, width_, &v[j * width_]);
      }
      for (int i = 0; i < job.queries.size() * group_; ++i)
        absorb(states[i], job, i, leaf, visited, &q[i * dim_], k.data(), v.data());
    }
  }

  // One row of queries, one leaf.
  void absorb(Row& state, const Job& job, int i, int leaf, std::uint64_t visited, const T* q, const T* k, const T* v) {
    const int position = job.queries.first + i / group_ + job.shift;
    const auto score = at_head(fold_.score, head_of(job, i));
    T scores[kLeaf]{};
    std::uint64_t visible = 0;
    for (int j = 0; j < kLeaf; ++j) {
      if (!(visited >> j & 1) || !fold_.walk.visible(position, leaf + j)) continue;
      visible |= std::uint64_t{1} << j;
      scores[j] = dot(q, k + j * dim_, dim_);
    }
    if (visible == 0) return;
    if (visible == ~std::uint64_t{0}) {
      for (int j = 0; j < kLeaf; ++j) scores[j] = static_cast<T>(score(scores[j], position, leaf + j));
    } else {  // a score may not be asked about a key that does not count
      for (int j = 0; j < kLeaf; ++j)
        if (visible >> j & 1) scores[j] = static_cast<T>(score(scores[j], position, leaf + j));
    }
    rows_.absorb(state, ScoreTile<T>{scores, visible}, ValueTile<T>{v, width_});
  }

  int head_of(const Job& job, int i) const { return job.head * group_ + i % group_; }

  // Merges a job's blocks, left to right, and stores its outputs.
  void finish(int index) {
    const Job& job = jobs_[index];
    const int end = index + 1 < static_cast<int>(jobs_.size()) ? jobs_[index + 1].first_block : blocks_;
    for (int i = 0; i < job.queries.size() * group_; ++i) {
      Row& state = states_of(job.first_block)[i];
      for (int block = job.first_block + 1; block < end; ++block) rows_.merge(state, states_of(block)[i]);
      const int token = job.queries.first + i / group_, head = head_of(job, i);
      for (int c = 0; c < width_; ++c) {
        const auto done = complete(fold_.monoid, rows_.column(state, c), head);
        out_.matrix(token, std::int64_t{head} * width_ + c) = static_cast<element_of<O>>(fold_.monoid.finish(done));
        if constexpr (requires { fold_.monoid.lse(done); })
          if (lse_.data && c == 0) lse_(token, head) = static_cast<float>(fold_.monoid.lse(done));
      }
    }
  }

  const F& fold_;
  ByRows rows_;
  Heads<Q> q_;
  Heads<K> k_;
  Heads<V> v_;
  Heads<O> out_;
  LseRows lse_;
  int dim_, width_, group_;  // of a query, of a value; query heads per key head
  std::vector<Job> jobs_;
  int blocks_ = 0;
  std::vector<Row> partial_;
  std::vector<Column> columns_;
};

template <class F, ParallelFor Pool, class Q, class K, class V, class O>
void attend(const F& fold, const Pool& pool, const Heads<Q>& q, const Heads<K>& k, const Heads<V>& v,
            const Heads<O>& out, LseRows lse, const Sequences& sequences) {
  TileAttend<F, Q, K, V, O>(fold, q, k, v, out, lse).run(pool, sequences);
}

}  // namespace fourfold::detail
