// One head of one sequence through a scan, token by token or in chunks.
//
// In a chunk of C tokens that meets the state S (C = kChunk, from multiples of kChunk in the sequence; w(j, i] is the
// product of the decays of tokens j + 1 .. i, made as such: a quotient or a difference of logarithms of prefix products
// loses everything after one strong decay):
//   out_i = w(start, i] S^T q_i + sum_{j <= i} w(j, i] (q_i . k_j) v_j      S <- w(start, C] S + sum_j w(j, C] k_j
//   v_j^T
// Bytes per token: q, k, v and out; S stays in cache. The C^2 dots bind.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fourfold/affine.hpp>
#include <fourfold/fold_checks.hpp>
#include <fourfold/load.hpp>
#include <fourfold/math.hpp>
#include <fourfold/tensor.hpp>
#include <span>
#include <vector>

namespace fourfold {

template <class Q, class K, class V>
struct ScanTokens {
  Heads<Q> q;                 // [tokens, heads, key dim]
  Heads<K> k;                 // [tokens, heads, key dim]
  Heads<V> v;                 // [tokens, heads, value dim]
  Rows<const float> alpha{};  // [tokens, heads] decays; no data: 1
  Rows<const float> beta{};   // [tokens, heads] strengths; no data: 1
};
template <class Q, class K, class V>
ScanTokens(Heads<Q>, Heads<K>, Heads<V>, Rows<const float> = {}, Rows<const float> = {}) -> ScanTokens<Q, K, V>;

namespace detail {

template <class Q, class K, class V>
status check_scan(const ScanTokens<Q, K, V>& t, const Heads<Rows<float>>& out, Rows<float> states,
                  std::span<const int> sequences) {
  if (t.k.heads < 1 || t.q.heads < 1 || t.v.heads < 1 || out.heads < 1)
    return {Code::invalid_argument, "scan: every operand needs at least 1 head"};
  if (t.q.heads != t.k.heads) return mismatch("scan: query heads", t.q.heads, "the key heads", t.k.heads);
  if (t.v.heads != t.k.heads) return mismatch("scan: value heads", t.v.heads, "the key heads", t.k.heads);
  if (out.heads != t.k.heads) return mismatch("scan: output heads", out.heads, "the key heads", t.k.heads);
  if (t.q.dim() != t.k.dim()) return mismatch("scan: query dimension", t.q.dim(), "the key dimension", t.k.dim());
  if (out.dim() != t.v.dim()) return mismatch("scan: output dimension", out.dim(), "the value dimension", t.v.dim());
  for (int tokens : {t.q.tokens(), t.v.tokens(), out.tokens()})
    if (tokens != t.k.tokens()) return mismatch("scan: queries, values or outputs", tokens, "the keys", t.k.tokens());
  const auto fits = [&](Rows<const float> gate) {
    return !gate.data || (gate.rows == t.k.tokens() && gate.columns == t.k.heads);
  };
  if (!fits(t.alpha) || !fits(t.beta)) return {Code::invalid_argument, "scan: alpha and beta must be [tokens, heads]"};
  FOURFOLD_TRY(check_offsets("scan: offsets", sequences, t.k.tokens()));
  const std::int64_t rows = (static_cast<std::int64_t>(sequences.size()) - 1) * t.k.heads;
  if (states.data && (states.rows != rows || states.columns != std::int64_t{t.k.dim()} * t.v.dim()))
    return {Code::invalid_argument, "scan: states must be [sequences * heads, key dim * value dim]"};
  return {};
}

template <class R, class Q, class K, class V>
class HeadScan {
 public:
  static constexpr int kChunk = 64;

  HeadScan(const R& rule, const ScanTokens<Q, K, V>& tokens, const Heads<Rows<float>>& out, int head, int first,
           int end)
      : rule_(rule), in_(tokens), out_(out), head_(head), first_(first), end_(end) {}

