// One head of one sequence through a scan: token by token, which is the definition, or through the kernels of
// scan_kernel.hpp, in blocks of kBlock tokens from the sequence's start.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fourfold/affine.hpp>
#include <fourfold/affine_map.hpp>
#include <fourfold/load.hpp>
#include <fourfold/scan_form.hpp>
#include <fourfold/scan_kernel.hpp>
#include <fourfold/scan_tokens.hpp>
#include <fourfold/tensor.hpp>
#include <span>
#include <vector>

namespace fourfold::detail {

// One head, and of it the value channels [column, column + width): a strip of the state's columns.
template <class R, class Q, class K, class V>
class HeadScan {
 public:
  static constexpr int kBlock = 256;  // a multiple of kScanChunk

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

  // As a pool runs it: through the kernels where the rule has a form that they take.
  void run(float* state) const {
    if constexpr (kHasScanForm<transition_of<R>>) {
      fast(state);
    } else if constexpr (std::is_same_v<transition_of<R>, Discretised> && !HasBonus<R>) {
      by_channel(state);
    } else {
      by_token<float>(state);
    }
  }

  // These tokens as one element of the affine family, absorbed into an identity. Writes outputs as from a state of 0.
  void lift(AffineMap<float>& element) const {
    run(element.b().data);
    const Operands operands(*this);
    for (int t = first_; t < end_; ++t) element.absorb(rule_.transition(operands.at(t)));
  }

  // The same in float through the kernels, but for blocks with a token whose operators have no form that those take.
  void fast(float* state) const {
    std::vector<float> own;
    if (!state) own.resize(static_cast<std::size_t>(keys()) * in_.v.dim()), state = own.data();
    std::vector<float> scratch(scan_scratch_floats(keys(), width_));
    std::vector<Operands> operands;
    operands.reserve(kBlock);
    for (int i = 0; i < kBlock && i < end_ - first_; ++i) operands.emplace_back(*this);
    std::vector<ScanToken> tokens(operands.size());
    for (int begin = first_; begin < end_; begin += kBlock) {
      ScanRun run{tokens.data(),   std::min(kBlock, end_ - begin),
                  keys(),          width_,
                  state + column_, in_.v.dim(),
                  false,           HasBonus<R>,
                  Erase::none,     scratch.data()};
      bool lowered = true;
      for (int i = 0; lowered && i < run.count; ++i)
        lowered = lower(operands[i].at(begin + i), begin + i, i == 0, tokens[i], run);
      if (lowered) {
        scan_chunks(run);
      } else {
        HeadScan(rule_, in_, out_, head_, begin, begin + run.count, column_, width_).template by_token<float>(state);
      }
    }
  }

  // A rule of Mamba-1's shape through the kernel of channels; token by token if one of its updates is another.
  void by_channel(float* state) const {
    std::vector<float> own, rate(static_cast<std::size_t>(keys()) * width_);
    if (!state) own.resize(static_cast<std::size_t>(keys()) * in_.v.dim()), state = own.data();
    std::vector<Operands> operands;
    operands.reserve(kBlock);
    for (int i = 0; i < kBlock && i < end_ - first_; ++i) operands.emplace_back(*this);
    std::vector<ChannelToken> tokens(operands.size());
    for (int begin = first_; begin < end_; begin += kBlock) {
      const int count = std::min(kBlock, end_ - begin);
      for (int i = 0; i < count; ++i) {
        const Token token = operands[i].at(begin + i);
        const Discretised left = rule_.transition(token);
        const RankOne added = rule_.update(token);
        if (added.b != 1 || added.scale.data() != left.dt.data()) {
          HeadScan(rule_, in_, out_, head_, begin, end_, column_, width_).template by_token<float>(state);
          return;
        }
        if (begin + i == first_)
          for (int key = 0; key < keys(); ++key)
            for (int j = 0; j < width_; ++j) rate[key * width_ + j] = left.rate(left.channel + j, key);
        tokens[i] = {token.q.data(), added.u.data(), added.v.data(), left.dt.data(), &out_(begin + i, head_, column_)};
      }
      scan_channels({tokens.data(), count, keys(), width_, state + column_, in_.v.dim(), rate.data(), width_});
    }
  }

 private:
  // The vectors of one token as floats.
  struct Operands {
    const HeadScan& of;
    std::vector<float> memory;
    std::span<float> q, k, v;

    Operands(Operands&&) = default;  // a copy's spans would point into the original
    explicit Operands(const HeadScan& of) : of(of), memory(2 * of.keys() + of.width_) {
      const auto n = static_cast<std::size_t>(of.keys());
      q = {memory.data(), n}, k = {q.data() + n, n}, v = {k.data() + n, static_cast<std::size_t>(of.width_)};
    }
    // `count` numbers of a row: where they stand, if they stand there as floats, else copied to `to`.
    template <class M>
    static std::span<const float> row(const M& matrix, int t, std::int64_t column, std::span<float> to) {
      if constexpr (std::is_same_v<M, Rows<float>> || std::is_same_v<M, Rows<const float>>) {
        return {&matrix(t, column), to.size()};
      } else {
        read(matrix, t, column, static_cast<int>(to.size()), to.data());
        return to;
      }
    }
    Token at(int t) const {
      const auto& in = of.in_;
      const std::int64_t channel = std::int64_t{of.head_} * in.v.dim() + of.column_;
      const std::int64_t key = std::int64_t{of.key_head()} * of.keys();
      const auto keys = [&](Rows<const float> rows, const std::vector<float>& none) {
        return rows.data ? std::span(&rows(t, std::int64_t{of.head_} * of.keys()), k.size())
                         : std::span(none.data(), k.size());
      };
      return {.k = row(in.k.matrix, t, key, k),
              .v = row(in.v.matrix, t, channel, v),
              .alpha = in.alpha.data ? in.alpha(t, of.head_) : 1.f,
              .beta = in.beta.data ? in.beta(t, of.head_) : 1.f,
              .q = row(in.q.matrix, t, key, q),
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
  bool lower(const Token& token, int t, bool first, ScanToken& to, ScanRun& run) const {
    const RankOne update = rule_.update(token);
    ScanForm form{.key = update.u.data()};
    if (!update.scale.empty() || !add_form(rule_.transition(token), form)) return false;
    if (first) run.gated = form.gate != nullptr, run.erase = form.erase;
    to = {.q = token.q.data(),
          .k = update.u.data(),
          .v = update.v.data(),
          .gate = form.gate,
          .a = form.a,
          .b = form.b,
          .out = &out_(t, head_, column_),
          .decay = form.decay,
          .write = update.b,
          .erase = form.scale};
    if constexpr (HasBonus<R>) to.bonus = rule_.template bonus<float>(token);
    return run.gated == (form.gate != nullptr) && run.erase == form.erase;
  }

  const R& rule_;
  const ScanTokens<Q, K, V>& in_;
  const Heads<Rows<float>>& out_;
  int head_, first_, end_, column_, width_;
  std::vector<float> ones_, zeros_;
};

}  // namespace fourfold::detail
