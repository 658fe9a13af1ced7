// The segmented form of a scan: one long sequence cut into segments that run at the same time, as split-KV does for
// attention. Each segment is an element (M, B) of the affine family; combined in order they give every segment the
// state it starts from. For when heads are fewer than threads.
//
//   status s = run_segmented(Scan{rule}, pool, 8, tokens, out, states);
//
// Costs the scan twice, and for transitions with low rank also the forming of M, keys^2 more a token.
#pragma once

#include <fourfold/affine_map.hpp>
#include <fourfold/scan.hpp>
#include <vector>

namespace fourfold {

// Operands as those of ScanOn::run for one sequence; segments at least 1.
template <class R, class X, class Q, class K, class V>
status run_segmented(const Scan<R>& scan, const X& pool, int segments, const ScanTokens<Q, K, V>& tokens,
                     const Heads<Rows<float>>& out, Rows<float> states = {}) {
  const int count = tokens.k.tokens(), heads = tokens.v.heads, keys = tokens.k.dim(), values = tokens.v.dim();
  const int whole[] = {0, count};
  FOURFOLD_TRY(detail::check_scan(tokens, out, states, ScanSequences{whole}));
  if (segments < 1)
    return {Code::invalid_argument, "scan: segments is " + std::to_string(segments) + ", must be at least 1"};

  const std::size_t state = static_cast<std::size_t>(keys) * static_cast<std::size_t>(values);
  const auto head_of = [&](int job) { return job % heads; };
  const auto part = [&](int job) {  // in whole chunks
    const std::int64_t chunks = (count + kScanChunk - 1) / kScanChunk;
    const auto bound = [&](std::int64_t s) {
      return static_cast<int>(std::min<std::int64_t>(count, chunks * s / segments * kScanChunk));
    };
    return detail::HeadScan<R, Q, K, V>(scan.rule, tokens, out, head_of(job), bound(job / heads),
                                        bound(job / heads + 1), 0, values);
  };
  std::vector<AffineMap<float>> elements(static_cast<std::size_t>((segments - 1) * heads),
                                         AffineMap<float>(keys, values));
  for_each(pool, (segments - 1) * heads, [&](int job) { part(job).lift(elements[static_cast<std::size_t>(job)]); });

  std::vector<float> starts(static_cast<std::size_t>(segments) * static_cast<std::size_t>(heads) * state);
  const auto start = [&](int job) { return &starts[static_cast<std::size_t>(job) * state]; };
  for_each(pool, heads, [&](int head) {
    if (states.data) std::copy_n(states.row(head).data(), state, start(head));
    for (int job = head; job < (segments - 1) * heads; job += heads) {
      std::copy_n(start(job), state, start(job + heads));
      elements[static_cast<std::size_t>(job)].apply({start(job + heads), keys, values});
    }
  });
  for_each(pool, segments * heads, [&](int job) { part(job).run(start(job)); });
  if (states.data)
    for (int head = 0; head < heads; ++head)
      std::copy_n(start((segments - 1) * heads + head), state, states.row(head).data());
  return {};
}

}  // namespace fourfold
