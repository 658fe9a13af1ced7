// Scan: each output needs every earlier input, in order, through a state of fixed size.
//
//   Scan retention{ScalarDecay{}};
//   status s = retention.on(reference).run(ScanTokens{q, k, v, alpha}, out, states);
//
// For each sequence and head, token after token: S <- transition(token) S + update(token), then out = S^T q.
// `reference` computes that sentence in double, `reference_f32` in float. A pool shares out heads and sequences; rules
// whose transition is a scalar run in chunks of kChunk tokens there (scan_drivers.hpp), others token by token.
#pragma once

#include <fourfold/affine.hpp>
#include <fourfold/executor.hpp>
#include <fourfold/load.hpp>
#include <fourfold/scan_drivers.hpp>
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
  // states [sequences * heads, key dim * value dim]: read first, left as the last token made them, always float32; no
  // data: every sequence starts from 0.
  template <class Q, class K, class V>
  status run(const ScanTokens<Q, K, V>& tokens, const Heads<Rows<float>>& out, Rows<float> states,
             std::span<const int> sequences) const {
    static_assert(Matrix<Q> && Matrix<K> && Matrix<V>, "Load needs `operator()(row, column)`, `rows` and `columns`");
    FOURFOLD_TRY(detail::check_scan(tokens, out, states, sequences));
    const int heads = tokens.k.heads, count = static_cast<int>(sequences.size()) - 1;
    for_each(executor_, count * heads, [&](int job) {
      const detail::HeadScan scan{rule_, tokens, out, job % heads, sequences[job / heads], sequences[job / heads + 1]};
      float* state = states.data ? states.row(job).data() : nullptr;
      if constexpr (ParallelFor<X> && kTransition<R> <= Transition::scalar) {
        scan.in_chunks(state);
      } else {
        scan.template by_token<real_on<X, float>>(state);
      }
    });
    return {};
  }
  // One sequence.
  template <class Q, class K, class V>
  status run(const ScanTokens<Q, K, V>& tokens, const Heads<Rows<float>>& out, Rows<float> states = {}) const {
    const int whole[] = {0, tokens.k.tokens()};
    return run(tokens, out, states, whole);
  }

 private:
  R rule_;
  Held<X> executor_;
};

}  // namespace fourfold
