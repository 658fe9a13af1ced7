// Walk: which inputs an output visits, and which of them count.
//
// A walk answers two questions about absolute positions (query: of the output, key: of the input; int, from 0):
//   visible(query, key) -> bool            does this pair count? The definition; reference asks nothing else.
//   tiles(Range queries) -> Range sequence  ascending, disjoint ranges of keys that hold every key visible to one of
//                                           `queries`; more is legal, and costs time only.
// A query may have a negative position (more queries than keys): it sees nothing that is causal. `tiles` may reach past
// the last key; drivers clip. Walks are values of a few words; those over lists keep spans of the caller's memory.
// Optional hooks for fast drivers:
//   span(Range queries) -> Range              one range that holds all of tiles(queries)
//   every(Range queries, Range keys) -> bool  true only if each pair of theirs counts; neither is empty
#pragma once

#include <climits>
#include <concepts>
#include <initializer_list>

namespace fourfold {

struct Range {
  int first = 0, end = 0;  // [first, end)

  constexpr bool empty() const { return first >= end; }
  constexpr int size() const { return empty() ? 0 : end - first; }
  constexpr Range operator&(Range other) const {
    return {first > other.first ? first : other.first, end < other.end ? end : other.end};
  }
  friend constexpr bool operator==(Range, Range) = default;
};

inline constexpr int kEveryKey = INT_MAX;

// Up to four ranges: ascending, disjoint, none empty, none below 0.
class Ranges {
 public:
  static constexpr int kMost = 4;

  constexpr void add(Range r) {
    r = r & Range{0, kEveryKey};
    if (r.empty()) return;
    int kept = 0;
    for (int i = 0; i < count_; ++i) {  // absorb what touches r
      const Range old = items_[i];
      if (old.first <= r.end && r.first <= old.end) {
        r = {old.first < r.first ? old.first : r.first, old.end > r.end ? old.end : r.end};
      } else {
        items_[kept++] = old;
      }
    }
    count_ = kept + 1;
    for (; kept > 0 && items_[kept - 1].first > r.first; --kept) items_[kept] = items_[kept - 1];
    items_[kept] = r;
  }
  constexpr const Range* begin() const { return items_; }
  constexpr const Range* end() const { return items_ + count_; }

 private:
  Range items_[kMost]{};
  int count_ = 0;
};

// Merges and clips ranges given in any order: ranges({0, sinks}, {last - window, last}).
constexpr Ranges ranges(Range a, Range b = {}, Range c = {}, Range d = {}) {
  Ranges all;
  for (Range r : {a, b, c, d}) all.add(r);
  return all;
}

template <class W>
concept HasVisible = requires(const W& walk, int position) {
  { walk.visible(position, position) } -> std::convertible_to<bool>;
};
template <class W>
concept HasTiles = requires(const W& walk, Range queries) {
  { *walk.tiles(queries).begin() } -> std::convertible_to<Range>;
  walk.tiles(queries).begin() != walk.tiles(queries).end();
};
template <class W>
concept Walk = HasVisible<W> && HasTiles<W>;

// Every input: a matrix product, a row reduction, an encoder's attention.
struct Full {
  constexpr bool visible(int, int) const { return true; }
  constexpr Range span(Range) const { return {0, kEveryKey}; }
  constexpr bool every(Range, Range) const { return true; }
  constexpr Ranges tiles(Range queries) const { return ranges(span(queries)); }
};

// A query and everything before it.
struct Causal {
  constexpr bool visible(int query, int key) const { return key <= query; }
  constexpr Range span(Range queries) const { return {0, queries.end}; }
  constexpr bool every(Range queries, Range keys) const { return keys.end <= queries.first + 1; }
  constexpr Ranges tiles(Range queries) const { return ranges(span(queries)); }
};

// The last `size` positions, the query's own among them.
struct Window {
  int size;

  constexpr bool visible(int query, int key) const { return key <= query && query - key < size; }
  constexpr Range span(Range queries) const {
    return {queries.first < size ? 0 : queries.first - size + 1, queries.end};  // size may be kEveryKey
  }
  constexpr bool every(Range queries, Range keys) const {
    return keys.end <= queries.first + 1 && queries.end - 1 - keys.first < size;
  }
  constexpr Ranges tiles(Range queries) const { return ranges(span(queries)); }
};

// Causal within fixed chunks of `size` positions.
struct Chunk {
  int size;

  constexpr bool visible(int query, int key) const { return key <= query && key / size == query / size; }
  constexpr Range span(Range queries) const {
    return {queries.first > 0 ? queries.first / size * size : 0, queries.end};
  }
  constexpr bool every(Range queries, Range keys) const {
    return keys.end <= queries.first + 1 && keys.first / size == (queries.end - 1) / size;
  }
  constexpr Ranges tiles(Range queries) const { return ranges(span(queries)); }
};

// Ranges made one by one: next(from) is the first that ends after key `from`, begun no earlier than it; or an empty
// one.
template <class Next>
class RangeView {
 public:
  struct End {};
  struct Iterator {
    const Next* next;
    Range now;

    constexpr Range operator*() const { return now; }
    constexpr Iterator& operator++() { return now = (*next)(now.end), *this; }
    constexpr bool operator==(End) const { return now.empty(); }
  };

  constexpr explicit RangeView(Next next) : next_(next) {}
  constexpr Iterator begin() const { return {&next_, next_(0)}; }
  constexpr End end() const { return {}; }
  constexpr Range from(int key) const { return next_(key); }

 private:
  Next next_;
};

template <class Sequence>
constexpr Range first_from(const Sequence& sequence, int key) {
  if constexpr (requires { sequence.from(key); }) {
    return sequence.from(key);
  } else {
    for (Range r : sequence)
      if (r.end > key) return r & Range{key, kEveryKey};
    return {};
  }
}

// What two walks both visit, written `a & b`.
template <class A, class B>
struct Both {
  A a;
  B b;

  constexpr bool visible(int query, int key) const { return a.visible(query, key) && b.visible(query, key); }
  constexpr auto tiles(Range queries) const {
    return RangeView([a = a.tiles(queries), b = b.tiles(queries)](int from) {
      for (;;) {
        const Range r = first_from(a, from), s = first_from(b, from);
        if (r.empty() || s.empty()) return Range{};
        if (!(r & s).empty()) return r & s;
        from = (r & s).first;
      }
    });
  }
};

template <Walk A, Walk B>
constexpr Both<A, B> operator&(A a, B b) {
  return {a, b};
}

}  // namespace fourfold
