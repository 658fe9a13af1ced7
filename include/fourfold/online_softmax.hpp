// Softmax-weighted sums in one pass: the monoid of attention.
//
// m reference exponent, l sum of weights, o weighted sum of values: the state (m, l, o) stands for e^m (l, o).
// combine takes the larger m and rescales the other side; (-inf, 0, 0) is the identity, and joins itself without NaN.
// Milakov and Gimelshein 2018; FlashAttention, Dao et al. 2022.
#pragma once

#include <fourfold/monoid.hpp>
#include <span>

namespace fourfold {

template <class T = float>
struct OnlineSoftmax {
  using Real = T;
  struct State {
    T m, l, o;
  };
  static constexpr bool commutative = true, log_scaled = true;

  std::span<const float> sinks{};  // one logit per head that takes weight and gives no value; or none

  template <class U>
  constexpr OnlineSoftmax<U> as() const {
    return {sinks};
  }
  constexpr State identity() const { return {-kInfinity<T>, 0, 0}; }
  // A score and its value; or the lse and the output of a part that was folded elsewhere.
  constexpr State lift(T score, T value) const { return score == -kInfinity<T> ? identity() : State{score, 1, value}; }
  constexpr State combine(State a, State b) const {
    const T m = larger(a.m, b.m), keep = rescale(a.m, m), add = rescale(b.m, m);
    return {m, keep * a.l + add * b.l, keep * a.o + add * b.o};
  }
  constexpr State seed(int head) const { return sinks.empty() ? identity() : State{static_cast<T>(sinks[head]), 1, 0}; }

  // The weighted mean; 0 where nothing was visible.
  constexpr T finish(State s) const { return s.l == 0 ? T(0) : s.o / s.l; }
  // ln of the sum of e^score; -infinity where nothing was visible.
  constexpr T lse(State s) const { return s.l == 0 ? -kInfinity<T> : s.m + fourfold::log(s.l); }

  // A row of outputs shares m and l.
  using Column = T;
  struct Row {
    T m, l;
    T* o;  // [columns]
    int columns;
  };
  constexpr Row row(T* storage, int columns) const {
    for (int c = 0; c < columns; ++c) storage[c] = 0;
    return {-kInfinity<T>, 0, storage, columns};
  }
  constexpr State column(const Row& r, int c) const { return {r.m, r.l, r.o[c]}; }

  constexpr void absorb(Row& r, ScoreTile<T> tile, ValueTile<T> values) const {
    T p[kLeaf], lane[kLanes];
    for (int j = 0; j < kLeaf; ++j) p[j] = tile.visible >> j & 1 ? tile.scores[j] : -kInfinity<T>;
    for (int i = 0; i < kLanes; ++i) lane[i] = p[i];
    for (int j = kLanes; j < kLeaf; j += kLanes)
      for (int i = 0; i < kLanes; ++i) lane[i] = larger(lane[i], p[j + i]);
    T m = r.m;
    for (int i = 0; i < kLanes; ++i) m = larger(m, lane[i]);
    if (m == -kInfinity<T>) return;

    for (int j = 0; j < kLeaf; ++j) p[j] = rescale(p[j], m);
    for (int i = 0; i < kLanes; ++i) lane[i] = p[i];
    for (int j = kLanes; j < kLeaf; j += kLanes)
      for (int i = 0; i < kLanes; ++i) lane[i] += p[j + i];
    T l = 0;
    for (int i = 0; i < kLanes; ++i) l += lane[i];

    const T keep = rescale(r.m, m);
    r.m = m;
    r.l = keep * r.l + l;
    for (int c = 0; c < r.columns; ++c) r.o[c] *= keep;
    add_weighted(r, p, values);
  }
  constexpr void merge(Row& r, const Row& next) const {
    if (next.m == -kInfinity<T>) return;
    const T m = larger(r.m, next.m), keep = rescale(r.m, m), add = rescale(next.m, m);
    r.m = m;
    r.l = keep * r.l + add * next.l;
    for (int c = 0; c < r.columns; ++c) r.o[c] = keep * r.o[c] + add * next.o[c];
  }

 private:
  // o += sum of p[j] v[j], four keys at a time; a key of weight 0 may hold anything.
  static constexpr void add_weighted(Row& r, const T* p, ValueTile<T> values) {
    int key[kLeaf], count = 0;
    for (int j = 0; j < kLeaf; ++j)
      if (p[j] != 0) key[count++] = j;
    const auto value = [&](int i) { return values.values + key[i] * values.stride; };
    int i = 0;
    for (; i + 4 <= count; i += 4) {
      const T *a = value(i), *b = value(i + 1), *c = value(i + 2), *d = value(i + 3);
      const T pa = p[key[i]], pb = p[key[i + 1]], pc = p[key[i + 2]], pd = p[key[i + 3]];
      for (int n = 0; n < r.columns; ++n) r.o[n] += (pa * a[n] + pb * b[n]) + (pc * c[n] + pd * d[n]);
    }
    for (; i < count; ++i)
      for (int n = 0; n < r.columns; ++n) r.o[n] += p[key[i]] * value(i)[n];
  }

  static constexpr int kLanes = 16;  // independent partial sums, so that the loops over a leaf vectorise
};
OnlineSoftmax(std::span<const float>)->OnlineSoftmax<float>;

}  // namespace fourfold
