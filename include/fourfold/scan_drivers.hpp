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
#include <fourfold/load.hpp>
#include <fourfold/math.hpp>
#include <fourfold/scan_tokens.hpp>
#include <fourfold/tensor.hpp>
#include <span>
#include <vector>

namespace fourfold::detail {

// One head, and of it the value channels [column, column + width): a strip of the state's columns.
template <class R, class Q, class K, class V>
class HeadScan {
 public:
  static constexpr int kChunk = 64;

  HeadScan(const R& rule, const ScanTokens<Q, K, V>& tokens, const Heads<Rows<float>>& out, int head, int first,
           int end, int column, int width)
      : rule_(rule),
        in_(tokens),
        out_(out),
        head_(head),
        first_(first),
        end_(end),
        column_(column),
        width_(width),
        ones_(static_cast<std::size_t>(std::max(keys(), width)), 1.f),
        zeros_(static_cast<std::size_t>(keys())) {}

  // The definition. state: the head's [key dim, value dim] floats to start from and to leave behind, or null.
  template <class T>
  void by_token(float* state) const {
    std::vector<T> memory = load<T>(state), sum(width_);
    const Rows<T> s(memory.data(), keys(), width_);
    Operands operands(*this);
    for (int t = first_; t < end_; ++t) {
      const Token token = operands.at(t);
      if constexpr (HasBonus<R>) read_out(s, token, sum);
      rule_.transition(token).apply(s);
      const RankOne update = rule_.update(token);
      update.add_to(s);
      if constexpr (HasBonus<R>) {
        const T bonus = rule_.template bonus<T>(token);
        for (int j = 0; j < width_; ++j) sum[j] += bonus * static_cast<T>(token.v[j]);
      } else {
        read_out(s, token, sum);
      }
      for (int j = 0; j < width_; ++j) out_(t, head_, column_ + j) = static_cast<float>(sum[j]);
    }
    store(memory, state);
  }

  void in_chunks(float* state) const {
    std::vector<float> memory = load<float>(state), k(kChunk * keys()), v(kChunk * width_), sum(width_);
    const Rows<float> s(memory.data(), keys(), width_);
    Operands operands(*this);
    float decay[kChunk];
    std::vector<RankOne> updates;
    for (int begin = first_; begin < end_; begin += kChunk) {
      const int count = end_ - begin < kChunk ? end_ - begin : kChunk;
      updates.clear();
      for (int i = 0; i < count; ++i) {
        operands.k = {&k[i * keys()], operands.k.size()}, operands.v = {&v[i * width_], operands.v.size()};
        const Token token = operands.at(begin + i);
        decay[i] = scalar_of(rule_.transition(token));
        updates.push_back(rule_.update(token));
      }
      for (int i = 0; i < count; ++i) {
        const std::span<const float> q = operands.query(begin + i);
        std::fill(sum.begin(), sum.end(), 0.f);
        float w = 1;
        for (int j = i; j >= 0; w *= decay[j], --j)
          add(sum, w * updates[j].b * dot(q.data(), updates[j].u.data(), keys()), updates[j].v.data());
        for (int d = 0; d < keys(); ++d) add(sum, w * q[d], s.row(d).data());
        for (int c = 0; c < width_; ++c) out_(begin + i, head_, column_ + c) = sum[c];
      }
      advance(s, decay, updates);
    }
    store(memory, state);
  }

 private:
  // The vectors of one token as floats.
  struct Operands {
    const HeadScan& of;
    std::vector<float> memory;
    std::span<float> q, k, v;

    explicit Operands(const HeadScan& of) : of(of), memory(2 * of.keys() + of.width_) {
      const auto n = static_cast<std::size_t>(of.keys());
      q = {memory.data(), n}, k = {q.data() + n, n}, v = {k.data() + n, static_cast<std::size_t>(of.width_)};
    }
    std::span<const float> query(int t) const {
      read(of.in_.q.matrix, t, std::int64_t{of.key_head()} * of.keys(), of.keys(), q.data());
      return q;
    }
    Token at(int t) const {
      const auto& in = of.in_;
      const std::int64_t channel = std::int64_t{of.head_} * in.v.dim() + of.column_;
      read(in.k.matrix, t, std::int64_t{of.key_head()} * of.keys(), of.keys(), k.data());
      read(in.v.matrix, t, channel, of.width_, v.data());
      const auto keys = [&](Rows<const float> rows, const std::vector<float>& none) {
        return rows.data ? std::span(&rows(t, std::int64_t{of.head_} * of.keys()), k.size())
                         : std::span(none.data(), k.size());
      };
      return {.k = k,
              .v = v,
              .alpha = in.alpha.data ? in.alpha(t, of.head_) : 1.f,
              .beta = in.beta.data ? in.beta(t, of.head_) : 1.f,
              .q = query(t),
              .gate = keys(in.gate, of.ones_),
              .a = keys(in.a, of.zeros_),
              .b = keys(in.b, of.zeros_),
              .dt = in.dt.data ? std::span(&in.dt(t, channel), v.size()) : std::span(of.ones_.data(), v.size()),
              .head = of.head_,
              .channel = static_cast<int>(channel)};
    }
  };

  int keys() const { return in_.k.dim(); }
  int key_head() const { return head_ / (in_.v.heads / in_.k.heads); }

  template <class T>
  static void read_out(Rows<T> s, const Token& token, std::vector<T>& sum) {
    std::fill(sum.begin(), sum.end(), T(0));
    for (std::int64_t i = 0; i < s.rows; ++i) {
      const T q = static_cast<T>(token.q[i]);
      for (std::int64_t j = 0; j < s.columns; ++j) sum[j] += q * s(i, j);
    }
  }
  template <class T>
  std::vector<T> load(const float* state) const {
    std::vector<T> memory(static_cast<std::size_t>(keys()) * width_);
    if (state)
      for (int i = 0; i < keys(); ++i)
        std::copy_n(state + std::int64_t{i} * in_.v.dim() + column_, width_, &memory[i * width_]);
    return memory;
  }
  template <class T>
  void store(const std::vector<T>& memory, float* state) const {
    if (!state) return;
    for (int i = 0; i < keys(); ++i)
      for (int j = 0; j < width_; ++j)
        state[std::int64_t{i} * in_.v.dim() + column_ + j] = static_cast<float>(memory[i * width_ + j]);
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
  int head_, first_, end_, column_, width_;
  std::vector<float> ones_, zeros_;
};

}  // namespace fourfold::detail
