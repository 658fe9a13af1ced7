// Scan: each output needs every earlier input, in order, through a state of fixed size.
//
//   Scan retention{ScalarDecay{}};
//   status s = retention.on(reference).run(ScanTokens{q, k, v, alpha}, out, states);
//
// For each sequence and head, token after token: S <- transition(token) S + update(token), then out = S^T q.
// `reference` computes that sentence in double, `reference_f32` in float. A pool shares out sequences, heads and strips
// of the state's columns; rules made of the operators that scan_form.hpp lists run in the library's kernels there:
// fewer than kScanChunk tokens one after the other, more in chunks; so do Mamba-1's. Published rules: mechanisms.hpp.
#pragma once

#include <fourfold/affine.hpp>
#include <fourfold/executor.hpp>
#include <fourfold/load.hpp>
#include <fourfold/scan_drivers.hpp>
#include <fourfold/scan_tokens.hpp>
#include <fourfold/tensor.hpp>

namespace fourfold {

template <class R, class X>
class ScanOn;

template <class R>
struct Scan {
  static_assert(HasTransition<R>, "Scan rule needs `transition(const Token&)` -> an operator such as Scaled");
  static_assert(HasUpdate<R>, "Scan rule needs `update(const Token&)` -> RankOne");

  R rule;

  constexpr explicit Scan(R rule) : rule(rule) {}

  template <class X>
  constexpr ScanOn<R, X> on(const X& executor) const {
    return {rule, executor};
  }
};

template <class R, class X>
class ScanOn {
 public:
  constexpr ScanOn(const R& rule, const X& executor) : rule_(rule), executor_(executor) {}

  // tokens: see ScanTokens   out [tokens, heads, value dim]
  // states [slots * heads, key dim * value dim]: read first, left as the last token made them, always float32; no data:
  // every sequence starts from 0.
  template <class Q, class K, class V>
  status run(const ScanTokens<Q, K, V>& tokens, const Heads<Rows<float>>& out, Rows<float> states,
             const ScanSequences& sequences) const {
    static_assert(Matrix<Q> && Matrix<K> && Matrix<V>, "Load needs `operator()(row, column)`, `rows` and `columns`");
    FOURFOLD_TRY(detail::check_scan(tokens, out, states, sequences));
    const int heads = tokens.v.heads, width = tokens.v.dim(), jobs = sequences.count() * heads;
    const int strip = ParallelFor<X> && jobs < kManyJobs ? kScanPanel : width;
    const int strips = strip > 0 ? (width + strip - 1) / strip : 0;
    for_each(executor_, jobs * strips, [&](int job) {
      const int sequence = job / strips / heads, head = job / strips % heads, column = job % strips * strip;
      const detail::HeadScan scan{rule_,
                                  tokens,
                                  out,
                                  head,
                                  sequences.offsets[sequence],
                                  sequences.offsets[sequence + 1],
                                  column,
                                  std::min(strip, width - column)};
      float* state = states.data ? states.row(std::int64_t{sequences.slot(sequence)} * heads + head).data() : nullptr;
      if constexpr (ParallelFor<X>) {
        scan.run(state);
      } else {
        scan.template by_token<real_on<X, float>>(state);
      }
    });
    return {};
  }
  template <class Q, class K, class V>
  status run(const ScanTokens<Q, K, V>& tokens, const Heads<Rows<float>>& out, Rows<float> states,
             std::span<const int> offsets) const {
    return run(tokens, out, states, ScanSequences{offsets});
  }
  // One sequence.
  template <class Q, class K, class V>
  status run(const ScanTokens<Q, K, V>& tokens, const Heads<Rows<float>>& out, Rows<float> states = {}) const {
    const int whole[] = {0, tokens.k.tokens()};
    return run(tokens, out, states, ScanSequences{whole});
  }

 private:
  static constexpr int kManyJobs = 16;  // below: strips of columns are jobs of their own

  R rule_;
  Held<X> executor_;
};

}  // namespace fourfold
