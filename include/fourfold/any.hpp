// AnyWalk, AnyScore: a Walk or Score of any type as a value, for Programs, which are made at run time.
//
//   attend.walk = Window{128} & MyWalk{...};    attend.score = Alibi{heads};
//
// Both are themselves a Walk and a Score, so the reference executes them like any other. Executors ask for a leaf of 64
// keys at a time, and the loop over its keys is compiled with the type: one indirect call per 64 scores.
#pragma once

#include <concepts>
#include <cstdint>
#include <fourfold/monoid.hpp>
#include <fourfold/score.hpp>
#include <fourfold/walk.hpp>
#include <memory>
#include <type_traits>
#include <utility>

namespace fourfold {

class AnyWalk {
 public:
  AnyWalk() = default;  // empty: every key
  template <class W>
  requires(!std::same_as<W, AnyWalk> && Walk<W>) AnyWalk(W walk)
      : walk_(std::make_shared<const Held<W>>(std::move(walk))) {}

  explicit operator bool() const { return walk_ != nullptr; }
  bool visible(int query, int key) const { return !walk_ || walk_->visible(query, key); }
  // The keys first .. first + kLeaf - 1 that `query` sees, one bit each.
  std::uint64_t leaf(int query, int first) const { return walk_ ? walk_->leaf(query, first) : ~std::uint64_t{0}; }
  auto tiles(Range queries) const {
    return RangeView([walk = walk_, queries](int from) {
      return walk ? walk->next(queries, from) : Range{from, kEveryKey};
    });
  }

 private:
  struct Interface {
    virtual ~Interface() = default;
    virtual bool visible(int query, int key) const = 0;
    virtual std::uint64_t leaf(int query, int first) const = 0;
    virtual Range next(Range queries, int from) const = 0;
  };
  template <class W>
  struct Held final : Interface {
    W walk;
    explicit Held(W w) : walk(std::move(w)) {}
    bool visible(int query, int key) const override { return walk.visible(query, key); }
    std::uint64_t leaf(int query, int first) const override {
      const Range self{query, query + 1}, asked{first, first + kLeaf};
      const Range near = first_from(walk.tiles(self), first) & asked;  // any other lies behind it
      if (near.empty()) return 0;
      if constexpr (requires { walk.every(self, walk.span(self)); }) {
        const Range run = walk.span(self) & asked;
        if (run.empty()) return 0;
        if (walk.every(self, run)) return (~std::uint64_t{0} >> (kLeaf - run.size())) << (run.first - first);
      }
      std::uint64_t seen = 0;
      for (int i = near.first - first; i < kLeaf; ++i) seen |= std::uint64_t{walk.visible(query, first + i)} << i;
      return seen;
    }
    Range next(Range queries, int from) const override { return first_from(walk.tiles(queries), from); }
  };

  std::shared_ptr<const Interface> walk_;
};

class AnyScore {
 public:
  AnyScore() = default;  // empty: as it is
  template <class S>
  requires(!std::same_as<S, AnyScore> && Score<S>) AnyScore(S score)
      : score_(std::make_shared<const Held<S>>(std::move(score))) {}

  explicit operator bool() const { return score_ != nullptr; }
  AnyScore at_head(int head) const {
    AnyScore at = *this;
    at.head_ = head;
    return at;
  }
  template <class T>
  T operator()(T s, int query, int key) const {
    if (!score_) return s;
    if constexpr (std::same_as<T, double>) return score_->at(s, head_, query, key);
    float x = s;
    score_->leaf(&x, 1, head_, query, key);
    return x;
  }
  // In place: the scores of the keys first .. first + count - 1.
  void leaf(float* scores, int count, int head, int query, int first) const {
    if (score_) score_->leaf(scores, count, head, query, first);
  }

 private:
  struct Interface {
    virtual ~Interface() = default;
    virtual double at(double s, int head, int query, int key) const = 0;
    virtual void leaf(float* scores, int count, int head, int query, int first) const = 0;
  };
  template <class S>
  struct Held final : Interface {
    S score;
    explicit Held(S s) : score(std::move(s)) {}
    double at(double s, int head, int query, int key) const override {
      return static_cast<double>(fourfold::at_head(score, head)(s, query, key));
    }
    void leaf(float* scores, int count, int head, int query, int first) const override {
      const auto mine = fourfold::at_head(score, head);
      for (int i = 0; i < count; ++i) scores[i] = static_cast<float>(mine(scores[i], query, first + i));
    }
  };

  std::shared_ptr<const Interface> score_;
  int head_ = 0;
};

}  // namespace fourfold
