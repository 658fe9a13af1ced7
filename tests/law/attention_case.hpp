// Random attention operands and a two-pass softmax in double that shares no code with the library.
#pragma once

#include <cmath>
#include <fourfold/fold.hpp>

#include "random.hpp"

namespace fourfold::test {

struct AttentionCase {
  int queries, keys, heads, kv_heads, dim, width;
  std::vector<float> q, k, v, out, lse;

  AttentionCase(Random& random, int queries, int keys, int heads, int kv_heads, int dim, int width)
      : queries(queries), keys(keys), heads(heads), kv_heads(kv_heads), dim(dim), width(width) {
    q = random.normals(std::size_t(queries) * heads * dim);
    k = random.normals(std::size_t(keys) * kv_heads * dim);
    v = random.normals(std::size_t(keys) * kv_heads * width);
    out.assign(std::size_t(queries) * heads * width, -7.f);
    lse.assign(std::size_t(queries) * heads, -7.f);
  }
  Heads<Rows<const float>> q_view() const { return {{q.data(), queries, heads * dim}, heads}; }
  Heads<Rows<const float>> k_view() const { return {{k.data(), keys, kv_heads * dim}, kv_heads}; }
  Heads<Rows<const float>> v_view() const { return {{v.data(), keys, kv_heads * width}, kv_heads}; }
  Heads<Rows<float>> out_view() { return {{out.data(), queries, heads * width}, heads}; }
  LseRows lse_view() { return {lse.data(), queries, heads}; }

  template <class F, class X>
  status run(const F& fold, const X& executor) {
    return fold.on(executor).attend(q_view(), k_view(), v_view(), out_view(), lse_view());
  }
};

// One query token, one head: exact weights from the largest score down. `see(key)` and `score(dot, key)` are the mask
// and the score; q, k, v point at this head's first vectors and `stride`s lead to the next key's.
struct Exact {
  std::vector<double> out;
  double lse;
};
template <class See, class Score>
Exact exact_attention(const AttentionCase& c, int query, int head, See see, Score score, double sink = -INFINITY) {
  const int kv = head / (c.heads / c.kv_heads);
  double most = sink, sum = 0;
  std::vector<double> s(c.keys, -INFINITY);
  for (int key = 0; key < c.keys; ++key) {
    if (!see(key)) continue;
    double dot = 0;
    for (int d = 0; d < c.dim; ++d)
      dot += double(c.q[(query * c.heads + head) * c.dim + d]) * double(c.k[(key * c.kv_heads + kv) * c.dim + d]);
    s[key] = score(dot, key);
    most = std::max(most, s[key]);
  }
  Exact exact{std::vector<double>(c.width, 0.0), -INFINITY};
  if (most == -INFINITY) return exact;
  for (double x : s) sum += std::exp(x - most);
  sum += std::exp(sink - most);
  for (int key = 0; key < c.keys; ++key)
    for (int d = 0; d < c.width; ++d)
      exact.out[d] += std::exp(s[key] - most) / sum * double(c.v[(key * c.kv_heads + kv) * c.width + d]);
  exact.lse = most + std::log(sum);
  return exact;
}

}  // namespace fourfold::test
