// Attention over one block of keys: online softmax, leaf by leaf. Limit: memory in decode, fma units in prefill.
//
// The chain of one query, always, for each leaf it sees: score = fma over dimensions in order, times scale log2(e);
// m' = max(m, scores); p = 2^(score - m'); l and O are rescaled by 2^(m - m') and take the keys in order. A key it does
// not see adds nothing to any sum, not even a zero. Up to kQueries queries share the reading of a leaf; more queries
// share its conversion to floats.
#pragma once

#include "cpu/simd/attend_rows.hpp"
#include "cpu/simd/cache.hpp"
#include "cpu/simd/exp.hpp"

namespace fourfold::simd {
namespace {

inline constexpr std::size_t kFirstBytes = 16384;  // fetched before a block's first leaf is read
inline constexpr float kMinusInfinity = -__builtin_inff();

// Where a query's running sums lie in its state.
struct StateView {
  float *o, *l, *m;
  [[gnu::always_inline]] StateView(float* state, int d) : o(state), l(state + (d + 15) / 16 * 16), m(l + 16) {}
};

// The queries of a group that see something of the current leaf, and their keys [first, last) of its 64.
template <int N>
struct Group {
  int count = 0;
  const float* q[N];
  float* state[N];
  int first[N], last[N];
  int index[N];  // in AttendArgs
};

// scores[i][key] = q_i . k for all 64 keys (those that nobody appended give numbers that nobody uses).
template <class V, int N, class Source>
[[gnu::noinline]] void score_keys(const Source& source, int d, const float* const* queries,
                                  float (*scores)[kLeafKeys]) {
  constexpr int C = V::kColumns;
  const float* q[N];
  FOURFOLD_UNROLL for (int i = 0; i < N; ++i) q[i] = queries[i];
  for (int c = 0; c < kLeafKeys / 16; c += C) {
    typename V::F s[N][C];
    FOURFOLD_UNROLL for (int i = 0; i < N * C; ++i) s[i / C][i % C] = V::zero();
    for (int j = 0; j < d; ++j) {
      if (c == 0) source.near_key(j);
      typename V::F k[C];
      FOURFOLD_UNROLL for (int x = 0; x < C; ++x) k[x] = source.key(j, c + x);
      FOURFOLD_UNROLL for (int i = 0; i < N; ++i) {
        const auto a = V::set(q[i][j]);
        FOURFOLD_UNROLL for (int x = 0; x < C; ++x) s[i][x] = V::fma(a, k[x], s[i][x]);
      }
    }
    FOURFOLD_UNROLL for (int i = 0; i < N; ++i) {
      FOURFOLD_UNROLL for (int x = 0; x < C; ++x) V::store(scores[i] + 16 * (c + x), s[i][x]);
    }
  }
}

// O_i += sum over keys first..last-1 of p_i[key] V[key], for `C` vectors of dimensions from vector `at`.
template <class V, int N, int C, class Source>
FOURFOLD_INLINE void add_value_columns(const Source& source, int at, int first, int last, const float* const (&p)[N],
                                       float* const (&o)[N]) {
  typename V::F acc[N][C];
  FOURFOLD_UNROLL for (int i = 0; i < N * C; ++i) acc[i / C][i % C] = V::load(o[i / C] + 16 * (at + i % C));
  for (int key = first; key < last; ++key) {
    source.near_value(key, at, C);
    typename V::F v[C];
    FOURFOLD_UNROLL for (int x = 0; x < C; ++x) v[x] = source.value(key, at + x);
    FOURFOLD_UNROLL for (int i = 0; i < N; ++i) {
      const auto a = V::set(p[i][key]);
      FOURFOLD_UNROLL for (int x = 0; x < C; ++x) acc[i][x] = V::fma(a, v[x], acc[i][x]);
    }
  }
  FOURFOLD_UNROLL for (int i = 0; i < N * C; ++i) V::store(o[i / C] + 16 * (at + i % C), acc[i / C][i % C]);
}

template <class V, int N, class Source>
[[gnu::noinline]] void add_values(const Source& source, int d, int first, int last, const float (*weights)[kLeafKeys],
                                  float* const* states) {
  constexpr int C = V::kColumns;
  const float* p[N];
  float* o[N];
  FOURFOLD_UNROLL for (int i = 0; i < N; ++i) p[i] = weights[i], o[i] = states[i];
  const int vectors = (d + 15) / 16;
  int at = 0;
  for (; at + C <= vectors; at += C) add_value_columns<V, N, C>(source, at, first, last, p, o);
  for (; at < vectors; ++at) add_value_columns<V, N, 1>(source, at, first, last, p, o);
}

// The two passes for a run-time number of queries.
template <class V, int N = V::kQueries>
FOURFOLD_INLINE void score_group(int count, const RowSource<V>& source, int d, const float* const* q,
                                 float (*scores)[kLeafKeys]) {
  if (count == N) return score_rows<V, N>(source, d, q, scores);
  if constexpr (N > 1) score_group<V, N - 1>(count, source, d, q, scores);
}
template <class V, class Source, int N = V::kQueries>
FOURFOLD_INLINE void score_group(int count, const Source& source, int d, const float* const* q,
                                 float (*scores)[kLeafKeys]) {
  if (count == N) return score_keys<V, N>(source, d, q, scores);
  if constexpr (N > 1) score_group<V, Source, N - 1>(count, source, d, q, scores);
}
template <class V, class Source, int N = V::kQueries>
FOURFOLD_INLINE void add_group(int count, const Source& source, int d, int first, int last, const float (*p)[kLeafKeys],
                               float* const* states) {
  if (count == N) return add_values<V, N>(source, d, first, last, p, states);
  if constexpr (N > 1) add_group<V, Source, N - 1>(count, source, d, first, last, p, states);
}

// Turns a query's scores into weights p against its new reference m, and rescales its sums to it.
template <class V>
FOURFOLD_INLINE void soften(const AttendArgs& args, float (&s)[kLeafKeys], int first, int last, float* state) {
  constexpr int C = kLeafKeys / 16;
  const StateView at(state, args.shape.value);
  const auto scale = V::set(args.scale), log2e = V::set(kLog2e), none = V::set(kMinusInfinity);
  typename V::F x[C];
  auto largest = none;
  FOURFOLD_UNROLL for (int c = 0; c < C; ++c) {
    auto score = V::mul(V::load(s + 16 * c), scale);
    if (args.soft_cap > 0) score = V::mul(V::set(args.soft_cap), tanh<V>(V::div(score, V::set(args.soft_cap))));
    x[c] = V::keep(V::mul(score, log2e), first - 16 * c, last - 16 * c, none);
    largest = V::max(x[c], largest);
  }
  const float old = *at.m, top = V::maximum(largest), now = top > old ? top : old;
  const auto reference = V::set(now == kMinusInfinity ? 0.0f : now);
  auto total = V::zero();
  FOURFOLD_UNROLL for (int c = 0; c < C; ++c) {
    const auto p = exp2<V>(V::sub(x[c], reference));
    V::store(s + 16 * c, p);
    total = V::add(total, p);
  }
  const auto shrink = exp2<V>(V::sub(V::set(old), reference));
  V::store(at.l, V::fma(V::load(at.l), shrink, total));
  *at.m = now;
  if (now == old) return;  // shrink is 1
  for (float* o = at.o; o < at.l; o += 16) V::store(o, V::mul(V::load(o), shrink));
}

// Bits first .. last - 1.
FOURFOLD_INLINE std::uint64_t bits_between(int first, int last) {
  return (last < 64 ? (std::uint64_t{1} << last) - 1 : ~std::uint64_t{0}) & ~((std::uint64_t{1} << first) - 1);
}

// Weights and values of a leaf's scores for the queries of a group, each of which sees one run of its keys.
template <class V, class Source>
void add_leaf(const AttendArgs& args, const Source& source, const Group<V::kQueries>& group, float (*p)[kLeafKeys]) {
  int first = 0, last = kLeafKeys;  // what all of them see
  for (int i = 0; i < group.count; ++i) {
    source.near_query(i, group.count);
    soften<V>(args, p[i], group.first[i], group.last[i], group.state[i]);
    first = group.first[i] > first ? group.first[i] : first;
    last = group.last[i] < last ? group.last[i] : last;
  }
  const auto alone = [&](int i, int from, int to) {
    if (from < to) add_values<V, 1>(source, args.shape.value, from, to, p + i, group.state + i);
  };
  if (first >= last) first = last = kLeafKeys;
  for (int i = 0; i < group.count; ++i) alone(i, group.first[i], first < group.last[i] ? first : group.last[i]);
  if (first < last) add_group<V>(group.count, source, args.shape.value, first, last, p, group.state);
  for (int i = 0; i < group.count; ++i) alone(i, last > group.first[i] ? last : group.first[i], group.last[i]);
}

// The same for a query that sees the keys whose bits are set, run by run.
template <class V, class Source>
void add_masked(const AttendArgs& args, const Source& source, std::uint64_t visible, float (*p)[kLeafKeys],
                float* state) {
  for (int i = 0; i < kLeafKeys; ++i)
    if (!(visible >> i & 1)) (*p)[i] = kMinusInfinity;
  soften<V>(args, *p, 0, kLeafKeys, state);
  float* const states[] = {state};
  while (visible != 0) {
    const int from = __builtin_ctzll(visible);
    const std::uint64_t behind = ~(visible >> from);
    const int to = behind == 0 ? kLeafKeys : from + __builtin_ctzll(behind);
    add_values<V, 1>(source, args.shape.value, from, to, p, states);
    visible = to < kLeafKeys ? visible >> to << to : 0;
  }
}

// One leaf for the queries of a group that see it. `Source` is a LeafSource or a RowSource.
template <class V, class Source>
void attend_leaf(const AttendArgs& args, const Source& source, const Group<V::kQueries>& group) {
  alignas(64) float p[V::kQueries][kLeafKeys];
  score_group<V>(group.count, source, args.shape.key, group.q, p);
  add_leaf<V>(args, source, group, p);
}

template <class V>
void scale_scores(const AttendArgs& args, float (&s)[kLeafKeys]) {
  for (int c = 0; c < kLeafKeys; c += 16) {
    auto score = V::mul(V::load(s + c), V::set(args.scale));
    if (args.soft_cap > 0) score = V::mul(V::set(args.soft_cap), tanh<V>(V::div(score, V::set(args.soft_cap))));
    V::store(s + c, score);
  }
}

// The same where the walk or the score is the caller's: a walk that leaves each query one run costs no more.
template <class V, class Source>
[[gnu::noinline]] void attend_hooked_leaf(const AttendArgs& args, const Source& source, int key,
                                          const Group<V::kQueries>& group) {
  alignas(64) float p[V::kQueries][kLeafKeys];
  const AttendHook& hook = *args.hook;
  std::uint64_t visible[V::kQueries];
  Group<V::kQueries> seeing;
  bool runs = true;
  for (int i = 0; i < group.count; ++i) {
    const std::uint64_t own = hook.visible ? hook.visible(hook.self, group.index[i], key) : ~std::uint64_t{0};
    const std::uint64_t seen = own & bits_between(group.first[i], group.last[i]);
    if (seen == 0) continue;
    const int first = __builtin_ctzll(seen), last = kLeafKeys - __builtin_clzll(seen), n = seeing.count++;
    runs = runs && seen == bits_between(first, last);
    visible[n] = seen;
    seeing.q[n] = group.q[i], seeing.state[n] = group.state[i], seeing.index[n] = group.index[i];
    seeing.first[n] = first, seeing.last[n] = last;
  }
  if (seeing.count == 0) return;
  score_group<V>(seeing.count, source, args.shape.key, seeing.q, p);
  if (runs && !hook.score) return add_leaf<V>(args, source, seeing, p);
  AttendArgs plain = args;  // scales and caps are applied here
  plain.scale = 1, plain.soft_cap = 0;
  for (int i = 0; i < seeing.count; ++i) {
    scale_scores<V>(args, p[i]);
    if (hook.score) hook.score(hook.self, seeing.index[i], key, visible[i], p[i]);
  }
  if (runs) return add_leaf<V>(plain, source, seeing, p);
  for (int i = 0; i < seeing.count; ++i) add_masked<V>(plain, source, visible[i], p + i, seeing.state[i]);
}

// Queries begin..end-1 against the leaf whose first key is `key`.
template <class V, class Source>
void attend_group(const AttendArgs& args, const Source& source, int key, int begin, int end) {
  Group<V::kQueries> group;
  for (int i = begin; i < end; ++i) {
    const int first = args.first[i] - key, last = args.last[i] - key;
    if (first >= last || first >= kLeafKeys || last <= 0) continue;
    group.q[group.count] = args.q[i];
    group.state[group.count] = args.state + i * args.state_stride;
    group.first[group.count] = first > 0 ? first : 0;
    group.last[group.count] = last < kLeafKeys ? last : kLeafKeys;
    group.index[group.count] = i;
    ++group.count;
  }
  if (group.count == 0) return;
  if (args.hook)
    attend_hooked_leaf<V>(args, source, key, group);
  else
    attend_leaf<V>(args, source, group);
}

// Copies a leaf into a leaf of floats.
template <class V, class Source>
void widen(const Source& source, KvShape shape, float* leaf) {
  for (int i = 0; i < shape.key; ++i) {
    FOURFOLD_UNROLL for (int c = 0; c < kLeafKeys / 16; ++c) V::store(leaf + i * kLeafKeys + 16 * c, source.key(i, c));
  }
  float* v = leaf + shape.key * kLeafKeys;
  const int vectors = (shape.value + 15) / 16;
  for (int key = 0; key < kLeafKeys; ++key)
    for (int x = 0; x < vectors; ++x, v += 16) V::store(v, source.value(key, x));
}

template <class V, Storage kType>
FOURFOLD_INLINE void attend_few(const AttendArgs& args, const std::uint8_t* leaf, const std::uint8_t* next, int key) {
  if (leaf_layout(kType, args.shape).bytes <= kSmallLeaf)
    attend_group<V>(args, LeafSource<V, kType, Fetch::whole>(leaf, next, args.shape), key, 0, args.queries);
  else
    attend_group<V>(args, LeafSource<V, kType, Fetch::half>(leaf, next, args.shape), key, 0, args.queries);
}

template <class V, Storage kType>
[[gnu::noinline]] void attend_many(const AttendArgs& args, const std::uint8_t* leaf, int key) {
  alignas(64) float wide[kType == Storage::f32 ? 1 : 2 * kMaxHeadDim * kLeafKeys];
  if constexpr (kType != Storage::f32) {
    widen<V>(LeafSource<V, kType, Fetch::none>(leaf, leaf, args.shape), args.shape, wide);
    leaf = reinterpret_cast<const std::uint8_t*>(wide);
  }
  const LeafSource<V, Storage::f32, Fetch::none> floats(leaf, leaf, args.shape);
  for (int i = 0; i < args.queries; i += V::kQueries)
    attend_group<V>(args, floats, key, i, i + V::kQueries < args.queries ? i + V::kQueries : args.queries);
}

// A leaf of keys only: rows of floats, turned into floats first where they are stored otherwise.
template <class V, Storage kType>
[[gnu::noinline]] void attend_rows(const AttendArgs& args, const std::uint8_t* leaf, int key) {
  alignas(64) float wide[kType == Storage::f32 ? 1 : kMaxHeadDim * kLeafKeys];
  const float* rows = reinterpret_cast<const float*>(leaf);
  if constexpr (kType != Storage::f32) {
    widen_rows<V, kType>(leaf, args.shape, wide);
    rows = wide;
  }
  const RowSource<V> source{rows, padded(args.shape.key)};
  for (int i = 0; i < args.queries; i += V::kQueries)
    attend_group<V>(args, source, key, i, i + V::kQueries < args.queries ? i + V::kQueries : args.queries);
}

template <class V, Storage kType>
void attend_type(const AttendArgs& args) {
  int begin = kBlockKeys, end = 0;  // keys that any query sees
  for (int i = 0; i < args.queries; ++i) {
    const StateView at(args.state + i * args.state_stride, args.shape.value);
    __builtin_memset(at.o, 0, static_cast<std::size_t>(at.m - at.o) * sizeof(float));
    *at.m = kMinusInfinity;
    if (args.first[i] >= args.last[i]) continue;
    begin = args.first[i] < begin ? args.first[i] : begin;
    end = args.last[i] > end ? args.last[i] : end;
  }
  const bool few = args.queries <= V::kQueries;
  const std::size_t leaf_bytes = leaf_layout(kType, args.shape).bytes;
  if (few && begin < end)
    prefetch(args.leaves[begin / kLeafKeys] + args.offset,
             static_cast<int>(leaf_bytes < kFirstBytes ? leaf_bytes : kFirstBytes));
  for (int key = begin / kLeafKeys * kLeafKeys; key < end; key += kLeafKeys) {
    const std::uint8_t* const* leaves = args.leaves + key / kLeafKeys;
    const std::uint8_t* leaf = leaves[0] + args.offset;
    if (args.shape.keys_only)
      attend_rows<V, kType>(args, leaf, key);
    else if (few)
      attend_few<V, kType>(args, leaf, (leaves[1] ? leaves[1] : leaves[0]) + args.offset, key);
    else
      attend_many<V, kType>(args, leaf, key);
  }
}

template <class V>
void attend(const AttendArgs& args) {
  switch (args.type) {
    case Storage::f16:
      return attend_type<V, Storage::f16>(args);
    case Storage::bf16:
      return attend_type<V, Storage::bf16>(args);
    case Storage::q8_0:
      return attend_type<V, Storage::q8_0>(args);
    default:
      return attend_type<V, Storage::f32>(args);
  }
}

template <class V, Storage kType>
[[gnu::noinline]] void index_leaf(const IndexArgs& args) {
  alignas(64) float wide[kType == Storage::f32 ? 1 : kMaxHeadDim * kLeafKeys], q[V::kQueries][kMaxHeadDim] = {};
  alignas(64) float s[V::kQueries][kLeafKeys];
  const float *rows = reinterpret_cast<const float*>(args.leaf), *queries[V::kQueries];
  if constexpr (kType != Storage::f32) {
    widen_rows<V, kType>(args.leaf, {args.d, args.d, true}, wide);
    rows = wide;
  }
  const RowSource<V> source{rows, padded(args.d)};
  for (int c = 0; c < kLeafKeys; c += 16) V::store(args.scores + c, V::zero());
  for (int head = 0; head < args.heads; head += V::kQueries) {
    const int n = args.heads - head < V::kQueries ? args.heads - head : V::kQueries;
    for (int i = 0; i < n; ++i) {
      __builtin_memcpy(q[i], args.q + (head + i) * args.d, static_cast<std::size_t>(args.d) * sizeof(float));
      queries[i] = q[i];
    }
    score_group<V>(n, source, args.d, queries, s);
    for (int i = 0; i < n; ++i)
      for (int c = 0; c < kLeafKeys; c += 16) {
        const auto match = V::max(V::zero(), V::mul(V::load(s[i] + c), V::set(args.scale)));
        V::store(args.scores + c, V::fma(V::set(args.weights[head + i]), match, V::load(args.scores + c)));
      }
  }
}

template <class V>
void index_scores(const IndexArgs& args) {
  switch (args.type) {
    case Storage::f16:
      return index_leaf<V, Storage::f16>(args);
    case Storage::bf16:
      return index_leaf<V, Storage::bf16>(args);
    case Storage::q8_0:
      return index_leaf<V, Storage::q8_0>(args);
    default:
      return index_leaf<V, Storage::f32>(args);
  }
}

template <class V>
void merge(float* into, const float* from, int d) {
  const StateView a(into, d), b(const_cast<float*>(from), d);
  if (V::sum(V::load(b.l)) == 0) return;  // empty: any other state has its largest key's weight of 1
  if (V::sum(V::load(a.l)) == 0) {
    __builtin_memcpy(into, from, static_cast<std::size_t>(a.m + 1 - a.o) * sizeof(float));
    return;
  }
  const float m = *a.m > *b.m ? *a.m : *b.m;
  const auto keep_a = exp2<V>(V::set(*a.m - m)), keep_b = exp2<V>(V::set(*b.m - m));
  *a.m = m;
  for (float *x = a.o, *y = b.o; x <= a.l; x += 16, y += 16)
    V::store(x, V::fma(V::load(y), keep_b, V::mul(V::load(x), keep_a)));
}

template <class V>
void finish(const float* state, int d, const float* sink, float* out) {
  const StateView at(const_cast<float*>(state), d);
  float l = V::sum(V::load(at.l)), factor = 1.0f;
  if (sink && *sink > kMinusInfinity) {  // one more element (sink, 1, 0)
    const float s = *sink * kLog2e, m = *at.m > s ? *at.m : s;
    float weights[2][16];
    V::store(weights[0], exp2<V>(V::set(*at.m - m)));
    V::store(weights[1], exp2<V>(V::set(s - m)));
    factor = weights[0][0];
    l = __builtin_fmaf(l, factor, weights[1][0]);
  }
  if (l == 0) {  // saw nothing
    __builtin_memset(out, 0, static_cast<std::size_t>(d) * sizeof(float));
    return;
  }
  for (int i = 0; i < d; ++i) out[i] = at.o[i] * factor / l;
}

}  // namespace
}  // namespace fourfold::simd