  // The definition. state: [key dim, value dim] floats to start from and to leave behind, or null.
  template <class T>
  void by_token(float* state) const {
    std::vector<T> memory = load<T>(state);
    const Rows<T> s(memory.data(), keys(), values());
    std::vector<float> k(keys()), v(values());
    for (int t = first_; t < end_; ++t) {
      const Token token = token_at(t, k.data(), v.data());
      rule_.transition(token).apply(s);
      const RankOne update = rule_.update(token);
      update.add_to(s);
      for (int j = 0; j < values(); ++j) {
        T sum = 0;
        for (int i = 0; i < keys(); ++i) sum += static_cast<T>(in_.q(t, head_, i)) * s(i, j);
        out_(t, head_, j) = static_cast<float>(sum);
      }
    }
    store(memory, state);
  }

  void in_chunks(float* state) const {
    std::vector<float> memory = load<float>(state), k(kChunk * keys()), v(kChunk * values()), q(keys()), sum(values());
    const Rows<float> s(memory.data(), keys(), values());
    float decay[kChunk];
    std::vector<RankOne> updates;
    for (int begin = first_; begin < end_; begin += kChunk) {
      const int count = end_ - begin < kChunk ? end_ - begin : kChunk;
      updates.clear();
      for (int i = 0; i < count; ++i) {
        const Token token = token_at(begin + i, &k[i * keys()], &v[i * values()]);
        decay[i] = scalar_of(rule_.transition(token));
        updates.push_back(rule_.update(token));
      }
      for (int i = 0; i < count; ++i) {
        read(in_.q.matrix, begin + i, std::int64_t{head_} * keys(), keys(), q.data());
        std::fill(sum.begin(), sum.end(), 0.f);
        float w = 1;
        for (int j = i; j >= 0; w *= decay[j], --j)
          add(sum, w * updates[j].b * dot(q.data(), updates[j].u.data(), keys()), updates[j].v.data());
        for (int d = 0; d < keys(); ++d) add(sum, w * q[d], s.row(d).data());
        for (int c = 0; c < values(); ++c) out_(begin + i, head_, c) = sum[c];
      }
      advance(s, decay, updates);
    }
    store(memory, state);
  }

 private:
  int keys() const { return in_.k.dim(); }
  int values() const { return in_.v.dim(); }

  Token token_at(int t, float* k, float* v) const {
    read(in_.k.matrix, t, std::int64_t{head_} * keys(), keys(), k);
    read(in_.v.matrix, t, std::int64_t{head_} * values(), values(), v);
    return {{k, static_cast<std::size_t>(keys())},
            {v, static_cast<std::size_t>(values())},
            in_.alpha.data ? in_.alpha(t, head_) : 1.f,
            in_.beta.data ? in_.beta(t, head_) : 1.f};
  }
  template <class T>
  std::vector<T> load(const float* state) const {
    std::vector<T> memory(static_cast<std::size_t>(keys()) * values());
    if (state) std::copy_n(state, memory.size(), memory.begin());
    return memory;
  }
  template <class T>
  static void store(const std::vector<T>& memory, float* state) {
    if (state)
      for (std::size_t i = 0; i < memory.size(); ++i) state[i] = static_cast<float>(memory[i]);
  }
  static float scalar_of(Identity) { return 1; }
  static float scalar_of(Scaled scaled) { return scaled.a; }
  template <class A, class B>
  static float scalar_of(const Product<A, B>& product) {
    return scalar_of(product.second) * scalar_of(product.first);
  }
  static void add(std::span<float> sum, float weight, const float* row) {
    for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += weight * row[c];
  }
  static void advance(Rows<float> s, const float* decay, const std::vector<RankOne>& updates) {
    float w[kChunk], whole = 1;
    for (int j = static_cast<int>(updates.size()) - 1; j >= 0; whole *= decay[j], --j) w[j] = whole * updates[j].b;
    for (std::int64_t d = 0; d < s.rows; ++d) {
      for (float& x : s.row(d)) x *= whole;
      for (std::size_t j = 0; j < updates.size(); ++j) add(s.row(d), w[j] * updates[j].u[d], updates[j].v.data());
    }
  }

  const R& rule_;
  const ScanTokens<Q, K, V>& in_;
  const Heads<Rows<float>>& out_;
  int head_, first_, end_;
};

}  // namespace detail

}  // namespace fourfold
